"""Hold the time per output token at a target by moving the batch size."""

from __future__ import annotations

from toprope.serve.batching.policies.policy import Load, Phase, Policy, StepPlan, StepWork


class AdaptiveBatchSize:
    """Wraps a policy and lowers the batch size while tokens come slower than `target_tpot_s`, raises it while faster.

    Every `window` decode steps the mean time between tokens (stalls by prefill steps included) is compared with the
    target. Within `dead_band_s` nothing moves; outside, the limit moves by one, or by `max_move` when the miss is
    more than twice the dead band. It only rises when the present limit is in use, otherwise the measurement says
    nothing about it. It starts at half the scheduler's limit. While over target, every second step is decode-only, so
    that prompts do not add to the stall.
    """

    def __init__(
        self,
        inner: Policy,
        *,
        target_tpot_s: float = 0.05,
        dead_band_s: float = 0.005,
        max_move: int = 2,
        lowest: int = 3,
        window: int = 8,
    ) -> None:
        if target_tpot_s <= 0 or not 0 <= dead_band_s < target_tpot_s or max_move < 1 or lowest < 1 or window < 1:
            raise ValueError(
                "need target_tpot_s > dead_band_s >= 0 and max_move, lowest, window >= 1, got "
                f"{target_tpot_s=}, {dead_band_s=}, {max_move=}, {lowest=}, {window=}"
            )
        self._inner = inner
        self._target_s, self._dead_band_s = target_tpot_s, dead_band_s
        self._max_move, self._lowest, self._window = max_move, lowest, window
        self._gap_s = 0.0  # time since the last token
        self._gaps: list[float] = []
        self._largest_batch = 0
        self._over_target = False
        self._skip_prefill = False
        self._ceiling: int | None = None
        self.batch_size: int | None = None  # the present limit; None before the first step

    def plan(self, load: Load) -> StepPlan:
        """The inner policy's plan under the present batch size."""
        self._ceiling = load.max_batch_size
        if self.batch_size is None:
            self.batch_size = max(min(self._lowest, self._ceiling), self._ceiling // 2)
        plan = self._inner.plan(load)
        self._skip_prefill = self._over_target and load.decodes > 0 and not self._skip_prefill
        phases = (Phase.DECODE,) if self._skip_prefill else plan.phases
        limit = self.batch_size if plan.max_batch_size is None else min(self.batch_size, plan.max_batch_size)
        return StepPlan(phases, limit, plan.prefill_tokens)

    def observe(self, work: StepWork, duration_s: float) -> None:
        """Feed the controller."""
        self._inner.observe(work, duration_s)
        self._gap_s += duration_s
        decodes = work.decodes
        if not decodes:
            return
        self._gaps.append(self._gap_s)
        self._gap_s = 0.0
        self._largest_batch = max(self._largest_batch, decodes)
        if len(self._gaps) >= self._window:
            self._move(sum(self._gaps) / len(self._gaps))
            self._gaps.clear()
            self._largest_batch = 0

    def _move(self, tpot_s: float) -> None:
        assert self.batch_size is not None and self._ceiling is not None, "plan() comes before observe()"
        miss_s = tpot_s - self._target_s
        self._over_target = miss_s > self._dead_band_s
        if abs(miss_s) <= self._dead_band_s:
            return
        move = self._max_move if abs(miss_s) > 2 * self._dead_band_s else 1
        if miss_s > 0:
            self.batch_size = max(min(self._lowest, self._ceiling), self.batch_size - move)
        elif self._largest_batch >= self.batch_size - self._max_move:
            self.batch_size = min(self._ceiling, self.batch_size + move)
