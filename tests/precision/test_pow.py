"""The worked example: exp(y ln x) in half against the compensated kernel of examples/10_pow, and every special case of IEEE pow."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import toprope
from benchmarks.precision_pow import NAMED_RANGE, errors, named_range
from toprope.precision.blame import diagnose
from toprope.precision.shadow import replay

EXAMPLE = Path(__file__).parent.parent.parent / "examples" / "10_pow"
NAIVE = toprope.load(EXAMPLE / "pow_naive.cpp").pow_naive
COMPENSATED = toprope.load(EXAMPLE / "pow.cpp").pow_compensated
SPECIAL = [0.0, -0.0, 1.0, -1.0, np.inf, -np.inf, np.nan]
ORDINARY = [2, -2, 0.5, -0.5, 3, -3, 2.5, -2.5, 7, 100.5, -0.99, 1 / 3, 1 + 2.0**-23, 1 - 2.0**-24, 1e10, 1e-30, -1e-30]
EXTREME = [
    1e-45,
    -1e-45,
    1e-40,
    1.17549435e-38,
    3.4e38,
    -3.4e38,
    2.0**24,
    2.0**24 - 1,
    -(2.0**24 - 1),
    2.0**25 + 2,
    2.0**33,
]


def power(x: Any, y: Any) -> np.ndarray[Any, Any]:
    z = np.empty_like(x)
    COMPENSATED[2](x.copy(), y.copy(), z, len(x))
    return z


def test_the_improvement_reaches_its_bar() -> None:
    found = errors(*named_range(4096))
    assert found["improvement"] >= 5_700, NAMED_RANGE
    assert found["compensated_max_relative"] < 2.0**-23


def test_ieee_special_cases() -> None:
    values = np.array(SPECIAL + ORDINARY + EXTREME, np.float32)
    x, y = (a.ravel().copy() for a in np.meshgrid(values, values))
    with np.errstate(all="ignore"):
        wide = np.power(x.astype(np.float64), y.astype(np.float64))
        golden = wide.astype(np.float32)
        z = power(x, y)
        error = np.abs(z.astype(np.float64) - wide) / np.maximum(np.abs(wide), 2.0**-126)
    special = ~np.isfinite(golden) | (golden == 0) | np.isin(np.abs(x), [0, 1, np.inf]) | (y == 0)
    equal = (z == golden) & (np.signbit(z) == np.signbit(golden)) | (np.isnan(z) & np.isnan(golden))
    assert special.sum() > 700
    assert equal[special].all(), list(zip(x[special & ~equal], y[special & ~equal], strict=True))
    assert error[~special].max() < 2.0**-22


@pytest.mark.parametrize(
    ("x", "y", "z"),
    [
        (1, np.nan, 1), (np.nan, 0, 1), (-1, np.inf, 1), (-1, -np.inf, 1), (0.0, -3, np.inf), (-0.0, -3, -np.inf), (-0.0, -2, np.inf),
        (-0.0, 3, -0.0), (-0.0, 0.5, 0.0), (-np.inf, 3, -np.inf), (-np.inf, 2.5, np.inf), (-np.inf, -3, -0.0), (-8, 1 / 3, np.nan),
        (-2, 3, -8), (-2, 4, 16), (0.5, np.inf, 0), (0.5, -np.inf, np.inf), (np.inf, -1, 0), (-3, np.nan, np.nan), (np.nan, 2, np.nan),
    ],
)  # fmt: skip
def test_the_cases_that_the_standard_names(x: float, y: float, z: float) -> None:
    got = power(np.array([x], np.float32), np.array([y], np.float32))[0]
    assert np.isnan(got) if np.isnan(z) else got == z and np.signbit(got) == np.signbit(np.float32(z))


@pytest.mark.parametrize("length", [1, 7, 1023, 1024, 1025, 5000])
def test_any_length(length: int) -> None:
    rng = np.random.default_rng(length)
    x, y = (rng.uniform(0.5, 4, length).astype(np.float32) for _ in range(2))
    assert np.allclose(power(x, y), np.power(x.astype(np.float64), y), rtol=2.0**-22, atol=0)


def test_the_bisection_finds_what_is_wrong_with_the_naive_kernel_and_nothing_in_the_other() -> None:
    x, y = named_range(1024)
    found = {}
    for kernel in (NAIVE, COMPENSATED):
        z = np.zeros_like(x)
        before = {"x": x.copy(), "y": y.copy(), "z": z.copy()}
        run = kernel[1](x, y, z, len(x), capture_limit_bytes=1 << 28)
        replayed = replay(run.trace, run.soc, before)
        found[kernel.name] = diagnose(replayed, {"x": x, "y": y, "z": z})
        assert not replayed.unknown and run.findings == [f for f in run.findings if f.severity == "advice"]
    assert found["pow_naive"].cause == "exp-amplifies"
    assert found["pow_naive"].grown is not None and found["pow_naive"].grown.step.op == "Exp"
    assert found["pow_compensated"].cause == "clean"
