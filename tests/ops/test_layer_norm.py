"""layer_norm beyond its cases: rules named at tiling time, every width fits UB, and what its README says about precision."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from toprope import ops
from toprope.errors import BadArgument
from toprope.project.errors import InferFailed, TilingFailed

X, W = np.zeros((4, 8), np.float32), np.ones(8, np.float32)


@pytest.mark.parametrize(
    ("inputs", "epsilon", "rule"),
    [
        ((X.astype(np.int32), W, W), 1e-5, "x DT_INT32"),
        ((X, W.astype(np.float16), W), 1e-5, "same element type"),
        ((X, W[:4], W[:4]), 1e-5, "last axes of x"),
        ((X, W, np.ones((4, 8), np.float32)), 1e-5, "same shape"),
        ((X, W, W), 0.0, "positive"),
    ],
)
def test_a_broken_rule_is_named(inputs: tuple[Any, ...], epsilon: float, rule: str) -> None:
    with pytest.raises((BadArgument, InferFailed, TilingFailed)) as refused:
        ops.operator("layer_norm")(*inputs, epsilon=epsilon)
    assert rule in str(refused.value)


@pytest.mark.parametrize("columns", [1, 56, 64, 300, 1300, 8192, 9000, 40000])
def test_the_tiling_of_every_width_fits(columns: int) -> None:
    x, w = np.zeros((48 * (1 + 20000 // columns), columns), np.float32), np.ones(columns, np.float32)
    run = ops.operator("layer_norm").run(x, w, w, options={"time_only": True})
    assert run.time_us > 0
    assert not [f for f in run.findings if f.severity == "error"]


def test_a_constant_row_gives_exactly_beta() -> None:
    x = np.full((8, 1000), 3.0, np.float32)
    gamma, beta = np.full(1000, 7.0, np.float32), np.linspace(-1, 1, 1000, dtype=np.float32)
    y, mean, _ = ops.operator("layer_norm")(x, gamma, beta)
    assert np.array_equal(y, np.broadcast_to(beta, y.shape))
    assert np.array_equal(mean, np.full((8, 1), 3.0, np.float32))


@pytest.mark.parametrize(
    ("rows", "columns"), [(3001, 7), (480, 1100), (97, 1361), (49, 20001), (3, 70003), (50, 33000)]
)
def test_a_row_gives_the_same_bits_in_every_batch_when_asked(rows: int, columns: int) -> None:
    norm = ops.operator("layer_norm")
    random = np.random.default_rng(columns)
    x, gamma, beta = (random.normal(1, 3, s).astype(np.float32) for s in ((rows, columns), columns, columns))
    whole = norm(x, gamma, beta, batch_invariant=True)
    for few in (1, 2, 40):
        for part, all_of_it in zip(norm(x[-few:], gamma, beta, batch_invariant=True), whole, strict=True):
            assert np.array_equal(part, all_of_it[-few:][: len(part)])
