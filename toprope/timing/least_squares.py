"""Least squares of logarithms, for constants of a chip: measured times against predictions, constants against what is known without them."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from toprope.trace import Array

STEP = 0.03  # of the logarithm of a constant, for its derivative
HUBER = 3.0  # an error beyond so many standard deviations pulls no harder
LARGEST_MOVE = 0.4  # of a logarithm, in one step


class LeastSquares:
    """`residual(row, logs)` gives a row's errors in standard deviations, `uses[row, constant]` which constants are solved from it; `priors` and
    `spreads` are logarithms."""

    def __init__(self, residual: Callable[[int, Array], Array], uses: Array, priors: Array, spreads: Array) -> None:
        self.residual, self.uses, self.priors, self.spreads = residual, uses, priors, spreads

    def values(self, logs: Array) -> list[Array]:
        """The residuals of every row."""
        return [self.residual(row, logs) for row in range(len(self.uses))]

    def jacobian(self, logs: Array) -> tuple[list[Array], list[Array]]:
        """Residuals of every row, and their derivatives by the constants that are solved from it."""
        values, slopes = self.values(logs), []
        for row, now in enumerate(values):
            slope = np.zeros((len(now), len(logs)))
            for k in np.flatnonzero(self.uses[row]):
                moved = logs.copy()
                moved[k] += STEP
                slope[:, k] = (self.residual(row, moved) - now) / STEP
            slopes.append(slope)
        return values, slopes

    def step(self, logs: Array, values: Sequence[Array], slopes: Sequence[Array], kept: Sequence[int]) -> Array:
        """One damped Gauss-Newton step from the rows in `kept`."""
        r = np.concatenate([*(values[i] for i in kept), (logs - self.priors) / self.spreads])
        j = np.concatenate([*(slopes[i] for i in kept), np.diag(1 / self.spreads)])
        weight = np.sqrt(np.minimum(1.0, HUBER / np.maximum(np.abs(r), 1e-9)))
        move = np.linalg.lstsq(j * weight[:, None], -r * weight, rcond=None)[0]
        return np.asarray(logs + np.clip(move, -LARGEST_MOVE, LARGEST_MOVE))

    def cost(self, values: Sequence[Array], logs: Array) -> float:
        """What the steps make smaller."""
        r = np.abs(np.concatenate([*values, (logs - self.priors) / self.spreads]))
        return float(np.where(r < HUBER, r * r, HUBER * (2 * r - HUBER)).sum())

    def solve(
        self, logs: Array, rounds: int, say: Callable[[str], object] = lambda _: None
    ) -> tuple[Array, list[Array], list[Array]]:
        """The best logarithms found from a start, with the residuals and derivatives there."""
        best: tuple[float, Array, list[Array], list[Array]] | None = None
        everything = range(len(self.uses))
        for turn in range(rounds):
            values, slopes = self.jacobian(logs)
            cost = self.cost(values, logs)
            say(f"round {turn}: cost {cost:.1f}")
            if best is not None and cost > best[0]:
                logs = (best[1] + logs) / 2  # the step went too far
                continue
            best = (cost, logs, values, slopes)
            logs = self.step(logs, values, slopes, everything)
        if best is None:
            raise ValueError("no round was asked for")
        return best[1], best[2], best[3]
