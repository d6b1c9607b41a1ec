"""Copies whose own rows overlap: a pitch smaller than the row."""

from __future__ import annotations

import numpy as np

from toprope.check.describe import Describer
from toprope.finding import Finding, codes
from toprope.trace import WRITE, Trace


def overlapping_rows(trace: Trace) -> list[Finding]:
    """Errors about copies of several rows that write some bytes more than once; which row remains is not defined. Atomic copies add up."""
    ranges = trace.decoded()
    copies = np.array([op.kind == "copy" for op in trace.ops] + [False])
    ops = np.minimum(trace.instrs["op"][ranges.instr], len(trace.ops))
    found = copies[ops] & (ranges.mode == WRITE) & (ranges.rows > 1) & (np.abs(ranges.stride) < ranges.row_bytes)
    words, row, out = Describer(trace), codes()["rows-overlap"], {}
    for r in np.flatnonzero(found):
        at = int(ranges.instr[r])
        site = int(trace.instrs["site"][at])
        if site in out:
            continue
        message = (
            f"{words.op(at)} writes {int(ranges.rows[r])} rows of {int(ranges.row_bytes[r])} bytes, "
            f"{int(abs(ranges.stride[r]))} bytes from one to the next"
        )
        out[site] = Finding(row.name, row.severity, message, (words.place(at, "writes"),), row.cure, data={"instr": at})
    return list(out.values())
