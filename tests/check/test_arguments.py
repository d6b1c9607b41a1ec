"""What the host passes against what the kernel takes it for: element types, sizes, and divisors that are 0."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.ascendc.harness import kernels
from toprope.kernel import Run

SOURCE = """
template <typename T> __aicore__ inline void Add1(GM_ADDR x, GM_ADDR z, int32_t count, int32_t claimed) {
    GlobalTensor<T> xg, zg;
    xg.SetGlobalBuffer((__gm__ T*)x, claimed);
    zg.SetGlobalBuffer((__gm__ T*)z, count);
    TPipe pipe;
    TQue<TPosition::VECIN, 1> in;
    TQue<TPosition::VECOUT, 1> out;
    pipe.InitBuffer(in, 1, 1024);
    pipe.InitBuffer(out, 1, 1024);
    auto a = in.AllocTensor<T>();
    DataCopy(a, xg, count);
    in.EnQue(a);
    a = in.DeQue<T>();
    auto b = out.AllocTensor<T>();
    Adds(b, a, (T)1, count);
    out.EnQue(b);
    in.FreeTensor(a);
    b = out.DeQue<T>();
    DataCopy(zg, b, count);
    out.FreeTensor(b);
}
extern "C" __global__ __aicore__ void add_half(GM_ADDR x, GM_ADDR z, int32_t n, int32_t c) { Add1<half>(x, z, n, c); }
extern "C" __global__ __aicore__ void add_float(GM_ADDR x, GM_ADDR z, int32_t n, int32_t c) { Add1<float>(x, z, n, c); }
extern "C" __global__ __aicore__ void add_int(GM_ADDR x, GM_ADDR z, int32_t n, int32_t c) { Add1<int32_t>(x, z, n, c); }
extern "C" __global__ __aicore__ void words(GM_ADDR x, GM_ADDR z, int32_t n, int32_t c) {
    GlobalTensor<uint32_t> xg, zg;
    xg.SetGlobalBuffer((__gm__ uint32_t*)x, n);
    zg.SetGlobalBuffer((__gm__ uint32_t*)z, n);
    TPipe pipe;
    TBuf<TPosition::VECCALC> buffer;
    pipe.InitBuffer(buffer, 1024);
    auto a = buffer.Get<uint32_t>();
    DataCopy(a, xg, n);
    SetFlag<HardEvent::MTE2_MTE3>(0);
    WaitFlag<HardEvent::MTE2_MTE3>(0);
    DataCopy(zg, a, n);
}
extern "C" __global__ __aicore__ void divide(GM_ADDR x, GM_ADDR z, int32_t n, int32_t tileNum) {
    GlobalTensor<float> zg;
    zg.SetGlobalBuffer((__gm__ float*)z, n / tileNum);
}
"""


def ran(entry: str, dtype: Any, *, claimed: int = 64, out: Any = None) -> Run:
    x, z = np.ones(64, dtype), np.zeros(64, out or dtype)
    return kernels(SOURCE, "arguments")[entry][1](x, z, 64, claimed)


def codes(entry: str, dtype: Any, *, claimed: int = 64, out: Any = None) -> dict[str, str]:
    return {f.code: str(f) for f in ran(entry, dtype, claimed=claimed, out=out).findings}


@pytest.mark.parametrize(
    ("entry", "dtype"),
    [
        ("add_half", np.float32),
        ("add_half", np.float64),
        ("add_half", np.int32),
        ("add_float", np.float16),
        ("add_float", np.float64),
        ("add_float", np.int32),
        ("add_int", np.float32),
        ("add_int", np.int64),
    ],
)
def test_arrays_of_another_type_are_named(entry: str, dtype: Any) -> None:
    text = codes(entry, dtype)["argument-type-mismatch"]
    assert np.dtype(dtype).name in text and "SetGlobalBuffer" in text and "cure:" in text


@pytest.mark.parametrize(
    ("entry", "dtype"),
    [
        ("add_half", np.float16),
        ("add_half", np.uint16),
        ("add_float", np.float32),
        ("add_float", np.uint8),
        ("add_int", np.int32),
        ("add_int", np.uint32),
        ("words", np.float32),
        ("words", np.int32),
    ],
)
def test_the_same_type_bytes_and_words_pass(entry: str, dtype: Any) -> None:
    count = 64 if dtype is not np.uint8 else 256
    x, z = np.ones(count, dtype), np.zeros(count, dtype)
    found = {f.code for f in kernels(SOURCE, "arguments")[entry][1](x, z, 64, 64).findings}
    assert "argument-type-mismatch" not in found


def test_a_claim_beyond_the_array_is_told() -> None:
    assert "global-size-too-large" in codes("add_float", np.float32, claimed=65)
    assert "global-size-too-large" not in codes("add_float", np.float32, claimed=64)


def test_a_division_by_zero_is_an_error_with_its_cure() -> None:
    (finding,) = (f for f in ran("divide", np.float32, claimed=0).findings if f.code == "division-by-zero")
    line = Path(finding.places[0].file).read_text().splitlines()[finding.places[0].line - 1]
    assert "n / tileNum" in line and finding.message.endswith("divides an integer by zero here: tileNum is 0")
    assert "tiling values" in finding.cure
    assert "division-by-zero" not in codes("divide", np.float32, claimed=4)
