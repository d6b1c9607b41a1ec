"""Arrays in memory that a kernel's own process shares with this one, and the arguments of one launch moved there and back."""

from __future__ import annotations

import ctypes as c
import mmap
import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from math import prod
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]
_POINTERS_BYTES = 65536  # buffers up to this size may hold the addresses of others (tensor lists)
_UNTOUCHED = 0xA5
_owned: dict[int, int] = {}  # address -> bytes of the memory that `empty` gave and that still lives


def allocate(library: c.CDLL, shape: int | Sequence[int], dtype: Any) -> Array:
    """An array of zeros in shared memory. The page behind its last byte may not be touched: a raw pointer that runs over is caught."""
    kind = np.dtype(dtype)
    sizes = (shape,) if isinstance(shape, int) else tuple(shape)
    count = max(1, prod(sizes) * kind.itemsize)
    base, address = _room(library, count)
    memory = (c.c_uint8 * count).from_address(address)
    _owned[address] = count
    weakref.finalize(memory, _release, library, base, address, count)
    bare: Array = np.ctypeslib.as_array(memory)[: prod(sizes) * kind.itemsize]
    out: Array = bare.view(kind).reshape(sizes)
    return out


def _release(library: c.CDLL, base: int, address: int, count: int) -> None:
    _owned.pop(address, None)
    library.toprope_unshare(c.c_void_p(base), c.c_uint64(count))


def _room(library: c.CDLL, count: int) -> tuple[int, int]:
    """Where shared pages begin, and where `count` bytes begin in them so that they end (to 32 bytes) at the guard page."""
    base = library.toprope_share(c.c_uint64(count))
    if not base:
        raise MemoryError(f"no memory for {count} shared bytes")
    page = mmap.PAGESIZE
    address = int(base) + (-count % page) // 32 * 32
    c.memset(base, _UNTOUCHED, address - base)
    c.memset(address + count, _UNTOUCHED, base + -(-count // page) * page - address - count)
    return int(base), address


def _touched(base: int, address: int, count: int) -> str:
    """Where somebody has written beside the `count` bytes at `address`: "before", "behind" or ""."""
    end = base + -(-count // mmap.PAGESIZE) * mmap.PAGESIZE
    sides = (("before", base, address), ("behind", address + count, end))
    return next((s for s, a, b in sides if c.string_at(a, b - a).strip(bytes([_UNTOUCHED]))), "")


def is_shared(array: Array) -> bool:
    """Whether an array lies in memory of `allocate`."""
    at = array.ctypes.data
    return any(begin <= at and at + array.nbytes <= begin + size for begin, size in _owned.items())


@contextmanager
def moved(
    library: c.CDLL, arrays: Sequence[Array]
) -> Iterator[tuple[list[Array], Callable[[], list[tuple[int, str]]]]]:
    """The arrays as copies in shared memory (those that lie there already: themselves), and what copies them back.

    That function says beside which arrays (by number) somebody has written: "before" or "behind" them. Arrays that overlap still do. Words of small arrays that point into another one of `arrays` point into its copy meanwhile.
    """
    regions: list[tuple[int, int]] = []
    for begin, end in sorted(
        (a.ctypes.data, a.ctypes.data + a.nbytes) for a in arrays if a.nbytes and not is_shared(a)
    ):
        if regions and begin < regions[-1][1]:
            regions[-1] = (regions[-1][0], max(end, regions[-1][1]))
        else:
            regions.append((begin, end))
    rooms: list[tuple[int, int, int]] = []
    try:
        places = {}
        for begin, end in regions:
            base, address = _room(library, end - begin)
            rooms.append((base, address, end - begin))
            places[begin] = address
            c.memmove(address, begin, end - begin)
        out = [_copy_of(a, regions, places) for a in arrays]
        _point(arrays, out)

        def back() -> list[tuple[int, str]]:
            _point(out, arrays, write=out)
            for begin, end in regions:
                c.memmove(begin, places[begin], end - begin)
            touched = [(address, side) for base, address, count in rooms if (side := _touched(base, address, count))]
            starts = [a.ctypes.data for a in out]
            return [(starts.index(address), side) for address, side in touched if address in starts]

        yield out, back
    finally:
        for base, _, count in rooms:
            library.toprope_unshare(c.c_void_p(base), c.c_uint64(count))


def _copy_of(array: Array, regions: Sequence[tuple[int, int]], places: dict[int, int]) -> Array:
    at = array.ctypes.data
    region = next((r for r in regions if r[0] <= at < r[1]), None)
    if region is None:
        return array
    memory = (c.c_uint8 * array.nbytes).from_address(places[region[0]] + at - region[0])
    bare: Array = np.ctypeslib.as_array(memory)
    out: Array = bare.view(array.dtype).reshape(array.shape)
    return out


def _point(old: Sequence[Array], new: Sequence[Array], write: Sequence[Array] = ()) -> None:
    """Words in the small arrays of `write` (default: `new`) that point into one of `old` point into the same place of its `new`."""
    moves = [
        (a.ctypes.data, a.nbytes, b.ctypes.data)
        for a, b in zip(old, new, strict=True)
        if a.ctypes.data != b.ctypes.data
    ]
    if not moves:
        return
    low, high = min(a for a, _, _ in moves), max(a + n for a, n, _ in moves)
    for array in write or new:
        if (
            array.nbytes % 8
            or not 0 < array.nbytes <= _POINTERS_BYTES
            or array.dtype not in (np.uint8, np.uint64, np.int64)
            or array.ctypes.data % 8
        ):
            continue
        words = array.reshape(-1).view(np.uint8).view(np.uint64)
        for i in np.flatnonzero((words >= low) & (words < high)):
            value = int(words[i])
            words[i] = next((to + value - at for at, n, to in moves if at <= value < at + n), value)
