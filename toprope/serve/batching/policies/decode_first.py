"""Running requests first, prompts fill the rest of the step."""

from __future__ import annotations

from toprope.serve.batching.policies.policy import Load, Phase, StepPlan, StepWork


class DecodeFirst:
    """Each step decodes every running request and spends the remaining token budget on chunks of prompts.

    Smooth time per token (what vLLM does, and MindIE calls SplitFuse). `prefill_tokens` below the scheduler's
    `max_tokens` makes steps shorter still, at the price of time to first token.
    """

    def __init__(self, *, prefill_tokens: int | None = None) -> None:
        if prefill_tokens is not None and prefill_tokens < 1:
            raise ValueError(
                f"prefill_tokens must be at least 1, got {prefill_tokens}; prompts would never be computed"
            )
        self._plan = StepPlan((Phase.DECODE, Phase.PREFILL), prefill_tokens=prefill_tokens)

    def plan(self, load: Load) -> StepPlan:
        """A mixed step."""
        return self._plan

    def observe(self, work: StepWork, duration_s: float) -> None:
        """Nothing to learn."""
