"""Schedule exploration: what the outputs become when two instructions that nothing orders take effect the other way round."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import numpy as np

from toprope.check.describe import Describer
from toprope.finding import Finding, codes
from toprope.runtime import Delay
from toprope.trace import Array, Trace

# Runs the launch again on fresh copies of its arguments, with a delay (or none), the last core first or not: the trace and the arrays.
Again = Callable[[Delay | None, bool], tuple[Trace, Mapping[str, Array]]]


def explore(trace: Trace, findings: Sequence[Finding], outputs: Mapping[str, Array], again: Again) -> list[Finding]:
    """The findings with `outcome` filled in where one is about order, and a warning if the order of the cores changes the result.

    `outputs` are the arrays of the run that gave `trace` and `findings`. Each race costs one run more, or two if it is about
    reading too late. The delayed instruction waits for no longer than the other one takes, so every schedule is one that the
    kernel's own flags and barriers allow. Where the first pair of instructions changes no output, a few later ones are tried.
    """
    told = [replace(f, outcome=_outcome(trace, f, outputs, again)) if _about_order(f) else f for f in findings]
    if len(trace.cores) > 1 and not trace.signal and not any(f.severity == "error" for f in findings):
        _, arrays = again(None, True)
        if difference := _difference(outputs, arrays):
            row = codes()["core-order-changes-result"]
            message = f"when the last core runs first, {difference}"
            told.append(Finding(row.name, row.severity, message, Describer(trace).first_place(), row.cure))
    return told


def _about_order(finding: Finding) -> bool:
    swaps = finding.code.startswith("race-") or finding.code == "missing-cache-clean"
    return swaps and finding.data.get("earlier", finding.data.get("instr")) != finding.data.get("instr")


def _outcome(trace: Trace, finding: Finding, outputs: Mapping[str, Array], again: Again) -> str:
    """What the first pair does, or the first of the later ones that shows more than it."""
    pairs = [(finding.data["earlier"], finding.data["instr"]), *finding.data.get("later", ())]
    first = ""
    for late, early in pairs:
        what, shown = _swapped(trace, int(late), int(early), finding.data.get("hazard") == "WAR", outputs, again)
        first = first or what
        if shown:
            return what
    return first


def _swapped(
    trace: Trace, late: int, early: int, reads: bool, outputs: Mapping[str, Array], again: Again
) -> tuple[str, bool]:
    """What becomes of the outputs when `late` takes effect after `early`, and whether anything does."""
    words = Describer(trace)
    one, two = (f"{words.op(i)} (line {words.place(i).line}, {words.pipe(i)})" for i in (late, early))
    what = f"with {one} later than {two}"
    delay = Delay(trace, late, early, "write")
    if reads:
        observed = Delay(trace, late, early, "observe")
        again(observed, False)
        delay = replace(observed, kind="read")
    other, arrays = again(delay, False)
    if other.signal:
        return f"{what}, the kernel crashes", True
    if difference := _difference(outputs, arrays):
        return f"{what}, {difference}", True
    if new := {r.code for r in other.reports} - {r.code for r in trace.reports}:
        return f"{what}, the run ends with {', '.join(sorted(new))}", True
    if not delay.happened:
        return f"{what}, every byte is what it was: with this data the two orders give the same", False
    return f"{what}, the bytes that they share change, but they reach no output", False


def _difference(outputs: Mapping[str, Array], others: Mapping[str, Array]) -> str:
    """The first element that differs and how many do, as a clause; empty if every output is the same to the bit."""
    for name, array in outputs.items():
        ours, theirs = array.reshape(-1), others[name].reshape(-1)
        item = array.dtype.itemsize
        differs = (ours.view(np.uint8) != theirs.view(np.uint8)).reshape(-1, item).any(axis=1)
        if differs.any():
            at = int(np.argmax(differs))
            count = f"{int(differs.sum())} of {len(ours)} elements differ"
            return f"{name}[{at}] is {theirs[at]} instead of {ours[at]} ({count})"
    return ""
