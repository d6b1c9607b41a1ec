"""A custom operator project of our own, in the layout that the vendor's generator makes."""

from __future__ import annotations

from pathlib import Path

TILING = """
#pragma once
#include "register/tilingdata_base.h"
namespace optiling {
BEGIN_TILING_DATA_DEF(AddCustomTilingData)
TILING_DATA_FIELD_DEF(uint32_t, totalLength);
TILING_DATA_FIELD_DEF(uint32_t, tileNum);
TILING_DATA_FIELD_DEF_ARR(uint16_t, 3, spare);
TILING_DATA_FIELD_DEF(float, scale);
END_TILING_DATA_DEF;
REGISTER_TILING_DATA_CLASS(AddCustom, AddCustomTilingData)
}
"""
PLAIN_TILING = """
#pragma once
#include <cstdint>
struct AddCustomTilingData {
    uint32_t totalLength;
    uint32_t tileNum;
    uint16_t spare[3];
    float scale;
};
"""
HOST = """
#include "{tiling}"
#include "register/op_def_registry.h"
#include "tiling/platform/platform_ascendc.h"
#include "log/log.h"

namespace optiling {{
static ge::graphStatus TilingFunc(gert::TilingContext* context) {{
    const gert::StorageShape* shape = context->GetInputShape(0);
    OP_CHECK_NULL_WITH_CONTEXT(context, shape);
    const uint32_t total = static_cast<uint32_t>(shape->GetStorageShape().GetShapeSize());
    OP_CHECK_IF(total % 16 != 0, OP_LOGE(context, "%u elements are no multiple of 16", total), return ge::GRAPH_FAILED);
    auto platform = platform_ascendc::PlatformAscendC(context->GetPlatformInfo());
    const float* scale = context->GetAttrs()->GetFloat(0);
    const uint32_t blocks = total >= 1024 ? 8 : 1;
{fill}
    context->SetBlockDim(blocks < platform.GetCoreNumAiv() ? blocks : platform.GetCoreNumAiv());
    context->SetTilingKey(total >= 1024 ? 2 : 1);
    context->GetWorkspaceSizes(1)[0] = platform.GetLibApiWorkSpaceSize();
    return ge::GRAPH_SUCCESS;
}}
}}
namespace ge {{
static graphStatus InferShape(gert::InferShapeContext* context) {{
    *context->GetOutputShape(0) = *context->GetInputShape(0);
    return GRAPH_SUCCESS;
}}
static graphStatus InferDataType(gert::InferDataTypeContext* context) {{
    return context->SetOutputDataType(0, context->GetInputDataType(0));
}}
}}
namespace ops {{
class AddCustom : public OpDef {{
public:
    explicit AddCustom(const char* name) : OpDef(name) {{
        for (const char* each : {{"x", "y"}})
            this->Input(each).ParamType(REQUIRED).DataType({{ge::DT_FLOAT16, ge::DT_FLOAT}}).Format({{ge::FORMAT_ND, ge::FORMAT_ND}});
        this->Output("z").ParamType(REQUIRED).DataType({{ge::DT_FLOAT16, ge::DT_FLOAT}}).Format({{ge::FORMAT_ND, ge::FORMAT_ND}});
        this->Attr("scale").AttrType(OPTIONAL).Float(1.0);
        this->SetInferShape(ge::InferShape).SetInferDataType(ge::InferDataType);
        this->AICore().SetTiling(optiling::TilingFunc);
        this->AICore().AddConfig("ascend910b");
    }}
}};
OP_ADD(AddCustom);
}}
"""
MACRO_FILL = """
    AddCustomTilingData tiling;
    tiling.set_totalLength(total);
    tiling.set_tileNum(2);
    const uint16_t spare[] = {7, 8, 9};
    tiling.set_spare(spare);
    tiling.set_scale(*scale);
    tiling.SaveToBuffer(context->GetRawTilingData()->GetData(), context->GetRawTilingData()->GetCapacity());
    context->GetRawTilingData()->SetDataSize(tiling.GetDataSize());
"""
PLAIN_FILL = """
    auto* tiling = context->GetTilingData<AddCustomTilingData>();
    *tiling = {total, 2, {7, 8, 9}, *scale};
"""
KERNEL = """
#include "kernel_operator.h"
{include}
using namespace AscendC;
template <typename T>
class KernelAdd {{
public:
    __aicore__ inline void Init(GM_ADDR x, GM_ADDR y, GM_ADDR z, uint32_t total, uint32_t tiles, float scale) {{
        length_ = total / GetBlockNum() / tiles;
        tiles_ = tiles;
        scale_ = scale;
        const uint32_t at = GetBlockIdx() * length_ * tiles;
        x_.SetGlobalBuffer((__gm__ T*)x + at, length_ * tiles);
        y_.SetGlobalBuffer((__gm__ T*)y + at, length_ * tiles);
        z_.SetGlobalBuffer((__gm__ T*)z + at, length_ * tiles);
        pipe_.InitBuffer(in_x_, 2, length_ * sizeof(T));
        pipe_.InitBuffer(in_y_, 2, length_ * sizeof(T));
        pipe_.InitBuffer(out_, 2, length_ * sizeof(T));
    }}
    __aicore__ inline void Process() {{
        for (uint32_t i = 0; i < tiles_; ++i) {{
            LocalTensor<T> x = in_x_.template AllocTensor<T>(), y = in_y_.template AllocTensor<T>();
            DataCopy(x, x_[i * length_], length_);
            DataCopy(y, y_[i * length_], length_);
            in_x_.EnQue(x);
            in_y_.EnQue(y);
            x = in_x_.template DeQue<T>();
            y = in_y_.template DeQue<T>();
            LocalTensor<T> z = out_.template AllocTensor<T>();
            Add(z, x, y, length_);
            Muls(z, z, (T)scale_, length_);
            out_.EnQue(z);
            in_x_.FreeTensor(x);
            in_y_.FreeTensor(y);
            z = out_.template DeQue<T>();
            DataCopy(z_[i * length_], z, length_);
            out_.FreeTensor(z);
        }}
    }}

private:
    TPipe pipe_;
    TQue<TPosition::VECIN, 2> in_x_, in_y_;
    TQue<TPosition::VECOUT, 2> out_;
    GlobalTensor<T> x_, y_, z_;
    uint32_t length_ = 0, tiles_ = 0;
    float scale_ = 1;
}};
extern "C" __global__ __aicore__ void add_custom(GM_ADDR x, GM_ADDR y, GM_ADDR z, GM_ADDR workspace, GM_ADDR tiling) {{
    {register}
    GET_TILING_DATA(data, tiling);
    KernelAdd<DTYPE_X> op;
    if (TILING_KEY_IS(1)) {{
        op.Init(x, y, z, data.totalLength, data.tileNum, data.scale);
        op.Process();
    }} else if (TILING_KEY_IS(2)) {{
        op.Init(x, y, z, data.totalLength, data.tileNum, data.scale);
        op.Process();
    }}
}}
"""


def build(root: Path, *, plain: bool = False) -> Path:
    """Write the project: tiling data with macros, or as a struct that both sides include."""
    host, device = root / "op_host", root / "op_kernel"
    host.mkdir(parents=True)
    device.mkdir()
    if plain:
        (device / "add_custom_tiling.h").write_text(PLAIN_TILING)
        source = HOST.format(tiling="../op_kernel/add_custom_tiling.h", fill=PLAIN_FILL)
        kernel = KERNEL.format(
            include='#include "add_custom_tiling.h"', register="REGISTER_TILING_DEFAULT(AddCustomTilingData);"
        )
    else:
        (host / "add_custom_tiling.h").write_text(TILING)
        source = HOST.format(tiling="add_custom_tiling.h", fill=MACRO_FILL)
        kernel = KERNEL.format(include="", register="")
    (host / "add_custom.cpp").write_text(source)
    (device / "add_custom.cpp").write_text(kernel)
    return root
