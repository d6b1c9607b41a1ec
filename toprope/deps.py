"""The dependence graph of a run: which instruction or tensor needs which other, and what keeps the two in order.

Two instructions depend on each other when they touch the same bytes and at least one writes: flow (written, then read), anti (read,
then written again), output (written twice). Inside a core every dependence is kept in order by something: the pipe itself, a flag, a
barrier, the vendor's compiler, or nothing at all, which is a race. Flags and barriers that order no dependence stand there for nothing.
Dependences between cores, through GM, are the business of `toprope check`.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

import numpy as np

from toprope import order
from toprope.kernel import Run
from toprope.trace import PIPES, READ, SPACES, WRITE, Trace

KINDS = ("flow", "anti", "output")


@dataclass(frozen=True)
class Dependence:
    """`later` depends on `earlier` (rows of Trace.instrs), through bytes of `space`; `by` is what orders the two, "" for nothing.

    `sync` is the row of the wait or barrier behind `by` (for "compiler" the instruction that its sync stands before), -1 where there is
    none.
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
        of_core = slice(int(trace.access_begin[self.core]), int(trace.access_begin[self.core + 1]))
        ranges = trace.decoded()
        touched: dict[int, tuple[set[str], set[str]]] = {}
        for instr, space, address, size, mode in zip(
            *(c[of_core].tolist() for c in (ranges.instr, ranges.space, ranges.address, ranges.sizes(), ranges.mode)),
            strict=True,
        ):
            if not size:
                continue
            name = names.of(SPACES[space], address)
            reads, writes = touched.setdefault(instr, (set(), set()))
            if mode & READ:
                reads.add(name)
            if mode & WRITE:
                writes.add(name)
        for instr, (reads, writes) in touched.items():
            name = trace.ops[int(trace.instrs["op"][instr])].name
            found.update((r, w, name) for r in reads for w in writes)
        return found


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

    def of(self, space: str, address: int) -> str:
        if space == "gm":
            return next((name for begin, end, name in self.gm if begin <= address < end), "GM")
        return next(
            (label for s, begin, end, label in self.labels if s == space and begin <= address < end), space.upper()
        )


def dependences(run: Run, core: int = 0) -> Graph:
    """The dependence graph of one core of a run. Each instruction is compared with what still counts: the last write of the bytes and
    the reads since then."""
    trace = run.trace
    if not len(trace.cores):
        return Graph(run, core, (), (), (), ())
    kinds = [op.kind for op in trace.ops]
    kind_of = [kinds[op] for op in trace.instrs["op"].tolist()]
    found, used = [], set()
    for earlier, later, kind, space, by, sync in order.dependences(trace, core, run.sync).tolist():
        name = order.BY[by]
        if name == "sync":
            name = "barrier" if kind_of[sync] == "barrier" else "flag"
            used.add(sync)
        found.append(
            Dependence(KINDS[kind], earlier, later, SPACES[space], name, -1 if sync == order.NO_SYNC else sync)
        )
    begin, end = int(trace.core_begin[core]), int(trace.core_begin[core + 1])
    syncs = tuple(i for i in range(begin, end) if kind_of[i] in ("wait_flag", "barrier"))
    path = tuple(int(i) for i in run.timeline.critical_path()[::-1])
    return Graph(run, core, tuple(found), syncs, tuple(s for s in syncs if s not in used), path)


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
