"""The scheduler in C++ (schedule.cpp, compiled on first use) and the structures that columns.h shares with it."""

from __future__ import annotations

import ctypes as c
from functools import cache
from pathlib import Path

import numpy as np

from toprope.build import shared_library
from toprope.trace import KINDS, PIPES, Array, Trace

OP_COST = np.dtype(
    [
        ("issue", "<f8"),
        ("interval", "<f8"),
        ("latency", "<f8"),
        ("rate", "<f8"),
        ("row", "<f8"),
        ("odd_rate", "<f8"),
        ("l2_unit", "<f8"),
        ("cold", "<f8"),
        ("cold_rate", "<f8"),
        ("kind", "<u4"),
        ("unit_bit", "<u4"),
        ("marks", "<u4"),
        ("loads", "<u4"),
    ]
)
CORE = np.dtype([("block", "<u4"), ("sub", "<u4"), ("type", "<u4"), ("pad", "<u4")])
RESULT = np.dtype([("start", "<f8"), ("end", "<f8"), ("busy", "<f8", (len(PIPES),))])


class ChipNumbers(c.Structure):
    """The numbers of a chip that the schedule needs, in cycles and bytes per cycle."""

    _fields_ = [
        *(
            (name, c.c_double)
            for name in (
                "hbm_rate", "hbm_write_weight", "l2_read_rate", "l2_write_rate", "l2_bytes", "miss_latency", "unaligned_weight",
                "miss_interval", "cold_store_latency", "part_line_weight", "same_address_weight", "same_address_delay", "page_rate", "part_block_cycles", "code_cycles", "code_lines", "scalar_use", "l1_delay", "atomic_weight", "queue_depth", "launch_cycles",
                "block_cycles", "prologue_cycles",
                "flag_latency", "cross_latency", "soft_cross_latency", "dependence",
            )
        ),
        *((name, c.c_uint32) for name in ("slots", "warm", "ratio", "mixed")),
        ("gm_begin", c.c_uint64),
        ("gm_end", c.c_uint64),
    ]  # fmt: skip


class TrafficNumbers(c.Structure):
    """Bytes that moved, and how many waits had to be released because nothing ever set their flag."""

    _fields_ = [(name, c.c_double) for name in ("hbm_read", "hbm_write", "l2_read", "l2_write", "l2_hit", "stuck")]


@cache
def _library() -> c.CDLL:
    library = c.CDLL(str(shared_library(Path(__file__).parent / "schedule.cpp")))
    shared = (c.c_uint32 * 5)()
    library.toprope_sizes(shared)
    ours = [c.sizeof(ChipNumbers), c.sizeof(TrafficNumbers), OP_COST.itemsize, CORE.itemsize, RESULT.itemsize]
    if list(shared) != ours:
        raise AssertionError(f"native.py and columns.h disagree about structure sizes: {ours} and {list(shared)}")
    return library


def _pointer(column: Array) -> c.c_void_p:
    return c.c_void_p(column.ctypes.data)


def measure(trace: Trace, groups: int, reads_per_group: int) -> tuple[Array, Array]:
    """Bytes moved by each copy, and cycles per repeat that UB bank groups impose on each vector instruction."""
    count = len(trace.instrs)
    size, bank = np.empty(count, np.float32), np.empty(count, np.float32)
    kinds = np.array([KINDS.index(op.kind) for op in trace.ops] or [0], np.uint8)
    _library().toprope_measure(
        _pointer(trace.instrs), c.c_uint64(count), _pointer(trace.accesses), _pointer(kinds), c.c_uint32(groups), c.c_uint32(reads_per_group),
        _pointer(size), _pointer(bank),
    )  # fmt: skip
    return size, bank


def schedule(
    trace: Trace, chip: ChipNumbers, ops: Array, cycles: Array, vector_needs: Array, cores: Array
) -> tuple[Array, Array, Array, Array, Array, TrafficNumbers]:
    """Start, end, stall reason and blocker of each instruction, the sums of each core, and the traffic.

    `vector_needs`: for each instruction the vector instruction that must be complete before it starts, -1 for none.
    """
    count = len(trace.instrs)
    start, end = np.zeros(count), np.zeros(count)
    stall, blocker = np.zeros(count, np.uint8), np.full(count, -1, np.int32)
    results, traffic = np.zeros(len(cores), RESULT), TrafficNumbers()
    begin = np.ascontiguousarray(trace.core_begin, np.uint64)
    _library().toprope_schedule(
        c.byref(chip), _pointer(ops), _pointer(trace.instrs), _pointer(trace.accesses), _pointer(cycles), _pointer(vector_needs), _pointer(begin), _pointer(cores),
        c.c_uint32(len(cores)), _pointer(start), _pointer(end), _pointer(stall), _pointer(blocker), _pointer(results), c.byref(traffic),
    )  # fmt: skip
    return start, end, stall, blocker, results, traffic
