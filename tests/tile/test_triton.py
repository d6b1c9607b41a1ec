"""Triton functions: level A (the function run for every program) equals the emitted Ascend C bit for bit; what is not supported is named."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from toprope import tile
from toprope.tile import TileError

EXAMPLE = Path(__file__).parents[2] / "examples" / "09_tile" / "triton_kernels.py"
MORE = """
import triton
import triton.language as tl

SCALE = 2.0

@triton.jit
def add_kernel(x_ptr, y_ptr, out_ptr, n, alpha, BLOCK: tl.constexpr, TWICE: tl.constexpr):
    offs = tl.program_id(axis=0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offs, mask=offs < n)
    y = tl.load(y_ptr + offs, mask=offs < n)
    if TWICE:
        y = y * SCALE
    tl.store(out_ptr + offs, tl.where(x > y, x, y) + x * alpha, mask=offs < n)

@triton.jit
def norm_kernel(x_ptr, w_ptr, y_ptr, mean_ptr, N, eps, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    cols = tl.arange(0, BLOCK)
    mask = cols < N
    x = tl.load(x_ptr + row * N + cols, mask=mask, other=0.0)
    mean = tl.sum(x, axis=0) / N
    d = tl.where(mask, x - mean, 0.0)
    var = tl.sum(d * d, axis=0) / N
    w = tl.load(w_ptr + cols, mask=mask)
    tl.store(y_ptr + row * N + cols, d * tl.rsqrt(var + eps) * w, mask=mask)
    tl.store(mean_ptr + row, mean)

@triton.jit
def rows_kernel(x_ptr, y_ptr, s_ptr, M, N, R: tl.constexpr, C: tl.constexpr):
    rows = tl.program_id(0) * R + tl.arange(0, R)
    cols = tl.arange(0, C)
    mask = (rows[:, None] < M) & (cols[None, :] < N)
    x = tl.load(x_ptr + rows[:, None] * N + cols[None, :], mask=mask, other=float("-inf"))
    e = tl.exp((x - tl.max(x, axis=1)[:, None]) * 0.5)
    s = tl.sum(e, axis=1)
    tl.store(y_ptr + rows[:, None] * N + cols[None, :], e / s[:, None], mask=mask)
    tl.store(s_ptr + rows, s, mask=rows < M)

@triton.jit
def count_kernel(ids_ptr, w_ptr, out_ptr, n, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    ids = tl.load(ids_ptr + offs, mask=offs < n)
    tl.atomic_add(out_ptr + ids, tl.load(w_ptr + offs, mask=offs < n), mask=offs < n)
"""


def agree(
    kernel: Any, grid: Any, outputs: list[np.ndarray], arguments: Callable[[list[np.ndarray]], tuple[Any, ...]], **constants: Any
) -> list[np.ndarray]:  # fmt: skip
    """What level A gives; the emitted kernel gives the same bits and no finding."""
    level_a, emitted = ([o.copy() for o in outputs] for _ in range(2))
    kernel[grid](*arguments(level_a), **constants)
    run = kernel.run(grid, *arguments(emitted), **constants)
    assert [a.tobytes() for a in level_a] == [a.tobytes() for a in emitted]
    assert [f.code for f in run.findings if f.severity != "advice"] == []
    return level_a


def softmax(x: np.ndarray) -> np.ndarray:
    """float64 row softmax."""
    e = np.exp(x.astype(np.float64) - x.max(1, keepdims=True))
    return np.asarray(e / e.sum(1, keepdims=True))


@pytest.mark.parametrize(("n", "d"), [(1, 1), (21, 70)])
def test_gather(n: int, d: int) -> None:
    rng = np.random.default_rng(n)
    ids, table = rng.integers(0, 50, n).astype(np.int32), rng.standard_normal((50, d)).astype(np.float16)
    kernel, grid = tile.triton(EXAMPLE, "gather_kernel"), (-(-n // 8), -(-d // 64))
    (out,) = agree(
        kernel, grid, [np.zeros((n, d), np.float16)], lambda o: (ids, table, o[0], n, d, d), ROWS=8, COLUMNS=64
    )
    assert np.array_equal(out, table[ids])


def test_softmax_with_one_program_per_row() -> None:
    x = np.random.default_rng(0).normal(0, 3, (13, 300)).astype(np.float32)
    kernel = tile.triton(EXAMPLE, "softmax_kernel")
    (y,) = agree(kernel, lambda _: (13,), [np.zeros_like(x)], lambda o: (o[0], x, 300, 300, 300), BLOCK=512)
    assert np.abs(y - softmax(x)).max() < 1e-6


@pytest.mark.parametrize("shape", [(100, 90, 70), (1, 1, 1)])
def test_matmul_with_moving_pointers(shape: tuple[int, int, int]) -> None:
    m, k, n = shape
    rng = np.random.default_rng(0)
    a, b = rng.standard_normal((m, k)).astype(np.float16), rng.standard_normal((k, n)).astype(np.float16)
    kernel, grid = tile.triton(EXAMPLE, "matmul_kernel"), (-(-m // 32), -(-n // 64))
    arguments = (m, n, k, k, 1, n, 1, n, 1)
    (c,) = agree(kernel, grid, [np.zeros((m, n), np.float16)], lambda o: (a, b, o[0], *arguments), BM=32, BN=64, BK=32)
    assert np.allclose(c, a.astype(np.float64) @ b, rtol=2e-3, atol=2e-3)


@pytest.mark.slow
def test_add_norm_rows_and_counts() -> None:
    rng = np.random.default_rng(0)
    x, y = rng.standard_normal((2, 1000), dtype=np.float32)
    kernel = tile.triton(MORE, "add_kernel")
    (z,) = agree(kernel, 8, [np.zeros_like(x)], lambda o: (x, y, o[0], 1000, 0.3), BLOCK=128, TWICE=True)
    assert np.array_equal(z, np.where(x > y * 2, x, y * 2) + x * np.float32(0.3))
    x, w = rng.standard_normal((13, 300), dtype=np.float32), rng.standard_normal(300, dtype=np.float32)
    outputs = [np.zeros_like(x), np.zeros(13, np.float32)]
    z, mean = agree(tile.triton(MORE, "norm_kernel"), 13, outputs, lambda o: (x, w, *o, 300, 1e-5), BLOCK=512)
    assert np.allclose(z, (x - x.mean(1, keepdims=True)) / np.sqrt(x.var(1, keepdims=True) + 1e-5) * w, atol=1e-5)
    assert np.allclose(mean, x.mean(1), atol=1e-6)
    z, s = agree(tile.triton(MORE, "rows_kernel"), 4, outputs, lambda o: (x, *o, 13, 300), R=4, C=512)
    assert np.allclose(z, softmax(x / 2), atol=1e-6) and np.all(s >= 1)
    ids, w = rng.integers(0, 9, 300).astype(np.int32), rng.integers(0, 9, 300).astype(np.float32)
    (total,) = agree(
        tile.triton(MORE, "count_kernel"), 3, [np.zeros(9, np.float32)], lambda o: (ids, w, o[0], 300), BLOCK=128
    )
    assert np.array_equal(total, np.bincount(ids, w))


@pytest.mark.parametrize(
    ("body", "says", "cure"),
    [
        ("y = x\n    if x > 0:\n        y = x + 1", "an if on a tile", "tl.where"),
        ("y = x if x > 0 else x", "an if on a tile", "tl.where"),
        ("y = x + tl.arange(0, 32)", "a tile [64] meets one of [32]", "[:, None]"),
        ("y = tl.load(x_ptr + x)", "pointers are only moved by", ".to(tl.int32)"),
        ("y = tl.dot(x, x)", "dot of two tiles that do not fit", "[M, K]"),
        ("y = tl.inline_asm_elementwise('add', '=r', [x])", "inline_asm_elementwise has no meaning", "docs/triton.md"),
        ("y = tl.load(tl.load(h_ptr))", "an address that was loaded", "pass the array itself"),
        ("y = x + tl.arange(0, n)", "arange of numbers that a launch gives", "constants"),
        ("y = z", "z has no value here", "before"),
        ("y = x\n    for i in range(n):\n        y = x[:, None]", "a tile [64, 64] where [64] is needed", "one shape"),
        ("y = (x * 2", "this is no Python", "Python file"),
        ("y = x * (BLOCK // 0)", "division of constants by 0", "something else"),
        ("y = tl.max(x, axis=1 % (BLOCK - 64))", "division of constants by 0", "something else"),
    ],
)  # fmt: skip
def test_what_is_not_supported_is_named_at_its_line(body: str, says: str, cure: str) -> None:
    text = f"""
def k(x_ptr, h_ptr, y_ptr, n, BLOCK: tl.constexpr):
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + offs, mask=offs < n)
    {body}
    tl.store(y_ptr + offs, y, mask=offs < n)
"""
    with pytest.raises(TileError) as refusal:
        tile.triton(text).source(x_ptr=tile.f32, h_ptr=tile.f16, y_ptr=tile.f32, BLOCK=64)
    assert says in refusal.value.message and "<triton>:" in refusal.value.message and cure in refusal.value.cure


def test_a_grid_that_takes_part_of_the_blocks_runs_that_part() -> None:
    x = np.random.default_rng(0).standard_normal((4, 30), dtype=np.float32)
    kernel = tile.triton(EXAMPLE, "softmax_kernel")
    (y,) = agree(kernel, 3, [np.full_like(x, 7)], lambda o: (o[0], x, 30, 30, 16), BLOCK=16)
    assert np.allclose(y[:3, :16], softmax(x[:3, :16])) and np.all(y[:, 16:] == 7) and np.all(y[3] == 7)


def test_level_a_names_the_element_that_lies_outside() -> None:
    x = np.zeros(100, np.float32)
    with pytest.raises(TileError, match="x_ptr has 100 elements; element 100 is touched"):
        tile.triton(MORE, "add_kernel")[1](x, x, x, 128, 0.3, BLOCK=128, TWICE=False)


def test_a_function_needs_no_decorator() -> None:
    kernel = tile.triton(copy_function)
    assert "DataCopyPad" in kernel.source(x_ptr=tile.f32, y_ptr=tile.f32, BLOCK=64)


def copy_function(x_ptr, y_ptr, n, BLOCK: "tl.constexpr"):  # type: ignore[no-untyped-def]  # noqa: F821, UP037
    """As a user would write it; only its text is read."""
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)  # noqa: F821
    tl.store(y_ptr + offs, tl.load(x_ptr + offs, mask=offs < n), mask=offs < n)  # noqa: F821
