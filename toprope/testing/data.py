"""Contents of test tensors: distributions, special values, indices and inputs that depend on one another.

A Fill says how to make the values and is plain data; `make` turns it into an array with a seeded generator.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from toprope.testing.elements import Array, dtype_of, float_limits, integer_limits, is_float, is_integer
from toprope.testing.errors import CaseError

DISTRIBUTIONS = ("uniform", "normal", "beta", "laplace", "triangular", "relu", "sigmoid", "softmax", "tanh")
"""The distributions of msopst's data_distribute; all of them are brought into the value range."""

PATTERNS = ("constant", "arange", "values", "bits", "specials", "ties", "mask", "index", "permutation")
RELATIONS = ("near", "copy", "opposite", "sorted", "offsets")


@dataclass(frozen=True)
class Fill:
    """How the values of one tensor come about.

    kind     a distribution, a pattern or a relation to an earlier input (`of`)
    low,high value range; for "mask" `high` is the probability of a one, for "near" the relative distance
    mean,std for "normal" only; without them the range gives them
    of,axis  the earlier input that a relation or an "index" refers to; an index lies in [0, shape[axis]) of that input
    values   for "values": repeated to fill the tensor; otherwise planted at the start (values that must appear)

    kinds: uniform normal beta laplace triangular relu sigmoid softmax tanh | constant (low) | arange | values | bits
    (any bit pattern) | specials (zeros, infinities, NaN, extremes; all combinations across the inputs) | ties (halfway
    points of roundings) | mask | index | permutation | near (of * (1 +- high)) | copy | opposite (negated, for
    cancellation) | sorted (ascending uniform) | offsets (ascending, last = shape[axis] of `of`, as group lists need)
    """

    kind: str = "uniform"
    low: float = -2.0
    high: float = 2.0
    mean: float | None = None
    std: float | None = None
    of: str = ""
    axis: int = 0
    values: tuple[Any, ...] = ()

    def __post_init__(self) -> None:
        if self.kind not in (*DISTRIBUTIONS, *PATTERNS, *RELATIONS):
            raise CaseError(
                f"no way of filling called {self.kind!r}",
                cure=f"use one of {', '.join((*DISTRIBUTIONS, *PATTERNS, *RELATIONS))}",
            )


UNIFORM = Fill()
"""The usual contents: uniform in [-2, 2], ops-test-kit's default range."""


def make(
    fill: Fill,
    dtype: str,
    shape: tuple[int, ...],
    random: np.random.Generator,
    *,
    position: int = 0,
    earlier: Mapping[str, Array] | None = None,
) -> Array:
    """An array of `shape` and `dtype` filled as `fill` says.

    position  number of the input within its operator, so that special values of several inputs meet in all combinations
    earlier   the inputs already made, by name, for relations and indices
    """
    kind = dtype_of(dtype)
    size = int(np.prod(shape, dtype=np.int64))
    if fill.kind in DISTRIBUTIONS:
        values = _distributed(fill, kind, shape, size, random)
    elif fill.kind in RELATIONS or fill.kind == "index":
        values = _related(fill, kind, shape, size, random, earlier or {})
    else:
        values = _patterned(fill, kind, size, random, position)
    result = values.reshape(shape)
    if fill.values and fill.kind != "values" and size:
        planted = convert(np.array(fill.values[:size], dtype=np.float64), kind)
        result = np.ascontiguousarray(result)
        result.reshape(-1)[: planted.size] = planted
    return result


def convert(values: Array, dtype: np.dtype[Any]) -> Array:
    """`values` in `dtype`; for whole numbers rounded and kept inside the range instead of wrapping."""
    if values.dtype == dtype:
        return values
    if dtype.kind == "b":
        return np.asarray(values > 0.5) if values.dtype.kind == "f" else values.astype(dtype)
    if is_integer(dtype) and values.dtype.kind == "f":
        least, most = integer_limits(dtype)
        # The largest int64 is no float64; the next float below it is the largest value that converts without wrapping.
        highest = float(most) if most < 1 << 53 else float(np.nextafter(float(most), 0))
        return np.clip(np.rint(values), float(least), highest).astype(dtype)
    with np.errstate(all="ignore"):
        return values.astype(dtype)


