"""What lanes compute, on NumPy: the vector unit's arithmetic and the scalar unit's whole numbers, bit for bit."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from toprope.dtypes import Dtype
from toprope.tile import lanes

Array = np.ndarray[Any, Any]


def numpy_type(kind: Dtype) -> np.dtype[Any]:
    """The NumPy type of an element type."""
    assert kind.numpy is not None
    return kind.numpy


def is_float(kind: Dtype) -> bool:
    """float32, float16 or bfloat16."""
    return kind.name in ("float32", "float16", "bfloat16")


def unary(name: str) -> Callable[[Array], Array]:
    """exp, log, sqrt or rsqrt as the vector unit rounds them."""
    return lambda x: lanes.unary(name, np.asarray(x)).reshape(np.shape(x))


def quotient(a: Array, b: Array) -> Array:
    """a // b cut towards zero, as C does; 0 where b is 0."""
    safe = np.where(b == 0, 1, b)
    found: Array = np.where(b == 0, 0, np.trunc_divide(a, safe)) if hasattr(np, "trunc_divide") else _cut(a, safe, b)
    return found


def _cut(a: Array, safe: Array, b: Array) -> Array:
    down = np.floor_divide(a, safe)
    exact = down * safe == a
    up = np.where(~exact & ((a < 0) != (safe < 0)), down + 1, down)
    return np.where(b == 0, 0, up)


def remainder(a: Array, b: Array) -> Array:
    """a - quotient * b."""
    found: Array = np.where(b == 0, 0, a - quotient(a, b) * b)
    return found


def shift_left(a: Array, b: Array) -> Array:
    """a << b in a's width."""
    return np.left_shift(a, b)


def shift_right(a: Array, b: Array) -> Array:
    """a >> b; signed numbers keep their sign."""
    return np.right_shift(a, b)


def high_product(a: Array, b: Array) -> Array:
    """The upper 32 bits of a product of two 32-bit numbers without sign."""
    wide = a.astype(np.uint64) * b.astype(np.uint64)
    found: Array = (wide >> np.uint64(32)).astype(np.asarray(a).dtype)
    return found


def rounded(name: str) -> Callable[[Array], Array]:
    """floor, ceil, trunc, rint, and round with ties away from zero."""
    steps: dict[str, Callable[[Array], Array]] = {
        "floor": np.floor, "ceil": np.ceil, "trunc": np.trunc, "rint": np.rint,
        "round": lambda x: np.copysign(np.floor(np.abs(x) + np.asarray(x).dtype.type(0.5)), x),
    }  # fmt: skip
    return steps[name]


def cast(x: Array, kind: Dtype, mode: str = "") -> Array:
    """To another element type: to even between floats, cut off on the way to whole numbers ("rint": to even), 8 bits saturate from floats."""
    x, to = np.asarray(x), numpy_type(kind)
    if kind.name == "bool":
        return np.asarray(x != 0)
    if x.dtype == to:
        return x
    if is_float(kind):
        if x.dtype.kind in "iub" and to != np.float32:
            x = x.astype(np.float32)  # the chip goes through float32
        return x.astype(to)
    if x.dtype.kind in "iub":
        return x.astype(to)
    single = x.astype(np.float32)
    cut = (np.rint if mode == "rint" else np.trunc)(single)
    limits = np.iinfo(
        to
        if kind.bits in (8, 16) and kind.name in ("int8", "uint8", "int16")
        else np.int64
        if kind.bits == 64
        else np.int32
    )
    wide = np.nan_to_num(cut.astype(np.float64), nan=0.0, posinf=float(limits.max), neginf=float(limits.min))
    if limits.max > 1 << 53:
        wide = np.clip(wide, -9.223372036854775e18, 9.223372036854775e18)
    else:
        wide = np.clip(wide, limits.min, limits.max)
    return wide.astype(np.int64).astype(to)


def halves(name: str, x: Array, axis: int) -> Array:
    """sum, max or min along an axis: halves against halves while its extent is even, then one after the other."""
    steps: dict[str, Callable[[Array, Array], Array]] = {"sum": np.add, "max": lanes.larger, "min": lanes.smaller}
    step, x = steps[name], np.moveaxis(x, axis, 0)
    while len(x) % 2 == 0:
        x = step(x[: len(x) // 2], x[len(x) // 2 :])
    found: Array = x[0]
    for row in x[1:]:
        found = step(found, row)
    return found
