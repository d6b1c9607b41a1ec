"""Our step policies inside vLLM, for those who outgrow one machine and keep vLLM.

    vllm serve MODEL --scheduler-cls toprope.serve.batching.vllm_policy.PolicyScheduler --no-async-scheduling \\
        --additional-config '{"toprope": {"policy": "least-laxity", "ttft_s": 1.0, "tpot_s": 0.05}}'

Written against vLLM 0.32; its scheduler interface is not declared stable. Needs vLLM, so nothing else imports this file.
"""

from __future__ import annotations

import time
from typing import Any

from vllm.v1.core.sched.scheduler import Scheduler  # type: ignore[import-not-found, unused-ignore]

from toprope.serve.batching.policies import Load, Phase, StepPlan, StepWork, make_policy

_EVERYTHING = StepPlan((Phase.DECODE, Phase.PREFILL))


class PolicyScheduler(Scheduler):  # type: ignore[misc, unused-ignore]
    """vLLM's scheduler with a say in what each step contains.

    Memory, prefix cache, preemption and all features stay vLLM's. Before each step the policy's plan is put into the
    knobs vLLM has: running requests of a phase that is left out are set aside, the admission limit and the token budget
    are lowered. Options: `policy`, `ttft_s`, `tpot_s`, as in `make_policy`.
    """

    # Of vLLM's scheduler, named here because type checkers may not see vLLM.
    running: list[Any]
    max_num_active_reqs: int
    max_num_scheduled_tokens: int

    def __init__(self, vllm_config: Any, *args: Any, **kwargs: Any) -> None:
        super().__init__(vllm_config, *args, **kwargs)
        options = dict((vllm_config.additional_config or {}).get("toprope", {}))
        self._policy = make_policy(options.pop("policy", "decode-first"), **options)
        self._plan_failed = False
        self._started_s = 0.0

    def schedule(self, *args: Any, **kwargs: Any) -> Any:
        """One step under the policy's plan; after a plan under which nothing could run, one without any plan."""
        plan = _EVERYTHING
        if (self.running or self.waiting) and not self._plan_failed:
            plan = self._policy.plan(self._load())
        everyone, slots, budget = self.running, self.max_num_active_reqs, self.max_num_scheduled_tokens
        shown = [r for r in everyone if (Phase.DECODE if _is_decoding(r) else Phase.PREFILL) in plan.phases]
        aside = [r for r in everyone if r not in shown]
        limit = slots if plan.max_batch_size is None else max(1, min(slots, plan.max_batch_size))
        if Phase.PREFILL not in plan.phases:
            limit = 0
        self.running = shown
        self.max_num_active_reqs = max(0, limit - len(aside))
        if plan.prefill_tokens is not None:
            decodes = sum(1 for r in shown if _is_decoding(r))
            self.max_num_scheduled_tokens = min(budget, decodes + plan.prefill_tokens)
        try:
            output = super().schedule(*args, **kwargs)
        finally:
            stayed = {r.request_id for r in self.running}
            known = {r.request_id for r in everyone}
            kept = [r for r in everyone if r.request_id in stayed or r in aside]
            self.running = kept + [r for r in self.running if r.request_id not in known]
            self.max_num_active_reqs, self.max_num_scheduled_tokens = slots, budget
        self._plan_failed = plan is not _EVERYTHING and output.total_num_scheduled_tokens == 0
        self._started_s = time.monotonic()
        return output

    def update_from_output(self, scheduler_output: Any, model_runner_output: Any) -> Any:
        """Book the results, and let the policy learn from the step."""
        work = self._work(scheduler_output)
        if work.tokens:
            self._policy.observe(work, time.monotonic() - self._started_s)
        return super().update_from_output(scheduler_output, model_runner_output)

    def _load(self) -> Load:
        decoding = [r for r in self.running if _is_decoding(r)]
        prompts = [r for r in self.running if not _is_decoding(r)]
        head = self.waiting.peek_request() if self.waiting else None
        can_admit = False
        if head is not None:
            blocks = -(-head.num_tokens // self.block_size)
            free = self.kv_cache_manager.block_pool.get_num_free_blocks()
            can_admit = len(self.running) < self.max_num_active_reqs and blocks <= free
        pending = [*prompts, head] if head is not None else prompts
        return Load(
            now_s=time.time(),  # the clock of arrival_time
            decodes=len(decoding),
            decode_context_tokens=sum(r.num_computed_tokens for r in decoding),
            prefills=len(prompts),
            waiting=len(self.waiting),
            can_admit=can_admit,
            oldest_prefill_s=min((r.arrival_time for r in pending), default=None),
            prefill_tokens=sum(r.num_tokens - r.num_computed_tokens for r in pending),
            max_batch_size=self.max_num_active_reqs,
            max_tokens=self.max_num_scheduled_tokens,
        )

    def _work(self, output: Any) -> StepWork:
        decodes = prefills = context = 0
        for request_id, count in output.num_scheduled_tokens.items():
            request = self.requests.get(request_id)
            if request is None:
                continue
            context += request.num_computed_tokens  # already counts this step
            if request.num_computed_tokens - count >= request.num_prompt_tokens and count == 1:
                decodes += 1
            else:
                prefills += 1
        return StepWork(decodes, prefills, output.total_num_scheduled_tokens, context)


def _is_decoding(request: Any) -> bool:
    return bool(request.num_computed_tokens > 0 and request.num_tokens - request.num_computed_tokens <= 1)
