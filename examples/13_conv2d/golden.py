"""The reference of conv2d.cpp in NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np


def conv2d(
    x: np.ndarray[Any, Any], w: np.ndarray[Any, Any], bias: np.ndarray[Any, Any], tiling: dict[str, int], **_: Any
) -> np.ndarray[Any, Any]:
    """Relu(conv2d + bias) in float64; x and the result are [channels / 16, height, width, 16], w is [C1 * KH * KW, N1, 16, 16]."""
    t = tiling
    kh, kw, stride, pad = t["kernelH"], t["kernelW"], t["stride"], t["pad"]
    filters = w.astype(np.float64).reshape(t["channelBlocks"], kh, kw, t["filters"] // 16, 16, 16)
    image = np.pad(x.astype(np.float64), ((0, 0), (pad, pad), (pad, pad), (0, 0)))
    y = np.zeros((t["filters"] // 16, t["outHeight"], t["outWidth"], 16))
    y += bias.astype(np.float64).reshape(-1, 1, 1, 16)
    for i in range(kh):
        for j in range(kw):
            seen = image[:, i : i + stride * t["outHeight"] : stride, j : j + stride * t["outWidth"] : stride]
            y += np.einsum("chwk,cnfk->nhwf", seen, filters[:, i, j])
    return np.maximum(y, 0)
