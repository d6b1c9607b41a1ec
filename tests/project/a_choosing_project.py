"""A second project of our own: a dynamic input, an optional one, attributes of every kind, a value that tiling depends on, template keys."""

from __future__ import annotations

from pathlib import Path

KEYS = """
#pragma once
#include "graph/c_types.h"
#include "ascendc/host_api/tiling/template_argument.h"
#define MODE_SUM 0
#define MODE_SCALED 3
ASCENDC_TPL_ARGS_DECL(SumList,
    ASCENDC_TPL_DATATYPE_DECL(kType, C_DT_FLOAT, C_DT_INT32),
    ASCENDC_TPL_UINT_DECL(kMode, ASCENDC_TPL_8_BW, ASCENDC_TPL_UI_LIST, MODE_SUM, MODE_SCALED, 7),
    ASCENDC_TPL_BOOL_DECL(kNegate, 0, 1));
ASCENDC_TPL_SEL(
    ASCENDC_TPL_ARGS_SEL(
        ASCENDC_TPL_DATATYPE_SEL(kType, C_DT_FLOAT),
        ASCENDC_TPL_UINT_SEL(kMode, ASCENDC_TPL_UI_LIST, MODE_SUM, MODE_SCALED),
        ASCENDC_TPL_BOOL_SEL(kNegate, 0, 1)),
    ASCENDC_TPL_ARGS_SEL(
        ASCENDC_TPL_DATATYPE_SEL(kType, C_DT_INT32),
        ASCENDC_TPL_UINT_SEL(kMode, ASCENDC_TPL_UI_LIST, MODE_SUM),
        ASCENDC_TPL_BOOL_SEL(kNegate, 0)));
"""
DATA = """
#pragma once
#include <cstdint>
struct SumListData {
    uint32_t length;
    uint32_t members;
    int64_t rounds;
    float factor;
    uint32_t pad;
};
"""
DEFINITION = """
#include "register/op_def_registry.h"
namespace ops {
class SumList : public OpDef {
public:
    explicit SumList(const char* name) : OpDef(name) {
        this->Input("xs").ParamType(DYNAMIC).DataType({ge::DT_FLOAT, ge::DT_INT32}).Format({ge::FORMAT_ND, ge::FORMAT_ND});
        this->Input("bias").ParamType(OPTIONAL).DataType({ge::DT_FLOAT, ge::DT_INT32}).Format({ge::FORMAT_ND, ge::FORMAT_ND});
        this->Input("rounds").ParamType(REQUIRED).ValueDepend(OPTIONAL).DataTypeList({ge::DT_INT64}).FormatList({ge::FORMAT_ND});
        this->Output("y").ParamType(REQUIRED).DataType({ge::DT_FLOAT, ge::DT_INT32}).Format({ge::FORMAT_ND, ge::FORMAT_ND});
        this->Attr("factor").AttrType(REQUIRED).Float();
        this->Attr("negate").AttrType(OPTIONAL).Bool(false);
        this->Attr("shape").AttrType(OPTIONAL).ListInt({4, 5, 6});
        this->Attr("mode").AttrType(OPTIONAL).String("auto");
        this->Attr("nested").AttrType(OPTIONAL).ListListInt({{1}, {2, 3}});
        this->Attr("weights").AttrType(OPTIONAL).ListFloat({0.5, 0.25});
        this->AICore().AddConfig("ascend910b");
    }
};
OP_ADD(SumList);
class Other : public OpDef {
public:
    explicit Other(const char* name) : OpDef(name) {
        this->Input("x").ParamType(REQUIRED).DataType({ge::DT_FLOAT}).Format({ge::FORMAT_ND});
        this->Output("y").ParamType(REQUIRED).Follow("x");
        this->AICore().AddConfig("ascend910b");
        this->AICore().AddConfig("ascend310p");
    }
};
OP_ADD(Other);
}
"""
INFER = """
#include "register/op_impl_registry.h"
#include "infershape_broadcast_util.h"
#include "log/log.h"
static ge::graphStatus Shapes(gert::InferShapeContext* context) {
    const gert::Shape* first = context->GetDynamicInputShape(0, 0);
    OP_CHECK_NULL_WITH_CONTEXT(context, first);
    *context->GetOutputShape(0) = *first;
    return ge::GRAPH_SUCCESS;
}
static ge::graphStatus Types(gert::InferDataTypeContext* context) {
    return context->SetOutputDataType(0, context->GetDynamicInputDataType(0, 0));
}
IMPL_OP_INFERSHAPE(SumList).InferShape(Shapes).InferDataType(Types);
"""
TILING = """
#include <cstring>
#include "register/op_def_registry.h"
#include "tiling/platform/platform_ascendc.h"
#include "log/log.h"
#include "../op_kernel/sum_list_key.h"
#include "../op_kernel/sum_list_tiling.h"
struct Chip { uint64_t ub; uint32_t cores; };
namespace optiling {
static ge::graphStatus Prepare(gert::TilingParseContext* context) {
    auto* chip = context->GetCompiledInfo<Chip>();
    auto platform = platform_ascendc::PlatformAscendC(context->GetPlatformInfo());
    platform.GetCoreMemSize(platform_ascendc::CoreMemType::UB, chip->ub);
    chip->cores = platform.GetCoreNumAiv();
    return ge::GRAPH_SUCCESS;
}
static ge::graphStatus Tiling(gert::TilingContext* context) {
    const auto* chip = reinterpret_cast<const Chip*>(context->GetCompileInfo());
    const auto* attributes = context->GetAttrs();
    const bool negate = *attributes->GetBool(1);
    const auto* shape = attributes->GetListInt(2);
    const char* mode = attributes->GetStr(3);
    const auto* nested = attributes->GetListListInt(4);
    const auto* weights = attributes->GetListFloat(5);
    if (shape->GetSize() != 3 || shape->GetData()[2] != 6 || nested->Get(1)->GetSize() != 2 || weights->GetData()[1] != 0.25f) {
        OP_LOGE(context, "attributes did not arrive");
        return ge::GRAPH_FAILED;
    }
    const gert::Tensor* rounds = context->GetRequiredInputTensor(2);
    if (rounds->GetData<int64_t>() == nullptr) {
        OP_LOGE(context, "rounds is unknown");
        return ge::GRAPH_FAILED;
    }
    if (std::strcmp(mode, "crash") == 0) return *static_cast<volatile uint32_t*>(nullptr);
    if (std::strcmp(mode, "divide") == 0) return 7 / static_cast<volatile int&>(*new int(0));
    auto* data = context->GetTilingData<SumListData>();
    data->members = static_cast<uint32_t>(context->GetIrInputInstanceInfo(0)->GetInstanceNum());
    data->length = static_cast<uint32_t>(context->GetDynamicInputShape(0, 0)->GetStorageShape().GetShapeSize());
    data->rounds = rounds->GetData<int64_t>()[0];
    data->factor = *attributes->GetFloat(0);
    data->pad = context->GetOptionalInputShape(1) == nullptr ? 0 : static_cast<uint32_t>(chip->ub / chip->cores);
    const uint32_t type = context->GetDynamicInputDesc(0, 0)->GetDataType();
    uint64_t key = GET_TPL_TILING_KEY(type, std::strcmp(mode, "scaled") == 0 ? MODE_SCALED : MODE_SUM, negate);
    if (std::strcmp(mode, "unknown") == 0) key = 1u << 8 | 3;
    context->SetTilingKey(key);
    context->SetBlockDim(1);
    return ge::GRAPH_SUCCESS;
}
IMPL_OP_OPTILING(SumList).Tiling(Tiling).TilingParse<Chip>(Prepare);
}
"""
KERNEL = """
#include "kernel_operator.h"
#include "kernel_operator_list_tensor_intf.h"
#include "sum_list_key.h"
#include "sum_list_tiling.h"
using namespace AscendC;
template <typename kType, uint32_t kMode, bool kNegate>
__global__ __aicore__ void sum_list(GM_ADDR xs, GM_ADDR bias, GM_ADDR rounds, GM_ADDR y, GM_ADDR workspace, GM_ADDR tiling) {
    REGISTER_TILING_DEFAULT(SumListData);
    GET_TILING_DATA(data, tiling);
    ListTensorDesc list((__gm__ void*)xs);
    TPipe pipe;
    TBuf<TPosition::VECCALC> sums, next;
    pipe.InitBuffer(sums, data.length * sizeof(kType));
    pipe.InitBuffer(next, data.length * sizeof(kType));
    LocalTensor<kType> sum = sums.Get<kType>(), one = next.Get<kType>();
    GlobalTensor<kType> from, to;
    to.SetGlobalBuffer((__gm__ kType*)y, data.length);
    Duplicate(sum, (kType)0, data.length);
    for (uint32_t i = 0; i < data.members + (bias != nullptr); ++i) {
        from.SetGlobalBuffer(i < data.members ? list.GetDataPtr<kType>(i) : (__gm__ kType*)bias, data.length);
        PipeBarrier<PIPE_ALL>();
        DataCopy(one, from, data.length);
        PipeBarrier<PIPE_ALL>();
        Add(sum, sum, one, data.length);
    }
    if constexpr (kMode == MODE_SCALED) Muls(sum, sum, (kType)data.factor, data.length);
    if constexpr (kNegate) Muls(sum, sum, (kType)-1, data.length);
    PipeBarrier<PIPE_ALL>();
    DataCopy(to, sum, data.length);
}
"""


def build(root: Path) -> Path:
    """Write the project."""
    host, device = root / "op_host", root / "op_kernel"
    host.mkdir(parents=True)
    device.mkdir()
    (host / "sum_list_def.cpp").write_text(DEFINITION)
    (host / "sum_list_infershape.cpp").write_text(INFER)
    (host / "sum_list_tiling.cpp").write_text(TILING)
    (device / "sum_list_key.h").write_text(KEYS)
    (device / "sum_list_tiling.h").write_text(DATA)
    (device / "sum_list.cpp").write_text(KERNEL)
    return root
