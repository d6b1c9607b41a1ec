// z = x1 + alpha * x2 on the host: which calls are right, how a launch is cut, which shape and type come out, what the operators are.
#include <algorithm>
#include <cmath>

#include "../op_kernel/add_tiling_data.h"
#include "register/op_def_registry.h"
#include "tiling/platform/platform_ascendc.h"
#include "utils/log/asc_cpu_log.h"

namespace optiling {

constexpr uint64_t LINE_BYTES = 512;  // what a core starts on, and the least it gets
constexpr uint64_t NAIVE_TILE_BYTES = 2048;

static uint64_t CeilDiv(uint64_t value, uint64_t by) { return (value + by - 1) / by; }

// Says which rule a call breaks, if any.
static ge::graphStatus Check(gert::TilingContext* context) {
    if (context->GetInputShape(0)->GetStorageShape() != context->GetInputShape(1)->GetStorageShape()) {
        ASC_CPU_LOG_ERROR("x1 and x2 have different shapes; broadcast them first: numpy.broadcast_arrays");
        return ge::GRAPH_FAILED;
    }
    const float alpha = *context->GetAttrs()->GetFloat(0);
    if (context->GetInputDesc(0)->GetDataType() == ge::DT_INT32 && alpha != std::trunc(alpha)) {
        ASC_CPU_LOG_ERROR("alpha %g is not whole and the elements are; use a whole alpha or float tensors", static_cast<double>(alpha));
        return ge::GRAPH_FAILED;
    }
    return ge::GRAPH_SUCCESS;
}

// Shares the elements out among the cores. Returns the bytes of one core's share.
static uint64_t CutIntoCores(gert::TilingContext* context, AddTilingData& data, uint64_t itemBytes, uint64_t aiv) {
    const uint64_t length = static_cast<uint64_t>(context->GetInputShape(0)->GetStorageShape().GetShapeSize());
    const uint64_t line = LINE_BYTES / itemBytes, cores = std::clamp<uint64_t>(CeilDiv(length, line), 1, aiv);
    data.length = length;
    data.coreLength = std::max<uint64_t>(1, CeilDiv(CeilDiv(length, cores), line)) * line;
    data.alpha = *context->GetAttrs()->GetFloat(0);
    context->SetBlockDim(static_cast<uint32_t>(std::max<uint64_t>(1, CeilDiv(length, data.coreLength))));
    context->SetTilingKey(0);
    context->GetWorkspaceSizes(1)[0] = 0;
    return data.coreLength * itemBytes;
}

static ge::graphStatus Tile(gert::TilingContext* context) {
    if (Check(context) != ge::GRAPH_SUCCESS) return ge::GRAPH_FAILED;
    const auto platform = platform_ascendc::PlatformAscendC(context->GetPlatformInfo());
    uint64_t ubBytes = 0, l2Bytes = 0;
    platform.GetCoreMemSize(platform_ascendc::CoreMemType::UB, ubBytes);
    platform.GetCoreMemSize(platform_ascendc::CoreMemType::L2, l2Bytes);
    const uint64_t item = static_cast<uint64_t>(ge::GetSizeByDataType(context->GetInputDesc(0)->GetDataType()));

    auto* data = context->GetTilingData<AddTilingData>();
    const uint64_t shareBytes = CutIntoCores(context, *data, item, platform.GetCoreNumAiv());
    // The largest tile: two buffers for each of three tensors, and two tiles of floats where half types are widened.
    const uint64_t perByte = 6 + (item == 2 ? 8 / item : 0), tileBytes = std::min(ubBytes / perByte, shareBytes);
    data->tileLength = static_cast<uint32_t>(std::max(tileBytes / LINE_BYTES, uint64_t{1}) * LINE_BYTES / item);
    data->bypassL2 = 3 * data->length * item > l2Bytes ? 1 : 0;
    return ge::GRAPH_SUCCESS;
}

static ge::graphStatus TileNaive(gert::TilingContext* context) {
    if (Check(context) != ge::GRAPH_SUCCESS) return ge::GRAPH_FAILED;
    const auto platform = platform_ascendc::PlatformAscendC(context->GetPlatformInfo());
    const uint64_t item = static_cast<uint64_t>(ge::GetSizeByDataType(context->GetInputDesc(0)->GetDataType()));
    auto* data = context->GetTilingData<AddTilingData>();
    CutIntoCores(context, *data, item, platform.GetCoreNumAiv());
    data->tileLength = static_cast<uint32_t>(NAIVE_TILE_BYTES / item);
    data->bypassL2 = 0;
    return ge::GRAPH_SUCCESS;
}

}  // namespace optiling

namespace ge {

static graphStatus InferShape(gert::InferShapeContext* context) {
    *context->GetOutputShape(0) = *context->GetInputShape(0);
    return GRAPH_SUCCESS;
}

static graphStatus InferDataType(gert::InferDataTypeContext* context) {
    return context->SetOutputDataType(0, context->GetInputDataType(0));
}

}  // namespace ge

namespace ops {

// Both operators are declared alike.
static void Declare(OpDef& op) {
    for (const char* name : {"x1", "x2"})
        op.Input(name)
            .ParamType(REQUIRED)
            .DataType({ge::DT_FLOAT16, ge::DT_FLOAT, ge::DT_BF16, ge::DT_INT32})
            .Format({ge::FORMAT_ND, ge::FORMAT_ND, ge::FORMAT_ND, ge::FORMAT_ND});
    op.Output("z")
        .ParamType(REQUIRED)
        .DataType({ge::DT_FLOAT16, ge::DT_FLOAT, ge::DT_BF16, ge::DT_INT32})
        .Format({ge::FORMAT_ND, ge::FORMAT_ND, ge::FORMAT_ND, ge::FORMAT_ND});
    op.Attr("alpha").AttrType(OPTIONAL).Float(1.0);
    op.SetInferShape(ge::InferShape).SetInferDataType(ge::InferDataType);
}

class Add : public OpDef {
public:
    explicit Add(const char* name) : OpDef(name) {
        Declare(*this);
        this->AICore().SetTiling(optiling::Tile);
        this->AICore().AddConfig("ascend910b");
        this->AICore().AddConfig("ascend910_93");
    }
};
OP_ADD(Add);

// The naive version to compare with: an operator of its own, whose kernel is another function of the same file.
class AddNaive : public OpDef {
public:
    explicit AddNaive(const char* name) : OpDef(name) {
        Declare(*this);
        this->AICore().SetTiling(optiling::TileNaive);
        OpAICoreConfig config;
        config.DynamicShapeSupportFlag(true).DynamicRankSupportFlag(true).DynamicCompileStaticFlag(true);
        config.ExtendCfgInfo("opFile.value", "add").ExtendCfgInfo("opInterface.value", "add_naive");
        this->AICore().AddConfig("ascend910b", config);
        this->AICore().AddConfig("ascend910_93", config);
    }
};
OP_ADD(AddNaive);

}  // namespace ops
