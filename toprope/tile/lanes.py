"""The vector unit's arithmetic on NumPy arrays, bit for bit that of an emitted kernel (lanes.cpp holds the loops)."""

from __future__ import annotations

import ctypes
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from toprope import runtime
from toprope.build import shared_library
from toprope.vendor_paths import INCLUDE

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


_POINTER, _LONG, _WORD = ctypes.c_void_p, ctypes.c_uint64, ctypes.c_uint32
_SIGNATURES = {
    "tile_matmul": (*[_POINTER] * 3, *[_WORD] * 4, *[_POINTER] * 2),
    **{
        f"tile_{n}": (_POINTER, _POINTER, _WORD, _WORD, _POINTER) for n in ("sum", "max", "min", "max_half", "min_half")
    },
}


@cache
def _function(name: str) -> Any:
    function = getattr(_library(), name)
    function.argtypes = _SIGNATURES.get(name, (_POINTER, _POINTER, _LONG))
    function.restype = None
    return function


def unary(name: str, x: Array) -> Array:
    """exp, log, sqrt, rsqrt or reciprocal of float32 or float16 lanes; float16 is computed in float32 and rounded once."""
    single = np.ascontiguousarray(x, np.float32)
    out = np.empty_like(single)
    _function(f"tile_{name}")(single.ctypes.data, out.ctypes.data, single.size)
    return out.astype(x.dtype, copy=False)


def fold_rows(name: str, x: Array) -> Array:
    """sum, max or min of each row of a matrix, in the order of the emitted RowReduce (lanes.cpp says which)."""
    single = np.ascontiguousarray(x, np.float32)
    rows, columns = single.shape
    out, partial = np.empty(rows, np.float32), np.empty(columns + 128, np.float32)
    half = "_half" if x.dtype == np.float16 else ""
    _function(f"tile_{name}{half}")(single.ctypes.data, out.ctypes.data, rows, columns, partial.ctypes.data)
    return out.astype(x.dtype, copy=False).reshape(rows, 1)


def fold_columns(name: str, x: Array) -> Array:
    """sum, max or min of each column, row after row as the emitted ColumnFold goes."""
    found: Array = x[0].copy()
    steps: dict[str, Any] = {"sum": np.add, "max": larger, "min": smaller}
    for row in x[1:]:
        found = steps[name](found, row)
    return found


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
    return x.astype(kind)


def matmul_into(c: Array, a: Array, b: Array, *, accumulate: bool) -> None:
    """c (+)= a @ b with float32 sums in the cube's order; a and b of 16-bit floats, c float32, all row-major."""
    a, b = np.ascontiguousarray(a, np.float32), np.ascontiguousarray(b, np.float32)
    (m, k), n = a.shape, b.shape[1]
    k_panels = -(-k // 16) * 256
    left, right = np.empty(-(-m // 16) * k_panels, np.float32), np.empty(-(-n // 16) * k_panels, np.float32)
    _function("tile_matmul")(
        c.ctypes.data, a.ctypes.data, b.ctypes.data, m, k, n, accumulate, left.ctypes.data, right.ctypes.data
    )
