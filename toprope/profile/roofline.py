"""The bound of a run: how far arithmetic, memory and parallelism are from their limits."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from toprope.kernel import Run
from toprope.profile import whatif
from toprope.trace import PIPES


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
    nearest = max(shares, key=lambda k: shares[k])
    bound = nearest if shares[nearest] >= 0.7 else ("parallelism" if parallel < 0.7 else "latency")
    cube = whatif.kinds(trace, "compute") & (trace.instrs["pipe"] == PIPES.index("M"))
    # A cube step multiplies 16 x k0 by k0 x 16; a vector repeat works on 256 bytes.
    k0 = np.array([8, 16, 16, 32, 32, 16, 16, 8, 8, 4, 4, 64, 32, 4, 8, 8])[trace.instrs["arg"] & 15]
    lanes = k0 * 8
    vector = whatif.kinds(trace, "compute") & (trace.instrs["pipe"] == PIPES.index("V"))
    operations = float(
        (trace.instrs["work"] * k0 * 512.0)[cube].sum() + (trace.instrs["work"].astype(float) * lanes)[vector].sum()
    )
    return Roofline(
        shares["compute"], shares["memory"], parallel, compute_cycles, memory_cycles, bound, operations, moved
    )
