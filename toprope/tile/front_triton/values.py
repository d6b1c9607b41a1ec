"""What names of a Triton function hold beside numbers, tiles and scalars: pointers, block pointers; and how any of it is taken apart for control flow."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from toprope.dtypes import Dtype
from toprope.tile.form import numbers
from toprope.tile.form.nodes import WHOLE, Value, boolean, f16, f32, i32, i64


@dataclass(frozen=True)
class Pointer:
    """An array, the element type it is seen with, and whole-number offsets: None (0), a scalar or a tile."""

    array: str
    dtype: Dtype
    offset: Value | None = None

    @property
    def shape(self) -> tuple[int, ...]:
        """The extents of its offsets."""
        return self.offset.shape if self.offset is not None else ()


@dataclass(frozen=True)
class BlockPointer:
    """make_block_ptr or a tensor descriptor: a window of an array with axes, in elements."""

    pointer: Pointer
    extents: tuple[Any, ...]
    strides: tuple[Any, ...]
    offsets: tuple[Any, ...]
    block: tuple[int, ...]
    descriptor: bool = False

    @property
    def dtype(self) -> Dtype:
        """Its elements."""
        return self.pointer.dtype

    @property
    def shape(self) -> tuple[int, ...]:
        """The window's extents."""
        return self.block


def is_number(x: Any) -> bool:
    """A number of Python."""
    return isinstance(x, int | float | bool)


def leaves(x: Any) -> tuple[list[Any], Callable[[list[Any]], Any]]:
    """The values and numbers inside, and what makes the same thing of others."""
    if isinstance(x, Value) or is_number(x):
        return [x], lambda new: new[0]
    if isinstance(x, Pointer):
        if x.offset is None:
            return [0], lambda new: replace(x, offset=new[0] if isinstance(new[0], Value) else None)
        return [x.offset], lambda new: replace(x, offset=new[0])
    if isinstance(x, BlockPointer):
        count = len(x.offsets)
        inner, make = leaves(x.pointer)
        return [*x.offsets, *inner], lambda new: replace(x, offsets=tuple(new[:count]), pointer=make(new[count:]))
    if isinstance(x, tuple | list):
        parts = [leaves(e) for e in x]

        def rebuilt(new: list[Any]) -> Any:
            made, at = [], 0
            for found, make in parts:
                made.append(make(new[at : at + len(found)]))
                at += len(found)
            return type(x)(made)

        return [leaf for found, _ in parts for leaf in found], rebuilt
    return [], lambda new: x


def rank(kind: Dtype) -> int:
    """Conditions, whole numbers, floats."""
    return 0 if kind == boolean else 1 if kind in WHOLE else 2


def promoted(a: Dtype, b: Dtype, *, division: bool = False) -> Dtype:
    """The common type of two sides with one rank of shape."""
    if f32 in (a, b):
        return f32
    floats = [k for k in (a, b) if numbers.is_float(k)]
    if floats:
        if division:
            return f32
        return f16 if f16 in floats else floats[0]
    if a == boolean or b == boolean:
        return b if a == boolean else a
    if a == b:
        return a
    signed = [k for k in (a, b) if k.name[0] == "i"]
    if len(signed) != 1:
        return a if a.bits >= b.bits else b
    plain = b if signed[0] is a else a
    return plain if plain.bits >= signed[0].bits else signed[0]


def common(a: Any, b: Any, *, division: bool = False) -> Dtype:
    """The type that an operation of two values or numbers is done in: numbers and scalars follow the other side where their kind allows."""
    if is_number(a) and is_number(b):
        return f32 if isinstance(a, float) or isinstance(b, float) or division else i32
    if is_number(a) or is_number(b):
        number, value = (a, b) if is_number(a) else (b, a)
        kind = value.dtype
        if isinstance(number, float) and not numbers.is_float(kind):
            return f32
        if division and not numbers.is_float(kind):
            return f32
        if kind == boolean:
            return i32 if not isinstance(number, bool) else boolean
        if isinstance(number, int) and kind in WHOLE and not -(1 << (kind.bits - 1)) <= number < 1 << kind.bits:
            return i64
        return f32 if division and kind != f32 else kind
    if bool(a.shape) != bool(b.shape):
        tile, scalar = (a, b) if a.shape else (b, a)
        if rank(scalar.dtype) <= rank(tile.dtype):
            kind = tile.dtype
            return f32 if division and kind != f32 else kind
    return (
        promoted(a.dtype, b.dtype, division=division)
        if not division or numbers.is_float(a.dtype) or numbers.is_float(b.dtype)
        else f32
    )
