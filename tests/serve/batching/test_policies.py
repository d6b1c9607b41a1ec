"""Each policy decides as described, and keeps its promise on a virtual clock."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.serve.planning.a_chip import ATLAS_A2
from toprope.serve.batching.kv_cache import KvCache
from toprope.serve.batching.policies import (
    AdaptiveBatchSize,
    DecodeFirst,
    LeastLaxity,
    Load,
    Phase,
    Policy,
    PrefillFirst,
    StepWork,
    Throughput,
)
from toprope.serve.batching.policies.step_times import OnlineRegression, StepTimes
from toprope.serve.batching.scheduler import Scheduler, SchedulerLimits
from toprope.serve.planning.model_shape import ModelShape
from toprope.serve.planning.simulator import SimulationResult, simulate
from toprope.serve.planning.step_cost import RooflineCost
from toprope.serve.planning.traffic import all_at_once, between, poisson

LOAD = Load(
    now_s=10.0,
    decodes=4,
    decode_context_tokens=4000,
    prefills=0,
    waiting=3,
    can_admit=True,
    oldest_prefill_s=9.9,
    prefill_tokens=500,
    max_batch_size=8,
    max_tokens=1000,
)
PREFILL, DECODE = (Phase.PREFILL,), (Phase.DECODE,)


def step(entries: list[tuple[int, int]]) -> StepWork:
    """A step of (start, tokens) prompt chunks."""
    return StepWork(0, len(entries), sum(n for _, n in entries), sum(start + n for start, n in entries))


def decodes(count: int) -> StepWork:
    return StepWork(count, 0, count, 1001 * count)


def run(policy: Policy, *, batch_size: int = 64, rate: float = 20.0, count: int = 150) -> SimulationResult:
    scheduler = Scheduler(KvCache(4000, 16, prefix_caching=False), SchedulerLimits(batch_size, 2048), policy)
    cost = RooflineCost(ModelShape.load("llama3-8b"), ATLAS_A2)
    return simulate(scheduler, cost, poisson(rate, count, between(64, 1024), between(16, 96), seed=3))


def test_prefill_first_decodes_only_when_there_is_no_prompt() -> None:
    policy = PrefillFirst()
    assert policy.plan(LOAD).phases == PREFILL
    assert policy.plan(replace(LOAD, can_admit=False)).phases == DECODE
    assert policy.plan(replace(LOAD, can_admit=False, prefills=1)).phases == PREFILL


def test_decode_first_mixes_and_caps_prompts() -> None:
    plan = DecodeFirst(prefill_tokens=256).plan(LOAD)
    assert plan.phases == (Phase.DECODE, Phase.PREFILL) and plan.prefill_tokens == 256
    with pytest.raises(ValueError, match="at least 1"):
        DecodeFirst(prefill_tokens=0)


def test_throughput_prefills_once_idle_slots_cost_more_than_the_stall() -> None:
    policy = Throughput()
    policy.observe(step([(0, 500)]), 0.1)  # a prefill of 500 tokens takes 0.1 s: stalling 4 decodes costs 0.4
    plans = []
    for _ in range(14):  # 3 of the 4 free slots could be filled: each decode step of 0.01 s wastes 0.03
        plans.append(policy.plan(LOAD).phases)
        policy.observe(decodes(4), 0.01)
    assert plans[:13] == [DECODE] * 13 and policy.plan(LOAD).phases == PREFILL
    policy.observe(step([(0, 500)]), 0.1)
    assert policy.plan(LOAD).phases == DECODE, "the books start anew after a prefill"


def test_least_laxity_serves_what_is_closer_to_its_deadline() -> None:
    policy = LeastLaxity(ttft_s=1.0, tpot_s=0.1)
    policy.observe(step([(0, 500)]), 0.05)
    policy.observe(decodes(4), 0.02)
    relaxed, urgent = replace(LOAD, oldest_prefill_s=9.95), replace(LOAD, oldest_prefill_s=9.0)
    assert policy.plan(relaxed).phases == DECODE  # laxity 0.90 against 0.80
    assert policy.plan(urgent).phases == PREFILL  # its second is over
    policy.observe(step([(0, 500)]), 0.2)  # the running requests now wait for 0.2 s already
    assert policy.plan(replace(LOAD, oldest_prefill_s=9.2)).phases == DECODE


def test_regression_recovers_a_line_and_refuses_negative_slopes() -> None:
    line = OnlineRegression(3)
    for x in range(1, 40):
        line.add((1.0, x, x * x % 7), 0.004 + 0.0001 * x + 0.002 * (x * x % 7))
    assert line.weights == pytest.approx((0.004, 0.0001, 0.002))
    falling = OnlineRegression(2)
    for x in range(1, 20):
        falling.add((1.0, x), 1.0 - 0.01 * x)
    assert falling.weights[1] == 0.0 and 0.8 < falling.weights[0] < 1.0
    assert OnlineRegression(2).predict((1.0, 5.0)) == 0.0


def test_regression_follows_a_machine_that_becomes_slower() -> None:
    line = OnlineRegression(2, decay=0.9)
    for factor in (1.0, 3.0):
        for x in range(60):
            line.add((1.0, x % 10), factor * (0.01 + 0.001 * (x % 10)))
    assert line.predict((1.0, 5.0)) == pytest.approx(0.045, rel=0.01)


def test_step_times_tell_prefill_from_decode() -> None:
    times = StepTimes()
    for tokens in (100, 400, 900):
        times.observe(step([(0, tokens)]), 0.001 + 0.0001 * tokens)
    for size in (1, 4, 16):
        times.observe(decodes(size), 0.01 + 0.0005 * size)
    assert times.prefill_s(600) == pytest.approx(0.061, rel=1e-3)
    assert times.decode_s(8, 8008) == pytest.approx(0.014, rel=1e-3)


def adaptive(**options: float) -> AdaptiveBatchSize:
    return AdaptiveBatchSize(DecodeFirst(), target_tpot_s=0.05, dead_band_s=0.005, window=1, **options)  # type: ignore[arg-type]


def size_after(policy: AdaptiveBatchSize, tpot_s: float, running: int) -> int:
    policy.plan(LOAD)
    policy.observe(decodes(running), tpot_s)
    assert policy.batch_size is not None
    return policy.batch_size


def test_adaptive_batch_size_moves_in_bounded_steps_outside_its_dead_band() -> None:
    policy = adaptive(lowest=3)
    assert policy.plan(LOAD).max_batch_size == 4  # half of the limit of 8
    assert size_after(policy, 0.053, running=4) == 4  # within the dead band
    assert size_after(policy, 0.042, running=4) == 5  # a bit fast
    assert size_after(policy, 0.010, running=5) == 7  # far too fast
    assert size_after(policy, 0.010, running=2) == 7  # the limit is not in use: nothing was learned about it
    assert size_after(policy, 0.010, running=7) == 8  # never above the scheduler's limit
    assert size_after(policy, 0.200, running=8) == 6
    for _ in range(5):
        size_after(policy, 0.200, running=6)
    assert policy.batch_size == 3  # never below the lowest


def test_adaptive_batch_size_skips_every_second_prefill_while_over_target() -> None:
    policy = adaptive()
    size_after(policy, 0.2, running=4)
    plans = [policy.plan(LOAD).phases for _ in range(4)]
    assert plans == [DECODE, (Phase.DECODE, Phase.PREFILL)] * 2
    assert policy.plan(replace(LOAD, decodes=0)).phases != DECODE, "with nothing to decode the step would be empty"


def test_adaptive_batch_size_counts_stalls_by_prefill_steps() -> None:
    policy = AdaptiveBatchSize(PrefillFirst(), target_tpot_s=0.05, dead_band_s=0.005, window=1)
    policy.plan(LOAD)
    policy.observe(step([(0, 500)]), 0.2)
    assert size_after(policy, 0.01, running=4) == 3


def test_adaptive_batch_size_meets_a_target_that_the_full_batch_misses() -> None:
    def saturated(policy: Policy) -> SimulationResult:
        scheduler = Scheduler(KvCache(40_000, 16, prefix_caching=False), SchedulerLimits(192, 2048), policy)
        cost = RooflineCost(ModelShape.load("llama2-7b"), ATLAS_A2)
        return simulate(scheduler, cost, all_at_once(300, between(400, 600), between(100, 200), seed=1))

    target_s = 0.030
    fixed = saturated(DecodeFirst())
    moved = saturated(AdaptiveBatchSize(DecodeFirst(), target_tpot_s=target_s, dead_band_s=0.002))
    assert fixed.percentile("tpot_s", 0.5) > 1.3 * target_s
    assert moved.percentile("tpot_s", 0.5) == pytest.approx(target_s, rel=0.2)
    assert len(moved.served) == 300


def test_the_policies_trade_first_tokens_against_smooth_tokens() -> None:
    prefill, decode = run(PrefillFirst()), run(DecodeFirst(prefill_tokens=256))
    assert prefill.percentile("ttft_s", 0.9) < decode.percentile("ttft_s", 0.9)
    assert decode.percentile("tpot_s", 0.99) < prefill.percentile("tpot_s", 0.99)


def test_throughput_makes_fewer_and_larger_prefills_than_prefill_first() -> None:
    def prefill_steps(result: SimulationResult) -> int:
        return sum(1 for sample in result.steps if sample.decodes == 0)

    assert prefill_steps(run(Throughput())) < 0.7 * prefill_steps(run(PrefillFirst()))


def test_least_laxity_keeps_more_requests_within_both_targets_than_prefill_first() -> None:
    ttft_s, tpot_s = 0.6, 0.030

    def share(policy: Policy) -> float:
        return run(policy, rate=18.0, count=200).share_within(ttft_s=ttft_s, tpot_s=tpot_s)

    laxity = share(LeastLaxity(ttft_s=ttft_s, tpot_s=tpot_s))
    assert laxity > 0.9 and laxity > share(PrefillFirst()) + 0.2


def test_senseless_settings_are_refused() -> None:
    with pytest.raises(ValueError, match="positive"):
        LeastLaxity(ttft_s=0)
    with pytest.raises(ValueError, match="dead_band_s"):
        AdaptiveBatchSize(DecodeFirst(), target_tpot_s=0.05, dead_band_s=0.06)
