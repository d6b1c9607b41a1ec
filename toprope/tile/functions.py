"""Functions of tiles made of the language's own operations; like a user's, they are expanded in place."""

from __future__ import annotations

from typing import Any

from toprope.tile.eager import BUILTINS

_exp = BUILTINS["exp"]


def sigmoid(x: Any) -> Any:
    """1 / (1 + exp(-x))."""
    return 1 / (_exp(-x) + 1)


def silu(x: Any) -> Any:
    """x * sigmoid(x)."""
    return x / (_exp(-x) + 1)


def tanh(x: Any) -> Any:
    """1 - 2 / (1 + exp(2x)); it neither overflows nor loses its limits."""
    return 1 - 2 / (_exp(x * 2) + 1)


def gelu(x: Any) -> Any:
    """x * sigmoid(1.702 x), the usual approximation."""
    return x / (_exp(x * -1.702) + 1)
