"""`toprope compat`: every operator of a checkout compiled (and its unit test run), one row each; a crash or hang of one never stops the rest."""

from __future__ import annotations

import json
import re
import time
from collections import Counter
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field
from pathlib import Path
from xml.sax.saxutils import quoteattr

from toprope.compat.compile import problem_of
from toprope.compat.host_tests import run_host_tests
from toprope.compat.unit_tests import TestResult, run_tests, totals
from toprope.errors import BadInput
from toprope.project.checkout import Checkout
from toprope.project.operators import Operator
from toprope.soc import Soc

CLEAN = {"passed", "uncompared", "skipped"}
"""Verdicts of tests that say nothing against a kernel; "uncompared" says nothing for it either."""


@dataclass
class Row:
    """What is known of one operator. `tests` counts unit tests by verdict; empty where none were run."""

    operator: str
    compiled: bool
    kind: str = ""
    message: str = ""
    place: str = ""
    seconds: float = 0.0
    tests: dict[str, int] = field(default_factory=dict)
    failures: list[str] = field(default_factory=list)
    findings: list[str] = field(default_factory=list)

    @property
    def ok(self) -> bool:
        """Compiled, and every unit test passed, compared nothing or was skipped by itself, without an error finding."""
        return self.compiled and not set(self.tests) - CLEAN


def survey(
    checkout: Checkout,
    soc: Soc,
    *,
    pattern: str = "",
    workers: int = 2,
    results: Path | None = None,
    resume: bool = False,
    tests: bool = False,
    host_tests: bool = False,
    seen: Callable[[Row], None] = lambda row: None,
) -> list[Row]:
    """Compile the kernels (with `tests` and `host_tests`, also build and run the unit tests of kernels and of host code) of every operator that is built for `soc` and whose path matches `pattern`, in the order of their paths.

    Rows are appended to `results` (JSON lines) as they come; with `resume`, operators that are already there are not done again.
    """
    chosen = _chosen(checkout, soc, pattern)
    known = _read(results) if resume and results else {}
    if results and not resume:
        results.unlink(missing_ok=True)
    rows = {label: row for label, row in known.items() if label in {o.label for o in chosen}}
    todo = [o for o in chosen if o.label not in rows]
    for row in rows.values():
        seen(row)
    with ThreadPoolExecutor(workers) as pool:
        for row in pool.map(lambda operator: _row(checkout, operator, soc, tests, host_tests), todo):
            rows[row.operator] = row
            if results:
                results.parent.mkdir(parents=True, exist_ok=True)
                with results.open("a") as file:
                    file.write(json.dumps(asdict(row)) + "\n")
            seen(row)
    return [rows[o.label] for o in chosen]


def count(checkout: Checkout, soc: Soc, pattern: str = "") -> int:
    """How many operators a survey would visit."""
    return len(_chosen(checkout, soc, pattern))


def ranking(rows: Iterable[Row]) -> list[tuple[str, int]]:
    """Kinds of failure, most frequent first."""
    return Counter(row.kind for row in rows if not row.compiled).most_common()


def test_totals(rows: Iterable[Row]) -> dict[str, int]:
    """Unit tests of all rows by verdict."""
    found: Counter[str] = Counter()
    for row in rows:
        found.update(row.tests)
    return dict(found)


def as_json(rows: list[Row], soc: Soc) -> str:
    """Rows, totals and ranking as JSON."""
    compiled = sum(row.compiled for row in rows)
    sums = {"operators": len(rows), "compiled": compiled, "tests": test_totals(rows)}
    return json.dumps(
        {"soc": soc.name, "totals": sums, "ranking": ranking(rows), "operators": [asdict(r) for r in rows]}, indent=1
    )


def as_junit(rows: list[Row]) -> str:
    """Rows as JUnit XML: a test case per operator."""
    failures = sum(not row.ok for row in rows)
    lines = [f'<testsuite name="toprope compat" tests="{len(rows)}" failures="{failures}">']
    for row in rows:
        lines.append(f'  <testcase classname="compat" name={quoteattr(row.operator)} time="{row.seconds:.2f}">')
        if not row.ok:
            what = row.message if not row.compiled else "; ".join(row.failures)
            lines.append(f"    <failure message={quoteattr(what)}>{quoteattr(row.place)[1:-1]}</failure>")
        lines.append("  </testcase>")
    return "\n".join(['<?xml version="1.0" encoding="utf-8"?>', *lines, "</testsuite>"]) + "\n"


def _chosen(checkout: Checkout, soc: Soc, pattern: str) -> list[Operator]:
    try:
        wanted = re.compile(pattern)
    except re.error as error:
        raise BadInput(
            f"-k {pattern!r} is no regular expression: {error}", cure="for example -k 'norm|softmax'"
        ) from None
    chosen = [o for o in checkout.operators if wanted.search(o.label) and o.kernels(soc.name)]
    if not chosen:
        raise BadInput(
            f"no operator of {checkout.root} that is built for {soc.name} matches {pattern!r}",
            cure="leave -k out to see all, or choose another --soc",
        )
    return chosen


def _read(results: Path) -> dict[str, Row]:
    rows = {}
    for line in results.read_text().splitlines() if results.is_file() else []:
        try:
            row = Row(**json.loads(line))
        except (json.JSONDecodeError, TypeError):
            continue  # the last line of an interrupted run
        rows[row.operator] = row
    return rows


def _row(checkout: Checkout, operator: Operator, soc: Soc, tests: bool, host_tests: bool) -> Row:
    begin = time.perf_counter()
    try:
        problems = [problem_of(checkout, operator, kernel, soc) for kernel in operator.kernels(soc.name)]
        problem = next((p for p in problems if p), None)
        row = Row(operator.label, problem is None, *((problem.kind, problem.text, problem.place) if problem else ()))
        results: list[TestResult] = run_tests(checkout, operator, soc) if tests and problem is None else []
        results += run_host_tests(checkout, operator, soc) if host_tests else []
        if results:
            row.tests = totals(results)
            row.failures = [f"{r.name}: {r.verdict} {r.message}".rstrip() for r in results if r.verdict not in CLEAN]
            row.findings = sorted({code for r in results for code in r.findings})
    except Exception as error:  # one odd folder must not end a survey of hundreds
        row = Row(operator.label, False, "internal error", f"{type(error).__name__}: {error}")
    row.seconds = round(time.perf_counter() - begin, 2)
    return row
