"""What softmax and the norms share: row values and tiles of rows (headers), and the host side of layer_norm and rms_norm."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from toprope.errors import BadArgument
from toprope.ops import Plan, c_type, ceil_div
from toprope.soc import Soc

Array = np.ndarray[Any, Any]
TYPES = ("float32", "float16", "bfloat16")
MANY_COLUMNS, GROUP_ROWS = (
    2040,
    248,
)  # one instruction on a column of many rows counts their distance, in blocks, in a byte
TILE_FLOATS = 8192
PIECE_COLUMNS = 4096
SHARED_COLUMNS = 32768  # a row must be this long before the wait for the other cores pays
SYNC_COLUMNS = 12000  # that wait takes about as long as this many columns
FIXED_BYTES = 20 << 10  # numbers of the rows in work, their blocks, and short rows folded
SLOT_BYTES = 64  # a core's mean and squares of its part, eight times each
ELEMENT_US = (
    2.1e-4  # time of one core for one element, about; what another core saves must be more than what its launch costs
)


def norm(name: str, version: str, soc: Soc, x: Array, gamma: Array, beta: Array | None, epsilon: float) -> Plan:
    """The launch of layer_norm, or of rms_norm where `beta` is None, over the last axes of x: those that gamma has.

    Outputs: y like x, (mean,) rstd in float32 for each row. Raises BadArgument where a rule of the prototype is broken.
    """
    _check(name, x, gamma, beta, epsilon)
    columns = gamma.size
    rows = x.size // columns if columns else 0
    y = np.empty_like(x)
    row_axes = x.shape[: x.ndim - gamma.ndim] + (1,) * gamma.ndim
    rstd, mean = np.empty(row_axes, np.float32), np.empty(row_axes, np.float32)
    tiling, key, blocks = choose(rows, columns, x.itemsize, beta is not None, soc)
    tiling["epsilon"] = float(epsilon)
    if version == "naive":
        key, blocks = 0, max(1, min(rows, soc.aiv))
    workspace = np.zeros(max(1, rows * int(tiling["parts"])) * SLOT_BYTES, np.uint8) if key == 3 else None
    entry = name if version == "optimised" else f"{name}_naive"
    defines = (f"DTYPE_X={c_type(x.dtype)}",)
    if beta is None:
        return Plan(entry, blocks, (x, gamma, y, rstd, workspace, tiling), (y, rstd), key, defines)
    return Plan(entry, blocks, (x, gamma, beta, y, mean, rstd, workspace, tiling), (y, mean, rstd), key, defines)


def _check(name: str, x: Array, gamma: Array, beta: Array | None, epsilon: float) -> None:
    if x.dtype.name not in TYPES:
        raise BadArgument(f"{name} of {x.dtype.name}", cure=f"convert x to one of {', '.join(TYPES)}")
    for weight, array in (("gamma", gamma), ("beta", beta)):
        if array is not None and array.dtype != x.dtype:
            raise BadArgument(
                f"x is {x.dtype.name} and {weight} {array.dtype.name}", cure="give all the same element type"
            )
        if array is not None and (array.ndim == 0 or array.shape != x.shape[x.ndim - array.ndim :]):
            raise BadArgument(f"{weight} has shape {array.shape} and x {x.shape}", cure="it has the last axes of x")
    if beta is not None and beta.shape != gamma.shape:
        raise BadArgument(f"gamma has shape {gamma.shape} and beta {beta.shape}", cure="give both the same shape")
    if not epsilon > 0:
        raise BadArgument(f"epsilon is {epsilon}", cure="give a positive number, so that a constant row has a scale")


def choose(
    rows: int, columns: int, item_bytes: int, centred: bool, soc: Soc
) -> tuple[dict[str, int | float], int, int]:
    """(tiling fields, tiling key, blocks): 1 many rows at a time, 2 row by row, 3 rows in pieces."""
    width = ceil_div(columns, 32 // item_bytes) * (32 // item_bytes)
    tiling: dict[str, int | float] = {"rows": rows, "columns": columns, "tileRows": 1, "buffers": 2, "parts": 1}
    tiling |= {"partColumns": columns, "pieceColumns": PIECE_COLUMNS}
    if rows * columns == 0:
        return tiling, 1, 1  # an empty tensor is not launched
    cores = max(
        1, min(rows, soc.aiv, round(math.sqrt(rows * width * ELEMENT_US / soc.number("launch_blocks.block_us"))))
    )
    share = ceil_div(rows, cores)
    weights = 2 if centred else 1
    height = max(1, min(share, _tile_rows(width, item_bytes, 2, weights, soc)))
    if width <= MANY_COLUMNS and height * 180 >= width:
        tiling["tileRows"] = _even(share, min(height, 4088))
        return tiling, 1, cores
    buffers = next((b for b in (2, 1) if _tile_rows(width, item_bytes, b, weights, soc) > 0), 0)
    parts = _parts(rows, columns, soc)
    if buffers and (columns < SHARED_COLUMNS or parts == 1):
        tiling["tileRows"] = max(1, min(share, _tile_rows(width, item_bytes, buffers, weights, soc)))
        tiling["buffers"] = buffers
        return tiling, 2, cores
    tiling["parts"] = parts
    tiling["partColumns"] = ceil_div(ceil_div(columns, parts), 128) * 128
    return tiling, 3, min(cores, soc.aiv // parts) * parts


def _tile_rows(width: int, item_bytes: int, buffers: int, weights: int, soc: Soc) -> int:
    """Rows of a tile: in UB come and go `buffers` of them, half types twice more as floats, beside the weights; 0: not one."""
    each = 2 * buffers * width * item_bytes + (8 * width if item_bytes == 2 else 0)
    each += 288 if 64 <= width <= MANY_COLUMNS else width // 2
    each += 8 * weights  # mean and rstd, two buffers
    kept = FIXED_BYTES + weights * 4 * width * (8 if width < 64 else 1)
    fits = (soc.bytes_of("ub") - kept) // each
    return min(fits, max(1, TILE_FLOATS // width)) if fits > 0 else 0


def _even(rows: int, height: int) -> int:
    """Rows of a tile, at most `height`: whole groups where it holds several, and tiles of one height."""
    if height > GROUP_ROWS:
        return height // GROUP_ROWS * GROUP_ROWS
    return ceil_div(rows, ceil_div(rows, height))


def _parts(rows: int, columns: int, soc: Soc) -> int:
    """How many cores share a row: what makes the core with the most to do finish first."""
    every = [p for p in range(1, soc.aiv + 1) if soc.aiv % p == 0 and (p == 1 or columns // p >= 2048)]
    return min(every, key=lambda p: ceil_div(rows, soc.aiv // p) * ceil_div(columns, p) + SYNC_COLUMNS * (p > 1))
