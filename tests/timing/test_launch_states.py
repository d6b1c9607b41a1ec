"""What a launch finds: instructions in the core's cache or not, parts of one line that many cores read, a scalar used at once."""

from __future__ import annotations

import numpy as np
import pytest

from toprope import soc
from toprope.kernel import Run
from toprope.timing import predict
from toprope.validation import experiment


def launched(name: str) -> tuple[experiment.Published, Run]:
    (row,) = [row for row in experiment.published() if f"{row.kernel}-{row.id}" == name]
    return row, experiment.launch(row)


def test_a_long_kernel_waits_for_its_instructions_and_a_short_one_does_not() -> None:
    _, long = launched("polar-p1")
    _, short = launched("tiles-re1")
    lines = soc.load("ascend910b1").number("code.line_cycles") / (long.soc.ghz * 1e3)
    for run, fewest, most in ((long, 20, 120), (short, 0, 12)):
        warm = predict(run.trace, run.soc, l2="warm").microseconds
        called = predict(run.trace, run.soc, l2="called").microseconds
        assert fewest * lines <= called - warm <= most * lines


def test_instructions_are_waited_for_once() -> None:
    """Twice the tiles of one loop: no more lines of instructions."""
    times = {}
    for name in ("tiles-mu32", "tiles-mu64"):
        _, run = launched(name)
        times[name] = [predict(run.trace, run.soc, l2=state).microseconds for state in ("called", "warm")]
    extra = [called - warm for called, warm in times.values()]
    assert extra[0] == pytest.approx(extra[1], abs=0.3)


def test_a_launch_state_that_does_not_exist_is_refused() -> None:
    _, run = launched("tiles-re1")
    with pytest.raises(ValueError, match="called"):
        predict(run.trace, run.soc, l2="hot")


def test_parts_of_one_line_read_by_all_cores_wait_for_each_other() -> None:
    """256, 512 and 1024 rows of two bytes take the same time: 256 of them lie in each line."""
    first, last = (launched(f"broadcast_rows-ex{n}")[1] for n in (1, 2))
    one, two = (predict(run.trace, run.soc, l2="warm").microseconds for run in (first, last))
    assert two < 1.2 * one
    free = first.soc.replaced({"gm_part_block.interval_cycles": 0.0})
    assert predict(first.trace, free, l2="warm").microseconds < 0.6 * one


def test_a_scalar_that_is_used_at_once_costs_its_latency() -> None:
    _, run = launched("broadcast_rows-di1")
    scalar = [
        predict(run.trace, run.soc.replaced({"scalar_use.cycles": c}), l2="warm").pipe_us("S") for c in (0.0, 100.0)
    ]
    rows = 3072 / len(run.trace.cores)
    assert scalar[1] - scalar[0] == pytest.approx(rows * 100 / (run.soc.ghz * 1e3), rel=0.05)


def test_a_multiply_add_pays_for_three_reads_of_one_bank_group_twice() -> None:
    cost = soc.load("ascend910b1").cost("vmla")
    assert cost.per_work_of("float32", "float32") == 2.0  # the vendor's table
    assert np.isclose(3 * cost.bank_passes, 6.0)  # an instruction table of one core
