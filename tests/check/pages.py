"""Markdown pages that are tests: prose, small kernels, and the expected verdict as a comment on the line that the finding names.

A ```cpp block is C++ behind `PREAMBLE`. A block that starts with `// run[BLOCKS](ARGUMENTS) OPTIONS` holds one kernel and is run;
arguments are `float32[256]` (an array), numbers, or `null`; options are `sync=manual`, `soc=NAME`, `limit=SECONDS`,
`poisoned=NAME+NAME`, `name=FUNCTION`. Other blocks are shared by the page. `// error: CODE` (or warning, advice) must be matched by a
finding with a place on that line; a finding that no comment expects fails the test. A block without such comments must be clean.
A block marked ```cpp alone is compiled as a file of its own.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np

from tests.ascendc.harness import kernels
from toprope.check import check
from toprope.finding import Finding
from toprope.kernel import KernelFile

FOLDER = Path(__file__).parent.parent / "kernels"
PREAMBLE = """
template <typename T> GlobalTensor<T> gm(GM_ADDR address) {
    GlobalTensor<T> tensor;
    tensor.SetGlobalBuffer((__gm__ T*)address);
    return tensor;
}
"""
_FENCE = re.compile(r"^```cpp( alone)?\n(.*?)^```$", re.M | re.S)
_RUN = re.compile(r"// run\[(\d+)\]\((.*?)\)(.*)")
_NAME = re.compile(r"__aicore__ void (\w+)\s*\(")
_VERDICT = re.compile(r"// (error|warning|advice): ([a-z0-9|-]+)")
_DTYPES = {"bfloat16": ml_dtypes.bfloat16}


@dataclass(frozen=True)
class Case:
    """One kernel of a page: how to run it and which findings it must give."""

    page: Path
    name: str
    source: str
    first_line: int  # of the block in the page
    blocks: int
    arguments: tuple[str, ...]
    options: dict[str, str]
    text: str
    own: bool  # compiled alone

    def __str__(self) -> str:
        return f"{self.page.stem}:{self.name}"

    def values(self) -> list[Any]:
        """The arguments, arrays filled with small non-zero numbers."""
        return [_value(a) for a in self.arguments]

    def handed_over(self) -> list[Any]:
        """The arguments as the kernel gets them: arrays as bytes, since a page's kernels take one array for elements of several types."""
        return [a.view(np.uint8) if isinstance(a, np.ndarray) else a for a in self.values()]

    def expected(self) -> set[tuple[str, str, int]]:
        """Severity, code and line (within the compiled file) of each verdict comment of this kernel's block."""
        begin = self.source.index(self.text)
        first = self.source.count("\n", 0, begin) + 1
        return {
            (m[1], m[2], first + i) for i, line in enumerate(self.text.splitlines()) for m in _VERDICT.finditer(line)
        }


def _value(text: str) -> Any:
    if text == "null":
        return None
    if found := re.fullmatch(r"(\w+)\[(\d+)\](?:=(-?\d+))?", text):
        dtype = np.dtype(_DTYPES.get(found[1], found[1]))
        if found[3]:
            return np.full(int(found[2]), int(found[3])).astype(dtype)
        return (np.arange(int(found[2])) % 13 + 1).astype(dtype)
    return float(text) if "." in text else int(text)


def cases(page: Path) -> list[Case]:
    """The kernels of a page that are run."""
    text = page.read_text()
    shared = PREAMBLE
    runs = []
    for fence in _FENCE.finditer(text):
        line = text.count("\n", 0, fence.start()) + 2
        runs.append((fence[2], line, bool(fence[1])))
        if not fence[1]:
            shared += "\n" + fence[2]
    out = []
    for block, line, own in runs:
        if not (run := _RUN.match(block)):
            continue
        options = dict(part.split("=", 1) for part in run[3].split())
        name = options.pop("name", None) or _NAME.search(block)[1]  # type: ignore[index]
        arguments = tuple(a.strip() for a in run[2].split(",") if a.strip())
        source = PREAMBLE + "\n" + block if own else shared
        out.append(Case(page, name, source, line, int(run[1]), arguments, options, block, own))
    return out


def compiled(case: Case) -> KernelFile:
    """The page's kernels, compiled together."""
    return kernels(case.source, case.page.stem)


def findings(case: Case) -> list[Finding]:
    """Run a case and check its trace."""
    options = dict(case.options)
    poisoned = options.pop("poisoned", "")
    sync = options.pop("sync", "auto")
    launch: dict[str, Any] = {
        "soc": options.pop("soc", "ascend910b1"),
        "time_limit_s": float(options.pop("limit", "0")),
    }
    assert not options, f"{case}: unknown options {options}"
    run = compiled(case)[case.name][case.blocks](*case.handed_over(), **launch)
    return check(run.trace, run.soc, launch=run.launch, sync=sync, poisoned=tuple(filter(None, poisoned.split("+"))))


def verdict(case: Case, found: list[Finding]) -> list[str]:
    """What is wrong with the findings of a case: unexpected ones, and expected ones that are missing. Empty if all is as written."""
    offset = 2  # the harness puts two lines in front
    expected = {(s, c, line + offset) for s, c, line in case.expected()}
    problems = []
    met = set()
    for finding in found:
        matching = {
            e
            for e in expected
            if e[:2] == (finding.severity, finding.code) and any(p.line == e[2] for p in finding.places)
        }
        met |= matching
        if not matching:
            problems.append(f"unexpected {finding.severity}: {finding}")
    problems += [f"missing {s}: {c} on line {line - offset}" for s, c, line in sorted(expected - met)]
    return problems
