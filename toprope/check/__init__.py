"""check(): every mistake and piece of advice that a trace shows. A pure function of the trace; nothing is run again."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Literal

from toprope import runtime
from toprope.check.arguments import argument_types, claims
from toprope.check.consequences import without_consequences
from toprope.check.decide import decided, with_consequences
from toprope.check.describe import Describer
from toprope.check.explore import Again, explore
from toprope.check.leftovers import (
    registers_left,
    reserved_flags,
    unused_arguments,
    unused_buffers,
    unwritten_outputs,
)
from toprope.check.library import overlapping_operands
from toprope.check.opinion import Opinion
from toprope.check.replay import replay
from toprope.check.row_pitch import overlapping_rows
from toprope.check.tiling_data import tiling_mismatches
from toprope.finding import Finding, Place, Severity, codes
from toprope.soc import Soc
from toprope.trace import Trace

__all__ = ["Again", "check", "explore", "tiling_mismatches"]

_RANK: dict[Severity, int] = {"error": 0, "warning": 1, "advice": 2}
# After one of these the core has stopped, or its queues are out of step: what is left unfinished then is a consequence.
_ENDS_EARLY = {
    "queue-without-buffer", "queue-no-free-buffer", "deque-from-empty-queue", "queue-depth-exceeded", "enque-in-wrong-state",
    "tensor-of-another-queue", "buffer-not-initialised", "buffer-of-size-zero", "buffer-over-capacity", "too-many-buffers",
    "event-ids-exhausted", "event-id-collision", "flag-set-twice", "flag-wait-without-set", "no-pipe", "deadlock", "cross-flag-overflow", "kernel-crash",
    "kernel-exception", "kernel-exit", "kernel-trace-limit", "division-by-zero", "kernel-time-limit", "kernel-trap", "kernel-assert", "matmul-bias-not-planned", "matmul-tiling-invalid",
    "matmul-without-cube-core", "matmul-spill-too-large", "matmul-call-order",
}  # fmt: skip
_REFUSED_FLAGS = {"cross-flag-pipe", "cross-flag-id-out-of-range", "too-many-cores"}
# Told before all else, which may come of them: ends that the kernel did not choose, and arrays of another type than it takes.
_FIRST = {
    "argument-type-mismatch",
    "kernel-crash",
    "kernel-exception",
    "kernel-exit",
    "kernel-time-limit",
    "kernel-trace-limit",
    "division-by-zero",
}
_CONSEQUENCES = {
    "flag-never-waited", "cross-flag-never-waited", "tensor-never-freed", "barrier-too-coarse", "atomic-mode-left-on", "mask-left-changed",
    "output-not-written",
}  # fmt: skip


def check(
    trace: Trace,
    soc: Soc,
    *,
    sync: Literal["auto", "manual"] | str = "auto",
    poisoned: Collection[str] = (),
    launch: runtime.Launch | None = None,
    last_core_first: bool = False,
) -> list[Finding]:
    """Everything that is wrong with a run, most severe first, then in order of first occurrence; one finding per cause.

    `sync` says what the vendor's compiler does: "auto" (its default) inserts PipeBarrier<PIPE_V> between dependent vector
    instructions and the events between the scalar pipe and V, MTE2, MTE3 on vector cores; "manual" inserts nothing.
    `poisoned` names GM arguments (outputs, workspace) that hold nothing before the launch: reading them first is a mistake.
    `last_core_first` says in which order the cores ran. With `launch`, what gave the trace, doubtful findings are decided by running it again (opinion.py), in child processes.
    Rules and their sources: docs/sanitizer.md.
    """
    words = Describer(trace)
    seen: list[tuple[int, Finding]] = []
    for report in trace.reports:
        site = trace.sites[report.site]
        op = trace.ops[report.op] if report.op < len(trace.ops) else None
        place = Place(site.file, site.line, op.name if op else "", op.pipe if op else "", "")
        row = codes().get(report.code)
        severity: Severity = "warning" if report.severity else "error"
        at = int(trace.core_begin[report.core]) + report.instr if len(trace.cores) > report.core else 0
        text, _, own = report.text.partition("\ncure: ")
        cure = own or (row.cure if row else "")
        seen.append(
            (
                at,
                Finding(report.code, severity, text, (place,), cure, report.count, (report.core,), data={"instr": at}),
            )
        )
    replayed = replay(trace, sync=sync, poisoned=poisoned, last_core_first=last_core_first)
    told = [(cause.instr_b, finding) for cause in replayed.causes if (finding := words.finding(cause)) is not None]
    seen += [(f.data["instr"], f) for f in (*overlapping_operands(trace), *overlapping_rows(trace))]
    opinion = Opinion(launch, soc, trace, poisoned) if launch else None
    seen += decided(told, trace, opinion)
    if opinion and _looks_at_flags(trace) and not any(f.severity == "error" for _, f in seen):
        seen += [(len(trace.instrs), f) for f in opinion.findings_in_reverse(_races_of(soc, sync))]
    left = [*argument_types(trace), *registers_left(trace), *reserved_flags(trace)]
    if not any(f.severity == "error" for _, f in seen):
        left += unwritten_outputs(trace, poisoned)
    if not any(
        f.severity == "error" for f in (*left, *(f for _, f in seen))
    ):  # an access that was refused leaves its memory untouched
        left += [
            *unused_buffers(trace, soc, replayed.buffer_used),
            *unused_arguments(trace, {*replayed.arguments_used, *poisoned}),
            *claims(trace),
        ]
    seen += [(len(trace.instrs), finding) for finding in left]
    seen = without_consequences(trace, seen)
    seen = with_consequences(seen)
    if any(f.code in _ENDS_EARLY for _, f in seen):
        seen = [(at, f) for at, f in seen if f.code not in _CONSEQUENCES]
    # Who waits for a core that has stopped, or for a flag that was refused, waits for ever.
    if any(f.code in (_ENDS_EARLY | _REFUSED_FLAGS) - {"deadlock"} for _, f in seen):
        seen = [(at, f) for at, f in seen if f.code != "deadlock"]
    order = sorted(
        range(len(seen)),
        key=lambda i: (
            _RANK[seen[i][1].severity],
            seen[i][1].code not in _FIRST,
            _of_other_cores(seen[i][1]),
            seen[i][0],
            i,
        ),
    )
    return [seen[i][1] for i in order]


def _of_other_cores(finding: Finding) -> bool:
    """Whether it may come of a missing order between cores, so that such findings are told first."""
    return finding.data.get("space") == "GM" and finding.code in ("uninitialised-read", "race-unordered-pipes")


def _looks_at_flags(trace: Trace) -> bool:
    """Whether cores may wait for each other by scalar reads of GM: what such a read waits for depends on who runs first."""
    names = {op.name for op in trace.ops}
    looks = names & {"ReadGmByPassDCache", "DataCacheCleanAndInvalid"}
    return len(trace.cores) > 1 and bool(looks) and not trace.signal


def _races_of(soc: Soc, sync: str) -> Callable[[Trace], list[Finding]]:
    def races(trace: Trace) -> list[Finding]:
        return [f for f in check(trace, soc, sync=sync, last_core_first=True) if f.code == "race-between-cores"]

    return races
