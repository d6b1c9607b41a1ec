"""When sharing a row between cores pays: one row of more and more experts, by so many cores."""

from __future__ import annotations

import numpy as np

from toprope import ops, soc
from toprope.ops import Table

EXPERTS = (1024, 4096, 8192, 32768)
CORES = (1, 2, 4, 8, 16)
RESIDENT = 4096  # experts that one core holds


def tables() -> list[Table]:
    chip, host = soc.load("ascend910b1"), ops.host("moe_gating_topk")

    def us(experts: int, cores: int) -> float | str:
        if experts / cores > RESIDENT:
            return "–"
        plan = host.plan("optimised", chip, np.zeros((1, experts), np.float32), k=8, cores_per_row=cores)
        timeline = plan.launch("moe_gating_topk", soc=chip, time_only=True).timeline
        return round(float(timeline.microseconds), 2)

    rows = tuple((f"{experts:,}", *(us(experts, cores) for cores in CORES)) for experts in EXPERTS)
    return [
        Table(
            "One row, k 8, on ascend910b1: µs when so many cores share it",
            ("experts", *(f"{c} cores" for c in CORES)),
            rows,
            "A butterfly of radix four: 2 and 4 cores meet once, 8 and 16 twice. A core that holds the row is faster alone.",
        )
    ]
