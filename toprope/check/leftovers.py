"""What a kernel asked for and never used."""

from __future__ import annotations

from collections.abc import Sequence

from toprope.finding import Finding, Place, codes
from toprope.soc import Soc
from toprope.trace import Trace


def leftovers(trace: Trace, soc: Soc, buffer_used: Sequence[bool]) -> list[Finding]:
    """Advice about InitBuffer lines whose memory no instruction of any core touches. `buffer_used`: one entry per row of `Trace.buffers`."""
    row = codes()["buffer-never-used"]
    used_sites = {b.site for b, used in zip(trace.buffers, buffer_used, strict=True) if used}
    by_site: dict[int, list[int]] = {}
    for i, b in enumerate(trace.buffers):
        # A core without this memory takes no part: the other build of the kernel uses it.
        if b.site not in used_sites and _has(trace.cores[b.core].type, b.space) and soc.bytes_of(b.space):
            by_site.setdefault(b.site, []).append(i)
    out = []
    for site, members in by_site.items():
        first = trace.buffers[members[0]]
        each = sum(b.bytes for b in trace.buffers if b.site == site and b.core == first.core)
        place = Place(
            trace.sites[site].file, trace.sites[site].line, "InitBuffer", "", f"{each} bytes of {first.space.upper()}"
        )
        message = f"no instruction touches the {each} bytes of {first.space.upper()} that this InitBuffer hands out"
        cores = tuple(sorted({trace.buffers[i].core for i in members}))
        out.append(
            Finding(
                "buffer-never-used", row.severity, message, (place,), row.cure, len(members), cores, bytes_at_stake=each
            )
        )
    return out


def _has(core_type: str, space: str) -> bool:
    return core_type == "coupled" or (core_type == "aiv") == (space == "ub")
