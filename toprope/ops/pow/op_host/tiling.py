"""Host side of pow: checks x1 and x2 and cuts the elements into cores."""

from __future__ import annotations

from typing import Any

import numpy as np

from toprope.errors import BadArgument
from toprope.ops import Plan, c_type, ceil_div, outputs
from toprope.soc import Soc

Array = np.ndarray[Any, Any]
TYPES = ("float32", "float16", "bfloat16")
CORE_BYTES = 512  # what a core starts on
CORE_ELEMENTS = 704  # the least it gets: a part of a tile


def plan(version: str, soc: Soc, x1: Array, x2: Array) -> Plan:
    """The launch of a version ("optimised", "naive") of z = x1 ** x2. Raises BadArgument where a rule of the prototype is broken."""
    if x1.dtype.name not in TYPES:
        raise BadArgument(f"pow of {x1.dtype.name}", cure=f"convert the inputs to one of {', '.join(TYPES)}")
    if x1.dtype != x2.dtype:
        raise BadArgument(f"x1 is {x1.dtype.name} and x2 is {x2.dtype.name}", cure="give both the same element type")
    if x1.shape != x2.shape:
        raise BadArgument(
            f"x1 has shape {x1.shape} and x2 {x2.shape}", cure="broadcast them first: numpy.broadcast_arrays"
        )
    z = np.empty_like(x1)
    each = CORE_BYTES // x1.itemsize
    cores = max(1, min(soc.aiv, ceil_div(x1.size, CORE_ELEMENTS)))
    core_length = max(1, ceil_div(ceil_div(x1.size, cores), each)) * each
    blocks = max(1, ceil_div(x1.size, core_length))
    entry = "pow_exact" if version == "optimised" else "pow_naive"
    tiling = {"length": x1.size, "coreLength": core_length}
    return Plan(entry, blocks, (x1, x2, z, tiling), (z,), 0, (f"DTYPE_X1={c_type(x1.dtype)}",))


def optimised(x1: Array, x2: Array) -> Any:
    """What `toprope test` calls."""
    return outputs(plan, "pow", "optimised", x1, x2)


def naive(x1: Array, x2: Array) -> Any:
    """The same, naive version."""
    return outputs(plan, "pow", "naive", x1, x2)
