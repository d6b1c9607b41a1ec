"""Tile kernels: level A equals the emitted Ascend C bit for bit, and both are right."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import numpy as np
import pytest

EXAMPLE = Path(__file__).parents[2] / "examples" / "09_tile" / "kernels.py"


def example() -> Any:
    """The bundled kernels."""
    spec = importlib.util.spec_from_file_location("tile_kernels", EXAMPLE)
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


KERNELS = example()


def both(kernel: Any, inputs: list[np.ndarray], out: np.ndarray, **options: Any) -> np.ndarray:
    """What level A gives, after checking that the emitted kernel gives the same bits and no finding."""
    level_a, emitted = out.copy(), out.copy()
    kernel(*inputs, level_a, **options)
    run = kernel.run(*inputs, emitted, **options)
    assert level_a.tobytes() == emitted.tobytes()
    assert [f.code for f in run.findings if f.severity != "advice"] == []
    assert run.timeline.microseconds > 0
    return level_a


@pytest.mark.parametrize("n", [1, 7, 64, 8192, 100_003])
def test_add_of_any_length(n: int) -> None:
    rng = np.random.default_rng(n)
    x, y = rng.standard_normal((2, n), dtype=np.float32)
    assert np.array_equal(both(KERNELS.add, [x, y], np.zeros(n, np.float32)), x + y)


@pytest.mark.parametrize("shape", [(1, 1), (37, 1000), (9, 64), (5, 5001), (3, 1025)])
def test_softmax_resident_and_in_pieces(shape: tuple[int, int]) -> None:
    x = np.random.default_rng(0).normal(0, 3, shape).astype(np.float32)
    e = np.exp(x.astype(np.float64) - x.max(1, keepdims=True))
    got = both(KERNELS.softmax, [x], np.zeros(shape, np.float32))
    assert np.abs(got - e / e.sum(1, keepdims=True)).max() < 1e-6


@pytest.mark.parametrize("shape", [(1, 1), (11, 1003), (9, 17), (3, 2050)])
def test_rms_norm_mixes_element_types(shape: tuple[int, int]) -> None:
    rng = np.random.default_rng(1)
    x, g = rng.standard_normal(shape).astype(np.float16), rng.standard_normal(shape[1]).astype(np.float16)
    got = both(KERNELS.rms_norm, [x, g], np.zeros(shape, np.float16))
    x64 = x.astype(np.float64)
    want = x64 / np.sqrt((x64**2).mean(1, keepdims=True) + 1e-6) * g
    assert np.abs(got - want).max() < 1e-2 * max(1.0, np.abs(want).max())


@pytest.mark.parametrize("shape", [(1, 1, 1), (200, 130, 301), (128, 64, 256), (17, 100, 33), (2, 16, 300)])
def test_matmul_of_any_shape(shape: tuple[int, int, int]) -> None:
    m, k, n = shape
    rng = np.random.default_rng(2)
    a, b = rng.standard_normal((m, k)).astype(np.float16), rng.standard_normal((k, n)).astype(np.float16)
    got = both(KERNELS.matmul, [a, b], np.zeros((m, n), np.float32))
    assert np.allclose(got, a.astype(np.float64) @ b.astype(np.float64), atol=1e-4 * k)


@pytest.mark.parametrize("shape", [(1, 1, 1), (100, 300, 270), (70, 64, 33)])
def test_layernorm_hands_over_to_a_product(shape: tuple[int, int, int]) -> None:
    m, k, n = shape
    rng = np.random.default_rng(3)
    x, w = rng.standard_normal((m, k)).astype(np.float16), rng.standard_normal((k, n)).astype(np.float16)
    g, b = rng.standard_normal((2, k)).astype(np.float16)
    got = both(KERNELS.ln_gemm, [x, g, b, w], np.zeros((m, n), np.float16))
    x64 = x.astype(np.float64)
    h = (x64 - x64.mean(1, keepdims=True)) / np.sqrt(x64.var(1, keepdims=True) + 1e-5) * g + b
    assert np.allclose(got, h @ w, rtol=1e-2, atol=2e-3 * k)


@pytest.mark.parametrize("shape", [(1, 1, 1), (100, 70, 270)])
def test_vector_work_on_a_sum_that_the_cube_hands_over(shape: tuple[int, int, int]) -> None:
    m, k, n = shape
    rng = np.random.default_rng(4)
    a, w = rng.standard_normal((m, k)).astype(np.float16), rng.standard_normal((k, n)).astype(np.float16)
    b = rng.standard_normal(n, dtype=np.float32)
    got = both(KERNELS.linear_gelu, [a, w, b], np.zeros((m, n), np.float16))
    z = a.astype(np.float64) @ w + b
    assert np.allclose(got, z / (1 + np.exp(-1.702 * z)), rtol=2e-3, atol=2e-3)


@pytest.mark.slow
@pytest.mark.parametrize("shape", [(1, 1, 1), (300, 100, 600)])
def test_row_softmax_of_a_product(shape: tuple[int, int, int]) -> None:
    m, k, n = shape
    rng = np.random.default_rng(5)
    a, w = (
        rng.standard_normal((m, k)).astype(np.float16),
        rng.standard_normal((k, n)).astype(np.float16) / np.float16(8),
    )
    got = both(KERNELS.linear_softmax, [a, w], np.zeros((m, n), np.float32))
    e = np.exp(a.astype(np.float64) @ w)
    assert np.allclose(got, e / e.sum(1, keepdims=True), atol=1e-5)


@pytest.mark.slow
def test_embedding_of_the_examples() -> None:
    rng = np.random.default_rng(6)
    ids, table = rng.integers(0, 50, 77).astype(np.int32), rng.standard_normal((50, 1100)).astype(np.float16)
    assert np.array_equal(both(KERNELS.embedding, [ids, table], np.zeros((77, 1100), np.float16)), table[ids])
