"""The run as the files of the vendor's `msprof op`, for scripts and MindStudio Insight: same file names, same columns.

A figure the model does not have (instruction-cache misses, dual issue) is written as NA, as the vendor's own tool does. Columns and their
order: msprof_columns.py.
"""

from __future__ import annotations

import csv
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from toprope.kernel import Run
from toprope.profile.whatif import kinds
from toprope.report import insight, perfetto
from toprope.report.msprof_columns import COLUMNS
from toprope.report.perfetto import LANES, core_name
from toprope.report.summary import line_costs, occupancy
from toprope.timing import STALLS
from toprope.trace import PIPES, SPACES, Array

NA = "NA"
_PATHS = {  # column -> (from, to) memories of a copy
    "GM_to_L1_datas(KB)(estimate)": ("gm", "l1"),
    "L1_to_GM_datas(KB)(estimate)": ("l1", "gm"),
    "L0C_to_L1_datas(KB)": ("l0c", "l1"),
    "L0C_to_GM_datas(KB)": ("l0c", "gm"),
    "GM_to_UB_datas(KB)": ("gm", "ub"),
    "UB_to_GM_datas(KB)": ("ub", "gm"),
}


@dataclass(frozen=True)
class _Core:
    """One core's figures; pipe times in microseconds, counts of instructions."""

    run: Run
    index: int
    rows: slice
    us: float
    cycles: float
    pipe_us: dict[str, float]
    moved: dict[tuple[str, str], float]
    touched: dict[tuple[str, str, int], float]  # bytes by pipe, memory and mode (1 read, 2 written)

    @property
    def kind(self) -> str:
        return "aiv" if self.run.trace.cores[self.index].type == "aiv" else "aic"

    def ratio(self, pipe: str) -> float:
        return self.pipe_us[pipe] / self.us if self.us else 0.0

    def count(self, pipe: str) -> int:
        trace = self.run.trace
        busy = kinds(trace, "compute", "copy", "scalar")[self.rows] & (
            trace.instrs["pipe"][self.rows] == PIPES.index(pipe)
        )
        return int(busy.sum())

    def waiting(self, pipe: str) -> float:
        """Share of the core's time in which the pipe's next instruction waited for a flag or another core."""
        timeline, trace = self.run.timeline, self.run.trace
        waits = kinds(trace, "wait_flag", "cross_wait")[self.rows] & (
            trace.instrs["pipe"][self.rows] == PIPES.index(pipe)
        )
        spent = (timeline.end - timeline.start)[self.rows][waits].sum()
        return float(spent) / self.cycles if self.cycles else 0.0

    def rate(self, *paths: tuple[str, str]) -> float:
        """GB/s over the core's time."""
        return sum(self.moved.get(p, 0.0) for p in paths) / (self.us * 1e3) if self.us else 0.0

    def active_rate(self, pipe: str, path: tuple[str, str]) -> float:
        """GB/s over the time in which the pipe is busy."""
        busy_us = self.pipe_us[pipe]
        return self.moved.get(path, 0.0) / (busy_us * 1e3) if busy_us else 0.0

    def touch_rate(self, pipe: str, space: str, mode: int) -> float:
        """GB/s that a pipe read from (mode 1) or wrote to (mode 2) a memory, over the core's time."""
        return self.touched.get((pipe, space, mode), 0.0) / (self.us * 1e3) if self.us else 0.0


def write(run: Run, folder: Path) -> list[Path]:
    """Write every file into `folder` (made if missing) and return their paths."""
    folder.mkdir(parents=True, exist_ok=True)
    cores = _cores(run)
    files = [
        _table(folder / "OpBasicInfo.csv", [_basic(run)]),
        *(_table(folder / f"{name}.csv", [row(c) for c in cores], COLUMNS[name]) for name, row in _ROWS.items()),
    ]
    simulator = folder / "simulator"
    for core in cores:
        name = core_name(run, core.index)
        (simulator / name).mkdir(parents=True, exist_ok=True)
        files.append(_table(simulator / name / f"{name}_instr_exe.csv", _instructions(core)))
    files.append(_table(simulator / "code_exe.csv", _code(run)))
    trace = perfetto.text(run)
    (simulator / "trace.json").write_text(trace)
    insight.write(run, trace, folder / "visualize_data.bin")
    return [*files, simulator / "trace.json", folder / "visualize_data.bin"]


