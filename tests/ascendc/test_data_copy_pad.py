"""DataCopyPad: any row length, both directions, what lies around a row in UB, and the limits of its fields."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.ascendc.harness import GM, kernels
from toprope.errors import CompileFailed
from toprope.kernel import Run

UB = 8192

PAD_IN = """
extern "C" __global__ __aicore__ void {name}(GM_ADDR x, GM_ADDR background, GM_ADDR out, int32_t count, int32_t len, int32_t src, int32_t dst,
                                             int32_t is_pad, int32_t left, int32_t right, int32_t value) {{
    with_ub<{t}>(background, out, [&](LocalTensor<{t}>& ub) {{
        DataCopyPad(ub, gm<{t}>(x), DataCopyExtParams(count, len, src, dst, 0), DataCopyPadExtParams<{t}>(is_pad != 0, left, right, {t}(value)));
    }});
}}
"""

KERNELS = (
    GM
    + r"""
template <typename T, typename Body> void with_ub(GM_ADDR background, GM_ADDR out, Body body) {
    TPipe pipe;
    TBuf<TPosition::VECCALC> buffer;
    pipe.InitBuffer(buffer, 8192);
    auto ub = buffer.Get<T>();
    DataCopy(ub, gm<T>(background), 8192 / sizeof(T));
    PipeBarrier<PIPE_ALL>();
    body(ub);
    PipeBarrier<PIPE_ALL>();
    if (out != nullptr) DataCopy(gm<T>(out), ub, 8192 / sizeof(T));
}
extern "C" __global__ __aicore__ void in_old(GM_ADDR x, GM_ADDR background, GM_ADDR out, int32_t count, int32_t len, int32_t src, int32_t dst,
                                             int32_t is_pad, int32_t left, int32_t right, int32_t value) {
    with_ub<int16_t>(background, out, [&](LocalTensor<int16_t>& ub) {
        DataCopyPad(ub, gm<int16_t>(x), {static_cast<uint16_t>(count), static_cast<uint16_t>(len), static_cast<uint16_t>(src), static_cast<uint16_t>(dst)},
                    {is_pad != 0, static_cast<uint8_t>(left), static_cast<uint8_t>(right), static_cast<uint64_t>(value)});
    });
}
extern "C" __global__ __aicore__ void in_set_value(GM_ADDR x, GM_ADDR background, GM_ADDR out, int32_t count, int32_t len, int32_t src, int32_t dst,
                                                   int32_t is_pad, int32_t left, int32_t right, int32_t value) {
    with_ub<int16_t>(background, out, [&](LocalTensor<int16_t>& ub) {
        SetPadValue(static_cast<int16_t>(value));
        DataCopyPad(ub, gm<int16_t>(x), DataCopyExtParams(count, len, src, dst, 0), DataCopyPadExtParams<int16_t>(false, left, right, 0));
    });
}
extern "C" __global__ __aicore__ void out_ext(GM_ADDR x, GM_ADDR out, int32_t count, int32_t len, int32_t src, int32_t dst) {
    with_ub<int8_t>(x, nullptr, [&](LocalTensor<int8_t>& ub) { DataCopyPad(gm<int8_t>(out), ub, DataCopyExtParams(count, len, src, dst, 0)); });
}
extern "C" __global__ __aicore__ void out_old(GM_ADDR x, GM_ADDR out, int32_t count, int32_t len, int32_t src, int32_t dst) {
    with_ub<int8_t>(x, nullptr, [&](LocalTensor<int8_t>& ub) { DataCopyPad(gm<int8_t>(out), ub, DataCopyParams(count, len, src, dst)); });
}
"""
)


def module() -> Any:
    typed = {"in_int8": "int8_t", "in_int16": "int16_t", "in_float": "float", "in_int64": "int64_t"}
    return kernels(KERNELS + "".join(PAD_IN.format(name=name, t=t) for name, t in typed.items()), "data_copy_pad")


def codes(run: Run) -> list[str]:
    return [r.code for r in run.trace.reports]


def filled(nbytes: int) -> int:
    return -(-nbytes // 32) * 32


def pad_in(
    x: np.ndarray, ub: np.ndarray, count: int, length: int, src: int, dst: int, fill: int | None, left: int, right: int
) -> np.ndarray:
    """GM to UB from the page's rules. Lengths and `src` in bytes, `dst` in 32-byte blocks, paddings in elements; fill None = undefined."""
    result, size = ub.copy(), ub.itemsize
    per, start = length // size, 0
    for r in range(count):
        source = x.view(np.uint8)[r * (length + src) :][:length].view(x.dtype)
        total = filled((left + right) * size + length) // size
        row = result[start : start + total]
        if fill is None and left + right:
            row.view(np.uint8)[:] = 0xFF  # undefined: the poison of fresh memory
        else:
            row[:] = source[0] if left + right == 0 else fill
        row[left : left + per] = source
        start += total + dst * 32 // size
    return result


