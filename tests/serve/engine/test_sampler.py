"""Choosing tokens: exact where it must be, the right frequencies where it is random."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from toprope.serve.batching.request import Request, SamplingParams
from toprope.serve.engine import sampler as sampler_module
from toprope.serve.engine.sampler import Sampler

GREEDY = SamplingParams(temperature=0)
LOGITS = np.array([0.0, 3.0, 1.0, 2.9, -1.0], dtype=np.float32)


def request(
    params: SamplingParams, *, prompt: list[int] | None = None, output: list[int] | None = None, name: str = "r"
) -> Request:
    made = Request(name, prompt or [0], 100, params)
    made.tokens += output or []
    return made


def one(params: SamplingParams, **more) -> int:  # type: ignore[no-untyped-def]
    return Sampler().sample(LOGITS[None].copy(), [request(params, **more)])[0].token


def frequencies(params: SamplingParams, logits: np.ndarray = LOGITS, draws: int = 4000) -> np.ndarray:
    """Shares of each token over many seeds."""
    rows = np.repeat(logits[None], draws, axis=0)
    requests = [request(replace(params, seed=seed)) for seed in range(draws)]
    tokens = [s.token for s in Sampler().sample(rows, requests)]
    return np.bincount(tokens, minlength=len(logits)) / draws


def softmax(x: np.ndarray) -> np.ndarray:
    e = np.exp(x - x.max())
    return e / e.sum()


def test_greedy_takes_the_first_of_the_largest() -> None:
    assert one(GREEDY) == 1
    rows = np.array([[1.0, 5.0, 5.0], [7.0, 5.0, 7.0]], dtype=np.float32)
    assert [s.token for s in Sampler().sample(rows, [request(GREEDY)] * 2)] == [1, 0]


def test_no_requests() -> None:
    assert Sampler().sample(np.empty((0, 5), dtype=np.float32), []) == []


@pytest.mark.parametrize(
    ("params", "allowed"),
    [
        (SamplingParams(), [0, 1, 2, 3, 4]),
        (SamplingParams(temperature=0.5), [0, 1, 2, 3, 4]),
        (SamplingParams(top_k=2), [1, 3]),
        (SamplingParams(top_k=1), [1]),
        (SamplingParams(top_k=50), [0, 1, 2, 3, 4]),
        (SamplingParams(top_p=0.6), [1, 3]),
        (SamplingParams(top_p=0.01), [1]),
        (SamplingParams(min_p=0.5), [1, 3]),
        (SamplingParams(min_p=0.1), [1, 2, 3]),
        (SamplingParams(top_k=3, top_p=0.9), [1, 3]),  # of the three kept, the first two hold 0.93
    ],
)
def test_frequencies_follow_the_cut_distribution(params: SamplingParams, allowed: list[int]) -> None:
    expected = np.zeros(5)
    expected[allowed] = softmax(LOGITS[allowed].astype(float) / params.temperature)
    np.testing.assert_allclose(frequencies(params), expected, atol=0.03)


def test_top_p_over_a_vocabulary_larger_than_the_sorted_head() -> None:
    logits = np.zeros(5000, dtype=np.float32)  # all equal: the first 60 % by index are kept
    tokens = np.flatnonzero(frequencies(SamplingParams(top_p=0.6), logits, draws=2000))
    assert tokens.max() < 3001
    assert tokens.max() > 2900


def test_a_seed_fixes_the_answer_whoever_else_is_in_the_batch() -> None:
    params = SamplingParams(seed=42)
    mine = request(params, output=[1, 2])
    logits = np.random.default_rng(0).normal(size=(4, 300)).astype(np.float32)
    alone = Sampler().sample(logits[2:3].copy(), [mine])[0]
    others = [request(SamplingParams(seed=s), name=f"o{s}") for s in range(3)]
    crowd = Sampler(b"salt").sample(logits.copy(), [others[0], others[1], mine, others[2]])[2]
    assert crowd == alone
    flat = np.zeros(1000, dtype=np.float32)
    series = {Sampler().sample(flat[None].copy(), [request(params, output=[0] * n)])[0].token for n in range(20)}
    assert len(series) > 15, "each token of an answer draws anew"


def test_without_a_seed_the_id_and_the_salt_decide() -> None:
    flat = np.zeros((1, 10_000), dtype=np.float32)

    def draw(salt: bytes, name: str) -> int:
        return Sampler(salt).sample(flat.copy(), [request(SamplingParams(), name=name)])[0].token

    assert draw(b"a", "r") == draw(b"a", "r")
    assert len({draw(b"a", "r"), draw(b"b", "r"), draw(b"a", "s")}) == 3


def test_penalties() -> None:
    assert one(replace(GREEDY, presence_penalty=0.2), output=[1]) == 3
    assert one(replace(GREEDY, presence_penalty=0.2), prompt=[1]) == 1, "presence looks at the answer only"
    assert one(replace(GREEDY, frequency_penalty=0.06), output=[1]) == 1
    assert one(replace(GREEDY, frequency_penalty=0.06), output=[1, 1]) == 3
    assert one(replace(GREEDY, repetition_penalty=1.1), prompt=[1]) == 3, "repetition looks at the prompt too"
    # An answer of other tokens: the prompt's own still do not count for presence and frequency.
    assert one(replace(GREEDY, presence_penalty=0.2), prompt=[1], output=[0]) == 1
    assert one(replace(GREEDY, frequency_penalty=0.06), prompt=[1], output=[1]) == 1, "once in the answer, not twice"
    assert one(replace(GREEDY, frequency_penalty=0.06), prompt=[1, 1, 1], output=[0]) == 1
    negative = np.array([[-1.0, -1.05]], dtype=np.float32)
    assert Sampler().sample(negative, [request(replace(GREEDY, repetition_penalty=1.1), prompt=[0])])[0].token == 1


def test_logprobs_are_those_of_the_model_before_temperature_and_penalties() -> None:
    params = SamplingParams(temperature=0, presence_penalty=2, logprobs=2)
    (sampled,) = Sampler().sample(LOGITS[None].copy(), [request(params, output=[1])])
    expected = np.log(softmax(LOGITS.astype(float)))
    assert sampled.token == 3
    assert sampled.logprob == pytest.approx(expected[3], abs=1e-6)
    assert [t.token for t in sampled.top] == [1, 3]
    assert [t.logprob for t in sampled.top] == pytest.approx(expected[[1, 3]], abs=1e-6)
    (bare,) = Sampler().sample(LOGITS[None].copy(), [request(replace(params, logprobs=0))])
    assert bare.top == ()
    assert bare.logprob is not None


CUTS = [
    SamplingParams(),
    SamplingParams(temperature=0.3),
    SamplingParams(top_k=1),
    SamplingParams(top_k=40),
    SamplingParams(top_p=0.9),
    SamplingParams(top_p=0.05),
    SamplingParams(min_p=0.05),
    SamplingParams(temperature=0.7, top_k=900, top_p=0.95, min_p=0.001),
]


@pytest.mark.compiler
@pytest.mark.parametrize("vocabulary", [1, 15, 511, 5000, 60_000])
@pytest.mark.parametrize("params", CUTS, ids=str)
def test_compiled_rows_draw_what_numpy_draws(params: SamplingParams, vocabulary: int) -> None:
    if sampler_module._compiled() is None:
        pytest.skip("no C++ compiler")
    rng = np.random.default_rng(vocabulary)
    logits = np.round(rng.normal(0, 3, (64, vocabulary)) * 8).astype(np.float32) / 8  # with ties
    logits[::3, : vocabulary // 2] = -np.inf  # a masked half
    requests = [request(replace(params, seed=seed), output=[0] * (seed % 5)) for seed in range(64)]
    sampler = Sampler()
    expected = [sampler._sample_row(row.copy(), r).token for row, r in zip(logits, requests, strict=True)]
    assert [s.token for s in sampler.sample(logits.copy(), requests)] == expected
