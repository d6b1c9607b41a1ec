// z = x1 to the power x2 on the host: checks the shapes and cuts the elements into cores.
#include "../../host/launch.h"
#include "../op_kernel/pow_tiling_data.h"

namespace optiling {

using namespace library;

constexpr uint64_t LINE_BYTES = 512;     // what a core starts on
constexpr uint64_t CORE_ELEMENTS = 704;  // the least it gets: a part of a tile

static ge::graphStatus Tile(gert::TilingContext* context) {
    OPS_RULE(ShapeOf(context, 0) == ShapeOf(context, 1), "x1 and x2 have different shapes; broadcast them first: numpy.broadcast_arrays");
    const uint64_t length = Size(ShapeOf(context, 0)), line = LINE_BYTES / ItemBytes(context, 0);
    const uint64_t cores = std::clamp<uint64_t>(CeilDiv(length, CORE_ELEMENTS), 1, Chip(context).aiv);
    auto* data = context->GetTilingData<PowTilingData>();
    data->length = length;
    data->coreLength = std::max<uint64_t>(1, CeilDiv(CeilDiv(length, cores), line)) * line;
    return Launch(context, std::max<uint64_t>(1, CeilDiv(length, data->coreLength)));
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

static void Declare(OpDef& op) {
    const std::vector<ge::DataType> types = {ge::DT_FLOAT, ge::DT_FLOAT16, ge::DT_BF16};
    const std::vector<ge::Format> formats(types.size(), ge::FORMAT_ND);
    for (const char* name : {"x1", "x2"}) op.Input(name).ParamType(REQUIRED).DataType(types).Format(formats);
    op.Output("z").ParamType(REQUIRED).DataType(types).Format(formats);
    op.SetInferShape(ge::InferShape).SetInferDataType(ge::InferDataType);
}

class Pow : public OpDef {
public:
    explicit Pow(const char* name) : OpDef(name) {
        Declare(*this);
        this->AICore().SetTiling(optiling::Tile);
        library::BuildFrom(*this, "pow", "pow_exact");
    }
};
OP_ADD(Pow);

class PowNaive : public OpDef {
public:
    explicit PowNaive(const char* name) : OpDef(name) {
        Declare(*this);
        this->AICore().SetTiling(optiling::Tile);
        library::BuildFrom(*this, "pow", "pow_naive");
    }
};
OP_ADD(PowNaive);

}  // namespace ops
