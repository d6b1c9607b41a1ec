"""Host side of gather (embedding lookup): checks table and indices, chooses the strategy, shares the work out."""

from __future__ import annotations

from typing import Any

import numpy as np

from toprope.errors import BadArgument
from toprope.ops import Plan, ceil_div, outputs
from toprope.soc import Soc

BATCH_BYTES = 32 << 10  # of rows that are stored together; two of them and the indices leave room in UB
PIECE_BYTES = 64 << 10  # of a long row moved at a time
TABLE_BYTES = 96 << 10  # a table up to this size is kept in UB
RESIDENT_ROW_BYTES = 31 * 32  # Gatherb counts the distance of repeats, eight rows, in one byte
INDEX_TILE = 2040


def plan(version: str, soc: Soc, table: np.ndarray[Any, Any], indices: np.ndarray[Any, Any]) -> Plan:
    """The launch of a version ("optimised", "naive") of y = table[indices]; rows are along all axes of table but the first.

    Raises BadArgument where a rule of the prototype is broken. An index outside the table is the kernel's gm-out-of-bounds.
    """
    if indices.dtype != np.int32:
        raise BadArgument(f"indices are {indices.dtype}", cure="convert them to int32")
    if table.ndim == 0:
        raise BadArgument("the table is a scalar and has no rows", cure="give it at least one axis")
    row_bytes = table.itemsize * int(np.prod(table.shape[1:], dtype=np.int64))
    if row_bytes * max(table.shape[0], 1) >= 1 << 40:
        raise BadArgument(f"the table has {row_bytes * table.shape[0]} bytes", cure="at most 1 TB")
    y = np.empty((*indices.shape, *table.shape[1:]), table.dtype)
    rows = table.shape[0]
    tiling = {"tableRows": rows, "rowBytes": row_bytes, "indices": indices.size, "parts": 1}
    if version == "naive":
        cores = max(1, min(soc.aiv, indices.size))
        tiling |= {"partBytes": row_bytes, "pieceBytes": min(row_bytes, PIECE_BYTES), "batchRows": 1}
        tiling["coreIndices"] = ceil_div(indices.size, cores)
        return Plan("gather_naive", cores, (table, indices, y, tiling), (y,))
    key, blocks, chosen = choose(rows, row_bytes, indices.size, soc)
    return Plan("gather", blocks, (table, indices, y, tiling | chosen), (y,), key)


def choose(rows: int, row_bytes: int, count: int, soc: Soc) -> tuple[int, int, dict[str, int]]:
    """(tiling key, blocks, the fields that depend on the strategy)."""
    cores = max(1, min(soc.aiv, count))
    share = ceil_div(count, cores)
    chosen = {
        "parts": 1,
        "partBytes": row_bytes,
        "pieceBytes": max(1, min(row_bytes, PIECE_BYTES)),
        "coreIndices": share,
    }
    table_bytes = rows * row_bytes
    resident = 0 < table_bytes <= TABLE_BYTES and row_bytes % 32 == 0 and row_bytes <= RESIDENT_ROW_BYTES
    # Every core loads the whole table; below that many bytes of rows it is cheaper to fetch them one by one.
    if resident and share * row_bytes >= table_bytes // 4:
        batch = min(INDEX_TILE, BATCH_BYTES // row_bytes // 8 * 8)
        return 2, ceil_div(count, share), chosen | {"batchRows": batch}
    parts = min(soc.aiv // cores, max(1, row_bytes // 4096))
    if parts > 1:
        chosen |= {"parts": parts, "partBytes": ceil_div(ceil_div(row_bytes, parts), 512) * 512}
        chosen["pieceBytes"] = min(chosen["partBytes"], PIECE_BYTES)
    padded = ceil_div(chosen["pieceBytes"], 32) * 32
    chosen["batchRows"] = max(1, min(BATCH_BYTES // padded, share))
    return 1, ceil_div(count, share) * parts if count else 1, chosen


def optimised(table: np.ndarray[Any, Any], indices: np.ndarray[Any, Any]) -> Any:
    """What `toprope test` calls."""
    return outputs(plan, "gather", "optimised", table, indices)


def naive(table: np.ndarray[Any, Any], indices: np.ndarray[Any, Any]) -> Any:
    """The same, naive version."""
    return outputs(plan, "gather", "naive", table, indices)
