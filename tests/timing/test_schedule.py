"""The schedule: pipes, flags, barriers, cores and the memory they share."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tests.ascendc.harness import kernels
from toprope import soc
from toprope.errors import BadChip
from toprope.kernel import Run
from toprope.timing import STALLS, predict

pytestmark = pytest.mark.compiler

TEXT = """
constexpr uint32_t kTile = 8192;
struct Gm {
    GlobalTensor<half> x;
    __aicore__ inline explicit Gm(GM_ADDR at) { x.SetGlobalBuffer((__gm__ half*)at); }
};
// Each core reads `tiles` tiles of its own, `repeats` times over.
extern "C" __global__ __aicore__ void read(GM_ADDR x, uint32_t tiles, uint32_t repeats) {
    Gm gm(x);
    const LocalTensor<half> ub(TPosition::VECIN, 0, kTile);
    for (uint32_t r = 0; r < repeats; ++r)
        for (uint32_t t = 0; t < tiles; ++t) DataCopy(ub, gm.x[(GetBlockIdx() * tiles + t) * kTile], kTile);
}
extern "C" __global__ __aicore__ void read_same(GM_ADDR x) {
    Gm gm(x);
    DataCopy(LocalTensor<half>(TPosition::VECIN, 0, kTile), gm.x, kTile);
}
extern "C" __global__ __aicore__ void read_bypassing(GM_ADDR x, uint32_t tiles) {
    Gm gm(x);
    gm.x.SetL2CacheHint(CacheMode::CACHE_MODE_DISABLE);
    const LocalTensor<half> ub(TPosition::VECIN, 0, kTile);
    for (uint32_t r = 0; r < 2; ++r)
        for (uint32_t t = 0; t < tiles; ++t) DataCopy(ub, gm.x[t * kTile], kTile);
}
extern "C" __global__ __aicore__ void load_then_use(GM_ADDR x) {
    Gm gm(x);
    const LocalTensor<half> a(TPosition::VECIN, 0, kTile), b(TPosition::VECOUT, 65536, kTile);
    DataCopy(a, gm.x, kTile);
    SetFlag<HardEvent::MTE2_V>(0);
    WaitFlag<HardEvent::MTE2_V>(0);
    Adds(b, a, (half)1, kTile);
    SetFlag<HardEvent::V_MTE3>(0);
    WaitFlag<HardEvent::V_MTE3>(0);
    DataCopy(gm.x, b, kTile);
    PipeBarrier<PIPE_ALL>();
    Adds(b, a, (half)2, kTile);
}
extern "C" __global__ __aicore__ void independent_and_dependent(GM_ADDR) {
    const LocalTensor<half> a(TPosition::VECIN, 0, 1024), b(TPosition::VECOUT, 65536, 1024), c(TPosition::VECOUT, 131072, 1024);
    Duplicate(a, (half)1, 128);
    Duplicate(b, (half)1, 128);
    Adds(c, b, (half)1, 128);
}
// The sum's sources lie around what the first instruction writes; the product's do not.
extern "C" __global__ __aicore__ void sources_far_apart(GM_ADDR) {
    const LocalTensor<half> low(TPosition::VECIN, 0, 1024), middle(TPosition::VECIN, 65536, 8192), high(TPosition::VECIN, 131072, 1024);
    const LocalTensor<half> sum(TPosition::VECOUT, 163840, 1024);
    Duplicate(middle, (half)1, 8192);
    Add(sum, low, high, 128);
    Mul(sum, low, middle, 128);
}
// 32 numbers in two lines, again, and the first one once more after its line has been dropped.
extern "C" __global__ __aicore__ void scalars(GM_ADDR x) {
    GlobalTensor<int32_t> gm;
    gm.SetGlobalBuffer((__gm__ int32_t*)x);
    for (uint32_t i = 0; i < 64; ++i) gm.GetValue(i % 32);
    DataCacheCleanAndInvalid<int32_t, CacheLine::SINGLE_CACHE_LINE, DcciDst::CACHELINE_OUT>(gm);
    gm.GetValue(0);
    gm.GetValue(16);
}
extern "C" __global__ __aicore__ void meet(GM_ADDR x) {
    Gm gm(x);
    const LocalTensor<half> ub(TPosition::VECIN, 0, kTile);
    for (int64_t t = 0; t <= GetBlockIdx(); ++t) DataCopy(ub, gm.x[t * kTile], kTile);
    SetFlag<HardEvent::MTE2_S>(0);
    WaitFlag<HardEvent::MTE2_S>(0);
    SyncAll();
    Duplicate(ub, (half)1, 128);
}
"""


@pytest.fixture(scope="module")
def launched() -> dict[str, Run]:
    made = kernels(TEXT, "timing_schedule")
    tile = np.zeros(8192, np.float16)
    return {
        "one": made.read[1](np.zeros(8 * 8192, np.float16), 8, 1),
        "all": made.read[48](np.zeros(48 * 64 * 8192, np.float16), 64, 1, time_only=True),
        "twice_the_cores": made.read[96](np.zeros(96 * 64 * 8192, np.float16), 64, 1, time_only=True),
        "again": made.read[1](np.zeros(8 * 8192, np.float16), 8, 2),
        "too_large": made.read[1](np.zeros(13000 * 8192, np.float16), 13000, 2, time_only=True),
        "bypassing": made.read_bypassing[1](np.zeros(8 * 8192, np.float16), 8),
        "same": made.read_same[8](tile.copy()),
        "use": made.load_then_use[1](tile.copy()),
        "vector": made.independent_and_dependent[1](tile.copy()),
        "apart": made.sources_far_apart[1](tile.copy()),
        "scalars": made.scalars[1](np.zeros(32, np.int32)),
        "meet": made.meet[4](np.zeros(4 * 8192, np.float16)),
    }


def rows(run: Run, op: str) -> np.ndarray:  # type: ignore[type-arg]
    return np.flatnonzero([run.trace.ops[i].name == op for i in run.trace.instrs["op"]])


def test_a_pipe_waits_for_the_flag_of_another(launched: dict[str, Run]) -> None:
    run = launched["use"]
    t = run.timeline
    (load, store), (first, second) = rows(run, "DataCopy"), rows(run, "Adds")
    (wait, _) = rows(run, "WaitFlag")
    assert t.start[first] >= t.end[load] and t.start[store] >= t.end[first]
    assert STALLS[t.stall[wait]] == "flag" and t.blocker[wait] == rows(run, "SetFlag")[0]
    assert t.start[second] >= t.end[store], "a barrier over all pipes waits for the store"


def test_independent_vector_instructions_follow_closely_and_dependent_ones_wait(launched: dict[str, Run]) -> None:
    t = launched["vector"].timeline
    first, second, dependent = range(len(t.start))[-3:]
    assert t.start[second] < t.end[first]
    assert t.start[dependent] >= t.end[second] and STALLS[t.stall[dependent]] == "data hazard"


def test_sources_that_lie_around_a_buffer_do_not_touch_it(launched: dict[str, Run]) -> None:
    run = launched["apart"]
    t, (fill,), (total,), (product,) = run.timeline, *(rows(run, op) for op in ("Duplicate", "Add", "Mul"))
    assert t.start[total] < t.end[fill], "the sum reads below and above what the fill writes"
    assert t.start[product] >= t.end[fill] and STALLS[t.stall[product]] == "data hazard"


def test_a_core_reads_slower_what_is_not_in_l2(launched: dict[str, Run]) -> None:
    run = launched["again"]
    chip, loads = run.soc, rows(run, "DataCopy")
    cost = chip.cost("gm_to_ub")
    first, second = (run.timeline.end[part[-1]] - run.timeline.end[part[0]] for part in (loads[:8], loads[8:]))
    assert first == pytest.approx(7 * 16384 / cost.cold_bytes_per_cycle, rel=0.02)
    assert second == pytest.approx(7 * 16384 / cost.bytes_per_cycle, rel=0.02)


def test_the_scalar_unit_waits_for_a_line_of_gm_once(launched: dict[str, Run]) -> None:
    run = launched["scalars"]
    cost, issue = run.soc.cost("scalar_load_gm"), run.soc.number("costs.issue.issue_cycles")
    spent = (run.timeline.end - run.timeline.start)[rows(run, "GlobalTensor.GetValue")]
    missed = np.flatnonzero(spent > issue + cost.fixed + cost.cold / 2)
    assert missed.tolist() == [0, 16, 64], "the first number of each line, and of the line that was dropped"
    assert spent[missed] == pytest.approx(issue + cost.fixed + cost.cold)


def test_one_core_gets_its_own_rate_and_all_cores_share_hbm(launched: dict[str, Run]) -> None:
    chip = launched["one"].soc
    one, every = launched["one"].timeline, launched["all"].timeline
    seconds = (one.end.max() - one.start.min()) / (chip.ghz * 1e9)
    assert 8 * 16384 / seconds == pytest.approx(52 * chip.ghz * 1e9, rel=0.25)
    rate = 48 * 64 * 16384 / (every.microseconds * 1e-6)
    assert 0.85 < rate / (chip.number("hbm.read_tbps") * 1e12) < 1.0


def test_blocks_beyond_the_cores_run_in_a_second_round(launched: dict[str, Run]) -> None:
    single, double = launched["all"].timeline, launched["twice_the_cores"].timeline
    assert double.cycles > 1.8 * single.cycles
    assert double.core_start[48:].min() >= double.core_end[:48].min()


def test_l2_keeps_what_fits_and_bypassing_keeps_nothing(launched: dict[str, Run]) -> None:
    nbytes = 8 * 16384
    assert launched["again"].timeline.traffic.hbm_read_bytes == nbytes
    assert launched["again"].timeline.traffic.read_hit_share == pytest.approx(0.5)
    assert launched["bypassing"].timeline.traffic.hbm_read_bytes == 2 * nbytes
    assert launched["too_large"].timeline.traffic.read_hit_share == 0.0, "a cyclic read of more than L2 never hits"


def test_a_warm_l2_saves_the_reads(launched: dict[str, Run]) -> None:
    run = launched["one"]
    warm = predict(run.trace, run.soc, l2="warm")
    assert warm.traffic.hbm_read_bytes == 0 and warm.cycles < run.timeline.cycles
    with pytest.raises(ValueError, match="lukewarm"):
        predict(run.trace, run.soc, l2="lukewarm")


def test_what_one_core_fetches_is_not_there_earlier_for_the_others(launched: dict[str, Run]) -> None:
    t = launched["same"].timeline
    ends = t.end[rows(launched["same"], "DataCopy")]
    latency = t.soc.number("gm_latency.miss_cycles")
    assert t.core_start[1] - t.core_start[0] < latency, "the second core starts before the first has its data"
    assert ends[0] <= ends[1:].min() and t.traffic.hbm_read_bytes == 16384


def test_all_readers_of_one_range_share_its_rate(launched: dict[str, Run]) -> None:
    run = launched["same"]
    slow = {**run.soc.table["gm_page"], "lines_per_cycle": 10 / 512}
    limited = predict(run.trace, soc.Soc("slow_pages", {**run.soc.table, "gm_page": slow}))
    spent = limited.end.max() - limited.start[rows(run, "DataCopy")].min()
    assert spent >= 8 * 16384 / 10 > 5 * (run.timeline.end.max() - run.timeline.start[rows(run, "DataCopy")].min())


def test_starting_up_is_time_of_the_scalar_unit(launched: dict[str, Run]) -> None:
    t = launched["same"].timeline
    assert t.pipe_us("S") >= t.soc.number("prologue.cycles") / (t.soc.ghz * 1e3)


def test_sync_all_holds_every_core_until_the_last(launched: dict[str, Run]) -> None:
    run = launched["meet"]
    t = run.timeline
    sets = [i for i, op in enumerate(run.trace.instrs["op"]) if run.trace.ops[op].kind == "cross_set"]
    after = rows(run, "Duplicate")
    assert len(sets) == 4 and len(after) == 4
    assert t.start[after].min() >= t.end[sets].max()
    assert t.released_waits == 0


def test_prediction_is_deterministic_and_consistent(launched: dict[str, Run]) -> None:
    run = launched["all"]
    first, second = predict(run.trace, run.soc), predict(run.trace, run.soc)
    assert np.array_equal(first.start, second.start) and np.array_equal(first.end, second.end)
    assert (first.end >= first.start).all() and first.cycles == first.core_end.max()
    assert 0.0 <= first.assumed_share <= 1.0
    for pipe in ("S", "V", "MTE2", "MTE3"):
        assert 0.0 <= first.busy(pipe) <= 1.0
    assert first.busy("MTE2") > 0.9 and first.pipe_us("MTE2") <= first.core_us.max()
    assert not first.start.flags.writeable


def test_the_critical_path_leads_back_to_the_launch(launched: dict[str, Run]) -> None:
    t = launched["use"].timeline
    path = t.critical_path()
    assert t.end[path[0]] == t.end.max()
    assert (np.diff(t.end[path]) <= 0).all()
    assert t.start[path[-1]] <= t.core_start[0] + t.launch_cycles + 100


def test_a_missing_price_is_an_error_that_names_the_row(launched: dict[str, Run]) -> None:
    run = launched["use"]
    costs = {
        name: {**group, "rows": {n: r for n, r in group.get("rows", {}).items() if n != "vadds"}}
        for name, group in run.soc.table["costs"].items()
    }
    costs["issue"] = run.soc.table["costs"]["issue"]
    chip = soc.Soc("unpriced", {**run.soc.table, "costs": costs})
    with pytest.raises(BadChip, match="vadds"):
        predict(run.trace, chip)


def test_other_chips_give_other_times(launched: dict[str, Run]) -> None:
    trace = launched["all"].trace
    b1, b4 = (
        predict(trace, soc.load("ascend910b1")),
        predict(replace(trace, soc="ascend910b4"), soc.load("ascend910b4")),
    )
    assert 1.7 < b4.microseconds / b1.microseconds < 2.4, "half the HBM rate"


def test_the_assumed_share_counts_what_rests_on_assumptions(launched: dict[str, Run]) -> None:
    copies, meeting = launched["all"], launched["meet"]
    assert copies.timeline.assumed_share < 0.01, "measured on this chip"
    guessed = soc.load("ascend910b4").replaced({})
    guessed.table["hbm"]["kind"] = "assumed"
    assert predict(copies.trace, guessed).assumed_share > 0.9, "copies of both turns of the blocks rest on HBM"
    latency = meeting.soc.number("flags.cross_core_cycles")
    assert meeting.timeline.assumed_share >= latency / meeting.timeline.cycles, (
        "cores meet through a flag of assumed latency"
    )
