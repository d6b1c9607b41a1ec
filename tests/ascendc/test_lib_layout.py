"""Broadcast, Select with a byte mask, Arange, LayerNorm and RmsNorm against NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.ascendc.harness import kernels
from tests.ascendc.ub_kernel import FRAME, Oracle, call, mistakes, random_of, ub_kernel
from toprope.kernel import KernelFile

CPP = {np.float16: "half", np.float32: "float"}
SPREAD = {
    np.uint8: "uint8_t",
    np.int8: "int8_t",
    np.int16: "int16_t",
    np.float16: "half",
    np.float32: "float",
    np.int32: "int32_t",
}
MASKS = {np.uint8: "uint8_t", np.bool_: "bool", np.int16: "int16_t", np.int32: "int32_t"}


def layer_norm(
    x: np.ndarray, gamma: np.ndarray, beta: np.ndarray, epsilon: float
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    mean, variance = x.mean(-1), x.var(-1)
    return (x - mean[:, None]) / np.sqrt(variance[:, None] + epsilon) * gamma + beta, mean, variance


ORACLES: dict[str, Oracle] = {
    "Broadcast": np.broadcast_to,
    "BroadCast": np.broadcast_to,
    "SelectWithBytesMask": lambda mask, a, b: np.where(mask == 0, a, b),
    "Arange": lambda first, step, n: first + step * np.arange(n),
    "LayerNorm": layer_norm,
    "RmsNorm": lambda x, gamma, epsilon: x / np.sqrt((x**2).mean(-1, keepdims=True) + epsilon) * gamma,
}


def text() -> str:
    out = FRAME
    for c in SPREAD.values():
        body = f"uint32_t d[2] = {{(uint32_t)m, (uint32_t)k}}, s[2] = {{axis ? (uint32_t)m : 1u, axis ? 1u : (uint32_t)k}}; if (axis) BroadCast<{c}, 2, 1>(y, x, d, s, t); else Broadcast<{c}, 2, 0>(y, x, d, s);"
        out += ub_kernel(f"run_broadcast_{c}", {"x": c, "t": "uint8_t", "y": c}, body, ["m", "k", "axis"])
    for c in CPP.values():
        for u in MASKS.values():
            info = (
                "SelectWithBytesMaskShapeInfo info; info.firstAxis = m; info.srcLastAxis = k; info.maskLastAxis = mk;"
            )
            out += ub_kernel(
                f"run_select_{c}_{u}",
                {"x": c, "q": u, "t": "uint8_t", "y": c},
                f"{info} if (swap) Select(y, {c}(5.0f), x, q, t, info); else SelectWithBytesMask(y, x, {c}(5.0f), q, t, info);",
                ["m", "k", "mk", "swap"],
            )
        six = {"x": c, "g": c, "b": c, "t": "uint8_t", "y": c, "a": c, "v": c}
        out += ub_kernel(
            f"run_layer_norm_{c}",
            six,
            f"LayerNormTiling tiling; tiling.bLength = 1; tiling.sLength = m; tiling.hLength = k; tiling.originalHLength = n; LayerNorm(y, a, v, x, g, b, t, {c}(1e-3f), tiling);",
            ["m", "k", "n"],
        )
        out += ub_kernel(
            f"run_rms_norm_{c}",
            six,
            f"RmsNormTiling tiling; tiling.bLength = 1; tiling.sLength = m; tiling.hLength = k; tiling.originalHLength = n; RmsNorm(y, x, g, t, {c}(1e-3f), tiling);",
            ["m", "k", "n"],
        )
        out += ub_kernel(f"run_arange_{c}", {"y": c}, f"Arange(y, {c}(1.0f), {c}(2.0f), n);", ["n"])
    return out


@pytest.fixture(scope="module")
def compiled() -> KernelFile:
    return kernels(text(), "lib_layout")


@pytest.mark.parametrize("dtype", SPREAD)
@pytest.mark.parametrize("shape", [(5, 64), (7, 13), (64, 1)])
@pytest.mark.parametrize("axis", [0, 1])
def test_broadcast(compiled: KernelFile, dtype: Any, shape: tuple[int, int], axis: int) -> None:
    m, k = shape
    x = random_of(dtype, 64, 1)
    y = np.zeros(-(-m * k // 32) * 32, dtype)
    run = call(compiled, f"run_broadcast_{SPREAD[dtype]}", x, np.zeros(8192, np.uint8), y, m, k, axis)
    assert not mistakes(run)
    np.testing.assert_array_equal(
        y[: m * k].reshape(m, k), np.broadcast_to(x[:m, None] if axis else x[None, :k], (m, k))
    )


@pytest.mark.parametrize("dtype", CPP)
@pytest.mark.parametrize("mask_dtype", MASKS)
@pytest.mark.parametrize("swap", [0, 1])
def test_select_by_bytes(compiled: KernelFile, dtype: Any, mask_dtype: Any, swap: int) -> None:
    m, k, mk = 5, 48, 64
    x, y = random_of(dtype, m * k, 2).reshape(m, k), np.zeros((m, k), dtype)
    q = np.random.default_rng(1).integers(0, 2, (m, mk)).astype(mask_dtype)
    if mask_dtype is not np.bool_:
        q = (q * 77).astype(mask_dtype)
    run = call(
        compiled, f"run_select_{CPP[dtype]}_{MASKS[mask_dtype]}", x, q, np.zeros(1024, np.uint8), y, m, k, mk, swap
    )
    assert not mistakes(run)
    mask = q[:, :k]
    np.testing.assert_array_equal(y, np.where(mask == 0, 5, x) if swap else np.where(mask == 0, x, 5))


@pytest.mark.parametrize("dtype", CPP)
@pytest.mark.parametrize("shape", [(5, 64, 64, 65536), (13, 144, 130, 8192), (2, 2048, 2047, 40000)])
def test_norms(compiled: KernelFile, dtype: Any, shape: tuple[int, int, int, int]) -> None:
    m, k, n, tmp = shape
    rng = np.random.default_rng(3)
    x, g, b = (
        (rng.standard_normal((m, k)) * 2 + 1).astype(dtype),
        rng.uniform(0.5, 2, k).astype(dtype),
        rng.standard_normal(k).astype(dtype),
    )
    y, a, v = np.zeros((m, k), dtype), np.zeros(16, dtype), np.zeros(16, dtype)
    rtol, atol = (2e-3, 3e-3) if dtype is np.float16 else (2e-5, 2e-5)
    xf, gf, bf = x[:, :n].astype(np.float64), g[:n].astype(np.float64), b[:n].astype(np.float64)
    space = np.zeros(tmp // 32 * 32, np.uint8)
    run = call(compiled, f"run_layer_norm_{CPP[dtype]}", x, g, b, space, y, a, v, m, k, n)
    assert not mistakes(run)
    expected, mean, variance = layer_norm(xf, gf, bf, 1e-3)
    np.testing.assert_allclose(y[:, :n], expected, rtol=rtol, atol=atol)
    np.testing.assert_allclose(a[:m], mean, rtol=rtol, atol=atol)
    np.testing.assert_allclose(v[:m], variance, rtol=rtol, atol=atol)
    run = call(compiled, f"run_rms_norm_{CPP[dtype]}", x, g, b, space, y, a, v, m, k, n)
    assert not mistakes(run)
    np.testing.assert_allclose(y[:, :n], ORACLES["RmsNorm"](xf, gf, 1e-3), rtol=rtol, atol=atol)


@pytest.mark.parametrize("dtype", CPP)
def test_arange(compiled: KernelFile, dtype: Any) -> None:
    y = np.zeros(112, dtype)
    assert not mistakes(call(compiled, f"run_arange_{CPP[dtype]}", y, 100))
    np.testing.assert_array_equal(y[:100], ORACLES["Arange"](1, 2, 100))
