"""Why a pipe stands idle: the time in which it has nothing under way, by what it waits for."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping

import numpy as np

from toprope.kernel import Run
from toprope.profile.whatif import kinds
from toprope.timing.timeline import STALLS
from toprope.trace import PIPES, Array

ISSUE, START, END, OTHER_CORE, BARRIER = "issue", "start-up", "end", "another core", "a barrier"
_NAMES = (ISSUE, *PIPES[1:-1], START, OTHER_CORE, BARRIER)
_BY_STALL = {"barrier": BARRIER, "other core": OTHER_CORE, "launch": START}
_SCALAR = PIPES.index("S")


def idle(run: Run, pipe: str) -> Mapping[str, float]:
    """Shares of the core's time, mean of the cores that have the pipe, largest first; with the busy share they make 1.

    Keys: the pipe whose flag it waited for; "issue" where the scalar unit had not sent the next instruction yet, because it was at work or
    found another pipe's queue full; "another core"; "a barrier"; "start-up" before the pipe's first instruction; "end" after its last one.
    Not for the scalar pipe itself.
    """
    trace, timeline = run.trace, run.timeline
    cores = np.flatnonzero(timeline.cores_of(pipe))
    rows = np.flatnonzero(trace.instrs["pipe"] == PIPES.index(pipe))
    core = trace.core_of_instr()[rows]
    life = timeline.core_end - timeline.core_start
    total = float(life[cores].sum())
    if not total or not len(rows):
        return {}
    start, end = np.asarray(timeline.start)[rows], np.asarray(timeline.end)[rows]
    # A running maximum of the ends that starts afresh on every core: cores are moved apart by more than any time.
    apart = core.astype(np.int64) * (float(np.max(timeline.end)) + 1.0)
    latest = np.maximum.accumulate(end + apart) - apart
    first = np.concatenate(([True], core[1:] != core[:-1]))
    last = np.concatenate((first[1:], [True]))
    before = np.where(first, timeline.core_start[core], np.concatenate(([0.0], latest[:-1])))
    waits = kinds(trace, "wait_flag", "cross_wait")[rows]
    reason = _reasons(run, rows)
    reason[first & ~waits] = _NAMES.index(START)
    waited = np.where(waits, np.maximum(0.0, end - np.maximum(start, before)), 0.0)
    gap = np.maximum(0.0, start - before)
    # The instruction at the end of a gap came late; a wait's own time belongs to what it waited for.
    late = np.where(waits, np.where(first, _NAMES.index(START), _SCALAR), reason)
    spent: dict[str, float] = defaultdict(float)
    for code, name in enumerate(_NAMES):
        spent[name] += float(waited[reason == code].sum() + gap[late == code].sum())
    sent_late = (late == _SCALAR) & (gap > 0)
    for name, cycles in _scalar_waits(run, core[sent_late], before[sent_late], start[sent_late]):
        spent[name] += cycles
        spent[ISSUE] -= cycles
    spent[END] += float((timeline.core_end[core[last]] - latest[last]).sum() + life[np.setdiff1d(cores, core)].sum())
    shares = {name: cycles / total for name, cycles in spent.items() if cycles > 1e-6 * total}
    return dict(sorted(shares.items(), key=lambda item: -item[1]))


def _reasons(run: Run, rows: Array) -> Array:
    """What decided the start of each of these instructions, as an index into _NAMES."""
    blocker = run.timeline.blocker[rows]
    setter = run.trace.instrs["pipe"][np.maximum(blocker, 0)]
    by_flag = np.where((blocker >= 0) & (setter < PIPES.index("ALL")), setter, _SCALAR)
    table = np.array([_NAMES.index(_BY_STALL.get(stall, ISSUE)) for stall in STALLS])
    stall = run.timeline.stall[rows]
    flagged = np.isin(stall, [STALLS.index("flag"), STALLS.index("pipe busy"), STALLS.index("data hazard")])
    return np.asarray(np.where(flagged, by_flag, table[stall]))


def _scalar_waits(run: Run, core: Array, begin: Array, end: Array) -> Iterator[tuple[str, float]]:
    """How much of these stretches of time the scalar unit of the core itself spent waiting, by what for."""
    trace, timeline = run.trace, run.timeline
    on_scalar = np.isin(trace.instrs["pipe"], (_SCALAR, PIPES.index("ALL")))
    rows = np.flatnonzero(
        on_scalar & kinds(trace, "wait_flag", "cross_wait", "barrier") & (timeline.end > timeline.start)
    )
    core_of_row, reason = trace.core_of_instr()[rows], _reasons(run, rows)
    for c in np.unique(core):
        mine = core == c
        for code in np.unique(reason[core_of_row == c]):
            chosen = rows[(core_of_row == c) & (reason == code)]
            times = np.stack((timeline.start[chosen], timeline.end[chosen]), axis=1)
            waited = np.concatenate((np.zeros((len(chosen), 1)), times[:, 1:] - times[:, :1]), axis=1).ravel().cumsum()
            until = np.interp(end[mine], times.ravel(), waited) - np.interp(begin[mine], times.ravel(), waited)
            if code != _SCALAR:
                yield _NAMES[code], float(until.sum())
