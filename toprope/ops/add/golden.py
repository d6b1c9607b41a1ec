"""The reference of add in NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np


def add(x1: np.ndarray[Any, Any], x2: np.ndarray[Any, Any], alpha: float = 1.0) -> np.ndarray[Any, Any]:
    """x1 + alpha * x2; whole numbers wrap around in 32 bits."""
    if x1.dtype.kind == "i":
        return np.asarray(x1 + int(alpha) * x2)
    return np.asarray(x1 + alpha * x2)
