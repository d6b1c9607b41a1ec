"""Offsets that left their type on the vector unit: integer arithmetic wraps there, and what a Gather makes of it is another element."""

from __future__ import annotations

import numpy as np

from toprope.check.describe import Describer
from toprope.finding import Finding, codes
from toprope.trace import SPACES, WRITE, Array, ReportRow, Trace

TAKES_OFFSETS = ("Gather", "Gatherb", "Scatter")
CURE = "keep offsets in range: take the row number off first (Gather inside one row, and copy the row with DataCopy), or use smaller steps"
_FOLLOWED = 100_000  # instructions behind the one that wraps
_UB = SPACES.index("ub")

Bytes = tuple[int, int]


def wrapped_offsets(trace: Trace) -> list[Finding]:
    """Errors about lanes that wrapped in a vector instruction and are taken as offsets later, on the same core."""
    takers = [i for i, op in enumerate(trace.ops) if op.name in TAKES_OFFSETS]
    notes = [n for n in trace.notes if n.code == "integer-overflow"]
    if not notes or not takers:
        return []
    words, followed, row, out = Describer(trace), _Follower(trace, takers), codes()["integer-overflow"], []
    for note in notes:
        at = int(trace.core_begin[note.core]) + note.instr
        taker = followed.taker(at, note)
        if taker is None:
            continue
        lanes = int(note.text.split()[0])
        message = (
            f"{lanes} lane{'s' if lanes > 1 else ''} of {words.op(at)} do not fit into the type and wrap, and "
            f"{words.op(taker)} takes the result as offsets"
        )
        places = (words.place(at, "wraps"), words.place(taker, "takes it as offsets"))
        data = {"instr": at, "taker": int(trace.instrs["site"][taker])}
        out.append(Finding(row.name, "error", message, places, CURE, note.count, (note.core,), data=data))
    return out


def reads_offsets(trace: Trace, finding: Finding) -> bool:
    """Whether a finding is about the offsets that a Gather reads."""
    at = int(finding.data["instr"])
    if trace.ops[int(trace.instrs["op"][at])].name not in TAKES_OFFSETS:
        return False
    first = int(trace.instrs["accesses"][:at].sum(dtype=np.int64))  # the offsets are told first
    return _meet((finding.data["begin"], finding.data["end"]), _Follower(trace, []).hull(first))


class _Follower:
    """What becomes of bytes of UB: they are computed on, overwritten, or taken as offsets."""

    def __init__(self, trace: Trace, takers: list[int]) -> None:
        self._trace = trace
        self._takers = takers
        self._ranges = trace.decoded()
        self._begins: Array = np.concatenate(([0], np.cumsum(trace.instrs["accesses"], dtype=np.int64)))

    def taker(self, at: int, note: ReportRow) -> int | None:
        """The instruction that takes what instruction `at` wrote as offsets, or values computed from it; None if there is none."""
        _, begin, end = map(int, note.text.split())
        tainted: list[Bytes] = [(begin, end)]
        last = min(int(self._trace.core_begin[note.core + 1]), at + 1 + _FOLLOWED)
        for i in range(at + 1, last):
            touched = [r for r in range(int(self._begins[i]), int(self._begins[i + 1])) if self._ranges.space[r] == _UB]
            if not touched:
                continue
            reads = [self.hull(r) for r in touched if not self._ranges.mode[r] & WRITE]
            hit = any(_meet(one, two) for one in reads for two in tainted)
            if self._trace.instrs["op"][i] in self._takers:
                if _any_meets(self.hull(touched[0]), tainted):  # the offsets are told first
                    return i
                hit = False
            for r in touched:
                if self._ranges.mode[r] & WRITE:
                    tainted = _without(tainted, self.hull(r))
                    if hit:
                        tainted.append(self.hull(r))
            if not tainted:
                return None
        return None

    def hull(self, r: int) -> Bytes:
        """The bytes from the first to the last of range `r` of the trace."""
        begin = int(self._ranges.address[r])
        behind = max(0, int(self._ranges.rows[r]) - 1) * int(self._ranges.stride[r])
        return begin, begin + behind + int(self._ranges.row_bytes[r])


def _meet(one: Bytes, two: Bytes) -> bool:
    return one[0] < two[1] and two[0] < one[1]


def _any_meets(one: Bytes, others: list[Bytes]) -> bool:
    return any(_meet(one, other) for other in others)


def _without(ranges: list[Bytes], taken: Bytes) -> list[Bytes]:
    pieces = [p for b, e in ranges for p in ((b, min(e, taken[0])), (max(b, taken[1]), e))]
    return [(b, e) for b, e in pieces if b < e]
