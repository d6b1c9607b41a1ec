"""The reference of mla_prolog in NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]


def mla_prolog(
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
    heads: int = 1,
    cache_rows: int = 0,
    epsilon: float = 1e-5,
) -> list[Array]:
    """The query and both caches; rows of the caches that nobody writes are NaN.

    Products are rounded to float16 where the operator stores them: before a norm, a rotation and the second product.
    """
    tokens = x.shape[0]
    rope = cos.shape[1]
    query = _half(_half(_norm(_half(x @ w_dq), gamma_q, epsilon)) @ w_uq).reshape(tokens, heads, -1)
    query[:, :, -rope:] = _rotate(query[:, :, -rope:], cos[:, None], sin[:, None])
    caches = [np.full((cache_rows or tokens, n), np.nan, x.dtype) for n in (w_dkv.shape[1], rope)]
    caches[0][slots] = _norm(_half(x @ w_dkv), gamma_kv, epsilon)
    caches[1][slots] = _rotate(_half(x @ w_kr), cos, sin)
    return [query.reshape(tokens, -1), *caches]


def query(
    x: Array,
    downQuery: Array,
    upQuery: Array,
    downKey: Array,
    downRope: Array,
    gammaQuery: Array,
    gammaKey: Array,
    **rest: Array,
) -> Array:
    """The first output alone, by the names of the kernel's arguments: four heads, as in the launch file."""
    angles = rest["cosine"], rest["sine"]
    return mla_prolog(x, downQuery, upQuery, downKey, downRope, gammaQuery, gammaKey, *angles, rest["slots"], heads=4)[
        0
    ]


def _half(values: Array) -> Array:
    return values.astype(np.float16).astype(values.dtype)


def _norm(rows: Array, gamma: Array, epsilon: float) -> Array:
    return np.asarray(rows / np.sqrt((rows**2).mean(axis=-1, keepdims=True) + epsilon) * gamma)


def _rotate(rows: Array, cos: Array, sin: Array) -> Array:
    first, second = np.split(rows, 2, axis=-1)
    return np.asarray(rows * cos + np.concatenate([-second, first], axis=-1) * sin)
