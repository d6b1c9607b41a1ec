"""Prefill when idle slots have cost more than a stall would."""

from __future__ import annotations

from toprope.serve.batching.policies.policy import Load, Phase, StepPlan, StepWork
from toprope.serve.batching.policies.step_times import StepTimes


class Throughput:
    """Weigh request-seconds against each other, and do what wastes fewer.

    A prefill step makes every decoding request wait: `prefill time × decodes`. Decoding on with free slots wastes
    those slots, step after step: the sum of `decode time × fillable slots` since the last prefill. Prompts are
    therefore gathered into few large prefill steps. Both times are learned online. (The rule MindIE calls its
    throughput policy, with measured instead of configured times.)
    """

    def __init__(self) -> None:
        self._times = StepTimes()
        self._wasted_s = 0.0
        self._fillable = 0

    def plan(self, load: Load) -> StepPlan:
        """A step of one phase."""
        if not load.can_prefill or not load.decodes:
            self._fillable = 0
            return StepPlan((Phase.PREFILL,) if load.can_prefill else (Phase.DECODE,))
        self._fillable = min(load.prefills + load.waiting, load.max_batch_size - load.decodes)
        stall_s = self._times.prefill_s(min(load.prefill_tokens, load.max_tokens)) * load.decodes
        return StepPlan((Phase.PREFILL,) if self._wasted_s >= stall_s else (Phase.DECODE,))

    def observe(self, work: StepWork, duration_s: float) -> None:
        """Learn the step's time and keep the books on wasted slots."""
        self._times.observe(work, duration_s)
        if not work.prefills:
            self._wasted_s += duration_s * self._fillable
        else:
            self._wasted_s = 0.0
