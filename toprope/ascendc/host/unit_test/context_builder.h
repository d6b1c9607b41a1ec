// Contexts made piece by piece, for unit tests of host code: the builders behind op_tiling_context_builder.h and its sisters. Names and
// parameters are those that the test harnesses of public operator repositories call.
#pragma once

#include <iostream>
#include <memory>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "../graph/ascend_string.h"
#include "../register/op_impl_registry.h"

namespace toprope {
namespace host {

// What a built context refers to. Nothing of it moves once the context is made.
struct BuiltNode {
    gert::Node node;
    std::unique_ptr<gert::TilingAnswer> answer;
};

// The part that all builders share; Self is the builder that the calls give back.
template <typename Self>
class NodeBuilder {
public:
    using OpContextBuilderBase = NodeBuilder;

    Self& OpType(const ge::AscendString& type) { return node().type = type.GetString(), self(); }
    Self& OpName(const ge::AscendString& name) { return node().name = name.GetString(), self(); }
    // Every declared input and output has one tensor; IOInstanceNum says how many each has.
    Self& IONum(size_t inputs, size_t outputs) {
        return IOInstanceNum(std::vector<uint32_t>(inputs, 1), std::vector<uint32_t>(outputs, 1));
    }
    Self& IOInstanceNum(const std::vector<uint32_t>& inputs, const std::vector<uint32_t>& outputs) {
        node().declared_inputs = anchors(inputs, node().inputs);
        node().declared_outputs = anchors(outputs, node().outputs);
        return self();
    }
    Self& InputTensors(const std::vector<gert::Tensor*>& tensors) { return put(node().inputs, tensors), self(); }
    Self& OutputTensors(const std::vector<gert::Tensor*>& tensors) { return put(node().outputs, tensors), self(); }
    Self& InputTensorDesc(size_t index, ge::DataType type, ge::Format origin, ge::Format storage,
                          const gert::ExpandDimsType& = gert::ExpandDimsType()) {
        return describe(node().inputs, index, type, origin, storage), self();
    }
    Self& OutputTensorDesc(size_t index, ge::DataType type, ge::Format origin, ge::Format storage,
                           const gert::ExpandDimsType& = gert::ExpandDimsType()) {
        return describe(node().outputs, index, type, origin, storage), self();
    }
    Self& OutputTensorDesc(size_t index, ge::Format origin, ge::Format storage, const gert::ExpandDimsType& = gert::ExpandDimsType()) {
        return describe(node().outputs, index, ge::DT_UNDEFINED, origin, storage), self();
    }
    Self& AppendAttr(bool value) { return add(value); }
    Self& AppendAttr(int64_t value) { return add(value); }
    Self& AppendAttr(float value) { return add(value); }
    Self& AppendAttr(const ge::AscendString& text) { return node().attributes.add_bytes(text.GetString(), text.GetLength() + 1), self(); }
    Self& AppendAttr(const std::vector<bool>& values) {
        const std::vector<uint8_t> plain(values.begin(), values.end());
        return add_list(plain);
    }
    Self& AppendAttr(const std::vector<int64_t>& values) { return add_list(values); }
    Self& AppendAttr(const std::vector<float>& values) { return add_list(values); }
    Self& AppendAttr(const std::vector<ge::AscendString>&) { return node().attributes.add_absent(), self(); }
    Self& AppendAttr(const std::vector<std::vector<int64_t>>& rows) {
        std::vector<int64_t> all;
        std::vector<uint64_t> counts;
        for (const auto& row : rows) {
            all.insert(all.end(), row.begin(), row.end());
            counts.push_back(row.size());
        }
        return node().attributes.add_lists(all.data(), counts.data(), rows.size()), self();
    }

protected:
    gert::Node& node() { return built_->node; }
    std::shared_ptr<BuiltNode> built_ = std::make_shared<BuiltNode>();

private:
    Self& self() { return static_cast<Self&>(*this); }
    template <typename T>
    Self& add(const T& value) {
        return node().attributes.add_bytes(&value, sizeof value), self();
    }
    template <typename T>
    Self& add_list(const std::vector<T>& values) {
        return node().attributes.add_list(values.data(), values.size(), sizeof(T)), self();
    }
    static std::vector<gert::AnchorInstanceInfo> anchors(const std::vector<uint32_t>& counts, std::vector<gert::TensorSlot>& slots) {
        std::vector<gert::AnchorInstanceInfo> out;
        uint32_t start = 0;
        for (uint32_t count : counts) {
            out.emplace_back(start, count);
            start += count;
        }
        if (slots.size() < start) slots.resize(start);
        return out;
    }
    static void put(std::vector<gert::TensorSlot>& slots, const std::vector<gert::Tensor*>& tensors) {
        if (slots.size() < tensors.size()) slots.resize(tensors.size());
        for (size_t i = 0; i < tensors.size(); ++i) {
            if (tensors[i] == nullptr) continue;
            gert::TensorSlot& slot = slots[i];
            slot.tensor = *tensors[i];
            slot.tensor.SetData(gert::TensorData(tensors[i]->GetAddr()));
            slot.desc.SetDataType(slot.tensor.GetDataType());
            slot.desc.SetOriginFormat(slot.tensor.GetOriginFormat());
            slot.desc.SetStorageFormat(slot.tensor.GetStorageFormat());
            const gert::Shape& shape = slot.tensor.GetStorageShape();
            slot.stride.SetDimNum(shape.GetDimNum());
            int64_t step = 1;
            for (size_t d = shape.GetDimNum(); d-- > 0; step *= shape.GetDim(d)) slot.stride.SetDim(d, step);
        }
    }
    static void describe(std::vector<gert::TensorSlot>& slots, size_t index, ge::DataType type, ge::Format origin, ge::Format storage) {
        if (slots.size() <= index) slots.resize(index + 1);
        slots[index].desc.SetDataType(type);
        slots[index].desc.SetOriginFormat(origin);
        slots[index].desc.SetStorageFormat(storage);
    }
};

}  // namespace host
}  // namespace toprope

