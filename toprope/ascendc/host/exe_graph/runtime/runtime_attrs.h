// The attributes of a node, by their place in the operator's definition.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "continuous_vector.h"

namespace gert {

class RuntimeAttrs {
public:
    size_t GetAttrNum() const { return values_.size(); }
    // Address of attribute `index`: the value itself, the characters of a string, or a ContinuousVector. Null if it was not given.
    template <typename T>
    const T* GetAttrPointer(size_t index) const {
        return index < values_.size() && values_[index].given ? reinterpret_cast<const T*>(values_[index].address()) : nullptr;
    }
    const int64_t* GetInt(size_t index) const { return GetAttrPointer<int64_t>(index); }
    const float* GetFloat(size_t index) const { return GetAttrPointer<float>(index); }
    const bool* GetBool(size_t index) const { return GetAttrPointer<bool>(index); }
    const char* GetStr(size_t index) const { return GetAttrPointer<char>(index); }
    const TypedContinuousVector<int64_t>* GetListInt(size_t index) const { return GetAttrPointer<TypedContinuousVector<int64_t>>(index); }
    const TypedContinuousVector<float>* GetListFloat(size_t index) const { return GetAttrPointer<TypedContinuousVector<float>>(index); }
    const ContinuousVectorVector* GetListListInt(size_t index) const { return nested(index); }
    const ContinuousVectorVector* GetListListFloat(size_t index) const { return nested(index); }

    // ---- filled by the caller of the library, one call for each attribute in order -----------------------------------------------

    void add_absent() { values_.emplace_back(); }
    void add_bytes(const void* data, size_t bytes) {
        Value value;
        value.given = true;
        value.words.assign(bytes / 8 + 2, 0);  // a reader of a wider type, or of a string's end, sees zeros
        std::memcpy(value.words.data(), data, bytes);
        values_.push_back(std::move(value));
    }
    void add_list(const void* data, size_t count, size_t element_bytes) {
        Value value;
        value.given = true;
        value.words = list_words(data, count, element_bytes);
        values_.push_back(std::move(value));
    }
    void add_lists(const int64_t* data, const uint64_t* counts, size_t rows) {
        Value value;
        value.given = true;
        value.lists = std::make_shared<ContinuousVectorVector>();
        for (size_t i = 0; i < rows; data += counts[i++]) {
            value.rows.push_back(std::make_shared<std::vector<uint64_t>>(list_words(data, counts[i], sizeof(int64_t))));
            value.lists->rows_.push_back(reinterpret_cast<const ContinuousVector*>(value.rows.back()->data()));
        }
        values_.push_back(std::move(value));
    }

private:
    struct Value {
        bool given = false;
        std::vector<uint64_t> words;
        std::vector<std::shared_ptr<std::vector<uint64_t>>> rows;
        std::shared_ptr<ContinuousVectorVector> lists;
        const void* address() const { return lists != nullptr ? static_cast<const void*>(lists.get()) : words.data(); }
    };
    static std::vector<uint64_t> list_words(const void* data, size_t count, size_t element_bytes) {
        ContinuousVector head;
        head.capacity_ = head.size_ = count;
        std::vector<uint64_t> words(sizeof head / 8 + (count * element_bytes + 7) / 8 + 1, 0);
        std::memcpy(words.data(), &head, sizeof head);
        if (count != 0) std::memcpy(words.data() + sizeof head / 8, data, count * element_bytes);
        return words;
    }
    const ContinuousVectorVector* nested(size_t index) const { return index < values_.size() ? values_[index].lists.get() : nullptr; }
    std::vector<Value> values_;
};

}  // namespace gert
