"""toprope compat: how much of an operator repository works here, as a table."""

from __future__ import annotations

import hashlib
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

from toprope.cache import cache_dir
from toprope.commandline import Parser
from toprope.compat.survey import Row, as_json, as_junit, count, ranking, survey, test_totals
from toprope.errors import BadInput
from toprope.kernel import DEFAULT_SOC
from toprope.project.checkout import Checkout
from toprope.soc import load


def main(argv: list[str]) -> int:
    """Exit code 0 if every operator compiles and every test that ran passed, 1 if not, 2 bad input."""
    p = Parser(
        prog="toprope compat",
        description="Compile every kernel of an operator repository for a chip and say what is missing.",
        epilog="A repository is read where it is and never written to. docs/compat.md explains the columns.",
    )
    p.add_argument("folder", type=Path, metavar="DIR", help="a checkout; operators are its folders with op_kernel/")
    p.add_argument("--soc", default=DEFAULT_SOC, help=f"chip (default {DEFAULT_SOC})")
    p.add_argument("-k", dest="pattern", default="", metavar="PATTERN", help="only operators whose path matches")
    p.add_argument("-n", dest="workers", type=int, default=2, metavar="N", help="compilers at once (default 2)")
    p.add_argument("--json", type=Path, metavar="FILE", help="write rows, totals and ranking as JSON")
    p.add_argument("--junit", type=Path, metavar="FILE", help="write a JUnit report")
    p.add_argument("--resume", action="store_true", help="keep the rows of an interrupted run")
    p.add_argument(
        "--tests", action="store_true", help="also build and run the kernel unit tests (their scripts run too)"
    )
    p.add_argument(
        "--host-tests", action="store_true", help="also build and run the unit tests of host code (tiling, inference)"
    )
    p.add_argument("--failed", action="store_true", help="show only operators that do not compile or whose tests fail")
    options = p.parse_args(argv)
    if options.workers < 1:
        raise BadInput(f"-n {options.workers}: at least one compiler is needed", cure="for example -n 2")
    soc = load(options.soc)
    checkout = Checkout(options.folder)
    key = hashlib.sha256(f"{checkout.root}|{soc.name}".encode()).hexdigest()[:12]
    console = Console(stderr=True)
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as progress:
        task = progress.add_task("compat", total=count(checkout, soc, options.pattern))

        def seen(row: Row) -> None:
            progress.update(task, advance=1, description=row.operator[-40:])

        rows = survey(
            checkout,
            soc,
            pattern=options.pattern,
            workers=options.workers,
            results=cache_dir() / "compat" / f"{key}.jsonl",
            resume=options.resume,
            tests=options.tests,
            host_tests=options.host_tests,
            seen=seen,
        )
    _show([r for r in rows if not r.ok] if options.failed else rows, rows)
    for path, text in ((options.json, as_json(rows, soc)), (options.junit, as_junit(rows))):
        if path:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
            print(f"wrote {path}")
    return 0 if all(r.ok for r in rows) else 1


def _show(shown: list[Row], rows: list[Row]) -> None:
    table = Table(box=None, header_style="dim", padding=(0, 2, 0, 0))
    for column in ("operator", "compiled", "tests", "first thing missing, or failed tests"):
        table.add_column(column, overflow="fold")
    for row in shown:
        reason = row.message if not row.place else f"{row.message}  {row.place}"
        if row.compiled:
            reason = "; ".join([*row.failures[:2], *(f"finding {code}" for code in row.findings[:3])])
        verdicts = ", ".join(f"{n} {verdict}" for verdict, n in row.tests.items())
        mark = "[green]yes[/]" if row.compiled else "[red]no[/]"
        table.add_row(row.operator, mark, verdicts, reason.replace("[", "\\["))
    console = Console(highlight=False)
    console.print(table)
    compiled = sum(r.compiled for r in rows)
    median = sorted(r.seconds for r in rows)[len(rows) // 2]
    console.print(
        f"\n{compiled} of {len(rows)} operators compile ({100 * compiled / len(rows):.0f} %), median {median:.1f} s"
    )
    if sums := test_totals(rows):
        console.print(f"{sums.get('passed', 0)} of {sum(sums.values())} unit tests passed: {sums}")
        tested = [r for r in rows if r.tests]
        console.print(
            f"{sum(r.ok for r in tested)} of {len(tested)} operators with tests ended without a failure or an error finding"
        )
    for kind, n in ranking(rows)[:15]:
        console.print(f"  {n:4}  {kind}", markup=False)
