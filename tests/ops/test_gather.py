"""gather: a row that a batch asks for again is not loaded again, and the rules that its host side checks."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from toprope import ops
from toprope.errors import TopropeError

TABLE = np.zeros((9, 4), np.float32)


def copies(call: Any) -> int:
    trace = call.run.trace
    return sum(trace.ops[op].name == "DataCopyPad" for op in trace.instrs["op"])


@pytest.mark.parametrize("bytes_of_row", [64, 77])
def test_a_hot_row_is_loaded_once_a_batch(bytes_of_row: int) -> None:
    random = np.random.default_rng(0)
    table = random.integers(0, 256, (9000, bytes_of_row), np.uint8).view(np.int8)
    indices = random.integers(0, 9000, 600).astype(np.int32)
    indices[random.random(600) < 0.7] = 5
    call = ops.operator("gather").run(table, indices)
    assert not [f for f in call.findings if f.severity == "error"]
    assert (call.outputs["y"] == table[indices]).all()
    # the other two of a core: its indices, and the rows on their way out
    assert copies(call) - 2 * call.tiling.block_dim < 0.4 * indices.size


def test_one_index_for_all_is_one_load_a_core() -> None:
    call = ops.operator("gather").run(np.zeros((9000, 64), np.int8), np.full(600, 7, np.int32))
    assert copies(call) == 3 * call.tiling.block_dim


@pytest.mark.parametrize(
    ("table", "indices", "rule"),
    [
        (TABLE, np.zeros(3, np.int64), "indices DT_INT64"),
        (TABLE.astype(np.complex64), np.zeros(3, np.int32), "table DT_COMPLEX64"),
        (TABLE.sum(), np.zeros(3, np.int32), "scalar and has no rows"),
    ],
)
@pytest.mark.parametrize("version", ["optimised", "naive"])
def test_a_broken_rule_is_named(table: Any, indices: Any, rule: str, version: str) -> None:
    with pytest.raises(TopropeError) as refused:
        ops.operator("gather", version).run(table, indices)
    assert rule in str(refused.value)
