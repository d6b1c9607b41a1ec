// RMS norm over the last axes, on the host; what it shares with layer norm is in ../../rows/row_norm_cuts.h.
#include "../../rows/row_norm_cuts.h"

namespace optiling {

static ge::graphStatus Tile(gert::TilingContext* context) { return library::TileNorm(context, false, false); }
static ge::graphStatus TileNaive(gert::TilingContext* context) { return library::TileNorm(context, false, true); }

}  // namespace optiling

namespace ge {

static graphStatus InferShape(gert::InferShapeContext* context) {
    const gert::Shape *x = context->GetInputShape(0), *gamma = context->GetInputShape(1);
    if (library::CheckNorm(*x, *gamma, nullptr) != GRAPH_SUCCESS) return GRAPH_FAILED;
    *context->GetOutputShape(0) = *x;
    *context->GetOutputShape(1) = library::RowNumbers(*x, *gamma);
    return GRAPH_SUCCESS;
}

static graphStatus InferDataType(gert::InferDataTypeContext* context) {
    context->SetOutputDataType(0, context->GetInputDataType(0));
    context->SetOutputDataType(1, DT_FLOAT);
    return GRAPH_SUCCESS;
}

}  // namespace ge

namespace ops {

static void Declare(OpDef& op) {
    const std::vector<ge::DataType> types = {ge::DT_FLOAT, ge::DT_FLOAT16, ge::DT_BF16};
    const std::vector<ge::DataType> numbers(types.size(), ge::DT_FLOAT);
    const std::vector<ge::Format> formats(types.size(), ge::FORMAT_ND);
    for (const char* name : {"x", "gamma"}) op.Input(name).ParamType(REQUIRED).DataType(types).Format(formats);
    op.Output("y").ParamType(REQUIRED).DataType(types).Format(formats);
    op.Output("rstd").ParamType(REQUIRED).DataType(numbers).Format(formats);
    op.Attr("epsilon").AttrType(OPTIONAL).Float(1e-6);
    op.Attr("batch_invariant").AttrType(OPTIONAL).Bool(false);
    op.SetInferShape(ge::InferShape).SetInferDataType(ge::InferDataType);
}

class RmsNorm : public OpDef {
public:
    explicit RmsNorm(const char* name) : OpDef(name) {
        Declare(*this);
        this->AICore().SetTiling(optiling::Tile);
        library::BuildFrom(*this, "rms_norm", "rms_norm");
    }
};
OP_ADD(RmsNorm);

class RmsNormNaive : public OpDef {
public:
    explicit RmsNormNaive(const char* name) : OpDef(name) {
        Declare(*this);
        this->AICore().SetTiling(optiling::TileNaive);
        library::BuildFrom(*this, "rms_norm", "rms_norm_naive");
    }
};
OP_ADD(RmsNormNaive);

}  // namespace ops
