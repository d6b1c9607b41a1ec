"""What the search for a tiling gains: the same kernel with tilings that look at nothing, on the layers of ResNet-50."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import numpy as np

from toprope import ops, soc


def tables() -> list[ops.Table]:
    """For each layer of figures.toml that is ResNet-50's: the optimised kernel with two fixed tilings and with the one searched."""
    chip, host = soc.load("ascend910b1"), ops.host("conv2d")
    rows, gains, over_square = [], [], []
    for row in tomllib.loads((Path(__file__).parent / "figures.toml").read_text())["rows"]:
        if not row["label"].startswith("ResNet-50"):
            continue
        x, w = (np.zeros(i["shape"], np.float16) for i in row["inputs"])
        layer = host.Layer(
            *(x.shape[i] for i in range(4)), w.shape[3], w.shape[1], w.shape[2], *row["attrs"]["strides"], *row["attrs"]["pads"], 1, 1
        )
        us = []
        for tile in (host.simple(layer, chip, 2), square(layer), host.choose(layer, chip)):
            planned: ops.Plan = host.plan("optimised", chip, x, w, tile=tile, **row["attrs"])
            us.append(planned.launch("conv2d", soc=chip, time_only=True).timeline.microseconds)
        gains.append(us[0] / us[2])
        over_square.append(us[1] / us[2])
        shape = f"{tile.pixels} x {tile.filters}, {tile.step}, {tile.packet}"
        rows.append((row["label"], *(round(u, 1) for u in us), shape, f"{gains[-1]:.2f}x", f"{over_square[-1]:.2f}x"))
    return [
        ops.Table(
            "The same kernel with three tilings (ascend910b1, batch 8): simple = 64 x 64, 64, 1 (pixels x filters, step of K, channel blocks of a "
            "copy); square = 128 x 128, 64, 4, or what the layer leaves of it; chosen = the host's search.",
            ("layer", "simple µs", "square µs", "chosen µs", "chosen", "gain over simple", "over square"),
            tuple(rows),
            f"Mean over the layers: {np.mean(gains):.2f}x over the simple tiling, {np.mean(over_square):.2f}x over the square one.",
            {
                "mean_gain": round(float(np.mean(gains)), 2),
                "mean_gain_over_square": round(float(np.mean(over_square)), 2),
            },
        )
    ]


def square(layer: Any) -> Any:
    """A good fixed tiling: 128 x 128, four channel blocks of a copy as long as they fit."""
    host, chip = ops.host("conv2d"), soc.load("ascend910b1")
    pixels, filters = min(128, ops.ceil_div(layer.pixels, 16) * 16), min(128, layer.filter_blocks * 16)
    packet = min(4, layer.channel_blocks)
    tile = host.Tile(pixels, filters, min(64, packet * layer.taps * 16), packet, 2)
    while not tile.fits(layer, chip) and tile.packet > 1:
        tile = tile._replace(packet=tile.packet - 1)
    return tile
