"""Serve the phase that is closest to missing its deadline."""

from __future__ import annotations

from toprope.serve.batching.policies.policy import Load, Phase, StepPlan, StepWork
from toprope.serve.batching.policies.step_times import StepTimes

_MOST_DEBT = 4  # token times; without a bound a target that cannot be met would starve the prompts


class LeastLaxity:
    """Laxity is the share of a deadline left after waiting and the predicted step; the smaller one goes first.

    Deadlines are `ttft_s` for the oldest prompt (time to first token) and `tpot_s` for the running requests (time
    per output token). A target for the time per token is a mean: what a stall took from the running requests is a debt
    that faster tokens pay back before the next stall is taken lightly. Times are learned online.
    """

    def __init__(self, *, ttft_s: float = 1.0, tpot_s: float = 0.05) -> None:
        if ttft_s <= 0 or tpot_s <= 0:
            raise ValueError(f"deadlines must be positive, got ttft_s={ttft_s}, tpot_s={tpot_s}")
        self._ttft_s, self._tpot_s = ttft_s, tpot_s
        self._times = StepTimes()
        self._since_decode_s = 0.0
        self._debt_s = 0.0

    def plan(self, load: Load) -> StepPlan:
        """A step of one phase."""
        if not load.can_prefill or not load.decodes or load.oldest_prefill_s is None:
            return StepPlan((Phase.PREFILL,) if load.can_prefill else (Phase.DECODE,))
        prefill_s = self._times.prefill_s(min(load.prefill_tokens, load.max_tokens))
        decode_s = self._times.decode_s(load.decodes, load.decode_context_tokens)
        prefill_laxity = (self._ttft_s - (load.now_s - load.oldest_prefill_s) - prefill_s) / self._ttft_s
        decode_laxity = (self._tpot_s - self._since_decode_s - self._debt_s - decode_s) / self._tpot_s
        return StepPlan((Phase.PREFILL,) if prefill_laxity < decode_laxity else (Phase.DECODE,))

    def observe(self, work: StepWork, duration_s: float) -> None:
        """Learn the step's time."""
        self._times.observe(work, duration_s)
        self._since_decode_s += duration_s
        if work.decodes:
            debt_s = self._debt_s + self._since_decode_s - self._tpot_s
            self._debt_s = min(max(0.0, debt_s), _MOST_DEBT * self._tpot_s)
            self._since_decode_s = 0.0
