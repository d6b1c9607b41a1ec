"""layer_norm_gemm beyond its cases: rules named at tiling time, turns within what flags count, less traffic than two launches."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from toprope import ops
from toprope.errors import BadArgument
from toprope.project.errors import InferFailed, TilingFailed

NAME = "layer_norm_gemm"
TILE_M, MOST_TURNS = 128, 15  # rows of a cube tile; what a flag counts to


def half(*shape: int) -> np.ndarray[Any, Any]:
    return np.zeros(shape, np.float16)


@pytest.mark.parametrize(
    ("inputs", "epsilon", "rule"),
    [
        ((half(4, 32).astype(np.float32), half(32), half(32), half(32, 8)), 1e-5, "x DT_FLOAT,"),
        ((half(4, 32), half(32), half(32), half(16, 8)), 1e-5, "(m, k)"),
        ((half(4, 32), half(32), half(16), half(32, 8)), 1e-5, "k = 32"),
        ((half(4, 24), half(24), half(24), half(24, 8)), 1e-5, "multiple of 16"),
        ((half(4, 32768), half(32768), half(32768), half(32768, 8)), 1e-5, "does not fit UB"),
        ((half(4, 32), half(32), half(32), half(32, 8)), 0.0, "positive"),
    ],
)
def test_a_broken_rule_is_named(inputs: tuple[Any, ...], epsilon: float, rule: str) -> None:
    with pytest.raises((BadArgument, InferFailed, TilingFailed)) as refused:
        ops.operator(NAME)(*inputs, epsilon=epsilon)
    assert rule in str(refused.value)


@pytest.mark.parametrize("m", [1, 128, 1000, 5000, 16384, 100_000])
def test_flags_can_count_the_turns(m: int) -> None:
    rows = ops.operator(NAME).tiling(shapes=[(m, 32), (32,), (32,), (32, 8)]).fields["turnRows"]
    assert rows % TILE_M == 0
    assert ops.ceil_div(m, rows) <= MOST_TURNS


@pytest.mark.slow  # compiles three operators
def test_the_normalised_rows_do_not_visit_hbm() -> None:
    x, gamma, w = half(4096, 512), half(512), half(512, 512)
    plans = {
        "layer_norm_gemm": (x, gamma, gamma, w),
        "layer_norm": (x, gamma, gamma),
        "matmul": (x, w),
    }
    read = {
        name: ops.operator(name).run(*inputs, options={"time_only": True}).timeline.traffic.hbm_read_bytes
        for name, inputs in plans.items()
    }
    assert read["layer_norm_gemm"] <= read["layer_norm"] + read["matmul"] - 0.9 * x.nbytes
