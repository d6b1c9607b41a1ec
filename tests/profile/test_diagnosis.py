"""Advice keeps its word: apply it to the kernel, predict again, and the gain must be what was promised."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.ascendc.harness import kernels
from toprope.kernel import Run
from toprope.profile import diagnose, roofline
from toprope.profile.whatif import elements, kinds, second_sources, spread, without
from toprope.report import summary
from toprope.trace import PIPES
from toprope.validation import experiment

# One kernel, every mistake a parameter: buffers per queue, an offset between the operands' banks, a barrier, scalar work.
ADD = """
template <int buffers, int gap, bool barrier, bool scalars, int spare = 0, int taken = 0, int adds = 8> __aicore__ inline void Loop(GM_ADDR x, GM_ADDR y, GM_ADDR z, int32_t total, bool bypass) {
    constexpr int32_t kTile = 4096;
    TPipe pipe;
    TQue<TPosition::VECIN, 1> inX, inY;
    TQue<TPosition::VECOUT, 1> outZ;
    pipe.InitBuffer(inX, buffers, kTile * 2 + gap + spare);
    pipe.InitBuffer(inY, buffers, kTile * 2 + gap + spare);
    pipe.InitBuffer(outZ, buffers, kTile * 2 + spare);
    TBuf<TPosition::VECCALC> other;
    if (taken > 0) pipe.InitBuffer(other, taken);
    GlobalTensor<half> xg, yg, zg;
    const int32_t each = total / GetBlockNum(), begin = each * GetBlockIdx();
    xg.SetGlobalBuffer((__gm__ half*)x + begin, each);
    yg.SetGlobalBuffer((__gm__ half*)y + begin, each);
    zg.SetGlobalBuffer((__gm__ half*)z + begin, each);
    if (bypass) {
        xg.SetL2CacheHint(CacheMode::CACHE_MODE_DISABLE);
        yg.SetL2CacheHint(CacheMode::CACHE_MODE_DISABLE);
    }
    for (int32_t i = 0; i < each; i += kTile) {
        auto a = inX.AllocTensor<half>(), b = inY.AllocTensor<half>();
        DataCopy(a, xg[i], kTile);
        DataCopy(b, yg[i], kTile);
        inX.EnQue(a);
        inY.EnQue(b);
        a = inX.DeQue<half>();
        b = inY.DeQue<half>();
        auto c = outZ.AllocTensor<half>();
        for (int r = 0; r < adds; r++) Add(c, a, b, kTile);
        if (barrier) PipeBarrier<PIPE_ALL>();
        if (scalars) for (int s = 0; s < 200; s++) c.SetValue(s, c.GetValue(s));
        outZ.EnQue(c);
        inX.FreeTensor(a);
        inY.FreeTensor(b);
        c = outZ.DeQue<half>();
        DataCopy(zg[i], c, kTile);
        outZ.FreeTensor(c);
    }
}
"""
VARIANTS = {
    "good": "2, 128, false, false",
    "single": "1, 128, false, false",
    "conflict": "2, 0, false, false, 0, 0, 24",  # enough of it that the vector unit, not the scalar one, decides
    "apart": "2, 128, false, false, 0, 0, 24",
    "barrier": "2, 128, true, false",
    "scalars": "2, 128, false, true",
    "roomy": "1, 0, false, false, 40960",
    "full": "1, 128, false, false, 0, 149504",
}
# Rows multiplied by their sums, which pass through the scalar unit or stay in UB.
ROWS = """
template <bool scalar> __aicore__ inline void Scale(GM_ADDR x, GM_ADDR y, int32_t rows) {
    constexpr int32_t kRow = 2048;
    TPipe pipe;
    TQue<TPosition::VECIN, 1> inX;
    TQue<TPosition::VECOUT, 1> outY;
    TBuf<TPosition::VECCALC> sums;
    pipe.InitBuffer(inX, 2, kRow * 4);
    pipe.InitBuffer(outY, 2, kRow * 4);
    pipe.InitBuffer(sums, 1024);
    LocalTensor<float> parts = sums.Get<float>(), sum = parts[64], wide = parts[128];
    GlobalTensor<float> xg, yg;
    xg.SetGlobalBuffer((__gm__ float*)x + GetBlockIdx() * rows * kRow, rows * kRow);
    yg.SetGlobalBuffer((__gm__ float*)y + GetBlockIdx() * rows * kRow, rows * kRow);
    for (int32_t i = 0; i < rows; i++) {
        auto a = inX.AllocTensor<float>();
        DataCopy(a, xg[i * kRow], kRow);
        inX.EnQue(a);
        a = inX.DeQue<float>();
        auto c = outY.AllocTensor<float>();
        WholeReduceSum(parts, a, 64, kRow / 64, 1, 1, 8);
        WholeReduceSum(sum, parts, kRow / 64, 1, 1, 1, 8);
        if (scalar) {
            SetFlag<HardEvent::V_S>(EVENT_ID0);
            WaitFlag<HardEvent::V_S>(EVENT_ID0);
            const float value = sum.GetValue(0);
            SetFlag<HardEvent::S_V>(EVENT_ID0);
            WaitFlag<HardEvent::S_V>(EVENT_ID0);
            Muls(c, a, value, kRow);
        } else {
            Brcb(wide, sum, 1, BrcbRepeatParams(1, 8));
            Mul(c, a, wide, 64, kRow / 64, BinaryRepeatParams(1, 1, 0, 8, 8, 0));
        }
        outY.EnQue(c);
        inX.FreeTensor(a);
        c = outY.DeQue<float>();
        DataCopy(yg[i * kRow], c, kRow);
        outY.FreeTensor(c);
    }
}
struct Wide {
    uint32_t rows, rest[199];
};
extern "C" __global__ __aicore__ void wide_tiling(GM_ADDR x, GM_ADDR y, GM_ADDR tiling) {
    GET_TILING_DATA_WITH_STRUCT(Wide, t, tiling);
    Scale<false>(x, y, t.rows);
}
extern "C" __global__ __aicore__ void squares(GM_ADDR x, int32_t rounds) {
    TPipe pipe;
    TBuf<TPosition::VECCALC> place;
    pipe.InitBuffer(place, 65536);
    LocalTensor<float> a = place.Get<float>(), c = a[8192];
    for (int32_t i = 0; i < rounds; i++) Mul(c, a, a, 8192);
}
extern "C" __global__ __aicore__ void through_scalar(GM_ADDR x, GM_ADDR y, int32_t rows) { Scale<true>(x, y, rows); }
extern "C" __global__ __aicore__ void in_ub(GM_ADDR x, GM_ADDR y, int32_t rows) { Scale<false>(x, y, rows); }
"""
SOURCE = (
    ADD
    + ROWS
    + "\n".join(
        f'extern "C" __global__ __aicore__ void {n}(GM_ADDR x, GM_ADDR y, GM_ADDR z, int32_t total, bool bypass) {{ Loop<{v}>(x, y, z, total, bypass); }}'
        for n, v in VARIANTS.items()
    )
)


def run(name: str, blocks: int = 48, tiles_a_core: int = 20, bypass: bool = False) -> Run:
    total = 48 * 4096 * tiles_a_core
    x, y, z = (np.zeros(total, np.float16) for _ in range(3))
    return kernels(SOURCE, "diagnosis")[name][blocks](x, y, z, total, bypass, time_only=True)


def promised(found: Run, code: str) -> float:
    advice = {f.code: f for f in diagnose(found)}
    assert code in advice, f"{code} is not among {list(advice)}"
    assert advice[code].severity == "advice" and advice[code].cure and "saves up to" in advice[code].message
    return found.timeline.cycles - advice[code].cycles_at_stake


@pytest.mark.parametrize(
    "bad, code, good",
    [
        (dict(name="single"), "advice-double-buffer", dict(name="good")),
        (dict(name="conflict"), "advice-bank-conflict", dict(name="apart")),
        (dict(name="barrier"), "barrier-too-coarse", dict(name="good")),
        (dict(name="scalars"), "advice-scalar-access", dict(name="good")),
        (dict(name="good", blocks=8), "advice-more-blocks", dict(name="good", blocks=48)),
    ],
)
def test_the_gain_is_the_promised_one(bad: dict[str, Any], code: str, good: dict[str, Any]) -> None:
    expected = promised(run(**bad), code)
    after = run(**good).timeline.cycles
    assert after == pytest.approx(expected, rel=0.1)


def test_values_that_pass_through_the_scalar_unit_cost_its_waiting_too() -> None:
    x = np.zeros((48 * 40, 2048), np.float32)
    through, in_ub = (
        kernels(SOURCE, "diagnosis")[name][48](x, np.zeros_like(x), 40, time_only=True)
        for name in ("through_scalar", "in_ub")
    )
    assert in_ub.timeline.cycles == pytest.approx(promised(through, "advice-scalar-access"), rel=0.1)
    (advice,) = (f for f in diagnose(through) if f.code == "advice-scalar-access")
    assert "waits 1,920 times for the vector unit" in advice.message
    assert "advice-scalar-access" not in {f.code for f in diagnose(in_ub)}


def test_tiling_data_costs_what_is_promised() -> None:
    x, tiling = np.zeros((48 * 8, 2048), np.float32), np.zeros(200, np.uint32)
    tiling[0] = 8
    module = kernels(SOURCE, "diagnosis")
    wide = module["wide_tiling"][48](x, np.zeros_like(x), tiling, time_only=True)
    constant = module["in_ub"][48](x, np.zeros_like(x), 8, time_only=True)
    assert constant.timeline.cycles == pytest.approx(promised(wide, "advice-tiling-data"), rel=0.1)
    (advice,) = (f for f in diagnose(wide) if f.code == "advice-tiling-data")
    assert "(800 bytes, 13 lines of the data cache)" in advice.message and "GET_TILING_DATA" in advice.places[0].text()
    assert "advice-tiling-data" not in {f.code for f in diagnose(constant)}


def test_a_bank_conflict_that_no_padding_ends_is_not_advised_upon() -> None:
    square = kernels(SOURCE, "diagnosis")["squares"][1](np.zeros(64, np.float32), 200, time_only=True)
    assert "advice-bank-conflict" not in {f.code for f in diagnose(square)}
    rows, at = second_sources(square.trace)
    assert len(rows) == len(at) == 0


def test_barriers_are_told_once_with_what_needs_them_and_what_they_cost() -> None:
    found = run("barrier", blocks=2)
    (advice,) = (f for f in diagnose(found) if f.code == "barrier-too-coarse")
    assert [p.action for p in advice.places] == ["orders nothing that is not ordered without it"]
    together = summary.of(found, {}, diagnose(found)).findings
    assert [f.cycles_at_stake > 0 for f in together if f.code == "barrier-too-coarse"] == [True]


def test_streaming_inputs_are_advised_to_bypass_l2() -> None:
    large: dict[str, Any] = dict(name="good", tiles_a_core=400)  # 3 x 157 MB: more than L2 holds
    expected = promised(run(**large), "advice-bypass-l2")
    assert run(**large, bypass=True).timeline.cycles == pytest.approx(expected, rel=0.1)


def test_a_good_kernel_gets_no_advice_it_cannot_use() -> None:
    codes = {f.code for f in diagnose(run("good"))}
    assert codes.isdisjoint(
        {
            "advice-double-buffer",
            "advice-bank-conflict",
            "barrier-too-coarse",
            "advice-scalar-access",
            "advice-more-blocks",
        }
    )


def test_the_scalar_work_of_a_library_object_is_not_taken_for_elements_of_the_kernel() -> None:
    (row,) = (r for r in experiment.published() if (r.kernel, r.id) == ("matmul_object", "g6"))
    found = experiment.launch(row)
    assert kinds(found.trace, "scalar").sum() > 64 and not elements(found.trace).any()
    advice = {f.code: f for f in diagnose(found)}
    assert "advice-scalar-access" not in advice
    lines = [(p.file, p.line) for p in advice["advice-unit-flag"].places]
    assert len(lines) == len(set(lines)) > 0


def test_advice_is_ordered_by_gain() -> None:
    gains = [f.cycles_at_stake for f in diagnose(run("single", blocks=8))]
    assert len(gains) >= 2 and gains == sorted(gains, reverse=True)


def test_the_scalar_loop_that_is_the_bound_comes_before_larger_gains() -> None:
    found = run("scalars", blocks=4)
    assert max(PIPES, key=found.timeline.busy) == "S"
    first, *others = diagnose(found)
    assert first.code == "advice-scalar-access" and any(f.cycles_at_stake > first.cycles_at_stake for f in others)
    gains = [f.cycles_at_stake for f in others]
    assert gains == sorted(gains, reverse=True)


def test_changed_traces_stay_consistent() -> None:
    trace = run("good", blocks=2, tiles_a_core=2).trace
    for changed in (without(trace, kinds(trace, "barrier", "set_flag")), spread(trace, 3)):
        assert changed.core_begin[-1] == len(changed.instrs) and changed.access_begin[-1] == len(changed.accesses)
        for core in range(len(changed.cores)):
            rows = slice(int(changed.core_begin[core]), int(changed.core_begin[core + 1]))
            assert (
                int(changed.instrs["accesses"][rows].sum())
                == changed.access_begin[core + 1] - changed.access_begin[core]
            )


def test_roofline_names_the_bound() -> None:
    streaming = roofline(run("good", tiles_a_core=100))
    assert streaming.bound in ("memory", "compute") and 0 < streaming.memory <= 1.05 and streaming.parallelism > 0.9
    assert streaming.operations == 48 * 4096 * 100 * 8
    few = roofline(run("good", blocks=4, tiles_a_core=4))
    assert few.bound == "parallelism" and few.parallelism < 0.1


def test_a_constant_tiling_gains_what_is_promised() -> None:
    rows = {row.id: row for row in experiment.published() if row.kernel == "matmul_object"}
    expected = promised(experiment.launch(rows["g6"]), "advice-constant-tiling")
    constant = experiment.launch(rows["g4"])
    assert constant.timeline.cycles == pytest.approx(expected, rel=0.1)
    assert "advice-constant-tiling" not in {f.code for f in diagnose(constant)}


def test_buffers_that_do_not_fit_twice_are_trimmed_to_what_a_round_needs() -> None:
    found = run("roomy")
    expected = promised(found, "advice-double-buffer")
    (advice,) = (f for f in diagnose(found) if f.code == "advice-double-buffer")
    assert "(24,576 of the 147,456 bytes given now)" in advice.message and len(advice.places) == 3
    assert run("good").timeline.cycles == pytest.approx(expected, rel=0.1)


def test_of_buffers_that_do_not_fit_together_those_that_do_are_named() -> None:
    advice = {f.code: f for f in diagnose(run("full"))}
    places = [p.text() for p in advice["advice-double-buffer"].places]
    assert len(places) == 2 and all("InitBuffer" in place for place in places)
