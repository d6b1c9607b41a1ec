"""The nodes of the form: tiles and scalars with a type, statements with a line, and a builder that makes them in order.

A tile is a value of rank 1 to 5 with fixed extents; a scalar has rank 0 and lives in the scalar unit. Values are immutable. Control flow
is structured; what it carries around lies in variables.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import count
from math import prod
from typing import Any

from toprope.dtypes import Dtype, dtype

f32, f16, bf16, i8, u8, i16, u16, i32, u32, i64, u64, boolean = (
    dtype(n)
    for n in ("float32", "float16", "bfloat16", "int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64", "bool")
)  # fmt: skip
FLOATS = (f32, f16, bf16)
WHOLE = (i8, u8, i16, u16, i32, u32, i64, u64)


@dataclass(frozen=True)
class Type:
    """An element type and extents; no extents: a scalar."""

    dtype: Dtype
    shape: tuple[int, ...] = ()

    @property
    def size(self) -> int:
        """Elements."""
        return prod(self.shape)

    def __str__(self) -> str:
        return self.dtype.name + (f"[{', '.join(map(str, self.shape))}]" if self.shape else "")


_numbers = count()


@dataclass(eq=False)
class Value:
    """One operation's result. `attributes` hold what is no value: an axis, a permutation, an array's name."""

    op: str
    type: Type
    args: tuple[Value, ...] = ()
    attributes: Mapping[str, Any] = field(default_factory=dict)
    line: int = 0
    number: int = field(default_factory=lambda: next(_numbers))

    @property
    def dtype(self) -> Dtype:
        """Its element type."""
        return self.type.dtype

    @property
    def shape(self) -> tuple[int, ...]:
        """Its extents."""
        return self.type.shape

    @property
    def constant(self) -> Any:
        """The number of a constant scalar, or of a tile that repeats one; None for anything else."""
        if self.op == "constant":
            return self.attributes["value"]
        return self.args[0].constant if self.op == "splat" else None

    def __str__(self) -> str:
        return f"%{self.number}"


@dataclass(eq=False)
class Variable:
    """What control flow carries: a scalar or a tile that is set and read."""

    name: str
    type: Type
    number: int = field(default_factory=lambda: next(_numbers))

    def __str__(self) -> str:
        return f"${self.name}{self.number}"


@dataclass(eq=False)
class Store:
    """array[offset] = value where the mask holds; `atomic` joins instead: add, max, min, and, or, xor, xchg, cas.

    `old`, where somebody asks for it, is a variable that takes what lay there before.
    """

    array: str
    dtype: Dtype
    offset: Value
    value: Value
    mask: Value | None = None
    atomic: str = ""
    compare: Value | None = None
    old: Variable | None = None
    line: int = 0


@dataclass(eq=False)
class Set:
    """variable = value."""

    variable: Variable
    value: Value
    line: int = 0


@dataclass(eq=False)
class For:
    """for index in range(begin, end, step); index is a scalar variable that the body only reads."""

    index: Variable
    begin: Value
    end: Value
    step: Value
    body: Block
    line: int = 0


@dataclass(eq=False)
class While:
    """`head` computes `condition`; then the body runs, and again."""

    head: Block
    condition: Value
    body: Block
    line: int = 0


@dataclass(eq=False)
class If:
    """A branch on a scalar."""

    condition: Value
    body: Block
    orelse: Block
    line: int = 0


@dataclass(eq=False)
class Leave:
    """return, break or continue."""

    kind: str
    line: int = 0


@dataclass(eq=False)
class Say:
    """Device print (kind "print") or device assertion ("assert", of a scalar or of every lane)."""

    kind: str
    text: str
    values: tuple[Value, ...] = ()
    line: int = 0


Statement = Value | Store | Set | For | While | If | Leave | Say
Block = list[Statement]


@dataclass(frozen=True)
class Argument:
    """One argument of a kernel, as its author ordered them: an array (its element type), or a scalar."""

    name: str
    dtype: Dtype
    is_array: bool


@dataclass
class Form:
    """A kernel: what one step of the grid does."""

    name: str
    file: str
    arguments: tuple[Argument, ...]
    body: Block
    constants: Mapping[str, Any] = field(default_factory=dict)
    notes: tuple[str, ...] = ()

    @property
    def serial(self) -> bool:
        """Whether steps must run one after the other on one core: somebody reads what an atomic found."""
        return any(
            isinstance(s, Store) and (s.old or s.atomic in ("and", "or", "xor", "xchg", "cas")) for s in walk(self.body)
        )

    @property
    def stored(self) -> list[str]:
        """Arrays that are written, in order of the arguments."""
        names = {s.array for s in walk(self.body) if isinstance(s, Store)}
        return [a.name for a in self.arguments if a.name in names]

    @property
    def loaded(self) -> list[str]:
        """Arrays that are read, in order of the arguments."""
        names = {s.attributes["array"] for s in walk(self.body) if isinstance(s, Value) and s.op == "load"}
        names |= {s.array for s in walk(self.body) if isinstance(s, Store) and s.atomic}
        return [a.name for a in self.arguments if a.name in names]


def blocks_of(s: Statement) -> tuple[Block, ...]:
    """The blocks inside a statement."""
    if isinstance(s, For):
        return (s.body,)
    if isinstance(s, While):
        return (s.head, s.body)
    if isinstance(s, If):
        return (s.body, s.orelse)
    return ()


def walk(block: Block) -> Iterator[Statement]:
    """Every statement, outer before inner."""
    for s in block:
        yield s
        for inner in blocks_of(s):
            yield from walk(inner)


def used_by(s: Statement) -> tuple[Value, ...]:
    """The values that a statement reads itself."""
    match s:
        case Value():
            return s.args
        case Store():
            return tuple(v for v in (s.offset, s.value, s.mask, s.compare) if v is not None)
        case Set():
            return (s.value,)
        case For():
            return (s.begin, s.end, s.step)
        case While() | If():
            return (s.condition,)
        case Say():
            return s.values
    return ()
