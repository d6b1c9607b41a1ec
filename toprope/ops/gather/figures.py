"""Inputs of gather's benchmark that no fill describes."""

from __future__ import annotations

from typing import Any

import numpy as np


def inputs_zipf() -> tuple[Any, ...]:
    """20,000 rows of 128 and indices of which a few are frequent, as words are."""
    indices = (np.random.default_rng(0).zipf(1.2, 16384) - 1) % 20000
    return np.zeros((20000, 128), np.float16), indices.astype(np.int32)


def inputs_in_order() -> tuple[Any, ...]:
    """The same table, indices in ascending order: neighbours read the same or the next row."""
    indices = np.sort(np.random.default_rng(0).integers(0, 20000, 16384))
    return np.zeros((20000, 128), np.float16), indices.astype(np.int32)


def inputs_hot() -> tuple[Any, ...]:
    """The same table, one row asked for by all cores at once."""
    return np.zeros((20000, 128), np.float16), np.full(16384, 7, np.int32)
