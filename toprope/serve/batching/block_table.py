"""The list of KV blocks of one request, in order of position."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray


class BlockTable:
    """Append-only list of block ids in a growing int32 array; entry `i` holds positions `i*block .. (i+1)*block-1`.

    Only copy on write may exchange an entry. `view()` costs no copy, so a batch can carry it to the kernel.
    """

    __slots__ = ("_ids", "_length", "_view")

    def __init__(self, ids: Iterable[int] = ()) -> None:
        self._ids: NDArray[np.int32] = np.array(list(ids), dtype=np.int32)
        self._length = len(self._ids)
        self._view: NDArray[np.int32] | None = None

    def __len__(self) -> int:
        return self._length

    def __getitem__(self, index: int) -> int:
        if not -self._length <= index < self._length:
            raise IndexError(f"block table has {self._length} entries, entry {index} was asked for")
        return int(self._ids[: self._length][index])

    def append(self, block: int) -> None:
        """Add the block that holds the next positions."""
        if self._length == len(self._ids):
            grown = np.zeros(max(8, 2 * self._length), dtype=np.int32)
            grown[: self._length] = self._ids
            self._ids = grown
        self._ids[self._length] = block
        self._length += 1
        self._view = None

    def replace(self, index: int, block: int) -> None:
        """Put a private copy in the place of a shared block (copy on write)."""
        if not 0 <= index < self._length:
            raise IndexError(f"block table has {self._length} entries, entry {index} cannot be replaced")
        self._ids[index] = block

    def view(self) -> NDArray[np.int32]:
        """The block ids as a read-only int32 array of shape `[len(self)]` that shares memory with the table."""
        if self._view is None:
            self._view = self._ids[: self._length]
            self._view.flags.writeable = False
        return self._view

    def tolist(self) -> list[int]:
        """The block ids as Python integers."""
        ids: list[int] = self._ids[: self._length].tolist()
        return ids
