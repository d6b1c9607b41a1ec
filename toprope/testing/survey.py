"""python -m toprope.testing.survey DIR...: how much of existing test material is read and runs against its own reference.

Counts gen/verify script pairs, test assets (`__golden__`, `__spec__`), ops-test-kit tables and cann-bench tasks below
each folder. "runs" means: the reference computes golden twice, from the same inputs, and the comparison under the
asset's standard passes (script pairs: generator, golden handed in as the result, verifier says yes).
"""

from __future__ import annotations

import argparse
import importlib
import itertools
import json
import os
import shutil
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from toprope.testing.cases import Case
from toprope.testing.compare import compare
from toprope.testing.errors import CaseError, TestingError
from toprope.testing.isolation import isolated
from toprope.testing.readers import assets, cann_bench, scripts, ttk
from toprope.testing.suite import Suite

MAX_ELEMENTS = 1 << 20
TRIED_CASES = 3
MAX_GUESSES = 48
PARTS = ("scripts", "assets", "tasks")


@dataclass(frozen=True)
class Finding:
    """One surveyed thing: what it is, whether it could be read, whether it ran, and the reason when not."""

    kind: str
    name: str
    path: str
    parsed: bool
    ran: bool
    cases: int = 0
    cases_tried: int = 0
    cases_ran: int = 0
    guessed: bool = False
    reason: str = ""


def survey(root: Path, *, timeout_s: float = 60, parts: Sequence[str] = PARTS, every: int = 1) -> Iterator[Finding]:
    """Findings for everything below `root`, as they come."""
    if "scripts" in parts:
        for pair in scripts.find(root):
            yield _script_finding(pair, timeout_s)
    if "assets" in parts:
        yield from _asset_findings(root, timeout_s, every)
    if "tasks" in parts:
        for proto in sorted(root.rglob("proto.yaml")):
            if cann_bench.is_task(proto.parent):
                yield _suite_finding("cann-bench task", proto.parent, partial(cann_bench.read, proto.parent), timeout_s)


def _script_finding(pair: scripts.ScriptPair, timeout_s: float) -> Finding:
    workspace = Path(tempfile.mkdtemp(prefix="toprope_survey_"))
    try:
        scripts.self_check(pair, workspace, timeout_s=timeout_s)
    except CaseError as error:
        return Finding("script pair", pair.name, str(pair.folder), True, False, reason=error.what)
    finally:
        shutil.rmtree(workspace, ignore_errors=True)
    return Finding("script pair", pair.name, str(pair.folder), True, True)


def _asset_findings(root: Path, timeout_s: float, every: int) -> Iterator[Finding]:
    for folder in itertools.islice(assets.operator_folders(root), 0, None, every):
        try:
            suites = isolated(_describe, folder, timeout_s=timeout_s)
        except TestingError as error:
            yield Finding("test asset", folder.name, str(folder), False, False, reason=error.what)
            continue
        for name, _ in suites:
            yield _suite_finding("test asset", folder, partial(_named, folder, name), timeout_s)


def _describe(folder: Path) -> list[tuple[str, int]]:
    return [(suite.name, len(suite.cases)) for suite in assets.read(folder) if suite.reference is not None]


def _named(folder: Path, name: str) -> Suite:
    return next(suite for suite in assets.read(folder) if suite.name == name and suite.reference is not None)


def _suite_finding(kind: str, folder: Path, read: Callable[[], Suite], timeout_s: float) -> Finding:
    try:
        suite = read()
    except TestingError as error:
        return Finding(kind, folder.name, str(folder), False, False, reason=error.what)
    if not suite.cases or suite.reference is None:
        reason = "no golden" if suite.reference is None else "no cases and no definition to make them from"
        return Finding(kind, suite.name, str(folder), True, False, len(suite.cases), reason=reason)
    guessed = any("_guess_" in case.name for case in suite.cases)
    # An imposed shape that does not fit says nothing about the asset, so guesses get more tries than listed cases.
    ordered = list(suite.cases)[:MAX_GUESSES] if guessed else sorted(suite.cases, key=_cost)[:TRIED_CASES]
    try:
        tried, ran, reason = isolated(_try, suite, ordered, guessed, timeout_s=timeout_s)
    except TestingError as error:
        tried, ran, reason = len(ordered), 0, error.what
    return Finding(kind, suite.name, str(folder), True, ran > 0, len(suite.cases), tried, ran, guessed, reason)


def _try(suite: Suite, cases: Sequence[Case], first_only: bool) -> tuple[int, int, str]:
    """How many cases were tried and ran, and the first failure; runs in a child, so that libraries load once per asset."""
    tried, ran, reason = 0, 0, ""
    for case in cases:
        if case.elements > MAX_ELEMENTS and tried:
            break
        tried += 1
        try:
            self_check(suite, case)
            ran += 1
            if first_only:
                break
        except Exception as error:  # whatever foreign code raises is that case's failure
            text = error.what if isinstance(error, TestingError) else f"{type(error).__name__}: {error}"
            reason = reason or f"{case.name}: {text}"[:400]
    return tried, ran, "" if ran else reason


def _cost(case: Case) -> tuple[bool, int]:
    """Small cases first, but empty ones last: they prove little."""
    return case.elements == 0, case.elements


