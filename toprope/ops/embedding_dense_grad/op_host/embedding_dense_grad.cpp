// The gradient of an embedding, on the host: atomic or in order, and equal runs of the indices for all cores, whatever the indices are.
#include "../../host/launch.h"
#include "../op_kernel/embedding_dense_grad_tiling_data.h"

namespace optiling {

using namespace library;

constexpr uint64_t PIECE = 2048;         // columns at a time
constexpr uint64_t BATCH_FLOATS = 8192;  // of rows at a time, in float
constexpr uint64_t MOST_ROWS = 128;
constexpr uint64_t PART_COLUMNS = 256;            // when indices are few, cores share rows; each gets about so many columns at least
constexpr uint64_t LINE = 128;                    // floats of a line of L2: parts are whole ones
constexpr uint64_t CORE_COUNT = 8;                // indices of a core at least, and a multiple: cores begin on 32 bytes of the indices
constexpr uint64_t MOST_RUN = 4096;               // indices that UB holds while it sorts them, twice as entries
constexpr int64_t MOST_SORTED_ROWS = 0x7F000000;  // larger indices have no normal float for a key

struct Attributes {
    explicit Attributes(const gert::RuntimeAttrs* given)
        : weights(*given->GetInt(0)), padding(*given->GetInt(1)), scaled(*given->GetInt(2)), deterministic(*given->GetInt(3)) {}
    int64_t weights, padding, scaled, deterministic;
};

static ge::graphStatus CheckAttributes(const Attributes& a, bool sorts) {
    OPS_RULE(a.weights >= 1 && a.weights < 1ll << 31, "num_weights %ld; at least 1: the rows of the table", a.weights);
    OPS_RULE(a.padding >= -1 && a.padding < a.weights, "padding_idx %ld; -1 for none, or 0 to %ld", a.padding, a.weights - 1);
    OPS_RULE(a.scaled == 0 || a.scaled == 1, "scale_grad_by_freq %ld; 0 or 1", a.scaled);
    OPS_RULE(a.deterministic == 0 || a.deterministic == 1, "deterministic %ld; 0 or 1", a.deterministic);
    OPS_RULE(!sorts || a.weights <= MOST_SORTED_ROWS,
             "num_weights %ld; the sort counts up to %ld: sort before the call, and give positions", a.weights, MOST_SORTED_ROWS);
    return ge::GRAPH_SUCCESS;
}

static ge::graphStatus CheckTensors(gert::TilingContext* context) {
    const gert::Shape &grad = ShapeOf(context, 0), &indices = ShapeOf(context, 1);
    bool alike = grad.GetDimNum() == indices.GetDimNum() + 1;
    for (size_t axis = 0; alike && axis < indices.GetDimNum(); axis++) alike = grad.GetDim(axis) == indices.GetDim(axis);
    OPS_RULE(alike, "grad and indices do not go together; grad has one axis more: a row for each index");
    const uint64_t count = Size(indices);
    OPS_RULE(count <= UINT32_MAX && Dim(grad, indices.GetDimNum()) <= UINT32_MAX,
             "too many indices or columns to count in 32 bits; split them");
    const gert::StorageShape* positions = context->GetOptionalInputShape(2);
    if (positions == nullptr) return ge::GRAPH_SUCCESS;
    const gert::Shape& shape = positions->GetStorageShape();
    OPS_RULE(shape.GetDimNum() == 1 && Dim(shape, 0) == count, "positions have another size than indices; int32 of shape (%lu,)", count);
    const int32_t* values = context->GetInputTensor(1)->GetData<int32_t>();  // none where the device alone has them
    OPS_RULE(values == nullptr || std::is_sorted(values, values + count),
             "positions are given and indices are not sorted; sort them: positions = argsort(indices, kind='stable')");
    return ge::GRAPH_SUCCESS;
}

static ge::graphStatus Cut(gert::TilingContext* context, bool naive) {
    const Attributes attributes(context->GetAttrs());
    const bool sorted = context->GetOptionalInputShape(2) != nullptr, sorts = attributes.deterministic == 1 && !sorted && !naive;
    if (CheckTensors(context) != ge::GRAPH_SUCCESS || CheckAttributes(attributes, sorts) != ge::GRAPH_SUCCESS) return ge::GRAPH_FAILED;
    const gert::Shape& grad = ShapeOf(context, 0);
    const uint64_t columns = Dim(grad, grad.GetDimNum() - 1), count = Size(ShapeOf(context, 1)), aiv = Chip(context).aiv;
    const uint64_t cores = naive && attributes.deterministic ? 1 : aiv;  // one core adds in the order of the rows
    const uint64_t coreCount = std::max(CORE_COUNT, CeilDiv(CeilDiv(count, cores), CORE_COUNT) * CORE_COUNT);
    uint64_t parts = std::min(aiv / std::max<uint64_t>(1, CeilDiv(count, coreCount)), CeilDiv(columns, PART_COLUMNS));
    parts = naive ? 1 : std::max<uint64_t>(1, parts);
    const uint64_t part = parts > 1 ? CeilDiv(CeilDiv(columns, parts), LINE) * LINE : columns;
    const uint64_t piece = std::clamp<uint64_t>(part, 1, PIECE), width = CeilDiv(piece, 16) * 16;
    auto* data = context->GetTilingData<EmbeddingDenseGradTilingData>();
    data->count = static_cast<uint32_t>(count);
    data->weights = static_cast<uint32_t>(attributes.weights);
    data->columns = static_cast<uint32_t>(columns);
    data->coreCount = static_cast<uint32_t>(coreCount);
    data->parts = static_cast<uint32_t>(parts);
    data->partColumns = static_cast<uint32_t>(part);
    data->batchRows = naive ? 1 : static_cast<uint32_t>(std::clamp<uint64_t>(BATCH_FLOATS / width, 1, MOST_ROWS));
    data->piece = static_cast<uint32_t>(piece);
    data->runLength = static_cast<uint32_t>(std::clamp<uint64_t>(CeilDiv(CeilDiv(count, aiv), 32) * 32, 32, MOST_RUN));
    data->sorted = sorted ? 1 : 0;
    data->scaled = static_cast<uint32_t>(attributes.scaled);
    data->paddingIndex = static_cast<int32_t>(attributes.padding);
    // All cores: those without indices clear their part of y. The workspace: entries twice, parts of runs; or how often indices occur.
    const uint64_t runParts = 2 * aiv * (width + 8) * sizeof(float);
    if (sorts) return Launch(context, cores, 3, 4 * count * sizeof(float) + runParts);
    if (sorted && !naive) return Launch(context, cores, 2, runParts);
    return Launch(context, cores, naive ? 0 : 1, data->scaled * data->weights * sizeof(float));
}

static ge::graphStatus Tile(gert::TilingContext* context) { return Cut(context, false); }
static ge::graphStatus TileNaive(gert::TilingContext* context) { return Cut(context, true); }

}  // namespace optiling

