"""What the passes make of a form: instructions with the bytes that they touch, in the kernel's loops and branches."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from toprope.dtypes import Dtype


@dataclass(eq=False)
class Buffer:
    """Lanes in the unified buffer. `fixed`: filled before the first step of the grid, and kept."""

    name: str
    dtype: Dtype
    count: int
    line: int = 0
    fixed: bool = False
    offset: int = -1
    first: int = -1
    last: int = -1

    @property
    def bytes(self) -> int:
        """In whole repeats of 256 bytes, because comparisons take whole repeats."""
        return max(256, -(-self.count * self.dtype.bits // 8 // 256) * 256)

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True)
class Memory:
    """An array in global memory."""

    name: str


Touched = Buffer | Memory


@dataclass(eq=False)
class Instruction:
    """Text that runs on some pipes: S (scalar), V, MTE2, MTE3; and what it reads and writes."""

    text: str
    pipes: tuple[str, ...] = ("S",)
    reads: tuple[Touched, ...] = ()
    writes: tuple[Touched, ...] = ()
    line: int = 0


@dataclass(eq=False)
class Declare:
    """A buffer begins to be used."""

    buffer: Buffer


@dataclass(eq=False)
class Scope:
    """A loop or branch: `head` opens it; `orelse` is a branch's other side."""

    head: str
    body: list[Node]
    loop: bool
    orelse: list[Node] | None = None
    line: int = 0


Node = Instruction | Declare | Scope


@dataclass
class Program:
    """One step of the grid as instructions, and what stands around it."""

    body: list[Node]
    fixed: list[tuple[Buffer, str]] = field(default_factory=list)  # with the text that fills it
    pieces: dict[str, str] = field(default_factory=dict)  # fixed functions by their text
    products: dict[tuple[object, ...], str] = field(default_factory=dict)  # of which matrices -> the object's name
    views: dict[tuple[str, Dtype], str] = field(default_factory=dict)  # (array, element type) -> its name


def nodes(block: list[Node]) -> Iterator[Node]:
    """Every node, outer before inner."""
    for n in block:
        yield n
        if isinstance(n, Scope):
            yield from nodes(n.body)
            yield from nodes(n.orelse or [])
