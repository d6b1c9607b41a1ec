"""The numbers of one run that every report shows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from toprope.finding import Finding, Place
from toprope.kernel import Run
from toprope.profile.waiting import END, ISSUE, START, idle
from toprope.timing.confidence import COVERED, Band
from toprope.trace import PIPES, Array, Trace

# How a sentence names what a pipe waits for, where it is not a pipe.
_WAITED_FOR = {
    START: "the start-up",
    END: "the other pipes to end",
    ISSUE: "its next instruction to be sent",
}


@dataclass(frozen=True)
class Summary:
    """What a person wants to know first. `verdicts` holds a comparison per output that has a reference, `waits` for each busy pipe
    what it waits for, as shares of the time."""

    run: Run
    verdicts: Mapping[str, Any]
    microseconds: float
    busy: dict[str, float]
    bottleneck: str
    lines: list[LineCost]
    waits: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    advice: list[Finding] = field(default_factory=list)

    @property
    def findings(self) -> list[Finding]:
        """Every finding of the run, then the profiler's advice; where both name the same thing, the advice, which knows the gain."""
        costed = {f.code for f in self.advice}
        return [*(f for f in self.run.findings if f.code not in costed), *self.advice]

    @property
    def errors(self) -> list[Finding]:
        """The findings that are errors."""
        return [f for f in self.findings if f.severity == "error"]

    @property
    def passed(self) -> bool:
        """Every compared output agrees with its reference."""
        return all(v.passed for v in self.verdicts.values())


@dataclass(frozen=True)
class LineCost:
    """A source line: how often its instructions ran and how long the pipe worked for it, in µs, mean of the cores that have the pipe."""

    file: str
    line: int
    op: str
    pipe: str
    count: int
    microseconds: float


def of(run: Run, verdicts: Mapping[str, Any], advice: Sequence[Finding] = ()) -> Summary:
    """Check, predict and summarise a run."""
    timeline = run.timeline
    busy = {pipe: timeline.busy(pipe) for pipe in PIPES[:-1]}
    busy = {pipe: share for pipe, share in busy.items() if share > 0}
    waits = {pipe: idle(run, pipe) for pipe in busy if pipe != "S"}
    start_up = min(1.0, timeline.launch_cycles / timeline.cycles) if timeline.cycles else 0.0
    bottleneck = _bottleneck(busy, waits, start_up)
    return Summary(run, verdicts, timeline.microseconds, busy, bottleneck, line_costs(run), waits, list(advice))


