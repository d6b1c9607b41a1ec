"""Host side of mla_prolog: checks the tensors, and cuts the products so that every cube core has a part of the weights to read."""

from __future__ import annotations

from typing import Any

import numpy as np

from toprope.errors import BadArgument
from toprope.ops import Plan, ceil_div, outputs
from toprope.soc import Soc

Array = np.ndarray[Any, Any]
TILE_N = 256  # the most columns of a tile, as in the kernel
NAMES = ("x", "w_dq", "w_uq", "w_dkv", "w_kr", "gamma_q", "gamma_kv", "cos", "sin")


def plan(
    version: str,
    soc: Soc,
    x: Array,
    w_dq: Array,
    w_uq: Array,
    w_dkv: Array,
    w_kr: Array,
    gamma_q: Array,
    gamma_kv: Array,
    cos: Array,
    sin: Array,
    slots: Array,
    *,
    heads: int = 1,
    cache_rows: int = 0,
    epsilon: float = 1e-5,
    caches: tuple[Array, Array] | None = None,
) -> Plan:
    """The launch of a version ("optimised", "naive"). With T tokens and float16 tensors:

    x [T, H], w_dq [H, Q], w_uq [Q, heads * L], w_dkv [H, C], w_kr [H, R], gamma_q [Q], gamma_kv [C], cos and sin [T, R], slots [T] int32.
    Outputs: q [T, heads * L], the last R of each head rotated, and the caches [cache_rows, C] and [cache_rows, R], of which only the rows
    in `slots` are written; `caches` are those to update. Raises BadArgument where a rule of the prototype is broken.
    """
    tensors = (x, w_dq, w_uq, w_dkv, w_kr, gamma_q, gamma_kv, cos, sin)
    _check(dict(zip(NAMES, tensors, strict=True)), slots, heads, epsilon)
    tokens, hidden = x.shape
    rank, key_rank, rope, length = w_dq.shape[1], w_dkv.shape[1], w_kr.shape[1], w_uq.shape[1] // heads
    rows = caches[0].shape[0] if caches else cache_rows or tokens
    if slots.size and not 0 <= int(slots.min()) <= int(slots.max()) < rows:
        raise BadArgument(f"slots from {slots.min()} to {slots.max()}", cure=f"the cache has rows 0 to {rows - 1}")
    query = np.empty((tokens, w_uq.shape[1]), np.float16)
    kept = caches or (np.empty((rows, key_rank), np.float16), np.empty((rows, rope), np.float16))
    naive = version == "naive"
    tiling = {
        "tokens": tokens,
        "hidden": hidden,
        "queryRank": rank,
        "keyRank": key_rank,
        "rope": rope,
        "heads": heads,
        "headLength": length,
        "cacheRows": rows,
        "epsilon": float(epsilon),
        "downColumns": TILE_N if naive else tile_columns(tokens, rank + key_rank + rope, soc),
        "upColumns": TILE_N if naive else tile_columns(tokens, w_uq.shape[1], soc),
    }
    workspace = np.zeros(tokens * (2 * rank + key_rank + rope), np.float16)
    entry = "mla_prolog_naive" if naive else "mla_prolog"
    return Plan(entry, soc.aic, (*tensors, slots, query, *kept, workspace, tiling), (query, *kept))


def tile_columns(tokens: int, columns: int, soc: Soc) -> int:
    """Columns of a tile: such that each core has one tile, or several of nearly the most columns."""
    cores = max(1, soc.aic // ceil_div(tokens, 128))
    turns = ceil_div(columns, cores * TILE_N)
    return min(TILE_N, max(16, ceil_div(ceil_div(columns, cores * turns), 16) * 16))


def _check(given: dict[str, Array], slots: Array, heads: int, epsilon: float) -> None:
    for name, array in given.items():
        if array.dtype != np.float16:
            raise BadArgument(f"{name} is {array.dtype.name}", cure="convert everything but slots to float16")
    if slots.dtype != np.int32:
        raise BadArgument(f"slots are {slots.dtype.name}", cure="convert them to int32")
    matrices = [given[n] for n in ("x", "w_dq", "w_uq", "w_dkv", "w_kr")]
    if any(m.ndim != 2 or 0 in m.shape for m in matrices):
        raise BadArgument(
            f"shapes {[m.shape for m in matrices]}", cure="x and the weights are matrices that are not empty"
        )
    tokens, hidden = given["x"].shape
    rank, key_rank, rope = (given[n].shape[1] for n in ("w_dq", "w_dkv", "w_kr"))
    expected = {
        "w_dq": (hidden, rank),
        "w_dkv": (hidden, key_rank),
        "w_kr": (hidden, rope),
        "w_uq": (rank, given["w_uq"].shape[1]),
        "gamma_q": (rank,),
        "gamma_kv": (key_rank,),
        "cos": (tokens, rope),
        "sin": (tokens, rope),
    }
    for name, shape in expected.items():
        if given[name].shape != shape:
            raise BadArgument(f"{name} has shape {given[name].shape}", cure=f"with these x and weights it has {shape}")
    if slots.shape != (tokens,):
        raise BadArgument(f"slots have shape {slots.shape}", cure=f"one for each of {tokens} tokens")
    if rope % 16 or rope > 1024:
        raise BadArgument(f"{rope} columns are rotated", cure="a multiple of 16 up to 1,024")
    length, left = divmod(given["w_uq"].shape[1], heads) if heads > 0 else (0, 1)
    if left or length < rope or length % 16:
        raise BadArgument(
            f"w_uq has {given['w_uq'].shape[1]} columns for {heads} heads",
            cure="each head a multiple of 16 and at least rope",
        )
    if any(n % 16 for n in (rank, key_rank)) or max(rank, key_rank) > 4096:
        raise BadArgument(f"ranks {rank} and {key_rank}", cure="multiples of 16 up to 4,096, so that a row fits UB")
    if max(hidden, given["w_uq"].shape[1]) > 65535:
        raise BadArgument(f"{hidden} and {given['w_uq'].shape[1]} columns", cure="at most 65,535: copies count 16 bits")
    if not epsilon > 0:
        raise BadArgument(f"epsilon is {epsilon}", cure="give a positive number")


def optimised(*inputs: Array, heads: int = 1, cache_rows: int = 0, epsilon: float = 1e-5) -> Any:
    """What `toprope test` calls."""
    return outputs(plan, "mla_prolog", "optimised", *inputs, heads=heads, cache_rows=cache_rows, epsilon=epsilon)


def naive(*inputs: Array, heads: int = 1, cache_rows: int = 0, epsilon: float = 1e-5) -> Any:
    """The same, naive version."""
    return outputs(plan, "mla_prolog", "naive", *inputs, heads=heads, cache_rows=cache_rows, epsilon=epsilon)
