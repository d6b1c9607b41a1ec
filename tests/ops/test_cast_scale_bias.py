"""cast_scale_bias: the rules it checks, and one rounding at the end of the chain."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from toprope import ops
from toprope.errors import BadArgument
from toprope.project.errors import TilingFailed

X, COLUMN = np.zeros((3, 4), np.int32), np.zeros(4, np.float32)
REFUSED = [
    ((X.astype(np.int64), COLUMN, COLUMN), "lists: x DT_INT32, scale DT_FLOAT, bias DT_FLOAT; x DT_FLOAT16, "),
    ((np.array(1, np.int32), COLUMN, COLUMN), "scalar"),
    ((X, COLUMN[:3], COLUMN), "scale must have shape (4), one number a column of x; it has 3"),
    ((X, COLUMN, COLUMN.astype(np.float16)), "bias DT_FLOAT16"),
]


@pytest.mark.parametrize(("inputs", "rule"), REFUSED)
def test_a_broken_rule_is_named_at_tiling_time(inputs: tuple[Any, ...], rule: str) -> None:
    with pytest.raises((BadArgument, TilingFailed)) as refused:
        ops.operator("cast_scale_bias")(*inputs)
    assert rule in str(refused.value)


def test_nothing_is_rounded_to_half_on_the_way() -> None:
    x = np.arange(100_000, 100_256, dtype=np.int32).reshape(4, 64)  # no half holds any of these
    scale, bias = np.full(64, 1.0, np.float32), np.full(64, -100_000.0, np.float32)
    y = ops.operator("cast_scale_bias")(x, scale, bias)
    assert (y == np.arange(256, dtype=np.float16).reshape(4, 64)).all()
