"""Findings that only follow from another one are left out: one mistake is one finding."""

from __future__ import annotations

from collections.abc import Sequence

from toprope.check.wrapped_offsets import reads_offsets, wrapped_offsets
from toprope.finding import Finding
from toprope.trace import WRITE, ReportRow, SiteRow, Trace

Told = tuple[int, Finding]  # the instruction that shows it, and the finding

# After one of these an instruction was not carried out, or not as it was meant: its destination is not what the kernel takes it for.
_REFUSED = {
    "gm-out-of-bounds", "gm-null-pointer", "on-chip-out-of-bounds", "wrong-position", "no-such-path", "cast-round-mode", "compare-mode",
    "copy-mode-not-modelled", "field-overflow", "slice-mismatch", "unaligned-length", "select-mode", "quant-mode-missing", "transpose-needs-16-bit",
    "transpose-type", "layout-mismatch", "softmax-shape", "temporary-space-too-small", "mmad-size-limit", "mmad-types",
    "matmul-spill-too-large", "mrgsort-valid-bits", "mrgsort-queue-too-long", "gather-mask-pattern", "proposal-field",
}  # fmt: skip
_OF_OFFSETS = {"gather-index-out-of-range", "misaligned-address"}


def without_consequences(trace: Trace, seen: Sequence[Told]) -> list[Told]:
    """The findings without reads of what a refused instruction did not write, and without offsets out of range that an overflow or
    undefined bytes explain; with those overflows."""
    wrapped = wrapped_offsets(trace)
    undefined = [f for _, f in seen if f.code == "uninitialised-read" and reads_offsets(trace, f)]
    explained = {trace.sites[f.data["taker"]] for f in wrapped}
    explained |= {trace.sites[int(trace.instrs["site"][f.data["instr"]])] for f in undefined}
    told = [(at, f) for at, f in seen if not (f.code in _OF_OFFSETS and _site(f) in explained)]
    told += [(f.data["instr"], f) for f in wrapped]
    told = [(at, f) for at, f in told if not _same_mistake(trace, f, told)]
    refused = _refusals(trace)
    return [(at, f) for at, f in told if not (f.code == "uninitialised-read" and _follows(trace, refused, at, f))]


def _same_mistake(trace: Trace, finding: Finding, told: Sequence[Told]) -> bool:
    """Whether another finding tells the same mistake better: two cores at the same two lines; an element past the tensor of a call whose operand leaves its buffer; a copy
    that fills a buffer anew too early, where it also overtakes who reads the buffer, or where the copies of one line begin inside a block."""
    if finding.code == "tensor-out-of-bounds":
        beyond = {"buffer-out-of-bounds", "on-chip-out-of-bounds"}
        return any(f.code in beyond and _site(f) == _site(finding) for _, f in told)
    if finding.code == "race-cores-write-same":  # an atomic copy reads and writes: once is enough
        lines = {(p.file, p.line) for p in finding.places}
        return any(f.code == "race-between-cores" and {(p.file, p.line) for p in f.places} == lines for _, f in told)
    if finding.code == "race-missing-pipe-barrier":
        lines = {(p.file, p.line) for p in finding.places}
        cut = [f for _, f in told if f.code == "misaligned-address" and (f.places[0].file, f.places[0].line) in lines]
        overtaken = [
            f
            for _, f in told
            if f.code == "race-unordered-pipes" and f.data["earlier"] == finding.data["instr"] and _touch(f, finding)
        ]
        if cut and len(lines) == 1:
            return True
        return bool(overtaken) and _written(trace, finding.data["earlier"]) == _written(trace, finding.data["instr"])
    return False


def _written(trace: Trace, instr: int) -> list[tuple[int, int, int]]:
    """Address, bytes and rows of what an instruction writes."""
    ranges = trace.decoded()
    mine = (ranges.instr == instr) & (ranges.mode & WRITE > 0)
    columns = (ranges.address[mine], ranges.row_bytes[mine], ranges.rows[mine])
    return [(int(a), int(n), int(r)) for a, n, r in zip(*columns, strict=True)]


def _touch(one: Finding, two: Finding) -> bool:
    return bool(one.data["begin"] < two.data["end"] and two.data["begin"] < one.data["end"])


def _site(finding: Finding) -> SiteRow:
    return SiteRow(finding.places[0].file, finding.places[0].line)


def _follows(trace: Trace, refused: Sequence[int], at: int, finding: Finding) -> bool:
    """Whether a read of undefined bytes comes after a refused instruction that may have been to write them: of the same core, or in GM."""
    anywhere = finding.data.get("space") == "GM"
    return any(begin <= at for begin in refused if anywhere or _same_core(trace, begin, at))


def _refusals(trace: Trace) -> list[int]:
    """Where an instruction was refused and nothing in the trace says which bytes it would have written."""
    marks = {i for i, op in enumerate(trace.ops) if op.name == "refused access"}
    return [
        int(trace.core_begin[r.core]) + r.instr
        for r in trace.reports
        if r.code in _REFUSED and not r.severity and not _recorded(trace, r, marks)
    ]


def _recorded(trace: Trace, report: ReportRow, marks: set[int]) -> bool:
    """Whether the instruction left a mark of what it was to write."""
    at = int(trace.core_begin[report.core]) + report.instr
    if at >= int(trace.core_begin[report.core + 1]) or int(trace.instrs["site"][at]) != report.site:
        return False
    return int(trace.instrs["op"][at]) in marks


def _same_core(trace: Trace, one: int, two: int) -> bool:
    cores = trace.core_begin.searchsorted([one, two], side="right")
    return bool(cores[0] == cores[1])