def _table(path: Path, rows: Sequence[dict[str, object]], columns: Sequence[str] = ()) -> Path:
    """`columns`: what the file has, NA where a row does not say; without them, what the first row has."""
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, columns or (list(rows[0]) if rows else []), restval=NA)
        writer.writeheader()
        writer.writerows({k: f"{v:.6g}" if isinstance(v, float) else v for k, v in row.items()} for row in rows)
    return path


def _cores(run: Run) -> list[_Core]:
    trace, timeline = run.trace, run.timeline
    per_us = run.soc.ghz * 1e3
    ranges = trace.decoded()
    size = ranges.sizes().astype(float)
    copies = kinds(trace, "copy")
    out = []
    for i in range(len(trace.cores)):
        rows = slice(int(trace.core_begin[i]), int(trace.core_begin[i + 1]))
        mine = slice(int(trace.access_begin[i]), int(trace.access_begin[i + 1]))
        cycles = float(timeline.core_end[i] - timeline.core_start[i])
        pipe_us = {p: float(timeline.core_busy[i, k]) / per_us for k, p in enumerate(PIPES)}
        out.append(
            _Core(
                run,
                i,
                rows,
                cycles / per_us,
                cycles,
                pipe_us,
                _moved(ranges.instr[mine], ranges.space[mine], ranges.mode[mine], size[mine], copies),
                _touched(trace.instrs["pipe"][ranges.instr[mine]], ranges.space[mine], ranges.mode[mine], size[mine]),
            )
        )
    return out