def line_costs(run: Run) -> list[LineCost]:
    """Cost by source line, most expensive first: the time a pipe could not start the next instruction because of this one.

    Copies overlap inside a pipe, so an instruction is charged from the end of the one before it; waiting for a flag is charged to nobody.
    """
    trace, timeline = run.trace, run.timeline
    if not len(trace.instrs):
        return []
    charge = working_cycles(run)
    key = trace.instrs["site"].astype(np.int64) * 8 + trace.instrs["pipe"]
    key[charge <= 0] = -1
    unique, first, inverse, counts = np.unique(key, return_index=True, return_inverse=True, return_counts=True)
    totals = np.bincount(inverse, weights=charge, minlength=len(unique))
    per_us = timeline.cycles / timeline.microseconds if timeline.cycles else 1.0
    # A mixed kernel's cube lines run on its cube cores only: a core is one that has the pipe, as in the shares of the pipes.
    cores = [int(timeline.cores_of(pipe).sum()) for pipe in PIPES]
    rows = []
    for k, i, n, total in zip(unique, first, counts, totals, strict=True):
        if k >= 0:
            site = trace.sites[int(k) // 8]
            op = trace.ops[int(trace.instrs["op"][i])].name
            pipe = int(k) % 8
            rows.append(LineCost(site.file, site.line, op, PIPES[pipe], int(n), float(total) / per_us / cores[pipe]))
    return sorted(rows, key=lambda r: -r.microseconds)


def working_cycles(run: Run) -> Array:
    """`occupancy` of the instructions that compute or move data; 0 for those that wait or only keep books."""
    trace = run.trace
    working = np.array([op.kind in ("compute", "copy", "scalar", "cache") for op in trace.ops] or [False], bool)
    charge = occupancy(trace, np.asarray(run.timeline.start), np.asarray(run.timeline.end))
    charge[~np.take(working, trace.instrs["op"])] = 0
    return charge


def occupancy(trace: Trace, start: Array, end: Array) -> Array:
    """Cycles by which each instruction moves the end of its pipe on, its own waiting left out."""
    lane = trace.core_of_instr().astype(np.int64) * len(PIPES) + trace.instrs["pipe"]
    order = np.argsort(lane, kind="stable")
    # A running maximum that starts afresh in every lane: lanes are moved apart by more than any time.
    apart = lane[order] * (float(end.max(initial=0.0)) + 1.0)
    latest = np.maximum.accumulate(end[order] + apart)
    before = np.concatenate(([-np.inf], latest[:-1])) - apart
    charge = np.empty_like(end)
    charge[order] = np.maximum(0.0, end[order] - np.maximum(start[order], before))
    return charge


def _bottleneck(busy: Mapping[str, float], waits: Mapping[str, Mapping[str, float]], start_up: float) -> str:
    """The pipe that decides; `start_up` is the share of the time before the first instruction, which counts as scalar work."""
    if not busy:
        return "nothing was executed"
    working = {pipe: share - (start_up if pipe == "S" else 0.0) for pipe, share in busy.items()}
    pipe, share = max(working.items(), key=lambda item: item[1])
    what = {
        "S": "scalar work and queue handling",
        "V": "vector arithmetic",
        "M": "the cube",
        "MTE1": "copies from L1 to L0",
        "MTE2": "copies from GM",
        "MTE3": "copies to GM",
        "FIX": "copies out of L0C",
    }[pipe]
    if share >= 0.8:
        return f"bound by {what}: {pipe} is busy {share:.0%} of the time"
    if start_up > max(share, 0.25):
        return f"start-up takes {start_up:.0%} of the time, more than any pipe works; {pipe} ({what}) works {share:.0%}"
    most = next(iter(waits.get(pipe, {}).items()), None)
    why = f" and waits for {_WAITED_FOR.get(most[0], most[0])} {most[1]:.0%}" if most else ""
    return f"no pipe is full: {pipe} ({what}) is the busiest, works {share:.0%} of the time{why}"


def _finite(value: float) -> float | None:
    """JSON has no infinity: an exact result has no SNR in decibels."""
    return float(value) if np.isfinite(value) else None


def band_as_json(band: Band) -> dict[str, Any]:
    """The band of a prediction as plain data: 80 % of device times of this kind of work lie in it; `known` false: nothing published is like it."""
    return {
        "low_us": band.low_us,
        "high_us": band.high_us,
        "share": COVERED,
        "kind": band.kind,
        "rows": band.rows,
        "known": band.known,
    }


def as_json(summary: Summary, complaint: Exception | None = None) -> dict[str, Any]:
    """The summary as plain data (stable keys); `complaint` is why the outputs could not be compared."""
    run = summary.run
    return {
        "kernel": run.kernel,
        "soc": run.soc.name,
        "blocks": run.blocks,
        "passed": summary.passed and complaint is None,
        "complaint": str(complaint) if complaint else None,
        "ended_early": bool(run.trace.signal),
        "verdicts": {
            n: {"passed": v.passed, "metrics": {k: _finite(x) for k, x in v.metrics.items()}}
            for n, v in summary.verdicts.items()
        },
        "findings": [
            {
                "code": f.code,
                "severity": f.severity,
                "message": f.message,
                "count": f.count,
                "places": [
                    {"file": p.file, "line": p.line, "op": p.op, "pipe": p.pipe, "action": p.action} for p in f.places
                ],
                "cure": f.cure,
                "saves_us": f.cycles_at_stake / (run.soc.ghz * 1e3),
            }
            for f in summary.findings
        ],
        "microseconds": summary.microseconds,
        "band": band_as_json(run.timeline.band),
        "cycles": run.timeline.cycles,
        "busy": summary.busy,
        "waits": {pipe: dict(reasons) for pipe, reasons in summary.waits.items()},
        "bottleneck": summary.bottleneck,
        "assumed_share": run.timeline.assumed_share,
        "instructions": len(run.trace.instrs),
        "bytes_per_instruction": run.trace.bytes_per_instruction,
        "lines": [
            {
                "file": r.file,
                "line": r.line,
                "source": Place(r.file, r.line).text(),
                "op": r.op,
                "pipe": r.pipe,
                "count": r.count,
                "microseconds": r.microseconds,
            }
            for r in summary.lines[:40]
        ],
        "wall_s": run.wall_s,
    }
