"""The timeline as a Chrome/Perfetto trace: one process a core, one track a pipe, flow arrows from SetFlag to WaitFlag.

Key order and names follow what MindStudio Insight reads (profilingType before the first list).
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

from toprope.kernel import Run
from toprope.trace import PIPES

LANES = {
    "S": "SCALAR",
    "V": "VECTOR",
    "M": "CUBE",
    "MTE1": "MTE1",
    "MTE2": "MTE2",
    "MTE3": "MTE3",
    "FIX": "FIXP",
    "ALL": "ALL",
}
_ORDER = {"SCALAR": 1, "MTE1": 3, "CUBE": 4, "FIXP": 5, "MTE2": 6, "VECTOR": 7, "MTE3": 8, "ALL": 11}
_COLOURS = {
    "MTE1": "thread_state_running",
    "MTE2": "thread_state_iowait",
    "MTE3": "rail_response",
    "SCALAR": "startup",
    "VECTOR": "cq_build_failed",
    "CUBE": "background_memory_dump",
    "FIXP": "thread_state_unknown",
    "ALL": "good",
}


def core_name(run: Run, core: int) -> str:
    """As the vendor's tools write it: core0.veccore1, core0.cubecore0."""
    row = run.trace.cores[core]
    if row.type == "aic":
        return f"core{row.block}.cubecore0"
    return f"core{row.block}.veccore{row.sub}"


def events(run: Run) -> list[dict[str, Any]]:
    """The events, times in microseconds, cores in launch order."""
    trace, timeline = run.trace, run.timeline
    per_us = timeline.cycles / timeline.microseconds if timeline.cycles else 1.0
    start, end = np.asarray(timeline.start) / per_us, np.asarray(timeline.end) / per_us
    out: list[dict[str, Any]] = []
    for core in range(len(trace.cores)):
        pid = core_name(run, core)
        row = trace.cores[core]
        index = row.block * 3 + (1 if row.type == "aic" else 2 + row.sub)
        out.append({"name": "process_sort_index", "ph": "M", "pid": pid, "tid": "", "args": {"sort_index": index}})
        out += [
            {"name": "thread_sort_index", "ph": "M", "pid": pid, "tid": lane, "args": {"sort_index": order}}
            for lane, order in _ORDER.items()
        ]
        pending: dict[int, list[tuple[float, str, str]]] = {}
        flow = 0
        for i in range(int(trace.core_begin[core]), int(trace.core_begin[core + 1])):
            instr = trace.instrs[i]
            op, site, pipe = trace.ops[instr["op"]], trace.sites[instr["site"]], PIPES[instr["pipe"]]
            lane = LANES[pipe]
            if op.kind == "mark" or op.kind in ("alloc", "free", "enque", "deque"):
                continue
            begin, length = float(start[i]), float(end[i] - start[i])
            out.append(
                {
                    "name": op.name,
                    "cname": _COLOURS.get(lane, "good"),
                    "ph": "X",
                    "ts": round(begin, 4),
                    "dur": round(length, 4),
                    "pid": pid,
                    "tid": lane,
                    "args": {"code": f"{site.file}:{site.line}", "detail": op.cost},
                }
            )
            if op.kind == "set_flag":
                pending.setdefault(int(instr["work"]), []).append((begin + length, pid, lane))
            elif op.kind == "wait_flag" and pending.get(int(instr["work"])):
                at, _, source = pending[int(instr["work"])].pop(0)
                identity = f"{core}_{flow}"
                flow += 1
                category = f"{source}To{lane}"
                out.append(
                    {
                        "name": "flow",
                        "cat": category,
                        "ph": "s",
                        "id": identity,
                        "pid": pid,
                        "tid": source,
                        "ts": round(at, 4),
                    }
                )
                out.append(
                    {
                        "name": "flow",
                        "cat": category,
                        "ph": "t",
                        "id": identity,
                        "pid": pid,
                        "tid": lane,
                        "ts": round(float(end[i]), 4),
                    }
                )
    return out


def text(run: Run) -> str:
    """The trace as JSON (object form)."""
    head = {"displayTimeUnit": "ns", "profilingType": "op", "schemaVersion": 2}
    return json.dumps(head)[:-1] + ', "traceEvents": ' + json.dumps(events(run), separators=(",", ":")) + "}"


def write(run: Run, path: Path) -> None:
    """Write the trace file."""
    path.write_text(text(run))
