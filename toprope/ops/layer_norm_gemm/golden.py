"""The reference of layer_norm_gemm in NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]


def layer_norm_gemm(x: Array, gamma: Array, beta: Array, w: Array, epsilon: float = 1e-5, **_: Any) -> Array:
    """layer_norm(x) @ w in the precision of x; the normalised rows are rounded to float16, as the operands of the cube are."""
    centred = x - x.mean(axis=-1, keepdims=True) if x.size else x
    rstd = 1 / np.sqrt((centred**2).mean(axis=-1, keepdims=True) + epsilon) if x.size else x
    normalised = (centred * rstd * gamma + beta).astype(np.float16).astype(x.dtype)
    return np.asarray(normalised @ w)
