"""Inputs of embedding_dense_grad's benchmark: even and skewed indices, and the same sorted."""

from __future__ import annotations

from typing import Any

import numpy as np


def draw(count: int, rows: int, columns: int, zipf: float = 0.0, in_order: bool = False) -> tuple[Any, ...]:
    """grad, indices and, when they are sorted, where each comes from."""
    random = np.random.default_rng(0)
    indices = ((random.zipf(zipf, count) - 1) % rows if zipf else random.integers(0, rows, count)).astype(np.int32)
    grad = np.zeros((count, columns), np.float32)
    if not in_order:
        return grad, indices
    positions = np.argsort(indices, kind="stable").astype(np.int32)
    return grad, indices[positions], positions


def inputs_even() -> tuple[Any, ...]:
    """Hardly an index twice."""
    return draw(16384, 50000, 128)


def inputs_even_sorted() -> tuple[Any, ...]:
    """Hardly an index twice, in order."""
    return draw(16384, 50000, 128, in_order=True)


def inputs_zipf() -> tuple[Any, ...]:
    """A few indices are frequent, as words are."""
    return draw(16384, 50000, 128, 1.2)


def inputs_zipf_sorted() -> tuple[Any, ...]:
    """A few indices are frequent, in order."""
    return draw(16384, 50000, 128, 1.2, in_order=True)


def inputs_small_table() -> tuple[Any, ...]:
    """Every row is hit often."""
    return draw(65536, 2000, 64, 1.2)


def inputs_small_table_sorted() -> tuple[Any, ...]:
    """Every row is hit often, in order."""
    return draw(65536, 2000, 64, 1.2, in_order=True)
