"""pytest plugin: with --toprope every case of a case file is a test item, run and judged by this package.

Collects TOML case files, ops-test-kit tables and assets, cann-bench tasks, msopst JSON, and script pairs. Works with
pytest-xdist: workers send results home as report properties, and only the main process writes the store and reports.
"""

from __future__ import annotations

import os
import time
from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from toprope.testing.cases import KINDS, Case
from toprope.testing.errors import CaseError, TestingError
from toprope.testing.execution import ERROR, FAILED, PASSED, SKIPPED, Result, Runner, execute
from toprope.testing.isolation import isolated
from toprope.testing.pairs import execute_pair
from toprope.testing.readers import recognised, scripts, suites_of_file
from toprope.testing.runners import KernelRunner, ProjectRunner, runner_from
from toprope.testing.store import Store, drops
from toprope.testing.suite import Suite

RESULT_PROPERTY = "toprope_result"
SHOWN_FINDINGS = 2
AS_ABOVE = " (as for the first case)"


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("toprope", "operator cases")
    add = group.addoption
    add("--toprope", action="store_true", help="collect operator cases (TOML, CSV, YAML, JSON, script pairs)")
    add(
        "--toprope-run",
        default="",
        help="what to test: golden, numpy.add, file.py:function, kernel.cpp:entry, or cmd:<shell>",
    )
    add("--toprope-soc", default="", help="chip that kernels are timed for")
    add(
        "--toprope-standard", default="", help="precision standard for every case (default: the case's own, else mixed)"
    )
    add(
        "--toprope-determinism",
        action="store_true",
        help="bits must not depend on repetition, order of blocks, or batch",
    )
    add("--toprope-time-budget", type=float, default=0, help="seconds after which the remaining cases are skipped")
    add("--toprope-case-timeout", type=float, default=60, help="seconds that one case may take (default 60)")
    add("--toprope-failed-only", action="store_true", help="only cases whose newest stored result is a failure")
    add("--toprope-resume", action="store_true", help="continue the latest interrupted run with the same settings")
    add("--toprope-store", default=".toprope/tests.sqlite", help="SQLite file with the history of all results")
    add("--toprope-label", default="local", help="name under which results are stored, such as a branch")
    add(
        "--toprope-against", default="", help="fail when a case is worse than the newest result stored under this label"
    )


def pytest_configure(config: pytest.Config) -> None:
    for kind in (*KINDS, "given"):
        config.addinivalue_line("markers", f"{kind}: a class of operator case")
    if config.getoption("--toprope") and not hasattr(config, "workerinput"):
        config.pluginmanager.register(_Recorder(config), "toprope-recorder")
    if config.getoption("--toprope-time-budget"):
        # Workers start later than the main process; all of them count from the same moment.
        os.environ.setdefault("TOPROPE_TEST_DEADLINE", str(time.time() + config.getoption("--toprope-time-budget")))


def pytest_unconfigure(config: pytest.Config) -> None:
    if not hasattr(config, "workerinput"):
        os.environ.pop("TOPROPE_TEST_DEADLINE", None)


