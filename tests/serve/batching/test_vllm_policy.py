"""Our policies inside vLLM's CPU build: same greedy tokens, and the steps the policy asked for."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

vllm = pytest.importorskip("vllm")
pytestmark = [pytest.mark.slow, pytest.mark.torch]

os.environ.setdefault("VLLM_CPU_KVCACHE_SPACE", "1")
os.environ.setdefault("VLLM_ENABLE_V1_MULTIPROCESSING", "0")
os.environ.setdefault("HF_HUB_OFFLINE", "1")

PROMPTS = [list(range(5, 5 + length)) for length in (3, 40, 17, 90, 8, 61, 33, 5)]


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A random Llama of two layers."""
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM

    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=512,
        hidden_size=256,
        intermediate_size=512,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=512,
    )
    path = tmp_path_factory.mktemp("llama")
    LlamaForCausalLM(config).save_pretrained(path)
    return path


@pytest.fixture
def engine(model: Path) -> Iterator[Any]:
    made: list[Any] = []

    def make(options: dict[str, object] | None) -> Any:
        extra: dict[str, Any] = {}
        if options is not None:
            extra = {
                "scheduler_cls": "toprope.serve.batching.vllm_policy.PolicyScheduler",
                "additional_config": {"toprope": options},
            }
        made.append(
            vllm.LLM(
                str(model),
                skip_tokenizer_init=True,
                dtype="float32",
                enforce_eager=True,
                max_model_len=256,
                max_num_seqs=4,
                max_num_batched_tokens=64,
                async_scheduling=False,
                enable_prefix_caching=False,
                **extra,
            )
        )
        return made[-1]

    yield make
    for llm in made:
        llm.llm_engine.engine_core.shutdown()


def generate(llm: Any) -> tuple[list[list[int]], list[tuple[bool, bool]]]:
    """Greedy outputs, and for each step whether it had prompt chunks and whether it had decodes."""
    scheduler = llm.llm_engine.engine_core.engine_core.scheduler
    steps: list[tuple[bool, bool]] = []
    inner = scheduler.schedule

    def spy(*args: Any, **kwargs: Any) -> Any:
        before = {r.request_id: r.num_computed_tokens for r in scheduler.running}
        prompts = {r.request_id: r.num_prompt_tokens for r in scheduler.requests.values()}
        output = inner(*args, **kwargs)
        kinds = [before.get(name, 0) >= prompts[name] for name in output.num_scheduled_tokens]
        steps.append((not all(kinds), any(kinds)))
        assert len(scheduler.running) <= 4
        return output

    scheduler.schedule = spy
    sampling = vllm.SamplingParams(temperature=0, max_tokens=12, ignore_eos=True, detokenize=False)
    outputs = llm.generate([{"prompt_token_ids": prompt} for prompt in PROMPTS], sampling, use_tqdm=False)
    return [list(output.outputs[0].token_ids) for output in outputs], steps


def test_policies_change_the_steps_and_not_the_tokens(engine: Any) -> None:
    expected, mixed = generate(engine(None))
    assert any(prefill and decode for prefill, decode in mixed), "vLLM mixes by itself"
    for name in ("decode-first", "prefill-first", "throughput", "least-laxity", "adaptive"):
        tokens, steps = generate(engine({"policy": name, "tpot_s": 0.05}))
        assert tokens == expected, name
        together = [prefill and decode for prefill, decode in steps]
        assert any(together) == (name in ("decode-first", "adaptive")), name


def test_a_small_target_shrinks_the_batch(engine: Any) -> None:
    llm = engine({"policy": "adaptive", "tpot_s": 1e-6})
    generate(llm)
    assert llm.llm_engine.engine_core.engine_core.scheduler._policy.batch_size == 3  # the lowest it goes


def test_the_printed_flags_are_vllm_s(model: Path) -> None:
    import shlex

    from vllm.engine.arg_utils import EngineArgs
    from vllm.utils.argparse_utils import FlexibleArgumentParser

    from toprope.serve.planning.engine_flags import Settings, vllm_flags

    flags = vllm_flags(Settings("least-laxity", 32, 2048, 16), 256, ascend=False, ttft_s=1.0, tpot_s=0.05)
    parser = EngineArgs.add_cli_args(FlexibleArgumentParser())
    args = parser.parse_args(["--model", str(model), *shlex.split(" ".join(flags))])
    assert (args.max_num_seqs, args.max_num_batched_tokens, args.block_size) == (32, 2048, 16)
    assert args.scheduler_cls == "toprope.serve.batching.vllm_policy.PolicyScheduler"
    assert json.loads(json.dumps(args.additional_config)) == {
        "toprope": {"policy": "least-laxity", "ttft_s": 1.0, "tpot_s": 0.05}
    }
