"""What lies in the on-chip memories over time: each buffer, each round of its queue, from the first access to the last."""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np

from toprope.finding import Place
from toprope.kernel import Run
from toprope.trace import SPACES, Array, SiteRow, Trace

ON_CHIP = SPACES[1:]


@dataclass(frozen=True)
class LineUse:
    """What one source line did with a queue's buffers: operation, bytes read and written, how often."""

    site: SiteRow
    op: str
    read_bytes: int
    written_bytes: int
    count: int


@dataclass(frozen=True)
class QueueUse:
    """The buffers of one InitBuffer call on one core: name in the source, place, and `busy`, the share of the core's time one is in use.

    `buffers` are (address, bytes). `lines` are the source lines that touch them, most bytes first.
    """

    name: str
    space: str
    site: SiteRow
    buffers: tuple[tuple[int, int], ...]
    busy: float
    lines: tuple[LineUse, ...]


@dataclass(frozen=True)
class MemoryUse:
    """One core's memories. `curves[space]` is (cycles, bytes): from each time on, that many bytes are in use; queues in order of address."""

    core: int
    queues: tuple[QueueUse, ...]
    curves: dict[str, tuple[Array, Array]]

    def peak_bytes(self, space: str) -> int:
        """The most bytes of a memory that are in use at one time."""
        return int(self.curves[space][1].max(initial=0)) if space in self.curves else 0

    def reserved_bytes(self, space: str) -> int:
        """Bytes that InitBuffer handed out."""
        return sum(size for q in self.queues if q.space == space for _, size in q.buffers)


def memory_use(run: Run, core: int) -> MemoryUse:
    """Follow the buffers of one core. A buffer is in use from the first instruction that touches it after AllocTensor (or at all,
    for a TBuf) until the last one before the next AllocTensor has ended."""
    trace, timeline = run.trace, run.timeline
    mine = [b for b in trace.buffers if b.core == core]
    rows = slice(int(trace.core_begin[core]), int(trace.core_begin[core + 1]))
    touched = _touches(run, core, [(SPACES.index(b.space), b.address, b.bytes) for b in mine])
    spans = _spans(run, rows, [(b.queue, b.address) for b in mine], touched)
    curves: dict[str, tuple[Array, Array]] = {}
    for space in dict.fromkeys(b.space for b in mine):
        chosen = [s for s in spans if mine[s[0]].space == space]
        curves[space] = _curve([(start, end, mine[i].bytes) for i, start, end in chosen])
    queues = []
    span_of_core = float(timeline.core_end[core] - timeline.core_start[core]) or 1.0
    for queue in dict.fromkeys(b.queue for b in mine):
        of_queue = [i for i, b in enumerate(mine) if b.queue == queue]
        times = [(start, end, 1) for i, start, end in spans if i in of_queue]
        first = mine[of_queue[0]]
        site = trace.sites[first.site]
        queues.append(
            QueueUse(
                _name(site) or f"queue {queue}",
                first.space,
                site,
                tuple((mine[i].address, mine[i].bytes) for i in of_queue),
                _covered(*_curve(times)) / span_of_core,
                _lines(run, touched, of_queue),
            )
        )
    queues.sort(key=lambda q: (ON_CHIP.index(q.space), q.buffers[0][0]))
    return MemoryUse(core, tuple(queues), curves)


