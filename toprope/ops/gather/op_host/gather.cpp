// y = table[indices], on the host: rows from GM or a table in UB, how many cores, how much at a time.
#include "../../host/launch.h"
#include "../op_kernel/gather_tiling_data.h"

namespace optiling {

using namespace library;

constexpr uint64_t BATCH_BYTES = 32 << 10;         // of rows that are stored together; two of them and the indices leave room in UB
constexpr uint64_t PIECE_BYTES = 64 << 10;         // of a long row moved at a time
constexpr uint64_t TABLE_BYTES = 96 << 10;         // a table up to this size is kept in UB
constexpr uint64_t RESIDENT_ROW_BYTES = 31 * 32;   // Gatherb counts the distance of repeats, eight rows, in one byte
constexpr uint64_t INDEX_TILE = 2040;              // indices held at a time, as in the kernel
constexpr uint64_t LINE_BYTES = 512;               // parts of a row are whole ones
constexpr uint64_t PART_BYTES = 4096;              // a part of a row is about as long at least
constexpr uint64_t MOST_TABLE_BYTES = 1ull << 40;  // what a 32-bit number of rows of 32-bit length is kept below

// The numbers that every version needs. Says which rule a call breaks, if any.
static ge::graphStatus Read(gert::TilingContext* context, GatherTilingData& data) {
    const gert::Shape &table = ShapeOf(context, 0), &indices = ShapeOf(context, 1);
    OPS_RULE(!table.IsScalar(), "the table is a scalar and has no rows; give it at least one axis");
    const uint64_t rows = Dim(table, 0), count = Size(indices);
    uint64_t rowBytes = ItemBytes(context, 0);
    for (size_t axis = 1; axis < table.GetDimNum(); axis++) rowBytes *= Dim(table, axis);
    OPS_RULE(rowBytes <= UINT32_MAX && rowBytes * std::max<uint64_t>(rows, 1) < MOST_TABLE_BYTES,
             "the table has %lu rows of %lu bytes; at most 1 TB, and rows of 4 GB", rows, rowBytes);
    OPS_RULE(rows <= UINT32_MAX && count <= UINT32_MAX, "%lu rows and %lu indices, too many to count in 32 bits; split them", rows, count);
    data = {};
    data.tableRows = static_cast<uint32_t>(rows);
    data.rowBytes = data.partBytes = static_cast<uint32_t>(rowBytes);
    data.indices = static_cast<uint32_t>(count);
    data.pieceBytes = static_cast<uint32_t>(std::max<uint64_t>(1, std::min(rowBytes, PIECE_BYTES)));
    data.parts = data.batchRows = 1;
    return ge::GRAPH_SUCCESS;
}

static ge::graphStatus Tile(gert::TilingContext* context) {
    auto* data = context->GetTilingData<GatherTilingData>();
    if (Read(context, *data) != ge::GRAPH_SUCCESS) return ge::GRAPH_FAILED;
    const uint64_t rowBytes = data->rowBytes, count = data->indices, tableBytes = data->tableRows * rowBytes, aiv = Chip(context).aiv;
    const uint64_t cores = std::max<uint64_t>(1, std::min(aiv, count)), share = CeilDiv(count, cores);
    data->coreIndices = static_cast<uint32_t>(share);
    if (count == 0 || rowBytes == 0) return Launch(context, 1, 1);
    const bool resident = tableBytes > 0 && tableBytes <= TABLE_BYTES && rowBytes % 32 == 0 && rowBytes <= RESIDENT_ROW_BYTES;
    // Every core loads the whole table; below that many bytes of rows it is cheaper to fetch them one by one.
    if (resident && share * rowBytes >= tableBytes / 4) {
        data->batchRows = static_cast<uint32_t>(std::min(INDEX_TILE, BATCH_BYTES / rowBytes / 8 * 8));
        return Launch(context, CeilDiv(count, share), 2);
    }
    const uint64_t parts = std::min(aiv / cores, std::max<uint64_t>(1, rowBytes / PART_BYTES));
    if (parts > 1) {
        data->parts = static_cast<uint32_t>(parts);
        data->partBytes = static_cast<uint32_t>(CeilDiv(CeilDiv(rowBytes, parts), LINE_BYTES) * LINE_BYTES);
        data->pieceBytes = static_cast<uint32_t>(std::min<uint64_t>(data->partBytes, PIECE_BYTES));
    }
    const uint64_t padded = CeilDiv(data->pieceBytes, 32) * 32;
    data->batchRows = static_cast<uint32_t>(std::max<uint64_t>(1, std::min(BATCH_BYTES / padded, share)));
    return Launch(context, CeilDiv(count, share) * parts, 1);
}

static ge::graphStatus TileNaive(gert::TilingContext* context) {
    auto* data = context->GetTilingData<GatherTilingData>();
    if (Read(context, *data) != ge::GRAPH_SUCCESS) return ge::GRAPH_FAILED;
    const uint64_t cores = std::clamp<uint64_t>(data->indices, 1, Chip(context).aiv);
    data->coreIndices = static_cast<uint32_t>(CeilDiv(data->indices, cores));
    return Launch(context, cores);
}

}  // namespace optiling

namespace ge {

// The axes of the indices, and those of a row.
static graphStatus InferShape(gert::InferShapeContext* context) {
    const gert::Shape &table = *context->GetInputShape(0), &indices = *context->GetInputShape(1);
    gert::Shape& y = *context->GetOutputShape(0);
    y = indices;
    for (size_t axis = 1; axis < table.GetDimNum(); axis++) y.AppendDim(table.GetDim(axis));
    return GRAPH_SUCCESS;
}

static graphStatus InferDataType(gert::InferDataTypeContext* context) {
    return context->SetOutputDataType(0, context->GetInputDataType(0));
}

}  // namespace ge

namespace ops {

static void Declare(OpDef& op) {
    const std::vector<ge::DataType> types = {ge::DT_FLOAT, ge::DT_FLOAT16, ge::DT_BF16,  ge::DT_INT8,
                                             ge::DT_UINT8, ge::DT_INT16,   ge::DT_INT32, ge::DT_INT64};
    const std::vector<ge::DataType> indices(types.size(), ge::DT_INT32);
    const std::vector<ge::Format> formats(types.size(), ge::FORMAT_ND);
    op.Input("table").ParamType(REQUIRED).DataType(types).Format(formats);
    op.Input("indices").ParamType(REQUIRED).DataType(indices).Format(formats);
    op.Output("y").ParamType(REQUIRED).DataType(types).Format(formats);
    op.SetInferShape(ge::InferShape).SetInferDataType(ge::InferDataType);
}

class Gather : public OpDef {
public:
    explicit Gather(const char* name) : OpDef(name) {
        Declare(*this);
        this->AICore().SetTiling(optiling::Tile);
        library::BuildFrom(*this, "gather", "gather");
    }
};
OP_ADD(Gather);

class GatherNaive : public OpDef {
public:
    explicit GatherNaive(const char* name) : OpDef(name) {
        Declare(*this);
        this->AICore().SetTiling(optiling::TileNaive);
        library::BuildFrom(*this, "gather", "gather_naive");
    }
};
OP_ADD(GatherNaive);

}  // namespace ops
