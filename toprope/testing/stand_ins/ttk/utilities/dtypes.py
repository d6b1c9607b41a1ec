"""Element types that NumPy lacks, and tensors between NumPy and torch."""

from typing import Any

from toprope.testing.elements import as_array, dtype_of
from toprope.testing.golden import to_torch

numpy_to_torch_tensor = to_torch
torch_to_numpy_tensor = as_array


def numpy_bfloat16() -> type[Any]:
    """The NumPy scalar type of bfloat16."""
    return dtype_of("bfloat16").type


def numpy_float8_e4m3fn() -> type[Any]:
    """The NumPy scalar type of float8 with four bits of exponent."""
    return dtype_of("float8_e4m3fn").type


def numpy_float8_e5m2() -> type[Any]:
    """The NumPy scalar type of float8 with five bits of exponent."""
    return dtype_of("float8_e5m2").type


def numpy_float8_e8m0() -> type[Any]:
    """The NumPy scalar type of the scale format."""
    return dtype_of("float8_e8m0fnu").type


def numpy_float4_e2m1() -> type[Any]:
    """The NumPy scalar type of float4 with two bits of exponent."""
    return dtype_of("float4_e2m1fn").type
