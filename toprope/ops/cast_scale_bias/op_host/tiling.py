"""Host side of cast_scale_bias: checks x, scale and bias, and cuts rows and columns into cores and tiles."""

from __future__ import annotations

from typing import Any

import numpy as np

from toprope.errors import BadArgument
from toprope.ops import Plan, c_type, ceil_div, outputs
from toprope.soc import Soc

Array = np.ndarray[Any, Any]
TYPES = ("int32", "float16", "float32")
PIECE = 2048  # columns at a time
PART_COLUMNS = 512  # when rows are few, cores share them; each gets about so many columns at least
LINE = 256  # halves of a line of L2: parts are whole ones
TILE_ELEMENTS = 7680  # of a tile: two buffers in and out and the floats between them fill UB
MOST_ROWS = 255


def plan(version: str, soc: Soc, x: Array, scale: Array, bias: Array) -> Plan:
    """The launch of a version ("optimised", "naive") of y = float16(float32(x) * scale + bias).

    x (..., columns): int32, float16 or float32; scale and bias (columns): float32. Raises BadArgument where a rule is broken.
    """
    if x.dtype.name not in TYPES:
        raise BadArgument(f"x is {x.dtype.name}", cure=f"convert it to one of {', '.join(TYPES)}")
    if x.ndim == 0:
        raise BadArgument("x is a scalar and has no columns", cure="pass x.reshape(1)")
    columns = x.shape[-1]
    for name, vector in (("scale", scale), ("bias", bias)):
        if vector.dtype != np.float32 or vector.shape != (columns,):
            raise BadArgument(
                f"{name} is {vector.dtype.name} of shape {vector.shape}",
                cure=f"float32 of shape ({columns},), one a column",
            )
    y = np.empty(x.shape, np.float16)
    rows = x.size // columns if columns else 0
    naive = version == "naive"
    teams = max(1, min(rows, soc.aiv))
    parts = 1 if naive else max(1, min(soc.aiv // teams, ceil_div(columns, PART_COLUMNS)))
    part = ceil_div(ceil_div(columns, parts), LINE) * LINE if parts > 1 else columns
    piece = max(1, min(part, PIECE))
    core_rows = max(1, ceil_div(rows, teams))
    tile = 1 if naive else min(core_rows, MOST_ROWS, max(1, TILE_ELEMENTS // (ceil_div(piece, 16) * 16)))
    tiling = {
        "rows": rows,
        "columns": columns,
        "coreRows": core_rows,
        "parts": parts,
        "partColumns": part,
        "piece": piece,
        "tileRows": tile,
    }
    entry = "cast_scale_bias_naive" if naive else "cast_scale_bias"
    blocks = max(1, ceil_div(rows, core_rows)) * parts
    return Plan(entry, blocks, (x, scale, bias, y, tiling), (y,), 0, (f"DTYPE_X={c_type(x.dtype)}",))


def optimised(x: Array, scale: Array, bias: Array) -> Any:
    """What `toprope test` calls."""
    return outputs(plan, "cast_scale_bias", "optimised", x, scale, bias)


def naive(x: Array, scale: Array, bias: Array) -> Any:
    """The same, naive version."""
    return outputs(plan, "cast_scale_bias", "naive", x, scale, bias)
