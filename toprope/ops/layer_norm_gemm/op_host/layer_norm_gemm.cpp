// c = layer_norm(x) x w on the host: checks the inputs, chooses how many rows the vector cores hand over to the cube cores at a time.
#include "../../matmul/op_host/cube_blocks.h"
#include "../../rows/row_norm_cuts.h"
#include "../op_kernel/layer_norm_gemm_tiling_data.h"

namespace optiling {

using namespace library;

constexpr uint64_t MOST_TURNS = 15;     // a flag counts to 15, and the vector cores may be that far ahead
constexpr uint64_t TURN_CORE_ROWS = 8;  // that a vector core normalises at least before it waits for the others
constexpr uint64_t TILE_START = 3;

static ge::graphStatus Check(gert::TilingContext* context) {
    const gert::Shape &x = ShapeOf(context, 0), &w = ShapeOf(context, 3);
    if (CheckProduct(x, w, "x", "w") != ge::GRAPH_SUCCESS) return ge::GRAPH_FAILED;
    const uint64_t k = Dim(x, 1);
    for (size_t i : {1, 2}) {
        const gert::Shape& weight = ShapeOf(context, i);
        OPS_RULE(weight.GetDimNum() == 1 && Dim(weight, 0) == k, "%s must have shape (%lu): gamma and beta have k = %lu elements",
                 i == 1 ? "gamma" : "beta", k, k);
    }
    OPS_RULE(k > 0 && k % 16 == 0, "k is %lu; make it a multiple of 16: rows of the workspace are whole blocks", k);
    const float epsilon = *context->GetAttrs()->GetFloat(0);
    OPS_RULE(epsilon > 0, "epsilon is %g; give a positive number, so that a constant row has a scale", static_cast<double>(epsilon));
    return ge::GRAPH_SUCCESS;
}

// Rows of a turn: whole cube tiles, at most MOST_TURNS turns, as far as flags count. The norm takes all turns, the product one more: few
// rows, because one waits for the other at both ends, in whole tiles of the vector cores, because each costs TILE_START rows beside its
// own.
static uint64_t TurnRows(uint64_t m, uint64_t blocks, uint64_t tileRows) {
    const uint64_t cores = 2 * blocks, needed = std::max(TURN_CORE_ROWS * cores, CeilDiv(m, MOST_TURNS));
    const uint64_t least = std::max<uint64_t>(1, CeilDiv(needed, TILE_M)) * TILE_M;
    uint64_t best = least;
    double lowest = 0;
    for (uint64_t rows = least; rows <= 2 * least; rows += TILE_M) {
        const uint64_t share = CeilDiv(rows, cores), turn = share + TILE_START * CeilDiv(share, tileRows);
        const double cost = static_cast<double>(turn) * (static_cast<double>(m) / static_cast<double>(rows) + 1);
        if (lowest > 0 && cost >= lowest) continue;
        lowest = cost;
        best = rows;
    }
    return best;
}

static ge::graphStatus Turns(gert::TilingContext* context, bool naive) {
    if (Check(context) != ge::GRAPH_SUCCESS) return ge::GRAPH_FAILED;
    const gert::Shape &x = ShapeOf(context, 0), &w = ShapeOf(context, 3);
    const uint64_t m = Dim(x, 0), k = Dim(x, 1), n = Dim(w, 1);
    const Chip chip(context);
    RowNormTilingData norm;
    const NormChoice choice = ChooseNorm({m, k, sizeof(uint16_t), true, false}, chip, norm);
    OPS_RULE(choice.key != 3, "k is %lu: a row does not fit UB beside gamma and beta; launch layer_norm and matmul one after the other", k);
    const uint64_t work = std::max(CeilDiv(m, TILE_M) * CeilDiv(n, TILE_N), CeilDiv(m, 2 * TURN_CORE_ROWS));
    const uint64_t blocks = std::clamp<uint64_t>(work, 1, chip.aic),
                   rows = naive ? std::max<uint64_t>(1, m) : TurnRows(m, blocks, norm.tileRows);
    const uint64_t share = CeilDiv(rows, 2 * blocks);
    auto* data = context->GetTilingData<LayerNormGemmTilingData>();
    data->m = static_cast<uint32_t>(m);
    data->k = static_cast<uint32_t>(k);
    data->n = static_cast<uint32_t>(n);
    data->epsilon = *context->GetAttrs()->GetFloat(0);
    data->turnRows = static_cast<uint32_t>(rows);
    data->tileRows = naive ? 1 : static_cast<uint32_t>(CeilDiv(share, CeilDiv(share, norm.tileRows)));
    data->buffers = naive ? 1 : norm.buffers;
    const Blocks cubes = ChooseBlocks(m, n, k, blocks, naive ? m : rows);
    data->partsM = cubes.partsM;
    data->partsN = cubes.partsN;
    data->bandTiles = cubes.bandTiles;
    data->keepEvery = naive ? 0 : cubes.keepEvery;
    return Launch(context, blocks, naive ? 0 : choice.key, m * k * sizeof(uint16_t));
}

static ge::graphStatus Tile(gert::TilingContext* context) { return Turns(context, false); }
static ge::graphStatus TileNaive(gert::TilingContext* context) { return Turns(context, true); }

}  // namespace optiling

namespace ge {

static graphStatus InferShape(gert::InferShapeContext* context) {
    const gert::Shape &x = *context->GetInputShape(0), &w = *context->GetInputShape(3);
    if (library::CheckProduct(x, w, "x", "w") != GRAPH_SUCCESS) return GRAPH_FAILED;
    *context->GetOutputShape(0) = {x.GetDim(0), w.GetDim(1)};
    return GRAPH_SUCCESS;
}

static graphStatus InferDataType(gert::InferDataTypeContext* context) { return context->SetOutputDataType(0, DT_FLOAT16); }

}  // namespace ge

namespace ops {

static void Declare(OpDef& op) {
    for (const char* name : {"x", "gamma", "beta", "w"})
        op.Input(name).ParamType(REQUIRED).DataType({ge::DT_FLOAT16}).Format({ge::FORMAT_ND});
    op.Output("c").ParamType(REQUIRED).DataType({ge::DT_FLOAT16}).Format({ge::FORMAT_ND});
    op.Attr("epsilon").AttrType(OPTIONAL).Float(1e-5);
    op.SetInferShape(ge::InferShape).SetInferDataType(ge::InferDataType);
}

class LayerNormGemm : public OpDef {
public:
    explicit LayerNormGemm(const char* name) : OpDef(name) {
        Declare(*this);
        this->AICore().SetTiling(optiling::Tile);
        library::BuildFrom(*this, "layer_norm_gemm", "layer_norm_gemm");
    }
};
OP_ADD(LayerNormGemm);

class LayerNormGemmNaive : public OpDef {
public:
    explicit LayerNormGemmNaive(const char* name) : OpDef(name) {
        Declare(*this);
        this->AICore().SetTiling(optiling::TileNaive);
        library::BuildFrom(*this, "layer_norm_gemm", "layer_norm_gemm_naive");
    }
};
OP_ADD(LayerNormGemmNaive);

}  // namespace ops
