// y = half(float(x) * scale + bias) on the host: checks the shapes and cuts rows and columns into cores and tiles.
#include "../../host/launch.h"
#include "../op_kernel/cast_scale_bias_tiling_data.h"

namespace optiling {

using namespace library;

constexpr uint64_t PIECE = 2048;          // columns at a time
constexpr uint64_t PART_COLUMNS = 512;    // when rows are few, cores share them; each gets about so many columns at least
constexpr uint64_t LINE = 256;            // halves of a line of L2: parts are whole ones
constexpr uint64_t TILE_ELEMENTS = 7680;  // of a tile: two buffers in and out and the floats between them fill UB
constexpr uint64_t MOST_ROWS = 255;       // of a tile: what an instruction repeats
constexpr uint64_t FRAME = 16;            // rows in UB are multiples of so many elements

static ge::graphStatus Cut(gert::TilingContext* context, bool naive) {
    const gert::Shape& x = ShapeOf(context, 0);
    OPS_RULE(!x.IsScalar(), "x is a scalar and has no columns; pass x.reshape(1)");
    const uint64_t columns = Dim(x, x.GetDimNum() - 1), rows = columns == 0 ? 0 : Size(x) / columns;
    for (size_t i : {1, 2}) {
        const gert::Shape& vector = ShapeOf(context, i);
        OPS_RULE(vector.GetDimNum() == 1 && Dim(vector, 0) == columns,
                 "%s must have shape (%lu), one number a column of x; it has %ld in %lu axes", i == 1 ? "scale" : "bias", columns,
                 vector.GetShapeSize(), vector.GetDimNum());
    }
    OPS_RULE(rows <= UINT32_MAX && columns <= UINT32_MAX, "x has %lu rows of %lu columns, too many to count in 32 bits; split it", rows,
             columns);
    const uint64_t aiv = Chip(context).aiv, teams = std::clamp<uint64_t>(rows, 1, aiv);
    const uint64_t most = naive ? 1 : std::max<uint64_t>(1, std::min(aiv / teams, CeilDiv(columns, PART_COLUMNS)));
    const uint64_t part = most > 1 ? CeilDiv(CeilDiv(columns, most), LINE) * LINE : columns;
    const uint64_t parts = part == 0 ? 1 : CeilDiv(columns, part);  // whole lines may leave the last ones nothing
    const uint64_t piece = std::clamp<uint64_t>(part, 1, PIECE), coreRows = std::max<uint64_t>(1, CeilDiv(rows, teams));
    const uint64_t fits = std::max<uint64_t>(1, TILE_ELEMENTS / (CeilDiv(piece, FRAME) * FRAME));
    auto* data = context->GetTilingData<CastScaleBiasTilingData>();
    data->rows = static_cast<uint32_t>(rows);
    data->columns = static_cast<uint32_t>(columns);
    data->coreRows = static_cast<uint32_t>(coreRows);
    data->parts = static_cast<uint32_t>(parts);
    data->partColumns = static_cast<uint32_t>(part);
    data->piece = static_cast<uint32_t>(piece);
    data->tileRows = naive ? 1 : static_cast<uint32_t>(std::min({coreRows, MOST_ROWS, fits}));
    return Launch(context, std::max<uint64_t>(1, CeilDiv(rows, coreRows)) * parts);
}

static ge::graphStatus Tile(gert::TilingContext* context) { return Cut(context, false); }
static ge::graphStatus TileNaive(gert::TilingContext* context) { return Cut(context, true); }

}  // namespace optiling

namespace ge {

static graphStatus InferShape(gert::InferShapeContext* context) {
    *context->GetOutputShape(0) = *context->GetInputShape(0);
    return GRAPH_SUCCESS;
}

static graphStatus InferDataType(gert::InferDataTypeContext* context) { return context->SetOutputDataType(0, DT_FLOAT16); }

}  // namespace ge

namespace ops {

static void Declare(OpDef& op) {
    const std::vector<ge::DataType> types = {ge::DT_INT32, ge::DT_FLOAT16, ge::DT_FLOAT};
    const std::vector<ge::DataType> floats(types.size(), ge::DT_FLOAT), halves(types.size(), ge::DT_FLOAT16);
    const std::vector<ge::Format> formats(types.size(), ge::FORMAT_ND);
    op.Input("x").ParamType(REQUIRED).DataType(types).Format(formats);
    for (const char* name : {"scale", "bias"}) op.Input(name).ParamType(REQUIRED).DataType(floats).Format(formats);
    op.Output("y").ParamType(REQUIRED).DataType(halves).Format(formats);
    op.SetInferShape(ge::InferShape).SetInferDataType(ge::InferDataType);
}

class CastScaleBias : public OpDef {
public:
    explicit CastScaleBias(const char* name) : OpDef(name) {
        Declare(*this);
        this->AICore().SetTiling(optiling::Tile);
        library::BuildFrom(*this, "cast_scale_bias", "cast_scale_bias");
    }
};
OP_ADD(CastScaleBias);

class CastScaleBiasNaive : public OpDef {
public:
    explicit CastScaleBiasNaive(const char* name) : OpDef(name) {
        Declare(*this);
        this->AICore().SetTiling(optiling::TileNaive);
        library::BuildFrom(*this, "cast_scale_bias", "cast_scale_bias_naive");
    }
};
OP_ADD(CastScaleBiasNaive);

}  // namespace ops
