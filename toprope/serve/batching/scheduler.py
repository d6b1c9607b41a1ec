"""Continuous batching: which tokens of which requests each step computes."""

from __future__ import annotations

import logging
from bisect import insort
from collections.abc import Mapping
from dataclasses import dataclass, field
from operator import attrgetter

from toprope.serve.batching.batch import Batch, BatchEntry, Preemption, PreemptionMode, TokenOutput
from toprope.serve.batching.kv_cache import KvCache
from toprope.serve.batching.policies import DecodeFirst, Load, Phase, Policy, StepPlan, StepWork
from toprope.serve.batching.request import FinishReason, Request, RequestState
from toprope.serve.batching.waiting import WaitingQueue
from toprope.serve.errors import (
    BadMaxTokens,
    DuplicateRequest,
    EmptyPrompt,
    NeverFits,
    Overloaded,
    PromptTooLong,
    QueueFull,
    UnknownRequest,
)

_log = logging.getLogger("toprope.serve")
_ANYTHING = StepPlan((Phase.DECODE, Phase.PREFILL))
_by_order = attrgetter("order")


@dataclass(frozen=True)
class SchedulerLimits:
    """The limits that every step and every admission obeys, whatever the policy plans."""

    max_batch_size: int = 256  # requests that run at the same time
    max_tokens: int = 2048  # tokens computed in one step
    max_model_len: int = 8192  # prompt and output of one request, in tokens
    max_queued: int = 10_000  # waiting requests; beyond: QueueFull (429)
    max_queued_tokens: int | None = None  # tokens of waiting requests; beyond: Overloaded (503)
    chunked_prefill: bool = True  # False: a prompt is computed in one step, so it may not exceed max_tokens
    preemption: PreemptionMode = PreemptionMode.RECOMPUTE

    def __post_init__(self) -> None:
        for name in ("max_batch_size", "max_tokens", "max_model_len", "max_queued"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be at least 1, got {getattr(self, name)}")
        if self.max_tokens < self.max_batch_size:
            raise ValueError(
                f"max_tokens ({self.max_tokens}) is below max_batch_size ({self.max_batch_size}): a full batch could "
                "not decode one token each in a step; raise max_tokens or lower max_batch_size"
            )


@dataclass(frozen=True)
class SchedulerStats:
    """A look inside, for metrics."""

    running: int
    waiting: int
    waiting_tokens: int
    kv_use: float  # share of device blocks held, 0..1
    host_kv_use: float
    steps: int
    preemptions: int
    tokens_lost: int  # to preemption by recompute
    prefix_hit_tokens: int
    prefix_query_tokens: int


@dataclass(slots=True)
class _Draft:
    """A batch in the making."""

    tokens_left: int
    entries: list[BatchEntry] = field(default_factory=list)
    preemptions: list[Preemption] = field(default_factory=list)
    scheduled: set[str] = field(default_factory=set)


def _work(batch: Batch) -> StepWork:
    decodes = tokens = context = 0
    for _, start, computed, _, samples in batch.entries:
        count = len(computed)
        decodes += count == 1 and samples and start > 0
        tokens += count
        context += start + count
    return StepWork(decodes, len(batch.entries) - decodes, tokens, context)


class Scheduler:
    """Owns all live requests, and turns them into batches that stay within `limits` and the KV cache.

    One thread calls, in turn: `step` → the engine runs the batch → `update` with the sampled tokens. `add`,
    `abort` and `finish` may come at any time between those calls. `now` is any clock in seconds.
    """

    def __init__(self, cache: KvCache, limits: SchedulerLimits | None = None, policy: Policy | None = None) -> None:
        self.cache = cache
        self.limits = limits or SchedulerLimits()
        self.policy: Policy = policy or DecodeFirst()
        self._waiting = WaitingQueue()
        self._running: list[Request] = []  # sorted by order: the last one is preempted first
        self._live: dict[str, Request] = {}
        self._ended: list[str] = []
        self._arrivals = 0
        self._steps = 0
        self._preemptions = 0
        self._tokens_lost = 0
        self._hit_tokens = 0
        self._query_tokens = 0

    # -- requests in and out ---------------------------------------------------------------------------------------

    def add(self, request: Request) -> None:
        """Queue a request, or refuse it at once with the `ServeError` that says why."""
        self._refuse_bad(request)
        if len(self._waiting) >= self.limits.max_queued:
            raise QueueFull(
                f"{len(self._waiting)} requests wait already, as many as max_queued allows",
                cure="send fewer at a time, or retry later",
            )
        queued_tokens = self._waiting.tokens + request.prompt_length
        if self.limits.max_queued_tokens is not None and queued_tokens > self.limits.max_queued_tokens:
            raise Overloaded(
                f"{self._waiting.tokens} prompt tokens wait already and this request brings "
                f"{request.prompt_length}; max_queued_tokens is {self.limits.max_queued_tokens}",
                cure="retry later",
            )
        self._register(request)
        self._waiting.push(request)

    def fork(self, parent_id: str, child: Request, now: float) -> bool:
        """Add a request with the parent's prompt that starts from the parent's computed keys and values.

        This is how several answers to one prompt are sampled. True when it runs at once; False when it was queued like
        any other, because the parent's prompt is not computed yet or there is no slot or block for the child.
        """
        parent = self._live.get(parent_id)
        if parent is None:
            raise UnknownRequest(f"no live request has the id {parent_id!r} to fork from", cure="add it instead")
        self._refuse_bad(child)
        room = len(self._running) < self.limits.max_batch_size
        room = room and self.cache.device.free_count > self.cache.watermark_blocks
        ready = parent.state is RequestState.RUNNING and parent.output_length > 0
        same = parent.tokens[: child.prompt_length] == child.tokens and parent.cache_salt == child.cache_salt
        if not (room and ready and same and self.cache.fork(parent, child)):
            self.add(child)
            return False
        self._register(child)
        child.first_scheduled_s = now
        child.move_to(RequestState.RUNNING)
        insort(self._running, child, key=_by_order)
        return True

    def abort(self, request_id: str) -> Request:
        """End a request because nobody wants the answer any more; its blocks are free at once."""
        return self.finish(request_id, FinishReason.ABORT)

    def finish(self, request_id: str, reason: FinishReason) -> Request:
        """End a live request from outside, for example at a stop string; `UnknownRequest` if it is not live."""
        request = self._live.get(request_id)
        if request is None:
            raise UnknownRequest(f"no live request has the id {request_id!r}", cure="it may have finished already")
        if request.state is RequestState.RUNNING:
            self._running.remove(request)
        else:
            self._waiting.drop(request)
        self._end(request, reason)
        return request

    def lose_device(self) -> list[Request]:
        """The engine crashed: end each request whose keys and values are gone, forget cached prefixes."""
        lost = [request for request in self._live.values() if len(request.block_table)]
        for request in lost:
            self.finish(request.id, FinishReason.ERROR)
        self.cache.device.forget_labels()
        self.cache.take_moves()
        return lost

    # -- one step --------------------------------------------------------------------------------------------------

    def step(self, now: float) -> Batch:
        """Choose what to compute next; an empty batch when nobody needs anything."""
        self._steps += 1
        draft = _Draft(self.limits.max_tokens)
        if self._running or len(self._waiting):
            plan = self.policy.plan(self._load(now))
            self._carry_out(plan, draft, now)
            if not draft.entries:
                # The plan found no work (say, a prompt that does not fit now): time must not stand still.
                self._carry_out(_ANYTHING, draft, now)
        swap_out, copies, swap_in = self.cache.take_moves()
        ended, self._ended = tuple(self._ended), []
        return Batch(self._steps, now, tuple(draft.entries), swap_out, copies, swap_in, tuple(draft.preemptions), ended)

    def update(self, batch: Batch, sampled_tokens: Mapping[str, int], now: float) -> list[TokenOutput]:
        """Book the results of `batch`: `sampled_tokens` maps request id → token for each entry that samples.

        Requests that were ended since `step` are passed over. Returns the accepted tokens in batch order.
        """
        outputs: list[TokenOutput] = []
        any_ended = False
        block_size = self.cache.block_size
        for request, start, tokens, _, samples in batch.entries:
            if request.state is not RequestState.RUNNING:
                continue
            request.computed_tokens = computed = start + len(tokens)
            if computed // block_size > request.labelled_blocks:
                self.cache.commit(request)
            if not samples:
                continue
            token = sampled_tokens[request.id]
            request.tokens.append(token)
            if request.first_token_s is None:
                request.first_token_s = now
            reason = None
            if token in request.sampling.stop_token_ids:
                reason = FinishReason.STOP
            elif request.output_length >= request.max_tokens:
                reason = FinishReason.LENGTH
            if reason is not None:
                request.finished_s = now
                self._end(request, reason)
                any_ended = True
            outputs.append(TokenOutput(request, token, reason))
        if any_ended:
            self._running = [request for request in self._running if request.state is RequestState.RUNNING]
        if batch.entries:
            self.policy.observe(_work(batch), now - batch.now_s)
        return outputs

    # -- what is going on ------------------------------------------------------------------------------------------

    @property
    def has_work(self) -> bool:
        """True while any request is live."""
        return bool(self._live)

    @property
    def live_requests(self) -> list[Request]:
        """All requests that are not finished, in order of arrival."""
        return list(self._live.values())

    def stats(self) -> SchedulerStats:
        """Counters and gauges as of now."""
        return SchedulerStats(
            running=len(self._running),
            waiting=len(self._waiting),
            waiting_tokens=self._waiting.tokens,
            kv_use=self.cache.device.used_share,
            host_kv_use=self.cache.host.used_share,
            steps=self._steps,
            preemptions=self._preemptions,
            tokens_lost=self._tokens_lost,
            prefix_hit_tokens=self._hit_tokens,
            prefix_query_tokens=self._query_tokens,
        )

    def longest_output(self, prompt_tokens: int) -> int:
        """The largest `max_tokens` that `add` accepts for a prompt of this length; below 1 when there is none."""
        # The last token is returned, not fed back, so it needs no place in the cache.
        return min(self.limits.max_model_len, self.cache.token_capacity + 1) - prompt_tokens

    def check(self) -> None:
        """Raise `AssertionError` when a block is lost or counted wrongly; for tests and soak runs."""
        self.cache.check(self._live.values())
        assert len(self._running) + len(self._waiting) == len(self._live), "a request is in no queue, or in two"

    # -- the parts of a step ---------------------------------------------------------------------------------------

    def _carry_out(self, plan: StepPlan, draft: _Draft, now: float) -> None:
        for phase in plan.phases:
            if phase is Phase.DECODE:
                self._decode(draft)
            else:
                budget = draft.tokens_left if plan.prefill_tokens is None else plan.prefill_tokens
                reserved = draft.tokens_left - min(draft.tokens_left, budget)
                draft.tokens_left -= reserved
                self._continue_prefills(draft)
                if not draft.preemptions:  # what was just pushed out must not come straight back
                    self._admit(draft, plan.max_batch_size, now)
                draft.tokens_left += reserved

    def _decode(self, draft: _Draft) -> None:
        block_size = self.cache.block_size
        running = self._running
        index = 0
        while index < len(running) and draft.tokens_left > 0:
            request = running[index]
            position = request.computed_tokens
            if position != len(request.tokens) - 1 or request.id in draft.scheduled:
                index += 1
                continue
            if position >= len(request.block_table) * block_size and not self._make_room(request, draft):
                continue  # the request itself was preempted: the next one has its index now
            draft.entries.append(BatchEntry(request, position, [request.tokens[-1]], request.block_table.view(), True))
            draft.scheduled.add(request.id)
            draft.tokens_left -= 1
            index += 1

    def _make_room(self, request: Request, draft: _Draft) -> bool:
        while not self.cache.grow(request):
            victim = next(candidate for candidate in reversed(self._running) if candidate.id not in draft.scheduled)
            self._preempt(victim, draft)
            if victim is request:
                return False
        return True

    def _continue_prefills(self, draft: _Draft) -> None:
        for request in self._running:
            if draft.tokens_left == 0:
                return
            if request.uncomputed_tokens > 1 and request.id not in draft.scheduled:
                self._schedule(request, draft)

    def _admit(self, draft: _Draft, planned: int | None, now: float) -> None:
        limit = self.limits.max_batch_size if planned is None else max(1, min(self.limits.max_batch_size, planned))
        while draft.tokens_left > 0 and len(self._running) < limit:
            request = self._waiting.head()
            if request is None or not self._enter_cache(request, draft):
                return
            insort(self._running, request, key=_by_order)
            if request.first_scheduled_s is None:
                request.first_scheduled_s = now
            self._schedule(request, draft)

    def _enter_cache(self, request: Request, draft: _Draft) -> bool:
        # The watermark protects running requests from the newcomer's growth; with none running it would only block.
        spare = self.cache.watermark_blocks if self._running else 0
        if request.state is RequestState.SWAPPED:
            if not self.cache.swap_in(request, spare_blocks=spare):
                return False
        else:
            # Without chunking a prompt waits for a step with room for it; what preemption threw away may exceed a step.
            whole = not self.limits.chunked_prefill and request.output_length == 0
            if whole and request.uncomputed_tokens > draft.tokens_left:
                return False
            if not self.cache.admit(request, spare_blocks=spare):
                return False
            self._hit_tokens += request.cached_tokens
            self._query_tokens += len(request.tokens)
        self._waiting.pop()
        request.move_to(RequestState.RUNNING)
        return True

    def _schedule(self, request: Request, draft: _Draft) -> None:
        start = request.computed_tokens
        tokens = request.tokens[start : start + draft.tokens_left]
        samples = start + len(tokens) == len(request.tokens)
        draft.entries.append(BatchEntry(request, start, tokens, request.block_table.view(), samples))
        draft.scheduled.add(request.id)
        draft.tokens_left -= len(tokens)

    def _preempt(self, victim: Request, draft: _Draft) -> None:
        before, computed = self.cache.device.used_share, victim.computed_tokens
        self._running.remove(victim)
        mode = PreemptionMode.RECOMPUTE
        if self.limits.preemption is PreemptionMode.SWAP and computed > 0 and self.cache.swap_out(victim):
            mode = PreemptionMode.SWAP
            victim.move_to(RequestState.SWAPPED)
        else:
            self.cache.release(victim)
            victim.move_to(RequestState.WAITING)
        victim.preemptions += 1
        self._waiting.push(victim)
        lost = 0 if mode is PreemptionMode.SWAP else computed
        event = Preemption(victim.id, mode, lost, before, self.cache.device.used_share)
        draft.preemptions.append(event)
        self._preemptions += 1
        self._tokens_lost += lost
        _log.warning(
            "preempted request %s by %s: %d tokens to compute again, KV use %.1f%% -> %.1f%%",
            *(victim.id, mode.value, lost, 100 * event.kv_use_before, 100 * event.kv_use_after),
        )

    def _register(self, request: Request) -> None:
        request.sequence = self._arrivals
        self._arrivals += 1
        self._live[request.id] = request

    def _end(self, request: Request, reason: FinishReason) -> None:
        self.cache.release(request)
        request.move_to(RequestState.FINISHED)
        request.finish_reason = reason
        del self._live[request.id]
        self._ended.append(request.id)

    def _load(self, now: float) -> Load:
        decodes = context = prefills = prefill_tokens = 0
        oldest: float | None = None
        for request in self._running:
            uncomputed = len(request.tokens) - request.computed_tokens
            if uncomputed == 1:
                decodes += 1
                context += request.computed_tokens
            else:
                prefills += 1
                prefill_tokens += uncomputed
                oldest = request.arrival_s if oldest is None else min(oldest, request.arrival_s)
        can_admit = False
        head = self._waiting.head()
        if head is not None:
            prefill_tokens += head.uncomputed_tokens
            oldest = head.arrival_s if oldest is None else min(oldest, head.arrival_s)
            spare = self.cache.watermark_blocks if self._running else 0
            fits = self.cache.device.free_count - self.cache.blocks_for(len(head.tokens)) >= spare
            can_admit = fits and len(self._running) < self.limits.max_batch_size
        return Load(
            now_s=now,
            decodes=decodes,
            decode_context_tokens=context,
            prefills=prefills,
            waiting=len(self._waiting),
            can_admit=can_admit,
            oldest_prefill_s=oldest,
            prefill_tokens=prefill_tokens,
            max_batch_size=self.limits.max_batch_size,
            max_tokens=self.limits.max_tokens,
        )

    def _refuse_bad(self, request: Request) -> None:
        prompt, limits = request.prompt_length, self.limits
        if request.id in self._live:
            raise DuplicateRequest(f"a live request has the id {request.id!r}", cure="choose another id")
        if prompt == 0:
            raise EmptyPrompt(f"request {request.id!r} has no prompt tokens", cure="send at least one")
        if request.max_tokens < 1:
            raise BadMaxTokens(
                f"max_tokens of request {request.id!r} is {request.max_tokens}", cure="ask for at least 1"
            )
        total = prompt + request.max_tokens
        if total > limits.max_model_len:
            raise PromptTooLong(
                f"this model's context is {limits.max_model_len} tokens; {prompt} prompt tokens and max_tokens "
                f"{request.max_tokens} make {total}",
                cure="shorten the prompt or lower max_tokens",
            )
        if total - 1 > self.cache.token_capacity:
            raise NeverFits(
                f"{total - 1} tokens need {self.cache.blocks_for(total - 1)} KV blocks of {self.cache.block_size}, the "
                f"cache has {self.cache.device.block_count} in all",
                cure="lower max_tokens or give the cache more memory",
            )
        if not limits.chunked_prefill and prompt > limits.max_tokens:
            raise NeverFits(
                f"{prompt} prompt tokens exceed the step's max_tokens ({limits.max_tokens}) and chunked prefill is off",
                cure="switch chunked_prefill on or raise max_tokens",
            )
