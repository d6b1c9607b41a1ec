"""Small faults put into clean kernels, one at a time: does the check, or the result, show them?

All mutants of a source are compiled together, each in a namespace of its own with its entry renamed, so that a source costs one
compilation.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from tests.ascendc.harness import kernels
from toprope.check import check
from toprope.finding import Finding

_DELETED = re.compile(
    r"^[ \t]*((?:AscendC::)?(?:SetFlag|WaitFlag|PipeBarrier|SyncAll|CrossCoreSetFlag|CrossCoreWaitFlag|IBSet|IBWait|SetAtomicNone|DataCacheCleanAndInvalid)\b[^;]*"
    r"|[\w.]+\.(?:EnQue|FreeTensor)(?:<[^;]*>)?\([^;]*\));",
    re.M,
)
_BUFFER = re.compile(r"InitBuffer\(([^;]*), ([^;]*)\);")
_OFFSET = re.compile(r"DataCopy(?:Pad)?\([^;]*?\[([^\]]+)\]")


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


@dataclass(frozen=True)
class Verdict:
    """How a mutant came out: by a finding (its code), by a wrong result, or not at all (empty)."""

    kernel: str
    mutant: Mutant
    shown_by: str

    def __str__(self) -> str:
        return f"{self.kernel}: {self.mutant.change} (line {self.mutant.line}): {self.shown_by or 'NOT SEEN'}"


def judge(
    shared: str,
    source: str,
    entry: str,
    blocks: int,
    values: Callable[[], list[Any]],
    sync: str = "auto",
    soc: str = "ascend910b1",
) -> list[Verdict]:
    """Run the clean kernel and all its mutants. `shared` is code in front of all; `values` makes fresh arguments for each run."""
    changed = list(mutants(source))
    texts = [source, *(m.source for m in changed)]
    includes = "".join(re.findall(r"^\s*#include.*\n", source, re.M))
    unit = shared + includes
    for i, text in enumerate(texts):
        body = re.sub(rf"\b{entry}\b", f"{entry}_m{i}", re.sub(r"^\s*#include.*\n", "", text, flags=re.M))
        unit += f"namespace m{i} {{\n{body}\n}}\nusing m{i}::{entry}_m{i};\n"
    compiled = kernels(unit, f"mutants_{entry}")

    def run(i: int) -> tuple[list[Finding], list[Any]]:
        arguments = values()
        done = compiled[f"{entry}_m{i}"][blocks](*arguments, soc=soc, time_limit_s=5.0)
        return check(done.trace, done.soc, sync=sync), arguments

    clean_findings, clean = run(0)
    assert not [f for f in clean_findings if f.severity != "advice"], f"{entry} is not clean: {clean_findings[0]}"
    verdicts = []
    for i, mutant in enumerate(changed, 1):
        found, arguments = run(i)
        bad = [f.code for f in found if f.severity != "advice"]
        wrong = any(
            isinstance(a, np.ndarray) and not np.array_equal(a.view(np.uint8), b.view(np.uint8))
            for a, b in zip(arguments, clean, strict=True)
        )
        verdicts.append(Verdict(entry, mutant, bad[0] if bad else "wrong result" if wrong else ""))
    return verdicts
