"""Host side of embedding_dense_grad: checks grad and indices, and shares the indices out evenly, whatever they are."""

from __future__ import annotations

from typing import Any

import numpy as np

from toprope.errors import BadArgument
from toprope.ops import Plan, c_type, ceil_div, outputs
from toprope.soc import Soc

Array = np.ndarray[Any, Any]
TYPES = ("float32", "float16", "bfloat16")
PIECE = 2048  # columns at a time
BATCH_FLOATS = 8192  # of rows at a time, in float
MOST_ROWS = 128
MOST_RUN = 4096
PART_COLUMNS = 256  # when indices are few, cores share rows; each gets about so many columns at least
LINE = 128  # floats of a line of L2: parts are whole ones
CORE_COUNT = 8  # indices of a core at least, and a multiple: cores begin on 32 bytes of the indices


def plan(
    version: str,
    soc: Soc,
    grad: Array,
    indices: Array,
    positions: Array | None = None,
    *,
    num_weights: int,
    padding_idx: int = -1,
    scale_grad_by_freq: int = 0,
    deterministic: int = 0,
) -> Plan:
    """The launch of a version ("optimised", "naive"): y[w], float32, is the sum of the rows of grad whose index is w.

    grad (..., columns) has a row for each of the int32 indices (...). With positions, indices are sorted and index i belongs to row
    positions[i] of grad, as a stable sort gives them: the sum is then made in a fixed order, without atomic additions. padding_idx: rows
    that are left out (-1: none); scale_grad_by_freq: rows are divided by how often their index occurs. Raises BadArgument where a rule is
    broken.
    """
    _check(grad, indices, positions, num_weights, padding_idx, scale_grad_by_freq)
    columns, count = grad.shape[-1], indices.size
    y = np.empty((num_weights, columns), np.float32)
    core_count = max(CORE_COUNT, ceil_div(ceil_div(count, soc.aiv), CORE_COUNT) * CORE_COUNT)
    naive = version == "naive"
    parts = 1 if naive else max(1, min(soc.aiv // max(1, ceil_div(count, core_count)), ceil_div(columns, PART_COLUMNS)))
    part = ceil_div(ceil_div(columns, parts), LINE) * LINE if parts > 1 else columns
    piece = max(1, min(part, PIECE))
    width = ceil_div(piece, 16) * 16
    tiling = {
        "count": count,
        "weights": num_weights,
        "columns": columns,
        "coreCount": core_count,
        "parts": parts,
        "partColumns": part,
        "batchRows": 1 if naive else max(1, min(MOST_ROWS, BATCH_FLOATS // width)),
        "piece": piece,
        "runLength": min(MOST_RUN, ceil_div(ceil_div(count, soc.aiv), 32) * 32),
        "sorted": int(positions is not None),
        "scaled": scale_grad_by_freq,
        "paddingIndex": padding_idx,
    }
    key = 2 if positions is not None and not naive else 1
    if deterministic and positions is None and not naive:
        key = 3
    workspace = None
    if key == 2:
        workspace = np.zeros(2 * soc.aiv * (width + 8), np.float32)
    elif key == 3:
        workspace = np.zeros(4 * count + 2 * soc.aiv * (width + 8), np.float32)
    elif scale_grad_by_freq:
        workspace = np.zeros(num_weights, np.float32)
    entry = "embedding_dense_grad_naive" if naive else "embedding_dense_grad"
    arguments = (grad, indices, positions, y, workspace, tiling)
    # All cores: those without indices clear their part of y.
    return Plan(entry, soc.aiv, arguments, (y,), key, (f"DTYPE_GRAD={c_type(grad.dtype)}",))


def _check(grad: Array, indices: Array, positions: Array | None, weights: int, padding: int, scaled: int) -> None:
    if grad.dtype.name not in TYPES:
        raise BadArgument(f"grad is {grad.dtype.name}", cure=f"convert it to one of {', '.join(TYPES)}")
    if indices.dtype != np.int32:
        raise BadArgument(f"indices are {indices.dtype.name}", cure="convert them to int32")
    if grad.shape[:-1] != indices.shape or grad.ndim == 0:
        raise BadArgument(
            f"grad has shape {grad.shape} and indices {indices.shape}",
            cure="grad has one axis more: a row for each index",
        )
    if positions is not None and (positions.dtype != np.int32 or positions.shape != (indices.size,)):
        raise BadArgument(
            f"positions are {positions.dtype.name} of shape {positions.shape}", cure=f"int32 of shape ({indices.size},)"
        )
    if positions is not None and indices.size and (np.diff(indices.reshape(-1)) < 0).any():
        raise BadArgument(
            "positions are given and indices are not sorted",
            cure="sort them: positions = argsort(indices, kind='stable')",
        )
    if not 1 <= weights < 1 << 31:
        raise BadArgument(f"num_weights {weights}", cure="at least 1: the rows of the table")
    if not -1 <= padding < weights:
        raise BadArgument(f"padding_idx {padding}", cure=f"-1 for none, or 0 to {weights - 1}")
    if scaled not in (0, 1):
        raise BadArgument(f"scale_grad_by_freq {scaled}", cure="0 or 1")


def optimised(grad: Array, indices: Array, positions: Array | None = None, **attributes: Any) -> Any:
    """What `toprope test` calls."""
    return outputs(plan, "embedding_dense_grad", "optimised", grad, indices, positions, **attributes)


def naive(grad: Array, indices: Array, positions: Array | None = None, **attributes: Any) -> Any:
    """The same, naive version."""
    return outputs(plan, "embedding_dense_grad", "naive", grad, indices, positions, **attributes)
