"""What each arithmetic operation means in float64. An operation that has no entry here is reported by name, never guessed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from toprope import dtypes

Wide = NDArray[np.float64]
Function = Callable[..., Wide]
ROUND_MODES = (
    "CAST_NONE",
    "CAST_RINT",
    "CAST_FLOOR",
    "CAST_CEIL",
    "CAST_ROUND",
    "CAST_TRUNC",
    "CAST_ODD",
    "CAST_HYBRID",
)


def _relu(x: Any) -> Any:
    return np.where(x < 0, 0.0, x)


# Operations on lanes: sources in the order of the call, then the scalars.
LANES: dict[str, Function] = {
    "Add": lambda a, b: a + b,
    "Sub": lambda a, b: a - b,
    "Mul": lambda a, b: a * b,
    "Div": lambda a, b: a / b,
    "Max": np.maximum,
    "Min": np.minimum,
    "Adds": lambda a, s: a + s,
    "Muls": lambda a, s: a * s,
    "Maxs": np.maximum,
    "Mins": np.minimum,
    "LeakyRelu": lambda a, s: np.where(a < 0, a * s, a),
    "Abs": np.abs,
    "Exp": np.exp,
    "Ln": np.log,
    "Reciprocal": lambda a: 1 / a,
    "Rsqrt": lambda a: 1 / np.sqrt(a),
    "Sqrt": np.sqrt,
    "Relu": _relu,
    "AddRelu": lambda a, b: _relu(a + b),
    "SubRelu": lambda a, b: _relu(a - b),
    "AddReluCast": lambda a, b: _relu(a + b),
    "SubReluCast": lambda a, b: _relu(a - b),
    "MulCast": lambda a, b: a * b,
    "FusedMulAdd": lambda a, b, d: a * d + b,
    "MulAddRelu": lambda a, b, d: _relu(a * d + b),
    "FusedMulAddRelu": lambda a, b, d: _relu(a * d + b),
    "MulAddDst": lambda a, b, d: a * b + d,
    "Axpy": lambda a, d, s: s * a + d,
    "Copy": lambda a: a,
}
# Sums of groups of lanes: lanes of a repeat per result (0: the whole repeat; "block": one 32-byte block).
SUMS: dict[str, str] = {
    "WholeReduceSum": "repeat",
    "ReduceSum": "repeat",
    "BlockReduceSum": "block",
    "PairReduceSum": "pair",
}
# Operations that only move elements: a result has the shadow of the source element with the same bits.
MOVES = {
    "Brcb", "Gather", "Gatherb", "GatherMask", "Scatter", "Transpose", "TransDataTo5HD", "VectorPadding", "Sort32", "MrgSort", "RpSort16",
    "ProposalConcat", "ProposalExtract", "WholeReduceMax", "WholeReduceMin", "ReduceMax", "ReduceMin", "BlockReduceMax", "BlockReduceMin",
    "LoadData", "LoadDataWithTranspose",
}  # fmt: skip
# Results that hold no rounded number: bits, indices, constants. They are exact by definition.
EXACT = {"Compare", "CompareScalar", "Duplicate", "CreateVecIndex", "ArithProgression", "And", "Or", "Not", "ShiftLeft", "ShiftRight", "GetCmpMask", "Fill"}  # fmt: skip

_TO_INTEGER: dict[str, Function] = {
    "CAST_NONE": np.rint,
    "CAST_RINT": np.rint,
    "CAST_FLOOR": np.floor,
    "CAST_CEIL": np.ceil,
    "CAST_ROUND": lambda x: np.copysign(np.floor(np.abs(x) + 0.5), x),
    "CAST_TRUNC": np.trunc,
}


def cast(mode: str, source: str, to: str) -> Function:
    """A conversion: the identity between floats; to an integer, and from float32 to itself, the rounding that was asked for."""
    if "float" not in source or ("float" in to and source != to):
        return lambda x: x
    rounded = _TO_INTEGER.get(mode, np.rint)
    kind = dtypes.dtype(to).numpy
    if kind is None or kind.kind not in "iu":
        return rounded
    limits = np.iinfo(kind)
    return lambda x: np.clip(rounded(x), limits.min, limits.max)


def scalars_of(op: str, raw: bytes, element: str) -> Sequence[float]:
    """The scalars of an instruction from the bytes that its functor holds (16-bit floats are kept as float)."""
    if op not in ("Adds", "Muls", "Maxs", "Mins", "LeakyRelu", "Axpy", "Duplicate"):
        return ()
    kind: np.dtype[Any] | None = dtypes.dtype(element).numpy
    if kind is None or len(raw) == 0:
        return ()
    if op != "Duplicate" and element in ("float16", "bfloat16"):
        kind = np.dtype(np.float32)
    return (float(np.frombuffer(raw[: kind.itemsize], kind)[0]),) if len(raw) >= kind.itemsize else ()
