"""The regression store: every result of every run in one SQLite file, and what got worse since a named reference."""

from __future__ import annotations

import json
import sqlite3
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType

from toprope.testing.execution import PASSED, SKIPPED, Result

DEFAULT_STORE = Path(".toprope") / "tests.sqlite"
PRECISION_SLACK = 1.10
TIME_SLACK = 1.02
"""How much worse a figure may get before it counts as a drop: 10 % in mean relative error, 2 % in predicted time."""

_SCHEMA = """
CREATE TABLE IF NOT EXISTS runs (
    id INTEGER PRIMARY KEY, label TEXT NOT NULL, started REAL NOT NULL, finished REAL, settings TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS results (
    run INTEGER NOT NULL REFERENCES runs(id), suite TEXT NOT NULL, name TEXT NOT NULL, status TEXT NOT NULL,
    mere REAL, max_ulp REAL, predicted_us REAL, predicted_cycles REAL, seconds REAL, data TEXT NOT NULL,
    PRIMARY KEY (run, suite, name));
CREATE INDEX IF NOT EXISTS by_case ON results (suite, name, run);
"""


@dataclass(frozen=True)
class Drop:
    """One case that is worse than in the reference: which figure, before and now."""

    key: str
    figure: str
    before: str
    now: str

    def __str__(self) -> str:
        return f"{self.key}: {self.figure} {self.before} -> {self.now}"


class Store:
    """Runs and results. Every result is committed as it comes, so an interrupted run loses none that finished."""

    def __init__(self, path: Path = DEFAULT_STORE) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self.path = path
        self._connection = sqlite3.connect(path, timeout=30, isolation_level=None)
        self._connection.execute("PRAGMA journal_mode=WAL")
        self._connection.executescript(_SCHEMA)

    def __enter__(self) -> Store:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the file; results already added stay."""
        self._connection.close()

    def begin(self, label: str, settings: Mapping[str, object]) -> int:
        """Open a run under `label` (a branch or any name) and return its number."""
        row = (label, time.time(), json.dumps(settings, sort_keys=True))
        cursor = self._connection.execute("INSERT INTO runs (label, started, settings) VALUES (?, ?, ?)", row)
        return int(cursor.lastrowid or 0)

    def add(self, run: int, result: Result) -> None:
        """Record one result."""
        figures = (result.metrics.get("mere"), result.metrics.get("max_ulp"))
        times = (result.predicted_us, result.predicted_cycles, result.seconds)
        self._connection.execute(
            "INSERT OR REPLACE INTO results VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            (run, result.suite, result.case, result.status, *figures, *times, json.dumps(result.as_dict())),
        )

    def finish(self, run: int) -> None:
        """Mark a run as complete."""
        self._connection.execute("UPDATE runs SET finished = ? WHERE id = ?", (time.time(), run))

    def unfinished(self, label: str, settings: Mapping[str, object]) -> int | None:
        """The latest run, if it was interrupted and had the same label and settings."""
        row = self._connection.execute(
            "SELECT id, finished FROM runs WHERE label = ? AND settings = ? ORDER BY id DESC LIMIT 1",
            (label, json.dumps(settings, sort_keys=True)),
        ).fetchone()
        return int(row[0]) if row and row[1] is None else None

    def results(self, run: int) -> list[Result]:
        """All results of one run, in the order of their names."""
        rows = self._connection.execute("SELECT data FROM results WHERE run = ? ORDER BY suite, name", (run,))
        return [Result.from_dict(json.loads(data)) for (data,) in rows]

    def latest(self, label: str, before: int | None = None) -> dict[str, Result]:
        """The newest result of every case under `label`, from runs before run `before` where given."""
        rows = self._connection.execute(
            "SELECT data FROM results JOIN runs ON runs.id = run WHERE label = ? AND run < ? ORDER BY run",
            (label, before if before is not None else 1 << 62),
        )
        found = (Result.from_dict(json.loads(data)) for (data,) in rows)
        return {result.key: result for result in found}

    def history(self, suite: str, name: str) -> list[tuple[str, str, float | None, float | None]]:
        """(label, status, mean relative error, predicted microseconds) of one case, oldest first."""
        rows = self._connection.execute(
            "SELECT label, status, mere, predicted_us FROM results JOIN runs ON runs.id = run "
            "WHERE suite = ? AND name = ? ORDER BY run",
            (suite, name),
        )
        return [(str(a), str(b), c, d) for a, b, c, d in rows]

    def failed_last(self) -> set[str]:
        """Keys of the cases whose newest result is neither passed nor skipped."""
        rows = self._connection.execute("SELECT suite, name, status FROM results ORDER BY run")
        newest = {f"{suite}::{name}": status for suite, name, status in rows}
        return {key for key, status in newest.items() if status not in (PASSED, SKIPPED)}


def drops(now: Iterable[Result], reference: Mapping[str, Result]) -> list[Drop]:
    """Cases that got worse: failing where they passed, less precise, or predicted slower."""
    found = []
    for result in now:
        before = reference.get(result.key)
        if before is None or result.status == SKIPPED:
            continue
        if before.status == PASSED and result.status != PASSED:
            found.append(Drop(result.key, "status", before.status, result.status))
            continue
        old, new = before.metrics.get("mere"), result.metrics.get("mere")
        # Differences below a float64 rounding of the mean are noise of the comparison itself.
        if old is not None and new is not None and new > old * PRECISION_SLACK + 1e-15:
            found.append(Drop(result.key, "mean relative error", f"{old:.3g}", f"{new:.3g}"))
        was, is_now = before.predicted_us, result.predicted_us
        if was and is_now and is_now > was * TIME_SLACK:
            found.append(Drop(result.key, "predicted microseconds", f"{was:.2f}", f"{is_now:.2f}"))
    return found
