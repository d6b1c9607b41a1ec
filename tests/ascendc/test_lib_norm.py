"""Normalisation whose statistics come or go separately, Welford's running statistics, and the gradients of LayerNorm."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.ascendc.harness import kernels
from tests.ascendc.ub_kernel import FRAME, Oracle, call, mistakes, ub_kernel
from toprope.kernel import KernelFile

EPSILON = 1e-3


def layer_norm(x: np.ndarray, gamma: Any, beta: Any) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    mean, variance = x.mean(-1, keepdims=True), x.var(-1, keepdims=True)
    rstd = 1 / np.sqrt(variance + EPSILON)
    return (x - mean) * rstd * gamma + beta, mean, rstd


def normalize(x: np.ndarray, mean: np.ndarray, variance: np.ndarray, gamma: Any, beta: Any) -> np.ndarray:
    return (x - mean) / np.sqrt(variance + EPSILON) * gamma + beta


def gradient(dy: np.ndarray, x: np.ndarray, variance: np.ndarray, mean: np.ndarray, gamma: np.ndarray) -> Any:
    n = x.shape[1]
    g, c, d = dy * gamma, x - mean, (variance + EPSILON) ** -0.5
    pv = (-0.5 * g * c * d**3).sum(-1, keepdims=True)
    pm = (-g * d).sum(-1, keepdims=True) + pv / n * (-2 * c).sum(-1, keepdims=True)
    return g * d + pv * 2 / n * c + pm / n, c * d


ORACLES: dict[str, Oracle] = {
    "Normalize": normalize,
    "DeepNorm": lambda x, gx, alpha, gamma, beta: layer_norm(alpha * x + gx, gamma, beta),
    "WelfordUpdate": lambda x, mean, m, share: (
        (new := mean + (x - mean) * share),
        m + (x - mean) * (x - new),
    ),
    "WelfordFinalize": lambda mean, m, count: (
        (whole := (count * mean).sum() / count.sum()),
        (m + count * (mean - whole) ** 2).sum() / count.sum(),
    ),
    "LayerNormGrad": gradient,
    "LayerNormGradBeta": lambda res, dy: ((res * dy).sum(0), dy.sum(0)),
    "LogSoftMax": lambda x: (
        (x - x.max(-1, keepdims=True)) / np.log(10)
        - np.log10(np.exp(x - x.max(-1, keepdims=True)).sum(-1, keepdims=True))
    ),
}
CPP = {np.float16: "half", np.float32: "float"}
SHAPES = [(5, 16, 16, 16384), (13, 64, 61, 16384), (40, 80, 80, 24576), (2, 2048, 2048, 65536)]


def text() -> str:
    out = (
        FRAME
        + "constexpr LayerNormConfig kPlain = {true, true, false, false};\nconstexpr WelfordUpdateConfig kInPlace = {true};\n"
    )
    out += "struct Sizes { uint32_t bLength, sLength, hLength, originalHLength, srcM, srcK; };\n"
    sizes = "Sizes tiling{1, (uint32_t)m, (uint32_t)k, (uint32_t)n, (uint32_t)m, (uint32_t)k};"
    for c in CPP.values():
        rows = {"x": c, "y": c, "mean": "float", "other": "float", "gamma": c, "beta": c, "t": "uint8_t"}
        out += ub_kernel(
            f"LayerNorm_{c}",
            rows,
            f"{sizes} LayerNormPara p{{(uint32_t)m, (uint32_t)n, (uint32_t)k}}; if (plain) LayerNorm<{c}, {c}, false, kPlain>(y, mean, other, x, gamma, beta, 1e-3f, t, p, tiling); else LayerNorm<{c}, {c}>(y, mean, other, x, gamma, beta, 1e-3f, t, p, tiling);",
            ["m", "k", "n", "plain"],
        )
        out += ub_kernel(
            f"Normalize_{c}",
            {**rows, "rstd": "float"},
            f"NormalizePara p{{(uint32_t)m, (uint32_t)n, (uint32_t)k}}; Normalize<{c}, {c}>(y, rstd, mean, other, x, gamma, beta, t, 1e-3f, p);",
            ["m", "k", "n"],
        )
        same = {name: (c if kind == "float" else kind) for name, kind in rows.items()}
        out += ub_kernel(
            f"DeepNorm_{c}",
            {**same, "gx": c},
            f"{sizes} DeepNorm<{c}>(y, mean, other, x, gx, beta, gamma, t, {c}(0.5f), {c}(1e-3f), tiling);",
            ["m", "k", "n"],
        )
        out += ub_kernel(
            f"Grad_{c}",
            {"dx": c, "res": c, "dy": c, "x": c, "variance": c, "mean": c, "gamma": c, "t": "uint8_t"},
            f"{sizes} LayerNormGrad<{c}>(dx, res, dy, x, variance, mean, gamma, t, {c}(1e-3f), tiling);",
            ["m", "k", "n"],
        )
        out += ub_kernel(
            f"GradBeta_{c}",
            {"dgamma": c, "dbeta": c, "res": c, "dy": c, "t": "uint8_t"},
            f"{sizes} LayerNormGradBeta<{c}>(dgamma, dbeta, res, dy, t, tiling);",
            ["m", "k", "n"],
        )
        out += ub_kernel(
            f"Update_{c}",
            {"x": c, "mean": "float", "m": "float", "new_mean": "float", "new_m": "float", "t": "uint8_t"},
            f"WelfordUpdateParam p{{1, (uint32_t)all, (uint32_t)n, 0.25f}}; WelfordUpdate<{c}, float, false, kInPlace>(new_mean, new_m, mean, m, x, t, p);",
            ["all", "n"],
        )
        out += ub_kernel(
            f"Log_{c}",
            {"x": c, "y": c, "a": c, "b": c, "t": "uint8_t"},
            f"{sizes} SoftMaxShapeInfo info{{(uint32_t)m, (uint32_t)k, (uint32_t)m, (uint32_t)n}}; LogSoftMax<{c}>(y, b, a, x, t, tiling, info);",
            ["m", "k", "n"],
        )
    out += ub_kernel(
        "Finalize",
        {"mean": "float", "m": "float", "count": "int32_t", "a": "float", "b": "float", "t": "uint8_t"},
        "WelfordFinalizePara p{3, (uint32_t)n, (uint32_t)head, (uint32_t)head_n, (uint32_t)tail, (uint32_t)(n - head_n), 1.f / n, 1.f / total, 0}; if (counted) WelfordFinalize(a, b, mean, m, count, t, p); else WelfordFinalize(a, b, mean, m, t, p);",
        ["n", "head", "head_n", "tail", "total", "counted"],
    )
    return out


@pytest.fixture(scope="module")
def compiled() -> KernelFile:
    return kernels(text(), "lib_norm")


def matrix(t: Any, m: int, k: int, n: int, seed: int = 0) -> np.ndarray:
    x = (np.random.default_rng(seed).standard_normal((m, k)) * 2 + 1).astype(t)
    x[:, n:] = 0
    return x


def wide(x: np.ndarray) -> np.ndarray:
    return x.astype(np.float64)


def packed(values: np.ndarray, t: Any) -> np.ndarray:
    out = np.zeros((values.size + 15) // 16 * 16, t)
    out[: values.size] = values.ravel()
    return out


def close(got: np.ndarray, expected: np.ndarray) -> None:
    rtol, atol = (2e-5, 2e-5) if got.dtype == np.float32 else (4e-3, 4e-3)
    np.testing.assert_allclose(got.astype(np.float64), expected, rtol=rtol, atol=atol)


@pytest.mark.parametrize("t", CPP)
@pytest.mark.parametrize("shape", SHAPES)
def test_layer_norm_with_the_reciprocal_deviation(compiled: KernelFile, t: Any, shape: Any) -> None:
    m, k, n, tmp = shape
    x, gamma, beta = matrix(t, m, k, n), matrix(t, 1, k, n, 1)[0], matrix(t, 1, k, n, 2)[0]
    for plain in (0, 1):
        y, mean, other = np.zeros_like(x), packed(np.zeros(m), np.float32), packed(np.zeros(m), np.float32)
        run = call(
            compiled, f"LayerNorm_{CPP[t]}", x, y, mean, other, gamma, beta, np.zeros(tmp, np.uint8), m, k, n, plain
        )
        assert not mistakes(run)
        scale = (1.0, 0.0) if plain else (wide(gamma)[:n], wide(beta)[:n])
        expected, middle, rstd = layer_norm(wide(x)[:, :n], *scale)
        close(y[:, :n], expected)
        close(mean[:m], middle[:, 0])
        close(other[:m], wide(x)[:, :n].var(-1) if plain else rstd[:, 0])


@pytest.mark.parametrize("t", CPP)
@pytest.mark.parametrize("shape", SHAPES)
def test_normalize_and_deep_norm(compiled: KernelFile, t: Any, shape: Any) -> None:
    m, k, n, tmp = shape
    x, gx, y = matrix(t, m, k, n), matrix(t, m, k, n, 5), np.zeros((m, k), t)
    gamma, beta = matrix(t, 1, k, n, 1)[0], matrix(t, 1, k, n, 2)[0]
    mean, variance = np.linspace(-1, 1, m)[:, None], np.linspace(0.5, 3, m)[:, None]
    rstd, space = packed(np.zeros(m), np.float32), np.zeros(tmp, np.uint8)
    given = packed(mean, np.float32), packed(variance, np.float32)
    run = call(compiled, f"Normalize_{CPP[t]}", x, y, *given, gamma, beta, space, rstd, m, k, n)
    assert not mistakes(run)
    close(y[:, :n], normalize(wide(x)[:, :n], mean, variance, wide(gamma)[:n], wide(beta)[:n]))
    close(rstd[:m], (1 / np.sqrt(variance + EPSILON))[:, 0])

    outputs = packed(np.zeros(m), t), packed(np.zeros(m), t)
    run = call(compiled, f"DeepNorm_{CPP[t]}", x, y, *outputs, gamma, beta, space, gx, m, k, n)
    assert not mistakes(run)
    data = wide(x)[:, :n], wide(gx)[:, :n], 0.5, wide(gamma)[:n], wide(beta)[:n]
    expected, middle, deviation = ORACLES["DeepNorm"](*data)
    close(y[:, :n], expected)
    close(outputs[0][:m], middle[:, 0])
    close(outputs[1][:m], deviation[:, 0])


@pytest.mark.parametrize("t", CPP)
@pytest.mark.parametrize("shape", SHAPES[:3])
def test_gradients(compiled: KernelFile, t: Any, shape: Any) -> None:
    m, k, n, tmp = shape
    tmp *= 2
    dy, x, gamma = matrix(t, m, k, n, 3), matrix(t, m, k, n, 4), matrix(t, 1, k, n, 5)[0]
    mean, variance = np.linspace(-1, 1, m)[:, None].astype(t), np.linspace(0.5, 3, m)[:, None].astype(t)
    dx, res = np.zeros_like(x), np.zeros_like(x)
    run = call(
        compiled,
        f"Grad_{CPP[t]}",
        dx,
        res,
        dy,
        x,
        packed(variance, t),
        packed(mean, t),
        gamma,
        np.zeros(tmp, np.uint8),
        m,
        k,
        n,
    )
    assert not mistakes(run)
    given = wide(dy)[:, :n], wide(x)[:, :n], wide(variance), wide(mean), wide(gamma)[:n]
    expected, expected_res = gradient(*given)
    np.testing.assert_allclose(wide(dx)[:, :n], expected, rtol=1e-2, atol=2e-2 if t is np.float16 else 1e-4)
    close(res[:, :n], expected_res)

    dgamma, dbeta = np.zeros(k, t), np.zeros(k, t)
    run = call(compiled, f"GradBeta_{CPP[t]}", dgamma, dbeta, res, dy, np.zeros(tmp, np.uint8), m, k, n)
    assert not mistakes(run)
    for got, want in zip((dgamma, dbeta), ORACLES["LayerNormGradBeta"](wide(res), wide(dy)), strict=True):
        np.testing.assert_allclose(wide(got), want, rtol=2e-3, atol=1e-2 if t is np.float16 else 1e-4)


@pytest.mark.parametrize("t", CPP)
@pytest.mark.parametrize("n", [64, 100, 1000])
def test_running_statistics(compiled: KernelFile, t: Any, n: int) -> None:
    rng = np.random.default_rng(n)
    total = 1024
    x = rng.standard_normal(total).astype(t)
    mean, m = rng.standard_normal((2, total)).astype(np.float32)
    m = np.abs(m)
    new_mean, new_m = np.zeros_like(mean), np.zeros_like(m)
    run = call(compiled, f"Update_{CPP[t]}", x, mean, m, new_mean, new_m, np.zeros(2048, np.uint8), total, n)
    assert not mistakes(run)
    expected = ORACLES["WelfordUpdate"](wide(x)[:n], wide(mean)[:n], wide(m)[:n], 0.25)
    close(new_mean[:n], expected[0])
    close(new_m[:n], expected[1])
    whole = (n + 7) // 8 * 8
    assert np.array_equal(new_mean[whole:], mean[whole:]) and np.array_equal(new_m[whole:], m[whole:])


@pytest.mark.parametrize("counted", [0, 1])
@pytest.mark.parametrize("head", [256, 100, 0])
def test_final_statistics(compiled: KernelFile, head: int, counted: int) -> None:
    n = 256
    rng = np.random.default_rng(head)
    mean, m = rng.standard_normal((2, n)).astype(np.float32)
    m = np.abs(m)
    count = np.where(np.arange(n) < head, 3, 2).astype(np.int32)
    a, b = np.zeros(8, np.float32), np.zeros(8, np.float32)
    run = call(
        compiled,
        "Finalize",
        mean,
        m,
        count,
        a,
        b,
        np.zeros(8192, np.uint8),
        n,
        3,
        head,
        2,
        int(count.sum()),
        counted,
    )
    assert not mistakes(run)
    expected = ORACLES["WelfordFinalize"](wide(mean), wide(m), count)
    np.testing.assert_allclose([a[0], b[0]], expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("t", CPP)
def test_logarithm_of_softmax(compiled: KernelFile, t: Any) -> None:
    m, k, n = 13, 64, 61
    x = matrix(t, m, k, k)
    y, a, b = np.zeros_like(x), np.zeros((m, 32 // x.itemsize), t), np.zeros((m, 32 // x.itemsize), t)
    run = call(compiled, f"Log_{CPP[t]}", x, y, a, b, np.zeros(32768, np.uint8), m, k, n)
    assert not mistakes(run)
    close(y[:, :n], ORACLES["LogSoftMax"](wide(x)[:, :n]))
    close(a[:, 0], wide(x)[:, :n].max(-1))
