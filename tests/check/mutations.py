"""Small faults put into clean kernels, one at a time: does the check, or the result, show them?

All mutants of a page are compiled together, each in a namespace of its own with its entry renamed, so that a page costs one
compilation. `python -m tests.check.mutations` breaks every example and every page and writes the figures into docs/sanitizer.md.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from tests.ascendc.harness import kernels
from tests.check.pages import FOLDER, PREAMBLE, cases
from toprope.check import check
from toprope.check.replay import replay
from toprope.finding import Finding, Place
from toprope.kernel import KernelFile, load
from toprope.launch import arguments, read
from toprope.soc import load as load_soc
from toprope.trace import Trace

EXAMPLES = FOLDER.parent.parent / "examples"
MANUAL = FOLDER.parent.parent / "docs" / "sanitizer.md"

# Mutants that behave like the original, and why. Shrunken buffers with room to spare are found without this table.
EQUIVALENT: dict[tuple[str, str], str] = {
    ("offset_of_eight", "shift [8]"): "it reads another part of x, and nothing depends on what it reads",
    (
        "conv2d",
        "delete PipeBarrier<PIPE_M>()",
    ): "products of ten or more blocks of 16 x 16 need no barrier between them",
    (
        "adds_counts",
        "delete DataCacheCleanAndInvalid<int32_t, CacheLine::SINGLE_CACHE_LINE, DcciDst::CACHELINE_OUT>(counts[c * 16])",
    ): "the core that reads has never held these lines, so it fetches them from GM",
}

_DELETED = re.compile(
    r"^[ \t]*((?:AscendC::)?(?:SetFlag|WaitFlag|PipeBarrier|SyncAll|CrossCoreSetFlag|CrossCoreWaitFlag|IBSet|IBWait|SetAtomicNone|DataCacheCleanAndInvalid)\b[^;]*"
    r"|[\w.]+\.(?:EnQue|FreeTensor)(?:<[^;]*>)?\([^;]*\));",
    re.M,
)
_BUFFER = re.compile(r"InitBuffer\(([^;]*), ([^;]*)\);")
_INCLUDE = re.compile(r"^\s*#include.*\n", re.M)
_OFFSET = re.compile(r"DataCopy(?:Pad)?\([^;\[\]]*\[([^\[\]]+)\]")


@dataclass(frozen=True)
class Mutant:
    """A changed source and what was changed, for a person: "delete SetFlag<...>(0)" and the line in the clean source."""

    change: str
    line: int
    source: str


def mutants(source: str) -> Iterator[Mutant]:
    """Every synchronisation call deleted, every FreeTensor and EnQue deleted, every buffer 32 bytes smaller, every copy offset one
    block (16 elements) further."""
    for m in _DELETED.finditer(source):
        yield _changed(source, m.start(1), m.end() - 1, "", f"delete {m[1].strip()}")
    for m in _BUFFER.finditer(source):
        yield _changed(source, m.start(2), m.end(2), f"({m[2]}) - 32", f"shrink {m[0]}")
    for m in _OFFSET.finditer(source):
        yield _changed(source, m.start(1), m.end(1), f"({m[1]}) + 16", f"shift [{m[1]}]")


def _changed(source: str, begin: int, end: int, text: str, change: str) -> Mutant:
    return Mutant(change, source.count("\n", 0, begin) + 1, source[:begin] + text + source[end:])


BY_HAND = "race with --sync manual"


@dataclass(frozen=True)
class Verdict:
    """How a mutant came out: by a finding (its code), by one of a build without the compiler's syncs (BY_HAND), by a wrong result, or not
    at all (empty); and why, if it is no fault."""

    kernel: str
    mutant: Mutant
    shown_by: str
    equivalent: str = ""

    def __str__(self) -> str:
        return f"{self.kernel}: {self.mutant.change} (line {self.mutant.line}): {self.shown_by or self.equivalent or 'NOT SEEN'}"


@dataclass(frozen=True)
class Subject:
    """A clean kernel to be broken: its own text, its entry, how many blocks, fresh arguments for each run, how it is checked."""

    text: str
    entry: str
    blocks: int
    values: Callable[[], list[Any]]
    sync: str = "auto"
    soc: str = "ascend910b1"


def judge(shared: str, subjects: Sequence[Subject]) -> list[Verdict]:
    """Run clean kernels and all their mutants, compiled as one unit. `shared` is code in front of all."""
    changed = {s.entry: list(mutants(s.text)) for s in subjects}
    unit = shared + "".join(dict.fromkeys(line for s in subjects for line in _INCLUDE.findall(s.text)))
    for n, s in enumerate(subjects):
        for i, text in enumerate([s.text, *(m.source for m in changed[s.entry])]):
            body = re.sub(rf"\b{s.entry}\b", f"{s.entry}_m{i}", _INCLUDE.sub("", text))
            unit += f"namespace s{n}_m{i} {{\n{body}\n}}\nusing s{n}_m{i}::{s.entry}_m{i};\n"
    compiled = kernels(unit, f"mutants_{subjects[0].entry}")
    return [v for s in subjects for v in _verdicts(s, changed[s.entry], compiled)]


def _verdicts(subject: Subject, changed: Sequence[Mutant], compiled: KernelFile) -> list[Verdict]:
    def run(i: int) -> tuple[list[Finding], list[Any], Trace]:
        arguments = subject.values()
        done = compiled[f"{subject.entry}_m{i}"][subject.blocks](*arguments, soc=subject.soc, time_limit_s=5.0)
        found = [
            f for f in check(done.trace, done.soc, sync=subject.sync, launch=done.launch) if f.severity != "advice"
        ]
        return found, arguments, done.trace

    def races_by_hand(trace: Trace) -> int:
        found = check(trace, load_soc(subject.soc), sync="manual")
        return sum(f.code.startswith("race-") for f in found)

    findings, clean, trace = run(0)
    assert not findings, f"{subject.entry} is not clean: {findings[0]}"
    spare = _lines_with_spare_blocks(trace)
    verdicts = []
    for i, mutant in enumerate(changed, 1):
        findings, arguments, changed_trace = run(i)
        wrong = any(
            isinstance(a, np.ndarray) and not np.array_equal(a.view(np.uint8), b.view(np.uint8))
            for a, b in zip(arguments, clean, strict=True)
        )
        shown_by = findings[0].code if findings else "wrong result" if wrong else ""
        if not shown_by and "PIPE_V" in mutant.change and races_by_hand(changed_trace) > races_by_hand(trace):
            shown_by = BY_HAND
        why = EQUIVALENT.get((subject.entry, mutant.change), "")
        if mutant.change.startswith("shrink") and mutant.change.removeprefix("shrink ") in spare:
            why = "the clean kernel never touches the last 32 bytes of this buffer"
        verdicts.append(Verdict(subject.entry, mutant, shown_by, "" if shown_by else why))
    return verdicts


def _lines_with_spare_blocks(trace: Trace) -> set[str]:
    """InitBuffer calls whose last block of 32 bytes no instruction of any core touches: without it nothing changes."""
    tails = tuple(replace(b, address=b.address + b.bytes - 32, bytes=32) for b in trace.buffers)
    used = replay(replace(trace, buffers=tails), sync="auto").buffer_used
    touched = {b.site for b, u in zip(tails, used, strict=True) if u}
    sites = [trace.sites[site] for site in {b.site for b in tails} - touched]
    return {m[0] for site in sites for m in _BUFFER.finditer(Place(site.file, site.line).text())}


# ---- what is broken ----------------------------------------------------------------------------------------------------------


def of_page(page: Path) -> list[Verdict]:
    """The mutants of a page's clean kernels."""
    verdicts, together = [], []
    shared = ""
    for case in cases(page):
        if not case.own:
            shared = shared or case.source
            shared = shared.replace(case.text, "")
        if case.expected():
            continue
        options = {k: v for k, v in case.options.items() if k in ("sync", "soc")}
        subject = Subject(case.text, case.name, case.blocks, case.handed_over, **options)
        if case.own:
            verdicts += judge(PREAMBLE, [subject])
        else:
            together.append(subject)
    return verdicts + (judge(shared, together) if together else [])