def reached_bytes(trace: Trace, core: int) -> dict[int, int]:
    """How far into a buffer of each queue any instruction of the core reaches, in whole 32-byte blocks: what a round needs of it."""
    ranges = trace.decoded()
    mine = slice(int(trace.access_begin[core]), int(trace.access_begin[core + 1]))
    space, begin = ranges.space[mine], ranges.address[mine]
    spread = np.maximum(0, ranges.rows[mine] - 1) * ranges.stride[mine]
    # A pattern of two strides is two entries; the second one holds the outer stride and count.
    spread[:-1] += np.where(ranges.more[mine][:-1], spread[1:], 0)
    end = begin + spread + ranges.row_bytes[mine]
    reached: dict[int, int] = {}
    for buffer in (b for b in trace.buffers if b.core == core):
        inside = (
            (space == SPACES.index(buffer.space)) & (begin >= buffer.address) & (begin < buffer.address + buffer.bytes)
        )
        furthest = int(end[inside].max(initial=buffer.address)) - buffer.address
        reached[buffer.queue] = max(reached.get(buffer.queue, 0), min(buffer.bytes, -(-furthest // 32) * 32))
    return reached


@dataclass(frozen=True)
class _Touches:
    """Accesses to buffers of a core: buffer index, instruction, bytes, mode."""

    buffer: Array
    instr: Array
    size: Array
    mode: Array


def _touches(run: Run, core: int, places: list[tuple[int, int, int]]) -> _Touches:
    trace = run.trace
    ranges = trace.decoded()
    mine = slice(int(trace.access_begin[core]), int(trace.access_begin[core + 1]))
    space, address = ranges.space[mine].astype(np.int64), ranges.address[mine]
    # One number for memory and address; buffers sorted by it, so that a search finds the last one that begins before.
    begin = np.array([s << 40 | a for s, a, _ in places], np.int64)
    order = np.argsort(begin, kind="stable")
    where = np.searchsorted(begin[order], space << 40 | address, "right") - 1
    buffer = order[np.maximum(where, 0)] if len(order) else np.zeros(len(where), np.int64)
    end = np.array([s << 40 | (a + n) for s, a, n in places] or [0], np.int64)
    size = ranges.sizes()[mine]
    inside = (where >= 0) & ((space << 40 | address) < end[buffer]) & (space > 0) & (size > 0)
    return _Touches(buffer[inside], ranges.instr[mine][inside], size[inside], ranges.mode[mine][inside])


def _spans(run: Run, rows: slice, keys: list[tuple[int, int]], touched: _Touches) -> list[tuple[int, float, float]]:
    """(buffer, first start, last end) of each round of each buffer."""
    trace = run.trace
    alloc_op = np.array([op.kind == "alloc" for op in trace.ops] or [False])
    instrs = trace.instrs[rows]
    allocs = np.flatnonzero(alloc_op[instrs["op"]])
    start, end = np.asarray(run.timeline.start), np.asarray(run.timeline.end)
    out = []
    for i, (queue, address) in enumerate(keys):
        here = allocs[(instrs["work"][allocs] == queue) & (instrs["arg"][allocs] == address)] + rows.start
        uses = touched.instr[touched.buffer == i]
        if not len(uses):
            continue
        turn = np.searchsorted(here, uses)
        cuts = np.flatnonzero(np.diff(turn, prepend=-1))
        first, last = np.minimum.reduceat(start[uses], cuts), np.maximum.reduceat(end[uses], cuts)
        out += [(i, float(a), float(b)) for a, b in zip(first, last, strict=True)]
    return out


def _curve(spans: list[tuple[float, float, int]]) -> tuple[Array, Array]:
    """The sum of the values of the spans that are open, as steps."""
    times = np.array([t for start, end, _ in spans for t in (start, end)])
    change = np.array([d for _, _, value in spans for d in (value, -value)], np.int64)
    moments, inverse = np.unique(times, return_inverse=True)
    steps = np.bincount(inverse, weights=change, minlength=len(moments)) if len(moments) else np.empty(0)
    return moments, np.cumsum(steps).astype(np.int64)


def _covered(times: Array, open_spans: Array) -> float:
    """Length of the time in which at least one span is open."""
    return float((np.diff(times) * (open_spans[:-1] > 0)).sum()) if len(times) > 1 else 0.0


def _lines(run: Run, touched: _Touches, buffers: list[int]) -> tuple[LineUse, ...]:
    trace = run.trace
    chosen = np.isin(touched.buffer, buffers)
    instr, size, mode = touched.instr[chosen], touched.size[chosen], touched.mode[chosen]
    key = trace.instrs["site"][instr].astype(np.int64) * (len(trace.ops) or 1) + trace.instrs["op"][instr]
    unique, inverse = np.unique(key, return_inverse=True)
    read = np.bincount(inverse, weights=np.where(mode & 1 > 0, size, 0), minlength=len(unique))
    written = np.bincount(inverse, weights=np.where(mode & 2 > 0, size, 0), minlength=len(unique))
    count = np.bincount(
        inverse[np.unique(np.stack([inverse, instr]), axis=1, return_index=True)[1]], minlength=len(unique)
    )
    rows = [
        LineUse(trace.sites[k // len(trace.ops)], trace.ops[k % len(trace.ops)].name, int(r), int(w), int(n))
        for k, r, w, n in zip(unique.tolist(), read, written, count, strict=True)
    ]
    return tuple(sorted(rows, key=lambda r: -(r.read_bytes + r.written_bytes)))


def _name(site: SiteRow) -> str:
    """The variable in InitBuffer's first argument."""
    found = re.search(r"InitBuffer\s*\(\s*([\w.\->]+)", Place(site.file, site.line).text())
    return found.group(1).rpartition(">")[2].rpartition(".")[2] if found else ""
