"""The memories of a run twice: the bytes as they were, and beside each element what exact arithmetic would have put there."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from toprope import dtypes
from toprope.precision.footprint import Place
from toprope.precision.semantics import Wide
from toprope.soc import Soc
from toprope.trace import GmRow

Bytes = NDArray[np.uint8]
UNIT = 2  # bytes per cell of the shadow: the smallest float


class Cells:
    """One memory. `exact[i]` belongs to the element that begins at byte 2*i and has the dtype code `tag[i] - 1`; tag 0: as stored."""

    def __init__(self, stored: Bytes) -> None:
        padded = -(-stored.nbytes // UNIT) * UNIT
        self.bytes = np.zeros(padded, np.uint8)
        self.bytes[: stored.nbytes] = stored
        self.exact = np.zeros(padded // UNIT)
        self.tag = np.zeros(padded // UNIT, np.uint8)

    def at(self, offsets: NDArray[np.int64], kind: np.dtype[Any]) -> NDArray[Any]:
        """The stored elements that begin at these bytes."""
        n, size = len(offsets), kind.itemsize
        if (
            n
            and int(offsets[-1]) - int(offsets[0]) == (n - 1) * size
            and (n < 3 or bool(np.all(np.diff(offsets) == size)))
        ):
            begin = int(offsets[0])
            return self.bytes[begin : begin + n * size].view(kind)
        gathered: NDArray[Any]
        if _aligned(offsets, size):
            gathered = self.bytes[: self.bytes.nbytes // size * size].view(kind)[offsets // size]
        else:
            gathered = self.bytes[offsets[:, None] + np.arange(size)].reshape(-1).view(kind)
        return gathered


def _aligned(offsets: NDArray[np.int64], size: int) -> bool:
    return len(offsets) > 64 and not bool(np.any(offsets & (size - 1)))


class Memories:
    """All memories of a launch, addressed as in the trace."""

    def __init__(self, gm: tuple[GmRow, ...], before: Mapping[str, NDArray[Any]], soc: Soc) -> None:
        self.soc = soc
        self.gm = gm
        self.gm_base = np.array([row.address for row in gm])
        self.gm_cells: list[Cells | None] = [None] * len(gm)
        self.before = before
        self.on_chip: dict[tuple[int, str], Cells] = {}

    def cells(self, core: int, space: str, address: int) -> tuple[Cells, int]:
        """The memory that holds an address, and the trace address of its first byte."""
        if space != "gm":
            key = core, space
            if key not in self.on_chip:
                self.on_chip[key] = Cells(np.full(self.soc.bytes_of(space), 0xFF, np.uint8))
            return self.on_chip[key], 0
        i = max(0, int(np.searchsorted(self.gm_base, address, "right")) - 1)
        if self.gm_cells[i] is None:
            given = self.before.get(self.gm[i].name)
            stored = (
                np.zeros(self.gm[i].bytes, np.uint8) if given is None else np.asarray(given).reshape(-1).view(np.uint8)
            )
            self.gm_cells[i] = Cells(stored)
        found = self.gm_cells[i]
        assert found is not None
        return found, self.gm[i].address

    def units(self, core: int, place: Place) -> NDArray[np.uint16]:
        """The bits of elements of two bytes."""
        cells, first = self.cells(core, place.space, place.base)
        found: NDArray[np.uint16] = cells.at(place.offsets + (place.base - first), np.dtype(np.uint16))
        return found

    def read(self, core: int, place: Place, element: str) -> tuple[Wide, Wide]:
        """Stored and exact values of elements, as float64. Integers wider than 53 bits lose their last digits."""
        kind = dtypes.dtype(element).numpy
        if kind is None:
            nothing = np.zeros(len(place.offsets))
            return nothing, nothing
        cells, first = self.cells(core, place.space, place.base)
        offsets = place.offsets + (place.base - first)
        stored = cells.at(offsets, kind).astype(np.float64)
        if kind.itemsize < UNIT:
            return stored, stored
        index = offsets // UNIT
        tagged = cells.tag[index] == dtypes.dtype(element).code + 1
        return stored, np.where(tagged, cells.exact[index], stored) if tagged.any() else stored

    def write_bytes(self, core: int, place: Place, data: Bytes) -> None:
        """Put bytes (place.size of them per element); their shadow becomes what is stored."""
        cells, first = self.cells(core, place.space, place.base)
        offsets = place.offsets + (place.base - first)
        if place.size == UNIT and _aligned(offsets, UNIT):
            cells.bytes.view(np.uint16)[offsets // UNIT] = data.view(np.uint16)
        else:
            cells.bytes[(offsets[:, None] + np.arange(place.size)).reshape(-1) if place.size > 1 else offsets] = data
        cells.tag[offsets // UNIT] = 0

    def write_exact(self, core: int, place: Place, element: str, exact: Wide) -> None:
        """Give elements that are stored already their exact values."""
        if place.size < UNIT:
            return
        cells, first = self.cells(core, place.space, place.base)
        index = (place.offsets + (place.base - first)) // UNIT
        cells.exact[index] = exact
        cells.tag[index] = dtypes.dtype(element).code + 1

    def copy_shadow(self, core: int, to: Place, source: tuple[Wide, NDArray[np.uint8]]) -> None:
        """Give the cells of `to` the shadow that `shadow_of` took from the source of a copy."""
        cells, first = self.cells(core, to.space, to.base)
        index = (to.offsets + (to.base - first)) // UNIT
        cells.exact[index], cells.tag[index] = source

    def shadow_of(self, core: int, place: Place) -> tuple[Wide, NDArray[np.uint8]]:
        """Exact values and tags of cells."""
        cells, first = self.cells(core, place.space, place.base)
        index = (place.offsets + (place.base - first)) // UNIT
        return cells.exact[index], cells.tag[index]

    def initial(self, space: str, address: int, element: str) -> float:
        """What an element of GM held before the launch; NaN on chip, where nothing was."""
        kind = dtypes.dtype(element).numpy
        for row in self.gm if space == "gm" else ():
            given = self.before.get(row.name)
            if given is not None and kind is not None and row.address <= address < row.address + row.bytes:
                raw = np.asarray(given).reshape(-1).view(np.uint8)
                return float(raw[address - row.address :][: kind.itemsize].view(kind)[0])
        return float("nan")