namespace ge {

static graphStatus InferShape(gert::InferShapeContext* context) {
    const gert::Shape& grad = *context->GetInputShape(0);
    const int64_t weights = *context->GetAttrs()->GetInt(0);
    OPS_RULE(!grad.IsScalar(), "grad is a scalar; it has one axis more than indices: a row for each index");
    OPS_RULE(weights >= 1, "num_weights %ld; at least 1: the rows of the table", weights);
    *context->GetOutputShape(0) = gert::Shape({weights, grad.GetDim(grad.GetDimNum() - 1)});
    return GRAPH_SUCCESS;
}

static graphStatus InferDataType(gert::InferDataTypeContext* context) { return context->SetOutputDataType(0, ge::DT_FLOAT); }

}  // namespace ge

namespace ops {

static void Declare(OpDef& op) {
    const std::vector<ge::DataType> types = {ge::DT_FLOAT, ge::DT_FLOAT16, ge::DT_BF16};
    const std::vector<ge::DataType> numbers(types.size(), ge::DT_INT32), sums(types.size(), ge::DT_FLOAT);
    const std::vector<ge::Format> formats(types.size(), ge::FORMAT_ND);
    op.Input("grad").ParamType(REQUIRED).DataType(types).Format(formats);
    op.Input("indices").ParamType(REQUIRED).DataType(numbers).Format(formats).ValueDepend(OPTIONAL);
    op.Input("positions").ParamType(OPTIONAL).DataType(numbers).Format(formats);
    op.Output("y").ParamType(REQUIRED).DataType(sums).Format(formats);
    op.Attr("num_weights").AttrType(REQUIRED).Int();
    op.Attr("padding_idx").AttrType(OPTIONAL).Int(-1);
    op.Attr("scale_grad_by_freq").AttrType(OPTIONAL).Int(0);
    op.Attr("deterministic").AttrType(OPTIONAL).Int(0);
    op.SetInferShape(ge::InferShape).SetInferDataType(ge::InferDataType);
}

class EmbeddingDenseGrad : public OpDef {
public:
    explicit EmbeddingDenseGrad(const char* name) : OpDef(name) {
        Declare(*this);
        this->AICore().SetTiling(optiling::Tile);
        library::BuildFrom(*this, "embedding_dense_grad", "embedding_dense_grad");
    }
};
OP_ADD(EmbeddingDenseGrad);

class EmbeddingDenseGradNaive : public OpDef {
public:
    explicit EmbeddingDenseGradNaive(const char* name) : OpDef(name) {
        Declare(*this);
        this->AICore().SetTiling(optiling::TileNaive);
        library::BuildFrom(*this, "embedding_dense_grad", "embedding_dense_grad_naive");
    }
};
OP_ADD(EmbeddingDenseGradNaive);

}  // namespace ops
