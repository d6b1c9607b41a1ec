"""Host side of layer_norm: the rules are those of every norm of rows."""

from __future__ import annotations

from typing import Any

import numpy as np

from toprope.ops import Plan, outputs
from toprope.ops.rows import norm
from toprope.soc import Soc

Array = np.ndarray[Any, Any]


def plan(version: str, soc: Soc, x: Array, gamma: Array, beta: Array, *, epsilon: float = 1e-5) -> Plan:
    """The launch of a version ("optimised", "naive") over the last axes of x, those that gamma and beta have; outputs y, mean, rstd.

    Raises BadArgument where a rule of the prototype is broken.
    """
    return norm("layer_norm", version, soc, x, gamma, beta, epsilon)


def optimised(x: Array, gamma: Array, beta: Array, epsilon: float = 1e-5) -> Any:
    """What `toprope test` calls."""
    return outputs(plan, "layer_norm", "optimised", x, gamma, beta, epsilon=epsilon)


def naive(x: Array, gamma: Array, beta: Array, epsilon: float = 1e-5) -> Any:
    """The same, naive version."""
    return outputs(plan, "layer_norm", "naive", x, gamma, beta, epsilon=epsilon)
