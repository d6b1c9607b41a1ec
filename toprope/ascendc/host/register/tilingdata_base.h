// Tiling data written with macros: a class with set_ and get_ functions that lays its fields out as the kernel's struct has them.
// Pages: Utils-API/Tiling数据结构注册/*.md. Each field stands at a multiple of its element's size, a nested struct at a multiple of 8,
// and the whole is a multiple of 8.
#pragma once

#include <cstdint>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "../securec.h"

namespace optiling {

using std::string;
using std::vector;

class TilingDef;

// Where a field lies in the buffer, and where its value is kept, counted from the object's TilingDef.
struct TilingField {
    const char *type, *name;
    size_t element_bytes, count, offset;
    ptrdiff_t kept;
    bool nested;
};

class TilingDef {
public:
    TilingDef(const char* name, const char* file, int line) : name_(name), file_(file), line_(line) {}
    virtual ~TilingDef() = default;

    size_t GetDataSize() const { return (end_ + 7) / 8 * 8; }
    // Too small a buffer takes nothing, as the page demands that capacity covers the data.
    void SaveToBuffer(void* to, size_t capacity) const {
        if (to == nullptr || capacity < GetDataSize()) return;
        std::memset(to, 0, GetDataSize());
        save(static_cast<uint8_t*>(to));
        last_saved() = this->name_;
    }
    void SetDataPtr(void*) {}
    const char* GetTilingClassName() const { return name_; }
    const std::vector<TilingField>& fields() const { return fields_; }
    // The object that a nested field is; null for other fields.
    const TilingDef* nested(const TilingField& field) const {
        return field.nested ? reinterpret_cast<const TilingDef*>(reinterpret_cast<const uint8_t*>(this) + field.kept) : nullptr;
    }
    const char* file() const { return file_; }
    int line() const { return line_; }
    // The struct that was saved last: what the tiling bytes of the present call hold.
    static const char*& last_saved() {
        static const char* name = nullptr;
        return name;
    }

protected:
    template <class T>
    void add_field(const char* type, const char* name, const T* kept, size_t count) {
        place(type, name, sizeof(T), sizeof(T), count, reinterpret_cast<const uint8_t*>(kept), false);
    }
    void add_nested(const char* type, const char* name, const TilingDef* kept) {
        place(type, name, kept->GetDataSize(), 8, 1, reinterpret_cast<const uint8_t*>(kept), true);
    }
    // Writes the fields into bytes that are zero.
    virtual void save(uint8_t* to) const {
        for (const TilingField& field : fields_) {
            const auto* kept = reinterpret_cast<const uint8_t*>(this) + field.kept;
            if (const TilingDef* inner = nested(field); inner != nullptr)
                inner->save(to + field.offset);
            else
                std::memcpy(to + field.offset, kept, field.element_bytes * field.count);
        }
    }
    size_t end_ = 0;

private:
    void place(const char* type, const char* name, size_t bytes, size_t align, size_t count, const uint8_t* kept, bool nested) {
        const size_t offset = (end_ + align - 1) / align * align;
        fields_.push_back({type, name, bytes, count, offset, kept - reinterpret_cast<const uint8_t*>(this), nested});
        end_ = offset + bytes * count;
    }
    const char *name_, *file_;
    int line_;
    std::vector<TilingField> fields_;
};

using TilingMaker = std::function<std::shared_ptr<TilingDef>()>;
// Operator type, or type_key for a key of its own -> the class that was registered for it.
inline std::map<std::string, TilingMaker>& tiling_classes() {
    static std::map<std::string, TilingMaker> all;
    return all;
}
inline int register_tiling(const char* key, TilingMaker maker) {
    tiling_classes()[key] = std::move(maker);
    return 0;
}

}  // namespace optiling

#define BEGIN_TILING_DATA_DEF(class_name)             \
    class class_name : public ::optiling::TilingDef { \
    public:                                           \
        class_name() : ::optiling::TilingDef(#class_name, __FILE__, __LINE__) {}
#define TILING_DATA_FIELD_DEF(data_type, field_name)               \
public:                                                            \
    data_type get_##field_name() const { return field_name; }      \
    void set_##field_name(data_type value) { field_name = value; } \
    data_type field_name = 0;                                      \
                                                                   \
private:                                                           \
    int toprope_place_##field_name = (this->add_field(#data_type, #field_name, &field_name, 1), 0);
#define TILING_DATA_FIELD_DEF_ARR(arr_type, arr_size, field_name)                                       \
public:                                                                                                 \
    arr_type* get_##field_name() { return field_name; }                                                 \
    const arr_type* get_##field_name() const { return field_name; }                                     \
    void set_##field_name(const arr_type* value) { std::memcpy(field_name, value, sizeof field_name); } \
    arr_type field_name[arr_size] = {};                                                                 \
                                                                                                        \
private:                                                                                                \
    int toprope_place_##field_name = (this->add_field(#arr_type, #field_name, field_name, arr_size), 0);
#define TILING_DATA_FIELD_DEF_STRUCT(struct_type, field_name) \
public:                                                       \
    struct_type field_name;                                   \
                                                              \
private:                                                      \
    int toprope_place_##field_name = (this->add_nested(#struct_type, #field_name, &field_name), 0);
#define END_TILING_DATA_DEF \
    }                       \
    ;
#define REGISTER_TILING_DATA_CLASS(op_type, class_name)     \
    static const int toprope_tiling_##op_type##class_name = \
        ::optiling::register_tiling(#op_type, [] { return std::make_shared<class_name>(); });
