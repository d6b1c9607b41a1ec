"""Trace: what one run left behind, in columns. machine/trace.h writes it; the meanings here and there are the same."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

SPACES = ("gm", "ub", "l1", "l0a", "l0b", "l0c", "bias", "fixbuf")
PIPES = ("S", "V", "M", "MTE1", "MTE2", "MTE3", "FIX", "ALL")
KINDS = (
    "compute", "copy", "scalar", "set_flag", "wait_flag", "barrier", "alloc", "free", "enque", "deque",
    "cross_set", "cross_wait", "cache", "mark", "state",
)  # fmt: skip
CORE_TYPES = ("aiv", "aic", "coupled")
READ, WRITE = 1, 2
NOTE = 2  # severity of a report that the check decides on
FLAG_FROM_SHIFT, FLAG_TO_SHIFT = 16, 8  # of `work` of SetFlag and WaitFlag; below them the event's number

INSTR = np.dtype([("op", "<u2"), ("pipe", "u1"), ("accesses", "u1"), ("site", "<u4"), ("work", "<u4"), ("arg", "<u4")])
CAPTURED = np.dtype([
    ("instr", "<u8"), ("at", "<u8"), ("bits", "<u8", 2), ("bytes", "<u4"), ("address", "<u4"), ("block_stride", "<u4"),
    ("repeat_stride", "<u4"), ("repeats", "<u4"), ("width", "<u4"), ("active", "<u4"), ("tail", "<u4"), ("core", "<u2"),
    ("block_lanes", "<u2"), ("kind", "u1"), ("element_bits", "u1"), ("block_offset", "u1"), ("bitmap", "u1"),
])  # fmt: skip
LIBRARY = (
    "library "  # what the name of an operation begins with that marks a call of the library: kLibraryMark of machine.h
)
CAPTURED_KINDS = ("written", "read_lanes", "write_lanes", "scalars")
ACCESS = np.dtype([("low", "<u8"), ("high", "<u8")])

Array = npt.NDArray[Any]


@dataclass(frozen=True)
class OpRow:
    """An operation that occurs in the trace: vendor name, usual pipe, kind, and the row of the chip file that prices it."""

    name: str
    pipe: str
    kind: str
    cost: str


@dataclass(frozen=True)
class SiteRow:
    """A line of source that instructions came from."""

    file: str
    line: int


@dataclass(frozen=True)
class CoreRow:
    """One core of the launch: AI core it belongs to, which AIV of it, and its type."""

    block: int
    sub: int
    type: str


@dataclass(frozen=True)
class BufferRow:
    """A buffer handed out by InitBuffer: core, space, byte range, logical position, queue number on that core, and where."""

    core: int
    space: str
    address: int
    bytes: int
    position: int
    queue: int
    site: int


@dataclass(frozen=True)
class GmRow:
    """A GM buffer of the launch: argument name, its address in the trace, its size, and the element type of the array ("": bytes)."""

    name: str
    address: int
    bytes: int
    dtype: str = ""


@dataclass(frozen=True)
class ViewRow:
    """What the kernel takes a GM buffer (by number in `Trace.gm`) for: the element type of a SetGlobalBuffer, where, and the bytes of the
    buffer that all calls there claim."""

    gm: int
    dtype: str
    site: int
    core: int
    begin: int
    end: int


@dataclass(frozen=True)
class ReportRow:
    """A mistake that was seen while executing. `severity` 0 error, 1 warning, 2 a note for the check."""

    code: str
    text: str
    site: int
    core: int
    op: int
    severity: int
    count: int
    instr: int


@dataclass(frozen=True)
class Accesses:
    """The decoded ranges of a trace, one row each; `instr` is the row of `Trace.instrs` they belong to.

    A row means `rows` pieces of `row_bytes`, `stride` apart, from `address`. Where `more` is set, the next row of the same
    instruction is an outer loop: its `rows` and `stride` repeat the whole pattern.
    """

    instr: Array
    address: Array
    row_bytes: Array
    rows: Array
    stride: Array
    space: Array
    mode: Array
    more: Array
    masked: Array

    def sizes(self) -> Array:
        """Bytes of each range, all rounds of its outer loops together; 0 on the rows that only describe an outer loop."""
        size = self.row_bytes * self.rows
        head = np.flatnonzero(self.more & ~np.concatenate(([False], self.more[:-1])))
        at = head
        while len(at):
            size[head] *= self.rows[at + 1]
            size[at + 1] = 0
            again = self.more[at + 1]
            head, at = head[again], at[again] + 1
        return size


@dataclass(frozen=True)
class Values:
    """What a launch with `capture` kept: `rows` (CAPTURED) in the order in which all cores executed, and the bytes they point into.

    An instruction has a row per lane operand, one for its scalars, and last one with the bytes that it wrote, in the order of its
    ranges. `complete` is False when the limit was reached and the rest of the run is missing.
    """

    rows: Array
    bytes: Array
    complete: bool


@dataclass(frozen=True)
class Trace:
    """One run: tables and two raw columns. `instrs[core_begin[c]:core_begin[c+1]]` is what core c did, in program order."""

    kernel: str
    soc: str
    blocks: int
    mixed: bool
    ratio: int
    ops: tuple[OpRow, ...]
    sites: tuple[SiteRow, ...]
    cores: tuple[CoreRow, ...]
    gm: tuple[GmRow, ...]
    buffers: tuple[BufferRow, ...]
    reports: tuple[ReportRow, ...]
    instrs: Array
    accesses: Array
    core_begin: Array
    access_begin: Array
    signal: int = 0  # what ended the run early: a signal's number, -1 the limit of the record; 0: it came to its end
    values: Values | None = None
    left_out: int = 0  # instructions of a run that a limit has ended which are not in `instrs`
    views: tuple[ViewRow, ...] = ()
    notes: tuple[ReportRow, ...] = ()  # reports that are a mistake only together with something that comes later
    crash: tuple[str, int] | None = None  # core type and offset in its library of the instruction that crashed

    def __repr__(self) -> str:
        return f"Trace({self.kernel} on {self.soc}, {len(self.cores)} cores, {len(self.instrs)} instructions, {len(self.accesses)} ranges)"

    @property
    def bytes_per_instruction(self) -> float:
        """Memory of the two columns divided by the number of instructions."""
        return float(self.instrs.nbytes + self.accesses.nbytes) / max(1, len(self.instrs))

    def core_of_instr(self) -> Array:
        """The core index of every instruction."""
        return np.repeat(np.arange(len(self.cores), dtype=np.uint16), np.diff(self.core_begin))

    def decoded(self) -> Accesses:
        """The ranges as columns (addresses in bytes; GM addresses are the trace's own, see `gm`)."""
        low, high = self.accesses["low"], self.accesses["high"]
        return Accesses(
            instr=np.repeat(np.arange(len(self.instrs)), self.instrs["accesses"]),
            address=(low & np.uint64((1 << 40) - 1)).astype(np.int64),
            row_bytes=(low >> np.uint64(40)).astype(np.int64),
            rows=(high & np.uint64(0xFFFF)).astype(np.int64),
            space=((high >> np.uint64(16)) & np.uint64(15)).astype(np.uint8),
            mode=((high >> np.uint64(20)) & np.uint64(3)).astype(np.uint8),
            more=((high >> np.uint64(22)) & np.uint64(1)).astype(bool),
            masked=((high >> np.uint64(23)) & np.uint64(1)).astype(bool),
            stride=high.view(np.int64) >> 24,
        )
