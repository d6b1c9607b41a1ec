"""Kernels as users write them: level A equals the emitted kernel bit for bit, no finding, and the numbers are right."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.tile import users
from tests.tile.test_kernels import KERNELS


@pytest.fixture
def rng() -> np.random.Generator:
    """Every test draws from the beginning of its own generator, whichever ran before it."""
    return np.random.default_rng(0)


SHAPES = [(5, 7), (37, 1000), (11, 3000), (200, 33)]


def floats(rng: np.random.Generator, *shape: int, kind: Any = np.float32) -> np.ndarray:
    return rng.standard_normal(shape).astype(kind)


def agreed(kernel: Any, inputs: list[np.ndarray], outputs: list[np.ndarray]) -> list[np.ndarray]:
    """What both evaluations give, arrays in order of inputs and outputs."""
    results = []
    for evaluate in (kernel, kernel.run):
        made, given = iter(o.copy() for o in outputs), iter(inputs)
        arrays = [next(made) if p.written else next(given) for p in kernel.params.values()]
        run = evaluate(*arrays)
        results.append([a for a, p in zip(arrays, kernel.params.values(), strict=True) if p.written])
    assert [f.code for f in run.findings if f.severity != "advice"] == []
    assert [a.tobytes() for a in results[0]] == [a.tobytes() for a in results[1]]
    return results[1]


@pytest.mark.parametrize("shape", SHAPES)
def test_layer_norm_backward_with_columns_of_numbers_and_sums_both_ways(
    rng: np.random.Generator, shape: tuple[int, int]
) -> None:
    m, n = shape
    dy, x, g = floats(rng, m, n), floats(rng, m, n), floats(rng, n)
    mean, rstd = x.mean(1), (1 / np.sqrt(x.var(1) + 1e-5)).astype(np.float32)
    zeros = np.zeros(n, np.float32)
    dx, dg, db = agreed(users.ln_backward, [dy, x, mean, rstd, g], [np.zeros_like(x), zeros, zeros])
    normal = (x - mean[:, None]) * rstd[:, None]
    d = dy * g
    want = (d - d.mean(1, keepdims=True) - normal * (d * normal).mean(1, keepdims=True)) * rstd[:, None]
    assert np.allclose(dx, want, atol=1e-4) and np.allclose(dg, (dy * normal).sum(0), atol=1e-3)
    assert np.allclose(db, dy.sum(0), atol=1e-3)


@pytest.mark.parametrize("shape", SHAPES)
def test_quantisation_to_int8_with_a_scale_per_row(rng: np.random.Generator, shape: tuple[int, int]) -> None:
    x = floats(rng, *shape)
    q, scale = agreed(users.quantise, [x], [np.zeros(shape, np.int8), np.zeros(shape[0], np.float32)])
    assert np.all(
        np.abs(q * scale[:, None] - x) <= scale[:, None] * 0.54
    )  # half a step, and what float16 rounds before


@pytest.mark.slow
@pytest.mark.parametrize("shape", SHAPES)
def test_losses_and_places(rng: np.random.Generator, shape: tuple[int, int]) -> None:
    m, n = shape
    x, t = floats(rng, m, n), rng.integers(0, n, m).astype(np.int32)
    (loss,) = agreed(users.cross_entropy, [x, t], [np.zeros(m, np.float32)])
    assert np.allclose(loss, np.log(np.exp(x.astype(np.float64)).sum(1)) - x[np.arange(m), t], atol=1e-5)
    (place,) = agreed(users.top1, [x], [np.zeros(m, np.int32)])
    assert np.array_equal(place, x.argmax(1))
    (mean,) = agreed(users.mean_of_tanh, [x], [np.zeros(m, np.float32)])
    assert np.allclose(mean, np.tanh(x).mean(1), atol=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("shape", SHAPES)
def test_element_wise_and_indexed(rng: np.random.Generator, shape: tuple[int, int]) -> None:
    m, n = shape
    x, r, g = floats(rng, m, n, kind=np.float16), floats(rng, m, n, kind=np.float16), floats(rng, n, kind=np.float16)
    y, h = agreed(users.rms_residual, [x, r, g], [np.zeros_like(x), np.zeros_like(x)])
    t = x.astype(np.float64) + r
    assert np.allclose(y, t / np.sqrt((t**2).mean(1, keepdims=True) + 1e-6) * g, atol=2e-2) and np.allclose(
        h, t, atol=2e-3
    )
    (s,) = agreed(users.swiglu, [x, r], [np.zeros_like(x)])
    assert np.allclose(s, x / (1 + np.exp(-x.astype(np.float64))) * r, atol=1e-2)
    ids, table = rng.integers(0, 20, m), floats(rng, 50, n, kind=np.float16)
    (rows,) = agreed(users.rows_by_long, [ids.astype(np.int64), table], [np.zeros_like(x)])
    assert np.array_equal(rows, table[ids])
    (rows,) = agreed(users.rows_shifted, [ids.astype(np.int32), table], [np.zeros_like(x)])
    assert np.array_equal(rows, table[ids * 2 + 1])
    a, c, z = floats(rng, m, 3, 2, n), floats(rng, m, n), floats(rng, m, n)
    (turned,) = agreed(users.rotary, [a, c, z], [np.zeros_like(a)])
    assert np.allclose(turned[:, :, 1], a[:, :, 1] * c[:, None] + a[:, :, 0] * z[:, None], atol=1e-5)
    (leaky,) = agreed(users.squared_leaky, [a.reshape(-1)], [np.zeros(a.size, np.float32)])
    assert np.allclose(leaky, np.where(a > 0, a, a * 0.1).reshape(-1) ** 2, atol=1e-5)


def test_sizes_that_the_host_chooses() -> None:
    def told(m: int, n: int, **sizes: int) -> tuple[int, int]:
        fields = KERNELS.softmax.tiling({"M": m, "N": n}, **sizes)
        return fields["rTile"], fields["buffers"]

    short, usual, long = told(32768, 256), told(4096, 1024), told(1024, 8192)
    assert short[0] > usual[0] > long[0] >= 1 and {short[1], usual[1], long[1]} == {2}
    assert told(100, 20000) == (1, 1), "one buffer where a long row leaves no room for two"
    assert told(64, 32768)[1] == 0, "pieces of rows that do not fit"
    assert told(100, 1024)[0] == 3, "all cores have rows"
    fixed = KERNELS.softmax.tiling({"M": 4096, "N": 256}, R=4)
    assert "rTile" not in fields_of(R=4) and fixed["buffers"] == 2, "a size that is given stays"
    assert KERNELS.softmax.tiling({"M": 64, "N": 600}, C=512)["buffers"] == 0, (
        "rows longer than the given size come in pieces"
    )


def fields_of(**sizes: int) -> set[str]:
    return {name for _, name in KERNELS.softmax.lowered(**sizes).fields}
