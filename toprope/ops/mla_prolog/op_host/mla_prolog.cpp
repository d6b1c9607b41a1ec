// What precedes latent attention, on the host: checks the tensors, and cuts the products so that every cube core has a part of the weights
// to read.
#include "../../host/launch.h"
#include "../../matmul/op_kernel/cube_tile_sizes.h"
#include "../op_kernel/mla_prolog_tiling_data.h"

namespace optiling {

using namespace library;

constexpr uint64_t MOST_ROPE = 1024, MOST_RANK = 4096, MOST_COLUMNS = 65535;
constexpr const char* NAMES[] = {"x", "w_dq", "w_uq", "w_dkv", "w_kr", "gamma_q", "gamma_kv", "cos", "sin", "slots"};
enum Input : size_t { X, DOWN_QUERY, UP_QUERY, DOWN_KEY, DOWN_ROPE, GAMMA_QUERY, GAMMA_KEY, COSINE, SINE, SLOTS };

// The numbers that the tensors give.
static void Read(gert::TilingContext* context, MlaPrologTilingData& data) {
    const gert::RuntimeAttrs* attributes = context->GetAttrs();
    const auto length = [context](size_t input, size_t axis) { return static_cast<uint32_t>(Dim(ShapeOf(context, input), axis)); };
    data = {};
    data.tokens = length(X, 0);
    data.hidden = length(X, 1);
    data.queryRank = length(DOWN_QUERY, 1);
    data.keyRank = length(DOWN_KEY, 1);
    data.rope = length(DOWN_ROPE, 1);
    data.heads = static_cast<uint32_t>(*attributes->GetInt(0));
    data.headLength = data.heads > 0 ? length(UP_QUERY, 1) / data.heads : 0;
    const int64_t rows = *attributes->GetInt(1);
    data.cacheRows = rows > 0 ? static_cast<uint32_t>(rows) : data.tokens;
    data.epsilon = *attributes->GetFloat(2);
}

static ge::graphStatus CheckShapes(gert::TilingContext* context, const MlaPrologTilingData& d) {
    const gert::Shape matrix[] = {gert::Shape({d.tokens, d.rope}), gert::Shape({d.hidden, d.queryRank})};
    const gert::Shape wanted[] = {ShapeOf(context, X),
                                  matrix[1],
                                  gert::Shape({d.queryRank, ShapeOf(context, UP_QUERY).GetDim(1)}),
                                  gert::Shape({d.hidden, d.keyRank}),
                                  gert::Shape({d.hidden, d.rope}),
                                  gert::Shape({d.queryRank}),
                                  gert::Shape({d.keyRank}),
                                  matrix[0],
                                  matrix[0],
                                  gert::Shape({d.tokens})};
    for (size_t i = X; i <= SLOTS; i++) {
        const gert::Shape& is = ShapeOf(context, i);
        if (wanted[i].GetDimNum() == 1)
            OPS_RULE(is == wanted[i], "%s has another shape; with these x and weights it has (%ld,)", NAMES[i], wanted[i].GetDim(0));
        else
            OPS_RULE(is == wanted[i], "%s has another shape; with these x and weights it has (%ld, %ld)", NAMES[i], wanted[i].GetDim(0),
                     wanted[i].GetDim(1));
    }
    return ge::GRAPH_SUCCESS;
}

static ge::graphStatus CheckNumbers(gert::TilingContext* context, const MlaPrologTilingData& d) {
    const uint64_t columns = Dim(ShapeOf(context, UP_QUERY), 1);
    OPS_RULE(d.rope % 16 == 0 && d.rope <= MOST_ROPE, "%u columns are rotated; a multiple of 16 up to %lu", d.rope, MOST_ROPE);
    OPS_RULE(d.heads > 0 && columns % d.heads == 0 && d.headLength >= d.rope && d.headLength % 16 == 0,
             "w_uq has %lu columns for %u heads; each head a multiple of 16 and at least rope", columns, d.heads);
    OPS_RULE(d.queryRank % 16 == 0 && d.keyRank % 16 == 0 && std::max(d.queryRank, d.keyRank) <= MOST_RANK,
             "ranks %u and %u; multiples of 16 up to %lu, so that a row fits UB", d.queryRank, d.keyRank, MOST_RANK);
    OPS_RULE(std::max<uint64_t>(d.hidden, columns) <= MOST_COLUMNS, "%u and %lu columns; at most %lu: copies count 16 bits", d.hidden,
             columns, MOST_COLUMNS);
    OPS_RULE(d.epsilon > 0, "epsilon is %g; give a positive number", static_cast<double>(d.epsilon));
    const int32_t* slots = context->GetInputTensor(SLOTS)->GetData<int32_t>();  // none where the device alone has them
    for (uint32_t i = 0; slots != nullptr && i < d.tokens; i++)
        OPS_RULE(slots[i] >= 0 && static_cast<uint32_t>(slots[i]) < d.cacheRows, "slots[%u] is %d; the cache has rows 0 to %u", i, slots[i],
                 d.cacheRows - 1);
    return ge::GRAPH_SUCCESS;
}

// Columns of a tile: such that each core has one tile, or several of nearly the most columns.
static uint32_t TileColumns(uint64_t tokens, uint64_t columns, uint64_t aic) {
    const uint64_t cores = std::max<uint64_t>(1, aic / CeilDiv(tokens, TILE_M)), turns = CeilDiv(columns, cores * TILE_N);
    return static_cast<uint32_t>(std::clamp<uint64_t>(CeilDiv(CeilDiv(columns, cores * turns), 16) * 16, 16, TILE_N));
}

static ge::graphStatus Cut(gert::TilingContext* context, bool naive) {
    auto* data = context->GetTilingData<MlaPrologTilingData>();
    Read(context, *data);
    if (CheckShapes(context, *data) != ge::GRAPH_SUCCESS || CheckNumbers(context, *data) != ge::GRAPH_SUCCESS) return ge::GRAPH_FAILED;
    const uint64_t tokens = data->tokens, rows = 2ull * data->queryRank + data->keyRank + data->rope, aic = Chip(context).aic;
    data->downColumns = naive ? TILE_N : TileColumns(tokens, data->queryRank + data->keyRank + data->rope, aic);
    data->upColumns = naive ? TILE_N : TileColumns(tokens, Dim(ShapeOf(context, UP_QUERY), 1), aic);
    return Launch(context, aic, 0, tokens * rows * ItemBytes(context, X));
}

static ge::graphStatus Tile(gert::TilingContext* context) { return Cut(context, false); }
static ge::graphStatus TileNaive(gert::TilingContext* context) { return Cut(context, true); }

}  // namespace optiling

