"""Operands of the advanced functions that lie where their documentation forbids it.

Each call leaves a mark in the trace, followed by the basic instructions that do its work. What they read before the call has written it is
a source, what they write outside the temporary space a destination.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import numpy as np

from toprope.check.describe import Describer
from toprope.finding import Finding, codes
from toprope.trace import LIBRARY, READ, SPACES, WRITE, Accesses, Trace

APART = frozenset((
    "Acos", "Acosh", "AntiQuantize", "AscendAntiQuant", "AscendDequant", "Asin", "Asinh", "Atan", "Atanh",
    "BitwiseAnd", "BitwiseNot", "BitwiseOr", "BitwiseXor", "Broadcast", "Ceil", "Clamp", "ClampMax", "ClampMin",
    "Cos", "Cosh", "Dequantize", "Digamma", "Erf", "Erfc", "Exp", "Floor", "Fma", "Fmod", "Frac", "GeGLU", "Hypot",
    "IsFinite", "IsInf", "IsNan", "Lgamma", "Log", "Log2", "Log10", "LogSoftMax", "LogicalAnd", "LogicalAnds",
    "LogicalNot", "LogicalOr", "LogicalOrs", "LogicalXor", "Mean", "Power", "Quantize", "ReGlu", "ReduceAll",
    "ReduceAny", "ReduceMax", "ReduceMean", "ReduceMin", "ReduceProd", "ReduceSum", "ReduceXorSum", "Rint", "Sigmoid",
    "Sign", "Silu", "Sin", "SinCos", "Sinh", "Sort", "Sum", "SwiGLU", "Swish", "Tan", "Tanh", "TopK", "TransData",
    "WelfordFinalize", "WelfordUpdate", "Where", "Xor",
))  # fmt: skip
"""Functions whose pages say that sources and destinations must not overlap (高阶API, section on constraints of each)."""
_LOOKED_AT = 8  # calls of each source line
_UB = SPACES.index("ub")


def overlapping_operands(trace: Trace) -> list[Finding]:
    """Errors about calls whose destination overlaps a source, or whose temporary space overlaps either."""
    marks = {i for i, op in enumerate(trace.ops) if op.kind == "mark" and op.name.startswith(LIBRARY)}
    if not marks:
        return []
    begins = np.concatenate(([0], np.cumsum(trace.instrs["accesses"], dtype=np.int64)))
    ranges, seen, out = trace.decoded(), Counter[tuple[int, int]](), {}
    words = Describer(trace)
    core = trace.core_of_instr()
    # A call that was told to have too little space works behind it: that is its one mistake.
    short = {r.site for r in trace.reports if r.code == "temporary-space-too-small"}
    for at in np.flatnonzero(np.isin(trace.instrs["op"], list(marks))).tolist():
        site, op = int(trace.instrs["site"][at]), int(trace.instrs["op"][at])
        seen[site, op] += 1
        if (site, op) in out or seen[site, op] > _LOOKED_AT or site in short:
            continue
        end = _end(trace, at, site, op, core)
        call = _Call(ranges, int(begins[at]), int(begins[end]), trace.instrs[at])
        if message := call.problem(trace.ops[op].name.removeprefix(LIBRARY)):
            row = codes()["operand-overlap"]
            place = replace(words.place(at), op=trace.ops[op].name.removeprefix(LIBRARY), pipe="V")
            out[site, op] = Finding(
                row.name, row.severity, message, (place,), CURE, 1, (int(core[at]),), data={"instr": at}
            )
    return list(out.values())


CURE = "give the call a destination and temporary space of their own"


def _end(trace: Trace, at: int, site: int, op: int, core: np.ndarray[tuple[int], np.dtype[np.uint16]]) -> int:
    """The first instruction behind the call: another line, another call on the same line, or another core."""
    end = at + 1
    while (
        end < len(trace.instrs)
        and trace.instrs["site"][end] == site
        and trace.instrs["op"][end] != op
        and core[end] == core[at]
    ):
        end += 1
    return end


class _Call:
    """The bytes of UB that one call reads before it has written them, and those that it writes."""

    def __init__(self, ranges: Accesses, begin: int, end: int, mark: np.void) -> None:
        low, size = int(mark["work"]), int(mark["arg"])
        self.temporary = (low, low + size)
        self.sources: list[tuple[int, int]] = []
        self.results: list[tuple[int, int]] = []
        self.inside: list[tuple[int, int]] = []
        rows = zip(
            *(
                c[begin:end].tolist()
                for c in (
                    ranges.space,
                    ranges.mode,
                    ranges.address,
                    ranges.row_bytes,
                    ranges.rows,
                    ranges.stride,
                    ranges.more,
                )
            ),
            strict=True,
        )
        outer = False
        for space, mode, address, row_bytes, count, stride, more in rows:
            follows, outer = outer, bool(more)
            if follows or space != _UB or not row_bytes or not count:
                continue
            pieces = (
                [(address, address + count * row_bytes)]
                if stride == row_bytes or count == 1
                else [(address + i * stride, address + i * stride + row_bytes) for i in range(min(count, 256))]
            )
            for piece in pieces:
                if mode & READ:
                    self._reads(piece)
                if mode & WRITE:
                    (self.inside if self._in_temporary(piece) else self.results).append(piece)

    def _in_temporary(self, piece: tuple[int, int]) -> bool:
        return self.temporary[0] <= piece[0] and piece[1] <= self.temporary[1]

    def _reads(self, piece: tuple[int, int]) -> None:
        if not any(_share(piece, done) for done in (*self.results, *self.inside)):
            self.sources.append(piece)

    def problem(self, name: str) -> str:
        """What overlaps, as a sentence; empty if nothing that may not."""
        if name in APART and (pair := _first(self.sources, self.results)):
            return f"{name}: dst and a source share UB[{pair[0]}:{pair[1]}]; this function needs them apart"
        if self.temporary[1] > self.temporary[0]:
            space = [self.temporary]
            if pair := _first(self.sources, space):
                return f"{name}: the temporary space UB[{space[0][0]}:{space[0][1]}] overlaps a source at UB[{pair[0]}:{pair[1]}]"
            if self.inside and not self.results:
                return f"{name}: dst lies in the temporary space UB[{space[0][0]}:{space[0][1]}]"
            straddling = [r for r in self.results if _share(r, self.temporary)]
            if pair := _first(straddling, space):
                return f"{name}: the temporary space UB[{space[0][0]}:{space[0][1]}] overlaps dst at UB[{pair[0]}:{pair[1]}]"
        return ""


def _share(one: tuple[int, int], two: tuple[int, int]) -> bool:
    return one[0] < two[1] and two[0] < one[1]


def _first(ones: list[tuple[int, int]], twos: list[tuple[int, int]]) -> tuple[int, int] | None:
    for one in ones:
        for two in twos:
            if _share(one, two):
                return max(one[0], two[0]), min(one[1], two[1])
    return None
