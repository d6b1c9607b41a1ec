"""`toprope test`: run operator cases with pytest, write reports, compare with earlier results."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

from toprope.commandline import Parser, nearest
from toprope.errors import BadInput
from toprope.testing.execution import PASSED, SKIPPED, Result
from toprope.testing.readers import recognised
from toprope.testing.report import write_html, write_json
from toprope.testing.standards import standard, standards
from toprope.testing.store import Drop, Store, drops

try:
    import pytest
except ImportError as error:  # an optional extra: comparing and generating work without it
    raise BadInput("toprope test needs pytest", cure="pip install toprope[testing]") from error

PLUGIN = "toprope.testing.plugin"

EPILOG = """\
what PATH may hold: TOML case files (docs/testing.md), ops-test-kit CSV/xlsx with tests/assets, cann-bench tasks, msopst
JSON, and folders with gen_data.py and verify_result.py.

examples
  toprope test add.toml                          run the kernel the file names against its golden
  toprope test cases.csv --run my.py:add         test a Python function
  toprope test add.toml -k boundary -n 2         one class of case, two processes
  toprope test add.toml --against main           fail when a case is worse than the stored results of main
"""


def main(argv: Sequence[str] | None = None) -> int:
    """Run the verb. Exit codes: 0 all passed, 1 a case failed or got worse, 2 bad input, 130 interrupted."""
    options = _parser().parse_args(argv)
    if options.list_standards:
        for entry in standards().values():
            print(f"{entry.name:22s} {entry.title}\n{'':22s} source: {entry.source}")
        return 0
    if not options.paths:
        raise BadInput("no path given", cure="toprope test PATH; toprope test --help shows what a path may hold")
    for path in options.paths:
        if not path.exists():
            beside = [
                f.name
                for f in path.parent.glob("*")
                if f.suffix in (".toml", ".csv", ".json", ".xlsx", ".yaml") or f.is_dir()
            ]
            raise BadInput(
                f"there is no file or folder {path}{nearest(path.name, beside)}",
                cure="toprope test PATH; toprope test --help shows what a path may hold",
            )
        if path.is_file() and path.suffix == ".toml" and path.read_bytes().strip() and not recognised(path):
            raise BadInput(
                f"{path} has no cases: neither [[cases]] nor [[operator.inputs]]",
                cure="docs/testing.md shows a case file; a launch file belongs to its source: toprope run FILE.cpp",
            )
    if options.standard:
        standard(options.standard)
    if options.export:
        return _export(options)
    results, worse, code = _on_ray(options) if options.on == "ray" else _with_pytest(options)
    if options.json:
        write_json(options.json, results, worse)
    if options.html:
        with Store(options.store) as store:
            write_html(options.html, results, worse, store.history)
        print(f"report: {options.html}")
    return code


def _parser() -> argparse.ArgumentParser:
    p = Parser(
        prog="toprope test",
        description="Run operator cases and judge them by a precision standard.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    p.add_argument("paths", nargs="*", type=Path, metavar="PATH")
    p.add_argument(
        "--run", default="", help="what to test: kernel.cpp:entry, file.py:function, numpy.add, golden, cmd:..."
    )
    p.add_argument(
        "-k", default="", metavar="EXPRESSION", help="only cases whose name or class matches (pytest syntax)"
    )
    p.add_argument("-n", default="", metavar="N", help="run in N processes")
    p.add_argument("-x", dest="first", action="store_true", help="stop at the first failure")
    p.add_argument("-v", dest="verbose", action="store_true", help="one line per case")
    p.add_argument("--soc", default="", help="chip that kernels are timed for (default: the case file's)")
    p.add_argument("--standard", default="", help="precision standard for all cases; --standards lists them")
    p.add_argument(
        "--standards", dest="list_standards", action="store_true", help="list the standards and their sources"
    )
    p.add_argument(
        "--determinism", action="store_true", help="bits must not change with repetition, order of blocks, or batch"
    )
    p.add_argument("--json", type=Path, metavar="FILE", help="write all results")
    p.add_argument("--junit", type=Path, metavar="FILE", help="write JUnit XML")
    p.add_argument("--html", type=Path, metavar="FILE", help="write a page with histograms and heat maps")
    p.add_argument("--time-budget", type=float, default=0, metavar="S", help="skip what is left after S seconds")
    p.add_argument("--case-timeout", type=float, default=60, metavar="S", help="seconds one case may take (default 60)")
    p.add_argument("--failed", action="store_true", help="only cases that failed when they last ran")
    p.add_argument("--resume", action="store_true", help="continue an interrupted run")
    p.add_argument("--store", type=Path, default=Path(".toprope/tests.sqlite"), help="history of results (SQLite)")
    p.add_argument("--label", default="local", help="store results under this name, such as a branch (default local)")
    p.add_argument(
        "--against", default="", metavar="LABEL", help="fail when a case is worse than results stored as LABEL"
    )
    p.add_argument("--on", choices=("here", "ray"), default="here", help="where to run; ray spreads over a cluster")
    p.add_argument("--ray-address", default="", help="address of a Ray cluster (default: start one here)")
    p.add_argument("--watch", action="store_true", help="again whenever a file beside it is saved, until Ctrl-C")
    p.add_argument("--export", metavar="FORMAT:FILE", help="write the cases instead: toml, ttk, msopst, cann-bench")
    return p


def _with_pytest(options: argparse.Namespace) -> tuple[list[Result], Sequence[Drop], int]:
    arguments = [*map(str, options.paths), "--toprope", "-o", "python_files=", "-p", "no:cacheprovider"]
    arguments += [f"--rootdir={Path.cwd()}", "-o", "addopts=", "-o", "testpaths="]
    # Where CI is set, pytest would repeat every message whole in its summary; the output is to be the same everywhere.
    arguments += ["--force-short-summary"]
    # Installed, the plugin is found by its entry point; loading it twice is an error.
    if not any(e.value == PLUGIN for e in entry_points(group="pytest11")):
        arguments += ["-p", PLUGIN]
    # The verb has imported toprope before pytest could rewrite its asserts; there is nothing to tell the user.
    arguments += ["-W", "ignore:Module already imported:pytest.PytestAssertRewriteWarning"]
    for name in ("run", "soc", "standard", "label", "against"):
        if getattr(options, name):
            arguments.append(f"--toprope-{name}={getattr(options, name)}")
    arguments += [f"--toprope-store={options.store}", f"--toprope-case-timeout={options.case_timeout}"]
    arguments += [f"--toprope-time-budget={options.time_budget}"] if options.time_budget else []
    arguments += ["--toprope-failed-only"] if options.failed else []
    arguments += ["--toprope-resume"] if options.resume else []
    arguments += ["--toprope-determinism"] if options.determinism else []
    arguments += ["-k", options.k] if options.k else []
    arguments += ["-n", options.n] if options.n else ["-p", "no:xdist"]
    arguments += ["-x"] if options.first else []
    arguments += ["-v"] if options.verbose else ["-q"]
    arguments += [f"--junitxml={options.junit}"] if options.junit else []
    keeper = _Keeper()
    code = int(pytest.main(arguments, plugins=[keeper]))
    if code == pytest.ExitCode.NO_TESTS_COLLECTED and (options.failed or options.resume):
        print("nothing left to run")
        code = 0
    elif code == pytest.ExitCode.NO_TESTS_COLLECTED:
        print(
            "no cases: nothing here is a case file, or -k matches none; `toprope test --help` says what a path may hold"
        )
    codes = {pytest.ExitCode.INTERRUPTED: 130, pytest.ExitCode.NO_TESTS_COLLECTED: 2, pytest.ExitCode.USAGE_ERROR: 2}
    if code == pytest.ExitCode.INTERRUPTED and keeper.unread:
        return keeper.results, keeper.drops, 2  # a file that cannot be read, not Ctrl-C
    return keeper.results, keeper.drops, codes.get(pytest.ExitCode(code), 1 if code else 0)


class _Keeper:
    """Hands the recorder's results to the caller of pytest.main."""

    def __init__(self) -> None:
        self.results: list[Result] = []
        self.drops: Sequence[Drop] = ()
        self.unread = False

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        """Note a file that cannot be read."""
        self.unread |= report.failed

    @pytest.hookimpl(trylast=True)
    def pytest_unconfigure(self, config: pytest.Config) -> None:
        """Take what was recorded before the session is gone."""
        recorder: Any = config.pluginmanager.getplugin("toprope-recorder")
        if recorder is not None:
            self.results, self.drops = recorder.results, recorder.drops


