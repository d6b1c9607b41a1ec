"""mla_prolog in one launch against a chain of the library's operators, one launch each."""

from __future__ import annotations

from typing import Any

import numpy as np

from toprope import ops, soc
from toprope.timing import Timeline

HIDDEN, RANK, KEY_RANK, ROPE, LENGTH = 7168, 1536, 512, 64, 192


def tables() -> list[ops.Table]:
    """Time of both ways, and what reading every weight once takes at the rate of HBM."""
    chip = soc.load("ascend910b1")

    def half(*shape: int) -> Any:
        return np.zeros(shape, np.float16)

    def timeline(name: str, *inputs: Any, **attributes: Any) -> Timeline:
        return ops.operator(name).run(*inputs, soc=chip, options={"time_only": True}, **attributes).timeline

    rows, gains = [], []
    for tokens, heads in ((1, 32), (32, 32), (128, 32), (128, 128)):
        x, down, up = half(tokens, HIDDEN), half(HIDDEN, RANK + KEY_RANK + ROPE), half(RANK, heads * LENGTH)
        chain = [
            timeline("matmul", x, down),
            timeline("rms_norm", half(tokens, RANK), half(RANK)),
            timeline("rms_norm", half(tokens, KEY_RANK), half(KEY_RANK)),
            timeline("matmul", half(tokens, RANK), up),
        ]
        weights = half(HIDDEN, RANK), up, half(HIDDEN, KEY_RANK), half(HIDDEN, ROPE), half(RANK), half(KEY_RANK)
        slots = np.arange(tokens, dtype=np.int32)
        fused = timeline("mla_prolog", x, *weights, half(tokens, ROPE), half(tokens, ROPE), slots, heads=heads)
        apart_us = sum(t.microseconds for t in chain)
        read_us = sum(w.nbytes for w in weights) / (chip.number("hbm.read_tbps") * 1e6)
        gains.append(apart_us / fused.microseconds)
        shares = f"{gains[-1]:.2f}x", f"{read_us / fused.microseconds:.0%}"
        rows.append((tokens, heads, round(apart_us, 1), round(fused.microseconds, 1), round(read_us, 1), *shares))
    return [
        ops.Table(
            "Fused against matmul, two rms_norm and matmul, one launch each and without the rotations (ascend910b1):",
            ("tokens", "heads", "launches µs", "fused µs", "weights at HBM's rate µs", "gain", "share of that bound"),
            tuple(rows),
            "The bound is HBM: every weight is read once and used for few tokens, so that fusing saves launches, hand-overs and idle cores and can "
            f"save no more. {min(gains):.2f}x to {max(gains):.2f}x over separate launches.",
            {"least_gain": round(min(gains), 2), "most_gain": round(max(gains), 2)},
        )
    ]
