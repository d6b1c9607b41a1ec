"""Tables of matmul's benchmark: what each rung of the ladder gains, and how well the last one spreads over the cores."""

from __future__ import annotations

import numpy as np

from toprope import ops, soc
from toprope.timing import Timeline


def tables() -> list[ops.Table]:
    """4096³ on 910B1, rung by rung, and the same on one core and on more."""
    chip, host = soc.load("ascend910b1"), ops.host("matmul")
    a = np.zeros((4096, 4096), np.float16)

    def timeline(version: str, blocks: int = 0) -> Timeline:
        planned: ops.Plan = host.plan(version, chip, a, a, blocks=blocks)
        return planned.launch("matmul", soc=chip, time_only=True).timeline

    rungs, before = [], 0.0
    for version in host.LADDER:
        found = timeline(version)
        us = found.microseconds
        rungs.append((version, round(us, 1), f"{found.busy('M'):.1%}", f"{(before or us) / us:.2f}x"))
        before = us
    one = timeline("optimised", 1).microseconds
    scaling = []
    for blocks in (1, 2, 4, 8, 12, 16, 20, 24):
        us = one if blocks == 1 else timeline("optimised", blocks).microseconds
        scaling.append((blocks, round(us, 1), f"{one / us:.2f}x", f"{one / us / blocks:.1%}"))
    efficiency = one / before / chip.aic
    return [
        ops.Table(
            "4096³ on ascend910b1, rung by rung:",
            ("rung", "µs", "cube busy", "gain over the rung before"),
            tuple(rungs),
        ),
        ops.Table(
            "The last rung on more and more cores:",
            ("cores", "µs", "speed-up", "efficiency"),
            tuple(scaling),
            f"24 cores work at {efficiency:.1%} of 24 times the speed of one.",
            {"efficiency": round(efficiency, 3)},
        ),
    ]
