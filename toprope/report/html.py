"""The HTML report: one self-contained page with the pipeline, the cost of each line and the findings beside the source."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

from toprope.report.perfetto import core_name
from toprope.report.summary import Summary, as_json
from toprope.trace import PIPES

MAX_EVENTS = (
    60_000  # a browser draws this many boxes without stutter; later instructions of each core are left out and counted
)
MAX_CORES = 64


def page(summary: Summary) -> str:
    """The page as text."""
    template = Path(__file__).with_name("page.html").read_text()
    data = json.dumps(_data(summary), separators=(",", ":")).replace("</", "<\\/")
    return template.replace("/*DATA*/null", data).replace(
        "<!--TITLE-->", f"{summary.run.kernel} on {summary.run.soc.name}"
    )


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
    }


def _text(file: str) -> list[str]:
    try:
        return Path(file).read_text(errors="replace").splitlines()
    except OSError:
        return []
