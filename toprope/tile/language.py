"""The words of the tile language that carry no arithmetic: element types, signatures, tunable sizes, errors."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from toprope.dtypes import Dtype, dtype
from toprope.errors import TopropeError

f32, f16, bf16, i64, i32, i16, i8 = (dtype(name) for name in ("f32", "f16", "bf16", "int64", "int32", "int16", "int8"))
FLOATS = (f16, f32)
inf = float("inf")


class TileError(TopropeError):
    """A tile kernel that cannot be read or emitted; the message begins with the user's file and line."""

    code = "tile-language"


class TileTooLarge(TileError):
    """The buffers of a kernel do not fit; the message holds the byte ledger and the largest sizes that would fit."""

    code = "tile-too-large"


@dataclass(frozen=True)
class Dim:
    """A symbolic extent; what a launch gives must lie in [min, max] and be a multiple of `multiple_of`."""

    name: str
    min: int = 1
    max: int = (1 << 31) - 1
    multiple_of: int = 1

    def check(self, value: int) -> None:
        """Raise TileError when `value` is outside what the kernel was written for."""
        if not self.min <= value <= self.max or value % self.multiple_of:
            raise TileError(
                f"dimension {self.name} is {value}; the kernel takes {self.min} to {self.max}, multiples of {self.multiple_of}",
                cure="pass arrays of another shape, or widen tile.Dim in the kernel's signature",
            )


@dataclass(frozen=True)
class Param:
    """One array of a kernel's signature. `dims` are names, repeated names must agree at the launch."""

    dims: tuple[Dim, ...]
    dtype: Dtype
    written: bool


class _Signature:
    def __init__(self, written: bool) -> None:
        self.written = written

    def __getitem__(self, items: Any) -> Param:
        if not isinstance(items, tuple) or len(items) < 2 or not isinstance(items[-1], Dtype):
            raise TileError(
                "an array is written In[dimension, ..., element type]", cure='for example In["M", "N", tile.f32]'
            )
        return Param(tuple(_dim(d) for d in items[:-1]), items[-1], self.written)


def _dim(given: Any) -> Dim:
    """A dimension of a signature: a tile.Dim, a name, or a number, which every launch must have. Raises TileError."""
    if isinstance(given, Dim):
        return given
    if isinstance(given, str) and given.isidentifier():
        return Dim(given)
    if isinstance(given, int) and not isinstance(given, bool) and 0 < given < 1 << 31:
        return Dim(f"fixed{given}", given, given, given)
    raise TileError(
        f"{given!r} is no dimension",
        cure='a dimension is a name, a whole number above 0 or tile.Dim: In["M", 2, tile.f32]',
    )


In: Any = _Signature(written=False)
Out: Any = _Signature(written=True)


@dataclass(frozen=True)
class Tune:
    """A tile size that is fixed in an emitted kernel and may be searched; multiples of `mult`."""

    default: int
    mult: int = 1


def tune(default: int, *, mult: int = 1) -> Any:
    """Declare a tunable tile size as the default of a keyword parameter."""
    return Tune(default, mult)


@dataclass(frozen=True)
class Pin:
    """A placement that the author decides: the buffers of what is loaded from or stored to `name`, or the memory where it lies."""

    name: str
    memory: str = ""
    depth: int = 0


@dataclass(frozen=True)
class Builtin:
    """A name of the language: what it is called and how level A evaluates it."""

    name: str
    evaluate: Callable[..., Any]

    def __call__(self, *args: Any, **options: Any) -> Any:
        return self.evaluate(*args, **options)


def numpy_of(kind: Dtype) -> np.dtype[Any]:
    """The NumPy type of an element type of the language."""
    assert kind.numpy is not None
    return kind.numpy
