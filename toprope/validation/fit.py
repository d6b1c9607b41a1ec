"""Solves the constants of constants.toml from the rows marked fit, and again with each publisher left out.

Least squares of logarithms: a row's time and its pipe times against the predictions, a constant against its prior. Rows of one series weigh
together as much as those of another, whatever their number; an outlier pulls no harder than three standard deviations.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatch
from functools import cache
from pathlib import Path

import numpy as np

from toprope.kernel import Run
from toprope.soc import Soc, file_of, load
from toprope.timing.confidence import COVERED, EVIDENCE, Evidence
from toprope.timing.least_squares import LeastSquares
from toprope.timing.library_plans import LEAST_SHARE, Plan
from toprope.trace import Array
from toprope.validation.experiment import Outcome, Published, judge, launch, published
from toprope.validation.report import by

HERE = Path(__file__).parent
TOTAL_SPREAD, PIPE_SPREAD = 0.05, 0.1  # of the logarithm of a published time and pipe time
ROWS_OF_A_SERIES = 3.0  # what a series weighs, in rows
MOST = 12.0  # standard deviations that an error counts


@dataclass(frozen=True)
class Constant:
    """A number solved from rows: `paths` in the file of `chip` change by one factor; `prior` and `spread` (log) without any row."""

    name: str
    paths: tuple[str, ...]
    prior: float
    spread: float
    why: str
    rows: tuple[str, ...]
    chip: str

    @property
    def base(self) -> Soc:
        """The chip that states it."""
        return load(self.chip)

    def uses(self, row: Published) -> bool:
        """Whether the constant is solved from this row."""
        return any(fnmatch(name_of(row), pattern) for pattern in self.rows)


def name_of(row: Published) -> str:
    """How constants.toml calls a row."""
    return f"{row.publisher}/{row.kernel}-{row.id}"


@cache
def constants() -> list[Constant]:
    """The constants; where none says its chip, they belong to that of the file."""
    table = tomllib.loads((HERE / "constants.toml").read_text())
    return [
        Constant(
            c["name"],
            tuple(c["paths"]),
            c["prior"],
            c["spread"],
            c["why"],
            tuple(c["rows"]),
            c.get("chip", table["chip"]),
        )
        for c in table["constant"]
    ]


def changed(soc: Soc, constant: Sequence[Constant], logs: Array) -> Soc:
    """The chip with these logarithms of constants; a number that the chip states for itself stays as it is."""
    values = {}
    for c, log in zip(constant, logs, strict=True):
        base, first = c.base, c.base.number(c.paths[0])
        for path in c.paths:
            if soc.number(path) == base.number(path):
                values[path] = base.number(path) * float(np.exp(log)) / first
    return soc.replaced(values)


class Problem:
    """The rows to fit, launched once, and what the constants must explain."""

    def __init__(self, rows: Sequence[Published]) -> None:
        self.constants = constants()
        self.rows = [row for row in rows if any(c.uses(row) for c in self.constants)]
        self.runs: list[Run] = [launch(row) for row in self.rows]
        counts = {row.series: sum(r.series == row.series for r in self.rows) for row in self.rows}
        self.weights = [min(1.0, ROWS_OF_A_SERIES / counts[row.series]) for row in self.rows]
        self.priors = np.log([c.prior for c in self.constants])

    def start(self) -> Array:
        """The logarithms of what the chip file has now."""
        return np.log([c.base.number(c.paths[0]) for c in self.constants])

    def outcome(self, index: int, logs: Array) -> Outcome:
        """A row under these constants."""
        run = self.runs[index]
        return judge(self.rows[index], run, changed(run.soc, self.constants, logs))

    def residuals(self, index: int, logs: Array) -> Array:
        """A row's errors in standard deviations, weighted."""
        o = self.outcome(index, logs)
        errors = [np.log(o.us / o.row.us) / TOTAL_SPREAD]
        errors += [np.log(max(o.pipes[p], 1e-9) / us) / PIPE_SPREAD for p, us in o.row.pipes.items()]
        scale = np.sqrt(self.weights[index] / len(errors))
        return np.asarray(np.clip(errors, -MOST, MOST) * scale)

    def least_squares(self) -> LeastSquares:
        """The same as a problem of numbers."""
        uses = np.array([[c.uses(row) for c in self.constants] for row in self.rows])
        spreads = np.array([c.spread for c in self.constants])
        return LeastSquares(self.residuals, uses, self.priors, spreads)


@dataclass(frozen=True)
class Fit:
    """Solved constants: `all_rows`, and for each publisher those solved without it."""

    names: tuple[str, ...]
    all_rows: Mapping[str, float]
    without: Mapping[str, Mapping[str, float]]

    def values(self, publisher: str | None) -> Mapping[str, float]:
        """By constant name, with a publisher's rows left out."""
        return self.without.get(publisher, self.all_rows) if publisher else self.all_rows


def blind(row: Published, solved: Fit) -> Outcome:
    """The row predicted with constants that never saw its publisher, beside the chip file's, and the other reading of its source."""
    fitted = constants()

    def chip(soc: Soc) -> Soc:
        if row.publisher not in solved.without:
            return soc
        values = solved.values(row.publisher)
        return changed(soc, fitted, np.log([values[c.name] for c in fitted]))

    run = launch(row)
    outcome = judge(row, run, chip(run.soc))
    seen = judge(row, run, run.soc).us if row.publisher in solved.without else outcome.us
    other = None
    if row.otherwise or row.otherwise_chip:
        reading = replace(row, setup=row.otherwise or row.setup, chip=row.otherwise_chip or row.chip)
        again = launch(reading)
        other = judge(reading, again, chip(again.soc)).us
    return replace(outcome, seen_us=seen, other_us=other)


