"""The 950's L0A: fractals of A run down its columns. The same product as on A2 from loads that name the order themselves, and by im2col."""

from __future__ import annotations

import numpy as np
import pytest

from tests.ascendc.harness import kernels

SOC = "ascend950pr_958x"
PRODUCT = """
#include "lib/matmul_intf.h"
template <bool image>
__aicore__ void product(GM_ADDR a, GM_ADDR b, GM_ADDR c) {
    constexpr uint16_t M = 48, K = 64, N = 32;
    GlobalTensor<half> ga, gb;
    GlobalTensor<float> gc;
    ga.SetGlobalBuffer((__gm__ half*)a, M * K);
    gb.SetGlobalBuffer((__gm__ half*)b, K * N);
    gc.SetGlobalBuffer((__gm__ float*)c, M * N);
    LocalTensor<half> a1(TPosition::A1, 0, M * K), b1(TPosition::B1, 65536, K * N), a2(TPosition::A2, 0, M * K), b2(TPosition::B2, 0, K * N);
    LocalTensor<float> co(TPosition::CO1, 0, M * N);
    DataCopy(a1, ga, Nd2NzParams(1, M, K, 0, K, M, 1, 0));
    DataCopy(b1, gb, Nd2NzParams(1, K, N, 0, N, K, 1, 0));
    SetFlag<HardEvent::MTE2_MTE1>(EVENT_ID0);
    WaitFlag<HardEvent::MTE2_MTE1>(EVENT_ID0);
    if constexpr (image) {
        LoadData3DParamsV2<half> p;
        p.l1H = 1;
        p.l1W = M;
        p.channelSize = K;
        p.kExtension = K;
        p.mExtension = M;
        LoadData(a2, a1, p);
    } else {
        LoadData2DParamsV2 p;
        p.mStep = M / 16;
        p.kStep = K / 16;
        p.srcStride = M / 16;
        p.dstStride = M / 16;
        LoadData(a2, a1, p);
    }
    LoadData2DParams q;
    q.repeatTimes = N / 16;
    q.srcStride = K / 16;
    q.ifTranspose = true;
    for (uint16_t k = 0; k < K / 16; ++k) {
        q.startIndex = k;
        LoadData(b2[k * N * 16], b1, q);
    }
    SetFlag<HardEvent::MTE1_M>(EVENT_ID0);
    WaitFlag<HardEvent::MTE1_M>(EVENT_ID0);
    MmadParams m(M, N, K, 0, false, true);
    Mmad(co, a2, b2, m);
    SetFlag<HardEvent::M_FIX>(EVENT_ID0);
    WaitFlag<HardEvent::M_FIX>(EVENT_ID0);
    if constexpr (image) {
        Fixpipe<float, float, CFG_ROW_MAJOR>(gc, co, FixpipeParamsV220(N, M, M, N, false));
    } else {
        FixpipeParamsArch3510<CO2Layout::ROW_MAJOR> f(N, M, M, N);
        f.params.ndNum = 1;
        Fixpipe<float, float, CFG_ROW_MAJOR>(gc, co, f);
    }
}
extern "C" __global__ __cube__ void by_fractals(GM_ADDR a, GM_ADDR b, GM_ADDR c) { product<false>(a, b, c); }
extern "C" __global__ __cube__ void by_image(GM_ADDR a, GM_ADDR b, GM_ADDR c) { product<true>(a, b, c); }
// C as it lies in L0C: columns of 16; its stride counts elements here, 32-byte blocks in the parameters of A2.
extern "C" __global__ __cube__ void columns(GM_ADDR c) {
    GlobalTensor<float> gc;
    gc.SetGlobalBuffer((__gm__ float*)c, 2 * 32 * 16);
    LocalTensor<half> a2(TPosition::A2, 0, 512), b2(TPosition::B2, 0, 512), a1(TPosition::A1, 0, 512);
    LocalTensor<float> co(TPosition::CO1, 0, 1024);
    Fill(a1, InitConstValueParams<half>(1, 32, 0, (half)1.f));
    SetFlag<HardEvent::MTE2_MTE1>(EVENT_ID0);
    WaitFlag<HardEvent::MTE2_MTE1>(EVENT_ID0);
    LoadData(a2, a1, LoadData2DParams(0, 2, 1, 0, 0, false, 0));
    LoadData(b2, a1, LoadData2DParams(0, 2, 1, 0, 0, false, 0));
    SetFlag<HardEvent::MTE1_M>(EVENT_ID0);
    WaitFlag<HardEvent::MTE1_M>(EVENT_ID0);
    Mmad(co, a2, b2, MmadParams(32, 32, 16, 0, false, true));
    SetFlag<HardEvent::M_FIX>(EVENT_ID0);
    WaitFlag<HardEvent::M_FIX>(EVENT_ID0);
    FixpipeParamsArch3510<CO2Layout::NZ> f(32, 32, 32, 32 * 16);
    Fixpipe<float, float, CFG_NZ>(gc, co, f);
}
extern "C" __global__ __cube__ void squares(GM_ADDR a) {
    toprope::Tile<int8_t> tile{LocalTensor<int8_t>(TPosition::A1, 0, 4096), 32, 32};
    toprope::load_left<int8_t>(LocalTensor<int8_t>(TPosition::A2, 0, 4096), tile, true, 0, 0, 16, 32, toprope::Site::here());
}
"""


@pytest.mark.parametrize("name", ["by_fractals", "by_image"])
def test_a_product_with_columns_of_fractals(name: str) -> None:
    rng = np.random.default_rng(5)
    a, b = rng.normal(size=(48, 64)).astype(np.float16), rng.normal(size=(64, 32)).astype(np.float16)
    c = np.zeros((48, 32), np.float32)
    run = kernels(PRODUCT, "cube_order")[name](a, b, c, soc=SOC, blocks=1)
    assert np.allclose(c, a.astype(np.float32) @ b.astype(np.float32), atol=1e-3)
    assert not [f for f in run.findings if f.severity == "error"]


def test_strides_of_results_count_elements() -> None:
    c = np.zeros(2 * 32 * 16, np.float32)
    run = kernels(PRODUCT, "cube_order")["columns"](c, soc=SOC, blocks=1)
    assert np.array_equal(c, np.full_like(c, 16))
    assert not [f for f in run.findings if f.severity == "error"]


def test_a_case_that_is_not_modelled_is_refused() -> None:
    run = kernels(PRODUCT, "cube_order")["squares"](np.zeros(4096, np.int8), soc=SOC, blocks=1)
    assert "matmul-not-modelled" in {f.code for f in run.findings}