namespace ge {

// The query, and both caches.
static graphStatus InferShape(gert::InferShapeContext* context) {
    for (size_t i = 0; i <= optiling::DOWN_ROPE; i++) {
        const gert::Shape& shape = *context->GetInputShape(i);
        OPS_RULE(shape.GetDimNum() == 2 && shape.GetShapeSize() > 0, "%s is none; x and the weights are matrices that are not empty",
                 optiling::NAMES[i]);
    }
    const int64_t tokens = context->GetInputShape(optiling::X)->GetDim(0), rows = *context->GetAttrs()->GetInt(1);
    *context->GetOutputShape(0) = gert::Shape({tokens, context->GetInputShape(optiling::UP_QUERY)->GetDim(1)});
    for (size_t i : {0, 1})
        *context->GetOutputShape(1 + i) =
            gert::Shape({rows > 0 ? rows : tokens, context->GetInputShape(optiling::DOWN_KEY + i)->GetDim(1)});
    return GRAPH_SUCCESS;
}

static graphStatus InferDataType(gert::InferDataTypeContext* context) {
    for (size_t i : {0, 1, 2})
        if (context->SetOutputDataType(i, context->GetInputDataType(0)) != GRAPH_SUCCESS) return GRAPH_FAILED;
    return GRAPH_SUCCESS;
}

}  // namespace ge

namespace ops {

static void Declare(OpDef& op) {
    for (size_t i = 0; i < optiling::SLOTS; i++)
        op.Input(optiling::NAMES[i]).ParamType(REQUIRED).DataType({ge::DT_FLOAT16}).Format({ge::FORMAT_ND});
    op.Input("slots").ParamType(REQUIRED).DataType({ge::DT_INT32}).Format({ge::FORMAT_ND}).ValueDepend(OPTIONAL);
    for (const char* name : {"q", "kv_cache", "kr_cache"})
        op.Output(name).ParamType(REQUIRED).DataType({ge::DT_FLOAT16}).Format({ge::FORMAT_ND});
    op.Attr("heads").AttrType(OPTIONAL).Int(1);
    op.Attr("cache_rows").AttrType(OPTIONAL).Int(0);  // 0: as many as there are tokens
    op.Attr("epsilon").AttrType(OPTIONAL).Float(1e-5f);
    op.SetInferShape(ge::InferShape).SetInferDataType(ge::InferDataType);
}

class MlaProlog : public OpDef {
public:
    explicit MlaProlog(const char* name) : OpDef(name) {
        Declare(*this);
        this->AICore().SetTiling(optiling::Tile);
        library::BuildFrom(*this, "mla_prolog", "mla_prolog");
    }
};
OP_ADD(MlaProlog);

class MlaPrologNaive : public OpDef {
public:
    explicit MlaPrologNaive(const char* name) : OpDef(name) {
        Declare(*this);
        this->AICore().SetTiling(optiling::TileNaive);
        library::BuildFrom(*this, "mla_prolog", "mla_prolog_naive");
    }
};
OP_ADD(MlaPrologNaive);

}  // namespace ops
