// One call of an operator: its tensors and attributes. Every context below is a view of this.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "runtime_attrs.h"
#include "tensor.h"

namespace gert {

// Where the tensors of one declared input or output lie among all: an absent optional one has none, a dynamic one any number.
class AnchorInstanceInfo {
public:
    AnchorInstanceInfo() = default;
    AnchorInstanceInfo(uint32_t start, uint32_t count) : start_(start), count_(count) {}
    size_t GetInstanceStart() const { return start_; }
    size_t GetInstanceNum() const { return count_; }

private:
    uint32_t start_ = 0, count_ = 0;
};

struct TensorSlot {
    Tensor tensor;
    CompileTimeTensorDesc desc;
    Stride stride;
    Range<Shape> range;
    Shape least, most;
};

struct Node {
    std::string name, type;
    std::vector<TensorSlot> inputs, outputs;
    std::vector<AnchorInstanceInfo> declared_inputs, declared_outputs;
    RuntimeAttrs attributes;
    bool deterministic = false;

    TensorSlot* declared_input(size_t declared, size_t relative) {
        if (declared >= declared_inputs.size() || relative >= declared_inputs[declared].GetInstanceNum()) return nullptr;
        return &inputs[declared_inputs[declared].GetInstanceStart() + relative];
    }
    TensorSlot* declared_output(size_t declared, size_t relative) {
        if (declared >= declared_outputs.size() || relative >= declared_outputs[declared].GetInstanceNum()) return nullptr;
        return &outputs[declared_outputs[declared].GetInstanceStart() + relative];
    }
    TensorSlot* input(size_t index) { return index < inputs.size() ? &inputs[index] : nullptr; }
    TensorSlot* output(size_t index) { return index < outputs.size() ? &outputs[index] : nullptr; }
};

class ComputeNodeInfo {
public:
    explicit ComputeNodeInfo(Node* node) : node_(node) {}
    const char* GetNodeName() const { return node_->name.c_str(); }
    const char* GetNodeType() const { return node_->type.c_str(); }
    size_t GetInputsNum() const { return node_->inputs.size(); }
    size_t GetOutputsNum() const { return node_->outputs.size(); }
    size_t GetIrInputsNum() const { return node_->declared_inputs.size(); }
    size_t GetIrOutputsNum() const { return node_->declared_outputs.size(); }
    const AnchorInstanceInfo* GetInputInstanceInfo(size_t declared) const {
        return declared < node_->declared_inputs.size() ? &node_->declared_inputs[declared] : nullptr;
    }
    const AnchorInstanceInfo* GetOutputInstanceInfo(size_t declared) const {
        return declared < node_->declared_outputs.size() ? &node_->declared_outputs[declared] : nullptr;
    }
    const CompileTimeTensorDesc* GetInputTdInfo(size_t index) const { return node_->input(index) ? &node_->input(index)->desc : nullptr; }
    const CompileTimeTensorDesc* GetOutputTdInfo(size_t index) const {
        return node_->output(index) ? &node_->output(index)->desc : nullptr;
    }
    const RuntimeAttrs* GetAttrs() const { return &node_->attributes; }

private:
    Node* node_;
};

}  // namespace gert
