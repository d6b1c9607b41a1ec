"""The reference of conv2d in NumPy, and the formats it takes out of and into NCHW."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]
C0 = 16


def conv2d(
    x: Array,
    w: Array,
    bias: Array | None = None,
    strides: Sequence[int] = (1, 1),
    pads: Sequence[int] = (0, 0, 0, 0),
    dilations: Sequence[int] = (1, 1),
    **_: Any,
) -> Array:
    """y of x and w, NCHW and OIHW or NC1HWC0 and FRACTAL_Z, in the precision of x: a product per tap.

    pads: top, bottom, left, right; strides and dilations: of rows and of columns.
    """
    if x.ndim == 4:
        filled = None if bias is None else np.pad(bias, (0, -bias.size % C0))
        return image(conv2d(image_blocks(x), filter_blocks(w), filled, strides, pads, dilations), w.shape[0])
    _, kernel_h, kernel_w, *_rest = w.shape
    top, bottom, left, right = pads
    frame = np.pad(x, ((0, 0), (0, 0), (top, bottom), (left, right), (0, 0)))
    high = (frame.shape[2] - (kernel_h - 1) * dilations[0] - 1) // strides[0] + 1
    wide = (frame.shape[3] - (kernel_w - 1) * dilations[1] - 1) // strides[1] + 1
    y = np.zeros((x.shape[0], w.shape[3], high, wide, C0), x.dtype)
    for i in range(kernel_h):
        for j in range(kernel_w):
            rows = slice(i * dilations[0], i * dilations[0] + (high - 1) * strides[0] + 1, strides[0])
            columns = slice(j * dilations[1], j * dilations[1] + (wide - 1) * strides[1] + 1, strides[1])
            y += np.einsum("nchwk,cbfk->nbhwf", frame[:, :, rows, columns], w[:, i, j], optimize=True)
    return y if bias is None else y + bias.reshape(1, -1, 1, 1, C0)


def padded(x: Array, w: Array, **_: Any) -> Array:
    """The convolution of the launch file: pads of 1."""
    return conv2d(x, w, pads=(1, 1, 1, 1))


def image_blocks(x: Array) -> Array:
    """NC1HWC0 of an NCHW image: channels in blocks of 16, the last filled up with zeros."""
    n, c, h, w = x.shape
    filled = np.zeros((n, -(-c // C0) * C0, h, w), x.dtype)
    filled[:, :c] = x
    return np.ascontiguousarray(filled.reshape(n, -1, C0, h, w).transpose(0, 1, 3, 4, 2))


def filter_blocks(w: Array) -> Array:
    """FRACTAL_Z of filters [N, C, KH, KW]: [C1, KH, KW, N1, 16, 16], filled up with zeros."""
    n, c, kh, kw = w.shape
    filled = np.zeros((-(-n // C0) * C0, -(-c // C0) * C0, kh, kw), w.dtype)
    filled[:n, :c] = w
    blocks = filled.reshape(filled.shape[0] // C0, C0, filled.shape[1] // C0, C0, kh, kw)
    return np.ascontiguousarray(blocks.transpose(2, 4, 5, 0, 1, 3))


def image(y: Array, channels: int) -> Array:
    """NCHW of an NC1HWC0 image with this many channels."""
    n, blocks, h, w, _ = y.shape
    return np.ascontiguousarray(y.transpose(0, 1, 4, 2, 3).reshape(n, blocks * C0, h, w)[:, :channels])
