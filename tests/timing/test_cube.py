"""Cube timing, on the matrix product that validation uses; the product itself must be right, or its time means nothing."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import toprope
from tests.ascendc.harness import kernels
from toprope.kernel import Run
from toprope.trace import PIPES
from toprope.validation import experiment

pytestmark = pytest.mark.compiler

TILING = {
    "BASE_M": 128,
    "BASE_N": 256,
    "BASE_K": 64,
    "STEP_KA": 4,
    "STEP_KB": 2,
    "CORES_M": 2,
    "SINGLE_M": 128,
    "SINGLE_N": 300,
}

TEXT = """
// A 7x7 window over a map of 64x64 with 16 channels: 128 places, tap by tap.
extern "C" __global__ __aicore__ void image_windows(GM_ADDR) {
    KERNEL_TASK_TYPE_DEFAULT(KERNEL_TYPE_AIC_ONLY);
    const LocalTensor<half> map(TPosition::A1, 0, 64 * 64 * 16), windows(TPosition::A2, 0, 128 * 256);
    LoadData3DParamsV2<half> p;
    p.l1H = p.l1W = 64;
    p.channelSize = 16;
    p.filterH = p.filterW = 7;
    p.strideH = p.strideW = 1;
    p.dilationFilterH = p.dilationFilterW = 1;
    p.mExtension = 128;
    p.kExtension = 16;
    for (uint32_t k = 0; k < 16; ++k) {
        p.kStartPt = 16 * k;
        LoadData(windows[k * 128 * 16], map, p);
    }
}
// 64 x 64 sums as they are, as halves, and as bytes.
extern "C" __global__ __aicore__ void out_of_l0c(GM_ADDR) {
    KERNEL_TASK_TYPE_DEFAULT(KERNEL_TYPE_AIC_ONLY);
    const LocalTensor<float> sums(TPosition::CO1, 0, 64 * 64);
    FixpipeParamsV220 p(64, 64, 64, 64 * 16 * sizeof(half) / 32, false);
    p.quantPre = QuantMode_t::F322F16;
    Fixpipe<half, float, CFG_NZ>(LocalTensor<half>(TPosition::A1, 0, 64 * 64), sums, p);
    p.quantPre = QuantMode_t::QF322B8_PRE;
    p.dstStride = 64 * 32 / 32;
    Fixpipe<int8_t, float, CFG_NZ>(LocalTensor<int8_t>(TPosition::A1, 0, 64 * 64), sums, p);
}
"""


@pytest.fixture(scope="module")
def launched() -> dict[str, Run]:
    made, unused = kernels(TEXT, "timing_cube"), np.zeros(16, np.float16)
    return {"windows": made.image_windows[1](unused, time_only=True), "l0c": made.out_of_l0c[1](unused, time_only=True)}


def matmul(*, buffers: int, unit_flag: int, k: int = 384) -> tuple[Run, float]:
    file = Path(experiment.HERE) / "kernels" / "matmul.cpp"
    defines = {**TILING, "L1_BUFFERS": buffers, "UNIT_FLAG": unit_flag}
    kernel = toprope.load(file, defines=tuple(f"{name}={value}" for name, value in defines.items())).matmul
    random = np.random.default_rng(1)
    a, b = random.standard_normal((256, k)).astype(np.float16), random.standard_normal((k, 600)).astype(np.float16)
    c = np.zeros((256, 600), np.float16)
    run = kernel[4](a, b, c, 256, 600, k)
    error = np.abs(c - a.astype(np.float32) @ b.astype(np.float32)).max()
    return run, float(error)


def starts_and_ends(run: Run, op: str, core: int = 0) -> tuple[np.ndarray, np.ndarray]:  # type: ignore[type-arg]
    begin, end = run.trace.core_begin[core : core + 2]
    chosen = [i for i in range(begin, end) if run.trace.ops[run.trace.instrs["op"][i]].name == op]
    return run.timeline.start[chosen], run.timeline.end[chosen]


@pytest.mark.parametrize("unit_flag", [0, 1])
@pytest.mark.parametrize("buffers", [1, 2])
def test_the_validation_kernel_multiplies(buffers: int, unit_flag: int) -> None:
    run, error = matmul(buffers=buffers, unit_flag=unit_flag)
    assert error < 0.1 and not run.trace.reports
    assert run.timeline.released_waits == 0


def test_a_product_costs_its_steps_and_more_when_the_cube_stood_idle() -> None:
    run, _ = matmul(buffers=2, unit_flag=0)
    starts, ends = starts_and_ends(run, "Mmad")
    ideal = 8 * 4 * 16
    durations = (ends - starts)[:6]
    cost = run.soc.cost("mmad")
    assert durations[0] == pytest.approx(ideal + cost.fixed + cost.cold)
    assert set(np.round(durations - ideal, 3)) <= {round(cost.fixed, 3), round(cost.fixed + cost.cold, 3)}


def test_two_buffers_hide_the_loads_and_the_unit_flag_hides_the_store() -> None:
    single, double = matmul(buffers=1, unit_flag=0)[0], matmul(buffers=2, unit_flag=0)[0]
    unit = matmul(buffers=2, unit_flag=1)[0]
    assert double.timeline.cycles < 0.95 * single.timeline.cycles
    assert unit.timeline.cycles < double.timeline.cycles


def test_loads_into_l1_slow_the_copies_out_of_it() -> None:
    single, double = matmul(buffers=1, unit_flag=0)[0], matmul(buffers=2, unit_flag=0)[0]
    alone, beside = ((e - s).max() for s, e in (starts_and_ends(run, "LoadData") for run in (single, double)))
    assert beside == pytest.approx(alone * single.soc.number("l1_sharing.delay"))


def test_the_library_spends_scalar_time_on_each_step_and_load() -> None:
    (row,) = (r for r in experiment.published() if (r.kernel, r.id) == ("matmul_object", "g6"))
    run = experiment.launch(row)
    names = np.array([op.cost for op in run.trace.ops])[run.trace.instrs["op"]]
    begin, end = run.trace.core_begin[:2]
    steps, loads = ((names[begin:end] == name).sum() for name in ("matmul_step", "matmul_load"))
    assert (steps, loads) == (5, 6), "five tiles of one step; A stays in L1"
    spent = (run.timeline.end - run.timeline.start)[begin:end]
    issue, step = run.soc.number("costs.issue.issue_cycles"), run.soc.cost("matmul_step")
    assert spent[names[begin:end] == "matmul_step"] == pytest.approx(
        step.fixed + (step.per_work or {})["any"] + issue, rel=1e-5
    )
    assert spent[names[begin:end] == "matmul_load"] == pytest.approx(
        run.soc.cost("matmul_load").fixed + issue, rel=1e-5
    )


def test_the_store_with_the_unit_flag_ends_after_the_product_and_starts_before_its_end() -> None:
    run, _ = matmul(buffers=2, unit_flag=1)
    products, stores = starts_and_ends(run, "Mmad"), starts_and_ends(run, "Fixpipe")
    last_of_first_tile = 384 // 64 - 1
    assert stores[0][0] < products[1][last_of_first_tile] <= stores[1][0]
    assert products[1][last_of_first_tile + 1] >= stores[1][0], "the next tile cannot overtake the store"


def test_a_store_that_waits_for_the_unit_flag_holds_its_pipe() -> None:
    held, flags = matmul(buffers=2, unit_flag=1)[0], matmul(buffers=2, unit_flag=0)[0]

    def busy_and_moving(run: Run) -> tuple[float, float]:
        starts, ends = starts_and_ends(run, "Fixpipe")
        return run.timeline.core_busy[0, PIPES.index("FIX")], float((ends - starts).sum())

    busy, moving = busy_and_moving(flags)
    assert busy == pytest.approx(moving), "without it the store is sent when the product is done"
    busy, moving = busy_and_moving(held)
    assert busy > 2 * moving, "with it the store is sent as early as the queues allow"


@pytest.mark.parametrize("k", [384, 128])
def test_the_validation_kernel_multiplies_with_b_transposed(k: int) -> None:
    file = Path(experiment.HERE) / "kernels" / "matmul.cpp"
    defines = {**TILING, "L1_BUFFERS": 2, "UNIT_FLAG": 1, "TRANS_B": 1}
    kernel = toprope.load(file, defines=tuple(f"{name}={value}" for name, value in defines.items())).matmul
    random = np.random.default_rng(2)
    a, b = random.standard_normal((256, k)).astype(np.float16), random.standard_normal((600, k)).astype(np.float16)
    c = np.zeros((256, 600), np.float16)
    run = kernel[4](a, b, c, 256, 600, k)
    assert np.abs(c - a.astype(np.float32) @ b.astype(np.float32).T).max() < 0.1
    assert not [f for f in run.findings if f.severity == "error"]


def test_image_windows_cost_what_is_written_and_not_the_map_they_come_from(launched: dict[str, Run]) -> None:
    run = launched["windows"]
    starts, ends = starts_and_ends(run, "LoadData")
    cost = run.soc.cost("l1_to_l0a_3d")
    assert len(starts) == 16 and ends - starts == pytest.approx(cost.fixed + 128 * 16 * 2 / cost.bytes_per_cycle)


def test_the_way_out_of_l0c_takes_64_elements_a_cycle_however_narrow_they_become(launched: dict[str, Run]) -> None:
    run = launched["l0c"]
    starts, ends = starts_and_ends(run, "Fixpipe")
    assert len(starts) == 2 and ends - starts == pytest.approx(run.soc.cost("l0c_to_l1").fixed + 64 * 64 / 64)
