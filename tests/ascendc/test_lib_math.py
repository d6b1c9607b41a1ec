"""Mathematical and activation functions of the advanced library against NumPy, in pieces and at once."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from tests.ascendc.harness import kernels
from tests.ascendc.ub_kernel import FRAME, Oracle, call, mistakes, ub_kernel
from toprope.kernel import KernelFile

CPP = {np.float16: "half", np.float32: "float"}
erf = np.vectorize(math.erf)
erfc = np.vectorize(math.erfc)


def sigmoid(x: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(-x))


def gelu(x: np.ndarray) -> np.ndarray:
    return x * sigmoid(1.59576912 * (x + 0.044715 * x**3))


def faster_gelu_v2(x: np.ndarray) -> np.ndarray:
    return x * (np.sign(x) * (-0.1444 * (np.minimum(np.abs(0.70710678 * x), 1.769) - 1.769) ** 2 + 0.5) + 0.5)


# name -> (oracle, low, high) of the arguments
UNARY: dict[str, tuple[Oracle, float, float]] = {
    "Log": (np.log, 0.01, 100),
    "Log2": (np.log2, 0.01, 100),
    "Log10": (np.log10, 0.01, 100),
    "Floor": (np.floor, -50, 50),
    "Ceil": (np.ceil, -50, 50),
    "Trunc": (np.trunc, -50, 50),
    "Round": (np.rint, -50, 50),
    "Rint": (np.rint, -50, 50),
    "Frac": (lambda x: x - np.trunc(x), -50, 50),
    "Sign": (np.sign, -2, 2),
    "Sin": (np.sin, -60, 60),
    "Cos": (np.cos, -60, 60),
    "Tan": (np.tan, -1.4, 1.4),
    "Atan": (np.arctan, -40, 40),
    "Asin": (np.arcsin, -1, 1),
    "Acos": (np.arccos, -1, 1),
    "Sinh": (np.sinh, -6, 6),
    "Cosh": (np.cosh, -6, 6),
    "Tanh": (np.tanh, -12, 12),
    "Asinh": (np.arcsinh, -50, 50),
    "Acosh": (np.arccosh, 1, 50),
    "Atanh": (np.arctanh, -0.9, 0.9),
    "Erf": (erf, -4, 4),
    "Erfc": (erfc, -4, 4),
    "Sigmoid": (sigmoid, -20, 20),
    "Silu": (lambda x: x * sigmoid(x), -20, 20),
    "Gelu": (gelu, -6, 6),
    "FasterGelu": (lambda x: x * sigmoid(1.702 * x), -6, 6),
    "FasterGeluV2": (faster_gelu_v2, -6, 6),
}
BINARY: dict[str, tuple[Oracle, float, float]] = {
    "Fmod": (np.fmod, 0.5, 30),
    "Power": (np.power, 0.2, 4),
    "GeGLU": (lambda a, b: a * gelu(b), -5, 5),
    "ReGlu": (lambda a, b: a * np.maximum(b, 0), -5, 5),
}
ORACLES: dict[str, Oracle] = {n: f for n, (f, _, _) in {**UNARY, **BINARY}.items()} | {
    "Swish": lambda x, beta: x * sigmoid(beta * x),
    "SwiGLU": lambda a, b, beta: a * b * sigmoid(beta * b),
    "ClampMax": np.minimum,
    "ClampMin": np.maximum,
    "Xor": np.bitwise_xor,
    "Exp": np.exp,
    "Axpy": lambda y, x, a: y + a * x,
}


def text(c: str) -> str:
    out = FRAME
    one, two = {"x": c, "t": "uint8_t", "y": c}, {"x": c, "z": c, "t": "uint8_t", "y": c}
    for name in UNARY:
        out += ub_kernel(
            f"run_{name}",
            one,
            f"if (given) {name}(y, x, t, (uint32_t)n); else {name}<{c}>(y, x, (uint32_t)n);",
            ["given", "n"],
        )
    for name in BINARY:
        out += ub_kernel(
            f"run_{name}",
            two,
            f"if (given) {name}(y, x, z, t, (uint32_t)n); else {name}<{c}>(y, x, z, (uint32_t)n);",
            ["given", "n"],
        )
    out += ub_kernel(
        "rest",
        two,
        f"""
        LocalTensor<{c}> o = y;
        Swish<{c}>(o, x, 64, {c}(0.7f));
        SwiGLU<{c}>(o[64], x, z, 0.7f, t, 64u);
        ClampMax<{c}>(o[128], x, t, {c}(0.5f), 64u);
        ClampMin<{c}>(o[192], x, {c}(0.5f), 64u);
        Exp<{c}, 8>(o[256], x, t, 64u);
        Power<{c}>(o[320], z, {c}(3.0f), t, 64u);
        Power<{c}>(o[384], {c}(2.0f), x, t, 64u);
        Adds(o[448], x, {c}(0), 64); Axpy(o[448], z, {c}(2.0f), t, 64u);
        Power<{c}>(o[512], x, z, t, 64u);""",
    )
    if c == "float":
        out += ub_kernel(
            "bits",
            {"x": "int16_t", "z": "int16_t", "t": "uint8_t", "y": "int16_t"},
            "Xor(y, x, z, t, (uint32_t)n);",
            ["n"],
        )
        out += ub_kernel(
            "whole",
            {"x": "int32_t", "z": "int32_t", "t": "uint8_t", "y": "int32_t"},
            "Power(y, x, z, t, (uint32_t)n);",
            ["n"],
        )
    return out


@pytest.fixture(scope="module")
def compiled() -> dict[Any, KernelFile]:
    return {t: kernels(text(c), f"lib_math_{c}") for t, c in CPP.items()}


def close(dtype: Any, got: np.ndarray, expected: np.ndarray) -> None:
    """float: a few units of the largest intermediate; half: one unit of the result."""
    rtol, atol = (4e-6, 2e-6) if dtype is np.float32 else (1.5e-3, 1e-3)
    np.testing.assert_allclose(got.astype(np.float64), expected, rtol=rtol, atol=atol)


@pytest.mark.parametrize("dtype", CPP)
@pytest.mark.parametrize("name", UNARY)
def test_functions_of_one_tensor(compiled: dict[Any, KernelFile], name: str, dtype: Any) -> None:
    oracle, low, high = UNARY[name]
    n = 300
    x = np.resize(np.linspace(low, high, n).astype(dtype), 304)
    for given, tmp in ((1, 6 * 256), (1, 8192), (0, 32)):  # piece by piece, at once, and in what InitBuffer has left
        y = np.full(304, 7, dtype)
        run = call(compiled[dtype], f"run_{name}", x, np.zeros(tmp, np.uint8), y, given, n)
        assert not mistakes(run)
        close(dtype, y[:n], oracle(x[:n].astype(np.float64)))
        assert (y[n:] == 7).all()


@pytest.mark.parametrize("dtype", CPP)
@pytest.mark.parametrize("name", BINARY)
def test_functions_of_two_tensors(compiled: dict[Any, KernelFile], name: str, dtype: Any) -> None:
    oracle, low, high = BINARY[name]
    rng = np.random.default_rng(1)
    n = 300
    x, z = rng.uniform(low, high, (2, 304)).astype(dtype)
    for given, tmp in ((1, 6 * 256), (1, 8192), (0, 32)):
        y = np.full(304, 7, dtype)
        run = call(compiled[dtype], f"run_{name}", x, z, np.zeros(tmp, np.uint8), y, given, n)
        assert not mistakes(run)
        expected = oracle(x[:n].astype(np.float64), z[:n].astype(np.float64))
        close(dtype, y[:n], expected)
        assert (y[n:] == 7).all()


@pytest.mark.parametrize("dtype", CPP)
def test_functions_with_scalars(compiled: dict[Any, KernelFile], dtype: Any) -> None:
    rng = np.random.default_rng(2)
    x, z = rng.uniform(-3, 3, 64).astype(dtype), rng.uniform(0.5, 3, 64).astype(dtype)
    x[:8], z[:8] = [-2, -2, -2, 0, 0, 2, -2, -3], [3, 2, 0.5, 0, 2, 0, -1, 1]
    y = np.zeros(576, dtype)
    run = call(compiled[dtype], "rest", x, z, np.zeros(8192, np.uint8), y)
    assert not mistakes(run)
    a, b = x.astype(np.float64), z.astype(np.float64)
    with np.errstate(invalid="ignore"):
        parts = [
            ORACLES["Swish"](a, 0.7),
            ORACLES["SwiGLU"](a, b, 0.7),
            np.minimum(a, 0.5),
            np.maximum(a, 0.5),
            np.exp(a),
            b**3,
            2.0**a,
            a + 2 * b,
            np.power(a, b),
        ]
    close(dtype, y[:512], np.concatenate(parts[:8]))
    close(dtype, y[512:], parts[8])


def test_integers(compiled: dict[Any, KernelFile]) -> None:
    rng = np.random.default_rng(3)
    x, z = rng.integers(-32768, 32768, (2, 64)).astype(np.int16)
    y = np.zeros(64, np.int16)
    assert not mistakes(call(compiled[np.float32], "bits", x, z, np.zeros(128, np.uint8), y, 64))
    np.testing.assert_array_equal(y, x ^ z)
    base, exponent = rng.integers(-7, 8, 64).astype(np.int32), rng.integers(0, 12, 64).astype(np.int32)
    whole = np.zeros(64, np.int32)
    assert not mistakes(call(compiled[np.float32], "whole", base, exponent, np.zeros(1024, np.uint8), whole, 64))
    np.testing.assert_array_equal(whole, np.power(base, exponent))


def test_too_little_temporary_space_is_a_finding(compiled: dict[Any, KernelFile]) -> None:
    x, y = np.ones(64, np.float32), np.full(64, 7, np.float32)
    run = call(compiled[np.float32], "run_Tanh", x, np.zeros(256, np.uint8), y, 1, 64)
    assert mistakes(run) == {"temporary-space-too-small"}
    assert (y == 7).all()
