"""The cube's instructions in float64: which elements they read and write, in the order of matrices, and what they compute.

The numbers that they are described by are those of keep_numbers in machine/machine.h, api/load_data.h, api/mmad.h and api/fixpipe.h.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from toprope import dtypes
from toprope.precision.footprint import Index, Place, joined
from toprope.precision.semantics import Function, Wide

UNIT = 2  # bytes of the units that copies are followed in
FRACTAL_BYTES = 512
LOOPS, IMAGE = 0, 1
HF32 = 1 << 11  # flags in the argument of an Mmad
STARTS_SUM, WITH_BIAS = 1 << 8, 1 << 9
QUANTISES = {3: "DEQF16", 4: "VDEQF16", 5: "QF322B8_PRE", 6: "VQF322B8_PRE", 7: "REQ8", 8: "VREQ8"}
ATOMIC: dict[int, Function] = {1: np.add, 2: np.maximum, 3: np.minimum}


# ---- copies that reorder ---------------------------------------------------------------------------------------------------


def order(kept: Sequence[NDArray[np.int64]], source: str, target: str) -> tuple[Place, Place] | None:
    """Where a copy's elements come from and where they go, in units of two bytes; padding is in neither. None: not described."""
    ends = [_ends(tuple(int(n) for n in numbers)) for numbers in kept]
    if not ends:
        return None
    places = [
        (Place(source, int(n[1]), a, UNIT), Place(target, int(n[2]), b, UNIT))
        for n, (a, b) in zip(kept, ends, strict=True)
    ]
    first, second = joined([a for a, _ in places]), joined([b for _, b in places])
    return None if first is None or second is None else (first, second)


def _ends(numbers: tuple[int, ...]) -> tuple[Index, Index]:
    return _loops(numbers[3:]) if numbers[0] == LOOPS else _image(numbers[3:])


@lru_cache(1024)
def _loops(numbers: tuple[int, ...]) -> tuple[Index, Index]:
    """Runs of numbers[0] bytes in nested loops: (count, step in the source, step in the target) from the outermost."""
    source = target = np.arange(0, numbers[0], UNIT, dtype=np.int64)
    for at in range(len(numbers) - 3, 0, -3):
        steps = np.arange(numbers[at], dtype=np.int64)[:, None]
        source, target = (steps * numbers[at + 1] + source).ravel(), (steps * numbers[at + 2] + target).ravel()
    return source, target


