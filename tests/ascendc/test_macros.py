"""Tiling data in every form, tiling keys, core types, dtype numbers, header names."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tests.ascendc.harness import kernels
from toprope.errors import CompileFailed

KERNELS = r"""
#include "kernel_operator_list_tensor_intf.h"
#include "ascendc/host_api/tiling/template_argument.h"
#include "utils/std/tuple.h"
#include "basic_api/kernel_basic_intf.h"
#include "kernel_tiling/kernel_tiling.h"
struct WithVendorStruct { TCubeTiling cube; SoftMaxTiling softmax; uint32_t last; };
struct Inner { uint32_t a; float b; };
struct TilingData { uint64_t total; Inner inner; int32_t list[3]; };
struct OtherTiling { uint32_t only; };
ASCENDC_TPL_ARGS_DECL(Op, ASCENDC_TPL_DATATYPE_DECL(D, C_DT_FLOAT), ASCENDC_TPL_UINT_DECL(N, ASCENDC_TPL_4_BW, ASCENDC_TPL_UI_LIST, 1, 2));
ASCENDC_TPL_SEL(ASCENDC_TPL_ARGS_SEL(ASCENDC_TPL_DATATYPE_SEL(D, C_DT_FLOAT), ASCENDC_TPL_UINT_SEL(N, ASCENDC_TPL_UI_LIST, 1)));
template <typename T> void put(GM_ADDR out, std::initializer_list<T> values) {
    GlobalTensor<T> g;
    g.SetGlobalBuffer((__gm__ T*)out);
    uint32_t i = 0;
    for (T v : values) g.SetValue(i++, v);
}
extern "C" __global__ __aicore__ void by_default(GM_ADDR out, GM_ADDR tiling) {
    REGISTER_TILING_DEFAULT(TilingData);
    GET_TILING_DATA(t, tiling);
    put<double>(out, {double(t.total), double(t.inner.a), t.inner.b, double(t.list[2])});
}
extern "C" __global__ __aicore__ void with_struct(GM_ADDR out, GM_ADDR tiling) {
    GET_TILING_DATA_WITH_STRUCT(TilingData, t, tiling);
    GET_TILING_DATA_MEMBER(TilingData, inner, inner, tiling);
    GET_TILING_DATA_MEMBER(TilingData, list, list, tiling);
    GET_TILING_DATA_PTR_WITH_STRUCT(TilingData, p, tiling);
    COPY_TILING_WITH_STRUCT(Inner, p->inner, copy);
    COPY_TILING_WITH_ARRAY(int32_t, 3, p->list, array);
    put<double>(out, {double(t.total), inner.b, double(list[1]), double(p->total), copy->b, double((*array)[2])});
}
extern "C" __global__ __aicore__ void keys(GM_ADDR out, GM_ADDR tiling) {
    REGISTER_TILING_FOR_TILINGKEY("TILING_KEY_VAR == 7", OtherTiling);
    REGISTER_NONE_TILING;
    double branch = 0;
    if (TILING_KEY_IS(0)) branch = 1;
    else if (TILING_KEY_IS(10000000001UL)) branch = 2;
    else if (TILING_KEY_LIST(3, 4)) branch = 3;
    put<double>(out, {branch, double(TILING_KEY_VAR)});
}
extern "C" __global__ __aicore__ void numbers(GM_ADDR out) {
#if DTYPE_NUMBER == DT_BF16 && DTYPE_NUMBER != DT_FLOAT16 && FORMAT_ND == 2
    const double chosen = 1;
#else
    const double chosen = 0;
#endif
    double cube = 0, vector = 0;
    if ASCEND_IS_AIC { cube = 1; } else if ASCEND_IS_AIV { vector = 1; }
    if ASCEND_IS_NOT_AIC { vector += 1; }
    auto pair = Std::make_tuple(DTYPE_X(2), 3);
    put<double>(out, {chosen, cube, vector, double(sizeof(DTYPE_X)), double(IsSameType<DTYPE_X, half>::value), double(Std::get<1>(pair)), double(Std::min(4, 5)),
                      double(AlignUp(33, 32)), double(DivCeil(33, 32)), double(Std::is_same_v<int, int>)});
}
extern "C" __global__ __aicore__ void vendor(GM_ADDR out, GM_ADDR tiling) {
    GET_TILING_DATA_WITH_STRUCT(WithVendorStruct, t, tiling);
    put<double>(out, {double(sizeof(TCubeTiling)), double(t.cube.usedCoreNum), double(t.softmax.srcM), double(t.last)});
}
extern "C" __global__ __aicore__ void list(GM_ADDR out, GM_ADDR a, GM_ADDR b, GM_ADDR descriptor) {
    ListTensorDesc all((__gm__ void*)descriptor);
    uint64_t shape[8] = {0};
    TensorDesc<int32_t> d;
    d.SetShapeAddr(shape);
    all.GetDesc(d, 1);
    put<double>(out, {double(all.GetSize()), double(d.GetDim()), double(d.GetIndex()), double(d.GetShape(0)), double(shape[1]), double(*all.GetDataPtr<int32_t>(0)),
                      double(d.GetDataObj().GetValue(1))});
}
extern "C" __global__ __aicore__ void list_outside(GM_ADDR descriptor) {
    ListTensorDesc all((__gm__ void*)descriptor);
    all.GetDataPtr<int32_t>(5);
}
"""
TILING = {"total": 1 << 40, "inner": {"a": 7, "b": 2.5}, "list": [4, 5, 6]}


def module() -> Any:
    file = kernels(KERNELS, "macros")
    for name, kernel in list(file.kernels.items()):
        file.kernels[name] = type(kernel)(
            kernel.path, kernel.entry, kernel.include, ("DTYPE_X=half", "DTYPE_NUMBER=27")
        )
    return file


def ceil_to(value: int, step: int) -> int:
    """value rounded up to a multiple of step."""
    return -(-value // step) * step


ORACLES: dict[str, Callable[..., Any]] = {
    "AlignUp": ceil_to,
    "DivCeil": ceil_to,
    "ListTensorDesc": list,
    "TensorDesc": list,
}


def test_tiling_data_by_default_and_by_name() -> None:
    out = np.zeros(6)
    module().by_default[1](out, TILING)
    assert out.tolist()[:4] == [2.0**40, 7, 2.5, 6]
    module().with_struct[1](out, TILING)
    assert out.tolist() == [2.0**40, 2.5, 5, 2.0**40, 2.5, 6]


def test_tiling_data_that_is_too_short_is_reported() -> None:
    out = np.zeros(6)
    run = module().by_default[1](out, bytes(31))
    assert [r.code for r in run.trace.reports] == ["tiling-size-mismatch"] and not out.any()


@pytest.mark.parametrize(("key", "branch"), [(0, 1), (10000000001, 2), (3, 3), (4, 3), (5, 0)])
def test_tiling_keys(key: int, branch: int) -> None:
    out = np.zeros(2)
    module().keys[1](out, None, tiling_key=key)
    assert out.tolist() == [branch, key]


def test_numbers_types_and_core_conditions() -> None:
    out = np.zeros(10)
    module().numbers[1](out)
    assert out.tolist() == [1, 0, 2, 2, 1, 3, 4, ceil_to(33, 32), ceil_to(33, 32) // 32, 1]


def test_the_vendors_tiling_structs_nest() -> None:
    out = np.zeros(4)
    words = np.zeros(50 + 16 + 1, np.uint32)
    words[[0, 50, 66]] = 24, 7, 9
    module().vendor[1](out, words.tobytes())
    assert out.tolist() == [50 * 4, 24, 7, 9]


def test_lists_of_tensors() -> None:
    a, b, out = np.array([41, 42], np.int32), np.array([51, 52, 53], np.int32), np.zeros(7)
    # offset of the pointers | dims 1: 2 | dims 2: 1, 3 | pointers
    words = np.array([6 * 8, 1, 2, 2, 1, 3, a.ctypes.data, b.ctypes.data], np.uint64)
    run = module().list[1](out, a, b, words)
    assert not run.trace.reports
    assert out.tolist() == [2, 2, 1, 1, 3, 41, 52]
    assert [r.code for r in module().list_outside[1](words).trace.reports] == ["list-tensor-malformed"]


def test_tiling_data_without_a_known_struct_names_the_macro_that_is_missing() -> None:
    file = kernels('extern "C" __global__ __aicore__ void k(GM_ADDR tiling) { GET_TILING_DATA(t, tiling); }')
    with pytest.raises(CompileFailed, match="needs_REGISTER_TILING_DEFAULT"):
        file.k[1](np.zeros(8, np.uint8))
