"""The run as the vendor's compiler leaves it: the flags that it inserts cost time like written ones, its vector barriers hold work back."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from toprope.order import inserted
from toprope.timing.timeline import STALLS
from toprope.trace import FLAG_FROM_SHIFT, FLAG_TO_SHIFT, INSTR, PIPES, Array, OpRow, Trace

_V = PIPES.index("V")
_OWN_ID = 15  # a kernel's own events are numbered below 8, the schedule keeps 16 of each kind
_OPS = (OpRow("SetFlag", "S", "set_flag", "set_flag"), OpRow("WaitFlag", "S", "wait_flag", "wait_flag"))


@dataclass(frozen=True)
class Compiled:
    """`trace` with the inserted flags in it. `rows`: where each instruction of the original stands, all of them if none is inserted.
    `vector_needs`: for each instruction of `trace` the vector instruction behind which the compiler put a barrier that this one is behind;
    -1 for none."""

    trace: Trace
    rows: Array | slice
    vector_needs: Array


def compiled(trace: Trace, sync: str) -> Compiled:
    """The trace with what the compiler inserts for `sync` ("auto" or "manual"); kept with the trace, which a fit predicts many times."""
    kept: dict[str, Compiled] = trace.__dict__.setdefault("_compiled", {})
    if sync not in kept:
        kept[sync] = _compiled(trace, sync)
    return kept[sync]


def _compiled(trace: Trace, sync: str) -> Compiled:
    syncs = inserted(trace, sync)
    needs = np.full(len(trace.instrs), -1, np.int32)
    barriers = syncs[syncs["from"] == syncs["to"]]
    needs[barriers["before"]] = barriers["on"]
    flags = syncs[syncs["from"] != syncs["to"]]
    if not len(flags):
        return Compiled(trace, slice(None), needs)
    pairs = np.zeros((len(flags), 2), INSTR)
    for k, pipe in enumerate(("from", "to")):
        pairs["op"][:, k] = len(trace.ops) + k
        pairs["pipe"][:, k] = flags[pipe]
        pairs["site"][:, k] = trace.instrs["site"][flags["before"]]
        pairs["work"][:, k] = flags["from"] << FLAG_FROM_SHIFT | flags["to"] << FLAG_TO_SHIFT | _OWN_ID
    places = np.repeat(flags["before"].astype(np.int64), 2)
    moved = np.concatenate(([0], np.cumsum(np.bincount(places, minlength=len(trace.instrs)))))
    rows = np.arange(len(trace.instrs)) + moved[1:]
    whole = replace(
        trace,
        ops=(*trace.ops, *_OPS),
        instrs=np.insert(trace.instrs, places, pairs.reshape(-1)),
        core_begin=trace.core_begin + moved[trace.core_begin.astype(np.int64)],
    )
    spread = np.full(len(whole.instrs), -1, np.int32)
    spread[rows] = np.where(needs >= 0, rows[needs], -1)
    return Compiled(whole, rows, spread)


def back(made: Compiled, stall: Array, blocker: Array) -> tuple[Array, Array]:
    """Stall and blocker of the original's instructions, in its rows: what an inserted flag waited for stands behind whom it held."""
    rows = made.rows
    if isinstance(rows, slice):
        return stall, blocker
    number = np.full(len(stall) + 1, -1, np.int32)  # the last entry is for "none"
    number[rows] = np.arange(len(rows), dtype=np.int32)
    why, who = stall[rows], blocker[rows]
    while len(inside := np.flatnonzero((who >= 0) & (number[who] < 0))):
        why[inside] = np.where(stall[who[inside]] == STALLS.index("flag"), stall[who[inside]], why[inside])
        who[inside] = blocker[who[inside]]
    return why, np.where(who >= 0, number[who], -1).astype(np.int32)
