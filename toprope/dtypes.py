"""Number formats: the element types of tensors, by their Ascend C, NumPy and trace names."""

from __future__ import annotations

from dataclasses import dataclass

import ml_dtypes
import numpy as np

from toprope.commandline import nearest
from toprope.errors import BadArgument


@dataclass(frozen=True)
class Dtype:
    """One element type.

    `code` is its number in a trace (machine/formats.h has the same order); `bits` its width; `numpy` None where NumPy has none.
    """

    code: int
    name: str
    cpp: str
    bits: int
    numpy: np.dtype | None
    aliases: tuple[str, ...] = ()


DTYPES = (
    Dtype(0, "float32", "float", 32, np.dtype(np.float32), ("fp32", "f32")),
    Dtype(1, "float16", "half", 16, np.dtype(np.float16), ("fp16", "f16")),
    Dtype(2, "bfloat16", "bfloat16_t", 16, np.dtype(ml_dtypes.bfloat16), ("bf16",)),
    Dtype(3, "int8", "int8_t", 8, np.dtype(np.int8), ("s8",)),
    Dtype(4, "uint8", "uint8_t", 8, np.dtype(np.uint8), ("u8",)),
    Dtype(5, "int16", "int16_t", 16, np.dtype(np.int16), ("s16",)),
    Dtype(6, "uint16", "uint16_t", 16, np.dtype(np.uint16), ("u16",)),
    Dtype(7, "int32", "int32_t", 32, np.dtype(np.int32), ("s32", "int")),
    Dtype(8, "uint32", "uint32_t", 32, np.dtype(np.uint32), ("u32",)),
    Dtype(9, "int64", "int64_t", 64, np.dtype(np.int64), ("s64",)),
    Dtype(10, "uint64", "uint64_t", 64, np.dtype(np.uint64), ("u64",)),
    Dtype(11, "int4", "int4b_t", 4, None, ("s4",)),
    Dtype(12, "bool", "bool", 8, np.dtype(np.bool_), ("b8",)),
    Dtype(13, "float64", "double", 64, np.dtype(np.float64), ("fp64", "f64")),
    Dtype(14, "none", "void", 8, None),
)
_BY_NAME = {word: d for d in DTYPES for word in (d.name, d.cpp, *d.aliases)}
_BY_NUMPY = {d.numpy: d for d in DTYPES if d.numpy is not None}


def dtype(name: str) -> Dtype:
    """The element type called `name` (any of float16, half, fp16, f16, ...). Raises BadArgument."""
    found = _BY_NAME.get(name.strip())
    if found is None:
        raise BadArgument(
            f"unknown element type {name!r}{nearest(name, list(_BY_NAME))}",
            cure="use one of " + ", ".join(d.name for d in DTYPES[:-1]),
        )
    return found


def of_array(array: np.ndarray) -> Dtype:
    """The element type of a NumPy array. Raises BadArgument for types that no Ascend core has."""
    found = _BY_NUMPY.get(array.dtype)
    if found is None:
        raise BadArgument(
            f"arrays of {array.dtype} have no Ascend C element type",
            cure="convert it: float16, float32, ml_dtypes.bfloat16, bool or an integer type",
        )
    return found


def carries(array: Dtype, element: Dtype) -> bool:
    """Whether an array of one type is a usual way to hand over elements of another: the type itself, bytes, or a same-sized integer.

    Kernels that move elements of any type look at them as unsigned words.
    """
    if array == element or array.bits == 8 or element.name.startswith("uint"):
        return True
    whole = "int" in array.name
    if whole and "int" in element.name:
        return array.bits == element.bits
    # Bits of a number format that NumPy has not come in integers of its size.
    return whole and array.bits == element.bits and (array.bits == 16 or array.name.startswith("uint"))
