// Softmax along the last axis, on the host: which strategy, how many cores, how much at a time.
#include "../../rows/row_cuts.h"
#include "../op_kernel/softmax_tiling_data.h"

namespace optiling {

using namespace library;

constexpr uint64_t TILE_FLOATS = 10240;     // elements of one input buffer: few enough for two, many enough for the copies' rate
constexpr uint64_t PIECE_COLUMNS = 8192;    // columns at a time of rows that do not fit UB
constexpr uint64_t FIXED_BYTES = 18 << 10;  // numbers of the rows in work, their blocks, and short rows folded
constexpr uint64_t ROW_BYTES = 16 << 10;    // the same where rows are worked on one by one
constexpr uint64_t COPY_ROWS = 4095;        // of one copy

// Rows that UB holds four times, half types once more as floats, with what folding them column by column takes; 0: not one.
static uint64_t TileRows(uint64_t width, uint64_t item, uint64_t ubBytes) {
    const uint64_t each = 4 * width * item + (item == 2 ? 4 * width : 0) + (width >= 64 ? 288 : 0);
    return std::min(TILE_FLOATS / width, (ubBytes - FIXED_BYTES) / each);
}

// How many buffers per queue a whole row leaves room for: 2, 1 or 0. Folding it takes half a byte a column.
static uint64_t Buffers(uint64_t width, uint64_t item, uint64_t ubBytes) {
    for (uint64_t buffers : {2, 1})
        if (width * (2 * buffers * item + (item == 2 ? 4 : 0)) + width / 2 + ROW_BYTES <= ubBytes) return buffers;
    return 0;
}

// x as rows of its last axis. Says which rule a call breaks, if any.
static ge::graphStatus ReadRows(gert::TilingContext* context, SoftmaxTilingData& data) {
    const gert::Shape& x = ShapeOf(context, 0);
    OPS_RULE(!x.IsScalar(), "softmax needs an axis and x is a scalar; pass x.reshape(1)");
    const uint64_t columns = Dim(x, x.GetDimNum() - 1), rows = columns == 0 ? 0 : Size(x) / columns;
    OPS_RULE(rows <= UINT32_MAX && columns <= UINT32_MAX, "x has %lu rows of %lu columns, too many to count in 32 bits; split it", rows,
             columns);
    data = {};
    data.rows = static_cast<uint32_t>(rows);
    data.columns = data.partColumns = static_cast<uint32_t>(columns);
    data.pieceColumns = PIECE_COLUMNS;
    data.tileRows = data.parts = 1;
    data.buffers = 2;
    return ge::GRAPH_SUCCESS;
}

static ge::graphStatus Tile(gert::TilingContext* context) {
    auto* data = context->GetTilingData<SoftmaxTilingData>();
    if (ReadRows(context, *data) != ge::GRAPH_SUCCESS) return ge::GRAPH_FAILED;
    const uint64_t rows = data->rows, columns = data->columns, item = ItemBytes(context, 0);
    if (rows * columns == 0) return Launch(context, 1, 1);
    const bool alike = *context->GetAttrs()->GetBool(0);  // a row gives the same bits in every batch: only columns may decide
    const Chip chip(context);
    const uint64_t width = PaddedColumns(columns, item), cores = CoresFor(rows, width, chip.aiv), share = CeilDiv(rows, cores);
    const uint64_t most = std::max<uint64_t>(1, TileRows(width, item, chip.ubBytes)), height = std::min(share, most);
    if (width <= MANY_COLUMNS && (alike ? most : height) * MANY_ROWS_FACTOR >= width) {
        data->tileRows = static_cast<uint32_t>(EvenRows(share, std::min(height, COPY_ROWS)));
        return Launch(context, cores, 1);
    }
    const uint64_t buffers = Buffers(width, item, chip.ubBytes), parts = alike ? 1 : PartsOf(rows, columns, chip.aiv);
    if (buffers > 0 && (columns < SHARED_COLUMNS || parts == 1)) {
        data->tileRows = static_cast<uint32_t>(height);
        data->buffers = static_cast<uint32_t>(buffers);
        return Launch(context, cores, 2);
    }
    data->parts = static_cast<uint32_t>(parts);
    data->partColumns = static_cast<uint32_t>(PartColumns(columns, parts));
    return Launch(context, std::min(cores, chip.aiv / parts) * parts, 3, rows * parts * SLOT_BYTES);
}

static ge::graphStatus TileNaive(gert::TilingContext* context) {
    auto* data = context->GetTilingData<SoftmaxTilingData>();
    if (ReadRows(context, *data) != ge::GRAPH_SUCCESS) return ge::GRAPH_FAILED;
    return Launch(context, std::clamp<uint64_t>(data->rows, 1, Chip(context).aiv));
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
    op.Input("x").ParamType(REQUIRED).DataType(types).Format(formats);
    op.Output("y").ParamType(REQUIRED).DataType(types).Format(formats);
    op.Attr("batch_invariant").AttrType(OPTIONAL).Bool(false);
    op.SetInferShape(ge::InferShape).SetInferDataType(ge::InferDataType);
}

class Softmax : public OpDef {
public:
    explicit Softmax(const char* name) : OpDef(name) {
        Declare(*this);
        this->AICore().SetTiling(optiling::Tile);
        library::BuildFrom(*this, "softmax", "softmax");
    }
};
OP_ADD(Softmax);

class SoftmaxNaive : public OpDef {
public:
    explicit SoftmaxNaive(const char* name) : OpDef(name) {
        Declare(*this);
        this->AICore().SetTiling(optiling::TileNaive);
        library::BuildFrom(*this, "softmax", "softmax_naive");
    }
};
OP_ADD(SoftmaxNaive);

}  // namespace ops
