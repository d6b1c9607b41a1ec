"""check(): every mistake and piece of advice that a trace shows. A pure function of the trace; nothing is run again."""

from __future__ import annotations

from collections.abc import Collection
from typing import Literal

from toprope.check.describe import Describer
from toprope.check.leftovers import registers_left, unused_buffers
from toprope.check.replay import replay
from toprope.finding import Finding, Place, Severity, codes
from toprope.soc import Soc
from toprope.trace import Trace

__all__ = ["check"]

_RANK: dict[Severity, int] = {"error": 0, "warning": 1, "advice": 2}
_CURED_BY_OTHERS = {"flag-never-waited", "cross-flag-never-waited", "barrier-without-effect", "barrier-too-coarse"}


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
    broken = any(f.severity == "error" for _, f in seen)
    replayed = replay(trace, sync_auto=sync == "auto", poisoned=poisoned)
    for cause in replayed.causes:
        finding = words.finding(cause)
        # After a contract error the run may have ended early: what is left unfinished then is a consequence.
        if finding is not None and not (broken and finding.code in _CURED_BY_OTHERS):
            seen.append((cause.instr_b, finding))
    if not broken:
        left = [*registers_left(trace), *unused_buffers(trace, soc, replayed.buffer_used)]
        seen += [(len(trace.instrs), finding) for finding in left]
    order = sorted(range(len(seen)), key=lambda i: (_RANK[seen[i][1].severity], seen[i][0], i))
    return [seen[i][1] for i in order]
