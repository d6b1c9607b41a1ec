"""rms_norm beyond its cases: rules named at tiling time, every width fits UB, and what its README says about precision."""

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
        ((X.astype(np.int32), W), 1e-6, "x DT_INT32"),
        ((X, W.astype(np.float16)), 1e-6, "same element type"),
        ((X, W[:4]), 1e-6, "last axes of x"),
        ((X, W), -1.0, "positive"),
    ],
)
def test_a_broken_rule_is_named(inputs: tuple[Any, ...], epsilon: float, rule: str) -> None:
    with pytest.raises((BadArgument, InferFailed, TilingFailed)) as refused:
        ops.operator("rms_norm")(*inputs, epsilon=epsilon)
    assert rule in str(refused.value)


def test_it_is_layer_norm_without_the_mean() -> None:
    random = np.random.default_rng(0)
    x, w = random.normal(size=(16, 200)).astype(np.float32), np.ones(200, np.float32)
    x -= x.mean(axis=-1, keepdims=True)
    rms_y, _ = ops.operator("rms_norm")(x, w, epsilon=1e-5)
    layer_y, _, _ = ops.operator("layer_norm")(x, w, np.zeros_like(w), epsilon=1e-5)
    assert np.allclose(rms_y, layer_y, atol=1e-5)
    assert rms_y.time_us < layer_y.time_us


@pytest.mark.parametrize(("rows", "columns"), [(97, 1361), (3, 70003)])
def test_a_row_gives_the_same_bits_in_every_batch_when_asked(rows: int, columns: int) -> None:
    norm = ops.operator("rms_norm")
    random = np.random.default_rng(columns)
    x, gamma = (random.normal(1, 3, s).astype(np.float32) for s in ((rows, columns), columns))
    whole, _ = norm(x, gamma, batch_invariant=True)
    assert np.array_equal(norm(x[-1:], gamma, batch_invariant=True)[0], whole[-1:])
