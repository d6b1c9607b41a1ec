"""Traces with the work cut otherwise: larger tiles, copies of rows joined into one copy, rounds shared out evenly.

They rest on rounds: what a core does from one AllocTensor of its first queue to the next. Only loops whose rounds are alike are changed.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np

from toprope.profile.whatif import kinds, unmatched_waits, without
from toprope.trace import KINDS, PIPES, Array, Trace

_ROW_BYTES_LIMIT, _ROWS_LIMIT = 1 << 24, 1 << 16  # of a range in the trace
_MORE_BIT = np.uint64(1 << 22)


@dataclass(frozen=True)
class Rounds:
    """The loop of one core: `begin[j]` is the first row of round j, `end` the row after the last round.

    `work[j]` are the rows of round j that are not flags: the same operations at the same lines in every round.
    """

    begin: Array
    end: int
    work: Array


def rounds(trace: Trace, core: int) -> Rounds | None:
    """The rounds of a core, None where there are fewer than two or they differ."""
    first, stop = int(trace.core_begin[core]), int(trace.core_begin[core + 1])
    rows = np.arange(first, stop)
    kind = np.take(np.array([KINDS.index(op.kind) for op in trace.ops] or [0]), trace.instrs["op"][first:stop])
    is_wait, is_set = kind == KINDS.index("wait_flag"), kind == KINDS.index("set_flag")
    allocs = rows[kind == KINDS.index("alloc")]
    if not len(allocs):
        return None
    begin = allocs[trace.instrs["work"][allocs] == trace.instrs["work"][allocs[0]]]
    # AllocTensor records the wait for its buffer directly before itself.
    begin = begin - (is_wait[np.maximum(begin - 1 - first, 0)] & (begin > first))
    working = rows[~(is_set | is_wait)]
    cuts = np.append(np.searchsorted(working, begin), len(working))
    length = int(cuts[1] - cuts[0]) if len(begin) > 1 else 0
    if not length or np.any(np.diff(cuts)[:-1] != length) or cuts[-1] - cuts[-2] < length:
        return None
    work = working[cuts[:-1, None] + np.arange(length)]
    for column in ("op", "site", "accesses", "work"):
        # The queue's number is in an alloc's work column; a tile of another size would change a copy's or a vector instruction's.
        if np.any(trace.instrs[column][work] != trace.instrs[column][work[0]]):
            return None
    # The last round is as long as the one before it; the waits for the last buffers, and what the kernel does after its loop, are no part of it.
    after = working[cuts[-2] + length :]
    end = min(2 * int(begin[-1]) - int(begin[-2]), int(after[0]) if len(after) else stop)
    return Rounds(begin, max(end, int(work[-1, -1]) + 1), work)


def larger_tiles(trace: Trace, factor: int) -> Trace | None:
    """The trace as if each tile had been `factor` times as large: so many fewer rounds, each with so much more to copy and compute.

    None where rounds cannot be joined: they differ, do not divide, or an instruction has a pattern that does not simply grow.
    """
    buffers = max(Counter(b.queue for b in trace.buffers if b.core == 0).values(), default=1)
    index, sources, grown = [], [], []
    by_element = kinds(trace, "scalar") & (trace.instrs["accesses"] > 0)
    for core in range(len(trace.cores)):
        found = rounds(trace, core)
        if found is None or len(found.begin) % factor or len(found.begin) // factor < 2 or buffers > factor:
            return None
        ends = np.append(found.begin[1:], found.end)
        # Round g of the new loop lies in buffer g mod `buffers`, as some old round of the ones it replaces did.
        kept = [g * factor + g % buffers for g in range(len(found.begin) // factor)]
        rows = [np.arange(int(trace.core_begin[core]), int(found.begin[0]))]
        rows += [_joined(found.begin, ends, g * factor, factor, j, by_element) for g, j in enumerate(kept)]
        rows.append(np.arange(found.end, int(trace.core_begin[core + 1])))
        index.append(np.concatenate(rows))
        grown.append(found.work[kept].ravel())
        sources.append(found.work[np.arange(len(kept)) * factor].ravel())
    changed = _grown(trace, np.concatenate(grown), np.concatenate(sources), factor)
    if changed is None:
        return None
    fewer = _taken(changed, index)
    return without(fewer, unmatched_waits(fewer))


def _joined(begin: Array, ends: Array, first: int, factor: int, kept: int, by_element: Array) -> Array:
    """The rows of round `kept`, which stands for `factor` rounds from `first`; the scalar unit still walks over the elements of all of them."""
    rows = np.arange(int(begin[kept]), int(ends[kept]))
    own = np.flatnonzero(by_element[rows])
    if not len(own):
        return rows
    others = [np.arange(int(begin[j]), int(ends[j])) for j in range(first, first + factor) if j != kept]
    walked = np.concatenate([r[by_element[r]] for r in others])
    return np.concatenate([rows[: own[-1] + 1], walked, rows[own[-1] + 1 :]])


def _grown(trace: Trace, rows: Array, sources: Array, factor: int) -> Trace | None:
    """The trace with the instructions `rows` made larger, each from the GM address of its counterpart in `sources`."""
    moving = kinds(trace, "copy")[rows] | (
        kinds(trace, "compute")[rows] & (trace.instrs["pipe"][rows] == PIPES.index("V"))
    )
    rows, sources = rows[moving], sources[moving]
    target, counts = _ranges_of(trace, rows)
    source, _ = _ranges_of(trace, sources)
    accesses = trace.accesses.copy()
    high, low = trace.accesses["high"][target], trace.accesses["low"][target]
    if np.any(high & _MORE_BIT):
        return None
    in_gm = (high >> np.uint64(16)) & np.uint64(15) == 0
    low = np.where(in_gm, trace.accesses["low"][source], low)
    row_bytes, count = low >> np.uint64(40), high & np.uint64(0xFFFF)
    single = count <= 1
    row_bytes, count = (
        np.where(single, row_bytes * np.uint64(factor), row_bytes),
        np.where(single, count, count * np.uint64(factor)),
    )
    if np.any(row_bytes >= _ROW_BYTES_LIMIT) or np.any(count >= _ROWS_LIMIT):
        return None
    accesses["low"][target] = low & np.uint64((1 << 40) - 1) | row_bytes << np.uint64(40)
    accesses["high"][target] = high & ~np.uint64(0xFFFF) | count
    instrs = trace.instrs.copy()
    begin = np.concatenate(([0], np.cumsum(counts)))[:-1]
    several = np.zeros(len(rows), bool)
    several[counts > 0] = np.logical_or.reduceat(~single, begin[counts > 0]) if len(single) else False
    scaled = kinds(trace, "compute")[rows] | several  # a copy's work is its number of bursts
    instrs["work"][rows[scaled]] *= factor
    return replace(trace, instrs=instrs, accesses=accesses)


def shared_out(trace: Trace, cores: int) -> Trace | None:
    """The trace as if the rounds of all blocks had been dealt out to `cores` blocks evenly; None where the rounds differ."""
    pool: list[Array] = []
    ends: list[tuple[Array, Array]] = []  # what a core does before and after its loop
    first: Array | None = None
    for core in range(len(trace.cores)):
        found = rounds(trace, core)
        if found is None:
            return None
        signature = trace.instrs[["op", "site", "accesses", "work"]][found.work[0]]
        if first is not None and not np.array_equal(signature, first):
            return None
        first = signature
        cuts = np.append(found.begin, found.end)
        pool += [np.arange(a, b) for a, b in pairwise(cuts)]
        begin, stop = int(trace.core_begin[core]), int(trace.core_begin[core + 1])
        ends.append((np.arange(begin, int(cuts[0])), np.arange(found.end, stop)))
    if not 0 < cores <= min(len(pool), len(trace.cores)):
        return None
    cuts_of_pool = [len(pool) * c // cores for c in range(cores + 1)]
    index = [
        np.concatenate([ends[c][0], *pool[cuts_of_pool[c] : cuts_of_pool[c + 1]], ends[c][1]]) for c in range(cores)
    ]
    dealt = replace(_taken(trace, index), cores=trace.cores[:cores], blocks=min(trace.blocks, cores))
    return without(dealt, unmatched_waits(dealt))


def joined_copies(trace: Trace) -> tuple[Trace, Array]:
    """The trace with GM copies of rows joined: neighbours in a pipe, same line, same length, both addresses moving on evenly.

    The second value says which copies would be gone.
    """
    copies = np.flatnonzero(kinds(trace, "copy") & (trace.instrs["accesses"] == 2))
    gone = np.zeros(len(trace.instrs), bool)
    accesses, instrs = trace.accesses.copy(), trace.instrs.copy()
    target, _ = _ranges_of(trace, copies)
    low, high = trace.accesses["low"][target].reshape(-1, 2), trace.accesses["high"][target].reshape(-1, 2)
    plain = np.all((high & np.uint64(0xFFFF)) <= 1, axis=1) & np.all(high & _MORE_BIT == 0, axis=1)
    through_gm = np.any((high >> np.uint64(16)) & np.uint64(15) == 0, axis=1)
    place = (low & np.uint64((1 << 40) - 1)).astype(np.int64)
    size = (low >> np.uint64(40)).astype(np.int64)
    if len(copies) < 2:
        return trace, gone
    core, rank = trace.core_of_instr()[copies], _rank_in_pipe(trace)[copies]
    step = np.diff(place, axis=0)
    same = (np.diff(core.astype(np.int64)) == 0) & (np.diff(rank) == 1) & np.all(np.diff(size, axis=0) == 0, axis=1)
    for column in ("op", "pipe", "site", "arg"):
        same &= np.diff(instrs[column][copies].astype(np.int64)) == 0
    same &= plain[1:] & plain[:-1] & through_gm[1:] & np.all(step >= size[1:], axis=1)
    # A run goes on while the steps stay what they were.
    steady = np.concatenate(([False], np.all(step[1:] == step[:-1], axis=1) & same[:-1]))
    first = np.flatnonzero(same & ~steady)
    run_of = np.cumsum(same & ~steady) - 1
    lengths = np.bincount(run_of[same], minlength=len(first)) + 1
    gone[copies[1:][same]] = True
    # A copy that ends one run of steps may begin another; it has already gone into the first.
    alive = ~gone[copies[first]]
    for at, length in zip(first[alive].tolist(), lengths[alive].tolist(), strict=True):
        head = copies[at]
        for side in (0, 1):
            k = target[2 * at + side]
            kept = int(accesses["high"][k]) & 0xFF0000
            accesses["high"][k] = np.uint64(int(step[at, side]) << 24 | kept | min(length, _ROWS_LIMIT - 1))
        instrs["work"][head] = length
    return without(replace(trace, instrs=instrs, accesses=accesses), gone), gone


def _rank_in_pipe(trace: Trace) -> Array:
    """Position of each instruction among those of its pipe on its core, flags included; bookkeeping does not count."""
    lane = trace.core_of_instr().astype(np.int64) * len(PIPES) + trace.instrs["pipe"]
    counted = ~kinds(trace, "mark", "alloc", "free", "enque", "deque")
    rank = np.empty(len(lane), np.int64)
    order = np.argsort(lane, kind="stable")
    rank[order] = np.cumsum(counted[order])
    return rank


def _ranges_of(trace: Trace, rows: Array) -> tuple[Array, Array]:
    """Indices of the ranges of some instructions, one after the other, and how many each has."""
    every = trace.instrs["accesses"].astype(np.int64)
    begin, counts = (np.cumsum(every) - every)[rows], every[rows]
    offset = np.arange(int(counts.sum())) - np.repeat(np.cumsum(counts) - counts, counts)
    return np.repeat(begin, counts) + offset, counts


def _taken(trace: Trace, rows_of_core: list[Array]) -> Trace:
    """The trace with these rows only, in this order, for each core."""
    rows = np.concatenate(rows_of_core)
    ranges, counts = _ranges_of(trace, rows)
    before = np.concatenate(([0], np.cumsum(counts)))
    core_begin = np.concatenate(([0], np.cumsum([len(r) for r in rows_of_core])))
    return replace(
        trace,
        instrs=trace.instrs[rows],
        accesses=trace.accesses[ranges],
        core_begin=core_begin,
        access_begin=before[core_begin],
    )
