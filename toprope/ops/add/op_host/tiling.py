"""Host side of add: checks x1, x2 and alpha, and cuts the elements into cores and tiles."""

from __future__ import annotations

from typing import Any

import numpy as np

from toprope.errors import BadArgument
from toprope.ops import Plan, c_type, ceil_div, outputs
from toprope.soc import Soc

TYPES = ("float16", "float32", "bfloat16", "int32")
CORE_BYTES = 512  # what a core starts on, and the least it gets
NAIVE_TILE_BYTES = 2048


def plan(version: str, soc: Soc, x1: np.ndarray[Any, Any], x2: np.ndarray[Any, Any], *, alpha: float = 1.0) -> Plan:
    """The launch of a version ("optimised", "naive") of z = x1 + alpha * x2. Raises BadArgument where a rule of the prototype is broken."""
    if x1.dtype.name not in TYPES:
        raise BadArgument(f"add of {x1.dtype.name}", cure=f"convert the inputs to one of {', '.join(TYPES)}")
    if x1.dtype != x2.dtype:
        raise BadArgument(f"x1 is {x1.dtype.name} and x2 is {x2.dtype.name}", cure="give both the same element type")
    if x1.shape != x2.shape:
        raise BadArgument(
            f"x1 has shape {x1.shape} and x2 {x2.shape}", cure="broadcast them first: numpy.broadcast_arrays"
        )
    if x1.dtype.kind == "i" and alpha != int(alpha):
        raise BadArgument(f"alpha {alpha} is not whole and the elements are", cure="use a whole alpha or float tensors")
    z = np.empty_like(x1)
    item = x1.itemsize
    each = CORE_BYTES // item
    cores = max(1, min(soc.aiv, ceil_div(x1.size, each)))
    core_length = ceil_div(ceil_div(x1.size, cores), each) * each or each
    blocks = max(1, ceil_div(x1.size, core_length))
    tile_bytes = min(_tile_bytes(item, alpha, soc), core_length * item) if version == "optimised" else NAIVE_TILE_BYTES
    tiling = {
        "length": x1.size,
        "coreLength": core_length,
        "tileLength": max(tile_bytes // 512 * 512, 512) // item,
        "bypassL2": int(version == "optimised" and 3 * x1.nbytes > soc.number("memory.l2_bytes")),
    }
    entry = "add" if version == "optimised" else "add_naive"
    return Plan(entry, blocks, (x1, x2, z, float(alpha), tiling), (z,), 0, (f"DTYPE_X1={c_type(x1.dtype)}",))


def _tile_bytes(item: int, alpha: float, soc: Soc) -> int:
    """The largest tile: two buffers for each of three tensors, and two tiles of floats where half types are widened."""
    per_byte = 6 + (8 / item if item == 2 else 0)
    return int(soc.bytes_of("ub") / per_byte)


def optimised(x1: np.ndarray[Any, Any], x2: np.ndarray[Any, Any], alpha: float = 1.0) -> Any:
    """What `toprope test` calls."""
    return outputs(plan, "add", "optimised", x1, x2, alpha=alpha)


def naive(x1: np.ndarray[Any, Any], x2: np.ndarray[Any, Any], alpha: float = 1.0) -> Any:
    """The same, naive version."""
    return outputs(plan, "add", "naive", x1, x2, alpha=alpha)
