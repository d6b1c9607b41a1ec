"""Stands in for the package of this name in data scripts of unit tests: its NumPy type."""

from ml_dtypes import bfloat16

__all__ = ["bfloat16"]
