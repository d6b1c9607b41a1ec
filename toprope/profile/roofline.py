"""The bound of a run: how far arithmetic, memory and parallelism are from their limits."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from toprope.dtypes import DTYPES
from toprope.kernel import Run
from toprope.profile import whatif
from toprope.trace import PIPES, Trace

NEAR = 0.7
"""The share of a limit from which it is called the bound."""
# By the element type's number in the low bits of a trace's arg; a number that names no type counts as 4 bytes.
_BITS = {d.code: d.bits for d in DTYPES if d.name != "none"}
_IN_32_BYTES = np.array([256 // _BITS.get(code, 32) for code in range(16)])


@dataclass(frozen=True)
class Roofline:
    """Shares (0..1) of three limits, and the cycles each limit alone would need.

    compute: the busier of cube and vector unit on all cores of the chip; memory: HBM at its read rate; parallelism: cores used times
    how evenly they work. `bound` names the limit that is nearest.
    """

    compute: float
    memory: float
    parallelism: float
    compute_cycles: float
    memory_cycles: float
    bound: str
    operations: float
    bytes: float

    @property
    def intensity(self) -> float:
        """Arithmetic operations per byte of HBM traffic."""
        return self.operations / self.bytes if self.bytes else 0.0


def roofline(run: Run) -> Roofline:
    """Where a run stands under the roof of its chip."""
    timeline, soc, trace = run.timeline, run.soc, run.trace
    cycles = max(timeline.cycles, 1.0)
    core_time = timeline.core_end - timeline.core_start
    cores = soc.aiv if all(c.type == "aiv" for c in trace.cores) else soc.aic
    busy = {pipe: float(timeline.core_busy[:, PIPES.index(pipe)].sum()) for pipe in ("V", "M")}
    compute_cycles = max(busy["V"] / soc.aiv, busy["M"] / soc.aic)
    moved = timeline.traffic.hbm_read_bytes + timeline.traffic.hbm_write_bytes
    memory_cycles = moved / (soc.number("hbm.read_tbps") * 1e12) * soc.ghz * 1e9
    active = [c for c in trace.cores if c.type != "aiv"] or trace.cores
    even = float(core_time.mean() / core_time.max()) if len(core_time) and core_time.max() > 0 else 0.0
    parallel = min(1.0, len(active) / cores) * even
    shares = {"compute": compute_cycles / cycles, "memory": memory_cycles / cycles}
    bound = bound_of(shares["compute"], shares["memory"], parallel)
    return Roofline(
        shares["compute"], shares["memory"], parallel, compute_cycles, memory_cycles, bound, operations(trace), moved
    )


def bound_of(compute: float, memory: float, parallelism: float) -> str:
    """The limit that a run is near (at NEAR of it): compute or memory; else parallelism, if that is short; else latency."""
    if max(compute, memory) >= NEAR:
        return "compute" if compute >= memory else "memory"
    return "parallelism" if parallelism < NEAR else "latency"


def operations(trace: Trace) -> float:
    """Arithmetic operations of a run: two a product step of the cube, one a lane of a vector instruction."""
    computes, pipe = whatif.kinds(trace, "compute"), trace.instrs["pipe"]
    work = trace.instrs["work"].astype(float)
    in_32_bytes = _IN_32_BYTES[trace.instrs["arg"] & 15]
    cube, vector = computes & (pipe == PIPES.index("M")), computes & (pipe == PIPES.index("V"))
    # A cube step multiplies 16 x k0 by k0 x 16, where k0 elements are 32 bytes; a vector repeat works on 256 bytes.
    return float((work * in_32_bytes * 2 * 16 * 16)[cube].sum() + (work * in_32_bytes * 8)[vector].sum())
