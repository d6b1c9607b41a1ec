"""Prompts before everything else."""

from __future__ import annotations

from toprope.serve.batching.policies.policy import Load, Phase, StepPlan, StepWork


class PrefillFirst:
    """Fill the batch as early as possible: a prefill-only step whenever there is a prompt to compute, else decode.

    Best time to first token and largest decode batches; running requests stall while prompts arrive.
    """

    def plan(self, load: Load) -> StepPlan:
        """A step of one phase."""
        return StepPlan((Phase.PREFILL,) if load.can_prefill else (Phase.DECODE,))

    def observe(self, work: StepWork, duration_s: float) -> None:
        """Nothing to learn."""
