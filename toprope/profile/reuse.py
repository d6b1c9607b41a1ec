"""On-chip memory used twice: buffers whose contents are never needed at the same time, and results read back from GM."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np

from toprope.finding import Finding, Place, codes
from toprope.trace import PIPES, SPACES, Accesses, Array, Trace

BLOCK_BYTES = 32  # lifetimes are followed by the block
MOST_ACCESSES = 200_000  # of one core; rounds of a loop are alike, so the first ones tell enough
LEAST_SHARE = 0.05  # of the memory's buffers; less is not worth a change of the source

Spans = list[tuple[int, int]]


@dataclass
class Shared:
    """Buffers (rows of `Trace.buffers`) that could lie at one address, and when any of them holds something that is still needed."""

    members: list[int] = field(default_factory=list)
    spans: Spans = field(default_factory=list)


def shareable_buffers(trace: Trace) -> list[Finding]:
    """Advice "advice-share-buffers": sets of buffers that one could replace, with `bytes_at_stake`, largest first.

    A buffer's content is live from the instruction that writes it to the last one that reads it before it is written again. Only
    buffers that nothing but the vector and scalar pipes touch are compared: they need no event to share memory.
    """
    ranges = trace.decoded()
    scratch = [
        i for i in range(len(trace.buffers)) if trace.buffers[i].core == 0 and _only_computed_on(trace, ranges, i)
    ]
    total: dict[str, int] = {}
    for b in trace.buffers:
        if b.core == 0:
            total[b.space] = total.get(b.space, 0) + b.bytes
    groups: list[Shared] = []
    for i in sorted(scratch, key=lambda i: -trace.buffers[i].bytes):
        spans = _live(trace, ranges, i)
        space = trace.buffers[i].space
        fitting = (g for g in groups if trace.buffers[g.members[0]].space == space and not _overlap(g.spans, spans))
        group = next(fitting, None)
        if group is None:
            groups.append(group := Shared())
        group.members.append(i)
        group.spans = sorted(group.spans + spans)
    freed = [(sum(trace.buffers[i].bytes for i in g.members[1:]), g) for g in groups]
    told = [(n, g) for n, g in freed if n and n >= LEAST_SHARE * total[trace.buffers[g.members[0]].space]]
    return [_advice(trace, n, g) for n, g in sorted(told, key=lambda row: -row[0])]


def read_back(trace: Trace) -> tuple[Array, int]:
    """Copies that bring back from GM exactly the bytes that the same core has copied there from UB, and their bytes: they could stay."""
    ranges = trace.decoded()
    pipes = trace.instrs["pipe"][ranges.instr]
    core = trace.core_of_instr()
    gm = (ranges.space == 0) & ~ranges.more
    sizes = ranges.sizes()
    found = np.zeros(len(trace.instrs), bool)
    written: set[tuple[int, int, int]] = set()
    size = 0
    chosen = np.flatnonzero(gm & np.isin(pipes, [PIPES.index("MTE2"), PIPES.index("MTE3")]))
    for a in chosen.tolist():
        instr = int(ranges.instr[a])
        place = int(core[instr]), int(ranges.address[a]), int(sizes[a])
        if ranges.mode[a] == 2:
            written.add(place)
        elif ranges.mode[a] == 1 and place in written:
            found[instr] = True
            size += place[2]
    return found, size


def _of_buffer(trace: Trace, ranges: Accesses, buffer: int) -> Array:
    """The accesses of core 0 that begin inside a buffer."""
    b = trace.buffers[buffer]
    upto = int(trace.access_begin[1])
    space, address = ranges.space[:upto], ranges.address[:upto]
    inside = (space == SPACES.index(b.space)) & (address >= b.address) & (address < b.address + b.bytes)
    inside &= ~np.concatenate(([False], ranges.more[:upto][:-1]))  # the rows of outer loops repeat the one before
    return np.flatnonzero(inside)


def _only_computed_on(trace: Trace, ranges: Accesses, buffer: int) -> bool:
    mine = _of_buffer(trace, ranges, buffer)
    pipes = np.unique(trace.instrs["pipe"][ranges.instr[mine]])
    alone = sum(b.core == 0 and b.queue == trace.buffers[buffer].queue for b in trace.buffers) == 1
    return alone and 0 < len(mine) <= MOST_ACCESSES and set(pipes.tolist()) <= {PIPES.index("V"), PIPES.index("S")}


def _live(trace: Trace, ranges: Accesses, buffer: int) -> Spans:
    """Spans of instructions, both ends included, in which some block of the buffer holds what is still read."""
    b = trace.buffers[buffer]
    blocks = -(-b.bytes // BLOCK_BYTES)
    born, last = np.full(blocks, -1), np.full(blocks, -1)
    spans: set[tuple[int, int]] = set()
    mine = _of_buffer(trace, ranges, buffer)
    read_by = set(ranges.instr[mine][ranges.mode[mine] & 1 > 0].tolist())
    for a in mine.tolist():
        instr, whole = int(ranges.instr[a]), not (ranges.more[a] or ranges.masked[a])
        begin = (int(ranges.address[a]) - b.address) // BLOCK_BYTES
        length = int(ranges.stride[a]) * (int(ranges.rows[a]) - 1) + int(ranges.row_bytes[a])
        whole &= int(ranges.rows[a]) == 1 or int(ranges.stride[a]) == int(ranges.row_bytes[a])
        end = blocks if ranges.more[a] or length <= 0 else begin - (-length // BLOCK_BYTES)
        part = slice(begin, min(end, blocks))
        if whole and ranges.mode[a] == 2 and instr not in read_by:
            old = (born[part] >= 0) & (last[part] >= born[part])
            spans |= set(zip(born[part][old].tolist(), last[part][old].tolist(), strict=True))
            born[part] = instr
        else:
            born[part][born[part] < 0] = 0
        last[part] = instr
    used = born >= 0
    return _joined(sorted(spans | set(zip(born[used].tolist(), last[used].tolist(), strict=True))))


def _joined(spans: Spans) -> Spans:
    out: Spans = []
    for begin, end in spans:
        if out and begin <= out[-1][1]:
            out[-1] = out[-1][0], max(out[-1][1], end)
        else:
            out.append((begin, end))
    return out


def _overlap(one: Spans, two: Spans) -> bool:
    both = sorted(one + two)
    return any(b <= a for (_, a), (b, _) in pairwise(both))


def _advice(trace: Trace, freed: int, group: Shared) -> Finding:
    rows = [trace.buffers[i] for i in group.members]
    places = tuple(
        Place(
            trace.sites[b.site].file,
            trace.sites[b.site].line,
            "InitBuffer",
            "",
            f"{b.bytes} bytes of {b.space.upper()}",
        )
        for b in rows
    )
    sizes = " and ".join(str(b.bytes) for b in rows)
    message = (
        f"{len(rows)} buffers of {sizes} bytes are never needed at the same time; one of {rows[0].bytes} bytes would do "
        f"and free {freed} bytes of {rows[0].space.upper()}"
    )
    code = codes()["advice-share-buffers"]
    return Finding(code.name, "advice", message, places, code.cure, bytes_at_stake=freed)
