"""machine/float_math.h: within 1 ulp over the whole range of float, special values included."""

from __future__ import annotations

import ctypes
from collections.abc import Callable

import numpy as np
import pytest

from tests.ascendc.ub_image import Array
from toprope.build import shared_library

FUNCTIONS: dict[str, Callable[[Array], Array]] = {
    "exp_float": np.exp,
    "log_float": np.log,
    "rsqrt_float": lambda x: 1 / np.sqrt(x),
    "sqrt_float": np.sqrt,
    "reciprocal_float": lambda x: 1 / x,
    "nearest_even": np.rint,
    "nearest_away": lambda x: np.copysign(np.floor(np.abs(x) + 0.5), x),
}
EXACT = ("sqrt_float", "reciprocal_float", "nearest_even", "nearest_away")


@pytest.fixture(scope="module")
def library() -> ctypes.CDLL:
    loops = "\n".join(
        f'extern "C" void {name}(const float* x, float* y, int n) {{ for (int i = 0; i < n; i++) y[i] = toprope::{name}(x[i]); }}'
        for name in FUNCTIONS
    )
    half = 'extern "C" void lane_round(const float* x, float* y, int n) { for (int i = 0; i < n; i++) y[i] = toprope::lane_round<half>(x[i]); }'
    return ctypes.CDLL(
        str(shared_library(f'#include "machine/float_math.h"\n#include "machine/vector.h"\n{loops}\n{half}\n'))
    )


def run(library: ctypes.CDLL, name: str, x: Array) -> Array:
    y = np.empty_like(x)
    getattr(library, name)(ctypes.c_void_p(x.ctypes.data), ctypes.c_void_p(y.ctypes.data), len(x))
    return y


def samples() -> Array:
    """Every 1,021st float, and the neighbourhoods where the functions change their ways."""
    bits = np.arange(0, 1 << 32, 1021, dtype=np.uint32)
    near = np.array(
        [0.0, 1.0, 88.72284, -87.33655, -103.97208, 0.70710677, 1.4142135, 1.1754944e-38, 0.5, 2.5, 8388607.5],
        np.float32,
    ).view(np.uint32)
    spots = (near[:, None] + np.arange(-200, 200, dtype=np.int64)).astype(np.uint32).ravel()
    return np.concatenate([bits, spots, spots | 0x80000000]).astype(np.uint32).view(np.float32)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_within_one_ulp(library: ctypes.CDLL, name: str) -> None:
    x = samples()
    got = run(library, name, x)
    with np.errstate(all="ignore"):
        true = FUNCTIONS[name](x.astype(np.float64))
        want = true.astype(np.float32)
        nan = np.isnan(want)
        np.testing.assert_array_equal(np.isnan(got), nan)
        finite = np.isfinite(want) & np.isfinite(got)
        if name in EXACT:
            np.testing.assert_array_equal(got[~nan], want[~nan])
        # Where the result overflows or is infinite, both must be, give or take the last finite float.
        edge = ~finite & ~nan
        assert np.all((got[edge] == want[edge]) | (np.abs(true[edge]) > 3.4028e38))
        error = np.abs(got[finite].astype(np.float64) - true[finite]) / np.spacing(np.abs(want[finite])).astype(
            np.float64
        )
    assert error.max() < 1.0


def test_rounding_a_lane_to_half(library: ctypes.CDLL) -> None:
    x = samples()
    with np.errstate(over="ignore"):
        want = x.astype(np.float16).astype(np.float32)
    got = run(library, "lane_round", x)
    nan = np.isnan(x)
    assert np.isnan(got[nan]).all()
    np.testing.assert_array_equal(got[~nan].view(np.uint32), want[~nan].view(np.uint32))
