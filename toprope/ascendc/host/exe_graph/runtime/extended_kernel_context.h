// What every context can tell about its node.
#pragma once

#include "node.h"

namespace gert {

class ExtendedKernelContext {
public:
    explicit ExtendedKernelContext(Node* node) : node_(node), info_(node) {}
    const char* GetNodeName() const { return node_->name.c_str(); }
    const char* GetNodeType() const { return node_->type.c_str(); }
    const ComputeNodeInfo* GetComputeNodeInfo() const { return &info_; }
    size_t GetComputeNodeInputNum() const { return node_->inputs.size(); }
    size_t GetComputeNodeOutputNum() const { return node_->outputs.size(); }
    const AnchorInstanceInfo* GetIrInputInstanceInfo(size_t declared) const { return info_.GetInputInstanceInfo(declared); }
    const AnchorInstanceInfo* GetIrOutputInstanceInfo(size_t declared) const { return info_.GetOutputInstanceInfo(declared); }
    const RuntimeAttrs* GetAttrs() const { return &node_->attributes; }
    // By place among the tensors that are there.
    const CompileTimeTensorDesc* GetInputDesc(size_t index) const { return desc(node_->input(index)); }
    const CompileTimeTensorDesc* GetOutputDesc(size_t index) const { return desc(node_->output(index)); }
    // By place in the operator's definition.
    const CompileTimeTensorDesc* GetRequiredInputDesc(size_t declared) const { return desc(node_->declared_input(declared, 0)); }
    const CompileTimeTensorDesc* GetOptionalInputDesc(size_t declared) const { return desc(node_->declared_input(declared, 0)); }
    const CompileTimeTensorDesc* GetDynamicInputDesc(size_t declared, size_t relative) const {
        return desc(node_->declared_input(declared, relative));
    }
    const CompileTimeTensorDesc* GetRequiredOutputDesc(size_t declared) const { return desc(node_->declared_output(declared, 0)); }
    const CompileTimeTensorDesc* GetDynamicOutputDesc(size_t declared, size_t relative) const {
        return desc(node_->declared_output(declared, relative));
    }

protected:
    static const CompileTimeTensorDesc* desc(const TensorSlot* slot) { return slot == nullptr ? nullptr : &slot->desc; }
    static const Tensor* tensor(const TensorSlot* slot) { return slot == nullptr ? nullptr : &slot->tensor; }
    static const StorageShape* storage(const TensorSlot* slot) { return slot == nullptr ? nullptr : &slot->tensor.GetShape(); }
    static const Shape* origin(const TensorSlot* slot) { return slot == nullptr ? nullptr : &slot->tensor.GetOriginShape(); }
    static const Stride* stride(const TensorSlot* slot) { return slot == nullptr ? nullptr : &slot->stride; }

    Node* node_;
    ComputeNodeInfo info_;
};

}  // namespace gert
