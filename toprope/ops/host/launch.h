// What the host sides of the library's operators share: the chip's numbers, tensors as the tiling sees them, rules that are named when a
// call breaks them, and operators whose kernels are functions of one file.
#pragma once

#include <algorithm>
#include <cmath>

#include "register/op_def_registry.h"
#include "tiling/platform/platform_ascendc.h"
#include "utils/log/asc_cpu_log.h"

// Says what is wrong and what to do about it (a format and its values), and leaves the function, if the rule does not hold.
#define OPS_RULE(holds, ...)                \
    do {                                    \
        if (!(holds)) {                     \
            ASC_CPU_LOG_ERROR(__VA_ARGS__); \
            return ge::GRAPH_FAILED;        \
        }                                   \
    } while (0)

namespace library {

inline uint64_t CeilDiv(uint64_t value, uint64_t by) { return (value + by - 1) / by; }

struct Chip {
    explicit Chip(gert::TilingContext* context) {
        const auto platform = platform_ascendc::PlatformAscendC(context->GetPlatformInfo());
        aic = platform.GetCoreNumAic();
        aiv = platform.GetCoreNumAiv();
        platform.GetCoreMemSize(platform_ascendc::CoreMemType::UB, ubBytes);
        platform.GetCoreMemSize(platform_ascendc::CoreMemType::L2, l2Bytes);
        libraryBytes = platform.GetLibApiWorkSpaceSize();
    }
    uint64_t aic = 0, aiv = 0, ubBytes = 0, l2Bytes = 0;
    uint64_t libraryBytes = 0;  // of workspace, in front of the kernel's own
};

inline const gert::Shape& ShapeOf(gert::TilingContext* context, size_t input) { return context->GetInputShape(input)->GetStorageShape(); }
inline uint64_t Size(const gert::Shape& shape) { return static_cast<uint64_t>(shape.GetShapeSize()); }
inline uint64_t Dim(const gert::Shape& shape, size_t axis) { return static_cast<uint64_t>(shape.GetDim(axis)); }
inline uint64_t ItemBytes(gert::TilingContext* context, size_t input) {
    return static_cast<uint64_t>(ge::GetSizeByDataType(context->GetInputDesc(input)->GetDataType()));
}

// The answer of a tiling function. `workspaceBytes` is the kernel's own part; what the library keeps in front comes on top.
inline ge::graphStatus Launch(gert::TilingContext* context, uint64_t blocks, uint64_t key = 0, uint64_t workspaceBytes = 0) {
    context->SetBlockDim(static_cast<uint32_t>(blocks));
    context->SetTilingKey(key);
    context->GetWorkspaceSizes(1)[0] = workspaceBytes == 0 ? 0 : Chip(context).libraryBytes + workspaceBytes;
    return ge::GRAPH_SUCCESS;
}

// Builds an operator for A2 and A3; its kernel is function `entry` of op_kernel/<file>.cpp.
inline void BuildFrom(ops::OpDef& op, const char* file, const char* entry) {
    ops::OpAICoreConfig config;
    config.DynamicCompileStaticFlag(true).DynamicRankSupportFlag(true).DynamicShapeSupportFlag(true);
    config.ExtendCfgInfo("opFile.value", file).ExtendCfgInfo("opInterface.value", entry);
    op.AICore().AddConfig("ascend910b", config);
    op.AICore().AddConfig("ascend910_93", config);
}

}  // namespace library
