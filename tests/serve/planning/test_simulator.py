"""The virtual clock: times add up, memory behaves as published, refusals are counted."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.serve.planning.a_chip import ATLAS_A2
from toprope.errors import BadInput
from toprope.serve.batching.batch import Batch, PreemptionMode
from toprope.serve.batching.kv_cache import KvCache
from toprope.serve.batching.policies import PrefillFirst
from toprope.serve.batching.scheduler import Scheduler, SchedulerLimits
from toprope.serve.planning.model_shape import PRESETS, ModelShape
from toprope.serve.planning.simulator import simulate
from toprope.serve.planning.step_cost import ChipRates, MeasuredCost, RooflineCost, SwapCost
from toprope.serve.planning.traffic import (
    Arrival,
    all_at_once,
    between,
    bursts,
    from_csv,
    poisson,
    with_shared_prefixes,
)


class FixedCost:
    def __init__(self, seconds: float = 1.0) -> None:
        self.seconds = seconds
        self.batches: list[Batch] = []

    def step_s(self, batch: Batch) -> float:
        self.batches.append(batch)
        return self.seconds


def scheduler(blocks: int = 100, *, block_size: int = 16, host: int = 0, **limits: object) -> Scheduler:
    cache = KvCache(blocks, block_size, host_block_count=host)
    return Scheduler(cache, SchedulerLimits(**{"max_batch_size": 4, "max_tokens": 64, **limits}))  # type: ignore[arg-type]


def test_times_of_one_request() -> None:
    result = simulate(scheduler(), FixedCost(), [Arrival(5.0, 100, 4)])
    (served,) = result.served
    assert served.ttft_s == 2.0  # two chunks: 64 and 36 tokens
    assert served.tpot_s == 1.0 and served.latency_s == 5.0 and result.duration_s == 5.0
    assert result.output_tokens_per_s == pytest.approx(4 / 5)


def test_a_request_that_arrives_during_a_step_waits_for_its_end() -> None:
    result = simulate(scheduler(), FixedCost(), [Arrival(0.0, 10, 3), Arrival(0.25, 10, 1)])
    assert result.served[1].ttft_s == pytest.approx(1.75)


def test_the_clock_jumps_over_idle_time() -> None:
    cost = FixedCost()
    result = simulate(scheduler(), cost, [Arrival(0.0, 4, 1), Arrival(100.0, 4, 1)])
    assert len(cost.batches) == 2 and result.duration_s == 101.0


def test_refusals_are_counted_by_code_and_count_against_the_targets() -> None:
    arrivals = [Arrival(0.0, 8, 2)] * 4 + [Arrival(0.0, 5000, 2)]
    result = simulate(scheduler(max_queued=3), FixedCost(), arrivals)
    assert result.refused == {"queue-full": 1, "never-fits": 1}
    assert result.share_within(ttft_s=10, tpot_s=10) == pytest.approx(3 / 5)


def test_a_clock_that_stands_still_is_an_error() -> None:
    with pytest.raises(ValueError, match="time must pass"):
        simulate(scheduler(), FixedCost(0.0), [Arrival(0.0, 8, 2)])


def test_shared_prefixes_are_computed_once() -> None:
    arrivals = with_shared_prefixes(poisson(0.1, 20, between(8, 8), between(2, 2)), 48, 2, seed=1)
    result = simulate(scheduler(), FixedCost(), arrivals)
    assert result.prefix_hit_share == pytest.approx(18 * 48 / (20 * 56))
    assert all(served.ttft_s < 2 for served in result.served)


def test_the_published_case_collapses_when_blocks_run_out() -> None:
    """1,747 blocks of 128, 1,024 tokens in and 2,048 out: batch 192 was seen to collapse to 72 (hiascend case 6)."""

    def lowest_after_full(batch_size: int) -> tuple[int, int]:
        limits = SchedulerLimits(batch_size, 8192, 4096)
        cost = RooflineCost(PRESETS["llama2-7b"], ATLAS_A2)
        run = Scheduler(KvCache(1747, 128, prefix_caching=False), limits, PrefillFirst())
        result = simulate(run, cost, all_at_once(batch_size, between(1024, 1024), between(2048, 2048)))
        running = [step.running for step in result.steps]
        full = running.index(max(running))
        first_end = next(i for i, step in enumerate(result.steps) if i > full and step.now_s > _first_finish(result))
        return min(running[full:first_end]), result.preemptions

    assert lowest_after_full(192)[0] == 72
    assert lowest_after_full(72) == (72, 0)


def _first_finish(result) -> float:  # type: ignore[no-untyped-def]
    return min(served.arrival_s + served.latency_s for served in result.served) - 1e-9


def test_roofline_reads_weights_once_and_keys_and_values_per_request() -> None:
    model, chip = PRESETS["llama2-7b"], ChipRates("bandwidth only", 1e30, 1e12, 64e9)
    cost = FixedCost()
    simulate(scheduler(1000), cost, all_at_once(4, between(16, 16), between(20, 20)))
    roofline = RooflineCost(model, chip)
    decode = next(batch for batch in cost.batches if batch.decode_count == 4)
    weights = (model.layer_parameters + model.head_parameters) * 2 / 1e12
    context = sum(entry.start + 2 for entry in decode.entries) * model.kv_bytes_per_token / 1e12
    assert roofline.step_s(decode) == pytest.approx(weights + context)
    compute = RooflineCost(model, ChipRates("arithmetic only", 1e12, 1e30, 64e9, overhead_s=0.25))
    prefill = cost.batches[0]
    assert prefill.token_count == 64
    flops = 2 * model.layer_parameters * 64 + 2 * model.head_parameters * 4 + 4 * 32 * 4096 * 4 * 16 * 17 / 2
    assert compute.step_s(prefill) == pytest.approx(0.25 + flops / 1e12)


def test_swaps_cost_time() -> None:
    model, chip = PRESETS["llama2-7b"], ChipRates("slow host", 1e15, 1e15, 64e9, host_bytes_per_s=1e9)
    inner = FixedCost()
    pressed = scheduler(8, block_size=4, host=20, preemption=PreemptionMode.SWAP)
    result = simulate(pressed, inner, all_at_once(3, between(8, 8), between(12, 12)))
    swap = next(batch for batch in inner.batches if batch.swap_out)
    moved_bytes = len(swap.swap_out) * 4 * model.kv_bytes_per_token
    assert SwapCost(inner, model, chip, 4).step_s(swap) == pytest.approx(1.0 + moved_bytes / 1e9)
    assert result.preemptions > 0 and result.tokens_lost == 0


def test_a_measured_cost_predicts_the_engine_it_watched() -> None:
    truth = RooflineCost(PRESETS["smollm2-135m"], ChipRates("laptop", 1e30, 2e10, 8e9, overhead_s=1e-3))
    cost = FixedCost()
    simulate(scheduler(1000), cost, poisson(0.5, 60, between(8, 64), between(4, 30), seed=2))
    learned = MeasuredCost()
    with pytest.raises(ValueError, match="observe"):
        learned.step_s(cost.batches[0])
    for batch in cost.batches[::2]:
        learned.observe(batch, truth.step_s(batch))
    errors = [abs(learned.step_s(batch) / truth.step_s(batch) - 1) for batch in cost.batches[1::2]]
    assert max(errors) < 0.1


def test_simulation_repeats_exactly() -> None:
    def once() -> object:
        cost = RooflineCost(PRESETS["llama3-8b"], ATLAS_A2)
        return simulate(scheduler(400), cost, poisson(30, 60, between(20, 200), between(10, 60), seed=5))

    assert once() == once()


def test_traffic_has_the_rate_and_bursts_it_promises() -> None:
    arrivals = bursts(10.0, 3000, 5, between(1, 9), between(2, 2), seed=4)
    assert arrivals[-1].arrival_s == pytest.approx(300, rel=0.1)
    assert all(arrivals[i].arrival_s == arrivals[i + 4].arrival_s for i in range(0, 3000, 5))
    assert sum(a.prompt_tokens for a in arrivals) / 3000 == pytest.approx(5, rel=0.05)
    with pytest.raises(BadInput, match="positive rate"):
        poisson(0, 10, between(1, 1), between(1, 1))
    with pytest.raises(BadInput, match="lengths"):
        between(5, 2)


def test_traces_are_read_sorted_and_refused_with_the_line(tmp_path: Path) -> None:
    trace = tmp_path / "trace.csv"
    trace.write_text("arrival_s,prompt_tokens,output_tokens\n2.5,10,20\n1.0,30,40\n")
    assert from_csv(trace) == [Arrival(1.0, 30, 40), Arrival(2.5, 10, 20)]
    trace.write_text("arrival_s,prompt_tokens,output_tokens\n2.5,ten,20\n")
    with pytest.raises(BadInput, match=r"trace.csv:2"):
        from_csv(trace)
    trace.write_text("arrival_s,prompt_tokens,output_tokens\n")
    with pytest.raises(BadInput, match="no requests"):
        from_csv(trace)
    with pytest.raises(BadInput, match="cannot be read"):
        from_csv(tmp_path / "missing.csv")


@pytest.mark.parametrize(("name", "billions"), [("llama2-7b", 6.74), ("llama3-8b", 8.03), ("qwen2.5-7b", 7.6)])
def test_model_shapes_have_the_published_number_of_parameters(name: str, billions: float) -> None:
    assert PRESETS[name].weight_bytes / 2e9 == pytest.approx(billions, rel=0.01)


def test_model_shapes_come_from_config_files(tmp_path: Path) -> None:
    config = tmp_path / "config.json"
    config.write_text(
        '{"num_hidden_layers": 2, "hidden_size": 64, "num_attention_heads": 4, "intermediate_size": 128,'
        ' "vocab_size": 100, "max_position_embeddings": 512}'
    )
    shape = ModelShape.load(str(tmp_path))
    assert (shape.kv_heads, shape.head_size, shape.kv_bytes_per_token) == (4, 16, 2 * 2 * 4 * 16 * 2)
    config.write_text('{"num_attention_heads": 4}')
    with pytest.raises(BadInput, match="num_hidden_layers"):
        ModelShape.load(str(config))
    with pytest.raises(BadInput, match="no model called"):
        ModelShape.load("gpt-9")
