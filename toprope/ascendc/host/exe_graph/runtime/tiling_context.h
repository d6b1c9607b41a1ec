// What a tiling function is given, and where it puts its answer.
#pragma once

#include <typeinfo>

#include "../../platform/platform_infos_def.h"
#include "extended_kernel_context.h"
#include "tiling_data.h"

namespace gert {

// The answer of one tiling call.
struct TilingAnswer {
    explicit TilingAnswer(size_t capacity) : words(capacity / 8), data(words.data(), capacity) {}
    std::vector<uint64_t> words;
    TilingData data;
    std::vector<size_t> workspaces;
    uint64_t key = 0;
    uint32_t blocks = 0, schedule_mode = 0, local_memory_bytes = 0, aicpu_blocks = 0;
    int32_t condition = 0;
    bool need_atomic = false;
    const std::type_info* type = nullptr;
};

class TilingContext : public ExtendedKernelContext {
public:
    TilingContext(Node* node, TilingAnswer* answer, const void* compile_info, fe::PlatFormInfos* platform)
        : ExtendedKernelContext(node), answer_(answer), compile_info_(compile_info), platform_(platform) {}

    const StorageShape* GetInputShape(size_t index) const { return storage(node_->input(index)); }
    const StorageShape* GetRequiredInputShape(size_t declared) const { return storage(node_->declared_input(declared, 0)); }
    const StorageShape* GetOptionalInputShape(size_t declared) const { return storage(node_->declared_input(declared, 0)); }
    const StorageShape* GetDynamicInputShape(size_t declared, size_t relative) const {
        return storage(node_->declared_input(declared, relative));
    }
    const StorageShape* GetOutputShape(size_t index) const { return storage(node_->output(index)); }
    const Tensor* GetInputTensor(size_t index) const { return tensor(node_->input(index)); }
    const Tensor* GetRequiredInputTensor(size_t declared) const { return tensor(node_->declared_input(declared, 0)); }
    const Tensor* GetOptionalInputTensor(size_t declared) const { return tensor(node_->declared_input(declared, 0)); }
    const Tensor* GetDynamicInputTensor(size_t declared, size_t relative) const {
        return tensor(node_->declared_input(declared, relative));
    }
    const Stride* GetInputStride(size_t index) const { return stride(node_->input(index)); }
    const Stride* GetRequiredInputStride(size_t declared) const { return stride(node_->declared_input(declared, 0)); }
    const Stride* GetOptionalInputStride(size_t declared) const { return stride(node_->declared_input(declared, 0)); }
    const Stride* GetDynamicInputStride(size_t declared, size_t relative) const {
        return stride(node_->declared_input(declared, relative));
    }
    const Stride* GetOutputStride(size_t index) const { return stride(node_->output(index)); }
    // Inputs are contiguous here.
    bool InputIsView(size_t) const { return false; }
    bool RequiredInputIsView(size_t) const { return false; }
    bool OptionalInputIsView(size_t) const { return false; }
    bool DynamicInputIsView(size_t, size_t) const { return false; }

    const void* GetCompileInfo() const { return compile_info_; }
    template <typename T>
    const T* GetCompileInfo() const {
        return static_cast<const T*>(compile_info_);
    }
    fe::PlatFormInfos* GetPlatformInfo() const { return platform_; }
    int32_t GetDeterministic() const { return node_->deterministic; }
    int32_t GetDeterministicLevel() const { return node_->deterministic; }

    TilingData* GetRawTilingData() { return &answer_->data; }
    // The room as a struct of that type, which becomes the size of the tiling data. Null if there is not that much room.
    template <typename T>
    T* GetTilingData() {
        if (answer_->data.GetCapacity() < sizeof(T)) return nullptr;
        answer_->data.SetDataSize(sizeof(T));
        answer_->type = &typeid(T);
        return static_cast<T*>(answer_->data.GetData());
    }
    size_t* GetWorkspaceSizes(size_t count) {
        answer_->workspaces.resize(count);
        return answer_->workspaces.data();
    }
    size_t GetWorkspaceNum() const { return answer_->workspaces.size(); }

    ge::graphStatus SetBlockDim(uint32_t blocks) { return set(answer_->blocks, blocks); }
    ge::graphStatus SetSimdNumBlocks(uint32_t blocks) { return set(answer_->blocks, blocks); }
    uint32_t GetBlockDim() const { return answer_->blocks; }
    uint32_t GetSimdNumBlocks() const { return answer_->blocks; }
    ge::graphStatus SetAicpuBlockDim(uint32_t blocks) { return set(answer_->aicpu_blocks, blocks); }
    uint32_t GetAicpuBlockDim() const { return answer_->aicpu_blocks; }
    ge::graphStatus SetTilingKey(uint64_t key) { return set(answer_->key, key); }
    uint64_t GetTilingKey() const { return answer_->key; }
    ge::graphStatus SetScheduleMode(uint32_t mode) { return set(answer_->schedule_mode, mode); }
    uint32_t GetScheduleMode() const { return answer_->schedule_mode; }
    ge::graphStatus SetLocalMemorySize(uint32_t bytes) { return set(answer_->local_memory_bytes, bytes); }
    uint32_t GetLocalMemorySize() const { return answer_->local_memory_bytes; }
    ge::graphStatus SetDynUBufSize(uint32_t bytes) { return set(answer_->local_memory_bytes, bytes); }
    ge::graphStatus SetNeedAtomic(bool atomic) { return set(answer_->need_atomic, atomic); }
    bool NeedAtomic() const { return answer_->need_atomic; }
    ge::graphStatus SetTilingCond(int32_t condition) { return set(answer_->condition, condition); }
    int32_t GetTilingCond() const { return answer_->condition; }

private:
    template <typename T>
    static ge::graphStatus set(T& where, T value) {
        where = value;
        return ge::GRAPH_SUCCESS;
    }
    TilingAnswer* answer_;
    const void* compile_info_;
    fe::PlatFormInfos* platform_;
};

}  // namespace gert
