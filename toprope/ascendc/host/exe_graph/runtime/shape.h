// Shapes of tensors, as tiling and inference functions see them.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <cstddef>
#include <limits>

namespace gert {

class Shape {
public:
    static constexpr size_t kMaxDimNum = 25;
    static constexpr int64_t kInvalidDimValue = std::numeric_limits<int64_t>::min();

    Shape() = default;
    Shape(const std::initializer_list<int64_t>& dims) {
        for (int64_t dim : dims) AppendDim(dim);
    }
    size_t GetDimNum() const { return count_; }
    void SetDimNum(size_t count) { count_ = count <= kMaxDimNum ? count : kMaxDimNum; }
    // A dimension that does not exist is kInvalidDimValue.
    int64_t GetDim(size_t index) const { return index < count_ ? dims_[index] : kInvalidDimValue; }
    void SetDim(size_t index, int64_t value) {
        if (index < kMaxDimNum) dims_[index] = value;
    }
    Shape& AppendDim(int64_t value) {
        if (count_ < kMaxDimNum) dims_[count_++] = value;
        return *this;
    }
    const int64_t& operator[](size_t index) const { return dims_[index]; }
    int64_t& operator[](size_t index) { return dims_[index]; }
    // Elements: 1 for a scalar, -1 if a dimension is unknown or the product overflows.
    int64_t GetShapeSize() const {
        int64_t product = 1;
        for (size_t i = 0; i < count_; ++i)
            if (dims_[i] < 0 || __builtin_mul_overflow(product, dims_[i], &product)) return -1;
        return product;
    }
    bool IsScalar() const { return count_ == 0; }
    void SetScalar() { count_ = 0; }
    bool operator==(const Shape& other) const {
        if (count_ != other.count_) return false;
        for (size_t i = 0; i < count_; ++i)
            if (dims_[i] != other.dims_[i]) return false;
        return true;
    }
    bool operator!=(const Shape& other) const { return !(*this == other); }

private:
    size_t count_ = 0;
    int64_t dims_[kMaxDimNum] = {};
};

class Stride : public Shape {
public:
    using Shape::Shape;
    int64_t GetStride(size_t index) const { return GetDim(index); }
    void SetStride(size_t index, int64_t value) { SetDim(index, value); }
};

// The shape that the user sees (origin) and the one that lies in memory (storage).
class StorageShape {
public:
    StorageShape() = default;
    StorageShape(const std::initializer_list<int64_t>& origin, const std::initializer_list<int64_t>& storage)
        : origin_(origin), storage_(storage) {}
    const Shape& GetOriginShape() const { return origin_; }
    const Shape& GetStorageShape() const { return storage_; }
    Shape& MutableOriginShape() { return origin_; }
    Shape& MutableStorageShape() { return storage_; }
    bool operator==(const StorageShape& other) const { return origin_ == other.origin_ && storage_ == other.storage_; }
    bool operator!=(const StorageShape& other) const { return !(*this == other); }

private:
    Shape origin_, storage_;
};

template <typename T>
class Range {
public:
    Range() = default;
    Range(T* min, T* max) : min_(min), max_(max) {}
    explicit Range(T* same) : min_(same), max_(same) {}
    const T* GetMin() const { return min_; }
    const T* GetMax() const { return max_; }
    T* GetMin() { return min_; }
    T* GetMax() { return max_; }
    void SetMin(T* min) { min_ = min; }
    void SetMax(T* max) { max_ = max; }
    bool operator==(const Range& other) const { return min_ == other.min_ && max_ == other.max_; }

private:
    T *min_ = nullptr, *max_ = nullptr;
};

}  // namespace gert