def pad_out(ub: np.ndarray, gm: np.ndarray, count: int, length: int, src: int, dst: int) -> np.ndarray:
    """UB to GM: rows start at whole blocks in UB, and exactly `length` bytes of each reach GM."""
    result = gm.copy()
    for r in range(count):
        result[r * (length + dst) :][:length] = ub[r * (filled(length) + src * 32) :][:length]
    return result


ORACLES: dict[str, Callable[..., Any]] = {"DataCopyPad": pad_in, "SetPadValue": pad_in}

ENTRIES = {"in_int8": np.int8, "in_int16": np.int16, "in_float": np.float32}


@settings(max_examples=40, deadline=None)
@given(
    st.sampled_from(sorted(ENTRIES)),
    st.integers(1, 5),
    st.integers(1, 45),
    st.integers(0, 9),
    st.integers(0, 3),
    st.booleans(),
    st.integers(0, 8),
    st.integers(0, 8),
)
def test_rows_into_ub(
    entry: str, count: int, elements: int, src: int, dst: int, is_pad: bool, left: int, right: int
) -> None:
    dtype = np.dtype(ENTRIES[entry])
    rng = np.random.default_rng(elements)
    x = rng.integers(0, 100, UB // dtype.itemsize).astype(dtype)
    background, out = np.full_like(x, 101), np.zeros_like(x)
    length = elements * dtype.itemsize
    run = module()[entry][1](x, background, out, count, length, src * dtype.itemsize, dst, int(is_pad), left, right, 7)
    assert not codes(run)
    expected = pad_in(x, background, count, length, src * dtype.itemsize, dst, 7 if is_pad else None, left, right)
    np.testing.assert_array_equal(out.view(np.uint8), expected.view(np.uint8))


@settings(max_examples=15, deadline=None)
@given(
    st.sampled_from(["in_old", "in_set_value"]),
    st.integers(1, 4),
    st.integers(1, 30),
    st.integers(0, 4),
    st.integers(0, 16),
    st.integers(0, 16),
)
def test_the_older_parameters_and_the_pad_register_fill_the_same(
    entry: str, count: int, elements: int, dst: int, left: int, right: int
) -> None:
    x, background, out = (
        np.arange(UB // 2).astype(np.int16),
        np.full(UB // 2, -9, np.int16),
        np.zeros(UB // 2, np.int16),
    )
    run = module()[entry][1](x, background, out, count, elements * 2, 2, dst, 1, left, right, 33)
    assert not codes(run)
    np.testing.assert_array_equal(out, pad_in(x, background, count, elements * 2, 2, dst, 33, left, right))


def test_eight_byte_elements_pad_with_zero_only() -> None:
    x, background, out = np.arange(UB // 8), np.full(UB // 8, -1), np.zeros(UB // 8, np.int64)
    assert codes(module().in_int64[1](x, background, out, 2, 24, 0, 0, 1, 0, 1, 5)) == ["pad-value-64-bit"]
    assert not codes(module().in_int64[1](x, background, out, 2, 24, 0, 0, 1, 0, 1, 0))
    np.testing.assert_array_equal(out, pad_in(x, background, 2, 24, 0, 0, 0, 0, 1))


@settings(max_examples=30, deadline=None)
@given(
    st.sampled_from(["out_ext", "out_old"]),
    st.integers(0, 6),
    st.integers(0, 150),
    st.integers(0, 4),
    st.integers(0, 40),
)
def test_rows_out_of_ub(entry: str, count: int, length: int, src: int, dst: int) -> None:
    x = np.random.default_rng(length).integers(-128, 128, UB).astype(np.int8)
    gm = np.arange(2000).astype(np.int8)
    before = gm.copy()
    run = module()[entry][1](x, gm, count, length, src, dst)
    assert not codes(run)
    np.testing.assert_array_equal(gm, pad_out(x, before, count, length, src, dst))
    ranges = run.trace.decoded()
    out = (ranges.space == 0) & (ranges.mode == 2)
    assert int((ranges.row_bytes * ranges.rows)[out].sum()) == count * length


def test_undefined_padding_does_not_count_as_written() -> None:
    x, background, out = np.zeros(UB // 2, np.int16), np.zeros(UB // 2, np.int16), np.zeros(UB // 2, np.int16)

    def written(is_pad: int) -> int:
        run = module().in_int16[1](x, background, out, 1, 20, 0, 0, is_pad, 0, 3, 1)
        ranges = run.trace.decoded()
        pads = [i for i, row in enumerate(run.trace.instrs) if run.trace.ops[row["op"]].name == "DataCopyPad"]
        return int(ranges.row_bytes[(ranges.instr == pads[0]) & (ranges.space == 1)][0])

    assert (written(1), written(0)) == (32, 20)


@pytest.mark.parametrize(
    ("arguments", "code", "text"),
    [
        ((1, 20, 0, 0, 1, 0, 17, 0), "field-overflow", "rightPadding in bytes = 34"),
        ((1, 20, 0, 0, 1, 16, 16, 0), "", ""),
        ((4096, 0, 0, 0, 0, 0, 0, 0), "field-overflow", "blockCount = 4096"),
        ((1, 2097152, 0, 0, 0, 0, 0, 0), "field-overflow", "blockLen = 2097152"),
        ((1, 21, 0, 0, 0, 0, 0, 0), "unaligned-length", "21 bytes"),
        ((1, -2, 0, 0, 0, 0, 0, 0), "field-overflow", "blockLen = -2"),
    ],
)
def test_limits(arguments: tuple[int, ...], code: str, text: str) -> None:
    x, background, out = np.zeros(UB // 2, np.int16), np.zeros(UB // 2, np.int16), np.zeros(UB // 2, np.int16)
    reports = module().in_int16[1](x, background, out, *arguments).trace.reports
    assert (reports[0].code if reports else "") == code and (not code or text in reports[0].text)


def test_the_tail_of_a_tensor_is_read_to_the_byte_and_no_further() -> None:
    background, out = np.zeros(UB // 2, np.int16), np.zeros(UB // 2, np.int16)
    assert not codes(module().in_int16[1](np.zeros(37, np.int16), background, out, 1, 74, 0, 0, 0, 0, 0, 0))
    assert codes(module().in_int16[1](np.zeros(36, np.int16), background, out, 1, 74, 0, 0, 0, 0, 0, 0)) == [
        "gm-out-of-bounds"
    ]
    tail = np.zeros(37, np.int8)
    module().out_ext[1](np.ones(UB, np.int8), tail, 1, 37, 0, 0)
    assert tail.all()


def test_compact_mode_is_named_as_another_chips() -> None:
    file = kernels(
        'extern "C" __global__ __aicore__ void k(GM_ADDR x) { LocalTensor<half> u(TPosition::VECIN, 0, 64); GlobalTensor<half> g; '
        "DataCopyPad<half, PaddingMode::Compact>(u, g, DataCopyExtParams(1, 2, 0, 0, 0), DataCopyPadExtParams<half>(false, 0, 0, 0)); }"
    )
    with pytest.raises(CompileFailed, match="Compact exists on Ascend 950 only"):
        file.k[1](np.zeros(8, np.float16))
