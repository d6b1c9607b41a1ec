// Shapes and nodes of the graph's interface. A Shape is what the library's tiling functions take; a node is only named here, because
// functions that select formats or check support take one, and nothing calls them.
#pragma once

#include <initializer_list>
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
    Shape GetShape() const { return shape_; }
    Shape GetOriginShape() const { return shape_; }
    DataType GetDataType() const { return type_; }
    Format GetFormat() const { return format_; }
    void SetShape(const Shape& shape) { shape_ = shape; }
    void SetDataType(DataType type) { type_ = type; }
    void SetFormat(Format format) { format_ = format; }

private:
    Shape shape_;
    DataType type_ = DT_UNDEFINED;
    Format format_ = FORMAT_ND;
};

class Operator {
public:
    TensorDesc GetInputDesc(uint32_t) const { return {}; }
    TensorDesc GetInputDescByName(const char*) const { return {}; }
    TensorDesc GetOutputDesc(uint32_t) const { return {}; }
    size_t GetInputsSize() const { return 0; }
    template <class Value>
    graphStatus GetAttr(const char*, Value&) const {
        return GRAPH_FAILED;
    }
    Operator() = default;
    explicit Operator(const std::string& type) : type_(type) {}
    std::string GetOpType() const { return type_; }
    std::string GetName() const { return type_; }

private:
    std::string type_;
};

}  // namespace ge
