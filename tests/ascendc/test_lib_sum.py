"""Sum, Mean and CumSum against NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.ascendc.harness import kernels
from tests.ascendc.test_vector_reduce import tree_of_trees
from tests.ascendc.ub_kernel import FRAME, Oracle, call, mistakes, ub_kernel
from toprope.kernel import KernelFile

CPP = {np.float16: "half", np.float32: "float"}
ORACLES: dict[str, Oracle] = {
    "ReduceMean": lambda x, axis: x.mean(axis),
    "Sum": lambda x: x.sum(-1),
    "Mean": lambda x: x.mean(-1),
    "CumSum": np.cumsum,
}


def text() -> str:
    out = (
        FRAME
        + "constexpr CumSumConfig kLines{false, false, true}; constexpr CumSumConfig kColumns{true, false, false};\n"
    )
    for c in CPP.values():
        three = {"x": c, "t": "uint8_t", "y": c}
        out += ub_kernel(
            f"run_Sum_{c}",
            three,
            f"if (given) Sum(y, x, t, SumParams{{(uint32_t)m, (uint32_t)k, (uint32_t)n}}); else Sum<{c}>(y, x, SumParams{{(uint32_t)m, (uint32_t)k, (uint32_t)n}});",
            ["m", "k", "n", "given"],
        )
        out += ub_kernel(
            f"run_Mean_{c}",
            three,
            f"if (given) Mean(y, x, t, MeanParams{{(uint32_t)m, (uint32_t)k, (uint32_t)n}}); else Mean<{c}, float>(y, x, MeanParams{{(uint32_t)m, (uint32_t)k, (uint32_t)n}});",
            ["m", "k", "n", "given"],
        )
        info = "CumSumInfo info{(uint32_t)m, (uint32_t)k};"
        out += ub_kernel(
            f"run_CumSum_{c}",
            {**three, "l": c},
            f"{info} if (columns) CumSum<{c}, kColumns>(y, l, x, t, info); else CumSum<{c}, kLines>(y, l, x, info);",
            ["m", "k", "columns"],
        )
    patterned = "uint32_t shape[2] = {(uint32_t)m, (uint32_t)n};"
    for name in ("Sum", "Mean", "Max", "Min"):
        call_of = f"Reduce{name}<float, Pattern::Reduce::{{}}>"
        out += ub_kernel(
            f"run_Reduce{name}",
            {"x": "float", "t": "uint8_t", "y": "float"},
            f"{patterned} if (last) {call_of.format('AR')}(y, x, t, shape, true); else {call_of.format('RA')}(y, x, shape, true);",
            ["m", "n", "last"],
        )
    return out


@pytest.fixture(scope="module")
def compiled() -> KernelFile:
    return kernels(text(), "lib_sum")


@pytest.mark.parametrize("dtype", CPP)
@pytest.mark.parametrize("shape", [(1, 16, 9), (5, 64, 64), (300, 16, 13), (3, 400, 385), (2, 16640, 16640)])
@pytest.mark.parametrize("given", [0, 1])
def test_rows(compiled: KernelFile, dtype: Any, shape: tuple[int, int, int], given: int) -> None:
    m, k, n = shape
    x = np.random.default_rng(n).uniform(-1, 1, (m, k)).astype(dtype)
    if given == 0 and k > 10000:
        return  # the wide copy of Mean does not fit into UB
    for name in ("Sum", "Mean"):
        y = np.zeros(-(-m // 16) * 16, dtype)
        run = call(compiled, f"run_{name}_{CPP[dtype]}", x, np.zeros(2048, np.uint8), y, m, k, n, given)
        assert not mistakes(run)
        if name == "Sum":
            np.testing.assert_array_equal(y[:m], [tree_of_trees(r[:n]) for r in x])
        else:
            np.testing.assert_allclose(
                y[:m],
                x[:, :n].astype(np.float64).mean(-1),
                rtol=4e-3 if dtype is np.float16 else 1e-5,
                atol=2e-3 if dtype is np.float16 else 1e-6,
            )


@pytest.mark.parametrize("dtype", CPP)
@pytest.mark.parametrize("columns", [0, 1])
def test_running_sums(compiled: KernelFile, dtype: Any, columns: int) -> None:
    m, k = 7, 32
    x = np.random.default_rng(1).uniform(-1, 1, (m, k)).astype(dtype)
    y, last = np.zeros((m, k), dtype), np.zeros(k, dtype)
    run = call(compiled, f"run_CumSum_{CPP[dtype]}", x, np.zeros(8192, np.uint8), y, last, m, k, columns)
    assert not mistakes(run)
    expected = np.cumsum(x.astype(np.float64), axis=columns)
    np.testing.assert_allclose(
        y, expected, rtol=2e-3 if dtype is np.float16 else 1e-5, atol=2e-3 if dtype is np.float16 else 2e-6
    )
    if not columns:
        np.testing.assert_array_equal(last, y[-1])


@pytest.mark.parametrize("name", ["Sum", "Mean", "Max", "Min"])
@pytest.mark.parametrize("shape", [(5, 61), (13, 130), (2, 3000)])
def test_reductions_by_pattern(compiled: KernelFile, name: str, shape: tuple[int, int]) -> None:
    m, n = shape
    width = -(-n // 8) * 8
    x = np.random.default_rng(n).uniform(-1, 1, (m, width)).astype(np.float32)
    for last in (0, 1):
        y = np.zeros(-(-max(m, n) // 8) * 8, np.float32)
        run = call(compiled, f"run_Reduce{name}", x, np.zeros(65536, np.uint8), y, m, n, last)
        assert not mistakes(run)
        expected = getattr(x[:, :n].astype(np.float64), name.lower())(axis=last)
        np.testing.assert_allclose(y[: expected.size], expected, rtol=1e-5, atol=1e-5)