@cache
def fitted() -> Fit:
    """What the last `fit` wrote."""
    table = tomllib.loads((HERE / "fitted.toml").read_text())
    return Fit(tuple(table["all"]), table["all"], table["without"])


def solve(*, rounds: int = 5, say: bool = False) -> Fit:
    """Fit everything, then with each publisher left out (its rows predict with constants that never saw it)."""

    def tell(text: str) -> None:
        if say:
            print(text, flush=True)

    problem = Problem([row for row in published() if row.fit])
    squares = problem.least_squares()
    logs, values, slopes = squares.solve(problem.start(), rounds, tell)
    names = tuple(c.name for c in problem.constants)
    without = {}
    for publisher in sorted({row.publisher for row in problem.rows}):
        kept = [i for i, row in enumerate(problem.rows) if row.publisher != publisher]
        left, now = logs, list(values)
        for _ in range(3):
            left = squares.step(left, now, slopes, kept)
            for i in kept:
                now[i] = squares.residual(i, left)
        without[publisher] = dict(zip(names, np.exp(left).tolist(), strict=True))
        tell(f"without {publisher}")
    return Fit(names, dict(zip(names, np.exp(logs).tolist(), strict=True)), without)


def store(solved: Fit) -> None:
    """Write fitted.toml, and the numbers solved from all rows into the chip file, three digits each."""
    lines = [
        "# Written by `python -m toprope.validation fit`; do not edit. Constants by name: from all rows, and without each publisher's.",
        "[all]",
    ]
    lines += [f'"{name}" = {digits(value)}' for name, value in solved.all_rows.items()]
    for publisher, values in solved.without.items():
        lines += ["", f'[without."{publisher}"]'] + [f'"{name}" = {digits(value)}' for name, value in values.items()]
    (HERE / "fitted.toml").write_text("\n".join(lines) + "\n")
    for chip in sorted({c.chip for c in constants()}):
        file, base = file_of(chip), load(chip)
        assert file is not None
        text = file.read_text()
        for c in (c for c in constants() if c.chip == chip):
            factor = solved.all_rows[c.name] / base.number(c.paths[0])
            for path in c.paths:
                text = with_number(text, path, base.number(path) * factor)
        file.write_text(text)


def digits(value: float) -> float:
    """Rounded to three digits: more is not known."""
    return float(f"{value:.3g}")


def with_number(text: str, path: str, value: float) -> str:
    """A chip file's text with another number at a dotted path. Raises ValueError where it is not stated."""
    groups, _, key = path.rpartition(".")
    shown = f"{digits(value):g}"
    if ".rows." in groups:
        group, row = groups.split(".rows.")
        pattern = rf"(?ms)^(\[{re.escape(group)}\]\n.*?^rows\.{row} = \{{[^}}]*?\b{key} = )[-+.0-9e]+"
    else:
        pattern = rf"(?ms)^(\[{re.escape(groups)}\]\n(?:(?!^\[).)*?^{key} = )[-+.0-9e]+"
    made, count = re.subn(pattern, rf"\g<1>{shown}", text, count=1)
    if count == 0:
        raise ValueError(f"{path} is not stated in the chip file")
    return made


def bands(outcomes: Sequence[Outcome]) -> list[Evidence]:
    """The band of device over predicted that holds 80 % of the rows of each kind of work, and of all; rows of one series weigh together
    as much as those of another."""
    groups = {"all": list(outcomes)} | by(outcomes, lambda o: o.work)
    return [_band(kind, rows) for kind, rows in groups.items()]


def _band(kind: str, outcomes: Sequence[Outcome]) -> Evidence:
    ratios = np.array([o.row.us / o.us for o in outcomes])
    counts = {o.row.series: sum(p.row.series == o.row.series for p in outcomes) for o in outcomes}
    weights = np.array([1 / np.sqrt(counts[o.row.series]) for o in outcomes])
    order = np.argsort(ratios)
    share = (np.cumsum(weights[order]) - weights[order] / 2) / weights.sum()
    # A sample of n says less about its tails than its quantiles do: both ends move out by one part in n + 1.
    tail = max(0.0, (1 - COVERED) / 2 - 0.5 / (len(outcomes) + 1))
    low, high = np.interp([tail, 1 - tail], share, ratios[order])
    publishers = len({o.row.publisher for o in outcomes})
    return Evidence(kind, len(outcomes), publishers, round(min(1.0, float(low)), 3), round(max(1.0, float(high)), 3))


def plans(outcomes: Sequence[Outcome]) -> list[Plan]:
    """Which functions of the library published rows verify, with the rows' errors."""
    errors: dict[str, list[float]] = {}
    for o in outcomes:
        for name, share in o.functions.items():
            if share >= LEAST_SHARE:
                errors.setdefault(name, []).append(abs(o.error))
    return [Plan(name, len(of), round(float(np.median(of)), 3)) for name, of in sorted(errors.items())]


def store_bands(found: Sequence[Evidence], functions: Sequence[Plan]) -> None:
    """Write timing/evidence.toml."""
    lines = [
        "# Written by `python -m toprope.validation fit`; do not edit. Device over predicted, by kind of work: the band that held 80 % of published rows."
    ]
    for e in found:
        lines += [
            "",
            "[[kinds]]",
            f'kind = "{e.kind}"',
            f"rows = {e.rows}",
            f"publishers = {e.publishers}",
            f"low = {e.low}",
            f"high = {e.high}",
        ]
    for p in functions:
        lines += ["", "[[functions]]", f'name = "{p.name}"', f"rows = {p.rows}", f"median_error = {p.median_error}"]
    EVIDENCE.write_text("\n".join(lines) + "\n")
