"""check(): every mistake and piece of advice that a trace shows. A pure function of the trace; nothing is run again."""

from __future__ import annotations

from collections.abc import Collection
from typing import Literal

from toprope.check.describe import Describer
from toprope.check.explore import Again, explore
from toprope.check.leftovers import registers_left, reserved_flags, unused_arguments, unused_buffers
from toprope.check.replay import replay
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
    "kernel-exception", "kernel-time-limit", "kernel-trap", "kernel-assert", "matmul-bias-not-planned", "matmul-tiling-invalid",
    "matmul-without-cube-core", "matmul-spill-too-large",
}  # fmt: skip
_CONSEQUENCES = {
    "flag-never-waited", "cross-flag-never-waited", "tensor-never-freed", "barrier-too-coarse", "atomic-mode-left-on", "mask-left-changed",
}  # fmt: skip


def check(
    trace: Trace, soc: Soc, *, sync: Literal["auto", "manual"] | str = "auto", poisoned: Collection[str] = ()
) -> list[Finding]:
    """Everything that is wrong with a run, most severe first, then in order of first occurrence; one finding per cause.

    `sync` says what the vendor's compiler does: "auto" (its default) inserts PipeBarrier<PIPE_V> between dependent vector
    instructions and the events between the scalar pipe and V, MTE2, MTE3 on vector cores; "manual" inserts nothing.
    `poisoned` names GM arguments (outputs, workspace) that hold nothing before the launch: reading them first is a mistake.
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
        cure = row.cure if row else ""
        seen.append(
            (
                at,
                Finding(
                    report.code, severity, report.text, (place,), cure, report.count, (report.core,), data={"instr": at}
                ),
            )
        )
    replayed = replay(trace, sync=sync, poisoned=poisoned)
    seen += [(cause.instr_b, finding) for cause in replayed.causes if (finding := words.finding(cause)) is not None]
    left = [*registers_left(trace), *reserved_flags(trace)]
    if not any(f.severity == "error" for _, f in seen):  # an access that was refused leaves its memory untouched
        left += [*unused_buffers(trace, soc, replayed.buffer_used), *unused_arguments(trace, replayed.arguments_used)]
    seen += [(len(trace.instrs), finding) for finding in left]
    if any(f.code in _ENDS_EARLY for _, f in seen):
        seen = [(at, f) for at, f in seen if f.code not in _CONSEQUENCES]
    order = sorted(range(len(seen)), key=lambda i: (_RANK[seen[i][1].severity], seen[i][0], i))
    return [seen[i][1] for i in order]
