"""Findings in the line format of the vendor's NPU sanitizer, so that scripts written for it can read ours.

The shape of the lines follows the public user guide of mssanitizer. Kinds that it does not know keep our own sentence behind
`====== ERROR:`. Addresses are ours: bytes from the start of the memory, or of the argument for GM.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from toprope.finding import Finding, Place
from toprope.trace import Trace

_RANGE = re.compile(r"(\w+)\[(-?\d+):(-?\d+)\]")
_MEMORIES = {"UB", "L1", "L0A", "L0B", "L0C", "BT", "FB"}
_ILLEGAL = {
    "gm-out-of-bounds",
    "gm-null-pointer",
    "on-chip-out-of-bounds",
    "buffer-out-of-bounds",
    "tensor-out-of-bounds",
    "use-after-free",
}


def vendor_lines(findings: Sequence[Finding], trace: Trace) -> str:
    """All findings, each as a block of `====== ` lines, blocks separated by an empty line."""
    return "\n\n".join("\n".join(f"====== {line}" for line in _block(f, trace)) for f in findings)


def _block(finding: Finding, trace: Trace) -> list[str]:
    if "hazard" in finding.data:
        return _hazard(finding, trace)
    level = {"error": "ERROR", "warning": "WARNING", "advice": "INFO"}[finding.severity]
    memory, begin, size = _range(finding)
    body = [
        f"   in block {_blocks(finding.cores, trace)} on device 0",
        *(_code(p, finding) for p in finding.places[:1]),
    ]
    where = [f"   at {begin:#x} on {memory} in {trace.kernel}"]
    if finding.code in _ILLEGAL:
        verb = "write" if re.search(r"\bwrites?\b|\bdst\b", finding.message) else "read"
        return [f"{level}: illegal {verb} of size {size}", *where, *body]
    if finding.code == "misaligned-address":
        return [f"{level}: misaligned access of size {size}", *where, *body]
    if finding.code == "uninitialised-read":
        return [f"{level}: uninitialized read of size {size}", *where, *body]
    if finding.code == "tensor-freed-twice":
        return [f"{level}: illegal free()", *where, *body]
    if finding.code == "tensor-never-freed":
        return [f"{level}: LeakCheck: detected memory leaks", *body]
    if finding.code == "buffer-never-used":
        return [f"WARNING: Unused memory of {finding.bytes_at_stake} byte(s)", *body]
    if finding.code == "missing-cache-clean":
        return [
            f"{level}: Missing DCCI instructions detected on cross core data dependency at GM in {trace.kernel}:",
            *body,
        ]
    if finding.code in {"flag-never-waited", "flag-wait-without-set"}:
        return [
            f"{level}: Unpaired {'set' if finding.code == 'flag-never-waited' else 'wait'}_flag instructions detected",
            *_flag(finding, trace),
            *body,
        ]
    if finding.code == "flag-set-twice":
        return [f"{level}: Redundant set_flag instructions detected", *_flag(finding, trace), *body]
    if finding.code == "deadlock":
        return [f"{level}: Sync error detected. kernel locked up at {finding.message}", *body]
    return [f"{level}: {finding.code}: {finding.message}", *body]


def _hazard(finding: Finding, trace: Trace) -> list[str]:
    data = finding.data
    lines = [f"ERROR: Potential {data['hazard']} hazard detected at {data['space']} in {trace.kernel} on device 0:"]
    verbs = {"RAW": ("Write", "Read"), "WAR": ("Read", "Write"), "WAW": ("Write", "Write")}[data["hazard"]]
    for verb, place, instr in zip(verbs, finding.places, (data["earlier"], data["instr"]), strict=True):
        core = int(sum(begin <= instr for begin in trace.core_begin)) - 1
        kind = trace.cores[core].type
        lines.append(
            f"   PIPE_{place.pipe} {verb} at {data['hazard']}()+{data['begin']:#x} in block {core} ({kind}) on device 0 (serialNo:{instr})"
        )
        lines.append(f"   #0 {place.file}:{place.line}")
    return lines


def _range(finding: Finding) -> tuple[str, int, int]:
    found = _RANGE.search(finding.message)
    if found is None:
        return "UB", 0, 0
    memory = found[1] if found[1] in _MEMORIES else "GM"
    return memory, max(0, int(found[2])), int(found[3]) - int(found[2])


def _blocks(cores: Sequence[int], trace: Trace) -> str:
    kinds: dict[str, list[int]] = {}
    for core in cores:
        kinds.setdefault(trace.cores[core].type, []).append(core)
    return ",".join(f"{kind}({_runs(numbers)})" for kind, numbers in kinds.items())


def _runs(numbers: list[int]) -> str:
    out: list[str] = []
    begin = end = numbers[0]
    for n in [*numbers[1:], -1]:
        if n == end + 1:
            end = n
            continue
        out.append(str(begin) if begin == end else f"{begin}-{end}")
        begin = end = n
    return ",".join(out)


def _flag(finding: Finding, trace: Trace) -> list[str]:
    found = re.search(r"\b([A-Z0-9]+)_([A-Z0-9]+)\b", finding.message)
    return [f"   from PIPE_{found[1]} to PIPE_{found[2]} in {trace.kernel}"] if found else []


def _code(place: Place, finding: Finding) -> str:
    return f"   code in {place.file}:{place.line} (serialNo:{finding.data.get('instr', 0)})"
