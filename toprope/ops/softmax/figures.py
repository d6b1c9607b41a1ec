"""Softmax of any shape against softmax tuned for one shape: every legal tiling of a shape is predicted, the fastest is its fixed version."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from toprope import ops, soc
from toprope.errors import TopropeError
from toprope.project.host import Tiling
from toprope.soc import Soc

SHAPES = (
    (1, 1), (1, 1000), (7, 7), (48, 64), (1000, 10), (1 << 20, 1), (65536, 32), (8192, 128), (32768, 256), (2048, 512),
    (4096, 1024), (100, 1000), (512, 2000), (2048, 2048), (1024, 4096), (1024, 8192), (96, 12000), (64, 40000), (7, 50257),
    (1, 1 << 20),
)  # fmt: skip


def tilings(rows: int, columns: int, chip: Soc) -> Iterator[tuple[dict[str, int], int, int]]:
    """(tiling, key, blocks) of every strategy, tile height, number of buffers, split of rows and piece that is worth a try."""
    width = ops.ceil_div(columns, 8) * 8
    plain = {"rows": rows, "columns": columns, "tileRows": 1, "buffers": 2, "parts": 1, "partColumns": columns}
    for cores in {max(1, min(rows, chip.aiv)), max(1, min(rows, chip.aiv) // 2), max(1, min(rows, chip.aiv) // 4)}:
        share = ops.ceil_div(rows, cores)
        for floats in (1024, 2048, 4096, 6144, 8192, 10240):
            height = max(1, min(share, floats // width, 4095))
            for buffers in (1, 2):
                tiling = plain | {"tileRows": height, "buffers": buffers, "pieceColumns": 8192}
                if width <= 2040 and height * width <= 10240:
                    yield tiling, 1, cores
                if columns > 64 and height * width * 4 * 2 * buffers + (24 << 10) <= chip.bytes_of("ub"):
                    yield tiling, 2, cores
    for parts in [p for p in range(1, chip.aiv + 1) if chip.aiv % p == 0 and columns // p >= 512]:
        part = ops.ceil_div(ops.ceil_div(columns, parts), 128) * 128
        if part * (parts - 1) >= columns:
            continue
        for piece in (2048, 4096, 8192):
            blocks = min(max(1, min(rows, chip.aiv)), chip.aiv // parts) * parts
            yield plain | {"parts": parts, "partColumns": part, "pieceColumns": piece}, 3, blocks


def predicted_us(x: Any, tiling: Tiling, chip: Soc) -> float:
    """Predicted time of one tiling; infinite when the kernel refuses it."""
    try:
        return ops.operator("softmax").run(x, soc=chip, options={"time_only": True}, tiling=tiling).time_us
    except TopropeError:
        return float("inf")


def tables() -> list[ops.Table]:
    """For each shape: the time that the host's choice takes, and the fastest of all tilings."""
    chip, softmax = soc.load("ascend910b1"), ops.operator("softmax")
    rows, shares = [], []
    for r, c in SHAPES:
        x = np.zeros((r, c), np.float32)
        choice = softmax.tiling(shapes=[x.shape], dtypes="float32", soc=chip)
        chosen = predicted_us(x, choice, chip)
        tried = {(*t.values(), k, b): (t, k, b) for t, k, b in tilings(r, c, chip)}
        times = [
            predicted_us(x, softmax.changed(choice, key=k, block_dim=b, workspaces=[r * t["parts"] * 64], **t), chip)
            for t, k, b in tried.values()
        ]
        fixed = min([chosen, *times])
        shares.append(fixed / chosen)
        rows.append((f"{r:,} x {c:,}", round(chosen, 1), round(fixed, 1), len(times), f"{shares[-1]:.0%}"))
    reached = sum(s >= 0.9 for s in shares) / len(shares)
    return [
        ops.Table(
            "Any shape against the fixed shape (float32, ascend910b1): the fixed version is the fastest of all tilings of that shape, found by\npredicting each of them; the host's choice looks at rows and columns only.",
            ("shape", "chosen µs", "fixed µs", "tilings tried", "share of the fixed speed"),
            tuple(rows),
            f"{reached:.0%} of the shapes reach 90 % of the speed of the fixed version; the slowest reaches {min(shares):.0%}.",
            {"shapes_at_90_percent": round(reached, 3), "least_share": round(min(shares), 3)},
        )
    ]
