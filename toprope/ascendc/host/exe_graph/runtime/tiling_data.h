// The room into which a tiling function writes what its kernel shall read.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <new>

namespace gert {

class TilingData {
public:
    TilingData(void* data, size_t capacity) : data_(data), capacity_(capacity) {}
    // Memory that begins with a TilingData and has room for `capacity` bytes behind it.
    static std::unique_ptr<uint8_t[]> CreateCap(size_t capacity) {
        auto memory = std::make_unique<uint8_t[]>(sizeof(TilingData) + capacity);
        new (memory.get()) TilingData(memory.get() + sizeof(TilingData), capacity);
        return memory;
    }
    size_t GetCapacity() const { return capacity_; }
    size_t GetDataSize() const { return size_; }
    void SetDataSize(size_t size) { size_ = size; }
    void* GetData() { return data_; }
    const void* GetData() const { return data_; }
    // Adds a value at the end; GRAPH_FAILED (0xFFFFFFFF) if there is no room.
    template <typename T>
    uint32_t Append(const T& value) {
        return Append(&value, 1);
    }
    template <typename T>
    uint32_t Append(const T* values, size_t count) {
        if (capacity_ - size_ < count * sizeof(T)) return 0xFFFFFFFF;
        std::memcpy(static_cast<uint8_t*>(data_) + size_, values, count * sizeof(T));
        size_ += count * sizeof(T);
        return 0;
    }

private:
    void* data_;
    size_t capacity_, size_ = 0;
};

template <typename T>
TilingData& operator<<(TilingData& to, const T& value) {
    to.Append(value);
    return to;
}

}  // namespace gert
