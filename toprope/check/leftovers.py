"""What a kernel leaves behind: buffers it never used, and registers that the next kernel would inherit."""

from __future__ import annotations

from collections.abc import Collection, Sequence

import numpy as np

from toprope.check.describe import Describer
from toprope.finding import Finding, Place, Severity, codes
from toprope.soc import Soc
from toprope.trace import WRITE, Trace


def unused_buffers(trace: Trace, soc: Soc, buffer_used: Sequence[bool]) -> list[Finding]:
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


def unused_arguments(trace: Trace, used: Collection[str]) -> list[Finding]:
    """Advice about GM arguments that no instruction reads or writes. Tiling and workspace, which a kernel may well ignore, are left out."""
    place = Describer(trace).first_place()
    row = codes()["argument-never-used"]
    out = []
    for gm in trace.gm:
        if gm.name in used or "tiling" in gm.name.lower() or "workspace" in gm.name.lower():
            continue
        message = f"no instruction reads or writes the argument {gm.name} ({gm.bytes} bytes)"
        out.append(Finding("argument-never-used", row.severity, message, place, row.cure, bytes_at_stake=gm.bytes))
    return out


_LARGE_BYTES = 1 << 28


def unwritten_outputs(trace: Trace, outputs: Collection[str]) -> list[Finding]:
    """Warnings about outputs that are never written: wholly; in a last part, smaller than one of the kernel's copies (a tile that does not
    divide the length); less than half of it, in whole tiles that were not counted; or in gaps of one size (a pitch too long). `outputs` are
    GM arguments that hold nothing before the launch."""
    ranges = trace.decoded()
    row = codes()["output-not-written"]
    out = []
    for gm in trace.gm:
        inside = (ranges.space == 0) & (ranges.mode & WRITE > 0) & (ranges.row_bytes > 0)
        inside &= (ranges.address >= gm.address) & (ranges.address < gm.address + gm.bytes)
        if gm.name not in outputs or gm.bytes > _LARGE_BYTES:
            continue
        if not inside.any():
            message = f"no instruction writes {gm.name} ({gm.bytes} bytes)"
            cure = (
                "check that the loop and the condition around the copy that writes it are reached, that it is DataCopy(destination, source, count), "
                "and that arguments are in the order of the kernel; or do not describe it as an output"
            )
            begin = Describer(trace).first_place()
            out.append(Finding("output-not-written", row.severity, message, begin, cure, bytes_at_stake=gm.bytes))
            continue
        begins, sizes = ranges.address[inside] - gm.address, ranges.row_bytes[inside]
        hulls = sizes + np.maximum(ranges.rows[inside] - 1, 0) * np.abs(ranges.stride[inside])
        hulls[ranges.more[inside]] = (
            gm.bytes
        )  # stores in several dimensions: taken as everything behind their first byte
        edges = np.zeros(gm.bytes + 1, np.int64)
        np.add.at(edges, begins, 1)
        np.add.at(edges, np.minimum(begins + hulls, gm.bytes), -1)
        missing = np.flatnonzero(np.cumsum(edges[:-1]) == 0)
        largest = int(hulls.max())
        runs = np.split(missing, np.flatnonzero(np.diff(missing) > 1) + 1) if len(missing) else []
        gaps = {len(run) for run in runs if run[0] > 0 and run[-1] < gm.bytes - 1}
        regular = len(gaps) == 1 and len(runs) > 2
        whole = any(len(run) >= largest for run in runs)
        if not runs or (whole and 2 * len(missing) >= gm.bytes and not regular):
            continue
        last = int(ranges.instr[np.flatnonzero(inside)[-1]])
        place = Describer(trace).place(last, f"writes {gm.name}")
        first = runs[0]
        message = f"{len(missing)} of the {gm.bytes} bytes of {gm.name} are never written, the first of them {gm.name}[{first[0]}:{first[-1] + 1}]"
        out.append(
            Finding(
                "output-not-written",
                row.severity,
                message,
                (place,),
                "compare blocks x tiles x tile length with the output's length: a loop ends too early, or the length is not this array's"
                if whole
                else row.cure,
                bytes_at_stake=len(missing),
            )
        )
    return out


def _has(core_type: str, space: str) -> bool:
    return core_type == "coupled" or (core_type == "aiv") == (space == "ub")


# Register -> the operations that set it, the ones that put its default back, the code, and what the next kernel would do.
_REGISTERS = (
    (("SetAtomic",), ("InitSocState",), "atomic-mode-left-on", "the next kernel's copies to GM would be atomic too"),
    (
        ("SetMaskCount",),
        ("SetMaskNorm", "InitSocState"),
        "mask-left-changed",
        "the next kernel would read its lane masks as element counts",
    ),
    (
        ("SetVectorMask",),
        ("ResetMask", "InitSocState"),
        "mask-left-changed",
        "the next kernel's vector instructions would skip lanes",
    ),
)


def registers_left(trace: Trace) -> list[Finding]:
    """Warnings about special registers that are not at their default when a core ends."""
    words = Describer(trace)
    out: dict[tuple[str, int], Finding] = {}
    for setters, resetters, code, effect in _REGISTERS:
        relevant = [i for i, op in enumerate(trace.ops) if op.name in setters or op.name in resetters]
        at = np.flatnonzero(np.isin(trace.instrs["op"], relevant))
        last_of_core = np.searchsorted(at, trace.core_begin[1:]) - 1
        for core, k in enumerate(last_of_core):
            if k < 0 or at[k] < trace.core_begin[core]:
                continue
            instr = int(at[k])
            row = trace.instrs[instr]
            name = trace.ops[int(row["op"])].name
            if name in resetters or (name == "SetAtomic" and int(row["work"]) == 0):
                continue
            seen = out.get((code, int(row["site"])))
            place = (words.place(instr, "sets the register"),)
            message = f"{name} is still in force when the core ends: {effect}"
            severity: Severity = codes()[code].severity
            cores = (*seen.cores, core) if seen else (core,)
            out[code, int(row["site"])] = Finding(
                code, severity, message, place, codes()[code].cure, len(cores), cores, data={"instr": instr}
            )
    return list(out.values())


_SYNC_ALL_FLAGS = range(11, 15)


def reserved_flags(trace: Trace) -> list[Finding]:
    """Warnings about CrossCoreSetFlag on the flags that SyncAll uses, in a kernel that calls SyncAll."""
    sets, waits = (
        np.flatnonzero(np.isin(trace.instrs["op"], [i for i, op in enumerate(trace.ops) if op.kind == kind]))
        for kind in ("cross_set", "cross_wait")
    )
    # SyncAll sets and waits on one line of the user's source.
    sync_all = set(trace.instrs["site"][sets]) & set(trace.instrs["site"][waits])
    words, out = Describer(trace), {}
    row = codes()["cross-flag-reserved"]
    for instr in sets if sync_all else ():
        site, flag = int(trace.instrs[instr]["site"]), int(trace.instrs[instr]["work"]) & 0xFF
        if flag in _SYNC_ALL_FLAGS and site not in sync_all and site not in out:
            message = f"flag {flag} is one of the four (11 to 14) that SyncAll uses, and this kernel calls SyncAll"
            out[site] = Finding(
                "cross-flag-reserved", row.severity, message, (words.place(int(instr), f"sets flag {flag}"),), row.cure
            )
    return list(out.values())
