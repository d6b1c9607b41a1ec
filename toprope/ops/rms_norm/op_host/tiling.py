"""Host side of rms_norm: the rules are those of every norm of rows."""

from __future__ import annotations

from typing import Any

import numpy as np

from toprope.ops import Plan, outputs
from toprope.ops.rows import norm
from toprope.soc import Soc

Array = np.ndarray[Any, Any]


def plan(version: str, soc: Soc, x: Array, gamma: Array, *, epsilon: float = 1e-6) -> Plan:
    """The launch of a version ("optimised", "naive") over the last axes of x, those that gamma has; outputs y, rstd.

    Raises BadArgument where a rule of the prototype is broken.
    """
    return norm("rms_norm", version, soc, x, gamma, None, epsilon)


def optimised(x: Array, gamma: Array, epsilon: float = 1e-6) -> Any:
    """What `toprope test` calls."""
    return outputs(plan, "rms_norm", "optimised", x, gamma, epsilon=epsilon)


def naive(x: Array, gamma: Array, epsilon: float = 1e-6) -> Any:
    """The same, naive version."""
    return outputs(plan, "rms_norm", "naive", x, gamma, epsilon=epsilon)
