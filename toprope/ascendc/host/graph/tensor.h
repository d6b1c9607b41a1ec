// Shapes, descriptions and values of tensors in the graph's interface: what the library's tiling functions take, and what unit tests of
// inference describe an operator's inputs with.
#pragma once

#include <initializer_list>
#include <string>
#include <utility>
#include <vector>

#include "types.h"

namespace ge {

class Shape {
public:
    Shape() = default;
    Shape(std::initializer_list<int64_t> dims) : dims_(dims) {}
    explicit Shape(const std::vector<int64_t>& dims) : dims_(dims) {}
    size_t GetDimNum() const { return dims_.size(); }
    int64_t GetDim(size_t index) const { return index < dims_.size() ? dims_[index] : 0; }
    ge::graphStatus SetDim(size_t index, int64_t value) {
        if (index >= dims_.size()) return GRAPH_FAILED;
        dims_[index] = value;
        return GRAPH_SUCCESS;
    }
    std::vector<int64_t> GetDims() const { return dims_; }
    int64_t GetShapeSize() const {
        int64_t product = 1;
        for (int64_t dim : dims_) product = dim < 0 || product < 0 ? -1 : product * dim;
        return dims_.empty() ? 0 : product;
    }

private:
    std::vector<int64_t> dims_;
};

class TensorDesc {
public:
    using Ranges = std::vector<std::pair<int64_t, int64_t>>;

    TensorDesc() = default;
    explicit TensorDesc(const Shape& shape, Format format = FORMAT_ND, DataType type = DT_FLOAT)
        : shape_(shape), type_(type), format_(format), origin_format_(format) {}
    Shape GetShape() const { return shape_; }
    // The shape itself, unless another was set.
    Shape GetOriginShape() const { return has_origin_ ? origin_ : shape_; }
    DataType GetDataType() const { return type_; }
    Format GetFormat() const { return format_; }
    Format GetOriginFormat() const { return origin_format_; }
    graphStatus GetShapeRange(Ranges& ranges) const { return ranges = ranges_, GRAPH_SUCCESS; }
    std::string GetName() const { return name_; }
    void SetShape(const Shape& shape) { shape_ = shape; }
    void SetOriginShape(const Shape& shape) {
        origin_ = shape;
        has_origin_ = true;
    }
    void SetDataType(DataType type) { type_ = type; }
    void SetFormat(Format format) { format_ = format; }
    void SetOriginFormat(Format format) { origin_format_ = format; }
    graphStatus SetShapeRange(const Ranges& ranges) { return ranges_ = ranges, GRAPH_SUCCESS; }
    void SetName(const std::string& name) { name_ = name; }

private:
    Shape shape_, origin_;
    bool has_origin_ = false;
    DataType type_ = DT_UNDEFINED;
    Format format_ = FORMAT_ND, origin_format_ = FORMAT_ND;
    Ranges ranges_;
    std::string name_;
};

// A description with bytes.
class Tensor {
public:
    Tensor() = default;
    explicit Tensor(const TensorDesc& desc) : desc_(desc) {}
    Tensor(const TensorDesc& desc, const std::vector<uint8_t>& data) : desc_(desc), data_(data) {}
    Tensor(const TensorDesc& desc, const uint8_t* data, size_t size) : desc_(desc), data_(data, data + size) {}
    TensorDesc GetTensorDesc() const { return desc_; }
    graphStatus SetTensorDesc(const TensorDesc& desc) { return desc_ = desc, GRAPH_SUCCESS; }
    graphStatus SetData(const uint8_t* data, size_t size) { return data_.assign(data, data + size), GRAPH_SUCCESS; }
    graphStatus SetData(const std::vector<uint8_t>& data) { return data_ = data, GRAPH_SUCCESS; }
    const uint8_t* GetData() const { return data_.data(); }
    uint8_t* GetData() { return data_.data(); }
    size_t GetSize() const { return data_.size(); }
    DataType GetDataType() const { return desc_.GetDataType(); }
    Format GetFormat() const { return desc_.GetFormat(); }
    Format GetOriginFormat() const { return desc_.GetOriginFormat(); }
    size_t GetShapeDimNum() const { return desc_.GetShape().GetDimNum(); }
    int64_t GetShapeDim(size_t index) const { return desc_.GetShape().GetDim(index); }
    size_t GetOriginShapeDimNum() const { return desc_.GetOriginShape().GetDimNum(); }
    int64_t GetOriginShapeDim(size_t index) const { return desc_.GetOriginShape().GetDim(index); }

private:
    TensorDesc desc_;
    std::vector<uint8_t> data_;
};

}  // namespace ge
