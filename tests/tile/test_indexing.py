"""Rows and elements that an index array names, reductions over rows, bias and transposed operands: level A = emitted, tails included."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.tile import indexing
from toprope.tile import TileError


def agree(kernel: Any, inputs: list[np.ndarray], outputs: list[np.ndarray], **options: Any) -> list[np.ndarray]:
    """What level A gives; the emitted kernel gives the same bits and no finding."""
    level_a, emitted = ([o.copy() for o in outputs] for _ in range(2))
    kernel(*inputs, *level_a)
    run = kernel.run(*inputs, *emitted, **options)
    assert [a.tobytes() for a in level_a] == [a.tobytes() for a in emitted]
    assert [f.code for f in run.findings if f.severity != "advice"] == []
    return level_a


@pytest.mark.parametrize(("b", "m", "d"), [(1, 1, 1), (2, 21, 130)])
def test_rows_and_elements_by_index(b: int, m: int, d: int) -> None:
    rng = np.random.default_rng(m)
    ids = rng.integers(0, 11, (b, m)).astype(np.int32)
    table, weights = rng.standard_normal((11, d)).astype(np.float16), rng.standard_normal((b, 11), dtype=np.float32)
    outputs = [np.zeros((b, m, d), np.float32), np.zeros((b, m), np.float32)]
    y, w = agree(indexing.lookup, [ids, table, weights], outputs)
    assert np.array_equal(y, table[ids].astype(np.float32) + 1)
    assert np.array_equal(w, np.take_along_axis(weights, ids, 1) * np.float32(0.5))


@pytest.mark.parametrize(("m", "d"), [(1, 1), (37, 70)])
def test_scatter_adds_rows_and_elements(m: int, d: int) -> None:
    rng = np.random.default_rng(m)
    ids, x = rng.integers(0, 9, m).astype(np.int32), rng.integers(-9, 9, (m, d)).astype(np.float32)
    sums, counts = agree(indexing.collect, [ids, x], [np.zeros((9, d), np.float32), np.zeros(9, np.float32)])
    assert np.array_equal(counts, np.bincount(ids, minlength=9))
    assert np.array_equal(sums, np.stack([x[ids == v].sum(0) * 2 for v in range(9)]))


@pytest.mark.slow
@pytest.mark.parametrize("m", [1, 8, 333])
def test_gather_in_a_table_by_computed_indices(m: int) -> None:
    rng = np.random.default_rng(m)
    ids, x = rng.integers(0, 50, m).astype(np.int32), rng.standard_normal(120).astype(np.float16)
    (y,) = agree(indexing.through_table, [ids, x], [np.zeros(m, np.float16)])
    assert np.array_equal(y, x[ids * 2 + 1])


@pytest.mark.parametrize("shape", [(1, 1), (21, 170)])
def test_reductions_over_rows(shape: tuple[int, int]) -> None:
    x = np.random.default_rng(0).integers(-50, 50, shape).astype(np.float32)
    outputs = [np.zeros(shape[1], np.float32), np.zeros(shape[1], np.float32), np.zeros(shape, np.float32)]
    total, least, y = agree(indexing.columns, [x], outputs)
    assert np.array_equal(total, x.sum(0)) and np.array_equal(least, x.min(0))
    pieces = [x[r : r + 8, c : c + 100] for r in range(0, shape[0], 8) for c in range(0, shape[1], 100)]
    want = [(p - p.max(0) - p.min(1, keepdims=True)).sum() for p in pieces]
    assert y.sum() == sum(want)


@pytest.mark.parametrize("shape", [(1, 1, 1), (100, 70, 170), (17, 100, 33)])
def test_bias_of_the_cube_and_a_transposed_left_operand(shape: tuple[int, int, int]) -> None:
    m, k, n = shape
    rng = np.random.default_rng(m)
    a, w = rng.standard_normal((k, m)).astype(np.float16), rng.standard_normal((k, n)).astype(np.float16)
    b = rng.standard_normal(n, dtype=np.float32)
    (c,) = agree(indexing.dense, [a, w, b], [np.zeros((m, n), np.float16)])
    assert np.allclose(c, np.maximum(a.T.astype(np.float64) @ w + b, 0), rtol=2e-3, atol=2e-3)


@pytest.mark.slow
def test_both_operands_transposed() -> None:
    rng = np.random.default_rng(0)
    a, w = rng.standard_normal((70, 100)).astype(np.float16), rng.standard_normal((170, 70)).astype(np.float16)
    (c,) = agree(indexing.both_transposed, [a, w], [np.zeros((100, 170), np.float32)])
    assert np.allclose(c, a.T.astype(np.float64) @ w.T, atol=1e-3)


def test_an_index_outside_the_array_is_named_in_both_evaluations() -> None:
    ids, table = np.array([[0, 11]], np.int32), np.zeros((11, 4), np.float16)
    arrays = [ids, table, np.zeros((1, 11), np.float32), np.zeros((1, 2, 4), np.float32), np.zeros((1, 2), np.float32)]
    with pytest.raises(TileError, match="index 11 for an axis of 11"):
        indexing.lookup(*arrays)
    assert "gm-out-of-bounds" in {f.code for f in indexing.lookup.run(*arrays).findings}


@pytest.mark.parametrize(
    ("body", "says"),
    [
        ("z[i] = x[ids[i] * ids[i]]", "an index is not a step"),
        ("z[i] = x[x[i]]", "an index is not a step"),
        ("z[i] = tile.gather(x[i], x[i])", "an index has no float32 form"),
        ("z[i] = x[ids[i], i]", "2 indices for 1 dimensions"),
        ("z[i] = tile.sum(x[i], 1)", "sum over axis 1"),
    ],
)
def test_refused_indices(tmp_path: Path, body: str, says: str) -> None:
    path = tmp_path / "user.py"
    path.write_text(
        "from toprope import tile\nfrom toprope.tile import In, Out, f32, i32\n\n@tile.kernel\n"
        'def k(ids: In["N", i32], x: In["N", f32], z: Out["N", f32]):\n'
        f"    for i in tile.tiles(x.shape[0], 64):\n        {body}\n"
    )
    spec = importlib.util.spec_from_file_location("user", path)
    assert spec and spec.loader
    with pytest.raises(TileError) as refusal:
        spec.loader.exec_module(importlib.util.module_from_spec(spec))
    assert "user.py:7: " in refusal.value.message and says in refusal.value.message
