"""gather: a row that a batch asks for again is not loaded again."""

from __future__ import annotations

import numpy as np
import pytest

from toprope import ops, soc

CHIP = soc.load("ascend910b1")


@pytest.mark.parametrize("bytes_of_row", [64, 77])
def test_a_hot_row_is_loaded_once_a_batch(bytes_of_row: int) -> None:
    random = np.random.default_rng(0)
    table = random.integers(0, 256, (9000, bytes_of_row), np.uint8).view(np.int8)
    indices = random.integers(0, 9000, 600).astype(np.int32)
    indices[random.random(600) < 0.7] = 5
    plan = ops.host("gather").plan("optimised", CHIP, table, indices)
    run = plan.launch("gather")
    assert not [f for f in run.findings if f.severity == "error"]
    assert (plan.outputs[0] == table[indices]).all()
    copies = sum(run.trace.ops[op].name == "DataCopyPad" for op in run.trace.instrs["op"])
    assert (
        copies - 2 * plan.blocks < 0.4 * indices.size
    )  # the other two of a core: its indices, and the rows on their way out


def test_one_index_for_all_is_one_load_a_core() -> None:
    plan = ops.host("gather").plan("optimised", CHIP, np.zeros((9000, 64), np.int8), np.full(600, 7, np.int32))
    run = plan.launch("gather")
    assert sum(run.trace.ops[op].name == "DataCopyPad" for op in run.trace.instrs["op"]) == 3 * plan.blocks
