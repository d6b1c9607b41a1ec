"""What the errors amount to: by all rows, by publisher, by kind of work, and by pairs of variants."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import combinations, groupby
from typing import Any

import numpy as np

from toprope.validation.experiment import Outcome, Published, published

TIE = 0.005  # two times that differ by less are called a tie


@dataclass(frozen=True)
class Summary:
    """Mean and median absolute error and correlation of total times, and the median absolute error of pipe times."""

    rows: int
    mean_error: float
    median_error: float
    correlation: float
    median_pipe_error: float
    assumed_share: float


def summary(outcomes: Sequence[Outcome]) -> Summary:
    """Sum up rows; correlation is of the logarithms, because the times span four orders of magnitude."""
    errors = np.abs([o.error for o in outcomes])
    pipes = np.abs([e for o in outcomes for e in o.pipe_errors.values()])
    ours, theirs = np.log([o.us for o in outcomes]), np.log([o.row.us for o in outcomes])
    return Summary(
        rows=len(outcomes),
        mean_error=float(errors.mean()),
        median_error=float(np.median(errors)),
        correlation=float(np.corrcoef(ours, theirs)[0, 1]) if len(outcomes) > 2 else float("nan"),
        median_pipe_error=float(np.median(pipes)) if len(pipes) else float("nan"),
        assumed_share=float(np.mean([o.assumed_share for o in outcomes])),
    )


def misordered(outcomes: Sequence[Outcome]) -> list[tuple[str, str]]:
    """Pairs of variants that we order otherwise than the device did, ties left out."""
    wrong = []
    for a, b in combinations(outcomes, 2):
        ours, theirs = np.log(a.us / b.us), np.log(a.row.us / b.row.us)
        if ours * theirs < 0 and min(abs(ours), abs(theirs)) > TIE:
            wrong.append((a.row.id, b.row.id))
    return wrong


def spread_of_repeats(rows: Sequence[Published]) -> float:
    """How far apart the device times of the same work are: the largest ratio of two published rows that repeat each other, minus one."""
    times = {(row.kernel, row.id): row.us for row in rows}
    ratios = [row.us / times[row.kernel, row.repeats] for row in rows if row.repeats]
    return max((max(ratio, 1 / ratio) - 1 for ratio in ratios), default=0.0)


@dataclass(frozen=True)
class Orders:
    """Pairs of variants of one series, and how many we order otherwise than the device did; `apart` counts those beyond the spread."""

    pairs: int
    wrong: int
    apart: int
    wrong_apart: int


def orders(outcomes: Sequence[Outcome], spread: float) -> Orders:
    """Judge every pair of variants within its series; `spread` is the difference that the device itself does not repeat."""
    pairs = [pair for _, group in groupby(outcomes, key=lambda o: o.row.series) for pair in combinations(group, 2)]
    apart = [(a, b) for a, b in pairs if _apart(a, b, spread)]
    wrong = [bool(misordered(pair)) for pair in pairs]
    return Orders(len(pairs), sum(wrong), len(apart), sum(bool(misordered(pair)) for pair in apart))


def _apart(a: Outcome, b: Outcome, spread: float) -> bool:
    return max(a.row.us / b.row.us, b.row.us / a.row.us) - 1 > spread


def by(outcomes: Sequence[Outcome], key: Callable[[Outcome], str]) -> dict[str, list[Outcome]]:
    """Outcomes in groups, in order of first appearance."""
    groups: dict[str, list[Outcome]] = {}
    for o in outcomes:
        groups.setdefault(key(o), []).append(o)
    return groups


def as_json(outcomes: Sequence[Outcome]) -> dict[str, Any]:
    """Everything as plain values."""
    rows = [
        {
            "publisher": o.row.publisher, "series": o.row.series, "id": o.row.id, "what": o.row.what, "chip": o.row.chip, "kind": o.row.kind,
            "work": o.work, "published_us": o.row.us, "predicted_us": o.us, "error": o.error, "seen_error": o.seen_error,
            "other_reading_error": o.other_error, "published_pipes_us": dict(o.row.pipes), "predicted_pipes_us": dict(o.pipes),
            "fit": o.row.fit, "closed": o.row.closed, "assumed_share": o.assumed_share, "instructions": o.instructions,
            "source": o.row.source,
        }
        for o in outcomes
    ]  # fmt: skip
    public = [o for o in outcomes if not o.row.closed]
    spread = spread_of_repeats(published())
    return {
        "rows": rows,
        "spread_of_repeats": spread,
        "orders": orders(sorted(public, key=lambda o: o.row.series), spread).__dict__,
        "all": summary(outcomes).__dict__ if outcomes else None,
        "public": summary(public).__dict__ if public else None,
        "by_kind": {kind: summary(group).__dict__ for kind, group in by(outcomes, lambda o: o.row.kind).items()},
        "by_publisher": {
            name: summary(group).__dict__ for name, group in by(outcomes, lambda o: o.row.publisher).items()
        },
    }
