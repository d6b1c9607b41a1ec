"""Which bytes of the on-chip memories are in use when, and the check list."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import toprope
from tests.profile.test_diagnosis import run as variant
from toprope.kernel import Run
from toprope.profile import checklist, diagnose, memory_use

EXAMPLES = Path(__file__).parent.parent.parent / "examples"


@pytest.fixture(scope="module")
def add() -> Run:
    x, y, z = (np.zeros(1 << 15, np.float16) for _ in range(3))
    return toprope.load(EXAMPLES / "01_add" / "add_custom.cpp").add_custom[4](x, y, z, 1 << 15)


@pytest.fixture(scope="module")
def product() -> Run:
    a, b, c = np.zeros((128, 128), np.float16), np.zeros((128, 256), np.float16), np.zeros((128, 256), np.float32)
    return toprope.load(EXAMPLES / "07_matmul" / "matmul_custom.cpp").matmul_custom[1](a, b, c, 128, 128, 256)


def test_queues_have_names_places_and_lines(add: Run) -> None:
    use = memory_use(add, 0)
    assert [q.name for q in use.queues] == ["inQueueX", "inQueueY", "outQueueZ"]
    assert [q.buffers for q in use.queues] == [
        ((0, 4096), (4096, 4096)),
        ((8192, 4096), (12288, 4096)),
        ((16384, 4096), (20480, 4096)),
    ]
    # A core copies 8192 elements in, adds them once, copies them out.
    lines = [(line.op, line.read_bytes, line.written_bytes, line.count) for line in use.queues[0].lines]
    assert lines == [("DataCopy", 0, 16384, 4), ("Add", 16384, 0, 4)]
    assert all(0 < q.busy <= 1 for q in use.queues)


def test_the_curve_is_within_what_the_queues_own_and_ends_empty(add: Run) -> None:
    use = memory_use(add, 0)
    times, values = use.curves["ub"]
    assert np.all(np.diff(times) > 0) and values.min() >= 0 and values[-1] == 0
    assert 3 * 4096 <= use.peak_bytes("ub") <= use.reserved_bytes("ub") == 6 * 4096
    assert times[0] >= add.timeline.core_start[0] and times[-1] <= add.timeline.core_end[0]
    # The area under the curve is the sum of the rounds: recomputed from the instructions of one buffer.
    first = [
        i
        for i in range(int(add.trace.core_begin[1]))
        if add.trace.ops[add.trace.instrs["op"][i]].name in ("DataCopy", "Add")
    ]
    assert times[0] == min(add.timeline.start[i] for i in first)


def test_copies_that_change_the_layout_count_all_their_bytes(product: Run) -> None:
    use = memory_use(product, 0)
    by_name = {q.name: q for q in use.queues}
    (a_in,) = (line for line in by_name["inA1"].lines if line.written_bytes)
    (b_in,) = (line for line in by_name["inB1"].lines if line.written_bytes)
    assert (a_in.written_bytes, b_in.written_bytes) == (128 * 128 * 2, 128 * 256 * 2)
    assert set(use.curves) == {"l1", "l0a", "l0b", "l0c"}
    assert use.peak_bytes("l0c") == 128 * 256 * 4


def states(found: Run) -> dict[str, str]:
    return {c.name: c.state for c in checklist(found, diagnose(found))}


@pytest.mark.parametrize(
    "bad, item",
    [
        ("single", "copies overlap work (double buffers)"),
        ("conflict", "operands lie in different UB banks"),
        ("barrier", "no barrier stops every pipe"),
        ("scalars", "no element goes through the scalar unit"),
    ],
)
def test_each_mistake_opens_its_item(bad: str, item: str) -> None:
    assert states(variant("good"))[item] == "ok"
    found = variant(bad)
    rows = {c.name: c for c in checklist(found, diagnose(found))}
    assert rows[item].state == "not" and "%" in rows[item].figures


def test_figures_of_the_list(add: Run, product: Run) -> None:
    rows = {c.name: c for c in checklist(add, diagnose(add))}
    assert (
        rows["all cores have work"].state == "not"
        and "4 blocks in 1 round on 48 cores: 8%" in rows["all cores have work"].figures
    )
    assert rows["copies are large"].state == "not" and "4.0 KB" in rows["copies are large"].figures
    assert rows["GM addresses are aligned"].state == "ok" and "48 copies" in rows["GM addresses are aligned"].figures
    assert "1.0 times" in rows["inputs are read once, or found in L2"].figures
    assert (
        states(product)["vector instructions are long"] == "n/a"
        and states(product)["the cores work equally long"] == "n/a"
    )
