"""Inputs of gather's benchmark that no fill describes."""

from __future__ import annotations

from typing import Any

import numpy as np


def inputs_zipf() -> tuple[Any, ...]:
    """20,000 rows of 128 and indices of which a few are frequent, as words are."""
    indices = (np.random.default_rng(0).zipf(1.2, 16384) - 1) % 20000
    return np.zeros((20000, 128), np.float16), indices.astype(np.int32)
