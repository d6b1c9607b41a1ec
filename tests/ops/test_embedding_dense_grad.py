"""embedding_dense_grad: the rules it checks, no lost update on a row that all cores add to, and sums that do not depend on which core is first."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from toprope import ops
from toprope.errors import TopropeError

NAME = "embedding_dense_grad"
GRAD, INDICES = np.zeros((6, 8), np.float32), np.array([3, 1, 1, 0, 2, 3], np.int32)
REFUSED = [
    ((GRAD.astype(np.float64), INDICES), {}, "grad DT_DOUBLE"),
    ((GRAD, INDICES.astype(np.int64)), {}, "indices DT_INT64"),
    ((GRAD, INDICES[:5]), {}, "a row for each index"),
    ((GRAD, INDICES, np.arange(6, dtype=np.int32)), {}, "argsort"),
    ((GRAD, np.sort(INDICES), np.arange(5, dtype=np.int32)), {}, "int32 of shape (6,)"),
    ((GRAD, INDICES), {"num_weights": 0}, "at least 1"),
    ((GRAD, INDICES), {"padding_idx": 4}, "0 to 3"),
    ((GRAD, INDICES), {"scale_grad_by_freq": 2}, "0 or 1"),
    ((GRAD, INDICES), {"deterministic": 2}, "0 or 1"),
    ((GRAD, INDICES), {"deterministic": 1, "num_weights": (1 << 31) - 1}, "sort before the call"),
]
WAYS = ["atomic", "positions", "sort"]


def given(way: str, indices: np.ndarray[Any, Any]) -> tuple[Any, ...]:
    """(positions, attributes) of a call that takes indices, in order, by one of the three ways."""
    positions = np.arange(indices.size, dtype=np.int32) if way == "positions" else None
    return positions, {"deterministic": int(way == "sort")}


@pytest.mark.parametrize(("inputs", "attributes", "rule"), REFUSED)
def test_a_broken_rule_is_named_at_tiling_time(inputs: tuple[Any, ...], attributes: dict[str, Any], rule: str) -> None:
    with pytest.raises(TopropeError) as refused:
        shapes = [x.shape for x in inputs]
        dtypes = [x.dtype.name for x in inputs]
        attributes = {"num_weights": 4, **attributes}
        ops.operator(NAME).tiling(shapes=shapes, dtypes=dtypes, values={"indices": inputs[1]}, **attributes)
    assert rule in str(refused.value)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("spread", [1, 3])
def test_no_update_of_a_hot_row_is_lost(way: str, spread: int) -> None:
    random = np.random.default_rng(0)
    indices = np.sort(random.integers(0, spread, 2000)).astype(np.int32)
    # small whole numbers: their sums are exact in any order
    grad = random.integers(-8, 9, (2000, 24)).astype(np.float32)
    positions, attributes = given(way, indices)
    call = ops.operator(NAME).run(grad, indices, positions, num_weights=spread, **attributes)
    assert call.tiling.block_dim == 48
    expected = np.zeros((spread, 24))
    np.add.at(expected, indices, grad.astype(np.float64))
    assert (call.outputs["y"] == expected).all()


@pytest.mark.parametrize("way", WAYS)
def test_only_atomic_sums_depend_on_which_core_is_first(way: str) -> None:
    random = np.random.default_rng(1)
    indices = np.sort(random.integers(0, 3, 700)).astype(np.int32)
    grad = random.normal(0, 1, (700, 16)).astype(np.float32)
    positions, attributes = given(way, indices)
    operator = ops.operator(NAME)
    call = operator.run(grad, indices, positions, num_weights=3, options={"explore": True}, **attributes)
    codes = {f.code for f in call.findings if f.severity != "advice"}
    assert codes == ({"core-order-changes-result"} if way == "atomic" else set())


@pytest.mark.parametrize("run_length", [64, 1056])
def test_the_sort_of_many_runs_is_that_of_a_stable_sort(run_length: int) -> None:
    random = np.random.default_rng(2)
    count, rows = 10007, 900
    indices = (rows * random.random(count) ** 3).astype(np.int32)
    grad = random.normal(0, 1, (count, 8)).astype(np.float32)
    operator = ops.operator(NAME)
    places = np.argsort(indices, kind="stable").astype(np.int32)
    shapes = [grad.shape, indices.shape, None]
    sorts = operator.tiling(
        shapes=shapes, dtypes=["float32", "int32", "int32"], num_weights=rows, deterministic=1, soc="ascend910b1"
    )
    shorter = operator.changed(sorts, runLength=run_length)
    here = operator.run(grad, indices, None, tiling=shorter, num_weights=rows, deterministic=1)
    before = operator.run(grad, indices[places], places, num_weights=rows)
    assert not [f for f in here.findings if f.severity == "error"]
    assert (here.outputs["y"] == before.outputs["y"]).all()
