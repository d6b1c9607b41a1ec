"""One tuning: search with a store behind it, then verify from the fastest on until a point is right."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from toprope.errors import TopropeError
from toprope.tune.decision import Times, key
from toprope.tune.measure import Measure
from toprope.tune.search import Found, search
from toprope.tune.space import Point, Space
from toprope.tune.store import Store
from toprope.tune.subject import Recipe, Subject, identity, open_subject
from toprope.tune.workers import Workers

Progress = Callable[[Point, Measure], None]


class NothingRight(TopropeError):
    """No point that was tried gives a right answer."""

    code = "tune-nothing-right"


@dataclass(frozen=True)
class Tuned:
    """The winner of one tuning and what was learnt on the way.

    `rejected` faster points that were not right, with what is wrong; `asked` predictions that were made, not found in the store.
    """

    recipe: Recipe
    space: Space
    found: Found
    winner: dict[str, int]
    measure: Measure
    default: Measure
    rejected: tuple[tuple[dict[str, int], str], ...]
    asked: int
    kept: int

    @property
    def gain(self) -> float:
        """How many times faster than the default; 1.0 where that has no time."""
        return self.default.us / self.measure.us if self.default.us and self.measure.us else 1.0


def tune(
    recipe: Recipe,
    workers: Workers,
    *,
    method: str = "model",
    most: int = 0,
    store: Store | None = None,
    progress: Progress | None = None,
) -> Tuned:
    """Find the fastest right point of a subject. Raises BadInput, NothingRight."""
    subject = open_subject(recipe)
    space = subject.space
    kept = Store(identity(subject)) if store is None else store  # an empty one is false
    asked = before = 0

    def ask(points: Sequence[Point]) -> list[Measure]:
        nonlocal asked, before
        new = [p for p in points if kept.get(p) is None]
        for point, measure in zip(new, workers(recipe, new), strict=True) if new else ():
            kept.put(point, measure)
            if progress:
                progress(point, measure)
        asked += len(new)
        before += len(points) - len(new)
        out = [kept.get(p) for p in points]
        return [m for m in out if m is not None]

    found = search(method, space, ask, most)
    (default,) = ask([space.default])
    rejected = []
    for point, _ in found.ranked():
        if said := subject.verify(point):
            rejected.append((point, said))
            continue
        measure = kept.get(point)
        assert measure is not None, "every tried point is in the store"
        return Tuned(recipe, space, found, point, measure, default, tuple(rejected), asked, before)
    reasons = [said for _, said in rejected] or [m.reason for _, m in found.tried if m.reason]
    raise NothingRight(
        f"none of {len(found.tried)} points of {recipe.target} is right: {reasons[0] if reasons else 'no point was tried'}",
        cure="correct the kernel with its own sizes first: toprope check",
    )


def across(tuned: Sequence[Tuned], workers: Workers) -> tuple[list[dict[str, int]], list[Times]]:
    """Every winner for every shape: its microseconds there, or None where it has none or its answer is not right.

    What a tiling of one shape leaves out of another makes it fast there: each is run before its time counts. All points have the same
    numbers; one that was no parameter of a winner's shape is what stands there today.
    """
    subjects = [open_subject(t.recipe) for t in tuned]
    names = list(dict.fromkeys(p.name for t in tuned for p in t.space.parameters))
    whole = [{n: t.winner.get(n, s.today.get(n, 0)) for n in names} for t, s in zip(tuned, subjects, strict=True)]
    points = [dict(k) for k in dict.fromkeys(key(p) for p in whole)]
    rows: list[Times] = []
    for one, subject in zip(tuned, subjects, strict=True):
        store = Store(identity(subject))
        new = [p for p in points if store.get(p) is None]
        for point, measure in zip(new, workers(one.recipe, new), strict=True) if new else ():
            store.put(point, measure)
        row: dict[tuple[tuple[str, int], ...], float | None] = {}
        for point in points:
            found = store.get(point)
            us = found.us if found else None
            row[key(point)] = us if us is not None and not subject.verify(point) else None
        rows.append(row)
    return points, rows


def subject_of(tuned: Tuned) -> Subject:
    """The subject of a tuning."""
    return open_subject(tuned.recipe)
