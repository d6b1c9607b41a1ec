"""How far a prediction may be off: the band that held 80 % of published device times of the same kind of work.

The bands are those of rows predicted with constants that never saw their publisher (evidence.toml, written by
`python -m toprope.validation fit`).
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np

from toprope.trace import Trace

EVIDENCE = Path(__file__).parent / "evidence.toml"
SHORT_US = 10.0  # below, launching and starting up are most of the time
LEAST_ROWS = 5  # fewer say nothing about a spread
COVERED = 0.8
_REARRANGING = {"vgather", "vgatherb", "vreducev2", "vbs32", "vbs16", "vmrgsort4", "vscatter", "vconcat", "vextract"}
_REDUCING = ("vcadd", "vcmax", "vcmin", "vcgadd", "vcgmax", "vcgmin", "vcpadd")
_MEASURED_ARCHS = {"dav-2201"}  # evidence.toml has rows of these architectures only


@dataclass(frozen=True)
class Evidence:
    """What the published rows of one kind of work say: how many, of how many publishers, and device over predicted at both ends of the band."""

    kind: str
    rows: int
    publishers: int
    low: float
    high: float


@dataclass(frozen=True)
class Band:
    """Where a device time lies with 80 % probability, in microseconds; `known` is False where nothing published is like this kernel."""

    low_us: float
    high_us: float
    kind: str
    rows: int
    known: bool

    def __str__(self) -> str:
        digits = 0 if self.high_us >= 100 else 1 if self.high_us >= 10 else 2
        return f"{self.low_us:.{digits}f}–{self.high_us:.{digits}f}"

    def sentence(self) -> str:
        """What the band rests on."""
        if self.known:
            return f"80 % of {self.rows} published times of this kind ({self.kind}) lie in such a band"
        return f"no published time of this kind ({self.kind}): the band is twice that of all others"


def band(trace: Trace, us: float, arch: str) -> Band:
    """The band around a prediction in microseconds on a chip of this architecture, by the kind of the work."""
    return around(us, kind_of(trace, us), measured=arch in _MEASURED_ARCHS)


def around(us: float, kind: str, *, measured: bool, table: Mapping[str, Evidence] | None = None) -> Band:
    """The band around a time in microseconds; `measured`: published times of this architecture exist."""
    known = evidence() if table is None else table
    found = known.get(kind)
    if found is not None and found.rows >= LEAST_ROWS and measured:
        return Band(us * found.low, us * found.high, kind, found.rows, True)
    whole = known["all"]
    return Band(us * whole.low**2, us * whole.high**2, kind, 0, False)


@cache
def evidence() -> dict[str, Evidence]:
    """The bands by kind of work; "all" is that of every row."""
    table = tomllib.loads(EVIDENCE.read_text())
    return {row["kind"]: Evidence(**row) for row in table["kinds"]}


def kind_of(trace: Trace, us: float) -> str:
    """What most of the work is, of a kernel that takes so many microseconds: the same names for a published row and for a user's kernel."""
    names = {op.cost for op in trace.ops}
    types = {core.type for core in trace.cores}
    if "matmul_step" in names:
        return "products by the Matmul object"
    if len(types) > 1:
        return "cube and vector cores together"
    if "mmad" in names:
        return "products"
    if us < SHORT_US:
        return "short vector kernels"
    counts = _counts(trace)
    if counts["scalar"] > 0.2:
        return "scalar work between vector instructions"
    if counts["vector"] == 0:
        return "copies"
    if counts["rearranging"] > 0.1:
        return "gathering and sorting"
    if counts["reducing"] > 0.1:
        return "reductions"
    return "element-wise work"


def _counts(trace: Trace) -> dict[str, float]:
    """Scalar accesses as a share of all instructions; instructions of the vector unit, and which share of their repeats rearranges or reduces."""
    costs = [op.cost for op in trace.ops]
    rows = trace.instrs["op"]
    each = np.bincount(rows, minlength=len(costs)) if len(rows) else np.zeros(len(costs))
    work = np.bincount(rows, weights=trace.instrs["work"], minlength=len(costs)) if len(rows) else np.zeros(len(costs))
    vector = np.array([op.pipe == "V" and op.kind == "compute" for op in trace.ops], bool)
    of = {
        "scalar": np.array([cost in ("scalar_load", "scalar_store") for cost in costs], bool),
        "rearranging": np.array([cost in _REARRANGING for cost in costs], bool),
        "reducing": np.array([cost in _REDUCING for cost in costs], bool),
    }
    total = max(1.0, float(each.sum()))
    repeats = max(1.0, float(work[vector].sum()))
    return {
        "scalar": float(each[of["scalar"]].sum()) / total,
        "vector": float(each[vector].sum()),
        "rearranging": float(work[of["rearranging"]].sum()) / repeats,
        "reducing": float(work[of["reducing"]].sum()) / repeats,
    }
