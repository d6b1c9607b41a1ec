"""Continuous batching: limits, right answers through preemption and caching, refusals, exact accounting."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.serve.batching.token_engine import TokenEngine, reference_output
from toprope.serve import errors
from toprope.serve.batching.batch import Batch, PreemptionMode
from toprope.serve.batching.kv_cache import KvCache
from toprope.serve.batching.policies import (
    AdaptiveBatchSize,
    DecodeFirst,
    LeastLaxity,
    Load,
    Phase,
    Policy,
    PrefillFirst,
    StepPlan,
    StepWork,
    Throughput,
)
from toprope.serve.batching.request import FinishReason, Request, RequestState, SamplingParams
from toprope.serve.batching.scheduler import Scheduler, SchedulerLimits

POLICY_MAKERS: list[Callable[[], Policy]] = [
    PrefillFirst,
    DecodeFirst,
    lambda: DecodeFirst(prefill_tokens=3),
    Throughput,
    LeastLaxity,
    lambda: AdaptiveBatchSize(DecodeFirst(), target_tpot_s=0.01, dead_band_s=0.001, lowest=1, window=1),
]


def check_limits(scheduler: Scheduler, batch: Batch) -> None:
    limits = scheduler.limits
    assert len(batch.entries) <= limits.max_batch_size
    assert batch.token_count <= limits.max_tokens
    assert len({entry.request.id for entry in batch.entries}) == len(batch.entries)
    assert scheduler.stats().running <= limits.max_batch_size
    scheduler.check()


def run_all(scheduler: Scheduler, engine: TokenEngine, *, max_steps: int = 2000) -> list[Batch]:
    batches = []
    while scheduler.has_work:
        batch = scheduler.step(float(len(batches)))
        assert batch.entries, "live requests, yet the step is empty: nothing would ever change"
        check_limits(scheduler, batch)
        scheduler.update(batch, engine.run(batch), len(batches) + 0.5)
        batches.append(batch)
        assert len(batches) < max_steps, "no end in sight: requests thrash"
    return batches


@st.composite
def workloads(draw: st.DrawFn) -> tuple[Scheduler, list[Request]]:
    block_size = draw(st.integers(1, 4))
    blocks = draw(st.integers(4, 14))
    batch_size = draw(st.integers(1, 5))
    cache = KvCache(
        blocks,
        block_size,
        host_block_count=draw(st.sampled_from([0, 3, 20])),
        prefix_caching=draw(st.booleans()),
        watermark=draw(st.sampled_from([0.0, 0.1, 0.4])),
    )
    chunked = draw(st.booleans())
    limits = SchedulerLimits(
        max_batch_size=batch_size,
        max_tokens=draw(st.integers(batch_size, 8)) if chunked else 12,
        max_model_len=10_000,
        chunked_prefill=chunked,
        preemption=draw(st.sampled_from(PreemptionMode)),
    )
    scheduler = Scheduler(cache, limits, draw(st.sampled_from(POLICY_MAKERS))())
    requests = []
    for index in range(draw(st.integers(1, 7))):
        # Prompts start alike, so the prefix cache is hit; lengths stay within what fits at all.
        prompt = [0] * draw(st.integers(0, 6)) + draw(st.lists(st.integers(0, 1), min_size=1, max_size=5))
        prompt = prompt[: min(12, cache.token_capacity)]
        longest = min(12, scheduler.longest_output(len(prompt)))
        stop = draw(st.sampled_from([frozenset[int](), frozenset({3})]))
        requests.append(
            Request(
                f"r{index}",
                prompt,
                draw(st.integers(1, max(1, longest))),
                SamplingParams(stop_token_ids=stop),
                priority=draw(st.integers(0, 1)),
                arrival_s=float(index),
            )
        )
    return scheduler, requests


@given(workloads(), st.randoms(use_true_random=False))
@settings(max_examples=250, deadline=None)
def test_any_workload_gives_the_answers_of_one_by_one_generation(
    workload: tuple[Scheduler, list[Request]], rng: random.Random
) -> None:
    scheduler, requests = workload
    engine = TokenEngine(scheduler.cache)
    pending, aborted = list(requests), set()
    for step in range(3000):
        while pending and rng.random() < 0.5:
            scheduler.add(pending.pop(0))
        batch = scheduler.step(float(step))
        check_limits(scheduler, batch)
        assert batch.entries or not scheduler.has_work
        sampled = engine.run(batch)
        if scheduler.has_work and rng.random() < 0.05:
            victim = rng.choice(scheduler.live_requests)
            scheduler.abort(victim.id)
            aborted.add(victim.id)
            scheduler.check()
        scheduler.update(batch, sampled, step + 0.5)
        scheduler.check()
        if not pending and not scheduler.has_work:
            break
    assert not scheduler.has_work and not pending
    assert scheduler.cache.device.free_count == scheduler.cache.device.block_count
    assert scheduler.cache.host.free_count == scheduler.cache.host.block_count
    for request in requests:
        assert request.state is RequestState.FINISHED
        if request.id not in aborted:
            expected = reference_output(request.prompt_tokens, request.max_tokens, request.sampling.stop_token_ids)
            assert request.output_tokens == expected


def make(
    blocks: int = 64, block_size: int = 4, *, host: int = 0, policy: Policy | None = None, **limits: object
) -> tuple[Scheduler, TokenEngine]:
    cache = KvCache(blocks, block_size, host_block_count=host, watermark=0.0)
    scheduler = Scheduler(cache, SchedulerLimits(**{"max_batch_size": 8, "max_tokens": 32, **limits}), policy)  # type: ignore[arg-type]
    return scheduler, TokenEngine(cache)


def test_a_long_prompt_is_computed_in_chunks_while_others_decode() -> None:
    scheduler, engine = make(max_tokens=8)
    scheduler.add(Request("short", [1, 2], 10))
    scheduler.update(batch := scheduler.step(0.0), engine.run(batch), 0.1)
    scheduler.add(Request("long", list(range(20)), 2))
    sizes = []
    for step in range(3):
        batch = scheduler.step(1.0 + step)
        sizes.append({entry.request.id: (entry.start, len(entry.tokens), entry.samples) for entry in batch.entries})
        scheduler.update(batch, engine.run(batch), 1.5 + step)
    assert sizes == [
        {"short": (2, 1, True), "long": (0, 7, False)},
        {"short": (3, 1, True), "long": (7, 7, False)},
        {"short": (4, 1, True), "long": (14, 6, True)},
    ]


def test_priority_goes_before_arrival_and_arrival_decides_among_equals() -> None:
    scheduler, engine = make(max_batch_size=1)
    for name, priority, arrival in (("late", 1, 0.0), ("b", 0, 2.0), ("a", 0, 1.0)):
        scheduler.add(Request(name, [1], 1, priority=priority, arrival_s=arrival))
    order = [batch.entries[0].request.id for batch in run_all(scheduler, engine)]
    assert order == ["a", "b", "late"]


def test_admission_reserves_the_whole_prompt() -> None:
    scheduler, _ = make(blocks=4, max_tokens=8, max_batch_size=4)
    scheduler.add(Request("first", list(range(12)), 2))
    scheduler.add(Request("second", list(range(50, 58)), 2))
    batch = scheduler.step(0.0)
    assert [(entry.request.id, len(entry.block_table)) for entry in batch.entries] == [("first", 3)]
    assert scheduler.stats().waiting == 1  # one block is free, "second" needs two


@pytest.mark.parametrize("mode", PreemptionMode)
def test_preemption_is_visible_and_costs_nothing_but_time(mode: PreemptionMode) -> None:
    scheduler, engine = make(blocks=6, block_size=2, host=8, max_batch_size=2, preemption=mode)
    requests = [Request("first", [1, 2, 3, 4], 8, arrival_s=0.0), Request("second", [5, 6, 7, 8], 8, arrival_s=1.0)]
    for request in requests:
        scheduler.add(request)
    batches = run_all(scheduler, engine)
    events = [event for batch in batches for event in batch.preemptions]
    assert {event.request_id for event in events} == {"second"}, "the latest arrival is the victim"
    first = events[0]
    assert first.mode is mode
    assert first.tokens_lost == (6 if mode is PreemptionMode.RECOMPUTE else 0)
    assert first.kv_use_before == 1.0 and first.kv_use_after == 0.5
    assert scheduler.stats().preemptions == len(events) == requests[1].preemptions
    moved = sum(len(batch.swap_out) for batch in batches)
    assert moved == sum(len(batch.swap_in) for batch in batches)
    assert moved == (3 if mode is PreemptionMode.SWAP else 0), "all blocks of the victim move in one batch"
    for request in requests:
        assert request.output_tokens == reference_output(request.prompt_tokens, 8)


def test_a_full_host_falls_back_to_recompute() -> None:
    scheduler, engine = make(blocks=6, block_size=2, host=1, max_batch_size=2, preemption=PreemptionMode.SWAP)
    scheduler.add(Request("first", [1, 2, 3, 4], 8))
    scheduler.add(Request("second", [5, 6, 7, 8], 8))
    events = [event for batch in run_all(scheduler, engine) for event in batch.preemptions]
    assert events and all(event.mode is PreemptionMode.RECOMPUTE for event in events)


def test_nobody_is_admitted_in_a_step_that_preempted() -> None:
    scheduler, engine = make(blocks=6, block_size=2, max_batch_size=3)
    scheduler.add(Request("first", [1, 2, 3, 4], 8))
    scheduler.add(Request("second", [5, 6, 7, 8], 8))
    scheduler.add(Request("tiny", [9], 1))
    for batch in run_all(scheduler, engine):
        if batch.preemptions:
            assert all(entry.is_decode for entry in batch.entries)


def test_the_watermark_is_kept_free_for_those_who_run() -> None:
    scheduler = Scheduler(KvCache(8, 2, watermark=0.25), SchedulerLimits(max_batch_size=4))
    engine = TokenEngine(scheduler.cache)
    scheduler.add(Request("runs", [1, 2, 3, 4], 2))
    scheduler.add(Request("waits", [5, 6, 7, 8, 9, 10, 11, 12, 13, 14], 2))  # 5 of 6 free blocks; 2 must stay free
    scheduler.update(batch := scheduler.step(0.0), engine.run(batch), 0.5)
    assert [entry.request.id for entry in batch.entries] == ["runs"]
    run_all(scheduler, engine)


def test_the_watermark_is_waived_when_nothing_runs() -> None:
    scheduler = Scheduler(KvCache(4, 2, watermark=0.5), SchedulerLimits(max_batch_size=4))
    engine = TokenEngine(scheduler.cache)
    scheduler.add(Request("big", list(range(7)), 2))
    assert len(run_all(scheduler, engine)) == 2


def test_a_shared_prefix_is_computed_once() -> None:
    scheduler, engine = make()
    scheduler.add(Request("first", [7] * 16, 2))
    run_all(scheduler, engine)
    second = Request("second", [7] * 16 + [1, 2], 3)
    scheduler.add(second)
    batch = scheduler.step(9.0)
    assert (batch.entries[0].start, batch.entries[0].tokens) == (16, [1, 2])
    scheduler.update(batch, engine.run(batch), 9.5)
    run_all(scheduler, engine)
    assert second.output_tokens == reference_output(second.prompt_tokens, 3)
    assert scheduler.stats().prefix_hit_tokens == 16


def test_a_fork_continues_from_the_prompt_of_its_parent() -> None:
    scheduler, engine = make(block_size=4)
    parent = Request("parent", list(range(10)), 6)
    scheduler.add(parent)
    scheduler.update(batch := scheduler.step(0.0), engine.run(batch), 0.5)
    child, early = Request("child", list(range(10)), 6), Request("stranger", [5, 5], 2)
    assert scheduler.fork("parent", child, 0.6)
    assert not scheduler.fork("parent", early, 0.6), "another prompt shares nothing and is queued"
    batch = scheduler.step(1.0)
    mine = next(entry for entry in batch.entries if entry.request is child)
    assert (mine.start, mine.tokens) == (9, [9]) and len(batch.copies) == 1
    scheduler.update(batch, engine.run(batch), 1.5)
    run_all(scheduler, engine)
    assert child.output_tokens == parent.output_tokens == reference_output(parent.prompt_tokens, 6)


@pytest.mark.parametrize(("others", "runs"), [(4, True), (5, False)])
def test_a_fork_leaves_the_watermark_free(others: int, runs: bool) -> None:
    """10 blocks, 3 of them spare: a fork runs while more than 3 are free, and is queued when it would eat into them."""
    cache = KvCache(10, 4, watermark=0.3)
    assert cache.watermark_blocks == 3
    scheduler = Scheduler(cache, SchedulerLimits(max_batch_size=8, max_tokens=64))
    engine = TokenEngine(cache)
    scheduler.add(Request("parent", [0] * 6, 6))  # two blocks
    scheduler.add(Request("others", [1] * (4 * others - 2), 2))
    scheduler.update(batch := scheduler.step(0.0), engine.run(batch), 0.5)
    assert cache.device.free_count == 10 - 2 - others
    assert scheduler.fork("parent", Request("child", [0] * 6, 6), 0.6) is runs
    run_all(scheduler, engine)


@pytest.mark.parametrize(
    ("request_", "error", "words"),
    [
        (Request("x", [], 4), errors.EmptyPrompt, "no prompt tokens"),
        (Request("x", [1], 0), errors.BadMaxTokens, "ask for at least 1"),
        (Request("x", [1] * 90, 11), errors.PromptTooLong, "context is 100"),
        (Request("x", [1] * 60, 30), errors.NeverFits, "89 tokens need 23 KV blocks of 4, the cache has 16"),
        (Request("live", [1], 1), errors.DuplicateRequest, "'live'"),
    ],
)
def test_a_request_that_can_never_run_is_refused_at_once(
    request_: Request, error: type[errors.ServeError], words: str
) -> None:
    scheduler, _ = make(blocks=16, max_model_len=100)
    scheduler.add(Request("live", [1], 1))
    with pytest.raises(error, match=words) as caught:
        scheduler.add(request_)
    assert caught.value.http_status == 400
    assert scheduler.stats().waiting == 1


def test_a_prompt_above_the_step_budget_is_refused_only_without_chunking() -> None:
    scheduler, _ = make(chunked_prefill=False)
    with pytest.raises(errors.NeverFits, match="chunked prefill is off"):
        scheduler.add(Request("x", [1] * 33, 1))
    scheduler, engine = make()
    scheduler.add(Request("x", [1] * 33, 1))
    assert len(run_all(scheduler, engine)) == 2


def test_the_longest_output_is_exactly_what_add_accepts() -> None:
    scheduler, engine = make(blocks=4, block_size=4)
    longest = scheduler.longest_output(5)
    assert longest == 12  # 5 + 12 - 1 = 16 positions: the last token is never fed back
    with pytest.raises(errors.NeverFits):
        scheduler.add(Request("x", [1] * 5, longest + 1))
    scheduler.add(request := Request("x", [1] * 5, longest))
    run_all(scheduler, engine)
    assert request.output_length == longest and request.preemptions == 0


def test_back_pressure() -> None:
    scheduler, _ = make(max_queued=2, max_queued_tokens=10)
    scheduler.add(Request("a", [1] * 4, 1))
    with pytest.raises(errors.Overloaded) as overloaded:
        scheduler.add(Request("b", [1] * 7, 1))
    scheduler.add(Request("c", [1] * 4, 1))
    with pytest.raises(errors.QueueFull) as full:
        scheduler.add(Request("d", [1], 1))
    assert (overloaded.value.http_status, full.value.http_status) == (503, 429)
    scheduler.step(0.0)  # both are admitted: the queue has room again
    scheduler.add(Request("d", [1], 1))


def test_ending_requests_between_step_and_update() -> None:
    scheduler, engine = make()
    for name in "abc":
        scheduler.add(Request(name, [1, 2, 3], 4))
    batch = scheduler.step(0.0)
    sampled = engine.run(batch)
    assert scheduler.abort("a").finish_reason is FinishReason.ABORT
    scheduler.finish("b", FinishReason.STOP)
    assert [output.request.id for output in scheduler.update(batch, sampled, 0.5)] == ["c"]
    assert scheduler.step(1.0).ended == ("a", "b")
    with pytest.raises(errors.UnknownRequest):
        scheduler.abort("a")


def test_a_crash_ends_what_ran_and_spares_what_waits() -> None:
    scheduler, engine = make(max_batch_size=1)
    for name in ("runs", "waits"):
        scheduler.add(Request(name, [1] * 8, 4))
    scheduler.update(batch := scheduler.step(0.0), engine.run(batch), 0.5)
    lost = scheduler.lose_device()
    assert [(request.id, request.finish_reason) for request in lost] == [("runs", FinishReason.ERROR)]
    scheduler.check()
    restarted = TokenEngine(scheduler.cache)  # its memory is poison: a remembered prefix would be noticed
    run_all(scheduler, restarted)


def test_a_policy_cannot_stop_the_world_nor_break_a_limit() -> None:
    class Hostile:
        def plan(self, load: Load) -> StepPlan:
            return StepPlan((Phase.DECODE,), max_batch_size=0, prefill_tokens=10_000)

        def observe(self, work: StepWork, duration_s: float) -> None:
            pass

    scheduler, engine = make(policy=Hostile())
    for index in range(20):
        scheduler.add(Request(str(index), [1] * 9, 3))
    run_all(scheduler, engine)


def test_limits_that_contradict_each_other_are_refused() -> None:
    with pytest.raises(ValueError, match="could not decode"):
        SchedulerLimits(max_batch_size=64, max_tokens=32)
    with pytest.raises(ValueError, match="max_queued"):
        SchedulerLimits(max_queued=0)


def test_ten_thousand_requests_with_random_cancellations_leak_nothing() -> None:
    rng = random.Random(7)
    cache = KvCache(200, 4, host_block_count=40)
    limits = SchedulerLimits(max_batch_size=32, max_tokens=128, max_queued=500, preemption=PreemptionMode.SWAP)
    scheduler = Scheduler(cache, limits)
    sent = ended = refused = step = 0
    while sent < 10_000 or scheduler.has_work:
        for _ in range(min(40, 10_000 - sent)):
            prompt = [rng.randrange(3) for _ in range(rng.randrange(1, 24))]
            try:
                scheduler.add(Request(f"r{sent}", prompt, rng.randrange(1, 40), priority=rng.randrange(3)))
            except errors.QueueFull:
                refused += 1
                break
            sent += 1
        batch = scheduler.step(float(step))
        for request in rng.sample(scheduler.live_requests, k=min(2, len(scheduler.live_requests))):
            scheduler.abort(request.id)
        sampled = {entry.request.id: rng.randrange(9) for entry in batch.entries if entry.samples}
        scheduler.update(batch, sampled, step + 0.5)
        ended += len(batch.ended)
        if step % 50 == 0:
            scheduler.check()
        step += 1
    ended += len(scheduler.step(float(step)).ended)
    scheduler.check()
    stats = scheduler.stats()
    assert ended == 10_000 and refused > 0 and stats.preemptions > 0, "the soak must meet every path"
    assert cache.device.free_count == 200 and cache.host.free_count == 40
    assert stats.waiting == stats.waiting_tokens == stats.running == 0
    assert len(scheduler._waiting._heap) <= 64, "cancelled requests stay in memory"
