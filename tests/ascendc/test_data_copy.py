"""DataCopy: blocks with gaps, slices, ND to NZ and back, every path of the chip, and what a wrong call is told."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.ascendc.harness import kernels
from toprope.kernel import Run

UB = 8192  # bytes of UB that the kernels below copy back

KERNELS = r"""
template <typename T> struct Bench {
    TPipe pipe;
    TBuf<TPosition::VECCALC> buffer;
    LocalTensor<T> ub;
    __aicore__ Bench() {
        pipe.InitBuffer(buffer, 8192);
        ub = buffer.Get<T>();
    }
    static GlobalTensor<T> gm(GM_ADDR at) {
        GlobalTensor<T> g;
        g.SetGlobalBuffer((__gm__ T*)at);
        return g;
    }
    void load(GM_ADDR at) {
        DataCopy(ub, gm(at), 8192 / sizeof(T));
        PipeBarrier<PIPE_ALL>();
    }
    void store(GM_ADDR at) {
        PipeBarrier<PIPE_ALL>();
        DataCopy(gm(at), ub, 8192 / sizeof(T));
    }
};
extern "C" __global__ __aicore__ void blocks_in(GM_ADDR x, GM_ADDR background, GM_ADDR out, int32_t count, int32_t len, int32_t src_gap, int32_t dst_gap) {
    Bench<int16_t> b;
    b.load(background);
    DataCopy(b.ub, b.gm(x), DataCopyParams(count, len, src_gap, dst_gap));
    b.store(out);
}
extern "C" __global__ __aicore__ void blocks_out(GM_ADDR x, GM_ADDR out, int32_t count, int32_t len, int32_t src_gap, int32_t dst_gap) {
    Bench<int16_t> b;
    b.load(x);
    DataCopyParams p;
    p.blockCount = count; p.blockLen = len; p.srcStride = src_gap; p.dstGap = dst_gap;
    DataCopy(b.gm(out), b.ub, p);
}
extern "C" __global__ __aicore__ void blocks_ub(GM_ADDR x, GM_ADDR out, int32_t count, int32_t len, int32_t src_gap, int32_t dst_gap) {
    Bench<int16_t> b;
    b.load(x);
    DataCopy(b.ub[2048], b.ub, DataCopyParams(count, len, src_gap, dst_gap));
    b.store(out);
}
extern "C" __global__ __aicore__ void by_count(GM_ADDR x, GM_ADDR out, int32_t n) {
    Bench<int8_t> b;
    DataCopy(b.ub, b.gm(x), n);
    PipeBarrier<PIPE_ALL>();
    DataCopy(b.gm(out), b.ub, n);
}
extern "C" __global__ __aicore__ void slices(GM_ADDR x, GM_ADDR out) {
    Bench<float> b;
    SliceInfo src[] = {{16, 70, 7, 3, 87}, {0, 2, 1, 1, 3}}, dst[] = {{0, 47, 0, 3, 48}, {0, 1, 0, 1, 2}};
    DataCopy(b.ub, b.gm(x), dst, src, 2);
    PipeBarrier<PIPE_ALL>();
    DataCopy(b.gm(out), b.ub, dst, dst, 2);
}
extern "C" __global__ __aicore__ void slices_wrong(GM_ADDR x) {
    Bench<float> b;
    SliceInfo src[] = {{0, 23, 0, 3, 87}}, dst[] = {{0, 47, 0, 3, 48}};
    DataCopy(b.ub, b.gm(x), dst, src, 1);
}
extern "C" __global__ __aicore__ void nd2nz(GM_ADDR x, GM_ADDR background, GM_ADDR out, int32_t matrices, int32_t n, int32_t d, int32_t src_matrix, int32_t src_d, int32_t c0, int32_t nstride, int32_t dst_matrix) {
    Bench<half> b;
    b.load(background);
    DataCopy(b.ub, b.gm(x), Nd2NzParams(matrices, n, d, src_matrix, src_d, c0, nstride, dst_matrix));
    b.store(out);
}
extern "C" __global__ __aicore__ void nz2nd(GM_ADDR x, GM_ADDR out, int32_t matrices, int32_t n, int32_t d, int32_t src_matrix, int32_t src_n, int32_t dst_d, int32_t dst_matrix) {
    Bench<float> b;
    b.load(x);
    DataCopy(b.gm(out), b.ub, Nz2NdParamsFull(matrices, n, d, src_matrix, src_n, dst_d, dst_matrix));
}
extern "C" __global__ __aicore__ void misaligned(GM_ADDR x, int32_t offset) {
    Bench<half> b;
    DataCopy(b.ub[offset], b.gm(x), 64);
}
extern "C" __global__ __aicore__ void hinted(GM_ADDR x) {
    Bench<half> b;
    auto g = b.gm(x);
    DataCopy(b.ub, g, 64);
    g.SetL2CacheHint(CacheMode::CACHE_MODE_DISABLE);
    DataCopy(b.ub, g, 64);
}
extern "C" __global__ __aicore__ void no_path(GM_ADDR x) {
    TPipe pipe;
    LocalTensor<half> l0(TPosition::CO1, 0, 64), ub(TPosition::VECCALC, 0, 64);
    DataCopy(ub, l0, 64);
}
"""

CUBE = r"""
extern "C" __global__ __aicore__ void through_l1(GM_ADDR x, GM_ADDR out, int32_t count, int32_t len, int32_t src_gap, int32_t dst_gap) {
    KERNEL_TASK_TYPE_DEFAULT(KERNEL_TYPE_AIC_ONLY);
    TPipe pipe;
    TBuf<TPosition::A1> buffer;
    pipe.InitBuffer(buffer, 8192);
    auto l1 = buffer.Get<half>();
    GlobalTensor<half> xg, og;
    xg.SetGlobalBuffer((__gm__ half*)x);
    og.SetGlobalBuffer((__gm__ half*)out);
    DataCopy(l1, xg, 4096);
    PipeBarrier<PIPE_ALL>();
    DataCopy(og, l1, DataCopyParams(count, len, src_gap, dst_gap));
    LocalTensor<float> source(TPosition::C1, 0, 64), bias(TPosition::C2, 0, 64);
    LocalTensor<uint64_t> quant(TPosition::C1, 0, 64), fix(TPosition::C2PIPE2GM, 0, 64);
    DataCopy(bias, source, DataCopyParams(2, 1, 2, 1));
    DataCopy(fix, quant, DataCopyParams(2, 1, 4, 2));
}
extern "C" __global__ __aicore__ void nd2nz_int4(GM_ADDR x, GM_ADDR out, int32_t n, int32_t pairs) {
    KERNEL_TASK_TYPE_DEFAULT(KERNEL_TYPE_AIC_ONLY);
    LocalTensor<int4b_t> l1(TPosition::A1, 0, 16384);
    GlobalTensor<int4b_t> xg;
    xg.SetGlobalBuffer((__gm__ int4b_t*)x);
    DataCopy(l1, xg, Nd2NzParams(1, n, pairs, 0, pairs, n, 1, 0));
    PipeBarrier<PIPE_ALL>();
    GlobalTensor<int8_t> og;
    og.SetGlobalBuffer((__gm__ int8_t*)out);
    DataCopy(og, l1.ReinterpretCast<int8_t>(), n * ((pairs + 31) / 32 * 32));
}
extern "C" __global__ __aicore__ void nd2nz_l1(GM_ADDR x, GM_ADDR out, int32_t n, int32_t d) {
    KERNEL_TASK_TYPE_DEFAULT(KERNEL_TYPE_AIC_ONLY);
    LocalTensor<int8_t> l1(TPosition::A1, 0, 8192);
    GlobalTensor<int8_t> xg, og;
    xg.SetGlobalBuffer((__gm__ int8_t*)x);
    og.SetGlobalBuffer((__gm__ int8_t*)out);
    DataCopy(l1, xg, Nd2NzParams(1, n, d, 0, d, n, 1, 0));
    PipeBarrier<PIPE_ALL>();
    DataCopy(og, l1, n * ((d + 31) / 32 * 32));
}
"""


def vector() -> Any:
    return kernels(KERNELS, "data_copy")


def cube() -> Any:
    return kernels(CUBE, "data_copy_cube")


def codes(run: Run) -> list[str]:
    return [r.code for r in run.trace.reports]


def copied(
    source: np.ndarray, target: np.ndarray, count: int, size: int, source_step: int, target_step: int
) -> np.ndarray:
    """Rows of `size` bytes from one byte array to a copy of another, each with its own step."""
    result = target.copy()
    for r in range(count):
        result[r * target_step : r * target_step + size] = source[r * source_step : r * source_step + size]
    return result


def oracle(
    source: np.ndarray, target: np.ndarray, count: int, length: int, source_gap: int, target_gap: int
) -> np.ndarray:
    """DataCopyParams: 32-byte blocks, gaps between the end of one row and the start of the next."""
    return copied(source, target, count, length * 32, (length + source_gap) * 32, (length + target_gap) * 32)


def nz_oracle(x: np.ndarray, target: np.ndarray, p: tuple[int, ...]) -> np.ndarray:
    """ND to NZ, element by element, from the definition of the parameters."""
    matrices, n, d, src_matrix, src_d, c0_stride, n_stride, dst_matrix = p
    c0 = 32 // x.itemsize
    result = target.copy()
    for m in range(matrices):
        for row in range(n):
            for column in range(-(-d // c0) * c0):
                value = x[m * src_matrix + row * src_d + column] if column < d else 0
                result[m * dst_matrix + column // c0 * c0_stride * c0 + row * n_stride * c0 + column % c0] = value
    return result


ORACLES: dict[str, Callable[..., Any]] = {"DataCopy": oracle}

shapes = st.tuples(st.integers(0, 6), st.integers(0, 8), st.integers(0, 6), st.integers(0, 6))


def bytes_of(seed: int, size: int = UB) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, 256, size).astype(np.uint8)


@settings(max_examples=25, deadline=None)
@given(shapes)
def test_blocks_with_gaps_into_ub_move_exactly_these_bytes(shape: tuple[int, int, int, int]) -> None:
    x, background, out = bytes_of(1), bytes_of(2), np.zeros(UB, np.uint8)
    vector().blocks_in[1](x, background, out, *shape)
    np.testing.assert_array_equal(out, oracle(x, background, *shape))


@settings(max_examples=25, deadline=None)
@given(shapes)
def test_blocks_with_gaps_out_of_ub_move_exactly_these_bytes(shape: tuple[int, int, int, int]) -> None:
    x, out = bytes_of(3), bytes_of(4)
    before = out.copy()
    run = vector().blocks_out[1](x, out, *shape)
    np.testing.assert_array_equal(out, oracle(x, before, *shape))
    ranges = run.trace.decoded()
    stored = run.trace.instrs[ranges.instr]["pipe"] == 5
    written = int((ranges.row_bytes * ranges.rows)[(ranges.space == 0) & (ranges.mode == 2) & stored].sum())
    assert written == shape[0] * shape[1] * 32


@settings(max_examples=15, deadline=None)
@given(shapes)
def test_blocks_inside_ub(shape: tuple[int, int, int, int]) -> None:
    x, out = bytes_of(5), np.zeros(UB, np.uint8)
    vector().blocks_ub[1](x, out, *shape)
    expected = x.copy()
    expected[4096:] = oracle(x, x[4096:], *shape)
    np.testing.assert_array_equal(out, expected)


@pytest.mark.parametrize("n", [0, 31, 32, 63, 64, 1000])
def test_a_count_that_is_no_multiple_of_32_bytes_is_cut_and_reported(n: int) -> None:
    x, out = bytes_of(6), np.zeros(UB, np.uint8)
    run = vector().by_count[1](x, out, n)
    whole = n // 32 * 32
    np.testing.assert_array_equal(out[:whole], x[:whole])
    assert not out[whole:].any()
    assert codes(run) == ([] if n == whole else ["unaligned-length", "unaligned-length"])


def test_slices_take_the_rectangle_of_the_documented_example() -> None:
    x, out = np.arange(3 * 87, dtype=np.float32), np.zeros(96, np.float32)
    run = vector().slices[1](x, out)
    assert not codes(run)
    rows = x.reshape(3, 87)
    np.testing.assert_array_equal(out, np.concatenate([np.r_[rows[r, 16:40], rows[r, 47:71]] for r in (0, 2)]))


def test_slices_that_do_not_match_are_refused() -> None:
    assert codes(vector().slices_wrong[1](np.zeros(300, np.float32))) == ["slice-mismatch"]


@settings(max_examples=20, deadline=None)
@given(st.integers(1, 3), st.integers(1, 9), st.integers(1, 40), st.integers(0, 5))
def test_nd_to_nz_fills_the_last_block_with_zeros(matrices: int, n: int, d: int, spare: int) -> None:
    x, background = np.arange(4096).astype(np.float16), np.full(4096, 7, np.float16)
    blocks = -(-d // 16)
    p = (matrices, n, d, n * (d + spare), d + spare, n + spare, 1, (n + spare) * blocks * 16)
    out = np.zeros(4096, np.float16)
    run = vector().nd2nz[1](x, background, out, *p)
    assert not codes(run)
    np.testing.assert_array_equal(out, nz_oracle(x, background, p))


@settings(max_examples=20, deadline=None)
@given(st.integers(1, 2), st.integers(1, 12), st.integers(1, 3), st.integers(0, 4))
def test_nz_to_nd(matrices: int, n: int, blocks: int, spare: int) -> None:
    x, out = np.arange(2048, dtype=np.float32), np.zeros(4096, np.float32)
    d, src_n, src_matrix, dst_d = blocks * 16, n, 3, blocks * 16 + spare
    if (matrices - 1) * src_matrix * 256 + blocks * src_n * 16 > 2048:
        return
    vector().nz2nd[1](x, out, matrices, n, d, src_matrix, src_n, dst_d, n * dst_d)
    expected = np.zeros(4096, np.float32)
    for m in range(matrices):
        for row in range(n):
            for c in range(d):
                expected[m * n * dst_d + row * dst_d + c] = x[
                    m * src_matrix * 256 + c // 16 * src_n * 16 + row * 16 + c % 16
                ]
    np.testing.assert_array_equal(out, expected)


@settings(max_examples=10, deadline=None)
@given(shapes)
def test_cube_cores_copy_through_l1(shape: tuple[int, int, int, int]) -> None:
    x, out = bytes_of(7), bytes_of(8)
    before = out.copy()
    run = cube().through_l1[1](x, out, *shape)
    assert not codes(run)
    np.testing.assert_array_equal(out, oracle(x, before, *shape))
    costs = [run.trace.ops[i["op"]].cost for i in run.trace.instrs if run.trace.ops[i["op"]].kind == "copy"]
    moved = ["l1_to_gm"] if shape[0] and shape[1] else []
    assert costs == ["gm_to_l1", *moved, "l1_to_bias", "l1_to_fixbuf"]


@pytest.mark.parametrize(("n", "d"), [(1, 32), (5, 33), (16, 64), (3, 7)])
def test_nd_to_nz_into_l1(n: int, d: int) -> None:
    x = (np.arange(n * d) % 100).astype(np.int8)
    out = np.zeros(n * (-(-d // 32) * 32), np.int8)
    cube().nd2nz_l1[1](x, out, n, d)
    np.testing.assert_array_equal(out, nz_oracle(x, np.zeros_like(out), (1, n, d, 0, d, n, 1, 0)))


@pytest.mark.parametrize(("n", "pairs"), [(1, 32), (5, 33), (16, 64), (3, 7)])
def test_a_layout_copy_of_int4_counts_pairs(n: int, pairs: int) -> None:
    x = (np.arange(n * pairs) % 100).astype(np.int8)
    out = np.zeros(n * (-(-pairs // 32) * 32), np.int8)
    cube().nd2nz_int4[1](x, out, n, pairs)
    np.testing.assert_array_equal(out, nz_oracle(x, np.zeros_like(out), (1, n, pairs, 0, pairs, n, 1, 0)))


def test_addresses_off_32_bytes_are_reported_and_their_neighbours_are_not() -> None:
    x = np.zeros(64, np.float16)
    assert codes(vector().misaligned[1](x, 8)) == ["misaligned-address"]
    assert codes(vector().misaligned[1](x, 16)) == []


def test_fields_outside_their_range_are_reported_with_the_value_that_was_meant() -> None:
    x, out = bytes_of(9), np.zeros(UB, np.uint8)
    reports = vector().blocks_out[1](x, out, 1, 70000, 0, 0).trace.reports
    assert reports[0].code == "field-overflow" and "blockLen = 70000" in reports[0].text
    reports = vector().blocks_in[1](x, x, out, 4096, 0, 0, 0).trace.reports
    assert [r.code for r in reports] == ["field-overflow"] and "[0, 4095]" in reports[0].text
    assert not vector().blocks_in[1](x, x, out, 4095, 0, 0, 0).trace.reports


def test_gm_is_guarded_to_the_byte_of_the_last_row() -> None:
    x, out = bytes_of(10), np.zeros(UB, np.uint8)
    # Two rows of 2 blocks, 4 blocks apart: the last one ends at block 8, its gap does not count.
    assert not codes(vector().blocks_in[1](x[: 6 * 32].copy(), x, out, 2, 2, 2, 0))
    run = vector().blocks_in[1](x[: 6 * 32 - 1].copy(), x, out, 2, 2, 2, 0)
    assert codes(run) == ["gm-out-of-bounds"] and "1 too many" in run.trace.reports[0].text
    small = np.zeros(63, np.uint8)
    assert codes(vector().blocks_out[1](x, small, 1, 2, 0, 0)) == ["gm-out-of-bounds"] and not small.any()


def test_l2_bypass_is_bit_8_of_the_argument() -> None:
    run = vector().hinted[1](np.zeros(64, np.float16))
    arguments = [int(i["arg"]) >> 8 & 1 for i in run.trace.instrs if run.trace.ops[i["op"]].kind == "copy"]
    assert arguments == [0, 1]


def test_a_path_the_chip_lacks_is_named() -> None:
    reports = vector().no_path[1](np.zeros(64, np.float16)).trace.reports
    assert reports[0].code == "no-such-path" and "L0C to UB" in reports[0].text
