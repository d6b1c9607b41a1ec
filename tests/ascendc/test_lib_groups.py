"""BatchNorm, GroupNorm, Lgamma, Digamma and the transposed matrix of a tiling structure against NumPy."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from tests.ascendc.harness import kernels
from tests.ascendc.ub_kernel import FRAME, Oracle, call, mistakes, ub_kernel
from toprope.kernel import KernelFile

CPP = {np.float16: "half", np.float32: "float"}


def normalised(x: np.ndarray, axes: tuple[int, ...]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    mean, variance = x.mean(axes, keepdims=True), x.var(axes, keepdims=True)
    return (x - mean) / np.sqrt(variance + 1e-3), mean, variance


def digamma(x: float) -> float:
    """By the series of the differences to the Euler constant, far enough for 1e-9 with its tail."""
    if x < 0.5:
        return digamma(1 - x) - math.pi / math.tan(math.pi * x)
    shift = sum(1 / (x + i) for i in range(40))
    z = x + 40
    return math.log(z) - 1 / (2 * z) - 1 / (12 * z**2) + 1 / (120 * z**4) - shift


ORACLES: dict[str, Oracle] = {
    "BatchNorm": lambda x: normalised(x, (0,)),
    "GroupNorm": lambda x: normalised(x, (2, 3)),
    "Lgamma": np.vectorize(math.lgamma),
    "Digamma": np.vectorize(digamma),
    "ConfusionTranspose": np.transpose,
}


HOST = """
#include "host/tiling/row_tiling.h"
struct Dims {
    int64_t dims[4];
    int64_t GetShapeSize() const { return dims[0] * dims[1] * dims[2] * dims[3]; }
    size_t GetDimNum() const { return 4; }
    int64_t GetDim(size_t i) const { return dims[i]; }
};
"""


def text() -> str:
    out = HOST + FRAME
    out += ub_kernel(
        "host",
        {"z": "int32_t"},
        """const Dims shape{{a, b, c, d}}; uint32_t most = 0, least = 0; BatchNormTiling batch; GroupNormTiling group;
        GetBatchNormMaxMinTmpSize(shape, shape, 4, false, most, least); z.SetValue(0, (int32_t)least); z.SetValue(1, (int32_t)most);
        GetGroupNormMaxMinTmpSize(shape, 4, false, g, most, least); z.SetValue(2, (int32_t)least);
        GetBatchNormNDTilingInfo(shape, shape, 4096, 4, false, batch); GetGroupNormNDTilingInfo(shape, 4096, 4, false, g, group);
        z.SetValue(3, batch.originalBLength); z.SetValue(4, batch.meanVarSize); z.SetValue(5, group.n); z.SetValue(6, group.c);
        z.SetValue(7, group.hw); z.SetValue(8, group.g);
        GetLgammaMaxMinTmpSize(shape, 4, false, most, least); z.SetValue(9, (int32_t)least); z.SetValue(10, (int32_t)most);
        GetDigammaMaxMinTmpSize(shape, 2, false, most, least); z.SetValue(11, (int32_t)least);""",
        ["a", "b", "c", "d", "g"],
    )
    for c in CPP.values():
        rows = {"x": c, "y": c, "mean": c, "variance": c, "gamma": c, "beta": c, "t": "uint8_t"}
        out += ub_kernel(
            f"batch_{c}",
            rows,
            f"BatchNormTiling p; p.originalBLength = b; p.meanVarSize = n; BatchNorm<{c}>(y, mean, variance, x, gamma, beta, t, {c}(1e-3f), p);",
            ["b", "n"],
        )
        out += ub_kernel(
            f"group_{c}",
            rows,
            f"GroupNormTiling p; p.n = n; p.c = c; p.hw = hw; p.g = g; GroupNorm<{c}>(y, mean, variance, x, gamma, beta, t, {c}(1e-3f), p);",
            ["n", "c", "hw", "g"],
        )
        for name in ("Lgamma", "Digamma"):
            out += ub_kernel(
                f"{name}_{c}",
                {"x": c, "t": "uint8_t", "y": c},
                f"if (given) {name}(y, x, t, (uint32_t)n); else {name}<{c}>(y, x, (uint32_t)n);",
                ["given", "n"],
            )
        out += ub_kernel(
            f"transpose_{c}",
            {"x": c, "t": "uint8_t", "y": c},
            "ConfusionTransposeTiling p; p.param1 = rows; p.param2 = columns; auto type = static_cast<TransposeType>(kind);"
            "if (given) ConfusionTranspose(y, x, t, type, p); else Transpose(y, x, type, p);",
            ["rows", "columns", "kind", "given"],
        )
    return out


@pytest.fixture(scope="module")
def compiled() -> KernelFile:
    return kernels(text(), "lib_groups")


def close(got: np.ndarray, expected: np.ndarray) -> None:
    rtol, atol = (2e-5, 2e-5) if got.dtype == np.float32 else (4e-3, 4e-3)
    np.testing.assert_allclose(got.astype(np.float64), expected, rtol=rtol, atol=atol)


def random(t: Any, *shape: int) -> np.ndarray:
    return (np.random.default_rng(sum(shape)).standard_normal(shape) * 2 + 1).astype(t)


@pytest.mark.parametrize("t", CPP)
@pytest.mark.parametrize(("b", "n", "tmp"), [(16, 32, 4096), (5, 240, 1536), (2, 1024, 16384)])
def test_batch_norm(compiled: KernelFile, t: Any, b: int, n: int, tmp: int) -> None:
    x, gamma, beta = random(t, b, n), random(t, 16), random(t, 17)[:16].copy()
    y, mean, variance = np.zeros_like(x), np.zeros(n, t), np.zeros(n, t)
    run = call(compiled, f"batch_{CPP[t]}", x, y, mean, variance, gamma, beta, np.zeros(tmp, np.uint8), b, n)
    assert not mistakes(run)
    expected, middle, spread = ORACLES["BatchNorm"](x.astype(np.float64))
    close(y, expected * gamma[:b, None].astype(np.float64) + beta[:b, None].astype(np.float64))
    close(mean, middle[0])
    close(variance, spread[0])


@pytest.mark.parametrize("t", CPP)
@pytest.mark.parametrize(("n", "c", "hw", "g"), [(1, 4, 16, 2), (2, 6, 32, 3), (3, 2, 240, 1)])
def test_group_norm(compiled: KernelFile, t: Any, n: int, c: int, hw: int, g: int) -> None:
    x, gamma, beta = random(t, n, c, hw), random(t, 16), random(t, 17)[:16].copy()
    y, mean, variance = np.zeros_like(x), np.zeros(16, t), np.zeros(16, t)
    run = call(compiled, f"group_{CPP[t]}", x, y, mean, variance, gamma, beta, np.zeros(32768, np.uint8), n, c, hw, g)
    assert not mistakes(run)
    expected, middle, spread = ORACLES["GroupNorm"](x.astype(np.float64).reshape(n, g, c // g, hw))
    scale, shift = (v[:c, None].astype(np.float64) for v in (gamma, beta))
    close(y, expected.reshape(n, c, hw) * scale + shift)
    close(mean[: n * g], middle.ravel())
    close(variance[: n * g], spread.ravel())


@pytest.mark.parametrize("t", CPP)
@pytest.mark.parametrize("name", ["Lgamma", "Digamma"])
@pytest.mark.parametrize(("n", "given"), [(64, 1), (208, 1), (512, 0)])
def test_gamma_functions(compiled: KernelFile, t: Any, name: str, n: int, given: int) -> None:
    rng = np.random.default_rng(n)
    x = np.concatenate([rng.uniform(0.05, 3, n // 4), rng.uniform(3, 500, n // 4), rng.uniform(-4, 0, n - n // 2)])
    x = x.astype(t)
    x[np.abs(x - np.rint(x)) < 0.05] = 2.25  # away from the poles, where both functions are steep
    y = np.zeros_like(x)
    run = call(compiled, f"{name}_{CPP[t]}", x, np.zeros(8192, np.uint8), y, given, n)
    assert not mistakes(run)
    rtol, atol = (2e-5, 2e-5) if t is np.float32 else (2e-3, 2e-3)
    np.testing.assert_allclose(y.astype(np.float64), ORACLES[name](x.astype(np.float64)), rtol=rtol, atol=atol)


@pytest.mark.parametrize("t", CPP)
@pytest.mark.parametrize(("rows", "columns", "given"), [(16, 16, 1), (32, 80, 1), (48, 16, 0)])
def test_transpose_with_a_tiling_structure(compiled: KernelFile, t: Any, rows: int, columns: int, given: int) -> None:
    x, y = random(t, rows, columns), np.zeros((columns, rows), t)
    run = call(compiled, f"transpose_{CPP[t]}", x, np.zeros(1024, np.uint8), y, rows, columns, 7, given)
    assert not mistakes(run)
    np.testing.assert_array_equal(y, ORACLES["ConfusionTranspose"](x))


def test_fractal_transposes_without_a_shape_are_an_error_that_says_so(compiled: KernelFile) -> None:
    x, y = random(np.float32, 16, 16), np.zeros((16, 16), np.float32)
    run = call(compiled, "transpose_float", x, np.zeros(1024, np.uint8), y, 16, 16, 1, 1)
    assert [f.code for f in run.findings if f.severity == "error"].count("transpose-type") == 1
    assert not y.any()


def test_the_least_space_is_enough_and_a_block_less_is_not(compiled: KernelFile) -> None:
    n, c, hw, g = 2, 6, 32, 3
    z = np.zeros(16, np.int32)
    call(compiled, "host", z, n, c, 4, hw // 4, g)
    batch, most, group, b, features, *shape = (int(v) for v in z[:9])
    assert (b, features, shape) == (n, c * hw, [n, c, hw, g])
    assert batch < most
    x, vector = random(np.float32, n, c, hw), random(np.float32, 16)
    for space, expected in ((batch, set()), (batch - 32, {"temporary-space-too-small"})):
        operands = [
            x,
            np.zeros_like(x),
            np.zeros(c * hw, np.float32),
            np.zeros(c * hw, np.float32),
            vector,
            vector.copy(),
        ]
        assert mistakes(call(compiled, "batch_float", *operands, np.zeros(space, np.uint8), n, c * hw)) == expected
    for space, expected in ((group, set()), (group - 32, {"temporary-space-too-small"})):
        operands = [x, np.zeros_like(x), np.zeros(16, np.float32), np.zeros(16, np.float32), vector, vector.copy()]
        assert mistakes(call(compiled, "group_float", *operands, np.zeros(space, np.uint8), n, c, hw, g)) == expected
    for name, t, least in (("Lgamma", np.float32, int(z[9])), ("Digamma", np.float16, int(z[11]))):
        for space, expected in ((least, set()), (least - 32, {"temporary-space-too-small"})):
            y = np.ones(64, t)
            assert (
                mistakes(call(compiled, f"{name}_{CPP[t]}", y, np.zeros(space, np.uint8), y.copy(), 1, 64)) == expected
            )
