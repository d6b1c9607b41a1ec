"""The reference of moe_gating_topk in NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]


LOWEST = np.finfo(np.float32).min  # -inf counts as this: only experts that are out of the question lie lower


def best(values: Array, count: int) -> Array:
    """Places of the `count` largest of the last axis, largest first; NaN before everything, equal values in order."""
    return np.asarray(np.lexsort((-np.maximum(values, LOWEST), ~np.isnan(values)), axis=-1)[..., :count])


def moe_gating_topk(
    x: Array,
    bias: Array | None = None,
    k: int = 1,
    group_count: int = 1,
    k_group: int = 1,
    group_select_mode: int = 0,
    norm_type: int = 0,
    renorm: int = 0,
    routed_scaling_factor: float = 1.0,
    eps: float = 1e-20,
) -> list[Array]:
    """Weights and numbers of the k best experts of every row. Choices are compared in float32: the operator is defined so."""
    if norm_type == 1:
        scores = 1 / (1 + np.exp(-x))
    else:
        e = np.exp(x - x.max(axis=-1, keepdims=True))
        scores = e / e.sum(axis=-1, keepdims=True)
    choice = x.astype(np.float32) if bias is None else scores.astype(np.float32) + bias.astype(np.float32)
    rows, experts = x.shape
    if group_count > 1:
        groups = choice.reshape(rows, group_count, experts // group_count)
        leaders = np.take_along_axis(groups, best(groups, group_select_mode + 1), -1).sum(-1, dtype=np.float32)
        kept = np.zeros((rows, group_count), bool)
        np.put_along_axis(kept, best(leaders, k_group), True, -1)
        places = np.argsort(~np.repeat(kept, experts // group_count, -1), axis=-1, kind="stable")
        places = places[:, : k_group * experts // group_count]
    else:
        places = np.broadcast_to(np.arange(experts), choice.shape)
    chosen = best(np.take_along_axis(choice, places, -1), k)
    indices = np.take_along_axis(places, chosen, -1)
    weights = np.take_along_axis(scores, indices, -1)
    if renorm:
        weights = weights / (weights.sum(-1, keepdims=True) + eps)
    return [weights * routed_scaling_factor, indices]
