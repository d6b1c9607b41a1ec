"""Host side of layer_norm_gemm: checks the inputs, chooses how many rows vector cores hand over to cube cores at a time."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from toprope.errors import BadArgument
from toprope.ops import Plan, ceil_div, outputs
from toprope.ops.rows import choose
from toprope.soc import Soc

Array = np.ndarray[Any, Any]
TILE_M, TILE_N = 128, 256  # of the cube, as in the kernel
MOST_TURNS = 15  # a flag counts to 15, and the vector cores may be that far ahead
TURN_CORE_ROWS = 8  # that a vector core normalises at least before it waits for the others
MOST = (1 << 16) - 1  # a copy with change of layout counts rows, columns and the distance of rows in 16 bits


def plan(version: str, soc: Soc, x: Array, gamma: Array, beta: Array, w: Array, *, epsilon: float = 1e-5) -> Plan:
    """The launch of a version ("optimised", "naive") of c = layer_norm(x) x w: x (m, k), gamma and beta (k), w (k, n), all float16.

    Raises BadArgument where a rule of the prototype is broken.
    """
    _check(x, gamma, beta, w, epsilon)
    (m, k), n = x.shape, w.shape[1]
    c = np.empty((m, n), np.float16)
    norm, key, _ = choose(m, k, 2, True, soc)
    if key == 3:
        raise BadArgument(
            f"k is {k}: a row does not fit UB beside gamma and beta",
            cure="launch layer_norm and matmul one after the other",
        )
    naive = version == "naive"
    tiles_m = ceil_div(m, TILE_M)
    blocks = max(1, min(soc.aic, max(tiles_m * ceil_div(n, TILE_N), ceil_div(m, 2 * TURN_CORE_ROWS))))
    rows = max(m, 1) if naive else turn_rows(m, blocks)
    tiling = {"m": m, "k": k, "n": n, "epsilon": float(epsilon), "turnRows": rows, "tileRows": 1, "buffers": 1}
    tiling |= {"bandTiles": 1 if naive else min(band_rows(tiles_m, blocks), ceil_div(rows, TILE_M))}
    if not naive:
        share = ceil_div(rows, 2 * blocks)
        height = ceil_div(share, ceil_div(share, int(norm["tileRows"])))
        tiling |= {"tileRows": height, "buffers": int(norm["buffers"])}
    workspace = np.zeros((m, k), np.float16)
    entry = "layer_norm_gemm" if version == "optimised" else "layer_norm_gemm_naive"
    return Plan(entry, blocks, (x, gamma, beta, w, c, workspace, tiling), (c,), 0 if naive else key)


def band_rows(tiles_m: int, blocks: int) -> int:
    """Rows of tiles in a band: with `blocks` cores at work the block of C they cover is about square (tiles are twice as wide as high)."""
    return max(1, min(tiles_m, round(math.sqrt(2 * blocks))))


def turn_rows(m: int, blocks: int) -> int:
    """Rows of a turn: few, because the cube waits for the first; whole cube tiles; at most MOST_TURNS turns, as far as flags count."""
    least = max(TURN_CORE_ROWS * 2 * blocks, ceil_div(m, MOST_TURNS))
    return max(TILE_M, ceil_div(least, TILE_M) * TILE_M)


def _check(x: Array, gamma: Array, beta: Array, w: Array, epsilon: float) -> None:
    for name, array in {"x": x, "gamma": gamma, "beta": beta, "w": w}.items():
        if array.dtype != np.float16:
            raise BadArgument(f"{name} is {array.dtype.name}", cure="convert everything to float16")
    if x.ndim != 2 or w.ndim != 2 or x.shape[1] != w.shape[0]:
        raise BadArgument(f"x has shape {x.shape} and w {w.shape}", cure="x is (m, k) and w is (k, n)")
    if gamma.shape != (x.shape[1],) or beta.shape != gamma.shape:
        raise BadArgument(
            f"gamma has shape {gamma.shape}, beta {beta.shape}", cure=f"both have k = {x.shape[1]} elements"
        )
    if x.shape[1] % 16 or x.shape[1] == 0:
        raise BadArgument(f"k is {x.shape[1]}", cure="make it a multiple of 16: rows of the workspace are whole blocks")
    if max(x.shape[1], w.shape[1]) > MOST:
        raise BadArgument(f"k = {x.shape[1]}, n = {w.shape[1]}: too long", cure=f"at most {MOST} elements in a row")
    if not epsilon > 0:
        raise BadArgument(f"epsilon is {epsilon}", cure="give a positive number, so that a constant row has a scale")


def optimised(x: Array, gamma: Array, beta: Array, w: Array, epsilon: float = 1e-5) -> Any:
    """What `toprope test` calls."""
    return outputs(plan, "layer_norm_gemm", "optimised", x, gamma, beta, w, epsilon=epsilon)


def naive(x: Array, gamma: Array, beta: Array, w: Array, epsilon: float = 1e-5) -> Any:
    """The same, naive version."""
    return outputs(plan, "layer_norm_gemm", "naive", x, gamma, beta, w, epsilon=epsilon)
