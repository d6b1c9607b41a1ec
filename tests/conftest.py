"""Fixtures that every area shares, and the last line of a run: what did not run, and how to run it."""

from __future__ import annotations

import hashlib
import os
import re
import tempfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
# Compiled kernels are shared by all test processes and runs of this checkout and this user: never with the user's own cache, and never
# with another checkout, whose headers are others.
_OWN = hashlib.sha256(str(ROOT).encode()).hexdigest()[:8]
os.environ.setdefault("TOPROPE_CACHE", str(Path(tempfile.gettempdir()) / f"toprope-test-cache-{os.getuid()}-{_OWN}"))

# Messages are compared in English, whatever the locale of the machine.
os.environ["TOPROPE_LANG"] = "en"
# Thousands of launches of kernels that are known to behave: some milliseconds less for each. tests/commands/test_faults.py has the others.
os.environ.setdefault("TOPROPE_IN_PROCESS", "1")

_MISSING = re.compile(r"could not import '([\w.]+)'|the package ([\w-]+) is not installed|there is no (Chromium)")
# How to bring what is missing; other packages come with pip install.
_BRINGS = {
    "torch": "./dev setup torch",
    "ray": "./dev setup ray",
    "textual": "./dev setup tui",
    "Chromium": "install Chromium",
}
_not_run = pytest.StashKey[dict[str, set[str]]]()


def what_is_missing(reason: str) -> str:
    """The package or program that a test was skipped for, as its users call it; "" when it was skipped for another reason."""
    found = _MISSING.search(reason)
    return next(filter(None, found.groups())).split(".")[0] if found else ""


def last_line(missing: dict[str, int], others: int, slow: bool) -> str:
    """One line that says what a run left out and how to run it; "" when nothing was."""
    parts = []
    for name, count in sorted(missing.items()):
        cure = _BRINGS.get(name, f"pip install {name}")
        parts.append(f"{count} {'file or test needs' if count == 1 else 'files or tests need'} {name} ({cure})")
    if others:
        parts.append(f"{others} skipped for other reasons (-rs shows them)")
    if slow:
        parts.append("the long sweeps (./dev test --all)")
    return f"not run: {'; '.join(parts)}" if parts else ""


def pytest_configure(config: pytest.Config) -> None:
    config.stash[_not_run] = {}


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    for report in terminalreporter.stats.get("skipped", []):
        reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
        config.stash[_not_run].setdefault(what_is_missing(reason), set()).add(report.nodeid)


def pytest_unconfigure(config: pytest.Config) -> None:
    if hasattr(config, "workerinput") or config.option.collectonly:
        return
    left_out = {name: len(ids) for name, ids in config.stash[_not_run].items()}
    others = left_out.pop("", 0)
    if line := last_line(left_out, others, config.option.markexpr == "not slow"):
        print(line)
