"""Names that the vendor's headers give to every source: AscendC::Std, output on pointers, sizes and constructors written in braces."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tests.ascendc.harness import GM, kernels
from toprope.errors import CompileFailed

TEXT = (
    GM
    + r"""
#include "utils/debug/asc_printf.h"
#include "utils/debug/asc_dump.h"
#include "utils/debug/asc_time.h"
#include "utils/debug/asc_assert.h"
static_assert(Std::is_same_v<Std::remove_const_t<const int>, int> && Std::is_same_v<Std::add_pointer_t<int>, int*>);
static_assert(Std::is_same_v<Std::remove_cvref_t<const int&>, int> && Std::is_one_of_v<half, float, half> && !Std::is_one_of_v<half, float>);
static_assert(Std::is_same_v<Std::conditional_t<true, int, half>, int> && Std::is_same_v<Std::remove_extent_t<int[3]>, int>);
static_assert(sizeof(ShapeInfo::shape) / 4 == K_MAX_DIM && K_MAX_DIM == 8);
extern "C" __global__ __aicore__ void pointers(GM_ADDR x) {
    LocalTensor<half> t(TPosition::VECCALC, 32, 16);
    DataCopy(t, gm<half>(x), 16);
    PipeBarrier<PIPE_ALL>();
    __ubuf__ half* at = (__ubuf__ half*)t.GetPhyAddr();
    asc_dump(at + 1, 3, 2);
    asc_dump_ubuf(at, 4, 1);
    asc_dump_gm((__gm__ half*)x, 5, 2);
    asc_dump((__gm__ half*)x + 14, 6, 2);
    const uint64_t before = clock();
    Nop();
    asc_time_stamp(1);
    if (clock() > before) asc_prof_start(), asc_prof_stop();
    else Trap();
}
extern "C" __global__ __aicore__ void braces(GM_ADDR out) {
    const FixpipeParamsV220 p{32, 16, 48, 64, true, QuantMode_t::F322F16, 5, 2, 3, 4, 3};
    const uint64_t values[] = {p.nSize, p.mSize, p.srcStride, p.dstStride, p.reluEn, p.quantPre, p.deqScalar, p.ndNum, p.srcNdStride, p.dstNdStride, p.unitFlag};
    for (int i = 0; i < 11; ++i) gm<uint64_t>(out).SetValue(i, values[i]);
}
template <typename T> __aicore__ void fill_gm(GM_ADDR out, T value) {
    TPipe pipe;
    GlobalTensor<T> g = gm<T>(out);
    Fill(g, 40 * 1024, value);
}
extern "C" __global__ __aicore__ void fill_float(GM_ADDR out) { fill_gm<float>(out, 1.5f); }
extern "C" __global__ __aicore__ void fill_int16_t(GM_ADDR out) { fill_gm<int16_t>(out, -7); }
extern "C" __global__ __aicore__ void fill_half(GM_ADDR out) { fill_gm<half>(out, half(0.25)); }
"""
)

CUBE = (
    GM
    + r"""
#include "lib/matmul_intf.h"
static_assert(Std::is_same_v<GetMmDstType<half>::Type, float> && Std::is_same_v<GetMmDstType<float>::Type, float> &&
              Std::is_same_v<GetMmDstType<bfloat16_t>::Type, float> && Std::is_same_v<GetMmDstType<int8_t>::Type, int32_t>);
extern "C" __global__ __aicore__ void cube_pointers(GM_ADDR x) {
    KERNEL_TASK_TYPE_DEFAULT(KERNEL_TYPE_AIC_ONLY);
    LocalTensor<half> t(TPosition::A1, 64, 16);
    DataCopy(t, gm<half>(x), 16);
    PipeBarrier<PIPE_ALL>();
    asc_dump_l1buf((__cbuf__ half*)t.GetPhyAddr(), 7, 3);
    asc_dump_cbuf((__cbuf__ half*)t.GetPhyAddr(), 8, 1);
}
"""
)


def printed(state: Any) -> Any:
    """What a call that only prints does to memory: nothing; its text is compared."""
    return state


ORACLES: dict[str, Callable[..., Any]] = {
    **dict.fromkeys(("asc_dump", "asc_dump_gm", "asc_dump_ubuf", "asc_dump_l1buf", "asc_dump_cbuf", "asc_time_stamp", "toprope_clock"), printed),
    "Fill": np.full,
}  # fmt: skip


def test_pointers_are_dumped_from_the_memory_that_they_lead_to(capfd: pytest.CaptureFixture[str]) -> None:
    x = np.arange(16).astype(np.float16)
    vector, cube = kernels(TEXT, "vendor_names"), kernels(CUBE, "vendor_names_cube")
    assert not [f for k in (vector.pointers, cube.cube_pointers) for f in k[1](x).findings if f.severity == "error"]
    out = capfd.readouterr().out
    assert [line for line in out.splitlines() if "DumpTensor" in line] == [
        "[AIV 0] DumpTensor 3: 2 x half in UB", "[AIV 0] DumpTensor 4: 1 x half in UB", "[AIV 0] DumpTensor 5: 2 x half in GM",
        "[AIV 0] DumpTensor 6: 2 x half in GM", "[AIC 0] DumpTensor 7: 3 x half in L1", "[AIC 0] DumpTensor 8: 1 x half in L1",
    ]  # fmt: skip
    assert [line for line in out.splitlines() if line.startswith("  ")] == [
        "  1 2",
        "  0",
        "  0 1",
        "  14 15",
        "  0 1 2",
        "  0",
    ]


def test_parameters_of_fixpipe_may_be_written_in_braces() -> None:
    out = np.zeros(11, np.uint64)
    kernels(TEXT, "vendor_names").braces[1](out)
    assert out.tolist() == [32, 16, 48, 64, 1, 1, 5, 2, 3, 4, 3]


@pytest.mark.parametrize(
    ("dtype", "name", "value"), [("f4", "float", 1.5), ("i2", "int16_t", -7), ("f2", "half", 0.25)]
)
def test_fill_of_gm(dtype: str, name: str, value: float) -> None:
    out = np.zeros(40 * 1024 + 16, dtype)
    assert not [f for f in kernels(TEXT, "vendor_names")["fill_" + name][1](out).findings if f.severity == "error"]
    np.testing.assert_array_equal(out[: 40 * 1024], np.full(40 * 1024, value, dtype))
    assert not out[40 * 1024 :].any()


def test_fill_of_gm_takes_the_types_of_its_page() -> None:
    text = (
        GM + 'extern "C" __global__ __aicore__ void k(GM_ADDR x) { auto g = gm<int64_t>(x); Fill(g, 8, int64_t(0)); }'
    )
    with pytest.raises(CompileFailed, match="Fill of GM takes"):
        kernels(text, "fill_type").k[1](np.zeros(8, np.int64))
