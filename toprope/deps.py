"""The dependence graph of a run: which instruction or tensor needs which other, and what keeps the two in order.

Two instructions depend on each other when they touch the same bytes and at least one writes: flow (written, then read), anti (read,
then written again), output (written twice). Inside a core every dependence is kept in order by something: the pipe itself, a flag, a
barrier, the vendor's compiler, or nothing at all, which is a race. Flags and barriers that order no dependence stand there for nothing.
Dependences between cores, through GM, are the business of `toprope check`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

from toprope.kernel import Run
from toprope.trace import PIPES, SPACES, Array, Trace

KINDS = ("flow", "anti", "output")
IN_ORDER = frozenset({"S", "M", "MTE1", "FIX"})  # pipes whose instructions also complete in order
READ, WRITE = 1, 2
GAPS = -1  # pieces of more than one distance


@dataclass(frozen=True)
class Dependence:
    """`later` depends on `earlier` (rows of Trace.instrs), through bytes of `space`; `by` is what orders the two, "" for nothing.

    `sync` is the row of the wait or barrier behind `by`, -1 where there is none.
    """

    kind: str
    earlier: int
    later: int
    space: str
    by: str
    sync: int = -1


@dataclass(frozen=True)
class Graph:
    """The dependences of one core, which sync instructions there are, and those that order none of the dependences."""

    run: Run
    core: int
    dependences: tuple[Dependence, ...]
    syncs: tuple[int, ...]
    idle_syncs: tuple[int, ...]
    path: tuple[int, ...] = field(repr=False)

    def line(self, instr: int) -> str:
        """An instruction as "Add V add.cpp:42"."""
        trace = self.run.trace
        row, site = trace.instrs[instr], trace.sites[int(trace.instrs["site"][instr])]
        return f"{trace.ops[int(row['op'])].name} {PIPES[int(row['pipe'])]} {site.file.rsplit('/', 1)[-1]}:{site.line}"

    def by_line(self) -> Counter[tuple[str, str, str, str, str]]:
        """How often each (kind, earlier line, later line, space, ordered by) occurs: the graph of source lines."""
        return Counter((d.kind, self.line(d.earlier), self.line(d.later), d.space, d.by) for d in self.dependences)

    def tensors(self) -> Counter[tuple[str, str, str]]:
        """(from, to, instruction): data moved or computed from one tensor (GM argument or on-chip buffer) into another."""
        names = _Names(self.run.trace, self.core)
        found: Counter[tuple[str, str, str]] = Counter()
        trace = self.run.trace
        for instr, pieces in _touched(trace, self.core):
            reads = {names.of(p) for p in pieces if p.mode & READ}
            writes = {names.of(p) for p in pieces if p.mode & WRITE}
            name = trace.ops[int(trace.instrs["op"][instr])].name
            found.update((r, w, name) for r in reads for w in writes)
        return found


@dataclass(frozen=True)
class _Piece:
    """Bytes begin:end of a space, the hull of what one operand touches; `stride` is 0 when it touches all of them, else the distance of
    the rows of row_bytes in it, or GAPS."""

    space: int
    begin: int
    end: int
    mode: int
    row_bytes: int
    stride: int

    def meets(self, other: _Piece) -> bool:
        """Whether the two share a byte; exact for rows of one distance, such as the columns of a matrix."""
        if self.space != other.space or self.begin >= other.end or other.begin >= self.end:
            return False
        if (
            self.stride
            and self.stride == other.stride
            and self.row_bytes < self.stride
            and other.row_bytes < self.stride
        ):
            shift = (other.begin - self.begin) % self.stride
            return shift < self.row_bytes or shift + other.row_bytes > self.stride
        return True


class _Names:
    """Tensors by address."""

    def __init__(self, trace: Trace, core: int) -> None:
        self.gm = [(g.address, g.address + g.bytes, g.name) for g in trace.gm]
        self.buffers = [(b.space, b.address, b.address + b.bytes, b.queue) for b in trace.buffers if b.core == core]
        queues = Counter(b[3] for b in self.buffers)
        seen: Counter[int] = Counter()
        self.labels = []
        for space, begin, end, queue in self.buffers:
            seen[queue] += 1
            label = f"{space.upper()} buffer {queue}" + (
                f" ({seen[queue]} of {queues[queue]})" if queues[queue] > 1 else ""
            )
            self.labels.append((space, begin, end, label))

    def of(self, piece: _Piece) -> str:
        space = SPACES[piece.space]
        if space == "gm":
            return next((name for begin, end, name in self.gm if begin <= piece.begin < end), "GM")
        return next(
            (label for s, begin, end, label in self.labels if s == space and begin <= piece.begin < end), space.upper()
        )


def _touched(trace: Trace, core: int) -> Iterator[tuple[int, list[_Piece]]]:
    """The instructions of a core that touch memory, with what they touch, in program order."""
    a, counts = int(trace.access_begin[core]), trace.instrs["accesses"]
    ranges = trace.decoded()
    columns = [
        c.tolist()
        for c in (ranges.space, ranges.address, ranges.row_bytes, ranges.rows, ranges.stride, ranges.mode, ranges.more)
    ]
    for instr in range(int(trace.core_begin[core]), int(trace.core_begin[core + 1])):
        end, pieces = a + int(counts[instr]), []
        while a < end:
            space, address, row_bytes, rows, stride, mode, more = (c[a] for c in columns)
            low, high, step = _repeated(address, address + row_bytes, 0, rows, stride)
            while more:
                a += 1
                _, _, _, rows, stride, _, more = (c[a] for c in columns)
                low, high, step = _repeated(low, high, step, rows, stride)
            a += 1
            if row_bytes and rows:
                pieces.append(_Piece(space, low, high, mode, row_bytes, step))
        if pieces:
            yield instr, pieces


def _repeated(low: int, high: int, step: int, rows: int, stride: int) -> tuple[int, int, int]:
    """The range low:high, itself with gaps if `step` is not 0, repeated: its hull, and the distance of the pieces (0 without gaps, GAPS
    where there is more than one)."""
    if rows <= 1:
        return low, high, step
    gaps = step if abs(stride) == high - low else (stride if step == 0 else GAPS)
    return min(low, low + (rows - 1) * stride), max(high, high + (rows - 1) * stride), gaps


class _Order:
    """What each pipe of a core knows to be complete, and through which sync: a clock per pair of pipes, moved on in program order."""

    def __init__(self, run: Run, core: int) -> None:
        self.trace, self.auto = run.trace, run.sync == "auto" and run.trace.cores[core].type != "aic"
        self.known: dict[str, dict[str, tuple[int, int]]] = {
            p: {} for p in PIPES
        }  # pipe -> pipe -> (row complete, sync row)
        self.flags: dict[int, list[dict[str, tuple[int, int]]]] = {}
        self.last: dict[str, int] = {}
        self.kinds = [op.kind for op in run.trace.ops]

    def step(self, instr: int, pipe: str) -> bool:
        """Take in an instruction that stands at `pipe`; says whether it is a sync."""
        row = self.trace.instrs[instr]
        kind = self.kinds[int(row["op"])]
        if kind == "set_flag":
            source = PIPES[int(row["work"]) >> 16 & 0xFF]
            told = dict(self.known[source])
            if source in self.last:
                told[source] = (self.last[source], instr)
            self.flags.setdefault(int(row["work"]), []).append(told)
        elif kind == "wait_flag":
            waiting = self.flags.get(int(row["work"]))
            if waiting:
                self._learn(PIPES[int(row["work"]) >> 8 & 0xFF], waiting.pop(0), instr)
            if PIPES[int(row["work"]) >> 8 & 0xFF] == "S":
                self._issue()
        elif kind == "barrier":
            if pipe == "ALL":
                everything = {p: (at, instr) for p, at in self.last.items()}
                for other in PIPES:
                    self._learn(other, everything, instr)
            elif pipe in self.last:
                self._learn(pipe, {pipe: (self.last[pipe], instr)}, instr)
        else:
            self.last[pipe] = instr
        return kind in ("wait_flag", "barrier")

    def _learn(self, pipe: str, told: dict[str, tuple[int, int]], sync: int) -> None:
        mine = self.known[pipe]
        for other, (row, _) in told.items():
            if other not in mine or mine[other][0] < row:
                mine[other] = (row, sync)

    def _issue(self) -> None:
        """What the scalar pipe has waited for holds for all that it issues from here on."""
        for pipe in PIPES:
            for other, (row, sync) in self.known["S"].items():
                self._learn(pipe, {other: (row, sync)}, sync)

    def between(self, earlier: int, first: str, second: str) -> tuple[str, int]:
        """(what orders, its row) for an instruction of pipe `first` and one of pipe `second` that is about to start."""
        if first == second and first in IN_ORDER:
            return "pipe", -1
        row, sync = self.known[second].get(first, (-1, -1))
        if row >= earlier:
            return ("barrier" if self.kinds[int(self.trace.instrs["op"][sync])] == "barrier" else "flag"), sync
        with_scalar = {"V", "MTE2", "MTE3"}
        by_compiler = (
            first == second == "V"
            or (first == "S" and second in with_scalar)
            or (second == "S" and first in with_scalar)
        )
        return ("compiler", -1) if self.auto and by_compiler else ("", -1)


UNIT_BIT = {"M": 10, "FIX": 9}  # of the arg column: the unit flag of Mmad and of Fixpipe


def dependences(run: Run, core: int = 0) -> Graph:
    """The dependence graph of one core of a run. Each instruction is compared with what still counts: the last write of the bytes and
    the reads since then."""
    trace = run.trace
    if not len(trace.cores):
        return Graph(run, core, (), (), (), ())
    order = _Order(run, core)
    live: list[list[tuple[int, str, _Piece]]] = [[] for _ in SPACES]
    found: dict[tuple[int, int, str], Dependence] = {}
    touched = _relevant(trace, dict(_touched(trace, core)))
    pipes = [PIPES[int(p)] for p in trace.instrs["pipe"]]
    syncs, used = [], set()
    for instr in range(int(trace.core_begin[core]), int(trace.core_begin[core + 1])):
        pipe = pipes[instr]
        for piece in touched.get(instr, ()):
            for earlier, other_pipe, other in live[piece.space]:
                if earlier == instr or not ((piece.mode | other.mode) & WRITE) or not piece.meets(other):
                    continue
                kind = KINDS[(0 if piece.mode & READ else 2) if other.mode & WRITE else 1]
                by, sync = order.between(earlier, other_pipe, pipe)
                if not by and _unit_flags(trace, earlier, other_pipe, instr, pipe):
                    by = "unit flag"
                used.add(sync)
                found.setdefault(
                    (earlier, instr, kind), Dependence(kind, earlier, instr, SPACES[piece.space], by, sync)
                )
        for piece in touched.get(instr, ()):
            kept = live[piece.space]
            if not piece.mode & WRITE:  # the same bytes read again by the same pipe: the later read stands for both
                kept = [e for e in kept if e[2] != piece or e[1] != pipe]
            elif piece.stride == 0:  # what it covers no longer counts
                kept = [e for e in kept if e[0] == instr or e[2].begin < piece.begin or piece.end < e[2].end]
            live[piece.space] = [*kept, (instr, pipe, piece)]
        if order.step(instr, pipe):
            syncs.append(instr)
    idle = tuple(s for s in syncs if s not in used)
    path = tuple(int(i) for i in run.timeline.critical_path()[::-1])
    return Graph(run, core, tuple(found.values()), tuple(syncs), idle, path)


def _relevant(trace: Trace, touched: dict[int, list[_Piece]]) -> dict[int, list[_Piece]]:
    """Without reads of GM arguments that the core never writes: nothing can depend on them."""
    names = _Names(trace, -1)
    written = {names.of(p) for pieces in touched.values() for p in pieces if p.space == 0 and p.mode & WRITE}
    return {
        i: [p for p in pieces if p.space or p.mode & WRITE or names.of(p) in written] for i, pieces in touched.items()
    }


def _unit_flags(trace: Trace, earlier: int, first: str, later: int, second: str) -> bool:
    args: Array = trace.instrs["arg"]
    return {first, second} == {"M", "FIX"} and all(
        bool(int(args[row]) >> UNIT_BIT[pipe] & 1) for row, pipe in ((earlier, first), (later, second))
    )


def path_by_line(graph: Graph) -> list[tuple[str, int, float]]:
    """The critical path by source line: (line, instructions on it, microseconds), dearest first."""
    timeline = graph.run.timeline
    path = np.array(graph.path, np.int64)
    totals: dict[str, tuple[int, float]] = {}
    ends = np.concatenate(([0.0], timeline.end[path]))
    for before, instr, end in zip(ends, path.tolist(), timeline.end[path].tolist(), strict=False):
        count, spent = totals.get(graph.line(instr), (0, 0.0))
        totals[graph.line(instr)] = count + 1, spent + max(0.0, end - float(before)) / (graph.run.soc.ghz * 1e3)
    return sorted(((line, n, us) for line, (n, us) in totals.items()), key=lambda row: -row[2])
