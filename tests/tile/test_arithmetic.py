"""Every operation: level A equals the emitted kernel bit for bit at ragged sizes, and both equal float64 NumPy within rounding."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from tests.tile import arithmetic
from tests.tile.test_kernels import both

SIZES = [1, 31, 512, 1777]


def normal(*shape: int, seed: int = 0) -> np.ndarray:
    """Standard normal float32."""
    return np.random.default_rng(seed).standard_normal(shape, dtype=np.float32)


@pytest.mark.parametrize("n", SIZES)
def test_unary_functions_and_macros(n: int) -> None:
    x = normal(n)
    got = both(arithmetic.unary, [x], np.zeros(n, np.float32))
    x = x.astype(np.float64)
    t = np.abs(x) + 0.1
    want = np.log(t) + np.sqrt(t) / np.sqrt(t + 1) - 1 / t + np.maximum(x, 0) + x / (1 + np.exp(-1.702 * x))
    assert np.allclose(got, want, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("n", SIZES)
def test_numbers_and_dimensions_as_operands(n: int) -> None:
    x = normal(n).astype(np.float16)
    got = both(arithmetic.numbers, [x], np.zeros(n, np.float16))
    t = x.astype(np.float64)
    want = 1.5 - t * 0.3 + n / (np.abs(t) + 2) - t / n + np.maximum(t, 0.25) - np.minimum(t, -0.7) + t / 3 + t
    assert np.allclose(got, want, rtol=1e-2, atol=2e-2)


@pytest.mark.parametrize("n", SIZES)
def test_where(n: int) -> None:
    x, y = normal(n), normal(n, seed=1)
    y[::3] = x[::3]
    got = both(arithmetic.choose, [x, y], np.zeros(n, np.float32))
    want = (
        np.where(x < y, x * 2, y)
        + np.where(x >= 0, y, -1).astype(np.float32)
        + np.where(x != y, x, 7).astype(np.float32)
    )
    assert np.array_equal(got, want)


@pytest.mark.parametrize("n", [1, 300, 777])
def test_conversions_and_two_outputs(n: int) -> None:
    x, y = normal(n), normal(n, seed=1).astype(ml_dtypes.bfloat16)
    outputs = [(np.zeros(n, np.int32), np.zeros(n, ml_dtypes.bfloat16)) for _ in range(2)]
    arithmetic.convert(x, y, *outputs[0])
    run = arithmetic.convert.run(x, y, *outputs[1])
    assert [a.tobytes() for a in outputs[0]] == [a.tobytes() for a in outputs[1]]
    assert [f.code for f in run.findings if f.severity != "advice"] == []
    assert np.array_equal(outputs[0][0], np.rint(x * np.float32(1000)).astype(np.int32) * 3)


@pytest.mark.parametrize("shape", [(1, 1, 1), (2, 11, 99), (3, 7, 250)])
def test_rows_atomics_and_loop_variables_that_trade_places(shape: tuple[int, int, int]) -> None:
    _b, m, n = shape
    x, g = normal(*shape), normal(n, seed=1)
    sums = [np.zeros(m, np.float32) for _ in range(2)]
    outs = [np.zeros(shape, np.float32) for _ in range(2)]
    arithmetic.rows(x, g, sums[0], outs[0])
    run = arithmetic.rows.run(x, g, sums[1], outs[1], blocks=1)  # one core: atomic sums of floats keep their order
    assert outs[0].tobytes() == outs[1].tobytes() and sums[0].tobytes() == sums[1].tobytes()
    assert [f.code for f in run.findings if f.severity != "advice"] == []
    assert np.allclose(sums[0], (x * g).sum((0, 2)), rtol=1e-4, atol=1e-3)


@pytest.mark.parametrize("shape", [(1, 1), (9, 130), (4, 64)])
def test_broadcast_of_one_number_per_row(shape: tuple[int, int]) -> None:
    x = normal(*shape) + 0.01
    got = both(arithmetic.scale_rows, [x], np.zeros(shape, np.float32))
    assert np.abs(got).max() == 1.0


@pytest.mark.parametrize("shape", [(1, 32, 16), (100, 70, 170), (7, 200, 81)])
def test_linear_layer_with_transposed_weights(shape: tuple[int, int, int]) -> None:
    m, k, n = shape
    a, w = normal(m, k).astype(ml_dtypes.bfloat16), normal(n, k, seed=1).astype(ml_dtypes.bfloat16)
    got = both(arithmetic.linear, [a, w], np.zeros((m, n), np.float16))
    want = np.maximum(a.astype(np.float64) @ w.astype(np.float64).T, 0)
    assert np.allclose(got, want, rtol=2e-3, atol=2e-3)
