"""The whole engine: right tokens, whatever the batch, the cache and the clients do."""

from __future__ import annotations

import gc
import random
from dataclasses import replace
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")

from tests.serve.tiny_llama import CONFIG, END, random_weights, reference_greedy, save_model  # noqa: E402
from toprope.serve.batching.batch import PreemptionMode  # noqa: E402
from toprope.serve.batching.request import FinishReason, Request, SamplingParams  # noqa: E402
from toprope.serve.batching.scheduler import SchedulerLimits  # noqa: E402
from toprope.serve.engine.engine import Engine, UnsupportedRequest  # noqa: E402
from toprope.serve.engine.engine_config import EngineConfig  # noqa: E402
from toprope.serve.errors import NeverFits, UnknownRequest  # noqa: E402
from toprope.serve.kernels.choose_kernels import load_kernels  # noqa: E402
from toprope.serve.kernels.kv_memory import KvMemory  # noqa: E402
from toprope.serve.model.llama import Llama  # noqa: E402

pytestmark = pytest.mark.torch
GREEDY = SamplingParams(temperature=0)
BLOCK_BYTES = KvMemory.block_bytes(
    block_tokens=16, layers=CONFIG.layers, kv_heads=CONFIG.kv_heads, head=CONFIG.head, dtype=torch.float32
)


@pytest.fixture(scope="module")
def weights() -> dict[str, torch.Tensor]:
    return random_weights(CONFIG)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return save_model(tmp_path_factory.mktemp("model"))


def engine(weights: dict[str, torch.Tensor], *, blocks: int = 64, host_blocks: int = 0, batch: int = 16, tokens: int = 64,
           preemption: PreemptionMode = PreemptionMode.RECOMPUTE, prefix_caching: bool = True, kernels: str = "auto") -> Engine:  # fmt: skip
    model = Llama(CONFIG, weights, load_kernels(torch.float32, kernels), max_tokens=tokens)
    limits = SchedulerLimits(
        max_batch_size=batch, max_tokens=tokens, max_model_len=CONFIG.context_tokens, preemption=preemption
    )
    config = EngineConfig(
        kv_bytes=blocks * BLOCK_BYTES,
        host_kv_bytes=host_blocks * BLOCK_BYTES,
        limits=limits,
        prefix_caching=prefix_caching,
    )
    return Engine.around(model, config)


def prompts(count: int, seed: int = 0, longest: int = 60) -> list[list[int]]:
    chance = random.Random(seed)
    return [[chance.randrange(CONFIG.vocab) for _ in range(chance.randint(1, longest))] for _ in range(count)]


@pytest.mark.parametrize("kernels", ["compiled", "torch"])
def test_greedy_equals_the_reference(weights: dict[str, torch.Tensor], kernels: str) -> None:
    asked = prompts(6)
    answers = engine(weights, kernels=kernels).generate(asked, 12)
    assert answers == [reference_greedy(CONFIG, weights, prompt, 12) for prompt in asked]


def test_a_seeded_answer_is_the_same_alone_and_in_any_crowd(weights: dict[str, torch.Tensor]) -> None:
    asked = prompts(12, seed=1)
    params = SamplingParams(temperature=1.2, top_p=0.95, seed=7, frequency_penalty=0.3)
    alone = [engine(weights).generate([prompt], 20, params)[0] for prompt in asked]
    crowded = engine(weights, batch=12, tokens=24).generate(asked, 20, params)
    reversed_order = engine(weights, batch=5, tokens=33).generate(asked[::-1], 20, params)
    assert crowded == alone
    assert reversed_order[::-1] == alone
    assert len({tuple(answer) for answer in alone}) == 12


@pytest.mark.parametrize("mode", list(PreemptionMode))
def test_preempted_requests_give_the_same_tokens(weights: dict[str, torch.Tensor], mode: PreemptionMode) -> None:
    asked = prompts(10, seed=2, longest=40)
    params = SamplingParams(seed=3)
    expected = engine(weights).generate(asked, 40, params)
    small = engine(weights, blocks=14, host_blocks=20, preemption=mode, tokens=32, batch=10)
    assert small.generate(asked, 40, params) == expected
    assert small.scheduler.stats().preemptions > 0
    small.scheduler.check()
    assert small.scheduler.stats().kv_use == 0


def test_a_shared_prefix_is_computed_once_and_changes_nothing(weights: dict[str, torch.Tensor]) -> None:
    prefix = prompts(1, seed=4, longest=1)[0] * 48
    asked = [prefix, [*prefix, 5], [*prefix, 6, 7], prefix]
    cached = engine(weights, batch=1)
    without = engine(weights, prefix_caching=False).generate(asked, 10)
    assert cached.generate(asked, 10) == without
    assert cached.scheduler.stats().prefix_hit_tokens >= 3 * 47


