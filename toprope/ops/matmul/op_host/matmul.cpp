// c = a x b on the host: checks the shapes and decides in which order the tiles of c are computed. Each rung of the kernel's ladder is an
// operator; the first three take the tiles in reading order.
#include "../op_kernel/matmul_tiling_data.h"
#include "cube_bands.h"

namespace optiling {

using namespace library;

static ge::graphStatus Order(gert::TilingContext* context, bool banded) {
    const gert::Shape &a = ShapeOf(context, 0), &b = ShapeOf(context, 1);
    if (CheckProduct(a, b, "a", "b") != ge::GRAPH_SUCCESS) return ge::GRAPH_FAILED;
    const uint64_t m = Dim(a, 0), k = Dim(a, 1), n = Dim(b, 1);
    OPS_RULE(k > 0 || m * n == 0, "k is 0; fill c with zeros instead of multiplying");
    const uint64_t tilesM = CeilDiv(m, TILE_M), blocks = std::clamp<uint64_t>(tilesM * CeilDiv(n, TILE_N), 1, Chip(context).aic);
    auto* data = context->GetTilingData<MatmulTilingData>();
    data->m = static_cast<uint32_t>(m);
    data->n = static_cast<uint32_t>(n);
    data->k = static_cast<uint32_t>(k);
    data->bandRows = banded ? static_cast<uint32_t>(BandTiles(tilesM, blocks)) : 1;
    return Launch(context, blocks);
}

static ge::graphStatus Tile(gert::TilingContext* context) { return Order(context, true); }
static ge::graphStatus TileInOrder(gert::TilingContext* context) { return Order(context, false); }

}  // namespace optiling

namespace ge {

static graphStatus InferShape(gert::InferShapeContext* context) {
    const gert::Shape &a = *context->GetInputShape(0), &b = *context->GetInputShape(1);
    if (library::CheckProduct(a, b, "a", "b") != GRAPH_SUCCESS) return GRAPH_FAILED;
    *context->GetOutputShape(0) = {a.GetDim(0), b.GetDim(1)};
    return GRAPH_SUCCESS;
}

static graphStatus InferDataType(gert::InferDataTypeContext* context) { return context->SetOutputDataType(0, DT_FLOAT16); }

}  // namespace ge

namespace ops {

static void Declare(OpDef& op) {
    for (const char* name : {"a", "b"}) op.Input(name).ParamType(REQUIRED).DataType({ge::DT_FLOAT16}).Format({ge::FORMAT_ND});
    op.Output("c").ParamType(REQUIRED).DataType({ge::DT_FLOAT16}).Format({ge::FORMAT_ND});
    op.SetInferShape(ge::InferShape).SetInferDataType(ge::InferDataType);
}

class Matmul : public OpDef {
public:
    explicit Matmul(const char* name) : OpDef(name) {
        Declare(*this);
        this->AICore().SetTiling(optiling::Tile);
        library::BuildFrom(*this, "matmul", "matmul");
    }
};
OP_ADD(Matmul);

class MatmulBanded : public OpDef {
public:
    explicit MatmulBanded(const char* name) : OpDef(name) {
        Declare(*this);
        this->AICore().SetTiling(optiling::Tile);
        library::BuildFrom(*this, "matmul", "matmul_banded");
    }
};
OP_ADD(MatmulBanded);

class MatmulPackets : public OpDef {
public:
    explicit MatmulPackets(const char* name) : OpDef(name) {
        Declare(*this);
        this->AICore().SetTiling(optiling::TileInOrder);
        library::BuildFrom(*this, "matmul", "matmul_packets");
    }
};
OP_ADD(MatmulPackets);

class MatmulBuffered : public OpDef {
public:
    explicit MatmulBuffered(const char* name) : OpDef(name) {
        Declare(*this);
        this->AICore().SetTiling(optiling::TileInOrder);
        library::BuildFrom(*this, "matmul", "matmul_buffered");
    }
};
OP_ADD(MatmulBuffered);

class MatmulNaive : public OpDef {
public:
    explicit MatmulNaive(const char* name) : OpDef(name) {
        Declare(*this);
        this->AICore().SetTiling(optiling::TileInOrder);
        library::BuildFrom(*this, "matmul", "matmul_naive");
    }
};
OP_ADD(MatmulNaive);

}  // namespace ops
