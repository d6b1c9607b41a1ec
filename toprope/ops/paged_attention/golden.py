"""The reference of paged_attention in NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]


def paged_attention(
    query: Array,
    key_cache: Array,
    value_cache: Array,
    block_table: Array,
    context_lens: Array,
    scale: float = 0.0,
    **_: Any,
) -> Array:
    """Attention of each sequence's query over its tokens in the cache; zeros where it has none. scale 0 is 1 / sqrt(head size)."""
    _, heads, dim = query.shape
    kv_heads = key_cache.shape[2]
    scale = scale or dim**-0.5
    out = np.zeros(query.shape, query.dtype)
    for b, length in enumerate(context_lens):
        pages = block_table[b].astype(np.int64)
        keys = key_cache[pages].reshape(-1, kv_heads, dim)[:length]
        values = value_cache[pages].reshape(-1, kv_heads, dim)[:length]
        for h in range(heads if length else 0):
            scores = keys[:, h * kv_heads // heads] @ query[b, h] * scale
            weights = np.exp(scores - scores.max())
            out[b, h] = weights @ values[:, h * kv_heads // heads] / weights.sum()
    return out
