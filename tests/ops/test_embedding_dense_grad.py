"""embedding_dense_grad: the rules it checks, no lost update on a row that all cores add to, and sums that do not depend on which core is first."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from toprope import ops, soc
from toprope.errors import BadArgument
from toprope.kernel import load

NAME = "embedding_dense_grad"
CHIP = soc.load("ascend910b1")
HOST = ops.host(NAME)
GRAD, INDICES = np.zeros((6, 8), np.float32), np.array([3, 1, 1, 0, 2, 3], np.int32)
REFUSED = [
    ((GRAD.astype(np.float64), INDICES), {}, "float32, float16, bfloat16"),
    ((GRAD, INDICES.astype(np.int64)), {}, "int32"),
    ((GRAD, INDICES[:5]), {}, "a row for each index"),
    ((GRAD, INDICES, np.arange(6, dtype=np.int32)), {}, "argsort"),
    ((GRAD, np.sort(INDICES), np.arange(5, dtype=np.int32)), {}, "int32 of shape (6,)"),
    ((GRAD, INDICES), {"num_weights": 0}, "at least 1"),
    ((GRAD, INDICES), {"padding_idx": 4}, "0 to 3"),
    ((GRAD, INDICES), {"scale_grad_by_freq": 2}, "0 or 1"),
]


@pytest.mark.parametrize(("inputs", "attributes", "rule"), REFUSED)
def test_a_broken_rule_is_named_at_tiling_time(inputs: tuple[Any, ...], attributes: dict[str, Any], rule: str) -> None:
    with pytest.raises(BadArgument) as refused:
        HOST.plan("optimised", CHIP, *inputs, **{"num_weights": 4, **attributes})
    assert rule in str(refused.value)


@pytest.mark.parametrize("in_order", [False, True])
@pytest.mark.parametrize("spread", [1, 3])
def test_no_update_of_a_hot_row_is_lost(in_order: bool, spread: int) -> None:
    random = np.random.default_rng(0)
    indices = np.sort(random.integers(0, spread, 2000)).astype(np.int32)
    grad = random.integers(-8, 9, (2000, 24)).astype(
        np.float32
    )  # small whole numbers: their sums are exact in any order
    positions = np.arange(2000, dtype=np.int32) if in_order else None
    plan = HOST.plan("optimised", CHIP, grad, indices, positions, num_weights=spread)
    assert plan.blocks == 48
    plan.launch(NAME)
    expected = np.zeros((spread, 24))
    np.add.at(expected, indices, grad.astype(np.float64))
    assert (plan.outputs[0] == expected).all()


@pytest.mark.parametrize("in_order", [False, True])
def test_only_atomic_sums_depend_on_which_core_is_first(in_order: bool) -> None:
    random = np.random.default_rng(1)
    indices = np.sort(random.integers(0, 3, 700)).astype(np.int32)
    grad = random.normal(0, 1, (700, 16)).astype(np.float32)
    positions = np.arange(700, dtype=np.int32) if in_order else None
    plan = HOST.plan("optimised", CHIP, grad, indices, positions, num_weights=3)
    kernel = load(ops.FOLDER / NAME / "op_kernel" / f"{NAME}.cpp", defines=plan.defines)[plan.entry]
    run = kernel[plan.blocks](*plan.arguments, soc=CHIP, tiling_key=plan.tiling_key, explore=True)
    codes = {f.code for f in run.findings if f.severity != "advice"}
    assert codes == (set() if in_order else {"core-order-changes-result"})