def pytest_collect_file(file_path: Path, parent: pytest.Collector) -> pytest.Collector | None:
    if not parent.config.getoption("--toprope") or not recognised(file_path):
        return None
    collected: pytest.Collector = CaseFile.from_parent(parent, path=file_path)
    return collected


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out what --toprope-failed-only or --toprope-resume exclude; done in every process so that xdist sees equal lists."""
    if not config.getoption("--toprope"):
        return
    kept: set[str] | None = None
    done: set[str] = set()
    if config.getoption("--toprope-failed-only"):
        with Store(Path(config.getoption("--toprope-store"))) as store:
            kept = store.failed_last()
    if config.getoption("--toprope-resume"):
        with Store(Path(config.getoption("--toprope-store"))) as store:
            run = store.unfinished(config.getoption("--toprope-label"), run_settings(config))
            done = {r.key for r in store.results(run)} if run is not None else set()
    chosen = [
        i for i in items if not isinstance(i, CaseItem) or ((kept is None or i.key in kept) and i.key not in done)
    ]
    if len(chosen) != len(items):
        config.hook.pytest_deselected(items=[i for i in items if i not in chosen])
        items[:] = chosen


def run_settings(config: pytest.Config) -> dict[str, object]:
    """What has to be equal for an interrupted run to be resumable."""
    arguments = [a for a in config.invocation_params.args if isinstance(a, str) and Path(a).exists()]
    return {
        "paths": sorted(str(Path(a).resolve()) for a in arguments),
        "run": config.getoption("--toprope-run"),
        "soc": config.getoption("--toprope-soc"),
        "standard": config.getoption("--toprope-standard"),
    }


class CaseFile(pytest.File):
    """A file that stands for one or more suites."""

    def collect(self) -> Iterator[pytest.Item]:
        """One item per case; complaints about unreadable rows become failing items, so that they cannot go unnoticed."""
        if self.path.name in scripts.GENERATORS:
            pair = next(p for p in scripts.find(self.path.parent) if p.generator == self.path)
            yield PairItem.from_parent(self, name=pair.name, pair=pair)
            return
        try:
            suites = suites_of_file(self.path)
        except TestingError as error:
            raise self.CollectError(str(error)) from error
        complaints: set[str] = set()
        for suite in suites:
            for case in suite.cases:
                yield CaseItem.from_parent(self, name=f"{suite.name}::{case.name}", suite=suite, case=case)
            complaints |= set(suite.problems)
        for number, complaint in enumerate(sorted(complaints)):
            yield ComplaintItem.from_parent(self, name=f"unreadable_{number}", complaint=complaint)

    def _getobj(self) -> None:
        return None


@dataclass(frozen=True)
class _Settings:
    run: str
    soc: str
    standard: str
    timeout_s: float
    determinism: bool


class ResultItem(pytest.Item):
    """An item whose outcome is a Result."""

    result: Result | None = None

    def judge(self) -> Result:
        """Run and judge; implemented by each kind of item."""
        raise NotImplementedError

    @property
    def settings(self) -> _Settings:
        """The command line's part in running a case."""
        option = self.config.getoption
        return _Settings(
            option("--toprope-run"),
            option("--toprope-soc"),
            option("--toprope-standard"),
            option("--toprope-case-timeout"),
            option("--toprope-determinism"),
        )

    def runtest(self) -> None:
        """Run the case unless the time budget is used up."""
        deadline = float(os.environ.get("TOPROPE_TEST_DEADLINE", "inf"))
        if time.time() > deadline:
            pytest.skip("time budget used up")
        self.result = self.judge()
        self.user_properties.append((RESULT_PROPERTY, self.result.as_dict()))
        if self.result.status == SKIPPED:
            pytest.skip(self.result.message)
        if self.result.status != PASSED:
            raise CaseFailed(self.result)

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException], style: Any = None) -> str:
        """The verdict instead of a stack of frames."""
        if isinstance(excinfo.value, CaseFailed):
            result = excinfo.value.result
            parts = [result.message, result.inputs, result.explanation, *result.findings[:SHOWN_FINDINGS]]
            if len(result.findings) > SHOWN_FINDINGS:
                parts.append(f"… {len(result.findings) - SHOWN_FINDINGS} more findings (toprope check shows them)")
            return "\n".join(part for part in parts if part)
        return str(super().repr_failure(excinfo, style))

    def reportinfo(self) -> tuple[Path, int | None, str]:
        """Where pytest says the test is."""
        return self.path, None, self.name


class CaseItem(ResultItem):
    """One case of one suite."""

    def __init__(self, *, suite: Suite, case: Case, **options: Any) -> None:
        super().__init__(**options)
        self.suite, self.case = suite, case
        self.key = f"{suite.name}::{case.name}"
        self.add_marker(case.kind)

    def judge(self) -> Result:
        return judge(self.suite, self.case, self.settings)


class PairItem(ResultItem):
    """A gen_data.py / verify_result.py pair."""

    def __init__(self, *, pair: scripts.ScriptPair, **options: Any) -> None:
        super().__init__(**options)
        self.pair = pair

    def judge(self) -> Result:
        run = self.settings.run
        command = run.removeprefix("cmd:") if run.startswith("cmd:") else ""
        return execute_pair(self.pair, command, timeout_s=self.settings.timeout_s)


class ComplaintItem(pytest.Item):
    """A row or file that could not be read."""

    def __init__(self, *, complaint: str, **options: Any) -> None:
        super().__init__(**options)
        self.complaint = complaint

    def runtest(self) -> None:
        """Always fails, with the reader's words."""
        raise CaseFailed(Result("", self.name, "given", ERROR, message=self.complaint))

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException], style: Any = None) -> str:
        """The reader's words."""
        return self.complaint


class CaseFailed(Exception):
    """Carries a failing Result to the report."""

    def __init__(self, result: Result) -> None:
        super().__init__(result.message)
        self.result = result


