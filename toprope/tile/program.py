"""A kernel after reading: loops that stay loops, and regions of straight-line tile values between them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from toprope.dtypes import Dtype
from toprope.tile.language import Param

ONE = "1"  # the axis of extent 1


def clean(name: str) -> str:
    """A C++ identifier made of a name or an expression."""
    return re.sub(r"\W+", "_", name).strip("_")


@dataclass(frozen=True)
class Number:
    """A scalar: a constant, or an expression over the dimensions that the host evaluates (`text` is Python and C++ alike)."""

    text: str
    value: float | None = None


@dataclass(frozen=True)
class Index:
    """The steps of one axis: tiles of `size` elements over `extent`. A `whole` index is a loop that makes one trip.

    `chosen` names the step's size where the host chooses it at the launch (at most `size` in a kernel that works in pieces); `tune` is
    the tunable size that the caller left open: a whole index may then be longer than `size`.
    """

    name: str
    extent: Number
    size: int
    whole: bool = False
    chosen: str = ""
    tune: str = ""
    at: int | None = None  # a place that is written as a number

    @property
    def step(self) -> str:
        """The size of a step in the kernel's text."""
        return self.chosen or str(self.size)

    @property
    def unit(self) -> bool:
        """Tiles of one element: the axis is dropped from loaded tiles."""
        return self.size == 1


@dataclass(frozen=True)
class ByIndex:
    """Rows or elements that an int32 or int64 array names: the entries of `array` at `where`, times `scale`, plus `shift`."""

    array: str
    where: tuple[Index, ...]
    scale: int = 1
    shift: int = 0

    @property
    def name(self) -> str:
        """The axis of its entries, ONE for a single entry."""
        return ([i.name for i in self.where if not i.unit] or [ONE])[-1]

    @property
    def unit(self) -> bool:
        """A single entry: the axis is dropped."""
        return all(i.unit for i in self.where)


@dataclass(eq=False)
class Value:
    """A tile. `axes` = (row axis, column axis), each an index name or ONE; a tile of one dimension has rows ONE.

    op: load, binary, scalar, unary, reduce, cast, full, compare, select, copy, assign (into `target`), carried (a loop variable),
    pack (elements out of blocks), spread (a block for each element), gather (elements of a tile at byte offsets).
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
    where: tuple[Index | ByIndex, ...] = ()
    region: Region | None = None
    persistent: bool = False
    target: Value | None = None

    @property
    def is_rows(self) -> bool:
        """One number per row, kept side by side."""
        return self.axes[1] == ONE

    @property
    def by_index(self) -> bool:
        """A load whose rows or elements an index array names."""
        return self.op == "load" and any(isinstance(i, ByIndex) for i in self.where)

    @property
    def spread(self) -> bool:
        """One element in each block of 32 bytes, as copies of single elements come and go."""
        return self.op == "spread" or (self.by_index and (isinstance(self.where[-1], ByIndex) or self.where[-1].unit))


@dataclass(eq=False)
class Store:
    """A tile that leaves for global memory."""

    array: str
    where: tuple[Index | ByIndex, ...]
    value: Value
    atomic: bool
    line: int


@dataclass(eq=False)
class Region:
    """Straight-line work: its loads come first, its stores last. `part`: how many products lie before it."""

    depth: int
    part: int = 0
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
    part: int = 0


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
    scalars: tuple[str, ...] = ()  # whole-number arguments beside the dimensions of arrays
    # Steps of arrays of one dimension that are addressed with strides: one for each index, and a constant behind them.
    strides: Mapping[tuple[str, tuple[Index | ByIndex, ...]], tuple[str, ...]] = field(default_factory=dict)
    followers: tuple[tuple[Index, Index], ...] = ()  # (axis, axis of the outermost loop whose step it shares)

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


def arrays_of(regions: list[Region]) -> set[str]:
    """The arrays that some regions load, store, or take indices from."""
    found: set[str] = set()
    for r in regions:
        for array, where in [(v.array, v.where) for v in r.loads] + [(s.array, s.where) for s in r.stores]:
            found |= {array, *(i.array for i in where if isinstance(i, ByIndex))}
    return found
