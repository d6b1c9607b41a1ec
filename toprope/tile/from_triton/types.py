"""Kinds of values in a Triton function, Python's operators on them, and Triton's rules for element types that meet."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

from toprope.dtypes import Dtype, dtype
from toprope.tile.language import TileError, bf16, f16, f32, i16, i32

TYPES = {
    "float32": f32, "float16": f16, "bfloat16": bf16, "int32": i32, "int16": i16, "int8": dtype("int8"), "uint8": dtype("uint8"),
    "int64": dtype("int64"), "uint32": i32, "uint64": dtype("int64"), "int1": dtype("bool"),
}  # fmt: skip
_REFUSED = {
    "cumsum": "carry a running sum over a loop, or sum on the host; the vector unit has no scan",
    "cumprod": "the vector unit has no scan",
    "associative_scan": "write the scan as a loop over blocks with a carried value",
    "sort": "use the library's sort (toprope ops), which sorts with the chip's Sort32 and MrgSort",
    "topk": "use the library's topk",
    "rand": "make the random numbers on the host and load them, or load a mask as the tutorial's first dropout does",
    "rand4x": "make the random numbers on the host and load them",
    "randn": "make the random numbers on the host and load them",
    "randint": "make the random numbers on the host and load them",
    "philox": "make the random numbers on the host and load them; the vector unit has no 32 by 32 bit products",
    "make_block_ptr": "write pointer + offsets with masks",
    "make_tensor_descriptor": "write pointer + offsets with masks",
    "advance": "write pointer + offsets with masks",
    "atomic_cas": "let one program own each element; the cores have no compare and swap on global memory",
    "atomic_xchg": "let one program own each element; the cores have no exchange on global memory",
    "atomic_max": "reduce inside each program, store its result, and reduce those in a second kernel",
    "atomic_min": "reduce inside each program, store its result, and reduce those in a second kernel",
    "dot": "products are read in the form acc += tl.dot(a, b) over K with one store of the sum",
    "dot_scaled": "scale the operands in a kernel of their own",
    "trans": "load the block along the axis where it is used",
    "permute": "load the block along the axis where it is used",
    "reshape": "load the block in the shape where it is used",
    "view": "load the block in the shape where it is used",
    "join": "store the parts one by one",
    "split": "load the parts one by one, each with its own offsets",
    "interleave": "store the parts one by one",
    "cat": "store the parts one by one",
    "flip": "load with offsets that count down on the host's side",
    "histogram": "use tl.atomic_add on the counts",
    "reduce": "use tl.sum, tl.max, tl.min, tl.argmax or tl.argmin",
    "sin": "load a table of sines, as rotary embeddings do",
    "cos": "load a table of cosines, as rotary embeddings do",
    "pow": "write tl.exp(y * tl.log(x)), or products",
    "inline_asm_elementwise": "write the steps with functions of tl",
    "gather": "load by a block of indices: tl.load(pointer + indices)",
}


class UnknownWord(TileError, AttributeError):
    """A name of tl that is not read."""


def refused(name: str) -> TileError:
    """The error for a name of tl that is not read."""
    return UnknownWord(
        f"tl.{name} is not supported", cure=_REFUSED.get(name, "docs/triton.md lists the names that are read")
    )


class Value:
    """What Python's operators mean for every kind of value; the rules are those of `words`."""

    __array_ufunc__ = None
    __hash__ = object.__hash__
    words: Any

    def __neg__(self) -> Any:
        return self.words.negative(self)

    def __invert__(self) -> Any:
        return self.words.invert(self)

    def __eq__(self, other: Any) -> Any:
        return self.words.compare("eq", self, other)

    def __ne__(self, other: Any) -> Any:
        return self.words.compare("ne", self, other)


def _operator(kind: str, name: str, *, swapped: bool) -> Callable[[Value, Any], Any]:
    def method(a: Value, b: Any) -> Any:
        return getattr(a.words, kind)(name, b, a) if swapped else getattr(a.words, kind)(name, a, b)

    return method


for _sign, _name in {
    "add": "add",
    "sub": "sub",
    "mul": "mul",
    "truediv": "div",
    "floordiv": "floordiv",
    "mod": "mod",
}.items():
    setattr(Value, f"__{_sign}__", _operator("arith", _name, swapped=False))
    setattr(Value, f"__r{_sign}__", _operator("arith", _name, swapped=True))
for _name in ("and", "or", "xor"):
    setattr(Value, f"__{_name}__", _operator("logic", _name, swapped=False))
    setattr(Value, f"__r{_name}__", _operator("logic", _name, swapped=True))
for _name in ("lt", "le", "gt", "ge"):
    setattr(Value, f"__{_name}__", _operator("compare", _name, swapped=False))


