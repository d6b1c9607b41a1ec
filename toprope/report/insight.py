"""visualize_data.bin: the one file that MindStudio Insight opens for an operator (timeline, hot lines, hot instructions, details).

A sequence of blocks, each a 12-byte header and a content padded to four bytes. Format as documented in Insight's own design document
(msinsight, docs/zh/development_guide/design/Compute.md) and as its reader takes it.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from toprope.kernel import Run
from toprope.profile.roofline import roofline
from toprope.profile.whatif import kinds
from toprope.report.perfetto import LANES, core_name
from toprope.report.summary import occupancy
from toprope.trace import PIPES, Array

CODE, TRACE, FILE_API, INSTR_API, OP_BASIC_INFO, OCCUPANCY, ROOFLINE = 1, 2, 3, 4, 5, 0xC, 0xD
MARK = 0x5A  # last byte of every header, and the byte before it except for INSTR_API
PATH_BYTES = 4096
_SKIP, _INT, _TEXT = 0, 1, 3  # how Insight shows a column


def write(run: Run, trace_json: str, path: Path) -> None:
    """Write the file; `trace_json` is the text of the run's trace.json."""
    with path.open("wb") as out:
        for kind, content, source in _blocks(run, trace_json):
            out.write(block(kind, content, source))


def block(kind: int, content: bytes, source: str = "") -> bytes:
    """One block: u64 size of content and padding, u8 type, u8 padding, u8 version, u8 mark; CODE has a path of 4096 bytes before the content."""
    padding = -len(content) % 4
    version = 0 if kind == INSTR_API else MARK
    head = struct.pack("<QBBBB", len(content) + padding, kind, padding, version, MARK)
    path = source.encode()[: PATH_BYTES - 1].ljust(PATH_BYTES, b"\0") if kind == CODE else b""
    return head + path + content + b"\0" * padding


def _blocks(run: Run, trace_json: str) -> Iterator[tuple[int, bytes, str]]:
    rows = _rows(run)
    for file in dict.fromkeys(r.file for r in rows):
        text = _read(file)
        if text:  # Insight refuses an empty block
            yield CODE, text, file
    yield TRACE, trace_json.encode(), ""
    if rows:
        yield FILE_API, _json(_files(run, rows)), ""
        yield INSTR_API, _json(_instructions(run, rows)), ""
    yield OP_BASIC_INFO, _json(_basic(run)), ""
    yield OCCUPANCY, _json(_occupancy(run)), ""
    yield ROOFLINE, _json(_roofline(run)), ""


def _json(value: object) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode()


def _read(file: str) -> bytes:
    try:
        return Path(file).read_bytes()
    except OSError:
        return b""


@dataclass(frozen=True)
class _Row:
    """One operation at one source line on one pipe: what stands for an instruction address. Values per core."""

    file: str
    line: int
    op: str
    pipe: str
    address: int
    cycles: list[int]  # that the pipe spent on it; waiting is apart
    executed: list[int]
    moved: list[int]
    waited: list[int]


