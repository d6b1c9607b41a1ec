"""The model against an independent computation of the same weights."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from tests.serve.kernels.test_attention import entry  # noqa: E402
from tests.serve.tiny_llama import CONFIG, random_weights, reference_greedy, reference_logits  # noqa: E402
from toprope.serve.kernels.attention import AttentionPlan  # noqa: E402
from toprope.serve.kernels.choose_kernels import load_kernels  # noqa: E402
from toprope.serve.model.bad_weights import BadWeights  # noqa: E402
from toprope.serve.model.llama import Llama  # noqa: E402
from toprope.serve.model.llama_config import LlamaConfig, RopeScaling  # noqa: E402

pytestmark = pytest.mark.torch
PROMPT = [5, 17, 250, 3, 3, 99, 180, 42, 7, 311, 0, 128, 64, 32, 16, 8, 4, 2, 1]


def step(start: int, tokens: list[int], table: list[int]):  # type: ignore[no-untyped-def]
    return entry(start, 0, table)._replace(tokens=tokens)


@pytest.mark.parametrize("kernels", ["compiled", "torch"])
@pytest.mark.parametrize("kind", ["llama", "tied", "bias", "head_norms", "grouped"])
def test_logits_equal_the_reference(kind: str, kernels: str) -> None:
    config = replace(CONFIG, tied_embeddings=kind == "tied", kv_heads=1 if kind == "grouped" else CONFIG.kv_heads)
    weights = random_weights(config, bias=kind == "bias", head_norms=kind == "head_norms")
    model = Llama(config, weights, load_kernels(torch.float32, kernels), max_tokens=64)
    plan = AttentionPlan.of([step(0, PROMPT, [3, 1])], 16)
    logits = model.forward(plan, model.memory(blocks=4, block_tokens=16))
    expected = reference_logits(config, weights, PROMPT)[-1]
    torch.testing.assert_close(logits[0].double(), expected, rtol=1e-4, atol=1e-4)


def test_chunks_and_batch_mates_leave_every_bit_alone() -> None:
    weights = random_weights(CONFIG)
    model = Llama(CONFIG, weights, load_kernels(torch.float32), max_tokens=64)
    alone = model.memory(blocks=8, block_tokens=16)
    whole = model.forward(AttentionPlan.of([step(0, PROMPT, [0, 1])], 16), alone)[0]
    mixed = model.memory(blocks=8, block_tokens=16)
    mate = step(0, [9] * 23, [6, 7])
    model.forward(AttentionPlan.of([mate, step(0, PROMPT[:7], [5, 2])], 16), mixed)
    rest = AttentionPlan.of([step(7, PROMPT[7:], [5, 2]), mate], 16)
    assert torch.equal(model.forward(rest, mixed)[0], whole)


def test_bfloat16_stays_near_float32() -> None:
    weights = random_weights(CONFIG)
    plan = AttentionPlan.of([step(0, PROMPT, [0, 1])], 16)
    logits = []
    for dtype in (torch.float32, torch.bfloat16):
        model = Llama(CONFIG, weights, load_kernels(dtype), max_tokens=64)
        logits.append(model.forward(plan, model.memory(blocks=2, block_tokens=16))[0])
    difference = (logits[0] - logits[1]).abs().max() / logits[0].std()
    assert difference < 0.15


def test_a_step_may_sample_nothing() -> None:
    model = Llama(CONFIG, random_weights(CONFIG), load_kernels(torch.float32), max_tokens=64)
    plan = AttentionPlan.of([step(0, PROMPT, [0, 1])._replace(samples=False)], 16)
    assert model.forward(plan, model.memory(blocks=2, block_tokens=16)).shape == (0, CONFIG.vocab)


def test_decoding_through_blocks_equals_the_reference() -> None:
    weights = random_weights(CONFIG, seed=3)
    model = Llama(CONFIG, weights, load_kernels(torch.float32), max_tokens=64)
    memory, tokens, start, made = model.memory(blocks=4, block_tokens=16), list(PROMPT), 0, []
    for _ in range(20):
        plan = AttentionPlan.of([step(start, tokens, [2, 0, 3])], 16)
        start += len(tokens)
        tokens = [int(model.forward(plan, memory)[0].argmax())]
        made += tokens
    assert made == reference_greedy(CONFIG, weights, PROMPT, 20)


def test_refuses_weights_that_do_not_fit() -> None:
    weights = random_weights(CONFIG)
    kernels = load_kernels(torch.float32)
    del weights["model.layers.1.mlp.up_proj.weight"]
    with pytest.raises(BadWeights, match=r"layers\.1\.mlp\.up_proj.*complete"):
        Llama(CONFIG, weights, kernels)
    weights = random_weights(replace(CONFIG, ffn=112))
    with pytest.raises(BadWeights, match=r"shape \(112, 64\), the configuration says \(96, 64\)"):
        Llama(CONFIG, weights, kernels)


def test_refuses_too_long_a_step() -> None:
    model = Llama(CONFIG, random_weights(CONFIG), load_kernels(torch.float32), max_tokens=4)
    with pytest.raises(ValueError, match="max_tokens=4"):
        model.forward(AttentionPlan.of([step(0, PROMPT, [0, 1])], 16), model.memory(blocks=2, block_tokens=16))


HF = {
    "model_type": "llama", "vocab_size": 320, "hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 2,
    "num_attention_heads": 4, "max_position_embeddings": 512,
}  # fmt: skip


def test_configuration_from_hugging_face() -> None:
    config = LlamaConfig.from_hf({**HF, "eos_token_id": [1, 2]})
    assert (config.head, config.kv_heads, config.end_tokens) == (16, 4, {1, 2})
    scaled = {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
              "original_max_position_embeddings": 256, "rope_theta": 5e5}  # fmt: skip
    config = LlamaConfig.from_hf({**HF, "rope_parameters": scaled})
    assert config.rope_base == 5e5
    assert config.rope_scaling == RopeScaling("llama3", 8.0, 1.0, 4.0, 256)
    assert LlamaConfig.from_hf({**HF, "sliding_window": 64}).context_tokens == 64
    assert LlamaConfig.from_hf({**HF, "sliding_window": 64, "use_sliding_window": False}).context_tokens == 512
    for change, words in (
        ({"model_type": "gpt2"}, "gpt2"),
        ({"rope_scaling": {"rope_type": "yarn", "factor": 2}}, "yarn"),
        ({"num_key_value_heads": 3}, "4 heads cannot share 3"),
        ({"intermediate_size": 97}, "multiple of 16"),
        ({"num_hidden_layers": 0}, "layers is 0"),
    ):
        with pytest.raises(BadWeights, match=words):
            LlamaConfig.from_hf({**HF, **change})
    with pytest.raises(BadWeights, match="vocab_size"):
        LlamaConfig.from_hf({k: v for k, v in HF.items() if k != "vocab_size"})


@pytest.mark.slow  # importing transformers takes seconds
def test_stretched_rotations_equal_hugging_face() -> None:
    rope_utils = pytest.importorskip("transformers.modeling_rope_utils")
    from transformers import LlamaConfig as TheirConfig

    scaling = {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
               "original_max_position_embeddings": 256, "rope_theta": 5e5}  # fmt: skip
    raw = {**HF, "head_dim": 16, "max_position_embeddings": 2048, "rope_parameters": scaling}
    theirs = TheirConfig(**raw)
    frequencies, _ = rope_utils.ROPE_INIT_FUNCTIONS["llama3"](theirs, "cpu")
    angles = np.arange(2048)[:, None] * frequencies.numpy().astype(np.float64)
    cosines, _ = LlamaConfig.from_hf(raw).rotations(2048)
    np.testing.assert_allclose(cosines.numpy(), np.cos(angles), atol=2e-4)
