// What the functions that infer shapes, shape ranges and element types are given.
#pragma once

#include "extended_kernel_context.h"

namespace gert {

class InferShapeContext : public ExtendedKernelContext {
public:
    using ExtendedKernelContext::ExtendedKernelContext;
    const Shape* GetInputShape(size_t index) const { return origin(node_->input(index)); }
    const Shape* GetRequiredInputShape(size_t declared) const { return origin(node_->declared_input(declared, 0)); }
    const Shape* GetOptionalInputShape(size_t declared) const { return origin(node_->declared_input(declared, 0)); }
    const Shape* GetDynamicInputShape(size_t declared, size_t relative) const { return origin(node_->declared_input(declared, relative)); }
    const Tensor* GetInputTensor(size_t index) const { return tensor(node_->input(index)); }
    const Tensor* GetRequiredInputTensor(size_t declared) const { return tensor(node_->declared_input(declared, 0)); }
    const Tensor* GetOptionalInputTensor(size_t declared) const { return tensor(node_->declared_input(declared, 0)); }
    const Tensor* GetDynamicInputTensor(size_t declared, size_t relative) const {
        return tensor(node_->declared_input(declared, relative));
    }
    Shape* GetOutputShape(size_t index) {
        return node_->output(index) == nullptr ? nullptr : &node_->output(index)->tensor.MutableOriginShape();
    }
};

class InferShapeRangeContext : public ExtendedKernelContext {
public:
    using ExtendedKernelContext::ExtendedKernelContext;
    const Range<Shape>* GetInputShapeRange(size_t index) const { return node_->input(index) ? &node_->input(index)->range : nullptr; }
    const Range<Shape>* GetRequiredInputShapeRange(size_t declared) const { return of(node_->declared_input(declared, 0)); }
    const Range<Shape>* GetOptionalInputShapeRange(size_t declared) const { return of(node_->declared_input(declared, 0)); }
    const Range<Shape>* GetDynamicInputShapeRange(size_t declared, size_t relative) const {
        return of(node_->declared_input(declared, relative));
    }
    const Range<Tensor>* GetInputTensorRange(size_t) const { return nullptr; }
    const Tensor* GetInputTensor(size_t index) const { return tensor(node_->input(index)); }
    Range<Shape>* GetOutputShapeRange(size_t index) { return node_->output(index) ? &node_->output(index)->range : nullptr; }

private:
    static const Range<Shape>* of(const TensorSlot* slot) { return slot == nullptr ? nullptr : &slot->range; }
};

class InferDataTypeContext : public ExtendedKernelContext {
public:
    using ExtendedKernelContext::ExtendedKernelContext;
    ge::DataType GetInputDataType(size_t index) const { return of(node_->input(index)); }
    ge::DataType GetRequiredInputDataType(size_t declared) const { return of(node_->declared_input(declared, 0)); }
    ge::DataType GetOptionalInputDataType(size_t declared) const { return of(node_->declared_input(declared, 0)); }
    ge::DataType GetDynamicInputDataType(size_t declared, size_t relative) const { return of(node_->declared_input(declared, relative)); }
    ge::DataType GetOutputDataType(size_t index) const { return of(node_->output(index)); }
    ge::graphStatus SetOutputDataType(size_t index, ge::DataType type) {
        if (node_->output(index) == nullptr) return ge::GRAPH_FAILED;
        node_->output(index)->desc.SetDataType(type);
        return ge::GRAPH_SUCCESS;
    }
    ge::graphStatus SetOutputDataType(size_t declared, size_t relative, ge::DataType type) {
        TensorSlot* slot = node_->declared_output(declared, relative);
        if (slot == nullptr) return ge::GRAPH_FAILED;
        slot->desc.SetDataType(type);
        return ge::GRAPH_SUCCESS;
    }

private:
    static ge::DataType of(const TensorSlot* slot) { return slot == nullptr ? ge::DT_UNDEFINED : slot->desc.GetDataType(); }
};

}  // namespace gert
