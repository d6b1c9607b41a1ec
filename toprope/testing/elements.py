"""Element types by name, arrays from whatever a caller holds, and the order of representable values.

NumPy knows half of the formats an NPU uses; `ml_dtypes` supplies bfloat16, the 8-bit and the 4-bit ones.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import ml_dtypes
import numpy as np
from numpy.typing import NDArray

from toprope.commandline import nearest
from toprope.testing.errors import CaseError

Array = NDArray[Any]

# ml_dtypes extends NumPy's queries to its own types but does not annotate them.
_FINFO: Any = ml_dtypes.finfo
_IINFO: Any = ml_dtypes.iinfo

_SPELLINGS = {
    "float": "float32",
    "fp32": "float32",
    "half": "float16",
    "fp16": "float16",
    "double": "float64",
    "fp64": "float64",
    "bf16": "bfloat16",
    "int": "int32",
    "fp8_e4m3": "float8_e4m3fn",
    "float8_e4m3": "float8_e4m3fn",
    "fp8_e5m2": "float8_e5m2",
    "float8_e8m0": "float8_e8m0fnu",
    "float4_e2m1": "float4_e2m1fn",
    "boolean": "bool",
}

_EXTENDED = (
    "bfloat16",
    "float8_e4m3fn",
    "float8_e5m2",
    "float8_e8m0fnu",
    "float8_e3m4",
    "float4_e2m1fn",
    "int4",
    "uint4",
    "int2",
    "uint2",
)


def dtype_of(name: str | np.dtype[Any] | type) -> np.dtype[Any]:
    """The NumPy dtype called `name`: NumPy, ml_dtypes, torch ("torch.half"), GE ("DT_FLOAT16") and C spellings.

    Raises CaseError when no such element type can be held on this computer.
    """
    if not isinstance(name, str):
        return np.dtype(name)
    plain = name.strip().removeprefix("torch.").removeprefix("DT_").lower()
    plain = _SPELLINGS.get(plain, plain)
    if plain in _EXTENDED:
        extended: np.dtype[Any] = np.dtype(getattr(ml_dtypes, plain))
        return extended
    try:
        found = np.dtype(plain)
    except TypeError:
        found = np.dtype(object)
    if found.kind not in "biufc":
        raise CaseError(
            f"no element type called {name!r}{nearest(name, [*_SPELLINGS, *_EXTENDED, 'float16', 'float32', 'int32', 'int8', 'uint8'])}",
            cure=f"use a NumPy name or one of {', '.join(_EXTENDED)}",
        )
    return found


def is_float(dtype: np.dtype[Any]) -> bool:
    """Whether values carry an exponent: IEEE floats, bfloat16, float8, float4."""
    return dtype.kind == "f" or (dtype.kind == "V" and "float" in dtype.name)


def is_integer(dtype: np.dtype[Any]) -> bool:
    """Whether values are whole numbers, bool and the 4-bit and 2-bit integers included."""
    return dtype.kind in "biu" or (dtype.kind == "V" and "int" in dtype.name)


class FloatLimits(NamedTuple):
    """Range and resolution of a float type: largest value, spacing at 1, smallest normal and subnormal, stored bits."""

    most: float
    eps: float
    tiny: float
    subnormal: float
    mantissa_bits: int


def float_limits(dtype: np.dtype[Any]) -> FloatLimits:
    """The limits of a float element type; the smallest value is -most."""
    info: Any = _FINFO(dtype)
    widths = float(info.max), float(info.eps), float(info.tiny), float(info.smallest_subnormal)
    return FloatLimits(*widths, int(info.nmant))


def integer_limits(dtype: np.dtype[Any]) -> tuple[int, int]:
    """Smallest and largest value of a whole-number element type (bool excepted)."""
    info: Any = _IINFO(dtype)
    return int(info.min), int(info.max)


def as_array(value: Any) -> Array:
    """`value` as a NumPy array, without a copy where possible; torch tensors keep bfloat16 and float8."""
    if isinstance(value, np.ndarray):
        return value
    if hasattr(value, "detach") and hasattr(value, "cpu"):
        tensor = value.detach().cpu().resolve_conj().resolve_neg().contiguous()
        name = str(tensor.dtype).removeprefix("torch.")
        if name in _EXTENDED:
            # NumPy cannot hold these formats natively, so the bits travel as integers of the same width.
            # torch is imported here because a caller that has none never gets this far.
            import torch

            bits = tensor.view(torch.int16 if name == "bfloat16" else torch.uint8).numpy()
            return np.asarray(bits.view(dtype_of(name)))
        return np.asarray(tensor.numpy())
    return np.asarray(value)


def ordinals(values: Array) -> Array:
    """Consecutive representable values get consecutive integers; -0 and +0 get the same one.

    `values` is any float array; the result is signed and as wide (int8 ... int64), in the same shape.
    """
    if values.dtype.name == "float8_e8m0fnu":
        return values.view("u1").astype("i2")
    bits = values.view(f"i{values.dtype.itemsize}")
    if values.dtype.name == "float4_e2m1fn":
        bits = bits << np.int8(4)
    sign = bits >> (8 * bits.dtype.itemsize - 1)
    magnitude = bits & np.array(np.iinfo(bits.dtype).max, dtype=bits.dtype)
    magnitude ^= sign
    magnitude -= sign
    return np.asarray(magnitude >> np.int8(4) if values.dtype.name == "float4_e2m1fn" else magnitude)