def test_text_stop_strings_and_logprobs(folder: Path) -> None:
    made = Engine.open(folder, EngineConfig(kv_bytes=1 << 20, limits=SchedulerLimits(max_batch_size=4, max_tokens=64)))
    assert made.tokenizer is not None

    def run(
        name: str, sampling: SamplingParams, max_tokens: int = 30
    ) -> tuple[str, list[int], FinishReason | None, list]:  # type: ignore[type-arg]
        made.add(Request(name, made.tokenizer.encode("Hello"), max_tokens, sampling))
        deltas = []
        while made.has_work:
            deltas += made.step().deltas
        return "".join(d.text for d in deltas), [d.sampled.token for d in deltas], deltas[-1].finish_reason, deltas

    text, tokens, reason, _ = run("a", GREEDY)
    assert reason is FinishReason.LENGTH
    assert text == made.tokenizer.decode(tokens)
    stop = text[4:6]
    text_b, _, reason, _ = run("b", replace(GREEDY, stop=(stop,)))
    assert reason is FinishReason.STOP
    assert text_b == text[: text.find(stop)]
    assert made.scheduler.stats().kv_use == 0
    _, tokens_c, reason, _ = run("c", replace(GREEDY, stop_token_ids=frozenset({tokens[5]})))
    assert (reason, tokens_c) == (FinishReason.STOP, tokens[: tokens.index(tokens[5]) + 1])
    *_, deltas = run("d", replace(GREEDY, logprobs=3), 4)
    assert [d.sampled.top[0].token for d in deltas] == tokens[:4]
    assert all(d.sampled.logprob == d.sampled.top[0].logprob < 0 for d in deltas)


def test_what_cannot_be_served_is_refused_at_once(weights: dict[str, torch.Tensor]) -> None:
    made = engine(weights, blocks=4)
    with pytest.raises(UnsupportedRequest, match="token 320"):
        made.add(Request("a", [1, 320], 5))
    with pytest.raises(UnsupportedRequest, match="tokenizer"):
        made.add(Request("b", [1], 5, SamplingParams(stop=("x",))))
    with pytest.raises(NeverFits):
        made.add(Request("c", [1] * 60, 30))
    assert not made.has_work
    with pytest.raises(ValueError, match="one KV block"):
        Engine.around(made.model, EngineConfig(kv_bytes=10, limits=SchedulerLimits(max_batch_size=4, max_tokens=64)))
    with pytest.raises(ValueError, match="do not fit a model made for 64"):
        Engine.around(made.model, EngineConfig(limits=SchedulerLimits(max_tokens=65, max_batch_size=4)))


def test_abort_frees_everything(weights: dict[str, torch.Tensor]) -> None:
    made = engine(weights)
    for i, prompt in enumerate(prompts(5)):
        made.add(Request(f"r{i}", prompt, 50, GREEDY))
    for _ in range(4):
        made.step()
    for i in range(5):
        made.abort(f"r{i}")
    assert not made.has_work
    assert made.scheduler.stats().kv_use == 0
    with pytest.raises(UnknownRequest):
        made.abort("r0")


def test_batch_invariance_can_be_insisted_on(folder: Path) -> None:
    limits = SchedulerLimits(max_batch_size=4, max_tokens=64)
    with pytest.raises(ValueError, match="not batch-invariant"):
        Engine.open(folder, EngineConfig(kernels="torch", batch_invariant=True, kv_bytes=1 << 20, limits=limits))
    opened = Engine.open(folder, EngineConfig(batch_invariant=True, kv_bytes=1 << 20, limits=limits))
    assert opened.model.kernels.batch_invariant
    assert opened.model.config.end_tokens == {END}


def soak(made: Engine, requests: int, seed: int) -> None:
    """Short requests with random cancellations; every block must be back at the end."""
    chance = random.Random(seed)
    added = 0
    while added < requests or made.has_work:
        while added < requests and len(made.scheduler.live_requests) < 40:
            prompt = [chance.randrange(8) for _ in range(chance.randint(1, 40))]
            sampling = SamplingParams(seed=added, stop_token_ids=frozenset({3}))
            made.add(Request(f"r{added}", prompt, chance.randint(1, 12), sampling, priority=chance.randrange(2)))
            added += 1
        made.step()
        live = made.scheduler.live_requests
        if live and chance.random() < 0.3:
            made.abort(chance.choice(live).id)
    made.scheduler.check()
    pool = made.scheduler.cache.device
    assert all(pool.is_free(block) for block in range(pool.block_count))


@pytest.mark.parametrize("mode", list(PreemptionMode))
def test_soak(weights: dict[str, torch.Tensor], mode: PreemptionMode) -> None:
    soak(engine(weights, blocks=24, host_blocks=16, preemption=mode), 300, seed=1)


@pytest.mark.slow
def test_soak_of_ten_thousand_requests_leaks_no_block_and_no_memory(weights: dict[str, torch.Tensor]) -> None:
    made = engine(weights, blocks=24)
    soak(made, 1000, seed=2)
    gc.collect()
    before = len(gc.get_objects())
    soak(made, 10_000, seed=3)
    gc.collect()
    assert len(gc.get_objects()) - before < 2000
    assert not made._texts