def special_values(dtype: str) -> Array:
    """Values at which arithmetic of this element type behaves specially, each bit pattern once."""
    kind = dtype_of(dtype)
    if kind.kind == "c":
        return special_values(f"float{kind.itemsize * 4}").astype(kind)
    if kind.kind == "b":
        return np.array([False, True])
    if is_integer(kind):
        first, last = integer_limits(kind)
        chosen = sorted({first, first + 1, max(-1, first), 0, 1, last - 1, last})
        return np.array(chosen, dtype=np.int64 if first < 0 else np.uint64).astype(kind)
    top, eps, tiny, least, mantissa_bits = float_limits(kind)
    exact_limit = 2.0 ** (mantissa_bits + 1)
    positive = [0.0, least, tiny - least, tiny, 0.5, 1 - eps / 2, 1.0, 1 + eps, 1.5, 2.5, np.pi / 2]
    positive += [np.log(top), exact_limit - 1, exact_limit, top, np.inf]
    both = np.array([s * v for v in positive for s in (1.0, -1.0)] + [np.nan])
    with np.errstate(all="ignore"):
        cast = both.astype(kind)
    _, seen = np.unique(cast.view(f"u{kind.itemsize}"), return_index=True)
    return np.asarray(cast[np.sort(seen)])


def tie_values(dtype: str) -> Array:
    """Values halfway between two results of a rounding: to whole numbers, and to every narrower float."""
    kind = dtype_of(dtype)
    if not is_float(kind):
        return special_values(dtype)
    halves = np.arange(-8, 8) + 0.5
    ties = [halves, halves * 1024]
    for narrower in ("float16", "bfloat16", "float8_e4m3fn", "float8_e5m2"):
        if dtype_of(narrower).itemsize < kind.itemsize:
            mantissas = 1 + (np.arange(4) + 0.5) * float_limits(dtype_of(narrower)).eps
            ties.append(np.outer([-32.0, -1.0, 0.125, 1.0, 32.0], mantissas).reshape(-1))
    return np.concatenate(ties).astype(kind)


def _distributed(
    fill: Fill, kind: np.dtype[Any], shape: tuple[int, ...], size: int, random: np.random.Generator
) -> Array:
    low, high = _range_within(fill, kind)
    if kind.kind == "c":
        part = np.dtype(f"f{kind.itemsize // 2}")
        real, imaginary = (_distributed(fill, part, shape, size, random) for _ in range(2))
        return np.asarray(real + 1j * imaginary, dtype=kind)
    if is_integer(kind) and kind.kind != "b" and fill.kind == "uniform":
        most = integer_limits(kind)[1]
        first, last = min(int(low), most), min(int(high), most)
        wide = np.uint64 if last >= 1 << 63 else np.int64
        drawn = random.integers(first, last, size, dtype=wide, endpoint=True)
        return drawn.astype(kind)
    # Half of the work is writing memory: single precision is enough whenever the result is no wider.
    narrow = kind.itemsize <= 4 and is_float(kind)
    if fill.kind == "uniform":
        values: Array = random.random(size, dtype=np.float32) if narrow else random.random(size)
        if high - low < np.inf:
            values *= high - low
            values += low
        else:
            values = np.asarray(values, dtype=np.float64) * high + (1 - values) * low
        return convert(values, kind)
    return convert(_shaped(fill, low, high, shape, size, random), kind)


def _shaped(
    fill: Fill, low: float, high: float, shape: tuple[int, ...], size: int, random: np.random.Generator
) -> Array:
    """The distributions other than uniform, in float64 and inside [low, high]."""
    middle, half = (low + high) / 2, (high - low) / 2
    if fill.kind == "normal":
        mean = middle if fill.mean is None else fill.mean
        std = half / 3 if fill.std is None else fill.std
        drawn = random.standard_normal(size) * std + mean
        return drawn if fill.std is not None else np.clip(drawn, low, high)
    if fill.kind == "beta":
        return low + (high - low) * random.beta(0.5, 0.5, size)
    if fill.kind == "laplace":
        return np.clip(random.laplace(middle, half / 4, size), low, high)
    if fill.kind == "triangular":
        return random.triangular(low, middle, high, size) if high > low else np.full(size, low)
    drawn = random.standard_normal(size)
    if fill.kind == "relu":
        return np.clip(np.maximum(drawn, 0) * half, low, high)
    if fill.kind == "sigmoid":
        return low + (high - low) / (1 + np.exp(-drawn))
    if fill.kind == "tanh":
        return middle + half * np.tanh(drawn)
    rows = drawn.reshape(-1, shape[-1] if shape and shape[-1] else 1)
    grown = np.exp(rows - rows.max(axis=1, keepdims=True)) if rows.size else rows
    return np.asarray(low + (high - low) * (grown / np.maximum(grown.sum(axis=1, keepdims=True), 1e-300)).reshape(-1))