@lru_cache(1024)
def _image(numbers: tuple[int, ...]) -> tuple[Index, Index]:
    """A part of the im2col matrix of a feature map (channel blocks of 32 bytes) into L0A (zZ) or, turned, L0B (nZ)."""
    bits, rows, columns, to_b, turned, height, width, top, left, channels, stride_w, stride_h = numbers[:12]
    filter_w, filter_h, dilation_w, dilation_h, out_w, out_h, k_start, m_start, m_block, m_jump, k_block, k_jump = (
        numbers[12:]
    )
    c0 = 256 // bits
    row_fractal, column_fractal = (c0, 16) if to_b else (16, c0)
    row_fractals, column_fractals = -(-rows // row_fractal), -(-columns // column_fractal)
    r, c = np.meshgrid(
        np.arange(row_fractals * row_fractal), np.arange(column_fractals * column_fractal), indexing="ij", sparse=True
    )
    inside = c % 16 * c0 + r % c0 if to_b else r % 16 * c0 + c % c0
    to = (r // row_fractal * column_fractals + c // column_fractal) * 16 * c0 + inside
    m, k = (r, c) if to_b or not turned else (c, r)
    m = m_start + (m if m_jump == 0 else m // m_block * m_jump + m % m_block)
    k = k_start + (k if k_jump == 0 else k // k_block * k_jump + k % k_block)
    tap = k // c0
    y = m // out_w * stride_h + tap // filter_w % filter_h * dilation_h - top
    x = m % out_w * stride_w + tap % filter_w * dilation_w - left
    held = (y >= 0) & (x >= 0) & (y < height) & (x < width) & (m // out_w < out_h)
    held = held & (k < -(-channels // c0) * c0 * filter_w * filter_h)
    source = ((tap // (filter_w * filter_h) * height + y) * width + x) * c0 + k % c0
    pieces = np.arange(0, bits // 8, UNIT, dtype=np.int64)
    both = (np.broadcast_to(i, held.shape)[held][:, None] * (bits // 8) + pieces for i in (source, to))
    first, second = (i.ravel() for i in both)
    return first, second


# ---- the product -----------------------------------------------------------------------------------------------------------


class Product:
    """C (+)= A x B: float64 of the stored operands, and the places of A [m, k], B [n, k], C [m, n] and the bias [n]."""

    def __init__(self, numbers: NDArray[np.int64], argument: int) -> None:
        self.m, self.n, self.k, self.mf, self.kf, self.nf, self.k0, self.gemv, result, right = (int(x) for x in numbers)
        self.left, self.right = _name(argument & 0xFF), _name(right)
        self.result = _name(result)
        self.last: tuple[Wide, Wide, Wide] | None = None  # operands that are exact as stored are multiplied once
        self.hf32, self.starts, self.with_bias = (bool(argument & flag) for flag in (HF32, STARTS_SUM, WITH_BIAS))

    def __call__(self, a: Wide, b: Wide, *sum_or_bias: Wide) -> Wide:
        """The product of operands in the order of their places, plus the sum so far or the bias."""
        if self.last is None or self.last[0] is not a or self.last[1] is not b:
            self.last = a, b, _multiplied(a.reshape(self.m, self.k), b.reshape(self.n, self.k).T)
        c = self.last[2]
        for other in sum_or_bias:
            c = c + other.reshape(-1, self.n)
        return np.asarray(c.ravel(), np.float64)

    def inputs(self, reads: list[Place], output: Place) -> list[tuple[Place, str]]:
        """The operands' elements: A and B row by row (B by columns), then the bias or the old sum if one is added."""
        a, b = _product_offsets(self.m, self.n, self.k, self.k0, self.nf, self.kf, bool(self.gemv))
        found = [(_at(reads[0], a, self.left), self.left), (_at(reads[1], b, self.right), self.right)]
        if self.with_bias:
            table = reads[2] if len(reads) > 2 else Place("bias", 0, np.zeros(1, np.int64), 4)
            found.append((_at(table, np.arange(self.n, dtype=np.int64), self.result), self.result))
        elif not self.starts:
            found.append((output, self.result))
        return found

    def output(self, written: Place) -> Place:
        """The elements of C row by row."""
        return _at(written, _result_offsets(self.m, self.n, self.mf), self.result)


def _multiplied(a: Wide, b: Wide) -> Wide:
    """In pieces that BLAS does not spread over threads: waiting for each other would cost them more than they save."""
    rows = max(1, (1 << 18) // b.size)
    return np.concatenate([a[i : i + rows] @ b for i in range(0, len(a), rows)])


@lru_cache(256)
def _product_offsets(m: int, n: int, k: int, k0: int, nf: int, kf: int, gemv: bool) -> tuple[Index, Index]:
    i, j = np.arange(k, dtype=np.int64), np.arange(n, dtype=np.int64)[:, None]
    r = np.arange(m, dtype=np.int64)[:, None]
    a = i if gemv else (r // 16 * kf + i // k0) * 16 * k0 + r % 16 * k0 + i % k0
    b = (i // k0 * nf + j // 16) * 16 * k0 + j % 16 * k0 + i % k0
    return a.ravel(), b.ravel()


@lru_cache(256)
def _result_offsets(m: int, n: int, mf: int) -> Index:
    r, c = np.arange(m, dtype=np.int64)[:, None], np.arange(n, dtype=np.int64)
    found: Index = (c // 16 * mf * 256 + r * 16 + c % 16).ravel()
    return found


def _at(place: Place, elements: Index, element: str) -> Place:
    size = dtypes.dtype(element).bits // 8
    return Place(place.space, place.base, elements * size, size)


def _name(code: int) -> str:
    return dtypes.DTYPES[code].name


# ---- the way out of L0C ----------------------------------------------------------------------------------------------------


class WayOut:
    """A Fixpipe: places of the elements in L0C and behind it, and the conversion between them in float64."""

    def __init__(self, kept: Sequence[NDArray[np.int64]], element: str) -> None:
        numbers = [int(x) for x in kept[0]]
        self.shape = tuple(numbers[:7] + numbers[7:8])
        self.relu, mode, code, atomic = bool(numbers[8]), numbers[9], numbers[10], numbers[11]
        self.source, self.element = _name(code), element
        self.quantises = mode in QUANTISES
        self.atomic = ATOMIC.get(atomic)
        self.parameters = np.concatenate([k[:1] for k in kept[1:]]).astype(np.int64)
        self.moves = self.source == element and not self.relu and self.atomic is None

    def places(self, read: Place, written: Place) -> tuple[Place, Place]:
        """Source and target elements, matrix by matrix, row by row."""
        source, target = _fixpipe_offsets(self.shape, dtypes.dtype(self.element).bits // 8)
        size = dtypes.dtype(self.element).bits // 8
        return _at(read, source, self.source), Place(written.space, written.base, target, size)

    def scales(self) -> Wide:
        """The factor and the offset of each element, [2, elements]; a factor has 10 bits of mantissa."""
        n, rows = self.shape[2], self.shape[0] * self.shape[1]
        p = self.parameters if len(self.parameters) == n else np.repeat(self.parameters[:1], n)
        factor = (p & 0xFFFFE000).astype(np.uint32).view(np.float32).astype(np.float64)
        offset = ((p << 18) >> 55).astype(np.float64)
        return np.tile(np.stack([factor, offset]), rows)

    def __call__(self, value: Any, *others: Any) -> Any:
        """What exact arithmetic stores: relu, scale, rounding to whole numbers if the type has only those, the atomic sum.

        others: the old element of GM if the copy is atomic, then factor and offset if it scales.
        """
        out = np.where(value < 0, 0.0, value) if self.relu else value
        if self.quantises:
            out = out * others[-2]
            kind = dtypes.dtype(self.element).numpy
            if kind is not None and kind.kind in "iu":
                limits = np.iinfo(kind)
                out = np.clip(np.rint(out) + others[-1], limits.min, limits.max)
        return out if self.atomic is None else self.atomic(out, others[0])


@lru_cache(256)
def _fixpipe_offsets(shape: tuple[int, ...], size: int) -> tuple[Index, Index]:
    """In elements of the source, in bytes of the target."""
    matrices, rows, columns, source_stride, source_matrix, target_stride, target_matrix, c0 = shape
    g, m, n = np.meshgrid(
        *(np.arange(x, dtype=np.int64) for x in (matrices, rows, columns)), indexing="ij", sparse=True
    )
    source = (g * source_matrix * 16 + n // 16 * source_stride + m) * 16 + n % 16
    if c0:
        target = n // c0 * target_stride * 32 + m * c0 * size + n % c0 * size + 0 * g
    else:
        target = (g * target_matrix + m * target_stride + n) * size
    return source.ravel(), target.ravel()