def _rows(run: Run) -> list[_Row]:
    """In order of file and line, so that a line's addresses are one range. Addresses count on in steps of four: a trace has none."""
    trace, cores = run.trace, len(run.trace.cores)
    if not len(trace.instrs):
        return []
    ranges = trace.decoded()
    size = np.where(
        ranges.mode & 1 > 0, ranges.row_bytes * ranges.rows, 0
    )  # what is read is what an instruction processes
    moved = np.bincount(ranges.instr, weights=size, minlength=len(trace.instrs))
    shown = ~kinds(trace, "mark", "alloc", "free", "enque", "deque", "state")
    start, end = np.asarray(run.timeline.start), np.asarray(run.timeline.end)
    waits = kinds(trace, "wait_flag", "cross_wait", "barrier")
    spent = np.where(waits, 0.0, occupancy(trace, start, end))
    waited = np.where(waits, end - start, 0.0)
    columns = trace.instrs[shown]
    key = (columns["site"].astype(np.int64) * len(trace.ops) + columns["op"]) * 8 + columns["pipe"]
    unique, inverse = np.unique(key, return_inverse=True)
    cell = inverse * cores + trace.core_of_instr()[shown]

    def per_core(weights: Array | None) -> list[list[int]]:
        sums = np.bincount(cell, weights=weights, minlength=len(unique) * cores)
        return [[round(float(v)) for v in row] for row in sums.reshape(len(unique), cores)]

    cycles, executed = per_core(spent[shown]), per_core(None)
    bytes_read, stalled = per_core(moved[shown]), per_core(waited[shown])
    found = []
    for i, k in enumerate(unique.tolist()):
        site, op = trace.sites[k // 8 // len(trace.ops)], trace.ops[k // 8 % len(trace.ops)]
        found.append((site.file, site.line, op.name, LANES[PIPES[k % 8]], i))
    found.sort()
    return [
        _Row(file, line, op, pipe, 4 * n, cycles[i], executed[i], bytes_read[i], stalled[i])
        for n, (file, line, op, pipe, i) in enumerate(found)
    ]


def _cores(run: Run) -> list[str]:
    return [core_name(run, c) for c in range(len(run.trace.cores))]


def _files(run: Run, rows: list[_Row]) -> dict[str, Any]:
    lines: dict[str, dict[int, list[_Row]]] = {}
    for row in rows:
        lines.setdefault(row.file, {}).setdefault(row.line, []).append(row)

    def total(mine: list[_Row], name: str) -> list[int]:
        return [sum(column) for column in zip(*(getattr(r, name) for r in mine), strict=True)]

    return {
        "Cores": _cores(run),
        "Files Dtype": {
            "Lines": {
                "Address Range": _SKIP,
                "Cycles": _INT,
                "Instructions Executed": _INT,
                "Line": _INT,
                "Process Bytes": _INT,
            }
        },
        "Files": [
            {
                "Source": file,
                "Lines": [
                    {
                        "Line": line,
                        "Cycles": total(mine, "cycles"),
                        "Instructions Executed": total(mine, "executed"),
                        "Address Range": [[f"0x{mine[0].address:x}", f"0x{mine[-1].address:x}"]],
                        "Process Bytes": total(mine, "moved"),
                    }
                    for line, mine in of_file.items()
                ],
            }
            for file, of_file in lines.items()
        ],
    }


def _instructions(run: Run, rows: list[_Row]) -> dict[str, Any]:
    return {
        "Cores": _cores(run),
        "Instructions Dtype": {
            "Instructions": {
                "Address": _TEXT,
                "AscendC Inner Code": _TEXT,
                "Source": _TEXT,
                "Pipe": _TEXT,
                "Instructions Executed": _INT,
                "Cycles": _INT,
                "Process Bytes": _INT,
                "RealStallCycles": _INT,
            }
        },
        "Instructions": [
            {
                "Address": f"0x{r.address:x}",
                "AscendC Inner Code": f"{r.file}:{r.line}",
                "Source": r.op,
                "Pipe": r.pipe,
                "Instructions Executed": r.executed,
                "Cycles": r.cycles,
                "Process Bytes": r.moved,
                "RealStallCycles": r.waited,
            }
            for r in rows
        ],
    }


def op_type(run: Run) -> str:
    """vector, cube or mix, as the vendor's files say it."""
    return "mix" if run.trace.mixed else ("cube" if run.trace.cores[0].type == "aic" else "vector")


def _basic(run: Run) -> dict[str, Any]:
    mhz = str(round(run.soc.ghz * 1e3))
    return {
        "name": run.kernel,
        "soc": run.soc.name,
        "op_type": op_type(run),
        "block_dim": str(run.blocks),
        "mix_block_dim": str(run.blocks * run.trace.ratio) if run.trace.mixed else "-1",
        "duration": run.timeline.microseconds,
        "device_id": "0",
        "pid": "0",
        "cur_freq": mhz,
        "rated_freq": mhz,
        **_block_detail(run),
        "advice": [],
    }


def _block_detail(run: Run) -> dict[str, Any]:
    """Duration of each core; of a mixed launch one row a block, its cores side by side. `size` counts the head as a row."""
    cores = list(zip(run.trace.cores, run.timeline.core_us.tolist(), strict=True))
    if run.trace.mixed:
        name = "mix_block_detail"
        columns = sorted({(_unit(c.type), c.sub) for c, _ in cores})
        head = ["Block ID", *(f"{unit.capitalize()}{sub} Duration (μs)" for unit, sub in columns)]
        times = {(c.block, _unit(c.type), c.sub): f"{us:.6f}" for c, us in cores}
        rows = [
            [str(block), *(times.get((block, *column), "NA") for column in columns)]
            for block in sorted({c.block for c, _ in cores})
        ]
    else:
        name, head = "block_detail", ["Block ID", "Core Type", "Duration (μs)"]
        rows = [[str(c.block), op_type(run), f"{us:.6f}"] for c, us in cores]
    table = {"head_name": head, "size": [len(rows) + 1, len(head)], "row": [{"value": row} for row in rows]}
    return {name: table}


def _unit(core_type: str) -> str:
    return "cube" if core_type == "aic" else "vector"


def _occupancy(run: Run) -> dict[str, Any]:
    """The load of each core: cycles, bytes through GM, and the launch's L2 hit rate (the model has it for the whole chip)."""
    trace, timeline = run.trace, run.timeline
    ranges = trace.decoded()
    through_gm = np.where(ranges.space == 0, ranges.sizes(), 0)
    blocks: dict[int, list[dict[str, Any]]] = {}
    for i, core in enumerate(trace.cores):
        mine = slice(int(trace.access_begin[i]), int(trace.access_begin[i + 1]))
        blocks.setdefault(core.block, []).append(
            {
                "subcore_id": core.sub,
                "subcore_type": _unit(core.type),
                "cycles": round(float(timeline.core_end[i] - timeline.core_start[i])),
                "throughput": int(through_gm[mine].sum()),
                "L2cache_hit_rate": round(100 * timeline.traffic.read_hit_share, 3),
            }
        )
    detail = [{"core_id": block, "core_detail": cores} for block, cores in blocks.items()]
    return {"soc": run.soc.name, "op_type": op_type(run), "advice": "", "op_detail": detail}


def _roofline(run: Run) -> dict[str, Any]:
    """One roof: HBM's read rate (TB/s) and the unit that is busier (Tops/s). The point is (operations per byte, Tops/s reached)."""
    roof = roofline(run)
    seconds = run.timeline.microseconds * 1e-6
    reached = roof.operations / seconds / 1e12 if seconds else 0.0
    top = reached / roof.compute if roof.compute else 0.0
    return {
        "multiple_rooflines": [
            {
                "title": "Memory Unit",
                "rooflines": [
                    {
                        "bw": run.soc.number("hbm.read_tbps"),
                        "bw_name": "HBM",
                        "computility": top,
                        "computility_name": op_type(run),
                        "point": [roof.intensity, reached],
                        "ratio": max(roof.compute, roof.memory),
                    }
                ],
            }
        ],
        "advice": f"{roof.bound} bound" if roof.bound in ("compute", "memory") else f"latency bound: {roof.bound}",
    }
