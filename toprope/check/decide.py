"""How severe a doubtful finding is, by its consequence: undefined bytes that reach nobody, cores that write equal values."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from toprope.check.opinion import Opinion
from toprope.finding import Finding
from toprope.trace import Trace

Told = tuple[int, Finding]  # the instruction that shows it, and the finding


def decided(told: Sequence[Told], trace: Trace, opinion: Opinion | None) -> list[Told]:
    """The findings with the severity that their consequence deserves; those that are none are left out."""
    undefined = [f for _, f in told if f.code == "uninitialised-read"]
    doubtful = [f for f in undefined if not f.data["tail"]]
    clause = opinion.depends_on_undefined() if opinion and doubtful else None
    certain = any(not f.data["weak"] for f in undefined)
    raced = [
        (f.data["begin"], f.data["end"]) for _, f in told if f.code in ("race-between-cores", "race-cores-write-same")
    ]
    read_too_early = [(f.data["begin"], f.data["end"]) for _, f in told if f.code == "race-between-cores"]
    out = []
    for at, finding in told:
        if finding.data.get("space") == "GM" and finding.code == "uninitialised-read" and _touches(finding, raced):
            continue  # another core writes those bytes, too late
        if finding.code == "uninitialised-read":
            judged = _undefined(finding, clause, certain)
        elif finding.code == "race-cores-write-same" and opinion and not finding.data["atomic"]:
            # Cores that read what the others write, too early, write what depends on who came first, even if the end is the same here.
            judged = finding if _touches(finding, read_too_early) else _both_write(finding, trace, opinion)
        else:
            judged = finding
        if judged is not None:
            out.append((at, judged))
    return out


def _touches(finding: Finding, ranges: Sequence[tuple[int, int]]) -> bool:
    return any(finding.data["begin"] < end and begin < finding.data["end"] for begin, end in ranges)


def _undefined(finding: Finding, clause: str | None, certain: bool) -> Finding | None:
    """`clause`: what depends on undefined bytes in this run, "" nothing, None not known. `certain`: the run has other such reads that
    are known to be mistakes."""
    weak = finding.data["weak"]
    if finding.data["tail"]:
        message = finding.message + "; only the rest of the copy's last block of 32 bytes is concerned"
        cure = "copy the elements only, with DataCopyPad, if anything reads what lies behind them"
        return replace(finding, severity="warning", message=message, cure=cure)
    if clause is None:
        return None if weak else finding
    if clause:
        if weak and certain:
            return None
        return replace(finding, message=f"{finding.message}; with other bytes there, {clause}") if weak else finding
    if weak:
        return None
    message = finding.message + "; no output depends on it"
    return replace(finding, severity="advice", message=message)


def _both_write(finding: Finding, trace: Trace, opinion: Opinion) -> Finding:
    begin, end = finding.data["begin"], finding.data["end"]
    row = next((g for g in trace.gm if g.address <= begin < g.address + g.bytes), None)
    if row is None or not opinion.same_in_reverse(row.name, begin - row.address, end - row.address):
        return finding
    message = finding.message + "; in this run both write the same values"
    return replace(finding, severity="warning", message=message)


def with_consequences(seen: Sequence[Told]) -> list[Told]:
    """A mask that was left changed is an error where instructions behind it left lanes unwritten that are used."""
    short = [at for at, f in seen if f.code == "uninitialised-read" and f.severity == "error"]
    masks = [f for _, f in seen if f.code == "mask-left-changed"]
    if not short or not masks:
        return list(seen)
    out = []
    for at, finding in seen:
        if finding.code == "mask-left-changed" and finding.data.get("instr", 0) < max(short):
            message = (
                finding.message + "; here already, lanes that it switches off are used without having been written"
            )
            out.append((at, replace(finding, severity="error", message=message)))
        else:
            out.append((at, finding))
    return out
