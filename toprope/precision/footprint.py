"""Which bytes an instruction reads and writes, in the order in which it works on them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from toprope.trace import SPACES, Accesses

Index = NDArray[np.int64]


@dataclass(frozen=True)
class Place:
    """Elements in one memory: `base + offsets` are their byte addresses, `size` the bytes of each."""

    space: str
    base: int
    offsets: Index
    size: int

    def address(self, lane: int) -> int:
        """Byte address of one element."""
        return self.base + int(self.offsets[lane])

    def in_units(self) -> Place:
        """The same bytes in units of two."""
        pieces = np.arange(0, self.size, 2, dtype=np.int64)
        return Place(self.space, self.base, (self.offsets[:, None] + pieces).ravel(), 2)

    def span(self) -> tuple[int, int]:
        """First byte and the byte behind the last."""
        if not len(self.offsets):
            return self.base, self.base
        return self.base + int(self.offsets.min()), self.base + int(self.offsets.max()) + self.size

    def lane_of(self, address: int) -> int | None:
        """The last lane that lies at `address`, if any."""
        found = np.flatnonzero(self.offsets == address - self.base)
        return int(found[-1]) if len(found) else None


@dataclass(frozen=True)
class LaneOrder:
    """The lanes of an operand: byte offset, repeat and position in the repeat of each active one."""

    offsets: Index
    repeat: Index
    lane: Index


@lru_cache(4096)
def lane_order(
    repeats: int, width: int, active: int, tail: int, bits: tuple[int, int] | None, block_stride: int, repeat_stride: int,
    element_bits: int, block_offset: int, block_lanes: int,
) -> LaneOrder:  # fmt: skip
    """The order in which vector.h counts lanes: Layout::offset over Lanes."""
    if bits is not None:
        on = np.array([j for j in range(width) if bits[j >> 6] >> (j & 63) & 1], np.int64)
        repeat, lane = np.repeat(np.arange(repeats), len(on)), np.tile(on, repeats)
    else:
        repeat = np.repeat(np.arange(repeats), [active] * (repeats - 1) + [tail])
        lane = np.arange(len(repeat)) - repeat * active
    per = block_lanes or 256 // element_bits
    offsets = (repeat * repeat_stride + lane // per * block_stride) * 32 + block_offset + lane % per * element_bits // 8
    return LaneOrder(offsets, repeat, lane)


def operand(row: Any) -> tuple[Place, LaneOrder]:
    """A captured lane operand (a row of CAPTURED)."""
    bits = (int(row["bits"][0]), int(row["bits"][1])) if row["bitmap"] else None
    names = ("block_stride", "repeat_stride", "element_bits", "block_offset", "block_lanes")
    order = lane_order(
        *(int(row[n]) for n in ("repeats", "width", "active", "tail")),
        bits,
        *(int(row[n]) for n in names),
    )
    return Place("ub", int(row["address"]), order.offsets, max(1, int(row["element_bits"]) // 8)), order


@lru_cache(4096)
def _pattern(loops: tuple[tuple[int, int], ...], row_bytes: int, unit: int) -> Index:
    offsets = np.arange(0, row_bytes, unit, dtype=np.int64)
    for rows, stride in loops:
        offsets = (np.arange(rows, dtype=np.int64)[:, None] * stride + offsets).ravel()
    return offsets


def ranges(access: Accesses, begin: int, end: int, unit: int) -> tuple[list[Place], list[Place]]:
    """The reads and the writes of the access rows [begin, end), cut into units of `unit` bytes; updates are in both."""
    reads: list[Place] = []
    writes: list[Place] = []
    at = begin
    while at < end:
        last = at
        while access.more[last]:
            last += 1
        loops = tuple((int(access.rows[i]), int(access.stride[i])) for i in range(at, last + 1))
        place = Place(
            SPACES[access.space[at]],
            int(access.address[at]),
            _pattern(loops, int(access.row_bytes[at]), unit),
            unit,
        )
        mode = int(access.mode[at])
        if mode & 1:
            reads.append(place)
        if mode & 2:
            writes.append(place)
        at = last + 1
    return reads, writes


def joined(places: list[Place]) -> Place | None:
    """Several ranges of one memory as one place; None if there are none or they lie in different memories."""
    if not places or len({p.space for p in places}) > 1:
        return None
    if len(places) == 1:
        return places[0]
    base = places[0].base
    return Place(places[0].space, base, np.concatenate([p.offsets + (p.base - base) for p in places]), places[0].size)
