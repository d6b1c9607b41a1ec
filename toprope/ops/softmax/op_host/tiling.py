"""Host side of softmax: which strategy, how many cores, how much at a time."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from toprope.errors import BadArgument
from toprope.ops import Plan, c_type, ceil_div, outputs
from toprope.soc import Soc

TYPES = ("float32", "float16", "bfloat16")
MANY_COLUMNS = 2040  # one instruction on a column of many rows counts their distance, in blocks, in one byte
GROUP_ROWS = 248  # rows that it takes at most
TILE_FLOATS = 10240  # elements of one input buffer: few enough for two, many enough for the copies' rate
SHARED_COLUMNS = 32768  # a row must be this long before the wait for the other cores pays
SYNC_COLUMNS = 12000  # that wait takes about as long as this many columns
PIECE_COLUMNS = 8192
FIXED_BYTES = 18 << 10  # numbers of the rows in work, their blocks, and short rows folded
SLOT_BYTES = 64  # a core's maximum and sum of its part, eight times each
ELEMENT_US = (
    2.1e-4  # time of one core for one element, about; what another core saves must be more than what its launch costs
)


def plan(version: str, soc: Soc, x: np.ndarray[Any, Any]) -> Plan:
    """The launch of a version ("optimised", "naive") for x: any shape, float32, float16 or bfloat16; softmax over the last axis.

    Raises BadArgument for another element type or a scalar.
    """
    if x.dtype.name not in TYPES:
        raise BadArgument(f"softmax of {x.dtype.name}", cure=f"convert x to one of {', '.join(TYPES)}")
    if x.ndim == 0:
        raise BadArgument("softmax needs an axis and x is a scalar", cure="pass x.reshape(1)")
    columns = x.shape[-1]
    rows = x.size // columns if columns else 0
    y = np.empty_like(x)
    tiling, key, blocks = choose(rows, columns, x.itemsize, soc)
    if version == "naive":
        blocks = max(1, min(rows, soc.aiv))
    workspace = np.zeros(max(1, rows * tiling["parts"]) * SLOT_BYTES, np.uint8) if key == 3 else None
    entry = "softmax" if version == "optimised" else "softmax_naive"
    return Plan(entry, blocks, (x, y, workspace, tiling), (y,), key, (f"DTYPE_X={c_type(x.dtype)}",))


def choose(rows: int, columns: int, item_bytes: int, soc: Soc) -> tuple[dict[str, int], int, int]:
    """(tiling fields, tiling key, blocks) for rows x columns of elements of item_bytes on a chip."""
    width = ceil_div(columns, 32 // item_bytes) * (32 // item_bytes)
    tiling = {
        "rows": rows,
        "columns": columns,
        "tileRows": 1,
        "buffers": 2,
        "parts": 1,
        "partColumns": columns,
        "pieceColumns": PIECE_COLUMNS,
    }
    if rows * columns == 0:
        return tiling, 1, 1  # an empty tensor is not launched
    cores = _cores(rows, width, soc)
    share = ceil_div(rows, cores)
    # By columns, a tile costs an instruction for each 64 of them; by rows, about four for each row.
    height = max(1, min(share, _tile_rows(width, item_bytes, soc)))
    if width <= MANY_COLUMNS and height * 180 >= width:
        tiling["tileRows"] = _even(share, min(height, 4095))
        return tiling, 1, cores
    buffers = _buffers(width, item_bytes, soc)
    parts = _parts(rows, columns, soc)
    if buffers and (columns < SHARED_COLUMNS or parts == 1):
        tiling["tileRows"] = height
        tiling["buffers"] = buffers
        return tiling, 2, cores
    tiling["parts"] = parts
    tiling["partColumns"] = (
        ceil_div(ceil_div(columns, parts), 128) * 128
    )  # parts begin on whole 512-byte (256-byte) pieces of GM
    return tiling, 3, min(cores, soc.aiv // parts) * parts


def _cores(rows: int, width: int, soc: Soc) -> int:
    """Cores for whole rows: as many as still save more time than launching one more costs."""
    worth = round(math.sqrt(rows * width * ELEMENT_US / soc.number("launch_blocks.block_us")))
    return max(1, min(rows, soc.aiv, worth))


def _tile_rows(width: int, item_bytes: int, soc: Soc) -> int:
    """Rows that UB holds four times, half types once more as floats, with what folding them column by column takes."""
    each = 4 * width * item_bytes + (4 * width if item_bytes == 2 else 0) + (288 if width >= 64 else 0)
    return min(TILE_FLOATS // width, (soc.bytes_of("ub") - FIXED_BYTES) // each)


def _even(rows: int, height: int) -> int:
    """Rows of a tile, at most `height`: whole groups where it holds several, and tiles of one height."""
    if height > GROUP_ROWS:
        return height // GROUP_ROWS * GROUP_ROWS
    return ceil_div(rows, ceil_div(rows, height))


def _parts(rows: int, columns: int, soc: Soc) -> int:
    """How many cores share a row: what makes the core with the most to do finish first."""
    every = [p for p in range(1, soc.aiv + 1) if soc.aiv % p == 0 and (p == 1 or columns // p >= 2048)]
    return min(every, key=lambda p: ceil_div(rows, soc.aiv // p) * ceil_div(columns, p) + SYNC_COLUMNS * (p > 1))


def _buffers(width: int, item_bytes: int, soc: Soc) -> int:
    """How many buffers per queue a whole row leaves room for: 2, 1 or 0."""
    fixed = 16 << 10  # row values, their blocks, partial results' last level
    for buffers in (2, 1):
        per_column = 2 * buffers * item_bytes + (4 if item_bytes == 2 else 0) + 0.5
        if width * per_column + fixed <= soc.bytes_of("ub"):
            return buffers
    return 0


def optimised(x: np.ndarray[Any, Any], **_: Any) -> Any:
    """What `toprope test` calls."""
    return outputs(plan, "softmax", "optimised", x)


def naive(x: np.ndarray[Any, Any], **_: Any) -> Any:
    """The same, naive version."""
    return outputs(plan, "softmax", "naive", x)
