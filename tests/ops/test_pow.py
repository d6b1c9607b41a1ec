"""pow: the rules it checks, every special case of IEEE 754, and its precision."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from toprope import ops
from toprope.errors import BadArgument
from toprope.project.errors import TilingFailed

X = np.ones((3, 4), np.float32)
REFUSED = [
    (
        (X.astype(np.int32), X.astype(np.int32)),
        "x1 DT_FLOAT, x2 DT_FLOAT; x1 DT_FLOAT16, x2 DT_FLOAT16; x1 DT_BF16, x2 DT_BF16",
    ),
    ((X, X.astype(np.float16)), "same element type"),
    ((X, X[:2]), "shape"),
]
SPECIAL = [0.0, 1.0, np.inf, np.nan, 2.0, 0.5, 3.0, 2.5, 7.0, 1e-40, 3.3e38, 16777215.0, 8589934592.0, 1 + 2.0**-23]


@pytest.mark.parametrize(("inputs", "rule"), REFUSED)
def test_a_broken_rule_is_named_at_tiling_time(inputs: tuple[Any, ...], rule: str) -> None:
    with pytest.raises((BadArgument, TilingFailed)) as refused:
        ops.operator("pow")(*inputs)
    assert rule in str(refused.value)


def power(x: Any, y: Any) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """The kernel's result and the exact one."""
    z = ops.operator("pow")(x, y)
    assert not z.findings
    with np.errstate(all="ignore"):
        return z, np.power(x.astype(np.float64), y.astype(np.float64))


def test_special_cases() -> None:
    values = np.array([s * v for v in SPECIAL for s in (1, -1)], np.float32)
    z, wide = power(*np.meshgrid(values, values))
    with np.errstate(all="ignore"):
        golden = wide.astype(np.float32)
    plain = np.isfinite(golden) & (golden != 0)
    same = (z == golden) & (np.signbit(z) == np.signbit(golden)) | (np.isnan(z) & np.isnan(golden))
    assert (~plain).sum() > 400 and same[~plain].all()
    error = np.abs(z[plain] - wide[plain])
    assert (error <= 2.0**-22 * np.maximum(np.abs(wide[plain]), 2.0**-126)).all()


def test_a_unit_in_the_last_place() -> None:
    random = np.random.default_rng(0)
    x, y = (random.uniform(a, b, 20000).astype(np.float32) for a, b in ((0.01, 100.0), (-18.0, 18.0)))
    z, wide = power(x, y)
    kept = (np.abs(wide) > 2.0**-126) & (np.abs(wide) < 2.0**127)
    assert kept.sum() > 19000
    assert (np.abs(z - wide) / np.abs(wide))[kept].max() < 2.0**-23
