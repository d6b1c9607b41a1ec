"""Layer norm and product in one launch against the library's two operators, one launch each."""

from __future__ import annotations

from typing import Any

import numpy as np

from toprope import ops, soc
from toprope.timing import Timeline

SHAPES = (
    (3072, 1024, 1024),
    (4096, 768, 768),
    (8192, 1024, 1024),
    (16384, 512, 512),
    (16384, 1024, 1024),
    (8192, 768, 2304),
    (16384, 1024, 4096),
)
STATED = 5  # of these: those where the norm takes about as long as the product


def tables() -> list[ops.Table]:
    """For each shape: time and HBM traffic of both ways, and the most that overlap alone could give."""
    chip = soc.load("ascend910b1")

    def timeline(name: str, *inputs: Any) -> Timeline:
        return ops.operator(name).run(*inputs, soc=chip, options={"time_only": True}).timeline

    rows, gains = [], []
    for m, k, n in SHAPES:
        x, w = np.zeros((m, k), np.float16), np.zeros((k, n), np.float16)
        gamma = np.ones(k, np.float16)
        norm, product = timeline("layer_norm", x, gamma, gamma), timeline("matmul", x, w)
        fused = timeline("layer_norm_gemm", x, gamma, gamma, w)
        apart_us = norm.microseconds + product.microseconds
        gains.append(apart_us / fused.microseconds)
        rows.append(
            (
                f"{m:,} x {k:,} x {n:,}",
                round(norm.microseconds, 1),
                round(product.microseconds, 1),
                round(fused.microseconds, 1),
                f"{gains[-1]:.2f}x",
                f"{apart_us / max(norm.microseconds, product.microseconds):.2f}x",
                round(_moved(norm) + _moved(product), 1),
                round(_moved(fused), 1),
            )
        )
    return [
        ops.Table(
            "Fused against unfused (ascend910b1; the unfused times are those of this library's layer_norm and matmul):",
            (
                "m x k x n",
                "layer_norm µs",
                "matmul µs",
                "fused µs",
                "gain",
                "most by overlap",
                "unfused HBM MB",
                "fused HBM MB",
            ),
            tuple(rows),
            f"The least gain of the first {STATED} shapes, where the norm takes about as long as the product, is {min(gains[:STATED]):.2f}x. In the "
            "others the cube is the bound: all that fusing can save is the norm.",
            {"least_gain": round(min(gains[:STATED]), 2)},
        )
    ]


def _moved(timeline: Timeline) -> float:
    """MB between HBM and L2."""
    return (timeline.traffic.hbm_read_bytes + timeline.traffic.hbm_write_bytes) / 1e6
