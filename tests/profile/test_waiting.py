"""Idle time by reason: nothing is lost, and the reasons are those that the kernel was written with."""

from __future__ import annotations

import pytest

from tests.profile.test_diagnosis import run
from toprope.profile.waiting import BARRIER, OTHER_CORE, START, idle
from toprope.report import summary
from toprope.validation import experiment

pytestmark = pytest.mark.compiler


@pytest.mark.parametrize("name", ["good", "single", "barrier", "scalars"])
def test_busy_and_idle_time_of_a_pipe_are_all_its_time(name: str) -> None:
    found = run(name, blocks=8)
    for pipe in ("V", "MTE2", "MTE3"):
        assert found.timeline.busy(pipe) + sum(idle(found, pipe).values()) == pytest.approx(1.0, abs=1e-3)


def test_a_single_buffer_makes_the_vector_unit_wait_for_its_copies() -> None:
    reasons = idle(run("single", blocks=8), "V")
    assert next(iter(reasons)) == "MTE2" and reasons["MTE2"] > 0.2 and START in reasons


def test_barriers_are_named() -> None:
    assert idle(run("barrier", blocks=8), "MTE2").get(BARRIER, 0.0) > 0.1
    assert BARRIER not in idle(run("good", blocks=8), "MTE2")


def test_a_mixed_kernel_waits_for_other_cores_and_its_lines_add_up_to_its_pipes() -> None:
    (row,) = (r for r in experiment.published() if (r.kernel, r.id) == ("flash_attention", "f2"))
    found = experiment.launch(row)
    assert idle(found, "V")[OTHER_CORE] > 0.02
    of_line = sum(line.microseconds for line in summary.line_costs(found) if line.pipe == "V")
    assert of_line == pytest.approx(found.timeline.pipe_us("V"), rel=0.02)
    assert "waits for" in summary.of(found, {}).bottleneck or "bound by" in summary.of(found, {}).bottleneck
