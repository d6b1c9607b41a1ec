// Choice of experts on the host: checks x, bias and the attributes, and decides how rows lie in UB and how many are worked on at a time.
#include "../../host/launch.h"
#include "../op_kernel/moe_gating_topk_tiling_data.h"

namespace optiling {

using namespace library;

constexpr uint64_t SORTED = 32;            // what Sort32 sorts; so many experts can be chosen at most
constexpr uint64_t SORTED_WHOLE = 128;     // rows up to this width are sorted as a whole: looking for their best blocks first does not pay
constexpr uint64_t RESIDENT_WIDTH = 4096;  // a row up to this width is done by one core
constexpr uint64_t NAIVE_WIDTH = 8192;
constexpr uint64_t GROUPED_WIDTH = 1024;
constexpr uint64_t LEAST_PART = 4096;  // experts of a part: below, another meeting of the cores takes longer than what it saves
constexpr uint64_t REPEATS = 255;      // of one instruction
enum Attribute : size_t { CORES_PER_ROW, K, GROUP_COUNT, K_GROUP, GROUP_SELECT_MODE, NORM_TYPE, RENORM, SCALING, EPS };

static ge::graphStatus CheckAttributes(const gert::RuntimeAttrs* given, int64_t experts) {
    const int64_t k = *given->GetInt(K), groups = *given->GetInt(GROUP_COUNT), kept = *given->GetInt(K_GROUP), cores = *given->GetInt(0);
    const int64_t mode = *given->GetInt(GROUP_SELECT_MODE), norm = *given->GetInt(NORM_TYPE), renorm = *given->GetInt(RENORM);
    const int64_t most = static_cast<int64_t>(SORTED);
    OPS_RULE(groups >= 1 && groups <= most && experts % groups == 0,
             "%ld experts in %ld groups; group_count divides the experts and is 1 to %ld", experts, groups, most);
    OPS_RULE(kept >= 1 && kept <= groups, "k_group %ld of %ld groups; k_group is 1 to group_count", kept, groups);
    OPS_RULE(
        (mode == 0 || mode == 1) && (norm == 0 || norm == 1) && (renorm == 0 || renorm == 1),
        "group_select_mode %ld, norm_type %ld, renorm %ld; group_select_mode: 0 largest, 1 sum of the two largest; norm_type: 0 softmax, 1 "
        "sigmoid; renorm: 0 or 1",
        mode, norm, renorm);
    OPS_RULE(mode == 0 || experts / groups >= 2, "group_select_mode 1 adds the two best of a group of one; use larger groups or mode 0");
    const int64_t free = experts / groups * kept, allowed = std::min(most, free);
    OPS_RULE(k >= 1 && k <= allowed, "k = %ld of %ld experts that may be chosen; k is 1 to %ld here", k, free, allowed);
    OPS_RULE(cores >= 0, "cores_per_row %ld; 0 leaves it to the host", cores);
    return ge::GRAPH_SUCCESS;
}

// The sizes and attributes that every version needs. Says which rule a call breaks, if any.
static ge::graphStatus Read(gert::TilingContext* context, MoeGatingTopkTilingData& data) {
    const gert::Shape& x = ShapeOf(context, 0);
    const gert::StorageShape* bias = context->GetOptionalInputShape(1);
    const gert::RuntimeAttrs* given = context->GetAttrs();
    const uint64_t rows = Dim(x, 0), experts = Dim(x, 1);
    OPS_RULE(bias == nullptr || (bias->GetStorageShape().GetDimNum() == 1 && Dim(bias->GetStorageShape(), 0) == experts),
             "bias has another length; give float32 of shape (%lu,), one per expert", experts);
    if (CheckAttributes(given, static_cast<int64_t>(experts)) != ge::GRAPH_SUCCESS) return ge::GRAPH_FAILED;
    data = {};
    data.rows = static_cast<uint32_t>(rows);
    data.experts = static_cast<uint32_t>(experts);
    data.k = static_cast<uint32_t>(*given->GetInt(K));
    data.groups = static_cast<uint32_t>(*given->GetInt(GROUP_COUNT));
    data.keptGroups = static_cast<uint32_t>(*given->GetInt(K_GROUP));
    data.topTwo = static_cast<uint32_t>(*given->GetInt(GROUP_SELECT_MODE));
    data.sigmoid = static_cast<uint32_t>(*given->GetInt(NORM_TYPE));
    data.renorm = static_cast<uint32_t>(*given->GetInt(RENORM));
    data.biased = bias != nullptr ? 1 : 0;
    data.scale = *given->GetFloat(SCALING);
    data.epsilon = *given->GetFloat(EPS);
    data.parts = data.tileRows = data.coreRows = 1;
    data.partExperts = data.experts;
    return ge::GRAPH_SUCCESS;
}

// How many cores share a row: enough that a part fits, and as many as rows leave free while parts are long enough.
static ge::graphStatus Share(MoeGatingTopkTilingData& data, uint64_t wanted, uint64_t aiv) {
    const uint64_t experts = data.experts, least = CeilDiv(experts, RESIDENT_WIDTH);
    OPS_RULE(wanted > 0 || (data.groups == 1 && data.biased == 0),
             "%lu experts with groups or a bias; rows of more than %lu experts take neither", experts, RESIDENT_WIDTH);
    OPS_RULE(wanted > 0 || least <= aiv, "%lu experts; at most %lu on this chip", experts, aiv * RESIDENT_WIDTH);
    const uint64_t free = std::min(aiv / std::max<uint64_t>(1, data.rows), experts / LEAST_PART);
    const uint64_t parts = wanted > 0 ? wanted : std::max(least, free);
    OPS_RULE(parts <= aiv, "cores_per_row %lu; the chip has %lu", parts, aiv);
    data.parts = static_cast<uint32_t>(parts);
    if (parts > 1) data.partExperts = static_cast<uint32_t>(CeilDiv(CeilDiv(experts, parts), SORTED) * SORTED);
    return ge::GRAPH_SUCCESS;
}

// How a row lies in UB, and how many entries of it are looked at and kept.
static ge::graphStatus Lay(MoeGatingTopkTilingData& data, uint64_t widest, uint64_t item) {
    const uint64_t experts = data.partExperts, groups = data.groups, most = groups == 1 ? widest : GROUPED_WIDTH;
    const uint64_t groupWidth = groups > 1 ? CeilDiv(experts / groups, SORTED) * SORTED : experts;
    uint64_t width = SORTED, blocks = 8;
    while (width < groups * groupWidth) width *= 2;
    OPS_RULE(width <= most,
             "%lu experts in %lu groups take %lu places; at most %lu, groups rounded up to %lu and their sum to a power of two", experts,
             groups, width, most, SORTED);
    while (blocks < data.k) blocks *= 2;
    uint64_t keep = CeilDiv(data.k, 8) * 8;
    if (keep != data.k && item == 2) keep = CeilDiv(data.k, 16) * 16;
    data.width = static_cast<uint32_t>(width);
    data.groupWidth = static_cast<uint32_t>(groupWidth);
    data.blocks = width > SORTED_WHOLE ? static_cast<uint32_t>(blocks) : 0;
    data.keep = static_cast<uint32_t>(keep);
    return ge::GRAPH_SUCCESS;
}

// As many rows as UB and the repeat counts of the instructions allow, but no more than a core has.
static uint64_t TileRows(const MoeGatingTopkTilingData& d, uint64_t item, uint64_t ubBytes) {
    const uint64_t width = d.width, keep = d.keep, blocks = d.blocks;
    const uint64_t wide = (item == 2) + (d.sigmoid == 0 || d.biased != 0) + (d.biased != 0 || d.groups > 1);
    const uint64_t sortedFirst = blocks > 0 ? width / 8 : width, near = blocks * 8;
    const uint64_t entries = std::max({sortedFirst, near, d.groups > 1 ? width : 0, SORTED});
    uint64_t floats = wide * width + width / 8 + 73 + 4 * entries + sortedFirst + 3 * blocks + 2 * SORTED + 2 * near + 9 * keep;
    floats += 64 + SORTED + 3 * blocks + (d.groups > 1 ? 7 * SORTED : 0);
    const uint64_t rowBytes = 2 * item * (width + keep) + 8 * keep + 4 * floats, shared = 4 * (3 * width + 64 + 16 * keep) + (4 << 10);
    uint64_t limit = blocks > 0 ? std::min(REPEATS * 64 / width, REPEATS * 4 / blocks) : REPEATS * SORTED / width;
    if (d.groups > 1) limit = std::min(limit, REPEATS * SORTED / width);
    const uint64_t fit = ubBytes > shared ? (ubBytes - shared) / rowBytes : 0;
    const uint64_t most = std::max<uint64_t>(1, std::min({static_cast<uint64_t>(d.coreRows), fit, limit, REPEATS}));
    return CeilDiv(d.coreRows, CeilDiv(d.coreRows, most));  // tiles of one size
}

static ge::graphStatus Cut(gert::TilingContext* context, bool naive) {
    auto* data = context->GetTilingData<MoeGatingTopkTilingData>();
    if (Read(context, *data) != ge::GRAPH_SUCCESS) return ge::GRAPH_FAILED;
    const uint64_t wanted = static_cast<uint64_t>(*context->GetAttrs()->GetInt(CORES_PER_ROW)), item = ItemBytes(context, 0);
    const Chip chip(context);
    if (!naive && (wanted > 1 || data->experts > RESIDENT_WIDTH) && Share(*data, wanted, chip.aiv) != ge::GRAPH_SUCCESS)
        return ge::GRAPH_FAILED;
    if (Lay(*data, naive ? NAIVE_WIDTH : RESIDENT_WIDTH, item) != ge::GRAPH_SUCCESS) return ge::GRAPH_FAILED;
    const uint64_t rows = data->rows, parts = data->parts, teams = std::clamp<uint64_t>(rows, 1, chip.aiv / parts);
    data->coreRows = static_cast<uint32_t>(std::max<uint64_t>(1, CeilDiv(rows, teams)));
    if (naive) return Launch(context, teams);
    if (parts == 1) {
        data->tileRows = static_cast<uint32_t>(TileRows(*data, item, chip.ubBytes));
        return Launch(context, std::max<uint64_t>(1, CeilDiv(rows, data->coreRows)), 1);
    }
    const uint64_t blocks = teams * parts;
    return Launch(context, blocks, 2, 2 * blocks * (2 * data->keep + 16) * sizeof(float));
}

static ge::graphStatus Tile(gert::TilingContext* context) { return Cut(context, false); }
static ge::graphStatus TileNaive(gert::TilingContext* context) { return Cut(context, true); }

}  // namespace optiling

