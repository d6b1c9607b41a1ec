"""Functions of the advanced library: ours emit instructions of our own, and a published row says whether they take the vendor's time."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache

import numpy as np

from toprope.timing.confidence import EVIDENCE
from toprope.trace import LIBRARY, Array, Trace

LEAST_SHARE = 0.1  # of a row's vector time: a row in which a function is less says nothing about it


@dataclass(frozen=True)
class Plan:
    """A function whose instruction plan a published row verifies: how many rows, and the median of their errors without sign."""

    name: str
    rows: int
    median_error: float


@cache
def verified() -> dict[str, Plan]:
    """The functions with published rows, by name; the plans of all others are assumed."""
    table = tomllib.loads(EVIDENCE.read_text())
    return {row["name"]: Plan(**row) for row in table.get("functions", [])}


def calls(trace: Trace) -> Array | None:
    """For each instruction the operation that marks the library call it belongs to, -1 for none; None: no call at all."""
    marks = np.array([op.name.startswith(LIBRARY) for op in trace.ops] or [False])
    if not marks.any():
        return None
    op, site = trace.instrs["op"].astype(np.intp), trace.instrs["site"]
    at = np.arange(len(op))
    last = np.maximum.accumulate(np.where(marks[op], at, -1))
    first_of_core = np.repeat(trace.core_begin[:-1], np.diff(trace.core_begin)).astype(np.intp)
    inside = (last >= first_of_core) & (site[last] == site)
    return np.where(inside, op[last], -1)


def shares(trace: Trace, cycles: Array) -> Mapping[str, float]:
    """Which share of the vector unit's `cycles` (one for each instruction) each library function has."""
    of = calls(trace)
    if of is None:
        return {}
    vector = np.array([op.pipe == "V" and op.kind == "compute" for op in trace.ops])[trace.instrs["op"]]
    whole = max(1e-9, float(cycles[vector].sum()))
    found = {}
    for i in np.unique(of[of >= 0]):
        found[trace.ops[i].name.removeprefix(LIBRARY)] = float(cycles[vector & (of == i)].sum()) / whole
    return found


def unverified(trace: Trace) -> Array | None:
    """Whether each instruction belongs to a library call whose plan no published row verifies; None: none does."""
    of = calls(trace)
    if of is None:
        return None
    known = verified()
    unknown = np.array([op.name.removeprefix(LIBRARY) not in known for op in trace.ops])
    return np.asarray((of >= 0) & unknown[of])
