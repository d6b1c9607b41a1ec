"""AscendQuant, AscendDequant and AscendAntiQuant against NumPy."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

from tests.ascendc.harness import kernels
from tests.ascendc.ub_kernel import FRAME, Oracle, call, mistakes, ub_kernel
from toprope.kernel import KernelFile

CPP = {np.float16: "half", np.float32: "float", ml_dtypes.bfloat16: "bfloat16_t"}


def quantised(x: np.ndarray, scale: Any, offset: Any) -> np.ndarray:
    """In half, as the page describes: every step rounds to half, the last one to the nearest whole number, ties to even."""
    h = x.astype(np.float16)
    h = (
        (h.astype(np.float32) * np.float32(np.float16(scale))).astype(np.float16)
        if np.isscalar(scale)
        else (h.astype(np.float32) * scale.astype(np.float16).astype(np.float32)).astype(np.float16)
    )
    h = (h.astype(np.float32) + np.asarray(offset).astype(np.float16).astype(np.float32)).astype(np.float16)
    return np.clip(np.rint(h), -128, 127).astype(np.int8)


ORACLES: dict[str, Oracle] = {
    "AscendQuant": quantised,
    "AscendDequant": lambda x, scale: x.astype(np.float32) * scale,
    "AscendAntiQuant": lambda x, offset, scale: (x + offset) * scale,
}


def text() -> str:
    out = FRAME
    for c in ("half", "float"):
        four = {"x": c, "s": c, "o": c, "t": "uint8_t", "y": "int8_t"}
        body = f"""if (form == 0) AscendQuant<{c}>(y, x, t, 2.5f, -3.0f, (uint32_t)n); else if (form == 1) AscendQuant<{c}>(y, x, 2.5f, -3.0f, (uint32_t)n);
        else if (form == 2) AscendQuant<{c}>(y, x, t, s, {c}(4.0f), (uint32_t)columns, (uint32_t)n); else AscendQuant<{c}>(y, x, t, s, o, (uint32_t)columns, (uint32_t)columns, (uint32_t)n);"""
        out += ub_kernel(f"run_quant_{c}", four, body, ["form", "columns", "n"])
    for c in CPP.values():
        four = {"x": "int32_t", "s": "float", "u": "uint64_t", "t": "uint8_t", "y": c}
        body = f"""DequantParams p{{(uint32_t)m, (uint32_t)n, (uint32_t)k}};
        if (form == 0) AscendDequant<{c}, float>(y, x, s, t, p); else if (form == 1) AscendDequant<{c}, uint64_t>(y, x, u, t, p); else AscendDequant<{c}, float>(y, x, 0.125f, p);"""
        out += ub_kernel(f"run_dequant_{c}", four, body, ["m", "n", "k", "form"])
    for c in ("half", "bfloat16_t"):
        four = {"x": "int8_t", "o": c, "s": c, "t": "uint8_t", "y": c}
        body = f"""AntiQuantShapeInfo wide{{(uint32_t)groups, (uint32_t)n, (uint32_t)groups, (uint32_t)n}}, tall{{(uint32_t)m, 1, (uint32_t)m, 1}};
        if (form == 0) AscendAntiQuant<int8_t, {c}, false>(y, x, o, s, t, m, wide); else if (form == 1) AscendAntiQuant<int8_t, {c}, false>(y, x, s, t, m, wide);
        else if (form == 2) AscendAntiQuant<int8_t, {c}, true>(y, x, o, s, t, n, tall); else AscendAntiQuant<int8_t, {c}, false>(y, x, {c}(3.0f), {c}(0.5f), t, n);"""
        out += ub_kernel(f"run_anti_{c}", four, body, ["m", "n", "groups", "form"])
    return out


@pytest.fixture(scope="module")
def compiled() -> KernelFile:
    return kernels(text(), "lib_quant")


@pytest.mark.parametrize("dtype", [np.float16, np.float32])
@pytest.mark.parametrize("form", range(4))
def test_to_int8(compiled: KernelFile, dtype: Any, form: int) -> None:
    rng = np.random.default_rng(form)
    x, s, o = (
        (rng.standard_normal(1024) * 30).astype(dtype),
        rng.uniform(0.5, 2, 64).astype(dtype),
        rng.uniform(-9, 9, 64).astype(dtype),
    )
    y = np.zeros(1024, np.int8)
    run = call(compiled, f"run_quant_{CPP[dtype]}", x, s, o, np.zeros(1024, np.uint8), y, form, 64, 960)
    assert not mistakes(run)
    scale, offset = (2.5, -3.0) if form < 2 else (np.tile(s, 15), 4.0 if form == 2 else np.tile(o, 15))
    np.testing.assert_array_equal(y[:960], quantised(x[:960], scale, offset))
    assert not y[960:].any()


@pytest.mark.parametrize("dtype", CPP)
@pytest.mark.parametrize("shape", [(4, 16, 16), (3, 24, 11), (1, 64, 16)])
@pytest.mark.parametrize("form", range(3))
def test_from_int32(compiled: KernelFile, dtype: Any, shape: tuple[int, int, int], form: int) -> None:
    m, n, k = shape
    rng = np.random.default_rng(form)
    x, s = rng.integers(-500, 500, (m, n)).astype(np.int32), rng.uniform(0.01, 0.2, 64).astype(np.float32)
    u = s.view(np.uint32).astype(np.uint64) | np.uint64(0xABC0000000000000)  # the high word is not part of the scale
    per = 32 // np.dtype(dtype).itemsize
    width = -(-n // per) * per
    y = np.zeros((m, width), dtype)
    run = call(compiled, f"run_dequant_{CPP[dtype]}", x, s, u, np.zeros(2048, np.uint8), y, m, n, k, form)
    assert not mistakes(run)
    scale = np.float32(0.125) if form == 2 else s[:k]
    if m == 1:  # one row of n / k groups
        np.testing.assert_array_equal(
            y.reshape(-1)[:n].reshape(-1, k), (x.reshape(-1, k) * scale).astype(np.float32).astype(dtype)
        )
    else:
        np.testing.assert_array_equal(y[:, :k], (x[:, :k] * scale).astype(np.float32).astype(dtype))
        assert not y[:, k:].astype(np.float32).any()


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16])
@pytest.mark.parametrize("form", range(4))
def test_from_int8(compiled: KernelFile, dtype: Any, form: int) -> None:
    m, n, groups = 8, 64, 2
    rng = np.random.default_rng(form)
    x = rng.integers(-128, 128, (m, n)).astype(np.int8)
    o, s = rng.integers(-9, 9, (groups, n)).astype(dtype), rng.uniform(0.01, 0.2, (groups, n)).astype(dtype)
    y = np.zeros((m, n), dtype)
    run = call(compiled, f"run_anti_{CPP[dtype]}", x, o, s, np.zeros(4096, np.uint8), y, m, n, groups, form)
    assert not mistakes(run)
    of, sf = o.astype(np.float64), s.astype(np.float64)
    if form == 0:
        expected = (x + of.repeat(m // groups, 0)) * sf.repeat(m // groups, 0)
    elif form == 1:
        expected = x * sf.repeat(m // groups, 0)
    elif form == 2:
        expected = (x + of.reshape(-1)[:m, None]) * sf.reshape(-1)[:m, None]
    else:
        expected = (x + 3.0) * 0.5
    np.testing.assert_allclose(y.astype(np.float64), expected, rtol=1e-3 if dtype is np.float16 else 8e-3)
