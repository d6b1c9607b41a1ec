"""Changed traces: the same run as it would have been with one thing different."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

import numpy as np

from toprope.timing.prediction import UNIT_FLAG_BIT
from toprope.trace import PIPES, SPACES, Array, Trace

BYPASS_BIT = 1 << 8  # of a copy's arg column


def kinds(trace: Trace, *names: str) -> Array:
    """Which instructions are of these kinds."""
    wanted: Array = np.array([op.kind in names for op in trace.ops] or [False])
    return np.take(wanted, trace.instrs["op"])


def elements(trace: Trace) -> Array:
    """Which instructions are GetValue or SetValue of the kernel's own: one element through the scalar unit."""
    wanted: Array = np.array([op.name.endswith((".GetValue", ".SetValue")) for op in trace.ops] or [False])
    return np.take(wanted, trace.instrs["op"])


def scalar_trips(trace: Trace) -> Array:
    """Which instructions are flags between the vector and the scalar unit: around a value that goes from one to the other."""
    vector, scalar = PIPES.index("V"), PIPES.index("S")
    # An event's number: the pipe that sets it, the pipe that waits, an id (ascendc/machine/flags.h).
    between = np.isin(trace.instrs["work"] >> 8, (vector << 8 | scalar, scalar << 8 | vector))
    return np.asarray(kinds(trace, "set_flag", "wait_flag") & between)


def without(trace: Trace, drop: Array) -> Trace:
    """The trace without the instructions where `drop` holds; their ranges go with them."""
    keep = ~drop
    counts = trace.instrs["accesses"].astype(np.int64)
    core = trace.core_of_instr()
    return replace(
        trace,
        instrs=trace.instrs[keep],
        accesses=trace.accesses[np.repeat(keep, counts)],
        core_begin=_starts(np.bincount(core[keep], minlength=len(trace.cores))),
        access_begin=_starts(
            np.bincount(core[keep], weights=counts[keep], minlength=len(trace.cores)).astype(np.int64)
        ),
    )


def _starts(counts: Array) -> Array:
    return np.concatenate(([0], np.cumsum(counts)))


def with_arg(trace: Trace, rows: Array, bits: int) -> Trace:
    """The trace with `bits` set in the arg column of some instructions."""
    instrs = trace.instrs.copy()
    instrs["arg"][rows] |= bits
    return replace(trace, instrs=instrs)


def with_unit_flag(trace: Trace) -> Trace:
    """The trace as if the cube handed its sums to the store by the unit flag: no events between the two pipes, the flag on both sides."""
    changed = trace
    for cost, bit in UNIT_FLAG_BIT.items():
        of_cost: Array = np.array([op.cost == cost for op in trace.ops] or [False])
        changed = with_arg(changed, np.flatnonzero(np.take(of_cost, trace.instrs["op"])), 1 << bit)
    cube, store = PIPES.index("M"), PIPES.index("FIX")
    between = np.isin(trace.instrs["work"] >> 8, (cube << 8 | store, store << 8 | cube))
    return without(changed, kinds(trace, "set_flag", "wait_flag") & between)


def tiling_data(trace: Trace) -> Array:
    """Which instructions copy tiling data out of GM; their work is its size in 8 bytes."""
    wanted: Array = np.array([op.name == "GET_TILING_DATA" for op in trace.ops] or [False])
    return np.take(wanted, trace.instrs["op"])


def reads_tiling(trace: Trace) -> Array:
    """Which instructions are scalar work of a Matmul object whose tiling is not constant: their work counts the readings."""
    wanted: Array = np.array([op.cost in ("matmul_step", "matmul_init") for op in trace.ops] or [False])
    return np.asarray(np.take(wanted, trace.instrs["op"]) & (trace.instrs["work"] > 0))


def with_constant_tiling(trace: Trace) -> Trace:
    """The trace as if Matmul objects knew their tiling when they were compiled."""
    instrs = trace.instrs.copy()
    instrs["work"][reads_tiling(trace)] = 0
    return replace(trace, instrs=instrs)


