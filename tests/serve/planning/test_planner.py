"""The planner: capacity, sweep, recommendation with reasons, flags, page, command line."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import pytest

from tests.serve.planning.a_chip import ATLAS_A2
from tests.test_pages import held
from toprope.cli import main as toprope
from toprope.errors import BadChip, BadInput
from toprope.serve.planning.capacity import concurrency, kv_block_count
from toprope.serve.planning.engine_flags import Settings, mindie_config, vllm_flags
from toprope.serve.planning.model_shape import PRESETS
from toprope.serve.planning.plan_page import plan_chart
from toprope.serve.planning.plan_sweep import Planner, PlanPoint, PlanSpace, Slo, frontier
from toprope.serve.planning.planner import main
from toprope.serve.planning.recommendation import recommend
from toprope.serve.planning.step_cost import ChipRates
from toprope.serve.planning.traffic import between, from_csv, poisson
from toprope.soc import load, names

POINT = PlanPoint(
    settings=Settings("decode-first", 32, 2048, 128),
    kv_blocks=500,
    tokens_per_s=1000.0,
    ttft_s=0.5,
    tpot_s=0.03,
    latency_s=5.0,
    share_within=1.0,
    refused=0,
    preemptions=0,
    tokens_lost=0,
    peak_kv_use=0.5,
    peak_running=32,
)


def point(batch: int, **changes: float) -> PlanPoint:
    return replace(POINT, settings=replace(POINT.settings, max_batch_size=batch), **changes)  # type: ignore[arg-type]


def test_the_published_case_of_1747_blocks() -> None:
    """hiascend practical case 6: 1,747 blocks of 128 and 1,024 in, 2,048 out were put at about 145 requests."""
    fits = concurrency(1747, 128, 1024, 2048)
    assert fits.halfway == 145
    assert fits.worst == 72, "what the batch of 192 collapsed to"
    assert fits.staggered == 105, "at every stage of life a request holds 16.5 blocks on average"


def test_block_count_is_what_weights_and_activations_leave() -> None:
    model = PRESETS["llama2-7b"]
    left = 64e9 * 0.8 - model.weight_bytes - model.working_bytes(8192, 256)
    assert kv_block_count(model, 64e9, 128) == int(left / (128 * 524288))
    with pytest.raises(BadInput, match="leaves no KV block"):
        kv_block_count(model, 16e9, 128)


def test_the_frontier_keeps_what_nothing_beats() -> None:
    slow, fast, beaten = point(16, tpot_s=0.02, tokens_per_s=600), POINT, point(64, tpot_s=0.04, tokens_per_s=900)
    assert frontier([beaten, fast, slow]) == [slow, fast]


def test_the_fastest_point_within_the_targets_is_recommended_with_reasons() -> None:
    points = [
        point(16, tokens_per_s=700.0, tpot_s=0.02, peak_running=16),
        POINT,
        point(64, tokens_per_s=1300.0, tpot_s=0.061, share_within=0.4),
    ]
    chosen = recommend(points, Slo(1.0, 0.05))
    assert chosen.point is POINT and chosen.meets_slo
    text = "\n".join(chosen.reasons)
    assert "max_batch_size 64 instead of 32: p99 time per token 61.0 ms misses the target, +30% tokens/s" in text
    assert "max_batch_size 16 instead of 32: -30% tokens/s" in text
    assert "the batch size is the limit that binds" in text


def test_a_point_within_the_targets_goes_before_one_that_refuses_or_misses_a_percentile() -> None:
    points = [
        point(16, share_within=0.991),
        point(32, tokens_per_s=2000.0, ttft_s=1.5, share_within=0.995),
        point(64, tokens_per_s=2000.0, refused=1, share_within=0.999),
    ]
    assert recommend(points, Slo()).point is points[0]


def test_equal_throughput_is_decided_by_latency_then_by_the_smaller_batch() -> None:
    points = [point(64, tokens_per_s=1001.0), point(128, latency_s=4.0), point(16, latency_s=4.0, tokens_per_s=995.0)]
    assert recommend(points, Slo()).point.settings.max_batch_size == 16


def test_when_nothing_meets_the_targets_the_nearest_is_named_as_such() -> None:
    points = [point(16, ttft_s=9.0, share_within=0.3), point(32, ttft_s=4.0, share_within=0.6)]
    chosen = recommend(points, Slo())
    assert not chosen.meets_slo and chosen.point is points[1]
    assert "no setting meets the targets; this one does for 60%" in chosen.reasons[0]
    with pytest.raises(BadInput, match="nothing was simulated"):
        recommend([], Slo())


def small_planner(**changes: object) -> Planner:
    arrivals = poisson(20.0, 60, between(64, 512), between(16, 64), seed=2)
    return replace(Planner(PRESETS["llama3-8b"], ATLAS_A2, arrivals), **changes)  # type: ignore[arg-type]


def test_a_sweep_tries_all_settings_and_reuses_what_cannot_differ() -> None:
    ran: list[PlanPoint] = []
    space = PlanSpace((4, 256, 512), (512,), (16, 128), ("prefill-first", "decode-first"))
    points = small_planner().sweep(space, progress=ran.append)
    assert [p.settings for p in points] == list(space.settings()) and len(points) == 12
    assert len(ran) == 8, "batch 512 is never reached, so 256 speaks for it"
    last = points[2]
    fresh, _ = small_planner().run(last.settings)
    assert (fresh.tokens_per_s, fresh.tpot_s, fresh.ttft_s) == (last.tokens_per_s, last.tpot_s, last.ttft_s)


def test_too_few_blocks_show_as_preemptions() -> None:
    tight, _ = small_planner(kv_blocks=20).run(Settings("decode-first", 64, 512, 128))
    roomy, _ = small_planner().run(Settings("decode-first", 64, 512, 128))
    assert tight.preemptions > 0 and tight.peak_kv_use == 1.0
    assert roomy.preemptions == 0 and roomy.ttft_s < tight.ttft_s


def test_chip_files_give_rates_or_name_the_number_they_lack() -> None:
    lacking = []
    for name in names():
        try:
            assert ChipRates.of(load(name)).sources
        except BadChip as error:
            assert error.message.startswith(f"{name} has no number"), error
            lacking.append(name)
    assert len(lacking) < len(names()) / 2, lacking
    a2, small = ChipRates.of(load("ascend910b2")), ChipRates.of(load("ascend310p3"))
    assert 2.5e14 < a2.flops_per_s < 3.2e14 and small.bytes_per_s < a2.bytes_per_s / 5


def test_wrong_questions_are_refused() -> None:
    with pytest.raises(BadInput, match="one block size"):
        small_planner(kv_blocks=20).sweep(PlanSpace(block_sizes=(16, 128)))
    with pytest.raises(BadInput, match="no policy is called"):
        small_planner().run(Settings("luck", 4, 512, 128))


def test_flags_of_other_engines() -> None:
    plain = vllm_flags(Settings("decode-first", 64, 4096, 16), 2048, ascend=False, ttft_s=1, tpot_s=0.05)
    assert plain == [
        "--max-num-seqs 64",
        "--max-num-batched-tokens 4096",
        "--max-model-len 2048",
        "--block-size 16",
    ]
    ascend = vllm_flags(Settings("least-laxity", 64, 4096, 16), 2048, ascend=True, ttft_s=1, tpot_s=0.05)
    assert "--block-size 128" in ascend
    assert "--scheduler-cls toprope.serve.batching.vllm_policy.PolicyScheduler" in ascend
    mix = mindie_config(Settings("decode-first", 64, 4096, 128), 2048, ttft_s=1, tpot_s=0.05)["ScheduleConfig"]
    assert isinstance(mix, dict) and mix["templateType"] == "Mix" and "stageSelectPolicy" not in mix
    laxity = mindie_config(Settings("least-laxity", 64, 4096, 128), 2048, ttft_s=1, tpot_s=0.05)["ScheduleConfig"]
    assert isinstance(laxity, dict)
    assert (laxity["stageSelectPolicy"], laxity["prefillExpectedTime"], laxity["decodeExpectedTime"]) == (2, 1000, 50)


def test_the_chart_is_one_circle_a_point() -> None:
    points = [point(16, tpot_s=0.02, tokens_per_s=600.0), POINT]
    chart = ElementTree.fromstring(plan_chart(points, POINT, Slo()))
    circles = [circle for circle in chart.iter("circle") if circle.find("title") is not None]
    assert len(circles) == 2
    left, right = (float(circle.get("cx", "0")) for circle in circles)
    low, high = (float(circle.get("cy", "0")) for circle in circles)
    assert left < right and low > high


COMMAND = ["plan-serve", "--requests", "30", "--max-batch-size", "8,64", "--max-tokens", "1024", "--quiet"]
QUICK = ["--requests", "30", "--max-batch-size", "8,64", "--max-tokens", "1024", "--policy", "decode-first", "--quiet"]


def test_the_command_recommends_prints_flags_and_writes_a_page(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    page = tmp_path / "plan.html"
    assert main([*QUICK, "--html", str(page)]) == 0
    out = capsys.readouterr().out
    assert "recommended: decode-first" in out and "--max-num-seqs" in out and '"maxBatchSize"' in out
    html = page.read_text()
    assert "<svg" in html and "Recommended" in html
    assert "http:" not in html and "https:" not in html and "src=" not in html, "the page loads nothing"
    held(html)


def test_the_command_speaks_json_and_reports_targets_that_cannot_be_met(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([*QUICK, "--json", "--tpot", "0.001"]) == 1
    plan = json.loads(capsys.readouterr().out)
    assert plan["recommended"]["meets_targets"] is False and len(plan["points"]) == 2


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--model", "gpt-9"], "presets"),
        (["--chip", "ascend999"], "unknown chip"),
        (["--memory-gb", "8"], "leaves no KV block"),
        (["--prompt", "9:3"], "low <= high"),
        (["--prompt", "5:"], "'' is not a whole number"),
        (["--output", "0"], "--output: must be at least 1, got 0"),
        (["--trace", "/nowhere.csv"], "cannot be read"),
        (["--tflops", "-3"], "must be greater than 0"),
        (["--requests", "0"], "--requests: must be at least 1, got 0"),
        (["--rate", "nan"], "not a finite number"),
        (["--rate", "-1"], "must be at least 0"),
        (["--burst", "0"], "must be at least 1"),
        (["--ttft", "-1"], "must be greater than 0"),
        (["--tpot", "nan"], "not a finite number"),
        (["--max-batch-size", "4,0"], "must be at least 1"),
        (["--max-tokens", "x"], "'x' is not a whole number"),
        (["--block-size", "0"], "must be at least 1"),
        (["--max-model-len", "5"], "refuses every request"),
        (["--kv-blocks", "0"], "must be at least 1"),
        (["--overhead-ms", "-3"], "must be at least 0"),
        (["--memory-gb", "inf"], "not a finite number"),
        (["--shared-prefix", "-4"], "must be at least 0"),
        (["--html", "/nonexistent/plan.html"], "no folder"),
        (["--policy", "luck"], "no policy is called 'luck'; known: prefill-first"),
        (["--max-token", "512", "--polcy", "x"], "unrecognized arguments"),
    ],
)
def test_the_command_explains_wrong_input(arguments: list[str], words: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert toprope([*COMMAND, *arguments, "--json"]) == 2
    told = capsys.readouterr()
    assert words in told.err and told.err.startswith("bad-") and told.err.count("\n") <= 2
    error = json.loads(told.out)["error"]
    assert error["code"] == told.err.partition(":")[0] and words in error["message"] + error["cure"]


def test_notes_say_where_the_overhead_comes_from(capsys: pytest.CaptureFixture[str]) -> None:
    main([*QUICK, "--json"])
    notes = " ".join(json.loads(capsys.readouterr().out)["notes"])
    assert "overhead of the graph engine, solved from published rows" in notes and "given" not in notes
    main([*QUICK, "--json", "--overhead-ms", "3", "--tflops", "200"])
    notes = " ".join(json.loads(capsys.readouterr().out)["notes"])
    assert "given: flops_per_s;" in notes and "overhead given" in notes


@pytest.mark.parametrize(("tokens", "taken"), [(1 << 24, True), ((1 << 24) + 1, False), (10**14, False)])
def test_a_trace_with_a_request_that_no_model_takes_is_refused(tmp_path, tokens, taken):
    file = tmp_path / "t.csv"
    file.write_text(f"arrival_s,prompt_tokens,output_tokens\n0,{tokens},5\n")
    if taken:
        assert from_csv(file)[0].prompt_tokens == tokens
        return
    with pytest.raises(BadInput, match=r"t.csv:2: a request of"):
        from_csv(file)