def self_check(suite: Suite, case: Case) -> int:
    """Golden against golden, from inputs made twice. Returns the number of outputs; raises CaseError on a difference."""
    assert suite.reference is not None
    _seed_foreign_generators()
    first = suite.reference(case, suite.inputs(case))
    _seed_foreign_generators()
    second = suite.reference(case, suite.inputs(case))
    if not first:
        raise CaseError("the reference gives no output")
    for number, (one, two) in enumerate(zip(first, second, strict=True)):
        verdict = compare(one, two, "binary" if one.dtype.kind in "biu" else "mixed")
        if not verdict.passed:
            raise CaseError(f"output {number} differs between two runs of the reference: {verdict.summary()}")
    return len(first)


def _seed_foreign_generators() -> None:
    import random

    import numpy as np

    random.seed(0)
    np.random.seed(0)
    torch = sys.modules.get("torch")
    if torch is not None:
        torch.manual_seed(0)


def summary(findings: Sequence[Finding]) -> dict[str, dict[str, Any]]:
    """Totals per kind: found, parsed, ran, share, and how many needed guessed cases."""
    result: dict[str, dict[str, Any]] = {}
    for kind in sorted({f.kind for f in findings}):
        chosen = [f for f in findings if f.kind == kind]
        result[kind] = {
            "found": len(chosen),
            "parsed": sum(f.parsed for f in chosen),
            "ran": sum(f.ran for f in chosen),
            "ran_share": round(sum(f.ran for f in chosen) / len(chosen), 4),
            "cases": sum(f.cases for f in chosen if not f.guessed),
            "cases_tried": sum(f.cases_tried for f in chosen if not f.guessed),
            "cases_ran": sum(f.cases_ran for f in chosen if not f.guessed),
            "ran_on_guessed_cases": sum(f.ran and f.guessed for f in chosen),
        }
    return result


def tables(root: Path) -> dict[str, int]:
    """How many ops-test-kit tables and rows below `root` are understood."""
    counts: Counter[str] = Counter()
    for path in (*root.rglob("*.csv"), *root.rglob("*.xlsx")):
        if ttk.is_table(path):
            cases, problems = ttk.read(path)
            counts.update(tables=1, rows=len(cases) + len(problems), rows_read=len(cases))
    return dict(counts)


def main(argv: Sequence[str] | None = None) -> int:
    """Survey folders and print totals; returns 0 unless a folder is missing."""
    parser = argparse.ArgumentParser(prog="python -m toprope.testing.survey", description=__doc__.splitlines()[0])
    parser.add_argument("folders", nargs="+", type=Path)
    parser.add_argument("--only", choices=PARTS, action="append", help="survey only this part")
    parser.add_argument("--json", type=Path, help="write every finding to this file")
    parser.add_argument(
        "--preload", action="append", default=[], help="import this module once, before any child starts"
    )
    parser.add_argument("-v", dest="verbose", action="store_true", help="print every finding as it comes")
    parser.add_argument("--every", type=int, default=1, metavar="N", help="sample: only every Nth operator folder")
    parser.add_argument("--timeout", type=float, default=60, help="seconds per script or case (default 60)")
    arguments = parser.parse_args(argv)
    for folder in arguments.folders:
        if not folder.is_dir():
            print(f"{folder} is no folder", file=sys.stderr)
            return 2
    # One thread per library: children are forked, and a pool of threads does not survive a fork.
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    _preload(["torch", *arguments.preload])
    console = Console()
    everything: list[Finding] = []
    for folder in arguments.folders:
        start = time.monotonic()
        found = []
        chosen = arguments.only or PARTS
        for finding in survey(folder, timeout_s=arguments.timeout, parts=chosen, every=arguments.every):
            found.append(finding)
            if arguments.verbose:
                print("ran" if finding.ran else "   ", finding.kind, finding.name, finding.reason, file=sys.stderr)
        everything += found
        _print(console, folder, found, tables(folder), time.monotonic() - start)
    if arguments.json:
        arguments.json.write_text(json.dumps([asdict(f) for f in everything], indent=1, ensure_ascii=False))
    return 0


def _preload(names: Sequence[str]) -> None:
    """Import libraries that references use once, before forking, where they are installed."""
    for name in names:
        try:
            importlib.import_module(name)
        except ImportError:
            print(f"{name} is not installed: references that need it will be counted as not running", file=sys.stderr)
    torch: Any = sys.modules.get("torch")
    if torch is not None:
        torch.set_num_threads(1)


def _print(console: Console, folder: Path, found: Sequence[Finding], counted: dict[str, int], seconds: float) -> None:
    table = Table(title=f"{folder}  ({seconds:.0f} s)", title_justify="left")
    for title in ("kind", "found", "parsed", "ran", "share", "listed cases tried", "ran", "on guessed cases"):
        table.add_column(title, justify="left" if title == "kind" else "right")
    for kind, row in summary(found).items():
        share = f"{100 * row['ran_share']:.1f} %"
        cells = (row["found"], row["parsed"], row["ran"], share, row["cases_tried"], row["cases_ran"])
        table.add_row(kind, *map(str, cells), str(row["ran_on_guessed_cases"]))
    console.print(table)
    if counted:
        console.print(
            f"ops-test-kit tables: {counted['tables']}, rows read: {counted['rows_read']} of {counted['rows']}"
        )
    reasons = Counter(_short(f.reason) for f in found if not f.ran)
    for reason, count in reasons.most_common(12):
        console.print(f"  {count:4d}  {reason}", markup=False, highlight=False)


def _short(reason: str) -> str:
    """A reason without the case's own name and numbers, so that equal causes add up."""
    _, _, rest = reason.partition(": ") if "_" in reason.partition(": ")[0] else ("", "", reason)
    return (rest or reason).splitlines()[0][:150] if reason else "no reason given"


if __name__ == "__main__":
    sys.exit(main())
