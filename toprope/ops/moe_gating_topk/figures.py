"""When sharing a row between cores pays: one row of more and more experts, by so many cores."""

from __future__ import annotations

import numpy as np

from toprope import ops, soc
from toprope.ops import Table

EXPERTS = (1024, 4096, 8192, 32768)
CORES = (1, 2, 4, 8, 16)
RESIDENT = 4096  # experts that one core holds


def tables() -> list[Table]:
    chip, operator = soc.load("ascend910b1"), ops.operator("moe_gating_topk")

    def us(experts: int, cores: int) -> float | str:
        if experts / cores > RESIDENT:
            return "–"
        x = np.zeros((1, experts), np.float32)
        return round(operator.run(x, k=8, cores_per_row=cores, soc=chip, options={"time_only": True}).time_us, 2)

    rows = tuple((f"{experts:,}", *(us(experts, cores) for cores in CORES)) for experts in EXPERTS)
    return [
        Table(
            "One row, k 8, on ascend910b1: µs when so many cores share it",
            ("experts", *(f"{c} cores" for c in CORES)),
            rows,
            "A butterfly of radix four: 2 and 4 cores meet once, 8 and 16 twice. A core that holds the row is faster alone.",
        )
    ]