def one_more_buffer(trace: Trace, queues: Collection[int]) -> Trace:
    """The trace as if some queues had one more buffer each: AllocTensor waits for the FreeTensor one round earlier.

    The first wait of such a queue on every core is dropped; events pair first in, first out, so every later wait then meets the set
    of the round before. `queues` are the numbers that InitBuffer gave (the same on every core of symmetrical kernels).
    """
    alloc = kinds(trace, "alloc")
    waits = kinds(trace, "wait_flag")
    drop = np.zeros(len(trace.instrs), bool)
    for core in range(len(trace.cores)):
        begin, end = int(trace.core_begin[core]), int(trace.core_begin[core + 1])
        for queue in queues:
            rows = begin + np.flatnonzero(alloc[begin:end] & (trace.instrs["work"][begin:end] == queue))
            # AllocTensor records the wait for its buffer directly before itself.
            guarded = rows[(rows > begin) & waits[np.maximum(rows - 1, 0)]]
            if len(guarded):
                drop[guarded[0] - 1] = True
    return without(trace, drop)


def spread(trace: Trace, parts: int) -> Trace:
    """The trace as if each block's work had been cut into `parts` blocks: its instructions in as many consecutive pieces.

    Waits whose set stayed in another piece, a few at each cut, are left out.
    """
    cuts = [
        int(trace.core_begin[core]) + (int(trace.core_begin[core + 1]) - int(trace.core_begin[core])) * part // parts
        for core in range(len(trace.cores))
        for part in range(parts)
    ]
    core_begin = np.array([*cuts, len(trace.instrs)])
    before = np.concatenate(([0], np.cumsum(trace.instrs["accesses"].astype(np.int64))))
    cores = tuple(replace(core, block=core.block * parts + part) for core in trace.cores for part in range(parts))
    cut = replace(
        trace, blocks=trace.blocks * parts, cores=cores, core_begin=core_begin, access_begin=before[core_begin]
    )
    return without(cut, unmatched_waits(cut))


def unmatched_waits(trace: Trace) -> Array:
    """Waits that no earlier set of their core belongs to."""
    flags = np.flatnonzero(kinds(trace, "set_flag", "wait_flag"))
    is_set = kinds(trace, "set_flag")[flags].tolist()
    core, flag = trace.core_of_instr()[flags].tolist(), trace.instrs["work"][flags].tolist()
    up: dict[tuple[int, int], int] = {}
    unmatched = np.zeros(len(trace.instrs), bool)
    for row, sets, key in zip(flags.tolist(), is_set, zip(core, flag, strict=True), strict=True):
        if sets:
            up[key] = up.get(key, 0) + 1
        elif up.get(key, 0) > 0:
            up[key] -= 1
        else:
            unmatched[row] = True
    return unmatched


def second_sources(trace: Trace) -> tuple[Array, Array]:
    """Vector instructions that read UB at two places or more: their rows, and the index of the last such place in the ranges."""
    ranges = trace.decoded()
    vector = kinds(trace, "compute") & (trace.instrs["pipe"] == PIPES.index("V"))
    continued = np.concatenate(([False], ranges.more[:-1]))  # the outer loop of the entry before
    reads = np.flatnonzero(
        (ranges.mode == 1) & (ranges.space == SPACES.index("ub")) & vector[ranges.instr] & ~continued
    )
    instr = ranges.instr[reads]
    last = np.concatenate((instr[1:] != instr[:-1], [True])) if len(reads) else np.empty(0, bool)
    first = np.concatenate(([True], last[:-1]))[: len(reads)]
    rows, at, begin = instr[last], reads[last], reads[first]
    several = ranges.address[at] != ranges.address[begin]
    return rows[several], at[several]


def moved_by(trace: Trace, ranges: Array, blocks: Array) -> Trace:
    """The trace with some of its ranges (indices) so many 32-byte blocks further on."""
    accesses = trace.accesses.copy()
    accesses["low"][ranges] += (32 * blocks).astype(np.uint64)
    return replace(trace, accesses=accesses)
