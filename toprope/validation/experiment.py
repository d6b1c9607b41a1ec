"""Runs one published row: our kernel with its tiling, without the arithmetic, and what predict() makes of the trace."""

from __future__ import annotations

import time
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from toprope.kernel import Run
from toprope.soc import Soc
from toprope.timing import Timeline, predict
from toprope.timing.confidence import kind_of
from toprope.timing.library_plans import shares
from toprope.validation.launches import KERNELS

HERE = Path(__file__).parent
ROWS = HERE / "rows"


@dataclass(frozen=True)
class Published:
    """A published measurement: time and busy time per pipe, in microseconds, and how to repeat it here.

    `publisher` is who measured: rows of one publisher are left out together. `kind` is the kind of work. `fit` marks the rows that constants
    are solved from. `closed`: the kernel is not public, the tiling is ours. `repeats`: the row of the same kernel that measures the same work
    again. `span` says what was timed: the "task", the "slowest core" or the "mean core". `l2` as in `predict`: "warm" where the source says that the
    launch before, or a prefetch, left the arrays in L2, "called" where a framework calls the kernel again and again. `slow` rows run with --all only; `part`: only every part-th of the work is run and the time
    multiplied. `assumes` says what the source leaves open, `otherwise` and
    `otherwise_chip` what the other reading changes of `setup` and `chip`.
    """

    publisher: str
    kind: str
    series: str
    id: str
    what: str
    chip: str
    kernel: str
    source: str
    us: float
    pipes: Mapping[str, float]
    setup: Mapping[str, Any]
    fit: bool = False
    assumes: str = ""
    otherwise: Mapping[str, Any] | None = None
    otherwise_chip: str = ""
    span: str = "task"
    closed: bool = False
    slow: bool = False
    part: int = 1
    note: str = ""
    repeats: str = ""
    l2: str = "cold"


@dataclass(frozen=True)
class Outcome:
    """A published row beside our prediction of it, in microseconds; `error` is signed, 0.1 means ten per cent too long.

    `work` is the kind of work as told from the trace; `seen_us` the prediction with the constants of the chip file where `us` is one with
    constants that never saw the publisher; `functions` which share of the vector time each library function has; `other_us` what the other reading of the source predicts.
    """

    row: Published
    us: float
    pipes: Mapping[str, float]
    assumed_share: float
    instructions: int
    predict_s: float
    work: str = ""
    functions: Mapping[str, float] = field(default_factory=dict)
    seen_us: float | None = None
    other_us: float | None = None

    @property
    def seen_error(self) -> float:
        """The error with the constants of the chip file."""
        return (self.us if self.seen_us is None else self.seen_us) / self.row.us - 1.0

    @property
    def other_error(self) -> float | None:
        """The error under the other reading of the source."""
        return None if self.other_us is None else self.other_us / self.row.us - 1.0

    @property
    def error(self) -> float:
        """Predicted over published, minus one."""
        return self.us / self.row.us - 1.0

    @property
    def pipe_errors(self) -> dict[str, float]:
        """The same for each published pipe time."""
        return {pipe: self.pipes[pipe] / us - 1.0 for pipe, us in self.row.pipes.items()}


def published() -> list[Published]:
    """Every row of the files in rows/, one file a publisher or more."""
    rows = []
    for file in sorted(ROWS.glob("*.toml")):
        table = tomllib.loads(file.read_text())
        for series in table["series"]:
            of_file = {key: value for key, value in table.items() if key != "series"}
            shared = {key: value for key, value in series.items() if key not in ("name", "row")}
            rows += [
                Published(**{"series": series["name"], "pipes": {}, **of_file, **shared, **row})
                for row in series["row"]
            ]
    return rows


def launch(row: Published) -> Run:
    """Run the row's kernel on all its cores, time only. Raises what loading and launching a kernel raise."""
    return KERNELS[row.kernel](row.setup, row.chip, row.part)


def run(row: Published) -> Outcome:
    """Launch the row's kernel and predict its trace."""
    launched = launch(row)
    return judge(row, launched, launched.soc)


def judge(row: Published, launched: Run, soc: Soc) -> Outcome:
    """What `predict` makes of the launched row on this chip, beside what was published."""
    started = time.perf_counter()
    timeline: Timeline = predict(launched.trace, soc, l2=row.l2)
    elapsed = time.perf_counter() - started
    start_up = timeline.launch_cycles / (soc.ghz * 1e3)  # once, however large the part
    return Outcome(
        row=row,
        us=start_up + (_SPANS[row.span](timeline) - start_up) * row.part,
        pipes={pipe: timeline.pipe_us(pipe) * row.part for pipe in row.pipes},
        assumed_share=timeline.assumed_share,
        instructions=len(timeline.start),
        predict_s=elapsed,
        work=kind_of(timeline.trace, timeline.microseconds),
        functions=shares(timeline.trace, timeline.end - timeline.start),
    )


_SPANS: dict[str, Callable[[Timeline], float]] = {
    "task": lambda timeline: timeline.microseconds,
    "slowest core": lambda timeline: float(timeline.core_us.max()),
    "mean core": lambda timeline: float(timeline.core_us.mean()),
}
