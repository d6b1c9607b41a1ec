"""Makes arrays of different length fit one batch."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from toprope.errors import BadArgument

Array = NDArray[Any]


class ShapeBuckets:
    """Pads axis 0 of an array up to the next of a few `lengths`, so that a model meets only so many shapes.

    Arrays share a batch when they fall into one bucket and agree in dtype and in all other axes.
    """

    def __init__(self, lengths: Sequence[int], *, fill: float = 0) -> None:
        if not lengths or min(lengths) < 1:
            raise ValueError(f"buckets need positive lengths, got {list(lengths)}")
        self.lengths = sorted(set(lengths))
        self._fill = fill

    def key(self, array: Array) -> Hashable:
        """What must be equal to share a batch; raises `BadArgument` when the array is longer than every bucket."""
        for length in self.lengths:
            if len(array) <= length:
                return (length, array.shape[1:], array.dtype.str)
        raise BadArgument(
            f"an input of length {len(array)} exceeds the longest bucket, {self.lengths[-1]}",
            cure="shorten the input or add a bucket",
        )

    def pack(self, arrays: Sequence[Array]) -> Array:
        """One array `[len(arrays), bucket, ...]` of arrays with one key."""
        length = next(bucket for bucket in self.lengths if bucket >= max(map(len, arrays)))
        packed = np.full((len(arrays), length, *arrays[0].shape[1:]), self._fill, dtype=arrays[0].dtype)
        for row, array in zip(packed, arrays, strict=True):
            row[: len(array)] = array
        return packed

    def wrap(self, model: Callable[[Array], Array], *, trim: bool = False) -> Callable[[Sequence[Array]], list[Array]]:
        """Turn a model of batches (`[n, bucket, ...]` → `[n, ...]`) into a function of lists, for `RequestMerger`.

        `trim` cuts axis 0 of each output back to its input's length, for models that answer per position.
        """

        def run(arrays: Sequence[Array]) -> list[Array]:
            outputs = model(self.pack(arrays))
            if trim:
                return [output[: len(array)] for output, array in zip(outputs, arrays, strict=True)]
            return list(outputs)

        return run
