"""Host side of matmul: checks a and b and decides in which order the tiles of c are computed."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from toprope.errors import BadArgument
from toprope.ops import Plan, ceil_div, outputs
from toprope.soc import Soc

LADDER = ("naive", "buffered", "packets", "banded", "optimised")
TILE_M, TILE_N = 128, 256  # as in the kernel
MOST = (1 << 16) - 1  # a copy with change of layout counts rows, columns and the distance of rows in 16 bits


def plan(version: str, soc: Soc, a: np.ndarray[Any, Any], b: np.ndarray[Any, Any], *, blocks: int = 0) -> Plan:
    """The launch of a rung of LADDER for c = a x b, float16 matrices in row-major order; `blocks` 0 means all cores.

    Raises BadArgument where a rule of the prototype is broken.
    """
    if a.dtype != np.float16 or b.dtype != np.float16:
        raise BadArgument(f"matmul of {a.dtype.name} and {b.dtype.name}", cure="convert both to float16")
    if a.ndim != 2 or b.ndim != 2 or a.shape[1] != b.shape[0]:
        raise BadArgument(f"a has shape {a.shape} and b {b.shape}", cure="a is (m, k) and b is (k, n)")
    if max(a.shape[1], b.shape[1]) > MOST:
        raise BadArgument(
            f"k = {a.shape[1]}, n = {b.shape[1]}: rows of a or b are too long", cure=f"at most {MOST} elements in a row"
        )
    m, k, n = a.shape[0], a.shape[1], b.shape[1]
    if k == 0 and m * n > 0:
        raise BadArgument("k is 0", cure="fill c with zeros instead of multiplying")
    c = np.empty((m, n), np.float16)
    tiles = ceil_div(m, TILE_M) * ceil_div(n, TILE_N)
    blocks = blocks or max(1, min(soc.aic, tiles))
    banded = version in ("banded", "optimised")
    tiling = {"m": m, "n": n, "k": k, "bandRows": band_rows(ceil_div(m, TILE_M), blocks) if banded else 1}
    entry = "matmul" if version == "optimised" else f"matmul_{version}"
    return Plan(entry, blocks, (a, b, c, tiling), (c,))


def band_rows(tiles_m: int, blocks: int) -> int:
    """Rows of tiles in a band: with `blocks` cores at work the block of C they cover is about square (tiles are twice as wide as high)."""
    return max(1, min(tiles_m, round(math.sqrt(2 * blocks))))


def optimised(a: np.ndarray[Any, Any], b: np.ndarray[Any, Any]) -> Any:
    """What `toprope test` calls."""
    return outputs(plan, "matmul", "optimised", a, b)


def naive(a: np.ndarray[Any, Any], b: np.ndarray[Any, Any]) -> Any:
    """The same, naive version."""
    return outputs(plan, "matmul", "naive", a, b)