def of_example(path: Path) -> list[Verdict]:
    """The mutants of an example's kernels, run as its launch file says."""
    text, shared = path.read_text(), ""
    for name in re.findall(r'^#include "(.*)"', text, re.M):
        if (beside := path.parent / name).exists():
            shared += re.sub(r"^#pragma once", "", beside.read_text(), flags=re.M)
            text = text.replace(f'#include "{name}"', "")
    subjects = []
    for name, kernel in load(path).kernels.items():
        launch = read(path.with_suffix(".toml"), name)

        def values(kernel: Any = kernel, launch: Any = launch) -> list[Any]:
            return [v.copy() if isinstance(v, np.ndarray) else v for v in arguments(kernel, launch).values()]

        subjects.append(Subject(text, name, launch.blocks, values))
    return [v for subject in subjects for v in judge(shared, [subject])]


def everything() -> list[Verdict]:
    """The mutants of every example with a launch file of its own and of every page."""
    launched = [path for path in sorted(EXAMPLES.glob("*/*.cpp")) if path.with_suffix(".toml").exists()]
    examples = [v for path in launched for v in of_example(path)]
    return examples + [v for page in sorted(FOLDER.glob("*.md")) for v in of_page(page)]


def figures(verdicts: Sequence[Verdict]) -> str:
    """The share of mutants that were seen, in a sentence."""
    counted = [v for v in verdicts if v.shown_by or not v.equivalent]
    seen = [v for v in counted if v.shown_by]
    by_result, by_hand = (sum(v.shown_by == word for v in seen) for word in ("wrong result", BY_HAND))
    return (
        f"{len(seen)} of {len(counted)} faults put into the clean kernels of the examples and of the pages are seen "
        f"({len(seen) / len(counted):.1%}), {by_result} of them only by the result and {by_hand} only with `--sync manual`, since the "
        f"compiler puts that barrier in; {len(verdicts) - len(counted)} more change nothing that the kernel does."
    )


def main() -> None:
    """Break everything, print what was not seen, and write the figures into the manual."""
    verdicts = everything()
    print("\n".join(str(v) for v in verdicts if not v.shown_by))
    print(figures(verdicts))
    text = MANUAL.read_text()
    begin, end = (text.index(mark) for mark in ("<!-- mutants -->", "<!-- /mutants -->"))
    MANUAL.write_text(f"{text[:begin]}<!-- mutants -->\n{figures(verdicts)}\n{text[end:]}")


if __name__ == "__main__":
    main()
