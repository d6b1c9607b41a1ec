"""The least time that a call of a reference could take on a chip: launching, and what takes longer of its bytes and its multiplications."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from toprope.errors import TopropeError
from toprope.soc import Soc

Shape = tuple[int, ...]


def _shapes(values: Sequence[Any]) -> list[Shape]:
    """The shapes of the tensors of a call, in order; those of lists one by one."""
    out: list[Shape] = []
    for v in values:
        for each in v if isinstance(v, list) else [v]:
            if isinstance(each, np.ndarray):
                out.append(each.shape)
    return out


def _matrices(a: Shape, b: Shape) -> int:
    """Multiplications of a product of (stacks of) matrices."""
    if not a or not b:
        return 0
    columns = b[-1] if len(b) > 1 else 1
    batch = math.prod(b[:-2]) if len(b) > 2 and len(a) <= 2 else 1
    return math.prod(a) * columns * batch


def _convolution(x: Shape, w: Shape, transposed: Any, out: Shape) -> int:
    return math.prod(x if transposed else out) * math.prod(w[1:])


def _attention(s: list[Shape], times: int) -> int:
    """Two products of queries and keys forward; five in the backward pass. The keys' length is that of all of their elements."""
    query, key = s[0], s[1]
    width = query[-1] if len(query) == 4 else min(query[-1], 128)
    return times * math.prod(query) * (math.prod(key) // max(1, key[0] * width))


_PRODUCTS: dict[str, Callable[[Sequence[Any], list[Shape]], int]] = {
    **dict.fromkeys(("Matmul", "Mm", "BatchMatMul", "Mv", "Dot", "MatmulWeightNz", "BatchMatMulWeightNz"), lambda v, s: _matrices(s[0], s[1])),
    **dict.fromkeys(("Addmm", "Baddbmm", "Addmv", "Addbmm", "InplaceAddmm", "InplaceBaddbmm"), lambda v, s: _matrices(s[1], s[2])),
    "Convolution": lambda v, s: _convolution(s[0], s[1], v[6], s[-1]),
    "ConvolutionBackward": lambda v, s: 2 * _convolution(s[1], s[2], v[7], s[0]),
    "ConvDepthwise2d": lambda v, s: _convolution(s[0], s[1], False, s[-1]),
}  # fmt: skip


def multiplications(function: str, values: Sequence[Any]) -> int:
    """Multiplications that a call has on the cube; 0 for functions that are no products."""
    name = function.removeprefix("aclnn")
    shapes = _shapes(values)
    if name.startswith(("FlashAttention", "PromptFlashAttention", "IncreFlashAttention", "FusedInferAttention")):
        return _attention(shapes, 5 if "Grad" in name else 2)
    return _PRODUCTS[name](values, shapes) if name in _PRODUCTS else 0


def least_us(soc: Soc, function: str, values: Sequence[Any]) -> float:
    """Microseconds by launching, HBM and the cube, with the numbers of the chip's file."""
    tensors = [t for v in values for t in (v if isinstance(v, list) else [v]) if isinstance(t, np.ndarray)]
    moved_us = sum(t.nbytes for t in tensors) / (soc.number("hbm.read_tbps") * 1e6)
    launch_us = _number(soc, "launch.kernel_us", 2.0)
    product = multiplications(function, values)
    if not product:
        return launch_us + moved_us
    wide = any(t.dtype.itemsize > 2 for t in tensors if t.dtype.kind in "fV")
    steps = (
        16 * 16 * (8 if wide else 16)
    )  # multiplications of a step of the cube: 16 x k0 by k0 x 16, where k0 elements are 32 bytes
    try:
        cycles = soc.cost("mmad").per_work_of("float32" if wide else "half", "")
    except (TopropeError, KeyError):
        return launch_us + moved_us
    return launch_us + max(moved_us, product / steps * cycles / max(soc.aic, 1) / (soc.ghz * 1e3))


def _number(soc: Soc, path: str, otherwise: float) -> float:
    try:
        return float(soc.number(path))
    except TopropeError:
        return otherwise
