"""layer_norm beyond its cases: rules named at tiling time, every width fits UB, and what its README says about precision."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from toprope import ops, soc
from toprope.errors import BadArgument

CHIP = soc.load("ascend910b1")
X, W = np.zeros((4, 8), np.float32), np.ones(8, np.float32)


@pytest.mark.parametrize(
    ("inputs", "epsilon", "rule"),
    [
        ((X.astype(np.int32), W, W), 1e-5, "int32"),
        ((X, W.astype(np.float16), W), 1e-5, "same element type"),
        ((X, W[:4], W[:4]), 1e-5, "last axes of x"),
        ((X, W, np.ones((4, 8), np.float32)), 1e-5, "same shape"),
        ((X, W, W), 0.0, "positive"),
    ],
)
def test_a_broken_rule_is_named(inputs: tuple[Any, ...], epsilon: float, rule: str) -> None:
    with pytest.raises(BadArgument) as refused:
        ops.host("layer_norm").plan("optimised", CHIP, *inputs, epsilon=epsilon)
    assert rule in str(refused.value)


@pytest.mark.parametrize("columns", [1, 56, 64, 300, 1300, 8192, 9000, 40000])
def test_the_tiling_of_every_width_fits(columns: int) -> None:
    x, w = np.zeros((48 * (1 + 20000 // columns), columns), np.float32), np.ones(columns, np.float32)
    run = ops.host("layer_norm").plan("optimised", CHIP, x, w, w).launch("layer_norm", soc=CHIP, time_only=True)
    assert run.timeline.microseconds > 0
    assert not [f for f in run.findings if f.severity == "error"]


def test_a_constant_row_gives_exactly_beta() -> None:
    x = np.full((8, 1000), 3.0, np.float32)
    gamma, beta = np.full(1000, 7.0, np.float32), np.linspace(-1, 1, 1000, dtype=np.float32)
    plan = ops.host("layer_norm").plan("optimised", CHIP, x, gamma, beta)
    plan.launch("layer_norm")
    y, mean, _ = plan.outputs
    assert np.array_equal(y, np.broadcast_to(beta, y.shape))
    assert np.array_equal(mean, np.full((8, 1), 3.0, np.float32))
