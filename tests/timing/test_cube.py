"""Cube timing, on the matrix product that validation uses; the product itself must be right, or its time means nothing."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import toprope
from toprope.kernel import Run
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
    assert durations[0] == pytest.approx(ideal + 61)
    assert set(np.round(durations - ideal)) <= {9.0, 61.0}


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
    issue = run.soc.number("costs.issue.issue_cycles")
    assert spent[names[begin:end] == "matmul_step"] == pytest.approx(95 + 121 + issue)
    assert spent[names[begin:end] == "matmul_load"] == pytest.approx(90 + issue)


def test_the_store_with_the_unit_flag_ends_after_the_product_and_starts_before_its_end() -> None:
    run, _ = matmul(buffers=2, unit_flag=1)
    products, stores = starts_and_ends(run, "Mmad"), starts_and_ends(run, "Fixpipe")
    last_of_first_tile = 384 // 64 - 1
    assert stores[0][0] < products[1][last_of_first_tile] <= stores[1][0]
    assert products[1][last_of_first_tile + 1] >= stores[1][0], "the next tile cannot overtake the store"


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
