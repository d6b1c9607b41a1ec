"""Raw cube API beyond one tile: GEMV, 8- and 4-bit operands, HF32, transposing loads, im2col, sparse products, results in every form."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from tests.ascendc.harness import kernels, left, right, sparse_right

ORACLES: dict[str, Callable[..., object]] = dict.fromkeys(
    [
        "SetHF32Mode",
        "SetHF32TransMode",
        "SetMMColumnMajor",
        "SetMMRowMajor",
        "SetMMLayoutTransform",
        "LoadDataWithSparse",
        "MmadWithSparse",
        "BroadCastVecToMM",
        "SetFmatrix",
        "SetLoadDataPaddingValue",
        "SetLoadDataBoundary",
        "SetLoadDataRepeat",
    ],
    np.matmul,
)

KERNELS = """
#define PASS(event) SetFlag<HardEvent::event>(0); WaitFlag<HardEvent::event>(0)
// From images in GM (already in fractals) to L1 and L0: what the loads do is then plain to see in L0C or GM.
template <typename T> __aicore__ inline LocalTensor<T> Image(TPosition where, uint32_t address, GM_ADDR from, uint32_t bytes) {
    LocalTensor<T> l1(where, address, bytes * 8 / (sizeof(T) * 8));
    GlobalTensor<T> gm;
    gm.SetGlobalBuffer((__gm__ T*)from);
    DataCopy(l1, gm, DataCopyParams(1, bytes / 32, 0, 0));
    return l1;
}
template <typename T> __aicore__ inline void Fractals(LocalTensor<T> to, LocalTensor<T> from, uint32_t count) {
    LoadData2DParams p;
    p.repeatTimes = count;
    p.srcStride = 1;
    LoadData(to, from, p);
}
template <typename C> __aicore__ inline void Store(GM_ADDR to, LocalTensor<C> c1, int32_t m, int32_t n) {
    PASS(M_FIX);
    GlobalTensor<C> gm;
    gm.SetGlobalBuffer((__gm__ C*)to);
    Fixpipe<C, C, CFG_ROW_MAJOR>(gm, c1, FixpipeParamsV220(n, m, (m + 15) / 16 * 16, n, false));
}
template <typename A, typename C>
__aicore__ inline void Product(LocalTensor<A> a2, LocalTensor<A> b2, LocalTensor<C> c1, GM_ADDR c, int32_t m, int32_t k, int32_t n) {
    PASS(MTE1_M);
    MmadParams p;
    p.m = m; p.n = n; p.k = k;
    Mmad(c1, a2, b2, p);
    Store(c, c1, m, n);
}
template <typename A, typename C> __aicore__ inline void Multiply(GM_ADDR a, GM_ADDR b, GM_ADDR c, int32_t m, int32_t k, int32_t n, int32_t k0) {
    const int32_t mf = m == 1 ? 1 : (m + 15) / 16, kf = (k + k0 - 1) / k0, nf = (n + 15) / 16;
    auto a1 = Image<A>(TPosition::A1, 0, a, m == 1 ? (kf * 32 + 511) / 512 * 512 : mf * kf * 512);
    auto b1 = Image<A>(TPosition::B1, 131072, b, kf * nf * 512);
    PASS(MTE2_MTE1);
    LocalTensor<A> a2(TPosition::A2, 0, 0), b2(TPosition::B2, 0, 0);
    LocalTensor<C> c1(TPosition::CO1, 0, 0);
    Fractals(a2, a1, m == 1 ? (kf + 15) / 16 : mf * kf);
    Fractals(b2, b1, kf * nf);
    Product(a2, b2, c1, c, m, k, n);
}
extern "C" __global__ __aicore__ void multiply_half(GM_ADDR a, GM_ADDR b, GM_ADDR c, int32_t m, int32_t k, int32_t n) { Multiply<half, float>(a, b, c, m, k, n, 16); }
extern "C" __global__ __aicore__ void multiply_int8(GM_ADDR a, GM_ADDR b, GM_ADDR c, int32_t m, int32_t k, int32_t n) { Multiply<int8_t, int32_t>(a, b, c, m, k, n, 32); }
extern "C" __global__ __aicore__ void multiply_int4(GM_ADDR a, GM_ADDR b, GM_ADDR c, int32_t m, int32_t k, int32_t n) {
    KERNEL_TASK_TYPE_DEFAULT(KERNEL_TYPE_AIC_ONLY);
    const int32_t mf = (m + 15) / 16, kf = (k + 63) / 64, nf = (n + 15) / 16, af = m == 1 ? (kf + 15) / 16 : mf * kf;
    auto a1 = Image<int8_t>(TPosition::A1, 0, a, af * 512).ReinterpretCast<int4b_t>();
    auto b1 = Image<int8_t>(TPosition::B1, 131072, b, kf * nf * 512).ReinterpretCast<int4b_t>();
    PASS(MTE2_MTE1);
    LocalTensor<int4b_t> a2(TPosition::A2, 0, 0), b2(TPosition::B2, 0, 0);
    LocalTensor<int32_t> c1(TPosition::CO1, 0, 0);
    Fractals(a2, a1, af);
    Fractals(b2, b1, kf * nf);
    Product(a2, b2, c1, c, m, k, n);
}
extern "C" __global__ __aicore__ void multiply_hf32(GM_ADDR a, GM_ADDR b, GM_ADDR c, int32_t m, int32_t k, int32_t n, int32_t to_zero) {
    SetHF32Mode(HF32Mode::ENABLE);
    SetHF32TransMode(to_zero ? HF32TransMode::NEAREST_ZERO : HF32TransMode::NEAREST_EVEN);
    Multiply<float, float>(a, b, c, m, k, n, 8);
    SetHF32Mode(HF32Mode::DISABLE);
}
// Two halves of K added up; without the barrier the second may come too early.
extern "C" __global__ __aicore__ void two_steps(GM_ADDR a, GM_ADDR b, GM_ADDR c, int32_t barrier) {
    auto a1 = Image<half>(TPosition::A1, 0, a, 1024);
    auto b1 = Image<half>(TPosition::B1, 131072, b, 1024);
    PASS(MTE2_MTE1);
    LocalTensor<half> a2(TPosition::A2, 0, 0), b2(TPosition::B2, 0, 0);
    LocalTensor<float> c1(TPosition::CO1, 0, 0);
    Fractals(a2, a1, 2);
    Fractals(b2, b1, 2);
    PASS(MTE1_M);
    MmadParams p;
    p.m = p.n = p.k = 16;
    Mmad(c1, a2, b2, p);
    if (barrier) PipeBarrier<PIPE_M>();
    p.cmatrixInitVal = false;
    Mmad(c1, a2[256], b2[256], p);
    SetAtomicAdd<float>();
    Store(c, c1, 16, 16);
    SetAtomicNone();
}
extern "C" __global__ __aicore__ void sparse(GM_ADDR a, GM_ADDR b, GM_ADDR index, GM_ADDR c, int32_t m, int32_t k, int32_t n) {
    const int32_t mf = (m + 15) / 16, kf = k / 32, nf = (n + 15) / 16;
    auto a1 = Image<int8_t>(TPosition::A1, 0, a, mf * kf * 512);
    auto b1 = Image<int8_t>(TPosition::B1, 131072, b, kf / 2 * nf * 512);
    auto i1 = Image<uint8_t>(TPosition::B1, 262144, index, kf / 2 * nf * 128);
    PASS(MTE2_MTE1);
    LocalTensor<int8_t> a2(TPosition::A2, 0, 0), b2(TPosition::B2, 0, 0);
    LocalTensor<int32_t> c1(TPosition::CO1, 0, 0);
    Fractals(a2, a1, mf * kf);
    LoadData2DParams p;
    p.repeatTimes = kf / 2 * nf;
    LoadDataWithSparse(b2, b1, i1, p);
    PASS(MTE1_M);
    MmadParams mm;
    mm.m = m; mm.n = n; mm.k = k;
    MmadWithSparse(c1, a2, b2, mm);
    Store(c, c1, m, n);
}
// im2col of a feature map times weights that lie as nZ: a convolution.
extern "C" __global__ __aicore__ void conv(GM_ADDR x, GM_ADDR w, GM_ADDR y, int32_t c, int32_t h, int32_t wd, int32_t kh, int32_t kw, int32_t stride, int32_t pad, int32_t dilation,
                                           int32_t m, int32_t n, int32_t repeats) {
    const int32_t c1n = c / 16, k = c * kh * kw, kf = k / 16, nf = (n + 15) / 16, mf = (m + 15) / 16;
    auto a1 = Image<half>(TPosition::A1, 0, x, c1n * h * wd * 32);
    auto b1 = Image<half>(TPosition::B1, 131072, w, kf * nf * 512);
    PASS(MTE2_MTE1);
    LocalTensor<half> a2(TPosition::A2, 0, 0), b2(TPosition::B2, 0, 0);
    LocalTensor<float> out(TPosition::CO1, 0, 0);
    LoadData3DParamsV2<half> p;
    for (int i = 0; i < 4; ++i) p.padList[i] = pad;
    p.l1H = h; p.l1W = wd; p.channelSize = c; p.kExtension = k; p.mExtension = mf * 16 / repeats;
    p.strideW = p.strideH = stride; p.filterW = kw; p.filterH = kh; p.dilationFilterW = p.dilationFilterH = dilation;
    SetLoadDataRepeat(LoadDataRepeatParam(mf / repeats, repeats, 0));
    LoadData(a2, a1, p);
    SetLoadDataRepeat(LoadDataRepeatParam());
    Fractals(b2, b1, kf * nf);
    Product(a2, b2, out, y, m, k, n);
}
"""


def nibbles(x: npt.NDArray[np.int8]) -> npt.NDArray[np.int8]:
    return ((x[0::2] & 0xF) | (x[1::2] << 4)).astype(np.int8)


@pytest.fixture(scope="module")
def cube() -> Any:
    return kernels(KERNELS, "cube_rest")


def no_errors(run: Any) -> None:
    assert not run.trace.reports, run.trace.reports


SHAPES = [(16, 64, 16), (30, 70, 40), (1, 96, 48), (47, 128, 33), (64, 33, 80)]


@pytest.mark.parametrize("m,k,n", SHAPES)
@pytest.mark.parametrize("kind", ["half", "int8", "int4"])
def test_products_of_every_width(cube: Any, kind: str, m: int, k: int, n: int) -> None:
    rng = np.random.default_rng(m + k + n)
    if kind == "half":
        a: npt.NDArray[Any] = rng.standard_normal((m, k)).astype(np.float16)
        b: npt.NDArray[Any] = rng.standard_normal((k, n)).astype(np.float16)
        c: npt.NDArray[Any] = np.zeros((m, n), np.float32)
        k0 = 16
    else:
        limit = 8 if kind == "int4" else 128
        a, b = (rng.integers(-limit, limit, s).astype(np.int8) for s in ((m, k), (k, n)))
        c = np.zeros((m, n), np.int32)
        k0 = 64 if kind == "int4" else 32
    fa: npt.NDArray[Any] = left(a, k0)
    if m == 1:  # a plain vector, padded to whole fractals
        fa = np.zeros(-(-k // (16 * k0)) * 16 * k0, a.dtype)
        fa[:k] = a[0]
    fb = right(b, k0)
    if kind == "int4":
        fa, fb = nibbles(fa), nibbles(fb)
    no_errors(cube["multiply_" + kind][1](fa, fb, c, m, k, n))
    gold = a.astype(np.float64) @ b.astype(np.float64)
    assert np.allclose(c, gold, rtol=0, atol=0 if kind != "half" else 1e-5 * k)


@pytest.mark.parametrize("to_zero", [0, 1])
def test_hf32_rounds_the_operands(cube: Any, to_zero: int) -> None:
    m, k, n = 20, 40, 24
    rng = np.random.default_rng(9)
    a, b = rng.standard_normal((m, k)).astype(np.float32), rng.standard_normal((k, n)).astype(np.float32)
    a[0, 0] = np.uint32(0x3F800800).view(np.float32)  # a tie
    b[0, :] = 1
    c = np.zeros((m, n), np.float32)
    no_errors(cube.multiply_hf32[1](left(a, 8), right(b, 8), c, m, k, n, to_zero))

    def rounded(x: npt.NDArray[np.float32]) -> npt.NDArray[np.float64]:
        bits = x.view(np.uint32)
        half = 0x7FF + (0 if to_zero else (bits >> 12 & 1))
        return ((bits + half) & np.uint32(0xFFFFF000)).astype(np.uint32).view(np.float32).astype(np.float64)

    assert np.allclose(c, rounded(a) @ rounded(b), rtol=0, atol=1e-5)
    assert not np.allclose(c, a.astype(np.float64) @ b.astype(np.float64), rtol=0, atol=1e-5)


@pytest.mark.parametrize("barrier", [0, 1])
def test_small_sums_need_a_barrier_and_add_up_in_gm(cube: Any, barrier: int) -> None:
    rng = np.random.default_rng(2)
    a, b = rng.standard_normal((16, 32)).astype(np.float16), rng.standard_normal((32, 16)).astype(np.float16)
    c = np.ones((16, 16), np.float32)
    run = cube.two_steps[1](left(a, 16), right(b, 16), c, barrier)
    assert [r.code for r in run.trace.reports] == ([] if barrier else ["mmad-needs-barrier"])
    assert np.allclose(c, 1 + a.astype(np.float64) @ b.astype(np.float64), atol=1e-4)


@pytest.mark.parametrize("m,k,n", [(16, 64, 16), (30, 128, 40)])
def test_sparse_right_matrix(cube: Any, m: int, k: int, n: int) -> None:
    rng = np.random.default_rng(k)
    a = rng.integers(-128, 128, (m, k)).astype(np.int8)
    full, dense, bits = sparse_right(rng, k, n)
    c = np.zeros((m, n), np.int32)
    no_errors(cube.sparse[1](left(a, 32), right(dense, 32), bits, c, m, k, n))
    assert np.array_equal(c, a.astype(np.int64) @ full.astype(np.int64))


@pytest.mark.parametrize(
    "c,h,w,kh,kw,stride,pad,dilation,repeats",
    [
        (16, 8, 8, 3, 3, 1, 1, 1, 1),
        (32, 7, 9, 2, 3, 2, 1, 1, 1),
        (16, 8, 8, 3, 3, 1, 2, 2, 2),
        (16, 8, 8, 1, 1, 1, 0, 1, 4),
    ],
)
def test_convolution_by_im2col(
    cube: Any, c: int, h: int, w: int, kh: int, kw: int, stride: int, pad: int, dilation: int, repeats: int
) -> None:
    n = 20
    rng = np.random.default_rng(kh)
    x = rng.standard_normal((c, h, w)).astype(np.float16)
    weights = rng.standard_normal((n, c, kh, kw)).astype(np.float16)
    oh, ow = ((s + 2 * pad - dilation * (f - 1) - 1) // stride + 1 for s, f in ((h, kh), (w, kw)))
    padded = np.pad(x, ((0, 0), (pad, pad), (pad, pad))).astype(np.float64)
    gold = np.zeros((oh, ow, n))
    for i in range(kh):
        for j in range(kw):
            rows = slice(i * dilation, i * dilation + stride * (oh - 1) + 1, stride)
            columns = slice(j * dilation, j * dilation + stride * (ow - 1) + 1, stride)
            gold += np.einsum("chw,nc->hwn", padded[:, rows, columns], weights[:, :, i, j].astype(np.float64))
    nc1hwc0 = np.ascontiguousarray(x.reshape(c // 16, 16, h, w).transpose(0, 2, 3, 1))
    order = weights.reshape(n, c // 16, 16, kh, kw).transpose(1, 3, 4, 2, 0).reshape(-1, n)
    y = np.zeros((oh * ow, n), np.float32)
    no_errors(cube.conv[1](nc1hwc0, right(order, 16), y, c, h, w, kh, kw, stride, pad, dilation, oh * ow, n, repeats))
    assert np.allclose(y, gold.reshape(-1, n), atol=2e-3)


BROADCAST = """
extern "C" __global__ __aicore__ void broadcast(GM_ADDR x, GM_ADDR y) {
    TPipe pipe;
    TBuf<TPosition::VECCALC> in, out;
    TBuf<TPosition::CO1> sum;
    pipe.InitBuffer(in, 256);
    pipe.InitBuffer(out, 4096);
    pipe.InitBuffer(sum, 4096);
    LocalTensor<float> a = in.Get<float>(), b = out.Get<float>(), c = sum.Get<float>();
    GlobalTensor<float> xg, yg;
    xg.SetGlobalBuffer((__gm__ float*)x);
    yg.SetGlobalBuffer((__gm__ float*)y);
    DataCopy(a, xg, 64);
    PipeBarrier<PIPE_ALL>();
    BroadCastVecToMM(c, a, 2, 2, 0, 0);
    PipeBarrier<PIPE_ALL>();
    DataCopyEnhancedParams matrix;
    matrix.blockMode = BlockMode::BLOCK_MODE_MATRIX;
    DataCopy(b, c, DataCopyParams(1, 4, 0, 0), matrix);
    PipeBarrier<PIPE_ALL>();
    DataCopy(yg, b, 1024);
}
"""


def test_broadcast_of_a_vector_into_l0c() -> None:
    x, y = np.arange(64, dtype=np.float32), np.zeros(1024, np.float32)
    no_errors(kernels(BROADCAST, "cube_broadcast").broadcast[1](x, y, soc="ascend310p3"))
    assert np.array_equal(y.reshape(4, 16, 16), np.repeat(x.reshape(4, 1, 16), 16, axis=1))
