// c = a x b on the host: checks the shapes and decides in which order the tiles of c are computed. Each rung of the kernel's ladder is an
// operator; the first three take the tiles in reading order.
#include "../op_kernel/matmul_tiling_data.h"
#include "cube_blocks.h"

namespace optiling {

using namespace library;

static ge::graphStatus Order(gert::TilingContext* context, bool inBlocks) {
    const gert::Shape &a = ShapeOf(context, 0), &b = ShapeOf(context, 1);
    if (CheckProduct(a, b, "a", "b") != ge::GRAPH_SUCCESS) return ge::GRAPH_FAILED;
    const uint64_t m = Dim(a, 0), k = Dim(a, 1), n = Dim(b, 1), cores = Chip(context).aic;
    OPS_RULE(k > 0 || m * n == 0, "k is 0; fill c with zeros instead of multiplying");
    auto* data = context->GetTilingData<MatmulTilingData>();
    data->m = static_cast<uint32_t>(m);
    data->n = static_cast<uint32_t>(n);
    data->k = static_cast<uint32_t>(k);
    data->partsM = data->partsN = data->bandTiles = 1;
    data->keepEvery = 0;
    if (!inBlocks || m * n == 0) return Launch(context, std::clamp<uint64_t>(CeilDiv(m, TILE_M) * CeilDiv(n, TILE_N), 1, cores));
    const uint64_t rowsInL2 = Chip(context).l2Bytes / 2 / (k * sizeof(uint16_t));  // beside columns of b and of c
    const Blocks blocks = ChooseBlocks(m, n, k, cores, rowsInL2);
    data->partsM = blocks.partsM;
    data->partsN = blocks.partsN;
    data->bandTiles = blocks.bandTiles;
    data->keepEvery = blocks.keepEvery;
    return Launch(context, uint64_t{blocks.partsM} * blocks.partsN);
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

class MatmulKept : public OpDef {
public:
    explicit MatmulKept(const char* name) : OpDef(name) {
        Declare(*this);
        this->AICore().SetTiling(optiling::Tile);
        library::BuildFrom(*this, "matmul", "matmul_kept");
    }
};
OP_ADD(MatmulKept);

class MatmulBlocks : public OpDef {
public:
    explicit MatmulBlocks(const char* name) : OpDef(name) {
        Declare(*this);
        this->AICore().SetTiling(optiling::Tile);
        library::BuildFrom(*this, "matmul", "matmul_blocks");
    }
};
OP_ADD(MatmulBlocks);

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
