"""Predicts step times from the steps seen so far."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from toprope.serve.batching.policies.policy import StepWork


class OnlineRegression:
    """Least squares with forgetting: `y ≈ w · x` where no weight is negative.

    `decay` is the weight kept per new point, so about `1/(1-decay)` points count. A feature whose weight would be
    negative is left out of the fit: a step does not get faster by doing more.
    """

    def __init__(self, features: int, *, decay: float = 0.98) -> None:
        self._moments: NDArray[np.float64] = np.zeros((features, features))
        self._targets: NDArray[np.float64] = np.zeros(features)
        self._decay = decay
        self._weights: list[float] | None = None
        self.points = 0

    def add(self, x: Sequence[float], y: float) -> None:
        """Learn that features `x` gave `y`."""
        vector = np.asarray(x, dtype=np.float64)
        self._moments = self._decay * self._moments + np.outer(vector, vector)
        self._targets = self._decay * self._targets + vector * y
        self._weights = None
        self.points += 1

    def predict(self, x: Sequence[float]) -> float:
        """The expected value for `x`; 0 before the first point."""
        if self._weights is None:
            self._weights = self._fit()
        return sum(weight * value for weight, value in zip(self._weights, x, strict=True))

    @property
    def weights(self) -> tuple[float, ...]:
        """The fitted weights, one per feature."""
        if self._weights is None:
            self._weights = self._fit()
        return tuple(self._weights)

    def _fit(self) -> list[float]:
        weights = [0.0] * len(self._targets)
        scale = np.sqrt(np.diag(self._moments))
        kept = [i for i in range(len(scale)) if scale[i] > 0]
        while kept:
            # Features differ by orders of magnitude (1 against a hundred thousand context tokens): solve scaled.
            moments = self._moments[np.ix_(kept, kept)] / np.outer(scale[kept], scale[kept])
            solution = np.linalg.lstsq(moments, self._targets[kept] / scale[kept], rcond=1e-9)[0]
            worst = int(np.argmin(solution))
            if solution[worst] >= 0:
                for i, value in zip(kept, solution, strict=True):
                    weights[i] = float(value / scale[i])
                break
            del kept[worst]
        return weights


class StepTimes:
    """Time of a prefill step from its tokens, and of a decode step from batch size and context; in seconds."""

    def __init__(self) -> None:
        self._prefill = OnlineRegression(2)
        self._decode = OnlineRegression(3)

    def observe(self, work: StepWork, duration_s: float) -> None:
        """Learn from a step; mixed steps count as prefill, where the prompts dominate."""
        if work.prefills:
            self._prefill.add((1.0, work.tokens), duration_s)
        elif work.decodes:
            self._decode.add((1.0, work.decodes, work.context_tokens), duration_s)

    def prefill_s(self, tokens: int) -> float:
        """Expected time of a step that computes `tokens` prompt tokens."""
        return self._prefill.predict((1.0, tokens))

    def decode_s(self, batch_size: int, context_tokens: int) -> float:
        """Expected time of a decode step."""
        return self._decode.predict((1.0, batch_size, context_tokens))
