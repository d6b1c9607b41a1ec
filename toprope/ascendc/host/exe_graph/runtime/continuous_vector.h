// Lists as attributes: the count and then the values, in one piece of memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <new>
#include <vector>

namespace gert {

class ContinuousVector {
public:
    // Memory that begins with an empty list for up to `capacity` values of T.
    template <typename T>
    static std::unique_ptr<uint8_t[]> Create(size_t capacity) {
        auto memory = std::make_unique<uint8_t[]>(sizeof(ContinuousVector) + capacity * sizeof(T));
        new (memory.get()) ContinuousVector;
        reinterpret_cast<ContinuousVector*>(memory.get())->capacity_ = capacity;
        return memory;
    }
    size_t GetSize() const { return size_; }
    size_t GetCapacity() const { return capacity_; }
    const void* GetData() const { return this + 1; }
    void* MutableData() { return this + 1; }

private:
    friend class RuntimeAttrs;
    size_t capacity_ = 0, size_ = 0;
    uint8_t reserved_[40] = {};
};

template <typename T>
class TypedContinuousVector : public ContinuousVector {
public:
    const T* GetData() const { return static_cast<const T*>(ContinuousVector::GetData()); }
    T* MutableData() { return static_cast<T*>(ContinuousVector::MutableData()); }
};

class ContinuousVectorVector {
public:
    size_t GetSize() const { return rows_.size(); }
    const ContinuousVector* Get(size_t index) const { return index < rows_.size() ? rows_[index] : nullptr; }

private:
    friend class RuntimeAttrs;
    std::vector<const ContinuousVector*> rows_;
};

}  // namespace gert
