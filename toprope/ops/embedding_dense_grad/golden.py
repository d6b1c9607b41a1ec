"""The reference of embedding_dense_grad in NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]


def embedding_dense_grad(
    grad: Array,
    indices: Array,
    positions: Array | None = None,
    num_weights: int = 1,
    padding_idx: int = -1,
    scale_grad_by_freq: int = 0,
    deterministic: int = 0,
) -> Array:
    """Sums of the rows of grad that have the same index; rows of padding_idx are left out."""
    rows = grad.reshape(indices.size, grad.shape[-1])
    numbers = indices.reshape(-1).astype(np.int64)
    if positions is not None:
        rows = rows[positions.astype(np.int64)]
    if scale_grad_by_freq:
        rows = rows / np.bincount(numbers, minlength=num_weights)[numbers, None]
    y = np.zeros((num_weights, rows.shape[1]))
    np.add.at(y, numbers[numbers != padding_idx], rows[numbers != padding_idx])
    return y