def _touched(pipe: Array, space: Array, mode: Array, size: Array) -> dict[tuple[str, str, int], float]:
    """Bytes by pipe, memory and mode (1 read, 2 written)."""
    out: dict[tuple[str, str, int], float] = {}
    for bit in (1, 2):
        sums = np.bincount(pipe.astype(np.int64) * 16 + space, weights=np.where(mode & bit > 0, size, 0.0))
        out |= {(PIPES[k // 16], SPACES[k % 16], bit): float(sums[k]) for k in np.flatnonzero(sums)}
    return out


def _moved(instr: Array, space: Array, mode: Array, size: Array, copies: Array) -> dict[tuple[str, str], float]:
    """Bytes by (source, target) memory."""
    real = size > 0  # outer loops have rows of their own
    instr, space, mode, size = instr[real], space[real], mode[real], size[real]
    from_space, to_space = space[:-1], space[1:]
    pair = (instr[:-1] == instr[1:]) & (mode[:-1] == 1) & (mode[1:] >= 2) & copies[instr[:-1]]
    out: dict[tuple[str, str], float] = {}
    for a, b in {(int(x), int(y)) for x, y in zip(from_space[pair], to_space[pair], strict=True)}:
        chosen = pair & (from_space == a) & (to_space == b)
        out[SPACES[a], SPACES[b]] = float(size[:-1][chosen].sum())
    return out


def _ids(core: _Core) -> dict[str, object]:
    row = core.run.trace.cores[core.index]
    return {"block_id": row.block, "sub_block_id": f"{'vector' if row.type == 'aiv' else 'cube'}{row.sub}"}


def _times(core: _Core) -> dict[str, object]:
    out: dict[str, object] = {}
    for kind in ("aic", "aiv"):
        mine = core.kind == kind
        out[f"{kind}_time(us)"] = core.us if mine else NA
        out[f"{kind}_total_cycles"] = round(core.cycles) if mine else NA
    return out


def _of(core: _Core, kind: str, value: object) -> object:
    return value if core.kind == kind else NA


def _basic(run: Run) -> dict[str, object]:
    return {
        "Op Name": run.kernel,
        "Op Type": "mix" if run.trace.mixed else ("vector" if run.trace.cores[0].type == "aiv" else "cube"),
        "Task Duration(us)": run.timeline.microseconds,
        "Block Dim": run.blocks,
        "Mix Block Dim": run.blocks * run.trace.ratio if run.trace.mixed else NA,
        "Device Id": 0,
        "Pid": 0,
        "Current Freq": round(run.soc.ghz * 1e3),
        "Rated Freq": round(run.soc.ghz * 1e3),
    }


def _pipes(core: _Core) -> dict[str, object]:
    out = _ids(core) | _times(core)
    for kind, pipes in (
        ("aic", {"cube": "M", "mte1": "MTE1", "mte2": "MTE2", "mte3": "MTE3", "fixpipe": "FIX", "scalar": "S"}),
        ("aiv", {"vec": "V", "mte2": "MTE2", "mte3": "MTE3", "scalar": "S"}),
    ):
        for word, pipe in pipes.items():
            out[f"{kind}_{word}_time(us)"] = _of(core, kind, core.pipe_us[pipe])
            out[f"{kind}_{word}_ratio"] = _of(core, kind, core.ratio(pipe))
    out["aic_fixpipe_active_bw(GB/s)"] = _of(core, "aic", core.active_rate("FIX", ("l0c", "gm")))
    out["aiv_mte2_active_bw(GB/s)"] = _of(core, "aiv", core.active_rate("MTE2", ("gm", "ub")))
    out["aiv_mte3_active_bw(GB/s)"] = _of(core, "aiv", core.active_rate("MTE3", ("ub", "gm")))
    return out


def _arithmetic(core: _Core) -> dict[str, object]:
    out = _ids(core) | _times(core)
    out["aic_cube_ratio"] = _of(core, "aic", core.ratio("M"))
    out["aic_cube_total_instr_number"] = _of(core, "aic", core.count("M"))
    out["aiv_vec_ratio"] = _of(core, "aiv", core.ratio("V"))
    charge = occupancy(core.run.trace, core.run.timeline.start, core.run.timeline.end)[core.rows]
    trace = core.run.trace
    vector = kinds(trace, "compute")[core.rows] & (trace.instrs["pipe"][core.rows] == PIPES.index("V"))
    code = trace.instrs["arg"][core.rows] & 15
    for word, codes in (("fp32", (0,)), ("fp16", (1, 2)), ("int32", (7, 8)), ("int16", (5, 6))):
        share = float(charge[vector & np.isin(code, codes)].sum()) / core.cycles if core.cycles else 0.0
        out[f"aiv_vec_{word}_ratio"] = _of(core, "aiv", share)
    return out


def _memory(core: _Core) -> dict[str, object]:
    out = _ids(core) | _times(core)
    out["aic_l1_read_bw(GB/s)"] = _of(core, "aic", core.rate(("l1", "l0a"), ("l1", "l0b")))
    out["aic_l1_write_bw(GB/s)"] = _of(core, "aic", core.rate(("gm", "l1")))
    out["aiv_ub_to_gm_bw(GB/s)"] = _of(core, "aiv", core.rate(("ub", "gm")))
    out["aiv_gm_to_ub_bw(GB/s)"] = _of(core, "aiv", core.rate(("gm", "ub")))
    for kind, pipes in (("aic", ("MTE1", "MTE2", "MTE3")), ("aiv", ("MTE2", "MTE3"))):
        for pipe in pipes:
            out[f"{kind}_{pipe.lower()}_instructions"] = _of(core, kind, core.count(pipe))
            out[f"{kind}_{pipe.lower()}_ratio"] = _of(core, kind, core.ratio(pipe))
    reads = sum(v for (a, _), v in core.moved.items() if a == "gm")
    writes = sum(v for (_, b), v in core.moved.items() if b == "gm")
    per_us = core.us * 1e3 or 1.0
    out[f"{core.kind}_main_mem_read_bw(GB/s)"], out[f"{core.kind}_main_mem_write_bw(GB/s)"] = (
        reads / per_us,
        writes / per_us,
    )
    out["read_main_memory_datas(KB)"], out["write_main_memory_datas(KB)"] = reads / 1024, writes / 1024
    for column, path in _PATHS.items():
        out[column] = core.moved.get(path, 0.0) / 1024
    return out


def _memory_l0(core: _Core) -> dict[str, object]:
    out = _ids(core) | _times(core)
    out["aic_l0a_read_bw(GB/s)"] = _of(core, "aic", core.touch_rate("M", "l0a", 1))
    out["aic_l0a_write_bw(GB/s)"] = _of(core, "aic", core.touch_rate("MTE1", "l0a", 2))
    out["aic_l0b_read_bw(GB/s)"] = _of(core, "aic", core.touch_rate("M", "l0b", 1))
    out["aic_l0b_write_bw(GB/s)"] = _of(core, "aic", core.touch_rate("MTE1", "l0b", 2))
    out["aic_l0c_read_bw_cube(GB/s)"] = _of(core, "aic", core.touch_rate("M", "l0c", 1))
    out["aic_l0c_write_bw_cube(GB/s)"] = _of(core, "aic", core.touch_rate("M", "l0c", 2))
    return out


def _memory_ub(core: _Core) -> dict[str, object]:
    out = _ids(core) | _times(core)
    for word, mode in (("read", 1), ("write", 2)):
        out[f"aiv_ub_{word}_bw_vector(GB/s)"] = _of(core, "aiv", core.touch_rate("V", "ub", mode))
    for word, mode in (("read", 1), ("write", 2)):
        out[f"aiv_ub_{word}_bw_scalar(GB/s)"] = _of(core, "aiv", core.touch_rate("S", "ub", mode))
    return out


def _l2(core: _Core) -> dict[str, object]:
    out = _ids(core) | _times(core)
    # The model follows L2 for the whole chip, not per core: every core shows the launch's rate.
    out[f"{core.kind}_read_hit_rate(%)"] = 100 * core.run.timeline.traffic.read_hit_share
    return out


def _conflicts(core: _Core) -> dict[str, object]:
    out = _ids(core) | _times(core)
    for kind, pipes in (
        ("aic", {"cube": "M", "mte1": "MTE1", "mte2": "MTE2", "mte3": "MTE3"}),
        ("aiv", {"vec": "V", "mte2": "MTE2", "mte3": "MTE3"}),
    ):
        for word, pipe in pipes.items():
            out[f"{kind}_{word}_wait_ratio"] = _of(core, kind, core.waiting(pipe))
    return out


def _instructions(core: _Core) -> list[dict[str, object]]:
    trace, timeline = core.run.trace, core.run.timeline
    rows = trace.instrs[core.rows]
    spent = (timeline.end - timeline.start)[core.rows]
    key = rows["op"].astype(np.int64) * 8 + rows["pipe"]
    out: list[dict[str, object]] = []
    for value in np.unique(key):
        chosen = key == value
        op = trace.ops[int(value) // 8]
        cycles = float(spent[chosen].sum())
        stalls = np.bincount(timeline.stall[core.rows][chosen], minlength=len(STALLS))
        out.append(
            {
                "instr": op.cost,
                "addr": NA,
                "pipe": LANES[PIPES[int(value) % 8]],
                "call_count": int(chosen.sum()),
                "cycles": round(cycles),
                "running_time(us)": cycles / (core.run.soc.ghz * 1e3),
                "detail": f"{op.name}; mostly decided by: {STALLS[int(stalls.argmax())]}",
            }
        )
    return out


def _code(run: Run) -> list[dict[str, object]]:
    rows = []
    for r in line_costs(run):
        us = r.microseconds * int(run.timeline.cores_of(r.pipe).sum())
        row = {
            "code": f"{r.file}:{r.line}",
            "call_count": r.count,
            "cycles": round(us * run.soc.ghz * 1e3),
            "running_time(us)": us,
        }
        rows.append(row)
    return rows


_ROWS: dict[str, Callable[[_Core], dict[str, object]]] = {
    "PipeUtilization": _pipes,
    "ArithmeticUtilization": _arithmetic,
    "Memory": _memory,
    "MemoryL0": _memory_l0,
    "MemoryUB": _memory_ub,
    "L2Cache": _l2,
    "ResourceConflictRatio": _conflicts,
}
