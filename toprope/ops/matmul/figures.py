"""Tables of matmul's benchmark: what each rung of the ladder gains, and how well the last one spreads over the cores."""

from __future__ import annotations

import math

import numpy as np

from toprope import ops, soc
from toprope.project.host import Tiling
from toprope.timing import Timeline

LADDER = ("naive", "buffered", "packets", "banded", "optimised")


def tables() -> list[ops.Table]:
    """4096³ on 910B1, rung by rung, and the same on one core and on more."""
    chip, last = soc.load("ascend910b1"), ops.operator("matmul")
    a = np.zeros((4096, 4096), np.float16)
    chosen = last.tiling(shapes=[a.shape, a.shape], soc=chip)

    def timeline(version: str, tiling: Tiling | None = None) -> Timeline:
        return ops.operator("matmul", version).run(a, a, soc=chip, options={"time_only": True}, tiling=tiling).timeline

    def on_cores(blocks: int) -> float:
        # The band that the host would choose for so many cores: about square, tiles are twice as wide as high.
        tiling = last.changed(chosen, block_dim=blocks, bandRows=max(1, round(math.sqrt(2 * blocks))))
        return timeline("optimised", tiling).microseconds

    rungs, before = [], 0.0
    for version in LADDER:
        found = timeline(version)
        us = found.microseconds
        rungs.append((version, round(us, 1), f"{found.busy('M'):.1%}", f"{(before or us) / us:.2f}x"))
        before = us
    one = on_cores(1)
    scaling = []
    for blocks in (1, 2, 4, 8, 12, 16, 20, 24):
        us = one if blocks == 1 else on_cores(blocks)
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
