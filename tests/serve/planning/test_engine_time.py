"""What engines add: solved from one half of the published sources, judged on the other, and told in the plan."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from toprope.errors import BadInput
from toprope.serve.planning.card_links import CardLinks, cluster_of
from toprope.serve.planning.engine_time import (
    Row,
    bands,
    constants,
    engine_s,
    errors,
    left_out,
    mean_size,
    published,
    solve,
)
from toprope.serve.planning.model_shape import PRESETS, ModelShape
from toprope.serve.planning.planner import main
from toprope.serve.planning.published_page import page

ROOT = Path(__file__).parents[3]


def test_rows_are_many_and_no_source_is_in_both_halves() -> None:
    rows = published()
    assert len(rows) >= 60 and len({row.source for row in rows}) >= 8
    assert all(row.source.startswith("https://") for row in rows)
    solving = {row.source for row in rows if not row.judges}
    assert solving and not solving & {row.source for row in rows if row.judges}


def test_constants_that_made_the_rows_are_found_again() -> None:
    wanted = (0.5, 1.5, 0.25, 0.1)
    rows = [replace(row, tpot_ms=row.planned_ms(wanted)) for row in published()]
    assert solve(rows) == pytest.approx(wanted, rel=1e-3)
    assert mean_size(left_out(rows)) < 1e-3
    slow = [replace(row, tpot_ms=2 * row.tpot_ms) for row in rows]
    assert mean_size(errors(slow, wanted)) == pytest.approx(0.5)


def test_one_wild_source_does_not_move_the_constants_much() -> None:
    wanted = (0.5, 1.5, 0.25, 0.1)
    rows = [replace(row, tpot_ms=row.planned_ms(wanted)) for row in published()]
    wild = replace(rows[0], tpot_ms=5 * rows[0].tpot_ms, source="https://wild")
    assert solve([*rows, wild]) == pytest.approx(wanted, rel=0.15)


def test_what_is_shipped_is_what_the_program_solves() -> None:
    values, found = constants()
    assert values == pytest.approx(solve(published()), rel=1e-3)
    for mode, band in bands(published()).items():
        assert vars(found[mode]) == pytest.approx(vars(band), abs=2e-3)
        assert band.low < 1 < band.high
    second = [r for r in published() if r.judges]
    blind = errors(second, solve([r for r in published() if not r.judges]))
    assert (
        mean_size(blind) < 0.46
        and mean_size([e for r, e in zip(second, blind, strict=True) if r.mode == "eager"]) <= 0.2
    )


def test_the_page_is_what_the_program_writes() -> None:
    written = (ROOT / "docs/serving_figures.md").read_text("utf-8")
    assert written == page(), "run: python -m toprope.serve.planning page"


@pytest.mark.parametrize(
    ("model", "billions", "active"),
    [
        ("qwen3-30b-a3b", 30.5, 3.3),
        ("qwen3-235b-a22b", 235, 22),
        ("deepseek-v3", 671, 37),
        ("kimi-k2", 1026, 32),
        ("mixtral-8x7b", 46.7, 12.9),
        ("glm-4.5-air", 106, 12),
        ("qwen3-32b", 32.8, 32.8),
        ("llama3-70b", 70.6, 70.6),
    ],
)
def test_presets_have_the_parameters_that_their_authors_state(model: str, billions: float, active: float) -> None:
    shape = PRESETS[model]
    assert shape.weight_bytes / 2e9 == pytest.approx(billions, rel=0.02)
    assert (shape.active_parameters + shape.head_parameters) / 1e9 == pytest.approx(active, rel=0.1)


def test_a_step_reads_the_experts_that_its_tokens_meet() -> None:
    shape = PRESETS["qwen3-30b-a3b"]
    assert shape.parameters_read(1) == pytest.approx(shape.active_parameters)
    reads = [shape.parameters_read(tokens) for tokens in (1, 4, 32, 4096)]
    assert reads == sorted(reads) and reads[-1] == pytest.approx(shape.layer_parameters)
    assert PRESETS["deepseek-v3"].kv_bytes_per_token == 61 * 576 * 2


def test_more_cards_wait_for_each_other_and_eager_launches_more() -> None:
    shape = PRESETS["qwen3-32b"]
    graph, eager, joined = (engine_s(shape, *how)[0] for how in (("graph", 1), ("eager", 1), ("graph", 4)))
    assert graph < eager and graph < joined
    row = Row(shape, "ascend910b2", 4, 1, False, "graph", "e", "", 1.0, 512, 0, 50.0, "https://a")
    one, two, four = (replace(row, tensor_parallel=cards) for cards in (1, 2, 4))
    read_s = one.chip_s()  # alone nothing is sent
    assert two.chip_s() > read_s / 2 and four.chip_s() < two.chip_s()
    eager = replace(row, mode="eager")
    slow, fast = 64 * 5.0, 64 * 0.01
    assert eager.planned_ms((0, 5.0, 1.0, 0)) == slow, "launches hide the chip's work"
    assert eager.planned_ms((0, 0.01, 1.0, 0)) == pytest.approx(1e3 * row.chip_s()) and fast < 1e3 * row.chip_s()
    assert replace(row, sequences=9.0, output_tokens=64).chip_s() > replace(row, sequences=9.0).chip_s()


QUICK = ["--requests", "8", "--max-batch-size", "8", "--max-tokens", "2048", "--policy", "decode-first", "--quiet"]


def test_a_plan_of_experts_on_several_cards_says_its_error(capsys: pytest.CaptureFixture[str]) -> None:
    tpot = {}
    for cards in ("8", "16"):
        main([*QUICK, "--model", "deepseek-v3", "--weight-bytes", "1", "--tp", cards, "--memory-gb", "120", "--json"])
        plan = json.loads(capsys.readouterr().out)
        tpot[cards] = plan["recommended"]["tpot_s"]
        band = constants()[1]["graph"]
        assert plan["tpot_error"] == band.mean
        low, high = plan["recommended"]["tpot_band_s"]
        assert (low, high) == pytest.approx((tpot[cards] * band.low, tpot[cards] * band.high))
        assert any("off on average on published rows" in note for note in plan["notes"])
    assert tpot["16"] < tpot["8"]
    with pytest.raises(BadInput, match="not plain products"):
        main([*QUICK, "--model", "deepseek-v3", "--cost", "kernels"])


DEEPSEEK = {
    "hidden_size": 7168, "num_hidden_layers": 61, "num_attention_heads": 128, "num_key_value_heads": 128, "intermediate_size": 18432,
    "vocab_size": 129280, "max_position_embeddings": 163840, "n_routed_experts": 256, "num_experts_per_tok": 8,
    "moe_intermediate_size": 2048, "n_shared_experts": 1, "first_k_dense_replace": 3, "moe_layer_freq": 1, "kv_lora_rank": 512,
    "q_lora_rank": 1536, "qk_rope_head_dim": 64, "qk_nope_head_dim": 128, "v_head_dim": 128,
}  # fmt: skip
QWEN3_MOE = {
    "hidden_size": 2048, "num_hidden_layers": 48, "num_attention_heads": 32, "num_key_value_heads": 4, "head_dim": 128,
    "intermediate_size": 6144, "vocab_size": 151936, "max_position_embeddings": 40960, "num_experts": 128, "num_experts_per_tok": 8,
    "moe_intermediate_size": 768, "decoder_sparse_step": 1, "mlp_only_layers": [],
}  # fmt: skip
MIXTRAL = {
    "hidden_size": 4096, "num_hidden_layers": 32, "num_attention_heads": 32, "num_key_value_heads": 8, "intermediate_size": 14336,
    "vocab_size": 32000, "max_position_embeddings": 32768, "num_local_experts": 8, "num_experts_per_tok": 2,
}  # fmt: skip


@pytest.mark.parametrize(
    ("config", "preset"),
    [
        (DEEPSEEK, "deepseek-v3"),
        (QWEN3_MOE, "qwen3-30b-a3b"),
        (MIXTRAL, "mixtral-8x7b"),
        ({"text_config": QWEN3_MOE}, "qwen3-30b-a3b"),
    ],
    ids=["latent", "experts", "mixtral", "inside a multimodal one"],
)
def test_a_configuration_of_experts_has_its_presets_numbers(
    tmp_path: Path, config: dict[str, Any], preset: str
) -> None:
    (tmp_path / "config.json").write_text(json.dumps(config))
    shape, wanted = ModelShape.load(str(tmp_path)), PRESETS[preset]
    for name in ("layer_parameters", "active_parameters", "weight_bytes", "kv_bytes_per_token", "expert_layers"):
        assert getattr(shape, name) == getattr(wanted, name), name


def test_what_a_configuration_says_of_its_weights_and_of_other_layers(tmp_path: Path) -> None:
    def load(**more: Any) -> ModelShape:
        (tmp_path / "config.json").write_text(json.dumps({**QWEN3_MOE, **more}))
        return ModelShape.load(str(tmp_path))

    assert load(quantization_config={"quant_method": "fp8"}).weight_bytes_each == 1
    assert load(quantization_config={"quant_method": "awq", "bits": 4}).weight_bytes_each == 0.5
    assert load(decoder_sparse_step=2).expert_layers == 24
    assert load(mlp_only_layers=[0, 1]).expert_layers == 46
    assert load(num_experts=64, shared_expert_intermediate_size=1536).shared_experts == 2
    with pytest.raises(BadInput, match="linear attention"):
        load(layer_types=["linear_attention", "full_attention"])
    with pytest.raises(BadInput, match="qk_rope_head_dim"):
        load(kv_lora_rank=512)


def test_copies_that_hold_the_experts_together_need_less_memory_and_send_more(
    capsys: pytest.CaptureFixture[str],
) -> None:
    alone = PRESETS["deepseek-v3"]
    spread = replace(alone, copies=16)
    assert spread.weight_bytes < alone.weight_bytes / 8 and spread.active_parameters == alone.active_parameters
    assert spread.parameters_read(4) > spread.parameters_read(1)
    cluster = cluster_of("ascend910b2", 16)
    assert CardLinks(cluster, 1, 16).step_s(spread, 32) > CardLinks(cluster, 1, 1).step_s(alone, 32) == 0
    assert cluster_of("ascend310p3", 2) is None
    main(
        [
            *QUICK,
            "--model",
            "deepseek-v3",
            "--weight-bytes",
            "1",
            "--tp",
            "2",
            "--dp",
            "16",
            "--expert-parallel",
            "--json",
        ]
    )
    assert json.loads(capsys.readouterr().out)["recommended"]["kv_blocks"] > 0
    with pytest.raises(BadInput, match="no experts"):
        main([*QUICK, "--model", "qwen3-8b", "--expert-parallel"])
