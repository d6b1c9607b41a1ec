"""Whole-tensor expressions: dst = a + b, dst = a < b, ..."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from tests.ascendc.harness import kernels
from tests.ascendc.test_vector_binary import ORACLES as BINARY
from tests.ascendc.test_vector_compare import compare
from tests.ascendc.ub_image import CXX, PRELUDE, REGION, Array, entry, image_of, ordinary, same
from toprope.kernel import KernelFile

ARITHMETIC = {"+": "Add", "-": "Sub", "*": "Mul", "/": "Div", "&": "And", "|": "Or"}
COMPARISONS = {"<": "LT", ">": "GT", "<=": "LE", ">=": "GE", "==": "EQ", "!=": "NE"}
ORACLES: dict[str, Callable[..., Array]] = {f"operator{symbol}": BINARY[name] for symbol, name in ARITHMETIC.items()}
ORACLES |= {f"operator{symbol}": lambda a, b, mode=mode: compare(a, b, mode) for symbol, mode in COMPARISONS.items()}
DTYPES = {symbol: ("int16", "float16", "int32", "float32") for symbol in "+-*"} | {
    "/": ("float16", "float32"),
    "&": ("int16", "uint16"),
    "|": ("int16", "uint16"),
}


@pytest.fixture(scope="module")
def operators() -> KernelFile:
    text = PRELUDE
    for dtype in ("int16", "uint16", "float16", "int32", "float32"):
        cases = "d.SetSize(n); a.SetSize(n); b.SetSize(n);\n switch (form)"
        body = "".join(
            f"case {i}: d = a {symbol} b; break;\n" for i, symbol in enumerate(ARITHMETIC) if dtype in DTYPES[symbol]
        )
        if dtype.startswith("float"):
            body += "".join(f"case {i + 10}: bits = a {symbol} b; break;\n" for i, symbol in enumerate(COMPARISONS))
        text += entry(f"whole_{dtype}", [CXX[dtype]] * 3, body).replace(
            "switch (form)", "LocalTensor<uint8_t> bits = ub.all; " + cases
        )
    return kernels(text, "operators")


@pytest.mark.parametrize(("symbol", "dtype"), [(s, d) for s, dtypes in DTYPES.items() for d in dtypes])
def test_arithmetic(operators: KernelFile, symbol: str, dtype: str) -> None:
    t = np.dtype(dtype)
    image = image_of(np.random.default_rng(1), (t, t, t), ordinary)
    want = image.copy()
    n = 777
    a, b = (image[start : start + n * t.itemsize].view(t) for start in (REGION, 2 * REGION))
    with np.errstate(all="ignore"):
        want[: n * t.itemsize] = ORACLES[f"operator{symbol}"](a, b).view(np.uint8)
    run = getattr(operators, f"whole_{dtype}")[1](image, list(ARITHMETIC).index(symbol), n, *([0] * 10))
    assert same(image.view(t), want.view(t)).all()
    row = next(i for i in run.trace.instrs if run.trace.ops[i["op"]].name == ARITHMETIC[symbol])
    line = run.trace.sites[row["site"]].line
    assert f"d = a {symbol} b" in operators.path.read_text().splitlines()[line - 1]


@pytest.mark.parametrize("symbol", COMPARISONS)
@pytest.mark.parametrize("dtype", ["float16", "float32"])
def test_comparisons(operators: KernelFile, symbol: str, dtype: str) -> None:
    t = np.dtype(dtype)
    image = image_of(np.random.default_rng(2), (t, t, t), lambda r, dt, n: r.integers(-2, 3, n).astype(dt))
    want = image.copy()
    n = 640
    a, b = (image[start : start + n * t.itemsize].view(t) for start in (REGION, 2 * REGION))
    want[: n // 8] = ORACLES[f"operator{symbol}"](a, b)
    getattr(operators, f"whole_{dtype}")[1](image, 10 + list(COMPARISONS).index(symbol), n, *([0] * 10))
    np.testing.assert_array_equal(image, want)
