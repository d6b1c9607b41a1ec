"""The reference of quantise.cpp in NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np


def quantise(x: np.ndarray[Any, Any], scale: float, limit: float, **_: Any) -> np.ndarray[Any, Any]:
    """int8 of x * scale, ties to even, saturated; 0 where |x| > limit."""
    inside = np.where(np.abs(x) <= limit, x, 0).astype(np.float64)
    return np.clip(np.rint(inside * scale), -128, 127).astype(np.int8)
