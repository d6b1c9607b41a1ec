"""Functions of one tensor against NumPy, over forms, lengths, masks and strides."""

from __future__ import annotations

import zlib
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tests.ascendc.harness import kernels
from tests.ascendc.ub_image import CXX, PRELUDE, Array, calls, check_call, entry
from toprope.kernel import KernelFile


def in_float(f: Callable[[Array], Array]) -> Callable[[Array], Array]:
    """Evaluated in double, rounded once to the element type."""
    return lambda x: f(x.astype(np.float64)).astype(x.dtype)


ORACLES: dict[str, Callable[..., Array]] = {
    "Abs": np.abs,
    "Exp": in_float(np.exp),
    "Ln": in_float(np.log),
    "Reciprocal": lambda x: (np.float32(1) / x.astype(np.float32)).astype(x.dtype),
    "Rsqrt": in_float(lambda x: 1 / np.sqrt(x)),
    "Sqrt": in_float(np.sqrt),
    "Relu": lambda x: np.where((x > 0) | (x != x), x, 0).astype(x.dtype),
    "Not": np.invert,
}
FLOATS = ("float16", "float32")
DTYPES = {name: FLOATS for name in ORACLES} | {"Relu": ("float16", "int32", "float32"), "Not": ("int16", "uint16")}
ULPS = {"Exp": 1, "Ln": 1, "Rsqrt": 1}
CASES = [(name, dtype) for name, dtypes in DTYPES.items() for dtype in dtypes]


@pytest.fixture(scope="module")
def unary() -> KernelFile:
    text = PRELUDE + "".join(
        entry(
            f"{name}_{dtype}",
            [CXX[dtype]] * 3,
            f"""
            case 0: {name}(d, a, n); break;
            case 1: {name}(d, a, (uint64_t)n, rep, u1); break;
            case 2: {name}(d, a, m, rep, u1); break;
            case 3: COUNTED; {name}<T, false>(d, a, MASK_PLACEHOLDER, rep, u1); DONE; break;
            case 4: REGISTERS; {name}<T, false>(d, a, MASK_PLACEHOLDER, rep, u1); DONE; break;""",
        )
        for name, dtype in CASES
    )
    return kernels(text, "unary")


@pytest.mark.parametrize(("name", "dtype"), CASES)
def test_unary(unary: KernelFile, name: str, dtype: str) -> None:
    rng = np.random.default_rng(zlib.crc32(f"{name}{dtype}".encode()))
    t = np.dtype(dtype)
    for call in calls(256 // t.itemsize, rng, (t.itemsize,) * 3):
        check_call(unary, f"{name}_{dtype}", call, (t, t), ORACLES[name], rng, ulps=ULPS.get(name, 0))


@pytest.mark.parametrize("name", ["Exp", "Ln", "Rsqrt", "Sqrt", "Reciprocal"])
def test_every_half(unary: KernelFile, name: str) -> None:
    everything = np.arange(1 << 16, dtype=np.uint16).view(np.float16)

    def values(_: np.random.Generator, dtype: Any, count: int) -> Array:
        return np.resize(chunk, count)

    for begin in range(0, 1 << 16, 8192):
        chunk = everything[begin : begin + 8192]
        call = calls(128, np.random.default_rng(0), (2, 2, 2))[0].__class__("count", 128, 8192)
        check_call(
            unary,
            f"{name}_float16",
            call,
            (np.float16, np.float16),
            ORACLES[name],
            np.random.default_rng(0),
            ulps=ULPS.get(name, 0),
            values=values,
        )
