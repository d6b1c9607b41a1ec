"""Host side of paged_attention: checks the cache and its tables, and shares the tokens out among the cores."""

from __future__ import annotations

from typing import Any

import numpy as np

from toprope.errors import BadArgument
from toprope.ops import Plan, c_type, ceil_div, outputs
from toprope.soc import Soc

Array = np.ndarray[Any, Any]
TYPES = ("float16", "bfloat16")
HEAD_DIMS = (64, 128)
MOST_GROUP = 16  # query heads of a head of the cache: rows of a fractal
TASK = 1024  # tokens of a task at most: their scores and values fit into L0C and L1
GRAIN = 128  # tasks begin on multiples of this many tokens
TASK_COST = 256  # tokens that the start of a task costs as much as


def plan(
    version: str,
    soc: Soc,
    query: Array,
    key_cache: Array,
    value_cache: Array,
    block_table: Array,
    context_lens: Array,
    *,
    scale: float = 0.0,
) -> Plan:
    """The launch of a version ("optimised", "naive"): attention of one new token of every sequence.

    query (batch, heads, head size); caches (pages, tokens of a page, heads of the cache, head size), float16 or bfloat16; block_table
    (batch, pages of a sequence) and context_lens (batch), int32, known to the host. scale 0 is 1 / sqrt(head size). Raises BadArgument
    where a rule is broken.
    """
    batch, heads, dim, kv_heads, page = _check(query, key_cache, value_cache, block_table, context_lens)
    out = np.empty_like(query)
    tasks = schedule(context_lens, kv_heads, soc.aic)
    cores = max(1, tasks["cores"].size - 1)
    group = heads // kv_heads
    table = np.concatenate([tasks["cores"], tasks["heads"], tasks["tasks"].reshape(-1)]).astype(np.int32)
    count = len(tasks["tasks"])
    tiling: dict[str, int | float] = {
        "batch": batch,
        "heads": heads,
        "kvHeads": kv_heads,
        "group": group,
        "headDim": dim,
        "pageTokens": page,
        "pages": key_cache.shape[0],
        "tableWidth": block_table.shape[1],
        "tasks": count,
        "scale": scale or dim**-0.5,
    }
    floats = 4 * cores * group * TASK + count * group * (dim + 16)
    inputs, defines = (
        (query, key_cache, value_cache, block_table, context_lens),
        (f"DTYPE_QUERY={c_type(query.dtype)}",),
    )
    if version == "naive":
        blocks = max(1, min(soc.aic, ceil_div(batch * heads, 2)))
        return Plan("paged_attention_naive", blocks, (*inputs, out, None, None, tiling), (out,), 0, defines)
    workspace = np.zeros(floats, np.float32)
    return Plan("paged_attention", cores, (*inputs, out, workspace, table, tiling), (out,), 0, defines)


def _check(query: Array, keys: Array, values: Array, table: Array, lengths: Array) -> tuple[int, int, int, int, int]:
    if query.dtype.name not in TYPES or keys.dtype != query.dtype or values.dtype != query.dtype:
        raise BadArgument(
            f"query, key_cache and value_cache are {query.dtype.name}, {keys.dtype.name} and {values.dtype.name}",
            cure=f"all three of one type, {' or '.join(TYPES)}",
        )
    if query.ndim != 3 or keys.ndim != 4 or keys.shape != values.shape or keys.shape[3] != query.shape[2]:
        raise BadArgument(
            f"query has shape {query.shape}, the caches {keys.shape} and {values.shape}",
            cure="query (batch, heads, head size), both caches (pages, tokens of a page, heads of the cache, head size)",
        )
    batch, heads, dim = query.shape
    page, kv_heads = keys.shape[1], keys.shape[2]
    if dim not in HEAD_DIMS:
        raise BadArgument(f"head size {dim}", cure=f"it must be one of {', '.join(map(str, HEAD_DIMS))}")
    if heads % kv_heads or heads // kv_heads > MOST_GROUP:
        raise BadArgument(
            f"{heads} query heads for {kv_heads} heads of the cache",
            cure=f"a whole number of query heads for each, at most {MOST_GROUP}",
        )
    if page % 16:
        raise BadArgument(f"pages of {page} tokens", cure="a multiple of 16: fractals do not straddle pages")
    if (
        table.dtype != np.int32
        or lengths.dtype != np.int32
        or table.shape[0:1] != (batch,)
        or lengths.shape != (batch,)
    ):
        raise BadArgument(
            f"block_table is {table.dtype} {table.shape}, context_lens {lengths.dtype} {lengths.shape}",
            cure=f"int32 of shapes ({batch}, pages of a sequence) and ({batch},)",
        )
    if batch and (lengths.min() < 0 or lengths.max() > table.shape[1] * page):
        raise BadArgument(
            f"context_lens from {lengths.min()} to {lengths.max()}",
            cure=f"block_table has room for 0 to {table.shape[1] * page}",
        )
    return batch, heads, dim, kv_heads, page


def schedule(lengths: Array, kv_heads: int, cores: int) -> dict[str, Array]:
    """Tasks (sequence, head, first token, tokens), where those of each core begin, and where those of each sequence and head begin.

    The tokens of all sequences and heads, one behind the other, are cut into equal parts, one a core; a part that crosses from one head
    to the next becomes two tasks, and no task is longer than 1,024 tokens.
    """
    cost = int((np.where(lengths > 0, lengths + TASK_COST, 0)).sum()) * kv_heads
    share = max(1, ceil_div(cost, cores))
    tasks: list[tuple[int, int, int, int]] = []
    heads, begins, spent = [0], [0], 0
    for sequence, length in enumerate(int(n) for n in lengths):
        for head in range(kv_heads):
            at = 0
            while at < length:
                if (
                    spent + TASK_COST + GRAIN > share * len(begins)
                    and spent > share * (len(begins) - 1)
                    and len(begins) < cores
                ):
                    begins.append(len(tasks))
                room = share * len(begins) - spent - (TASK_COST if at == 0 else 0)
                count = min(length - at, TASK, max(GRAIN, ceil_div(room, GRAIN) * GRAIN))
                tasks.append((sequence, head, at, count))
                spent += count + (TASK_COST if at == 0 else 0)
                at += count
            heads.append(len(tasks))
    begins.append(len(tasks))
    return {"cores": np.array(begins), "heads": np.array(heads), "tasks": np.array(tasks, np.int64).reshape(-1, 4)}


def optimised(*inputs: Any, **attributes: Any) -> Any:
    """What `toprope test` calls."""
    return outputs(plan, "paged_attention", "optimised", *inputs, **attributes)


def naive(*inputs: Any, **attributes: Any) -> Any:
    """The same, naive version."""
    return outputs(plan, "paged_attention", "naive", *inputs, **attributes)
