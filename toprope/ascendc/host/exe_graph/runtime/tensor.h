// A tensor as host code sees it: shape, element type, format, and, for inputs whose value the operator depends on, the data.
#pragma once

#include "../../graph/types.h"
#include "shape.h"

namespace gert {

enum TensorPlacement { kOnDeviceHbm, kOnHost, kFollowing, kOnDeviceP2p, kTensorPlacementEnd };

class ExpandDimsType {
public:
    ExpandDimsType() = default;
    explicit ExpandDimsType(const char*) {}
    uint64_t GetFullSize() const { return 0; }
};

class StorageFormat {
public:
    StorageFormat() = default;
    StorageFormat(ge::Format origin, ge::Format storage, const ExpandDimsType&) : origin_(origin), storage_(storage) {}
    ge::Format GetOriginFormat() const { return origin_; }
    ge::Format GetStorageFormat() const { return storage_; }
    void SetOriginFormat(ge::Format format) { origin_ = format; }
    void SetStorageFormat(ge::Format format) { storage_ = format; }
    ExpandDimsType GetExpandDimsType() const { return {}; }
    bool operator==(const StorageFormat& other) const { return origin_ == other.origin_ && storage_ == other.storage_; }
    bool operator!=(const StorageFormat& other) const { return !(*this == other); }

private:
    ge::Format origin_ = ge::FORMAT_ND, storage_ = ge::FORMAT_ND;
};

class CompileTimeTensorDesc {
public:
    ge::DataType GetDataType() const { return type_; }
    const StorageFormat& GetFormat() const { return format_; }
    ge::Format GetOriginFormat() const { return format_.GetOriginFormat(); }
    ge::Format GetStorageFormat() const { return format_.GetStorageFormat(); }
    ExpandDimsType GetExpandDimsType() const { return {}; }
    void SetDataType(ge::DataType type) { type_ = type; }
    void SetOriginFormat(ge::Format format) { format_.SetOriginFormat(format); }
    void SetStorageFormat(ge::Format format) { format_.SetStorageFormat(format); }

private:
    ge::DataType type_ = ge::DT_UNDEFINED;
    StorageFormat format_;
};

// Where a tensor's value lies.
class TensorData {
public:
    TensorData() = default;
    explicit TensorData(void* address, size_t size = 0, TensorPlacement placement = kOnHost)
        : address_(address), size_(size), placement_(placement) {}
    void* GetAddr() const { return address_; }
    size_t GetSize() const { return size_; }
    TensorPlacement GetPlacement() const { return placement_; }

private:
    void* address_ = nullptr;
    size_t size_ = 0;
    TensorPlacement placement_ = kOnHost;
};

class Tensor {
public:
    Tensor() = default;
    Tensor(const StorageShape& shape, const StorageFormat& format, ge::DataType type) : shape_(shape), format_(format), type_(type) {}
    Tensor(const StorageShape& shape, const StorageFormat& format, TensorPlacement placement, ge::DataType type, void* data)
        : shape_(shape), format_(format), placement_(placement), type_(type), data_(data) {}
    const StorageShape& GetShape() const { return shape_; }
    StorageShape& GetShape() { return shape_; }
    const Shape& GetOriginShape() const { return shape_.GetOriginShape(); }
    const Shape& GetStorageShape() const { return shape_.GetStorageShape(); }
    Shape& MutableOriginShape() { return shape_.MutableOriginShape(); }
    Shape& MutableStorageShape() { return shape_.MutableStorageShape(); }
    int64_t GetShapeSize() const { return shape_.GetStorageShape().GetShapeSize(); }
    // Null unless the value is known on the host.
    template <typename T>
    const T* GetData() const {
        return static_cast<const T*>(GetAddr());
    }
    template <typename T>
    T* GetData() {
        return static_cast<T*>(GetAddr());
    }
    // A value that follows lies behind the tensor itself, in one piece of memory with it.
    const void* GetAddr() const { return placement_ == kFollowing ? this + 1 : data_; }
    void* GetAddr() { return placement_ == kFollowing ? this + 1 : data_; }
    TensorData GetTensorData() const { return TensorData(const_cast<void*>(GetAddr()), GetSize(), placement_); }
    void SetData(const TensorData& data) {
        data_ = data.GetAddr();
        placement_ = kOnHost;
    }
    void SetSize(size_t) {}
    void SetAddr(void* data) { data_ = data; }
    size_t GetSize() const { return static_cast<size_t>(ge::GetSizeInBytes(GetShapeSize(), type_)); }
    ge::DataType GetDataType() const { return type_; }
    void SetDataType(ge::DataType type) { type_ = type; }
    const StorageFormat& GetFormat() const { return format_; }
    ge::Format GetOriginFormat() const { return format_.GetOriginFormat(); }
    ge::Format GetStorageFormat() const { return format_.GetStorageFormat(); }
    void SetOriginFormat(ge::Format format) { format_.SetOriginFormat(format); }
    void SetStorageFormat(ge::Format format) { format_.SetStorageFormat(format); }
    TensorPlacement GetPlacement() const { return placement_; }
    void SetPlacement(TensorPlacement placement) { placement_ = placement; }

private:
    StorageShape shape_;
    StorageFormat format_;
    TensorPlacement placement_ = kOnHost;
    ge::DataType type_ = ge::DT_UNDEFINED;
    void* data_ = nullptr;
};
class TensorV2 : public Tensor {
public:
    using Tensor::Tensor;
};

}  // namespace gert