namespace ge {

static graphStatus InferShape(gert::InferShapeContext* context) {
    const gert::Shape& x = *context->GetInputShape(0);
    OPS_RULE(x.GetDimNum() == 2, "x has %zu axes; it must be (rows, experts)", x.GetDimNum());
    for (size_t i : {0, 1}) *context->GetOutputShape(i) = gert::Shape({x.GetDim(0), *context->GetAttrs()->GetInt(optiling::K)});
    return GRAPH_SUCCESS;
}

static graphStatus InferDataType(gert::InferDataTypeContext* context) {
    if (context->SetOutputDataType(0, context->GetInputDataType(0)) != GRAPH_SUCCESS) return GRAPH_FAILED;
    return context->SetOutputDataType(1, ge::DT_INT32);
}

}  // namespace ge

namespace ops {

static void Declare(OpDef& op) {
    const std::vector<ge::DataType> types = {ge::DT_FLOAT, ge::DT_FLOAT16, ge::DT_BF16};
    const std::vector<ge::DataType> floats(types.size(), ge::DT_FLOAT), numbers(types.size(), ge::DT_INT32);
    const std::vector<ge::Format> formats(types.size(), ge::FORMAT_ND);
    op.Input("x").ParamType(REQUIRED).DataType(types).Format(formats);
    op.Input("bias").ParamType(OPTIONAL).DataType(floats).Format(formats);
    op.Output("y").ParamType(REQUIRED).DataType(types).Format(formats);
    op.Output("expert_idx").ParamType(REQUIRED).DataType(numbers).Format(formats);
    op.Attr("cores_per_row").AttrType(OPTIONAL).Int(0);  // 0: the host decides
    op.Attr("k").AttrType(OPTIONAL).Int(1);
    op.Attr("group_count").AttrType(OPTIONAL).Int(1);
    op.Attr("k_group").AttrType(OPTIONAL).Int(1);
    op.Attr("group_select_mode").AttrType(OPTIONAL).Int(0);
    op.Attr("norm_type").AttrType(OPTIONAL).Int(0);
    op.Attr("renorm").AttrType(OPTIONAL).Int(0);
    op.Attr("routed_scaling_factor").AttrType(OPTIONAL).Float(1.0f);
    op.Attr("eps").AttrType(OPTIONAL).Float(1e-20f);
    op.SetInferShape(ge::InferShape).SetInferDataType(ge::InferDataType);
}

class MoeGatingTopk : public OpDef {
public:
    explicit MoeGatingTopk(const char* name) : OpDef(name) {
        Declare(*this);
        this->AICore().SetTiling(optiling::Tile);
        library::BuildFrom(*this, "moe_gating_topk", "moe_gating_topk");
    }
};
OP_ADD(MoeGatingTopk);

class MoeGatingTopkNaive : public OpDef {
public:
    explicit MoeGatingTopkNaive(const char* name) : OpDef(name) {
        Declare(*this);
        this->AICore().SetTiling(optiling::TileNaive);
        library::BuildFrom(*this, "moe_gating_topk", "moe_gating_topk_naive");
    }
};
OP_ADD(MoeGatingTopkNaive);

}  // namespace ops