namespace gert {

// A context and what it refers to.
template <typename Context>
class ContextHolder {
public:
    ContextHolder() = default;
    ContextHolder(std::shared_ptr<toprope::host::BuiltNode> built, std::unique_ptr<Context> context)
        : built_(std::move(built)), context_(std::move(context)) {}
    Context* GetContext() const { return context_.get(); }

private:
    std::shared_ptr<toprope::host::BuiltNode> built_;
    std::unique_ptr<Context> context_;
};

class OpTilingContextBuilder : public toprope::host::NodeBuilder<OpTilingContextBuilder> {
public:
    OpTilingContextBuilder& CompileInfo(const void* info) { return compile_info_ = info, *this; }
    OpTilingContextBuilder& PlatformInfo(const void* platform) {
        return platform_ = static_cast<fe::PlatFormInfos*>(const_cast<void*>(platform)), *this;
    }
    OpTilingContextBuilder& Deterministic(int32_t on) { return node().deterministic = on != 0, *this; }
    OpTilingContextBuilder& DeterministicLevel(int32_t level) { return node().deterministic = level != 0, *this; }
    // Of the room given, its capacity counts; the answer is in the context's GetRawTilingData.
    OpTilingContextBuilder& TilingData(const gert::TilingData* room) {
        return capacity_ = room == nullptr ? capacity_ : room->GetCapacity(), *this;
    }
    OpTilingContextBuilder& Workspace(const ContinuousVector*) { return *this; }
    ContextHolder<TilingContext> Build() {
        built_->answer = std::make_unique<TilingAnswer>((capacity_ + 7) / 8 * 8);
        auto* platform = platform_ == nullptr ? &fe::present_platform() : platform_;
        return {built_, std::make_unique<TilingContext>(&built_->node, built_->answer.get(), compile_info_, platform)};
    }

private:
    const void* compile_info_ = nullptr;
    fe::PlatFormInfos* platform_ = nullptr;
    size_t capacity_ = 4096;
};

class OpTilingParseContextBuilder : public toprope::host::NodeBuilder<OpTilingParseContextBuilder> {
public:
    OpTilingParseContextBuilder& CompiledJson(const char*) { return *this; }
    OpTilingParseContextBuilder& CompiledInfo(const void* info) { return compile_info_ = const_cast<void*>(info), *this; }
    OpTilingParseContextBuilder& PlatformInfo(const void* platform) {
        return platform_ = static_cast<fe::PlatFormInfos*>(const_cast<void*>(platform)), *this;
    }
    ContextHolder<TilingParseContext> Build() {
        auto* platform = platform_ == nullptr ? &fe::present_platform() : platform_;
        return {built_, std::make_unique<TilingParseContext>(&built_->node, compile_info_, platform)};
    }

private:
    void* compile_info_ = nullptr;
    fe::PlatFormInfos* platform_ = nullptr;
};

class OpInferShapeContextBuilder : public toprope::host::NodeBuilder<OpInferShapeContextBuilder> {
public:
    ContextHolder<InferShapeContext> Build() { return {built_, std::make_unique<InferShapeContext>(&built_->node)}; }
};
class OpInferDataTypeContextBuilder : public toprope::host::NodeBuilder<OpInferDataTypeContextBuilder> {
public:
    ContextHolder<InferDataTypeContext> Build() { return {built_, std::make_unique<InferDataTypeContext>(&built_->node)}; }
};
class OpInferShapeRangeContextBuilder : public toprope::host::NodeBuilder<OpInferShapeRangeContextBuilder> {
public:
    OpInferShapeRangeContextBuilder& InputTensorsRange(const std::vector<Range<Tensor>*>&) { return *this; }
    ContextHolder<InferShapeRangeContext> Build() { return {built_, std::make_unique<InferShapeRangeContext>(&built_->node)}; }
};

}  // namespace gert
