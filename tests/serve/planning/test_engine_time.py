"""What engines add: solved from one half of the published sources, judged on the other, and told in the plan."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from toprope.errors import BadInput
from toprope.serve.planning import engine_time
from toprope.serve.planning.engine_time import Row, constants, engine_s, errors, left_out, mean_size, published, solve
from toprope.serve.planning.model_shape import PRESETS
from toprope.serve.planning.planner import main

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
    assert solve(rows) == pytest.approx(wanted, rel=1e-6)
    assert mean_size(left_out(rows)) < 1e-6
    slow = [replace(row, tpot_ms=2 * row.tpot_ms) for row in rows]
    assert mean_size(errors(slow, wanted)) == pytest.approx(0.5)


def test_what_is_shipped_is_what_the_program_solves() -> None:
    values, error = constants()
    assert values == pytest.approx(solve([row for row in published() if not row.judges]), rel=1e-3)
    assert error == pytest.approx(mean_size(errors([r for r in published() if r.judges], values)), abs=2e-3)


def test_the_page_is_what_the_program_writes() -> None:
    written = (ROOT / "docs/serving_figures.md").read_text("utf-8")
    assert written == engine_time.page(), "run: python -m toprope.serve.planning page"


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
    row = Row(shape, "ascend910b2", 4, 4, "graph", "e", 1.0, 512, 0, 50.0, "https://a")
    assert replace(row, cards=8).chip_s() == pytest.approx(row.chip_s() / 2)
    assert replace(row, sequences=9.0, output_tokens=64).chip_s() > replace(row, sequences=9.0).chip_s()


QUICK = ["--requests", "8", "--max-batch-size", "8", "--max-tokens", "2048", "--policy", "decode-first", "--quiet"]


def test_a_plan_of_experts_on_several_cards_says_its_error(capsys: pytest.CaptureFixture[str]) -> None:
    tpot = {}
    for cards in ("8", "16"):
        main([*QUICK, "--model", "deepseek-v3", "--weight-bytes", "1", "--tp", cards, "--memory-gb", "120", "--json"])
        plan = json.loads(capsys.readouterr().out)
        tpot[cards] = plan["recommended"]["tpot_s"]
        assert plan["tpot_error"] == constants()[1]
        assert any("off on average on published rows" in note for note in plan["notes"])
    assert tpot["16"] < tpot["8"]
    with pytest.raises(BadInput, match="not plain products"):
        main([*QUICK, "--model", "deepseek-v3", "--cost", "kernels"])


def test_a_configuration_of_experts_is_refused_by_name(tmp_path: Path) -> None:
    config = {"num_attention_heads": 8, "num_experts": 64, "_name_or_path": "m"}
    (tmp_path / "config.json").write_text(json.dumps(config))
    with pytest.raises(BadInput, match=r"experts or latent attention \(num_experts\)"):
        main([*QUICK, "--model", str(tmp_path)])
