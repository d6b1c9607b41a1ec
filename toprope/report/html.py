"""The HTML report: one self-contained page with bounds, check list, advice, pipeline, memories, flame graph and annotated source.

page.html is its body; page.css, page.js (charts and lists) and timeline.js (the pipeline canvas) go into the frame of toprope.pages.
"""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import numpy as np
from markupsafe import Markup

from toprope import pages
from toprope.profile import checklist, memory_use, roofline
from toprope.report import flame
from toprope.report.perfetto import core_name
from toprope.report.summary import Summary, as_json
from toprope.trace import PIPES, Array

_HERE = Path(__file__).parent
MAX_EVENTS = (
    60_000  # a browser draws this many boxes without stutter; later instructions of each core are left out and counted
)
MAX_CORES = 64
MAX_STEPS = 1500  # points of a memory curve; longer ones keep the maximum of each stretch


def page(summary: Summary) -> str:
    """The page as text."""
    return pages.page(
        f"{summary.run.kernel} on {summary.run.soc.name}",
        pages.fill(_HERE / "page.html", flame=Markup(flame.svg(summary.run))),
        style=_part("page.css"),
        script=f"(()=>{{\n{_part('page.js')}\n{_part('timeline.js')}\n}})();",
        data=_data(summary),
        inline_styles=[flame.STYLE],
        inline_scripts=[flame.SCRIPT],
    )


def _part(name: str) -> str:
    return (_HERE / name).read_text()


def write(summary: Summary, path: Path) -> None:
    """Write the page."""
    path.write_text(page(summary))


def _data(summary: Summary) -> dict[str, Any]:
    run = summary.run
    trace, timeline = run.trace, run.timeline
    per_us = timeline.cycles / timeline.microseconds if timeline.cycles else 1.0
    start, end = np.asarray(timeline.start) / per_us, np.asarray(timeline.end) / per_us
    shown = min(len(trace.cores), MAX_CORES)
    budget = MAX_EVENTS // max(1, shown)
    cores = []
    for c in range(shown):
        begin, stop = int(trace.core_begin[c]), int(trace.core_begin[c + 1])
        rows = np.arange(begin, stop)
        rows = rows[(end[rows] > start[rows])]
        kept = rows[:budget]
        columns = [
            [
                round(float(start[i]), 4),
                round(float(end[i] - start[i]), 4),
                int(trace.instrs["pipe"][i]),
                int(trace.instrs["op"][i]),
                int(trace.instrs["site"][i]),
            ]
            for i in kept
        ]
        cores.append({"name": core_name(run, c), "events": columns, "left_out": len(rows) - len(kept)})
    files = sorted({s.file for s in trace.sites if s.file})
    sources = {f: _text(f) for f in files}
    return {
        "summary": as_json(summary),
        "pipes": PIPES,
        "ops": [op.name for op in trace.ops],
        "waits": [op.kind in ("wait_flag", "cross_wait", "barrier") for op in trace.ops],
        "sites": [[files.index(s.file) if s.file in files else -1, s.line] for s in trace.sites],
        "files": files,
        "sources": sources,
        "cores": cores,
        "core_count": len(trace.cores),
        "gm": [[g.name, g.bytes] for g in trace.gm],
        "colours": pages.PIPES,
        "bound": _bound(summary),
        "checks": [[c.name, c.state, c.figures] for c in checklist(run, summary.advice)],
        "balance": _balance(summary),
        "memory": _memory(summary),
        "traffic": dataclasses.asdict(timeline.traffic) | {"hbm_gbps": run.soc.number("hbm.read_tbps") * 1e3},
    }


def _bound(summary: Summary) -> dict[str, Any]:
    roof = roofline(summary.run)
    reached = roof.operations / summary.microseconds / 1e6 if summary.microseconds else 0.0
    return {
        "shares": {"compute": roof.compute, "bandwidth": roof.memory, "parallelism": roof.parallelism},
        "bound": roof.bound,
        "intensity": roof.intensity,
        "reached_tops": reached,
        "peak_tops": reached / roof.compute if roof.compute else 0.0,
        "tbps": summary.run.soc.number("hbm.read_tbps"),
    }


def _balance(summary: Summary) -> list[list[Any]]:
    """Name, type, start, end and the busiest pipe's time of every core; microseconds."""
    run = summary.run
    timeline, per_us = run.timeline, run.soc.ghz * 1e3
    busiest = timeline.core_busy.argmax(axis=1) if len(timeline.core_busy) else np.empty(0, int)
    return [
        [
            core_name(run, c),
            core.type,
            round(float(timeline.core_start[c]) / per_us, 3),
            round(float(timeline.core_end[c]) / per_us, 3),
            PIPES[int(busiest[c])],
            round(float(timeline.core_busy[c, busiest[c]]) / per_us, 3),
        ]
        for c, core in enumerate(run.trace.cores)
    ]


def _memory(summary: Summary) -> list[dict[str, Any]]:
    """The memories of the first core of each type."""
    run = summary.run
    per_us = run.soc.ghz * 1e3
    types = [c.type for c in run.trace.cores]
    out = []
    for core in sorted({types.index(t) for t in types}):
        use = memory_use(run, core)
        for space, (times, values) in use.curves.items():
            queues = [q for q in use.queues if q.space == space]
            out.append(
                {
                    "core": core_name(run, core),
                    "space": space,
                    "capacity": run.soc.bytes_of(space),
                    "reserved": use.reserved_bytes(space),
                    "peak": use.peak_bytes(space),
                    "steps": _thinned(times / per_us, values),
                    "queues": [[q.name, len(q.buffers), q.buffers[0][1], round(q.busy, 4)] for q in queues],
                }
            )
    return out


def _thinned(times: Array, values: Array) -> list[list[float]]:
    """At most about MAX_STEPS steps."""
    cuts = np.arange(0, len(times), max(1, -(-len(times) // MAX_STEPS)))
    tops = np.maximum.reduceat(values, cuts) if len(times) else values
    return [[round(float(t), 4), int(v)] for t, v in zip(times[cuts], tops, strict=True)]


def _text(file: str) -> list[str]:
    try:
        # As a compiler counts lines; splitlines() would also cut at form feeds and at U+2028.
        return Path(file).read_text(errors="replace").removesuffix("\n").split("\n")
    except OSError:
        return []
