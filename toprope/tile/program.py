"""A kernel after reading: loops that stay loops, and regions of straight-line tile values between them."""

from __future__ import annotations

from dataclasses import dataclass, field

from toprope.dtypes import Dtype
from toprope.tile.language import Param

ONE = "1"  # the axis of extent 1


@dataclass(frozen=True)
class Number:
    """A scalar: a constant, or an expression over the dimensions that the host evaluates (`text` is Python and C++ alike)."""

    text: str
    value: float | None = None


@dataclass(frozen=True)
class Index:
    """The steps of one axis: tiles of `size` elements over `extent`. A `whole` index is a loop that makes one trip."""

    name: str
    extent: Number
    size: int
    whole: bool = False

    @property
    def unit(self) -> bool:
        """Tiles of one element: the axis is dropped from loaded tiles."""
        return self.size == 1


@dataclass(eq=False)
class Value:
    """A tile. `axes` = (row axis, column axis), each an index name or ONE; a tile of one dimension has rows ONE.

    op: load, binary, scalar, unary, reduce, cast, full, compare, select, copy, assign (into `target`), carried (a loop variable).
    """

    op: str
    name: str
    args: list[Value]
    dtype: Dtype
    axes: tuple[str, str]
    line: int
    label: str = ""
    number: Number | None = None
    steps: str = ""
    array: str = ""
    where: tuple[Index, ...] = ()
    region: Region | None = None
    persistent: bool = False
    target: Value | None = None

    @property
    def is_rows(self) -> bool:
        """One number per row, kept side by side."""
        return self.axes[1] == ONE


@dataclass(eq=False)
class Store:
    """A tile that leaves for global memory."""

    array: str
    where: tuple[Index, ...]
    value: Value
    atomic: bool
    line: int


@dataclass(eq=False)
class Region:
    """Straight-line work: its loads come first, its stores last."""

    depth: int
    loads: list[Value] = field(default_factory=list)
    ops: list[Value] = field(default_factory=list)
    stores: list[Store] = field(default_factory=list)

    def __bool__(self) -> bool:
        return bool(self.loads or self.ops or self.stores)


@dataclass(eq=False)
class Loop:
    """A tiles loop over one or more axes."""

    indices: tuple[Index, ...]
    body: list[Loop | Region]
    line: int
    depth: int = 1
    swizzle: int = 1


@dataclass(eq=False)
class Program:
    """One variant of a kernel for fixed tile sizes."""

    name: str
    file: str
    params: dict[str, Param]
    loop: Loop
    indices: dict[str, Index]
    sizes: dict[str, int]
    resident: bool = False
    numbers: list[Number] = field(default_factory=list)

    def regions(self) -> list[Region]:
        """All regions in program order."""
        found: list[Region] = []
        pending: list[Loop | Region] = [self.loop]
        while pending:
            node = pending.pop(0)
            if isinstance(node, Region):
                found.append(node)
            else:
                pending[:0] = node.body
        return found
