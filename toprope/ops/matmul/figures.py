"""Tables of matmul's benchmark: what each rung of the ladder gains, and how well the last one spreads over the cores."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from toprope import ops, soc
from toprope.soc import Soc
from toprope.timing import Timeline

LADDER = ("naive", "buffered", "packets", "blocks", "kept", "optimised")
PRODUCTS_A_CYCLE = 16**3  # of half, one cube


def tables() -> list[ops.Table]:
    """4096³ on 910B1, rung by rung, and the same on one core and on more."""
    chip = soc.load("ascend910b1")
    a, b = np.zeros((4096, 4096), np.float16), np.zeros((4096, 4096), np.float16)

    def timeline(version: str, host: Soc = chip) -> Timeline:
        operator = ops.operator("matmul", version)
        tiling = operator.tiling(shapes=[a.shape, b.shape], soc=host)
        return operator.run(a, b, soc=chip, options={"time_only": True}, tiling=tiling).timeline

    def on_cores(cores: int) -> float:
        # As the host tiles for a chip that has so many; memory and clock stay those of the whole one.
        few = replace(chip, table=chip.table | {"cores": chip.table["cores"] | {"aic": cores}})
        return timeline("optimised", few).microseconds

    rungs, before = [], 0.0
    for version in LADDER:
        found = timeline(version)
        us = found.microseconds
        busy = tuple(f"{found.busy(pipe):.1%}" for pipe in ("M", "MTE1", "MTE2", "FIX"))
        share = 4096**3 / (PRODUCTS_A_CYCLE * chip.aic * chip.ghz * 1e3 * us)
        rungs.append((version, round(us, 1), f"{share:.1%}", *busy, f"{(before or us) / us:.2f}x"))
        before = us
    one = on_cores(1)
    scaling = []
    for cores in (1, 2, 4, 8, 12, 16, 20, 24):
        us = one if cores == 1 else on_cores(cores)
        scaling.append((cores, round(us, 1), f"{one / us:.2f}x", f"{one / us / cores:.1%}"))
    efficiency = one / before / chip.aic
    return [
        ops.Table(
            "4096³ on ascend910b1, rung by rung:",
            ("rung", "µs", "cube use", "cube busy", "MTE1 busy", "MTE2 busy", "FIX busy", "gain over the rung before"),
            tuple(rungs),
            "Cube use: products over what the cubes of all cores could do from launch to end. Busy: a pipe's share of its core's time.",
        ),
        ops.Table(
            "The last rung on more and more cores:",
            ("cores", "µs", "speed-up", "efficiency"),
            tuple(scaling),
            f"24 cores work at {efficiency:.1%} of 24 times the speed of one.",
            {"efficiency": round(efficiency, 3)},
        ),
    ]
