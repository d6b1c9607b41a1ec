"""The vector unit's arithmetic on NumPy arrays, bit for bit that of an emitted kernel (lanes.cpp holds the loops)."""

from __future__ import annotations

import ctypes
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from toprope import runtime
from toprope.build import INCLUDE, shared_library

Array = np.ndarray[Any, Any]


@cache
def _library() -> ctypes.CDLL:
    path = shared_library(
        Path(__file__).with_name("lanes.cpp"),
        include=(INCLUDE,),
        defines=("__NPU_ARCH__=2201", "TOPROPE_AIV=1"),
        link=(runtime.library_path(),),
    )
    return runtime.load_kernel_library(path)


def unary(name: str, x: Array) -> Array:
    """exp, log, sqrt, rsqrt or reciprocal of float32 or float16 lanes; float16 is computed in float32 and rounded once."""
    single = np.ascontiguousarray(x, np.float32)
    out = np.empty_like(single)
    getattr(_library(), f"tile_{name}")(
        ctypes.c_void_p(single.ctypes.data), ctypes.c_void_p(out.ctypes.data), ctypes.c_uint64(single.size)
    )
    with np.errstate(over="ignore"):
        return out.astype(x.dtype, copy=False)


def fold_rows(name: str, x: Array) -> Array:
    """sum or max of each row of a matrix, in the order of the emitted RowReduce: repeats first, then their results."""
    single = np.ascontiguousarray(x, np.float32)
    rows, columns = single.shape
    out, partial = np.empty(rows, np.float32), np.empty(columns // 64 + 1, np.float32)
    function = f"tile_{name}" + ("_half" if x.dtype == np.float16 else "")
    getattr(_library(), function)(
        ctypes.c_void_p(single.ctypes.data), ctypes.c_void_p(out.ctypes.data), ctypes.c_uint32(rows),
        ctypes.c_uint32(columns), ctypes.c_void_p(partial.ctypes.data),
    )  # fmt: skip
    return out.astype(x.dtype, copy=False).reshape(rows, 1)


def larger(a: Array, b: Array) -> Array:
    """Max as the chip's lanes choose: a where a > b or a is NaN, else b."""
    largest: Array = np.where((a > b) | (a != a), a, b)
    return largest


def smaller(a: Array, b: Array) -> Array:
    """Min as the chip's lanes choose: a where a < b or a is NaN, else b."""
    smallest: Array = np.where((a < b) | (a != a), a, b)
    return smallest


def convert(x: Array, kind: np.dtype[Any]) -> Array:
    """Cast with ties to even; to int32 saturating, NaN giving 0."""
    if kind.kind == "i" and x.dtype.kind not in "iu":
        limits = np.iinfo(kind)
        whole = np.nan_to_num(np.rint(x.astype(np.float64)), nan=0.0, posinf=limits.max, neginf=limits.min)
        clipped: Array = np.clip(whole, limits.min, limits.max)
        return clipped.astype(kind)
    with np.errstate(over="ignore"):
        return x.astype(kind)


def matmul_into(c: Array, a: Array, b: Array, *, accumulate: bool) -> None:
    """c (+)= a @ b with float32 sums in the cube's order; a and b of 16-bit floats, c float32, all row-major."""
    a, b = np.ascontiguousarray(a, np.float32), np.ascontiguousarray(b, np.float32)
    (m, k), n = a.shape, b.shape[1]
    k_panels = -(-k // 16) * 256
    left, right = np.empty(-(-m // 16) * k_panels, np.float32), np.empty(-(-n // 16) * k_panels, np.float32)
    pointers = [ctypes.c_void_p(x.ctypes.data) for x in (c, a, b)]
    sizes = [ctypes.c_uint32(x) for x in (m, k, n, accumulate)]
    room = [ctypes.c_void_p(x.ctypes.data) for x in (left, right)]
    _library().tile_matmul(*pointers, *sizes, *room)
