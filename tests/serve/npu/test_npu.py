"""The model's steps as operators of the software NPU: right tokens, predicted time of each operator, refusals."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("torch")
import torch

from tests.serve.http.running_server import running_server
from tests.serve.tiny_llama import CONFIG, random_weights, reference_logits, save_model
from toprope.errors import BadChip, BadInput
from toprope.serve.batching.batch import BatchEntry, BlockCopy
from toprope.serve.batching.request import Request
from toprope.serve.batching.scheduler import SchedulerLimits
from toprope.serve.engine.engine import Engine
from toprope.serve.engine.engine_config import EngineConfig
from toprope.serve.http.server import main
from toprope.serve.kernels.attention import AttentionPlan
from toprope.serve.kernels.interface import Kernels
from toprope.serve.kernels.torch_kernels import TorchKernels
from toprope.serve.model.llama import Llama
from toprope.serve.npu.chip_launches import Launches
from toprope.serve.npu.layered_memory import LayeredMemory
from toprope.serve.npu.npu_kernels import NpuKernels, check_heads, rows_of
from toprope.serve.npu.timed_kernels import Prices, TimedKernels

pytestmark = [pytest.mark.torch, pytest.mark.compiler]

CHIP = "ascend910b2"
SHAPE = replace(CONFIG, head=64)
PROMPTS = [list(range(3, 8)), list(range(3, 43))]  # the second is cut into chunks
ANSWER = 3


def engine(kernels: Kernels, weights: dict[str, torch.Tensor]) -> Engine:
    limits = SchedulerLimits(max_batch_size=4, max_tokens=32, max_model_len=256)
    return Engine.around(Llama(SHAPE, weights, kernels, max_tokens=32), EngineConfig(kv_bytes=1 << 20, limits=limits))


def clear_answers(weights: dict[str, torch.Tensor]) -> list[list[int]]:
    """The greedy answers, after a look that no choice among them is closer than float16 can tell."""
    answers = []
    for prompt in PROMPTS:
        tokens = list(prompt)
        for _ in range(ANSWER):
            best = reference_logits(SHAPE, weights, tokens)[-1].topk(2)
            assert best.values[0] - best.values[1] > 0.01, "choose other weights: this test needs distinct logits"
            tokens.append(int(best.indices[0]))
        answers.append(tokens[len(prompt) :])
    return answers


@pytest.mark.parametrize("full", [False, True], ids=["llama", "with biases and head norms"])
def test_tokens_of_operators_equal_the_cpus_and_each_has_its_time(full: bool) -> None:
    weights = random_weights(SHAPE, bias=full, head_norms=full, seed=2 if full else 0)
    npu = NpuKernels(CHIP)
    assert engine(npu, weights).generate(PROMPTS, ANSWER) == clear_answers(weights)
    expected = {"gather", "matmul", "head", "rms_norm", "add", "swiglu", "rope", "cache_write", "paged_attention"}
    assert set(npu.chip.seconds) == expected | ({"add_bias"} if full else set())
    assert npu.chip.now_s == pytest.approx(sum(npu.chip.seconds.values()))
    assert npu.chip.checked > len(expected) and not npu.chip.codes
    steps = npu.chip.launches["gather"]
    assert npu.chip.launches["rms_norm"] == steps * (2 * SHAPE.layers + 1 + (2 * SHAPE.layers if full else 0))
    assert npu.chip.launches["matmul"] == steps * 4 * SHAPE.layers and npu.chip.launches["head"] == steps

    timed = TimedKernels(TorchKernels(torch.float32), CHIP)
    assert engine(timed, weights).generate(PROMPTS, ANSWER) == clear_answers(weights)
    assert timed.chip.launches == npu.chip.launches, "the same steps are the same launches, executed or not"
    assert timed.chip.now_s == pytest.approx(npu.chip.now_s, rel=0.1), "shapes are rounded to a few, no more"


def test_a_report_has_the_time_of_its_step() -> None:
    made = engine(TimedKernels(TorchKernels(torch.float32), CHIP), random_weights(SHAPE))
    made.add(Request("one", PROMPTS[0], 2))
    first, second = made.step(), made.step()
    assert first.chip_s > 0 and first.chip_s == pytest.approx(sum(first.operators_s.values()))
    assert [d.chip_s for d in (*first.deltas, *second.deltas)] == pytest.approx(
        [first.chip_s, first.chip_s + second.chip_s]
    )


def test_a_warm_engine_has_launched_everything_and_counts_from_nothing() -> None:
    made = engine(TimedKernels(TorchKernels(torch.float32), CHIP), random_weights(SHAPE))
    made.warm_up()
    chip = made.model.kernels.chip
    assert chip is not None and chip.now_s == 0 and not chip.launches and not chip.seconds
    cold = engine(TimedKernels(TorchKernels(torch.float32), CHIP), random_weights(SHAPE))
    assert made.generate(PROMPTS, ANSWER) == cold.generate(PROMPTS, ANSWER), (
        "what it wrote into the cache is overwritten"
    )


def test_prices_lie_between_those_of_powers_of_two() -> None:
    prices = Prices(Launches(CHIP))
    low, middle, high = (prices.rows(rows, "swiglu", 1024) for rows in (64, 96, 128))
    assert low < middle < high and middle == pytest.approx((low + high) / 2)
    assert prices.rows(0, "swiglu", 1024) == 0
    short, long = (prices.attention(4, context, 8, 2, 64, 16) for context in (64, 1024))
    assert short < prices.attention(4, 500, 8, 2, 64, 16) < long


def test_a_vocabulary_wider_than_one_product_is_cut() -> None:
    kernels = NpuKernels(CHIP)
    generator = torch.Generator().manual_seed(0)
    weight = torch.randn((65_408 + 32, 16), generator=generator).half()
    x, out = torch.randn((2, 16), generator=generator).half(), torch.empty((2, 65_440))
    kernels.logits(x, kernels.pack(weight), out)
    assert torch.allclose(out, x.float() @ weight.float().T, atol=1e-3) and kernels.chip.launches["head"] == 2


def test_each_token_becomes_a_row_of_a_decoding_step() -> None:
    def entry(name: str, start: int, count: int, blocks: list[int]) -> BatchEntry:
        return BatchEntry(Request(name, [1], 1), start, [1] * count, np.array(blocks, np.int32), True)

    lengths, table = rows_of(AttentionPlan.of([entry("a", 15, 2, [7, 3]), entry("b", 0, 1, [5])], 16), 16)
    assert lengths.tolist() == [16, 17, 1]
    assert table.tolist() == [[7, 0], [7, 3], [5, 0]]


def test_blocks_of_the_layered_memory_move_with_all_layers() -> None:
    memory = LayeredMemory(blocks=4, block_tokens=16, layers=2, kv_heads=1, head=64, dtype=torch.float16, host_blocks=2)
    memory.keys(1)[3] = 5.0
    memory.values(0)[3] = 6.0
    memory.move([BlockCopy(3, 1)], [BlockCopy(3, 0)], [BlockCopy(1, 2)])
    for block in (0, 2, 3):
        assert (memory.keys(1)[block] == 5).all() and (memory.values(0)[block] == 6).all()
        assert not memory.keys(0)[block].any()


def test_what_the_operators_cannot_serve_is_refused() -> None:
    with pytest.raises(BadChip, match="do not run on ascend310p3"):
        NpuKernels("ascend310p3")
    check_heads(32, 8, 128)
    for heads in ((4, 2, 16), (32, 1, 64)):
        with pytest.raises(BadInput, match="paged_attention"):
            check_heads(*heads)
    for wrong in ({"estimate": True}, {"device": "npu"}, {"dtype": "float16"}, {"device": "gpu"}):
        with pytest.raises(ValueError):
            EngineConfig(**wrong)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "options",
    [
        ["--estimate"],
        ["--device", "npu", "--dtype", "float32"],
        ["--device", "npu", "--chip", "ascend910z"],
        ["--device", "npu", "--chip", "ascend310p3"],
    ],
    ids=" ".join,
)
def test_wrong_options_are_one_line(options: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = save_model(tmp_path / "model")
    assert main([str(folder), *options]) == 2
    said = capsys.readouterr().err
    assert said.startswith("toprope serve: ") and "Traceback" not in said


def test_answers_and_metrics_show_the_chips_time(tmp_path: Path) -> None:
    pytest.importorskip("uvicorn")
    folder = save_model(tmp_path / "model", replace(SHAPE, vocab=320))
    with running_server(folder, engine={"device": "npu", "estimate": True}) as server:
        answer = server.complete(max_tokens=4, n=2, temperature=0).json()
        found = answer["usage"]["chip_time"]
        assert len(found["time_to_first_token_ms"]) == 2 and all(t > 0 for t in found["time_per_output_token_ms"])
        text = server.get("/metrics").text
        assert 'toprope_chip_operator_seconds_total{operator="paged_attention"}' in text
        assert "toprope_chip_time_to_first_token_seconds_count 2.0" in text
        assert server.get("/stats").json()["chip"]["name"] == CHIP
        report = server.server.chip_report
        assert re.match(rf"{CHIP}: [4-8] steps", report) and "sampling (CPU)" in report and "matmul" in report