def _on_ray(options: argparse.Namespace) -> tuple[list[Result], Sequence[Drop], int]:
    # Ray is an optional extra; only this branch needs it.
    from toprope.testing.readers import find_suites
    from toprope.testing.remote import sweep

    results: list[Result] = []
    settings = {"paths": [str(p) for p in options.paths], "run": options.run, "soc": options.soc, "on": "ray"}
    with Store(options.store) as store:
        failed = store.failed_last() if options.failed else None
        run = store.unfinished(options.label, settings) if options.resume else None
        done = {r.key: r for r in store.results(run)} if run is not None else {}
        results += done.values()
        run = run if run is not None else store.begin(options.label, settings)
        for path in options.paths:
            keys = [f"{s.name}::{c.name}" for s in find_suites(path) for c in s.cases]
            keys = [k for k in keys if k not in done and (failed is None or k in failed) and _matches(options.k, k)]
            where = {"run": options.run, "soc": options.soc, "standard": options.standard}
            for result in sweep(path.resolve(), keys, address=options.ray_address, **where):
                store.add(run, result)
                results.append(result)
                if result.status not in (PASSED, SKIPPED):
                    print(f"{result.status} {result.key}: {result.message}")
        store.finish(run)
        worse = drops(results, store.latest(options.against, before=run)) if options.against else []
    for drop in worse:
        print(f"worse: {drop}")
    bad = sum(r.status not in (PASSED, SKIPPED) for r in results)
    print(f"{len(results)} cases on ray: {len(results) - bad} good, {bad} bad")
    return results, worse, 1 if bad or worse else 0


def _matches(expression: str, key: str) -> bool:
    """A plain word of pytest's -k; full expressions need pytest itself."""
    return not expression or expression.lower() in key.lower()


def _export(options: argparse.Namespace) -> int:
    from toprope.testing import casefile
    from toprope.testing.readers import cann_bench, find_suites, msopst, ttk

    kind, _, target = options.export.partition(":")
    writers = {"toml": casefile.write, "ttk": ttk.write, "msopst": msopst.write, "cann-bench": cann_bench.write}
    if kind not in writers or not target:
        raise BadInput(f"--export {options.export}", cure=f"write FORMAT:FILE with {', '.join(writers)}")
    cases = [c for p in options.paths for s in find_suites(p) for c in s.cases if _matches(options.k, c.name)]
    writers[kind](Path(target), cases)
    print(f"{len(cases)} cases written to {target}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
