// Attention of a decoding step on the host: checks the cache and its tables, and shares the tokens out among the cores.
#include "../../host/launch.h"
#include "../op_kernel/paged_attention_tiling_data.h"

namespace optiling {

using namespace library;

constexpr uint64_t MOST_GROUP = 16;    // query heads of a head of the cache: rows of a fractal
constexpr uint64_t GRAIN = 128;        // parts begin on multiples of this many tokens
constexpr uint64_t TASK_COST = 256;    // tokens that the start of a task costs as much as
constexpr uint64_t STATE_FLOATS = 16;  // of a row of a task, as in the kernel
enum Input : size_t { QUERY, KEYS, VALUES, TABLE, LENGTHS };

// Sizes, and which rule they break, if any.
static ge::graphStatus Check(gert::TilingContext* context, PagedAttentionTilingData& data) {
    const gert::Shape &query = ShapeOf(context, QUERY), &keys = ShapeOf(context, KEYS), &table = ShapeOf(context, TABLE);
    OPS_RULE(
        query.GetDimNum() == 3 && keys.GetDimNum() == 4 && keys == ShapeOf(context, VALUES) && keys.GetDim(3) == query.GetDim(2),
        "query and caches do not go together; query (batch, heads, head size), both caches (pages, tokens of a page, heads of the cache, "
        "head size)");
    const uint64_t batch = Dim(query, 0), heads = Dim(query, 1), dim = Dim(query, 2), page = Dim(keys, 1), kvHeads = Dim(keys, 2);
    OPS_RULE(dim == 64 || dim == 128, "head size %lu; it must be one of 64, 128", dim);
    OPS_RULE(kvHeads > 0 && heads % kvHeads == 0 && heads / kvHeads <= MOST_GROUP,
             "%lu query heads for %lu heads of the cache; a whole number of query heads for each, at most %lu", heads, kvHeads, MOST_GROUP);
    OPS_RULE(page > 0 && page % 16 == 0, "pages of %lu tokens; a multiple of 16: fractals do not straddle pages", page);
    const gert::Shape& lengths = ShapeOf(context, LENGTHS);
    OPS_RULE(table.GetDimNum() == 2 && Dim(table, 0) == batch && lengths.GetDimNum() == 1 && Dim(lengths, 0) == batch,
             "block_table and context_lens do not fit the query; int32 of shapes (%lu, pages of a sequence) and (%lu,)", batch, batch);
    const float scale = *context->GetAttrs()->GetFloat(0);
    data = {};
    data.batch = static_cast<uint32_t>(batch);
    data.heads = static_cast<uint32_t>(heads);
    data.kvHeads = static_cast<uint32_t>(kvHeads);
    data.group = static_cast<uint32_t>(heads / kvHeads);
    data.headDim = static_cast<uint32_t>(dim);
    data.pageTokens = static_cast<uint32_t>(page);
    data.pages = static_cast<uint32_t>(Dim(keys, 0));
    data.tableWidth = static_cast<uint32_t>(Dim(table, 1));
    data.scale = scale != 0 ? scale : static_cast<float>(1 / std::sqrt(static_cast<double>(dim)));
    return ge::GRAPH_SUCCESS;
}

static ge::graphStatus CheckLengths(const PagedAttentionTilingData& data, const int32_t* lengths) {
    const uint64_t room = static_cast<uint64_t>(data.tableWidth) * data.pageTokens;
    for (uint32_t i = 0; i < data.batch; i++)
        OPS_RULE(lengths[i] >= 0 && static_cast<uint64_t>(lengths[i]) <= room, "context_lens[%u] is %d; block_table has room for 0 to %lu",
                 i, lengths[i], room);
    return ge::GRAPH_SUCCESS;
}

// The tokens of all sequences and heads, one behind the other, in equal parts, one a core; a head costs its start besides. Returns the
// cores.
static uint64_t Share(PagedAttentionTilingData& data, const int32_t* lengths, uint64_t cores) {
    uint64_t cost = 0, spent = 0, parts = 1, tasks = 0;
    for (uint32_t i = 0; i < data.batch; i++) cost += lengths[i] > 0 ? (lengths[i] + TASK_COST) * data.kvHeads : 0;
    const uint64_t share = std::max<uint64_t>(1, CeilDiv(cost, cores));
    for (uint32_t head = 0; head < data.batch * data.kvHeads; head++) {
        const uint64_t length = static_cast<uint64_t>(lengths[head / data.kvHeads]);
        uint64_t from = 0;  // where the part in work begins in this head
        for (uint64_t at = 0, count; at < length; at += count) {
            if (spent + TASK_COST + GRAIN > share * parts && spent > share * (parts - 1) && parts < cores) {
                tasks += CeilDiv(at - from, TASK);
                from = at;
                data.firstHead[parts] = head;
                data.firstToken[parts] = static_cast<uint32_t>(at);
                data.firstTask[parts++] = static_cast<uint32_t>(tasks);
            }
            const uint64_t start = at == 0 ? TASK_COST : 0, end = share * parts, used = spent + start;
            const uint64_t room = used < end ? CeilDiv(end - used, GRAIN) * GRAIN : GRAIN;
            count = std::min({length - at, static_cast<uint64_t>(TASK), room});
            spent += count + start;
        }
        tasks += CeilDiv(length - from, TASK);
    }
    data.firstHead[parts] = data.batch * data.kvHeads;
    data.firstTask[parts] = static_cast<uint32_t>(tasks);
    return parts;
}

static ge::graphStatus Tile(gert::TilingContext* context) {
    auto* data = context->GetTilingData<PagedAttentionTilingData>();
    if (Check(context, *data) != ge::GRAPH_SUCCESS) return ge::GRAPH_FAILED;
    const int32_t* lengths = context->GetInputTensor(LENGTHS)->GetData<int32_t>();
    if (CheckLengths(*data, lengths) != ge::GRAPH_SUCCESS) return ge::GRAPH_FAILED;
    const uint64_t cores = Share(*data, lengths, std::min<uint64_t>(Chip(context).aic, BEGINS - 1)), tasks = data->firstTask[cores];
    const uint64_t floats = 4 * cores * data->group * TASK + tasks * data->group * (data->headDim + STATE_FLOATS);
    return Launch(context, cores, 0, floats * sizeof(float));
}

static ge::graphStatus TileNaive(gert::TilingContext* context) {
    auto* data = context->GetTilingData<PagedAttentionTilingData>();
    if (Check(context, *data) != ge::GRAPH_SUCCESS) return ge::GRAPH_FAILED;
    if (CheckLengths(*data, context->GetInputTensor(LENGTHS)->GetData<int32_t>()) != ge::GRAPH_SUCCESS) return ge::GRAPH_FAILED;
    return Launch(context, std::clamp<uint64_t>(CeilDiv(static_cast<uint64_t>(data->batch) * data->heads, 2), 1, Chip(context).aic));
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
    const std::vector<ge::DataType> types = {ge::DT_FLOAT16, ge::DT_BF16}, numbers(types.size(), ge::DT_INT32);
    const std::vector<ge::Format> formats(types.size(), ge::FORMAT_ND);
    for (const char* name : {"query", "key_cache", "value_cache"}) op.Input(name).ParamType(REQUIRED).DataType(types).Format(formats);
    op.Input("block_table").ParamType(REQUIRED).DataType(numbers).Format(formats);
    op.Input("context_lens").ParamType(REQUIRED).DataType(numbers).Format(formats).ValueDepend(REQUIRED);
    op.Output("out").ParamType(REQUIRED).DataType(types).Format(formats);
    op.Attr("scale").AttrType(OPTIONAL).Float(0.0);  // 0: 1 / sqrt(head size)
    op.SetInferShape(ge::InferShape).SetInferDataType(ge::InferDataType);
}

class PagedAttention : public OpDef {
public:
    explicit PagedAttention(const char* name) : OpDef(name) {
        Declare(*this);
        this->AICore().SetTiling(optiling::Tile);
        library::BuildFrom(*this, "paged_attention", "paged_attention");
    }
};
OP_ADD(PagedAttention);

class PagedAttentionNaive : public OpDef {
public:
    explicit PagedAttentionNaive(const char* name) : OpDef(name) {
        Declare(*this);
        this->AICore().SetTiling(optiling::TileNaive);
        library::BuildFrom(*this, "paged_attention", "paged_attention_naive");
    }
};
OP_ADD(PagedAttentionNaive);

}  // namespace ops
