"""What the search for a tiling gains on the layers of ResNet-50, and what NCHW costs."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from toprope import ops, soc

SIMPLE, SQUARE = (64, 64, 64, 1), (128, 128, 64, 4)
CHIP = "ascend910b1"


def layers() -> Iterator[tuple[str, Any, Any, dict[str, Any]]]:
    """Label, image, filters and attributes of each row of figures.toml."""
    for row in tomllib.loads((Path(__file__).parent / "figures.toml").read_text())["rows"]:
        x, w = (np.zeros(i["shape"], np.float16) for i in row["inputs"])
        yield row["label"], x, w, row["attrs"]


def tables() -> list[ops.Table]:
    """The optimised kernel with two fixed tilings and with the one searched; then the same layers from NCHW to NCHW."""
    chip, operator, naive = soc.load(CHIP), ops.operator("conv2d"), ops.operator("conv2d", "naive")
    options = {"time_only": True}
    rows, gains, over_square, nchw = [], [], [], []
    for label, x, w, attributes in layers():
        if not label.startswith("ResNet-50"):
            continue
        runs = [operator.run(x, w, soc=chip, options=options, tile=tile, **attributes) for tile in (SIMPLE, SQUARE, ())]
        us = [r.time_us for r in runs]
        gains.append(us[0] / us[2])
        over_square.append(us[1] / us[2])
        chosen = runs[2].tiling.fields
        shape = f"{chosen['tileM']} x {chosen['tileN']}, {chosen['stepK']}, {chosen['packetBlocks']}"
        channels = 3 if " 3 to " in label else x.shape[1] * 16
        image = np.zeros((x.shape[0], channels, *x.shape[2:4]), np.float16)
        filters = np.zeros((w.shape[3] * 16, channels, *w.shape[1:3]), np.float16)
        plain, slow = (
            o.run(image, filters, soc=chip, options=options, **attributes).time_us for o in (operator, naive)
        )
        nchw.append(slow / plain)
        turned = round(plain, 1), round(plain - us[2], 1), f"{nchw[-1]:.2f}x"
        rows.append((label, *(round(u, 1) for u in us), shape, f"{gains[-1]:.2f}x", f"{over_square[-1]:.2f}x", *turned))
    return [
        ops.Table(
            "The same kernel with three tilings (ascend910b1, batch 8): simple = 64 x 64, 64, 1 (pixels x filters, step of K, channel blocks of "
            "a copy); square = 128 x 128, 64, 4, or what the layer leaves of it; chosen = the host's search. Then the layer from NCHW to NCHW.",
            (
                "layer",
                "simple µs",
                "square µs",
                "chosen µs",
                "chosen",
                "gain over simple",
                "over square",
                "NCHW µs",
                "of it turning µs",
                "gain over naive NCHW",
            ),
            tuple(rows),
            f"Mean over the layers: {np.mean(gains):.2f}x over the simple tiling, {np.mean(over_square):.2f}x over the square one. With NCHW: "
            f"{np.mean(nchw):.2f}x over the naive version; filters are turned with every call.",
            {
                "mean_gain": round(float(np.mean(gains)), 2),
                "mean_gain_over_square": round(float(np.mean(over_square)), 2),
                "mean_gain_nchw": round(float(np.mean(nchw)), 2),
            },
        )
    ]
