"""What a kernel asked for and never used: buffers and arguments."""

from __future__ import annotations

import numpy as np

from toprope.finding import Finding, Place, codes
from toprope.soc import Soc
from toprope.trace import SPACES, Trace


def leftovers(trace: Trace, soc: Soc) -> list[Finding]:
    """Advice about on-chip buffers that no instruction of any core touches."""
    if not trace.buffers:
        return []
    ranges = trace.decoded()
    extent = ranges.row_bytes + np.maximum(ranges.rows - 1, 0) * np.abs(ranges.stride)
    core_of = np.searchsorted(trace.access_begin, np.arange(len(ranges.instr)), side="right") - 1
    touched: dict[tuple[int, int], tuple[np.ndarray, np.ndarray]] = {}
    unused: dict[int, list[int]] = {}
    used_sites: set[int] = set()
    for i, b in enumerate(trace.buffers):
        key = (b.core, SPACES.index(b.space))
        if key not in touched:
            mine = (core_of == key[0]) & (ranges.space == key[1])
            pairs = np.unique(np.stack([ranges.address[mine], extent[mine]], axis=1), axis=0)
            touched[key] = (pairs[:, 0], pairs[:, 0] + pairs[:, 1])
        begin, end = touched[key]
        if bool(np.any((begin < b.address + b.bytes) & (end > b.address))):
            used_sites.add(b.site)
        else:
            unused.setdefault(b.site, []).append(i)
    row = codes()["buffer-never-used"]
    out = []
    for site, members in unused.items():
        first = trace.buffers[members[0]]
        if (
            site in used_sites
            or not soc.bytes_of(first.space)
            or trace.cores[first.core].type == ("aic" if first.space == "ub" else "aiv" if first.space != "ub" else "")
        ):
            continue
        place = Place(
            trace.sites[site].file,
            trace.sites[site].line,
            "InitBuffer",
            "",
            f"{first.bytes} bytes of {first.space.upper()}",
        )
        message = (
            f"no instruction touches the {first.bytes} bytes of {first.space.upper()} that this InitBuffer hands out"
        )
        cores = tuple(sorted({trace.buffers[i].core for i in members}))
        out.append(
            Finding(
                "buffer-never-used",
                row.severity,
                message,
                (place,),
                row.cure,
                len(members),
                cores,
                bytes_at_stake=first.bytes,
            )
        )
    return out
