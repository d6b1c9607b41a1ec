"""What the vector unit offers: one row per operation, read by level A (evaluate), the reader (types) and the printer (Ascend C name)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from toprope.dtypes import Dtype
from toprope.tile import lanes
from toprope.tile.language import FLOATS, TileError, bf16, f16, f32, i8, i16, i32, i64

Array = np.ndarray[Any, Any]
NUMBERS = (i16, f16, i32, f32)


@dataclass(frozen=True)
class Operation:
    """`call` is the Ascend C function on two tiles (or one), `with_scalar` the one on a tile and a number, "" if there is none."""

    call: str
    dtypes: tuple[Dtype, ...]
    evaluate: Callable[..., Array]
    with_scalar: str = ""


def _lanes(name: str) -> Callable[[Array], Array]:
    return lambda x: lanes.unary(name, x)


def _relu(x: Array) -> Array:
    return np.where((x > 0) | (x != x), x, x.dtype.type(0))


UNARY = {
    "exp": Operation("Exp", FLOATS, _lanes("exp")),
    "log": Operation("Ln", FLOATS, _lanes("log")),
    "sqrt": Operation("Sqrt", FLOATS, _lanes("sqrt")),
    "rsqrt": Operation("Rsqrt", FLOATS, _lanes("rsqrt")),
    "reciprocal": Operation("Reciprocal", FLOATS, _lanes("reciprocal")),
    "abs": Operation("Abs", FLOATS, np.abs),
    "relu": Operation("Relu", (f16, i32, f32), _relu),
}
BINARY = {
    "add": Operation("Add", NUMBERS, np.add, "Adds"),
    "sub": Operation("Sub", NUMBERS, np.subtract, "Adds"),
    "mul": Operation("Mul", NUMBERS, np.multiply, "Muls"),
    "div": Operation("Div", FLOATS, np.divide, "Muls"),
    "maximum": Operation("Max", NUMBERS, lanes.larger, "Maxs"),
    "minimum": Operation("Min", NUMBERS, lanes.smaller, "Mins"),
}
COMPARE = {
    "lt": Operation("LT", FLOATS, np.less),
    "le": Operation("LE", FLOATS, np.less_equal),
    "gt": Operation("GT", FLOATS, np.greater),
    "ge": Operation("GE", FLOATS, np.greater_equal),
    "eq": Operation("EQ", FLOATS, np.equal),
    "ne": Operation("NE", FLOATS, np.not_equal),
}
MIRRORED = {"lt": "gt", "le": "ge", "gt": "lt", "ge": "le", "eq": "eq", "ne": "ne"}
INDICES = (i32, i64)  # arrays whose entries say where elements or rows lie
PRODUCTS = (f16, bf16)  # operands of @
REDUCE = {"sum": (f32,), "max": (f16, f32), "min": (f16, f32)}
GATHERED = (i16, f16, bf16, i32, f32)  # elements that Gather and Brcb move
# (from, to) -> rounding mode of Cast.
CASTS = {
    (f16, f32): "CAST_NONE",
    (bf16, f32): "CAST_NONE",
    (f32, f16): "CAST_RINT",
    (f32, bf16): "CAST_RINT",
    (f32, i32): "CAST_RINT",
    (f16, i32): "CAST_RINT",
    (i32, f32): "CAST_RINT",
    (f16, i8): "CAST_RINT",
    (i8, f16): "CAST_NONE",
}


ROOTS = {0.5: "sqrt", -0.5: "rsqrt", -1: "reciprocal"}
# Words of other languages and what to write here.
INSTEAD = {
    "argmax": "m = tile.max(x, 1), then tile.min(tile.where(x >= m, tile.arange(c), tile.inf), 1)",
    "argmin": "m = tile.min(x, 1), then tile.min(tile.where(x <= m, tile.arange(c), tile.inf), 1)",
    "cumsum": "multiply by a triangle of ones with @, or run over tiles of size 1 with a loop variable",
    "concat": "give the array an axis of parts and index it with numbers: x[m, 0, d], x[m, 1, d]",
    "concatenate": "give the array an axis of parts and index it with numbers: x[m, 0, d], x[m, 1, d]",
    "mean": "divide the sum by the extent: tile.sum(x, 1) / N",
    "erf": "use tile.gelu or tile.tanh",
    "dot": "write acc += a[i, k] @ b[k, j] with acc = tile.acc((i, j))",
    "load": "index the array: x[i]",
    "store": "assign to the array: y[i] = value",
    "clip": "write tile.minimum(tile.maximum(x, low), high)",
    "pow": "write x ** 2, or tile.exp(tile.log(x) * p)",
    "transpose": "only operands of @ are transposed: a[k, i].T @ b[k, j]",
}


def whole_power(exponent: float) -> int:
    """How many factors x ** exponent has. Raises TileError for another exponent."""
    if exponent != int(exponent) or not 1 <= exponent <= 8:
        raise TileError(f"a power of {exponent}", cure="use 1 to 8, 0.5, -0.5 or -1, or tile.exp(tile.log(x) * p)")
    return int(exponent)


def scalar_operand(operation: str, value: float, *, scalar_first: bool) -> tuple[str, float]:
    """How a tile meets a number: (steps, number). The chip has only +, *, max, min with a number.

    steps: "plain" x op s; "negate" -x + s; "fill" the number becomes a tile first (s / x).
    """
    if operation == "sub":
        return ("negate", value) if scalar_first else ("plain", -value)
    if operation == "div":
        if scalar_first:
            return "fill", value
        single = np.float32(value)
        if single == 0:
            raise TileError("a tile is divided by the number 0", cure="divide by something else")
        return "plain", float(np.float32(1) / single)
    return "plain", value


def require(name: str, allowed: tuple[Dtype, ...], kind: Dtype) -> None:
    """Raise TileError unless the vector unit has `name` for this element type."""
    if not any(kind is k for k in allowed):  # element types are singletons; level A asks this for every operation
        names = ", ".join(d.name for d in allowed)
        raise TileError(f"{name} has no {kind.name} form on this chip", cure=f"convert with .to(...) to one of {names}")


def require_same(name: str, a: Dtype, b: Dtype) -> None:
    """Raise TileError when two tiles of different element types meet: conversions are written, never implied."""
    if a is not b:
        raise TileError(f"{name} of {a.name} and {b.name}", cure=f"convert one side, for example .to(tile.{_short(a)})")


def require_cast(source: Dtype, target: Dtype) -> None:
    """Raise TileError unless the chip converts `source` to `target` in one instruction."""
    if source != target and (source, target) not in CASTS:
        direct = [t for s, t in CASTS if s == source]
        between = next((t for t in direct if (t, target) in CASTS), None)
        cure = f"{source.name} converts to {', '.join(t.name for t in direct) or 'nothing; it serves as an index'}"
        if between is not None:
            cure = f"write .to(tile.{_short(between)}).to(tile.{_short(target)})"
        raise TileError(f"no conversion from {source.name} to {target.name}", cure=cure)


def _short(kind: Dtype) -> str:
    return {f32: "f32", f16: "f16", bf16: "bf16", i64: "i64", i32: "i32", i16: "i16", i8: "i8"}[kind]
