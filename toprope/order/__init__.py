"""Who may run before whom, by what: the one answer that `check`, `deps` and `predict` share. A pure function of a trace.

The rules stand in pipes.h (flags, barriers, pipes that complete in order) and compiler.h (what the vendor's compiler inserts); why they
are so: docs/design/order.md.
"""

from __future__ import annotations

import ctypes as c
from functools import cache
from pathlib import Path

import numpy as np

from toprope.build import shared_library
from toprope.errors import BadInput
from toprope.trace import KINDS, Array, Trace

SYNCS = ("auto", "manual")
BY = ("", "pipe", "sync", "compiler", "unit flag")
"""What keeps two instructions in order, by `by` of DEPENDENCE: nothing, their pipe, a flag or barrier, an inserted sync, the unit flag."""

INSERTED = np.dtype([("before", "<u4"), ("on", "<u4"), ("from", "<u4"), ("to", "<u4")])
DEPENDENCE = np.dtype([
    ("earlier", "<u8"), ("later", "<u8"), ("kind", "<u4"), ("space", "<u4"), ("by", "<u4"), ("sync", "<u4"),
])  # fmt: skip
NO_SYNC = 0x7FFFFFFF


@cache
def _library() -> c.CDLL:
    library = c.CDLL(str(shared_library(Path(__file__).with_name("order.cpp"))))
    for name in ("toprope_inserted", "toprope_dependences"):
        getattr(library, name).restype = c.c_int64
    return library


def _pointer(column: Array) -> c.c_void_p:
    return c.c_void_p(column.ctypes.data)


def _kinds(trace: Trace) -> Array:
    return np.array([KINDS.index(op.kind) for op in trace.ops] or [0], np.uint8)


def _rows(name: str, dtype: np.dtype[np.void], *arguments: object) -> Array:
    library, out = _library(), c.c_void_p()
    count = int(getattr(library, name)(*arguments, c.byref(out)))
    if count < 0:
        raise BadInput(
            "the order of the run does not fit into memory", cure="record fewer blocks, or take a smaller shape"
        )
    try:
        raw = (c.c_char * (count * dtype.itemsize)).from_address(out.value or 0) if count else b""
        return np.frombuffer(memoryview(raw), dtype).copy()
    finally:
        getattr(library, name + "_free")(out)


def inserts(trace: Trace, core: int, sync: str) -> bool:
    """Whether the vendor's compiler inserts syncs on this core: with `sync` "auto", where the core has a vector unit."""
    return sync == "auto" and trace.cores[core].type != "aic"


def inserted(trace: Trace, sync: str = "auto") -> Array:
    """The syncs that the compiler inserts, INSERTED rows in order of the instructions: before instruction `before` pipe `to` waits for
    all that pipe `from` has begun, because of instruction `on` (rows of `Trace.instrs`, indices of PIPES)."""
    cores = np.array([inserts(trace, core, sync) for core in range(len(trace.cores))], np.uint8)
    if not cores.any() or not len(trace.instrs):
        return np.empty(0, INSERTED)
    instrs, accesses = np.ascontiguousarray(trace.instrs), np.ascontiguousarray(trace.accesses)
    core_begin, access_begin = trace.core_begin.astype(np.uint64), trace.access_begin.astype(np.uint64)
    kinds = _kinds(trace)
    return _rows(
        "toprope_inserted", INSERTED, _pointer(instrs), _pointer(accesses), _pointer(core_begin), _pointer(access_begin),
        _pointer(cores), c.c_uint32(len(cores)), _pointer(kinds),
    )  # fmt: skip


def dependences(trace: Trace, core: int, sync: str = "auto") -> Array:
    """The dependences inside one core, DEPENDENCE rows: `kind` 0 flow, 1 anti, 2 output; `by` an index of BY; `sync` the wait or barrier
    behind it, for "compiler" the instruction that the compiler put its sync before, NO_SYNC where there is none."""
    instrs, accesses = np.ascontiguousarray(trace.instrs), np.ascontiguousarray(trace.accesses)
    kinds = _kinds(trace)
    first = np.ascontiguousarray(accesses[int(trace.access_begin[core]) :])
    return _rows(
        "toprope_dependences", DEPENDENCE, _pointer(instrs), _pointer(first), c.c_uint64(int(trace.core_begin[core])),
        c.c_uint64(int(trace.core_begin[core + 1])), _pointer(kinds), c.c_uint32(inserts(trace, core, sync)),
    )  # fmt: skip
