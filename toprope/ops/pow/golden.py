"""The reference of pow in NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np


def pow(x1: np.ndarray[Any, Any], x2: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """x1 to the power x2, as IEEE 754 pow."""
    return np.asarray(np.power(x1, x2))
