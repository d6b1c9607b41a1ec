"""Which points are worth a prediction.

The model search keeps a Gaussian process over the logarithms of the parameters and of the times: it predicts the default and its
neighbours, then the points of largest expected improvement, and stops when the process gives no other point a real chance. Points that
cannot fit because a smaller one does not are never asked for. The others search to compare: coordinate by coordinate, all points, or by
Optuna (its tree-structured estimator and its evolutionary sampler).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from toprope.errors import BadInput
from toprope.tune.measure import Measure
from toprope.tune.space import Point, Space

Ask = Callable[[Sequence[Point]], Sequence[Measure]]
"""Predicts points: one measure each."""

AT_ONCE = 2
"""Points that are asked for together, however many workers there are: the result must not depend on that."""
WORTH = 0.01
"""A gain that counts, as a share of the time."""
CHANCE = 0.05
"""The search ends when no other point has a larger chance of such a gain."""
MOST_POINTS, MOST_PREDICTIONS = 20_000, 256
"""Of the model search: a larger space is thinned, and this many predictions are enough where nobody says otherwise."""
_LENGTH, _NOISE = (
    2.0,
    1e-3,
)  # of the process: steps of a doubling over which times are alike; what a step of the ladder leaves unexplained


@dataclass
class Found:
    """What a search tried, in order; `confidence` that no point of the space is more than 1 % faster, where the search can say."""

    tried: list[tuple[dict[str, int], Measure]] = field(default_factory=list)
    confidence: float | None = None
    pruned: int = 0
    left_out: int = 0  # points of a space that is too large to look at whole

    def ranked(self) -> list[tuple[dict[str, int], float]]:
        """Points with a time, fastest first; equal ones in the order that they were tried."""
        timed = [(p, m.us) for p, m in self.tried if m.us is not None]
        return sorted(timed, key=lambda pair: pair[1])


def search(method: str, space: Space, ask: Ask, most: int = 0) -> Found:
    """Look for the fastest point. `most` predictions at most, 0: what the method needs. Raises BadInput for an unknown method."""
    if method not in METHODS:
        raise BadInput(f"there is no search {method!r}", cure=f"there are {', '.join(METHODS)}")
    return METHODS[method](space, ask, most)


def _budget(space: Space, most: int) -> int:
    return min(space.size, most or min(MOST_PREDICTIONS, max(12, math.ceil(0.03 * space.size))))


def by_model(space: Space, ask: Ask, most: int = 0) -> Found:
    """See the module. Without `most`: a dozen predictions or 3 % of the space, whichever is more."""
    whole, space = space, space.thinned(MOST_POINTS)
    found, budget = Found(left_out=whole.size - space.size), _budget(space, most)
    points = list(space.points())
    coordinates = np.log2([[max(p[q.name], 0.5) for q in space.parameters] for p in points])  # a 0 lies below 1
    open_at = np.ones(len(points), bool)

    def tell(rows: Sequence[int]) -> None:
        for row, measure in zip(rows, ask([points[r] for r in rows]), strict=True):
            open_at[row] = False
            found.tried.append((points[row], measure))
            if measure.too_large:
                larger = np.all(coordinates >= coordinates[row], axis=1) & open_at
                found.pruned += int(larger.sum())
                open_at[larger] = False

    def left_to_ask() -> int:
        """What does not fit is seen before anything is compiled and costs little: only so much of it counts."""
        spent = sum(not m.too_large for _, m in found.tried)
        return max(0, min(budget - spent, 4 * budget - len(found.tried)))

    at = {_key(p): i for i, p in enumerate(points)}
    tell([at[_key(space.default)]])
    for rows in _pairs([at[_key(p)] for p in _neighbours(space)]):
        tell([r for r in rows if open_at[r]][: left_to_ask()])
    while open_at.any() and left_to_ask():
        left: Any = np.flatnonzero(open_at)
        timed = [(at[_key(p)], m.us) for p, m in found.tried if m.us is not None]
        if not timed:
            tell(left[:AT_ONCE].tolist())
            continue
        known, times = np.array([r for r, _ in timed]), np.log([us for _, us in timed])
        mean, spread = _process(coordinates[known], times, coordinates[left])
        chance = _normal((times.min() + math.log(1 - WORTH) - mean) / spread)
        found.confidence = float(1 - chance.max())
        if chance.max() < CHANCE and len(timed) > len(space.parameters) + 1:
            break
        gain = _expected_gain(times.min(), mean, spread)
        order = np.lexsort((left, -gain))
        tell(left[order[: min(AT_ONCE, left_to_ask())]].tolist())
    if not open_at.any():
        found.confidence = 1.0
    if found.left_out:
        found.confidence = None  # nothing is known of what was left out
    return found


def _process(known: Any, times: Any, wanted: Any) -> tuple[Any, Any]:
    """Mean and spread of log times at `wanted`, from those at `known`: a constant and a squared exponential kernel, its scale from the data."""

    def alike(a: Any, b: Any) -> Any:
        return np.exp(-0.5 * ((a[:, None, :] - b[None, :, :]) ** 2).sum(axis=2) / _LENGTH**2)

    middle = times.mean()
    scale = max(float(times.var()), 1e-3)
    inner = scale * alike(known, known) + _NOISE * np.eye(len(known))
    across = scale * alike(wanted, known)
    solved = np.linalg.solve(inner, np.column_stack([times - middle, across.T]))
    mean = middle + across @ solved[:, 0]
    variance = scale - np.einsum("ij,ji->i", across, solved[:, 1:])
    return mean, np.sqrt(np.maximum(variance, _NOISE))


def _normal(z: Any) -> Any:
    return 0.5 * (1 + np.vectorize(math.erf)(z / math.sqrt(2)))


def _expected_gain(best: float, mean: Any, spread: Any) -> Any:
    z = (best - mean) / spread
    return spread * (z * _normal(z) + np.exp(-0.5 * z**2) / math.sqrt(2 * math.pi))


def _neighbours(space: Space) -> Iterator[dict[str, int]]:
    """The default with one parameter a doubling lower or higher, as far as the values go."""
    for parameter in space.parameters:
        at = parameter.values.index(parameter.default)
        for index in dict.fromkeys((max(0, at - 2), min(len(parameter.values) - 1, at + 2))):
            if index != at:
                yield {**space.default, parameter.name: parameter.values[index]}


def _pairs(rows: Sequence[int]) -> Iterator[Sequence[int]]:
    for begin in range(0, len(rows), AT_ONCE):
        yield rows[begin : begin + AT_ONCE]


def coordinate(space: Space, ask: Ask, most: int = 0) -> Found:
    """One parameter after the other, all its values, until a round changes nothing."""
    found, here = Found(), space.default
    seen: dict[tuple[tuple[str, int], ...], float] = {}  # infinity: no time
    budget = most or space.size

    def times(points: Sequence[dict[str, int]]) -> None:
        new = [p for p in points if _key(p) not in seen][: max(0, budget - len(found.tried))]
        for point, measure in zip(new, ask(new), strict=True) if new else ():
            seen[_key(point)] = math.inf if measure.us is None else measure.us
            found.tried.append((point, measure))

    times([here])
    moved = True
    while moved and len(found.tried) < budget:
        moved = False
        for parameter in space.parameters:
            line = [{**here, parameter.name: v} for v in parameter.values]
            times(line)
            best = min((p for p in line if _key(p) in seen), key=lambda p: seen[_key(p)])
            if seen[_key(best)] < seen[_key(here)]:
                moved, here = True, best
    return found


def exhaustive(space: Space, ask: Ask, most: int = 0) -> Found:
    """Every point, or the first `most`."""
    points = list(space.points())[: most or None]
    found = Found(list(zip(points, ask(points), strict=True)))
    found.confidence = 1.0 if len(points) == space.size else None
    return found


def _by_optuna(sampler: str) -> Callable[[Space, Ask, int], Found]:
    def look(space: Space, ask: Ask, most: int = 0) -> Found:
        try:
            import optuna  # optional: `pip install "toprope[tune]"`
        except ImportError as error:
            raise BadInput(
                "this search needs Optuna, which is not installed", cure='pip install "toprope[tune]"'
            ) from error
        optuna.logging.set_verbosity(optuna.logging.WARNING)
        found, known = Found(), {}
        study = optuna.create_study(sampler=getattr(optuna.samplers, sampler)(seed=0))
        study.enqueue_trial(space.default)
        budget, asked = _budget(space, most), 0
        while len(found.tried) < budget and asked < 4 * budget:
            asked += 1
            trial = study.ask()
            point = {p.name: int(trial.suggest_categorical(p.name, p.values)) for p in space.parameters}
            if _key(point) not in known:
                (measure,) = ask([point])
                known[_key(point)] = measure
                found.tried.append((point, measure))
            us = known[_key(point)].us
            study.tell(
                trial, us, state=optuna.trial.TrialState.COMPLETE if us is not None else optuna.trial.TrialState.FAIL
            )
        return found

    return look


def _key(point: Point) -> tuple[tuple[str, int], ...]:
    return tuple(sorted(point.items()))


METHODS: dict[str, Callable[[Space, Ask, int], Found]] = {
    "model": by_model,
    "coordinate": coordinate,
    "exhaustive": exhaustive,
    "tpe": _by_optuna("TPESampler"),
    "evolutionary": _by_optuna("NSGAIISampler"),
}