def _range_within(fill: Fill, kind: np.dtype[Any]) -> tuple[float, float]:
    """The value range cut to what the element type can hold."""
    low, high = float(fill.low), float(fill.high)
    if np.isnan(low) or np.isnan(high):
        return low, high
    low, high = min(low, high), max(low, high)
    if is_integer(kind) and kind.kind != "b":
        least, most = map(float, integer_limits(kind))
        if np.ceil(low) <= np.floor(high):
            low, high = np.ceil(low), np.floor(high)
    elif is_float(kind):
        most = float_limits(kind).most
        least = -most
    else:
        return low, high
    return float(np.clip(low, least, most)), float(np.clip(high, least, most))


def _patterned(fill: Fill, kind: np.dtype[Any], size: int, random: np.random.Generator, position: int) -> Array:
    if fill.kind == "constant":
        return convert(np.full(size, fill.low), kind)
    if fill.kind == "arange":
        return np.arange(size).astype(kind)
    if fill.kind == "permutation":
        return random.permutation(size).astype(kind)
    if fill.kind == "mask":
        return (random.random(size) < fill.high).astype(kind)
    if fill.kind == "bits":
        if kind.kind == "b":
            return random.integers(0, 2, size).astype(bool)
        raw = random.integers(0, 256, size * kind.itemsize, dtype=np.uint8)
        limit = {"int4": 4, "uint4": 4, "float4_e2m1fn": 4, "int2": 2, "uint2": 2}.get(kind.name)
        return (raw & np.uint8((1 << limit) - 1) if limit else raw).view(kind)
    if fill.kind == "values":
        if not fill.values:
            raise CaseError('a tensor filled with "values" needs some', cure="give values = [...]")
        given = np.array(fill.values)
        exact = given if given.dtype.kind in "biu" else convert(given.astype(np.float64), kind)
        return np.resize(exact.astype(kind), size)
    catalogue = tie_values(kind.name) if fill.kind == "ties" else special_values(kind.name)
    # Input 0 walks fastest, input 1 one step per full turn of input 0, ...: every combination appears.
    return np.asarray(catalogue[np.arange(size) // len(catalogue) ** position % len(catalogue)])


def _related(
    fill: Fill,
    kind: np.dtype[Any],
    shape: tuple[int, ...],
    size: int,
    random: np.random.Generator,
    earlier: Mapping[str, Array],
) -> Array:
    if fill.kind == "sorted":
        low, high = _range_within(fill, kind)
        return convert(np.sort(low + (high - low) * random.random(size)), kind)
    if fill.of not in earlier:
        raise CaseError(
            f"{fill.kind!r} refers to input {fill.of!r}, which does not come before it",
            cure=f"inputs made so far: {', '.join(earlier) or 'none'}",
        )
    other = earlier[fill.of]
    if fill.kind in ("index", "offsets"):
        bound = other.shape[fill.axis] if other.ndim else 1
        if fill.kind == "index":
            if bound == 0 and size:
                raise CaseError(f"no index into an empty axis {fill.axis} of {fill.of!r}")
            return random.integers(0, max(bound, 1), size).astype(kind)
        cuts = np.sort(random.integers(0, bound, max(size - 1, 0), endpoint=True))
        return np.append(cuts, [bound] if size else []).astype(kind)
    stretched: Array = other.reshape(shape) if other.size == size else np.broadcast_to(other, shape)
    wide = stretched.reshape(-1).astype(np.complex128 if kind.kind == "c" else np.float64)
    if fill.kind == "near":
        wide = wide * (1 + fill.high * (2 * random.random(size) - 1))
    return convert(-wide if fill.kind == "opposite" else wide, kind)
