"""Raw cube API: loads into L0, Mmad and Fixpipe against float64."""

from __future__ import annotations

from collections.abc import Callable

import ml_dtypes
import numpy as np
import pytest

from tests.ascendc.harness import kernels
from toprope.kernel import KernelFile

# One tile of C = A x B: ND in GM, NZ in L1, zZ/nZ in L0, result ND. Every size is a parameter, so one build serves all shapes.
TILE = """
template <typename A, typename C> __aicore__ inline void Tile(GM_ADDR a, GM_ADDR b, GM_ADDR c, int32_t m, int32_t k, int32_t n, QuantMode_t quant) {
    constexpr uint32_t k0 = 32 / sizeof(A);
    const uint16_t mA = (m + 15) / 16 * 16, kA = (k + k0 - 1) / k0 * k0, kB = (k + 15) / 16 * 16, nA = (n + 15) / 16 * 16, nK = (n + k0 - 1) / k0 * k0;
    LocalTensor<A> a1(TPosition::A1, 0, mA * kA), b1(TPosition::B1, 262144, kB * nK), a2(TPosition::A2, 0, mA * kA), b2(TPosition::B2, 0, kB * nK);
    LocalTensor<float> c1(TPosition::CO1, 0, mA * nA);
    GlobalTensor<A> ag, bg;
    GlobalTensor<C> cg;
    ag.SetGlobalBuffer((__gm__ A*)a);
    bg.SetGlobalBuffer((__gm__ A*)b);
    cg.SetGlobalBuffer((__gm__ C*)c);
    Nd2NzParams load;
    load.ndNum = 1;
    load.nValue = m; load.dValue = k; load.srcDValue = k; load.dstNzC0Stride = mA; load.dstNzNStride = 1;
    DataCopy(a1, ag, load);
    load.nValue = k; load.dValue = n; load.srcDValue = n; load.dstNzC0Stride = kB;
    DataCopy(b1, bg, load);
    SetFlag<HardEvent::MTE2_MTE1>(0);
    WaitFlag<HardEvent::MTE2_MTE1>(0);
    if (m == 1) {
        // One row: the cube reads A as a plain vector, so its fractals' first rows are laid side by side.
        for (uint32_t f = 0; f < kA / k0; ++f)
            for (uint32_t i = 0; i < k0; ++i) a2.GetPhyAddr()[f * k0 + i] = a1.GetPhyAddr()[f * 16 * k0 + i];
        LoadData2DParams none;
        none.repeatTimes = 1;
        LoadData(a2[8192], a1, none);
    } else {
        for (uint32_t i = 0; i < mA / 16; ++i) {
            LoadData2DParams p;
            p.repeatTimes = kA / k0;
            p.srcStride = mA / 16;
            LoadData(a2[i * kA * 16], a1[i * 16 * k0], p);
        }
    }
    if constexpr (sizeof(A) == 2) {
        for (uint32_t i = 0; i < kB / 16; ++i) {
            LoadData2DParams p;
            p.repeatTimes = nA / 16;
            p.srcStride = kB / 16;
            p.ifTranspose = true;
            LoadData(b2[i * nA * 16], b1[i * 256], p);
        }
    } else {
        LoadData3DParamsV2<A> p;
        p.l1H = 1; p.l1W = kB; p.channelSize = nK; p.kExtension = nK; p.mExtension = kB;
        LoadData(b2, b1, p);
    }
    SetFlag<HardEvent::MTE1_M>(0);
    WaitFlag<HardEvent::MTE1_M>(0);
    MmadParams mm;
    mm.m = m; mm.n = n; mm.k = k;
    Mmad(c1, a2, b2, mm);
    SetFlag<HardEvent::M_FIX>(0);
    WaitFlag<HardEvent::M_FIX>(0);
    FixpipeParamsV220 fix(n, m, mA, n, false);
    fix.quantPre = quant;
    Fixpipe<C, float, CFG_ROW_MAJOR>(cg, c1, fix);
}
#define TILE_KERNEL(name, A, C, quant) \\
    extern "C" __global__ __aicore__ void name(GM_ADDR a, GM_ADDR b, GM_ADDR c, int32_t m, int32_t k, int32_t n) { Tile<A, C>(a, b, c, m, k, n, quant); }
extern "C" __global__ __aicore__ void half_float(GM_ADDR a, GM_ADDR b, GM_ADDR c, int32_t m, int32_t k, int32_t n) { Tile<half, float>(a, b, c, m, k, n, NoQuant); }
extern "C" __global__ __aicore__ void half_half(GM_ADDR a, GM_ADDR b, GM_ADDR c, int32_t m, int32_t k, int32_t n) { Tile<half, half>(a, b, c, m, k, n, F322F16); }
extern "C" __global__ __aicore__ void bf16_bf16(GM_ADDR a, GM_ADDR b, GM_ADDR c, int32_t m, int32_t k, int32_t n) { Tile<bfloat16_t, bfloat16_t>(a, b, c, m, k, n, F322BF16); }
extern "C" __global__ __aicore__ void float_float(GM_ADDR a, GM_ADDR b, GM_ADDR c, int32_t m, int32_t k, int32_t n) { Tile<float, float>(a, b, c, m, k, n, NoQuant); }
"""

KINDS = {
    "half_float": (np.float16, np.float32, 1e-6),
    "half_half": (np.float16, np.float16, 1e-3),
    "bf16_bf16": (ml_dtypes.bfloat16, ml_dtypes.bfloat16, 8e-3),
    "float_float": (np.float32, np.float32, 1e-6),
}

ORACLES: dict[str, Callable[..., object]] = {
    name: np.matmul for name in ("Mmad", "LoadData", "Fixpipe", "LoadDataWithTranspose", "Fill", "InitConstValue")
}


@pytest.fixture(scope="module")
def tile() -> KernelFile:
    return kernels(TILE, "cube_tile")


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("m,k,n", [(16, 16, 16), (128, 64, 128), (30, 70, 40), (17, 33, 15), (100, 100, 100)])
def test_a_tile_of_any_size(tile: KernelFile, kind: str, m: int, k: int, n: int) -> None:
    source, target, tolerance = KINDS[kind]
    if kind == "float_float" and n % 16:
        n = (n + 15) // 16 * 16
    rng = np.random.default_rng(m * 1000 + k * 10 + n)
    a, b = rng.standard_normal((m, k)).astype(source), rng.standard_normal((k, n)).astype(source)
    c = np.full((m, n), np.nan, target)
    run = tile[kind][1](a, b, c, m, k, n)
    gold = a.astype(np.float64) @ b.astype(np.float64)
    scale = np.abs(a.astype(np.float64)) @ np.abs(b.astype(np.float64))
    assert not [r for r in run.trace.reports if r.severity == 0], run.trace.reports
    assert np.all(np.abs(c.astype(np.float64) - gold) <= tolerance * scale + 1e-6)
