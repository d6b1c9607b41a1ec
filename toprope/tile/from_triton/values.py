"""What an expression of a Triton function can be beside numbers and offsets, and what operations make of masked-off lanes."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from toprope.dtypes import Dtype
from toprope.tile.from_triton.offsets import Offsets
from toprope.tile.language import f32
from toprope.tile.program import Number, Value

_EVALUATE: dict[str, Callable[..., float]] = {
    "add": lambda a, b: a + b, "sub": lambda a, b: a - b, "mul": lambda a, b: a * b, "div": lambda a, b: a / b,
    "maximum": max, "minimum": min, "exp": math.exp, "log": math.log, "sqrt": math.sqrt, "rsqrt": lambda a: 1 / math.sqrt(a), "abs": abs,
}  # fmt: skip


@dataclass(frozen=True)
class Lanes:
    """A tile value. `outside` is what its masked-off lanes hold, None if that is not known; `whole`: no lane is masked off.

    `repeated`: one number per row took part, so that `outside` holds for masked-off columns only.
    """

    value: Value
    outside: float | None = None
    whole: bool = False
    repeated: bool = False


@dataclass(frozen=True)
class Filled:
    """tl.zeros or tl.full before it meets a tile."""

    number: Number
    dtype: Dtype


@dataclass(frozen=True)
class Tiles:
    """tl.cdiv(extent, size) as the end of a range."""

    extent: Offsets
    size: int


@dataclass(frozen=True)
class Dot:
    """tl.dot of two loaded tiles; `summed` after it met an accumulator, `kind` after .to(...)."""

    left: Value
    right: Value
    line: int
    summed: bool = False
    kind: Dtype = f32


@dataclass(frozen=True)
class Word:
    """tl.<name>."""

    name: str


def outside_of(name: str, sides: list[float | None]) -> float | None:
    """What an operation makes of masked-off lanes; a lane of unknown value is taken to be finite."""
    if None not in sides:
        try:
            found = float(np.float32(_EVALUATE[name](*sides)))
        except (ValueError, OverflowError, ZeroDivisionError):
            return None
        return None if math.isnan(found) else found
    known = [s for s in sides if s is not None]
    if not known:
        return None
    if name == "mul" or (name == "div" and sides[0] is not None):
        return 0.0 if known[0] == 0 else None
    if name in ("add", "sub") and math.isinf(known[0]):
        return -known[0] if name == "sub" and sides[0] is None else known[0]
    if (name, known[0]) in (("maximum", math.inf), ("minimum", -math.inf)):
        return known[0]
    return None