class Scalar(Value):
    """A whole number, float32 or condition on the scalar unit. `it`: the number (level A), or its C++ text."""

    shape = ()

    def __init__(self, words: Any, dtype: Dtype, it: Any) -> None:
        self.words, self.dtype, self.it = words, dtype, it

    def known(self) -> Any:
        """The number at level A."""
        if isinstance(self.it, str):
            raise TileError(
                "a constant is needed, this number is known at the launch only", cure="pass it as tl.constexpr"
            )
        return self.it

    def __index__(self) -> int:
        return operator.index(self.known())

    def __bool__(self) -> bool:
        return bool(self.known())

    def __float__(self) -> float:
        return float(self.known())

    def to(self, kind: Dtype, **_: Any) -> Any:
        """The number in another element type."""
        return self.words.to(self, kind)

    cast = to


class Lanes(Value):
    """Values of several lanes."""

    def __init__(self, words: Any, shape: tuple[int, ...], it: Any) -> None:
        self.words, self.shape, self.it = words, shape, it

    def __bool__(self) -> bool:
        if self.shape != ():
            raise TileError("an if on a block of lanes", cure="choose lanes with tl.where")
        return bool(self.words.m.truth(self))

    def __getitem__(self, key: Any) -> Any:
        return self.words.m.expanded(self, key)

    def to(self, kind: Dtype, **_: Any) -> Any:
        """The lanes in another element type."""
        return self.words.to(self, kind)

    cast = to


class Range(Lanes):
    """Index lanes: tl.arange, program ids and sizes under + - *."""

    dtype = i32


class Mask(Lanes):
    """Comparisons of index lanes."""


class Bits(Lanes):
    """Comparisons of data, lane by lane."""


class Block(Lanes):
    """Lanes of data in the unified buffer; the shape () is a single number there."""

    def __init__(self, words: Any, shape: tuple[int, ...], dtype: Dtype, it: Any) -> None:
        super().__init__(words, shape, it)
        self.dtype = dtype

    def __bool__(self) -> bool:
        return bool(self.words.compare("ne", self, 0))  # the comparison says whether that is one number


class Product(Block):
    """A product of two blocks that may still join a sum; `sides` are the blocks."""

    sides: tuple[Block, Block]


class Pointer(Value):
    """An array's elements at offsets."""

    def __init__(self, words: Any, name: str, dtype: Dtype, it: Any) -> None:
        self.words, self.name, self.dtype, self.it = words, name, dtype, it

    def __getitem__(self, key: Any) -> Any:
        return self.words.m.expanded(self, key)

    def to(self, kind: Any, **_: Any) -> Any:
        """Pointers keep their element type."""
        raise TileError("a pointer is converted", cure="pass the array with the element type that the kernel uses")


def is_number(x: Any) -> bool:
    """Whether x is an operand of the scalar unit."""
    return isinstance(x, bool | int | float | Scalar)


def is_float(kind: Dtype) -> bool:
    """Whether an element type has fractions."""
    return kind in (f32, f16, bf16)


def promoted(name: str, a: Any, b: Any) -> Dtype:
    """The element type in which a and b meet: Triton's rules, where Python's numbers take the type of the other side."""
    for x, y in ((a, b), (b, a)):
        if not isinstance(x, bool | int | float):
            continue
        if isinstance(y, bool | int | float):
            return f32 if isinstance(a, float) or isinstance(b, float) or name == "div" else i32
        kind: Dtype = y.dtype
        if isinstance(x, float) and not is_float(kind):
            return f32
        return f32 if name == "div" and kind is not f32 else kind
    left: Dtype = a.dtype
    right: Dtype = b.dtype
    if is_float(left) != is_float(right):
        kind = left if is_float(left) else right
        return f32 if name == "div" else kind
    if is_float(left):
        if f32 in (left, right) or name == "div":
            return f32
        return f16 if f16 in (left, right) else bf16
    return left if left.bits >= right.bits else right


def joined(a: tuple[int, ...], b: tuple[int, ...]) -> tuple[int, ...]:
    """The shape of two that meet. Raises TileError when an axis differs."""
    if len(a) < len(b):
        a = (1,) * (len(b) - len(a)) + a
    elif len(b) < len(a):
        b = (1,) * (len(a) - len(b)) + b
    if any(m != n and 1 not in (m, n) for m, n in zip(a, b, strict=True)):
        raise TileError(
            f"blocks of shapes {list(a)} and {list(b)} meet", cure="give each block its axis: x[:, None], y[None, :]"
        )
    return tuple(max(m, n) for m, n in zip(a, b, strict=True))
