"""Names of public cube kernels without a page: events between cores of a group, core-local variables, Fixpipe by bursts, buffer addresses."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tests.ascendc.harness import kernels, left, right
from toprope.errors import CompileFailed

ORACLES: dict[str, Callable[..., object]] = dict.fromkeys(["NotifyEvent", "WaitEvent", "GroupBarrier"], np.copy)

TEXT = """
#define PASS(event) SetFlag<HardEvent::event>(0); WaitFlag<HardEvent::event>(0)
// C = A x B from fractals in GM, out by FixpipeParams: rows of an ND matrix with room behind them, or NZ.
extern "C" __global__ __aicore__ void bursts(GM_ADDR a, GM_ADDR b, GM_ADDR c, int32_t m, int32_t n, int32_t nd) {
    KERNEL_TASK_TYPE_DEFAULT(KERNEL_TYPE_AIC_ONLY);
    TPipe pipe;
    TBuf<TPosition::A1> l1;
    pipe.InitBuffer(l1, 65536);
    LocalTensor<half> a1 = l1.Get<half>(), b1, a2(TPosition::A2, 0, 32768), b2(TPosition::B2, 0, 32768);
    TBuffAddr place = l1.GetBufferAddr(a1.GetBufferHandle());
    place.bufferAddr += 32768;
    place.dataLen -= 32768;
    b1.SetAddr(place);
    GlobalTensor<half> ag, bg, cg;
    ag.SetGlobalBuffer((__gm__ half*)a);
    bg.SetGlobalBuffer((__gm__ half*)b);
    cg.SetGlobalBuffer((__gm__ half*)c);
    DataCopy(a1, ag, m * 16);
    DataCopy(b1, bg, n * 16);
    PASS(MTE2_MTE1);
    LoadData2DParams load;
    load.srcStride = 1;
    load.repeatTimes = m / 16;
    LoadDataImpl(a2, a1, load);
    load.repeatTimes = n / 16;
    LoadDataImpl(b2, b1, load);
    PASS(MTE1_M);
    MmadParams mm;
    mm.m = m; mm.n = n; mm.k = 16;
    LocalTensor<float> sum(TPosition::CO1, 0, m * n);
    MmadImpl(sum, a2, b2, mm);
    PASS(M_FIX);
    FixpipeParams<float> p(n / 16, m * 16 * 4 / 32, 0, nd ? n + 16 : 16);
    p.quantParams = {QuantMode_t::F322F16};
    if (nd) p.nz2ndParams = {true, 1, 0, 0, (uint16_t)(n - 4)};
    Fixpipe(cg, sum, p);
}
// Each core adds its number, waits for the others, and doubles what it has.
__BLOCK_LOCAL__ inline uint32_t mine = 7;
extern "C" __global__ __aicore__ void local(GM_ADDR out) {
    mine += GetBlockIdx();
    SyncAll();
    mine *= 2;
    SyncAll();
    GlobalTensor<uint32_t> o;
    o.SetGlobalBuffer((__gm__ uint32_t*)out);
    o.SetValue(GetBlockIdx() * 16, mine);
    DataCacheCleanAndInvalid<uint32_t, CacheLine::SINGLE_CACHE_LINE, DcciDst::CACHELINE_OUT>(o[GetBlockIdx() * 16]);
}
"""
EVENTS = """
#define PASS(event) SetFlag<HardEvent::event>(0); WaitFlag<HardEvent::event>(0)
// The vector core hands the left matrix over through GM; the cube core answers, and the vector core brings the product to its place.
extern "C" __global__ __aicore__ void events(GM_ADDR a, GM_ADDR b, GM_ADDR c, GM_ADDR w) {
    KERNEL_TASK_TYPE_DEFAULT(KERNEL_TYPE_MIX_AIC_1_1);
    GlobalTensor<half> ag, bg, wg;
    GlobalTensor<float> cg, pg;
    ag.SetGlobalBuffer((__gm__ half*)a);
    bg.SetGlobalBuffer((__gm__ half*)b);
    wg.SetGlobalBuffer((__gm__ half*)w);
    pg.SetGlobalBuffer((__gm__ float*)(w + 512));
    cg.SetGlobalBuffer((__gm__ float*)c);
    if ASCEND_IS_AIV {
        LocalTensor<half> x(TPosition::VECIN, 0, 256);
        LocalTensor<float> y(TPosition::VECIN, 1024, 256);
        DataCopy(x, ag, 256);
        PASS(MTE2_MTE3);
        DataCopy(wg, x, 256);
        NotifyEvent<PIPE_MTE3>(4);
        WaitEvent(5);
        DataCopy(y, pg, 256);
        PASS(MTE2_MTE3);
        DataCopy(cg, y, 256);
    } else {
        LocalTensor<half> a1(TPosition::A1, 0, 256), b1(TPosition::B1, 512, 256), a2(TPosition::A2, 0, 256), b2(TPosition::B2, 0, 256);
        LocalTensor<float> sum(TPosition::CO1, 0, 256);
        WaitEvent(4);
        DataCopy(a1, wg, 256);
        DataCopy(b1, bg, 256);
        PASS(MTE2_MTE1);
        LoadData2DParams load;
        load.repeatTimes = 1;
        LoadData(a2, a1, load);
        LoadData(b2, b1, load);
        PASS(MTE1_M);
        MmadParams mm;
        mm.m = mm.n = mm.k = 16;
        Mmad(sum, a2, b2, mm);
        PASS(M_FIX);
        Fixpipe<float, float, CFG_ROW_MAJOR>(pg, sum, FixpipeParamsV220(16, 16, 16, 16, false));
        NotifyEvent<PIPE_FIX>(5);
    }
}
"""

# The first two cores hand a block each to the other two, again and again; a second barrier gives the places back.
GROUPS = """
#define PASS(event) SetFlag<HardEvent::event>(0); WaitFlag<HardEvent::event>(0)
extern "C" __global__ __aicore__ void groups(GM_ADDR x, GM_ADDR y, GM_ADDR through, GM_ADDR sync, int32_t rounds, int32_t barred) {
    GlobalTensor<float> xg, yg, tg;
    xg.SetGlobalBuffer((__gm__ float*)x);
    yg.SetGlobalBuffer((__gm__ float*)y);
    tg.SetGlobalBuffer((__gm__ float*)through);
    GroupBarrier<PipeMode::MTE3_MODE> there(sync, 2, 2), back(sync + there.GetWorkspaceLen(), 2, 2);
    LocalTensor<float> block(TPosition::VECIN, 0, 64);
    const uint32_t me = GetBlockIdx(), pair = me % 2;
    for (int32_t round = 0; round < rounds; ++round) {
        const uint32_t at = (round * 2 + pair) * 64;
        if (me < 2) {
            if (round > 0) back.Wait(pair);
            DataCopy(block, xg[at], 64);
            PASS(MTE2_MTE3);
            DataCopy(tg[pair * 64], block, 64);
            there.Arrive(pair);
            PASS(MTE3_MTE2);
        } else {
            if (barred) there.Wait(pair);
            DataCopy(block, tg[pair * 64], 64);
            PASS(MTE2_MTE3);
            DataCopy(yg[at], block, 64);
            back.Arrive(pair);
            PASS(MTE3_MTE2);
        }
    }
}
"""


@pytest.fixture(scope="module")
def names() -> Any:
    return kernels(TEXT, "cube_names")


def clean(run: Any) -> None:
    assert not [r for r in run.trace.reports if r.severity == 0], run.trace.reports
    assert not [f for f in run.findings if f.severity == "error"], run.findings


@pytest.mark.parametrize("nd", [True, False])
def test_fixpipe_by_bursts(names: Any, nd: bool) -> None:
    rng = np.random.default_rng(0)
    m, n = 32, 48
    a, b = rng.standard_normal((m, 16)).astype(np.float16), rng.standard_normal((16, n)).astype(np.float16)
    c = np.zeros((m, n + 16) if nd else (n // 16, m * 16 + 256), np.float16)
    clean(names.bursts[1](left(a, 16), right(b, 16), c, m, n, int(nd)))
    gold = (a.astype(np.float64) @ b.astype(np.float64)).astype(np.float16)
    if nd:
        assert np.allclose(c[:, : n - 4], gold[:, : n - 4], rtol=2e-3, atol=1e-3)
        assert not c[:, n - 4 :].any()
        return
    for j in range(n // 16):
        assert np.allclose(c[j, : m * 16].reshape(m, 16), gold[:, j * 16 : j * 16 + 16], rtol=2e-3, atol=1e-3)
        assert not c[j, m * 16 :].any()


def test_each_core_has_its_own_variables(names: Any) -> None:
    out = np.zeros((4, 16), np.uint32)
    for _ in range(2):  # every launch begins with the initial value
        clean(names.local[4](out))
        assert out[:, 0].tolist() == [14, 16, 18, 20]


def test_events_between_cube_and_vector_core() -> None:
    rng = np.random.default_rng(1)
    a, b = rng.standard_normal((16, 16)).astype(np.float16), rng.standard_normal((16, 16)).astype(np.float16)
    c = np.zeros((16, 16), np.float32)
    clean(kernels(EVENTS, "cube_events").events[1](a, right(b, 16), c, np.zeros(512 + 1024, np.uint8)))
    assert np.allclose(c, a.astype(np.float64) @ b.astype(np.float64), atol=1e-4)


@pytest.mark.parametrize("barred", [True, False])
def test_group_barrier(barred: bool) -> None:
    x = np.random.default_rng(2).standard_normal((3, 2, 64)).astype(np.float32)
    y, through, sync = np.zeros_like(x), np.zeros((2, 64), np.float32), np.zeros(2048, np.uint8)
    run = kernels(GROUPS, "cube_groups").groups[4](x, y, through, sync, 3, int(barred))
    if barred:
        clean(run)
        assert np.array_equal(y, x)
    else:
        assert any(f.code.startswith("race") for f in run.findings), run.findings


@pytest.mark.parametrize(
    "call,words",
    [
        ("Conv2D(c, a, a, 1);", "deprecated, and not on A2"),
        ("Gemm(c, a, a, 16, 16, 16);", "deprecated, and not on A2"),
        ("LoadImageToLocal(a, 1);", "the image unit is not supported"),
        ("LoadData(a, a, LoadData3DParamsV1<half>());", "use LoadData3DParamsV2"),
    ],
)
def test_old_forms_are_refused_with_a_reason(call: str, words: str) -> None:
    text = f"""
extern "C" __global__ __aicore__ void refused(GM_ADDR x) {{
    KERNEL_TASK_TYPE_DEFAULT(KERNEL_TYPE_AIC_ONLY);
    LocalTensor<half> a(TPosition::A1, 0, 256);
    LocalTensor<float> c(TPosition::CO1, 0, 256);
    {call}
}}
"""
    with pytest.raises(CompileFailed, match=words):
        kernels(text, "cube_refused").refused[1](np.zeros(16, np.float16))
