"""ReduceAny, ReduceAll and ReduceProd along either axis of a matrix; ReduceXorSum."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.ascendc.harness import kernels
from tests.ascendc.ub_kernel import FRAME, Oracle, call, mistakes, ub_kernel
from toprope.kernel import KernelFile

ORACLES: dict[str, Oracle] = {
    "ReduceAny": lambda x, axis: (x != 0).any(axis),
    "ReduceAll": lambda x, axis: (x != 0).all(axis),
    "ReduceProd": lambda x, axis: x.prod(axis),
    "ReduceXorSum": lambda a, b: np.clip((a ^ b).sum(dtype=np.int64), -32768, 32767),
}
TYPES = {np.float32: "float", np.uint8: "uint8_t"}
SHAPES = [(2, 3), (7, 40), (64, 33), (5, 300), (1, 128)]


def text() -> str:
    out = FRAME
    shape = "uint32_t shape[2] = {(uint32_t)m, (uint32_t)n};"
    cases = [(name, c) for name in ("ReduceAny", "ReduceAll") for c in TYPES.values()] + [("ReduceProd", "float")]
    for name, c in cases:
        one = f"{name}<{c}, Pattern::Reduce::"
        out += ub_kernel(
            f"{name}_{c}",
            {"x": c, "y": c, "t": "uint8_t"},
            f"{shape} if (last) {one}AR>(y, x, t, shape, true); else {one}RA>(y, x, t, shape, true);",
            ["m", "n", "last"],
        )
    out += ub_kernel(
        "XorSum",
        {"a": "int16_t", "b": "int16_t", "y": "int16_t", "t": "uint8_t"},
        "ReduceXorSum<int16_t>(y, a, b, t, n);",
        ["n"],
    )
    return out


@pytest.fixture(scope="module")
def compiled() -> KernelFile:
    return kernels(text(), "lib_reduce_pattern")


@pytest.mark.parametrize("last", [1, 0])
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize(
    "name", ["ReduceAny_float", "ReduceAny_uint8_t", "ReduceAll_float", "ReduceAll_uint8_t", "ReduceProd_float"]
)
def test_reductions_by_pattern(compiled: KernelFile, name: str, shape: tuple[int, int], last: int) -> None:
    function, c = name.split("_", 1)
    t: Any = np.uint8 if c == "uint8_t" else np.float32
    m, n = shape
    per = 32 // np.dtype(t).itemsize
    width = (n + per - 1) // per * per
    rng = np.random.default_rng(m * n)
    x = np.full((m, width), 3, t)  # padding that would be seen
    few = {"ReduceAny": 0.02, "ReduceAll": 0.98, "ReduceProd": 1.0}[function]
    x[:, :n] = np.where(
        rng.random((m, n)) < few, rng.choice([1, 2] if t is np.uint8 else [-1.125, 0.875, 1.0], (m, n)), 0
    )
    y = np.zeros(512, t)
    run = call(compiled, name, x, y, np.zeros(110_592, np.uint8), m, n, last)
    assert not mistakes(run)
    expected = ORACLES[function](x[:, :n].astype(np.float64), 1 if last else 0)
    np.testing.assert_allclose(y[: expected.size].astype(np.float64), expected, rtol=1e-5)


@pytest.mark.parametrize("n", [16, 100, 1000])
def test_sum_of_differences(compiled: KernelFile, n: int) -> None:
    rng = np.random.default_rng(n)
    a, b = rng.integers(-20, 20, (2, 1008), np.int16)
    y = np.zeros(16, np.int16)
    run = call(compiled, "XorSum", a, b, y, np.zeros(16384, np.uint8), n)
    assert not mistakes(run)
    assert y[0] == ORACLES["ReduceXorSum"](a[:n], b[:n])
