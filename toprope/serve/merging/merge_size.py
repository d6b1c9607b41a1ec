"""How many requests to merge."""

from __future__ import annotations

from toprope.serve.batching.policies.step_times import OnlineRegression


class MergeSize:
    """The batch size in use: `largest`, or less while batches take longer than `target_s`.

    Learns `time ≈ a + b·size` from finished batches and moves, by at most `max_move` a batch, towards the largest
    size predicted to stay within the target. Without a target the size is fixed.
    """

    def __init__(self, largest: int, *, target_s: float | None = None, max_move: int = 4) -> None:
        if largest < 1 or max_move < 1 or (target_s is not None and target_s <= 0):
            raise ValueError(f"need largest, max_move >= 1 and target_s > 0, got {largest=}, {max_move=}, {target_s=}")
        self.largest, self._target_s, self._max_move = largest, target_s, max_move
        self._time = OnlineRegression(2, decay=0.95)
        self.current = largest if target_s is None else min(largest, max_move)

    def observe(self, size: int, duration_s: float) -> None:
        """Learn from one batch."""
        self._time.add((1.0, float(size)), duration_s)
        if self._target_s is None:
            return
        fixed_s, each_s = self._time.weights
        if each_s > 0:
            goal = int((self._target_s - fixed_s) / each_s)
        else:  # all batches had one size, or size does not matter
            goal = self.largest if duration_s < self._target_s else 1
        move = max(-self._max_move, min(self._max_move, goal - self.current))
        self.current = max(1, min(self.largest, self.current + move))

    def expected_s(self, size: int) -> float:
        """Predicted time of a batch of `size`; 0 before the first."""
        return self._time.predict((1.0, float(size)))