def judge(suite: Suite, case: Case, settings: _Settings) -> Result:
    """Run one case under the given settings; kernels and foreign references in a child process with limits."""
    try:
        key = (id(suite), settings)
        if key not in _RUNNERS:
            _RUNNERS[key] = _runner(suite, settings)
        runner = _RUNNERS[key]
        if isinstance(runner, TestingError):  # in full once; the other cases only name it
            _RUNNERS[key] = CaseError(f"{runner.what.splitlines()[0].removesuffix(AS_ABOVE)}{AS_ABOVE}")
            raise runner
        how = settings.standard, settings.determinism
        if isinstance(runner, KernelRunner | ProjectRunner) or suite.format not in ("toml", "python"):
            return isolated(execute_with, suite, case, runner, *how, timeout_s=settings.timeout_s)
        return execute_with(suite, case, runner, *how)
    except TestingError as error:
        return Result(suite.name, case.name, case.kind, ERROR, message=str(error))


_RUNNERS: dict[tuple[int, _Settings], Runner | TestingError] = {}
"""One runner per suite of this process, or why there is none: suites live as long as the session, so their identity is a safe key."""


def execute_with(suite: Suite, case: Case, runner: Runner, standard: str, determinism: bool) -> Result:
    """`execute` with positional arguments, for calls that travel to other processes."""
    return execute(suite, case, runner, standard=standard, determinism=determinism)


def _runner(suite: Suite, settings: _Settings) -> Runner | TestingError:
    text = settings.run or str(suite.settings.get("run", "")) or "golden"
    try:
        runner = runner_from(text, suite, soc=settings.soc, settings=suite.settings)
        if isinstance(runner, KernelRunner):
            runner.compile()  # here, once: the children of all cases inherit it
    except TestingError as error:
        return error
    return runner


def determinism_line(results: Sequence[Result]) -> str:
    """All results of --determinism in one line."""
    examined = [r.determinism for r in results if r.determinism]
    parts = []
    for kind in ("repeat", "block order", "batch consistency"):
        tried = [d[kind] for d in examined if kind in d]
        same = tried.count("identical")
        parts.append(f"{kind} {same} of {len(tried)} identical" if tried else f"{kind} not tried")
    return f"determinism of {len(examined)} cases: " + ", ".join(parts)


class _Recorder:
    """In the main process: stores results as they come, and checks them against a reference at the end."""

    def __init__(self, config: pytest.Config) -> None:
        self.config = config
        self.store = Store(Path(config.getoption("--toprope-store")))
        self.results: list[Result] = []
        self.drops: Sequence[Any] = ()
        label, settings = config.getoption("--toprope-label"), run_settings(config)
        resumed = self.store.unfinished(label, settings) if config.getoption("--toprope-resume") else None
        if resumed is not None:
            self.results = self.store.results(resumed)
        self.run = resumed if resumed is not None else self.store.begin(label, settings)
        self.interrupted = False

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Store a result the moment it is known."""
        if report.when != "call":
            return
        for name, value in report.user_properties:
            if name == RESULT_PROPERTY and isinstance(value, dict):
                result = Result.from_dict(value)
                self.results.append(result)
                self.store.add(self.run, result)

    def pytest_keyboard_interrupt(self) -> None:
        """An interrupted run stays open in the store, so that --toprope-resume finds it."""
        self.interrupted = True

    @pytest.hookimpl(wrapper=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> Generator[None]:
        """Compare with the reference and settle the exit status."""
        against = self.config.getoption("--toprope-against")
        if against:
            self.drops = drops(self.results, self.store.latest(against, before=self.run))
            if self.drops and session.exitstatus == pytest.ExitCode.OK:
                session.exitstatus = pytest.ExitCode.TESTS_FAILED
        skipped_by_budget = time.time() > float(os.environ.get("TOPROPE_TEST_DEADLINE", "inf"))
        if not self.interrupted and not skipped_by_budget:
            self.store.finish(self.run)
        yield
        self.store.close()

    def pytest_terminal_summary(self, terminalreporter: Any) -> None:
        """Totals by class of case, and what got worse."""
        left_out = sum("time budget" in str(r.longrepr) for r in terminalreporter.stats.get("skipped", []))
        if left_out:
            terminalreporter.write_line(f"{left_out} cases left out: the time budget is used up (--resume runs them)")
        if not self.results:
            return
        write = terminalreporter.write_line
        terminalreporter.section("operator cases")
        for kind in sorted({r.kind for r in self.results}):
            chosen = [r for r in self.results if r.kind == kind]
            counts = {s: sum(r.status == s for r in chosen) for s in (PASSED, FAILED, ERROR, SKIPPED)}
            write(f"{kind:10s} " + "  ".join(f"{n} {s}" for s, n in counts.items() if n))
        if self.config.getoption("--toprope-determinism"):
            write(determinism_line(self.results))
        if self.config.getoption("--toprope-against"):
            write(f"against {self.config.getoption('--toprope-against')}: {len(self.drops)} cases worse")
            for drop in self.drops[:20]:
                write(f"  {drop}")
