"""Sixty calls of the official OpenAI client: every resource, field and refusal that clients use, each judged by its answer."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("torch")
pytest.importorskip("uvicorn")
pytest.importorskip("llguidance")
pytest.importorskip("openai")

import openai
import torch

from tests.serve.http.running_server import running_server
from tests.serve.http.test_openai_calls import TEMPLATE, WEATHER
from tests.serve.tiny_llama import CONFIG, random_weights, reference_logits, save_model

pytestmark = pytest.mark.torch
USER = [{"role": "user", "content": "Hi"}]
SCHEMA = {"type": "object", "properties": {"n": {"type": "integer", "minimum": 1, "maximum": 9}}, "required": ["n"],
          "additionalProperties": False}  # fmt: skip
CALLED = {"id": "c1", "type": "function", "function": {"name": "weather", "arguments": '{"days": 2}'}}
Check = Callable[[Any], bool]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = save_model(tmp_path_factory.mktemp("model"))
    (made / "chat_template.jinja").write_text(TEMPLATE)
    return made


@pytest.fixture(scope="module")
def client(folder: Path) -> Iterator[Any]:
    with running_server(folder, body_bytes=20_000) as running:
        yield openai.OpenAI(base_url=f"{running.url}/v1", api_key="none", max_retries=0)


def text(answer: Any) -> str:
    return str(answer.choices[0].text)


def said(answer: Any) -> str:
    return str(answer.choices[0].message.content)


def parts(stream: Any) -> tuple[str, str | None]:
    """Text and finish reason of a stream."""
    choices = [c for chunk in stream for c in chunk.choices]
    pieces = [c.delta.content if hasattr(c, "delta") else c.text for c in choices]
    return "".join(p or "" for p in pieces), [c.finish_reason for c in choices][-1]


def complete(check: Check, **body: Any) -> Check:
    return lambda c: check(
        c.completions.create(**{"model": "tiny", "prompt": "Hello", "max_tokens": 6, "temperature": 0, **body})
    )


def chat(check: Check, **body: Any) -> Check:
    return lambda c: check(
        c.chat.completions.create(**{"model": "tiny", "messages": USER, "max_tokens": 6, "temperature": 0, **body})
    )


def embed(check: Check, **body: Any) -> Check:
    return lambda c: check(c.embeddings.create(**{"model": "tiny", "input": "Hello", **body}))


def refused(call: Check, param: str | None, kind: str = "BadRequestError") -> Check:
    def judge(c: Any) -> bool:
        try:
            call(c)
        except getattr(openai, kind) as error:
            return bool(error.param == param and error.code and error.message)
        return False

    return judge


def same(*calls: Callable[[Check], Check]) -> Check:
    """All calls answer alike."""

    def judge(c: Any) -> bool:
        found: list[Any] = []
        for call in calls:
            call(
                lambda answer: (
                    found.append(text(answer) if hasattr(answer.choices[0], "text") else said(answer)) or True
                )
            )(c)
        return len(set(found)) == 1

    return judge


def raw(path: str, body: dict[str, Any], check: Callable[[dict[str, Any]], bool]) -> Check:
    """A route beside the client's own, through its connection."""

    def judge(c: Any) -> bool:
        root = str(c.base_url).removesuffix("v1/")
        return check(c.with_options(base_url=root).post(path, body=body, cast_to=object))

    return judge


def ever(value: Any) -> bool:
    return True


CALLS: dict[str, Check] = {
    "models.list": lambda c: [m.id for m in c.models.list()] == ["tiny"],
    "models.retrieve": lambda c: c.models.retrieve("tiny").object == "model",
    "models.retrieve of another": refused(lambda c: c.models.retrieve("other"), None, "NotFoundError"),
    # completions
    "completion": complete(lambda a: a.object == "text_completion" and a.choices[0].finish_reason == "length"),
    "completion usage": complete(lambda a: (a.usage.prompt_tokens, a.usage.completion_tokens) == (5, 6)),
    "completion of tokens": complete(lambda a: a.usage.prompt_tokens == 3, prompt=[70, 71, 72]),
    "completion of several prompts": complete(lambda a: [c.index for c in a.choices] == [0, 1], prompt=["A", "B"]),
    "completion of token lists": complete(lambda a: len(a.choices) == 2, prompt=[[70], [71, 72]]),
    "completion n": complete(lambda a: len({c.text for c in a.choices}) > 1, n=3, temperature=1, seed=1),
    "completion seed": same(lambda k: complete(k, temperature=1, seed=7), lambda k: complete(k, temperature=1, seed=7)),
    "completion stop": complete(lambda a: a.choices[0].finish_reason in ("stop", "length"), stop=["zq", "\n\n"]),
    "completion top_p": complete(lambda a: len(text(a)) > 0, temperature=1, top_p=0.5, seed=3),
    "completion penalties": complete(ever, presence_penalty=1.5, frequency_penalty=-0.5),
    "completion logit_bias forces": complete(lambda a: text(a) == "!" * 6, logit_bias={"0": 100}),
    "completion logit_bias bars": complete(lambda a: "!" not in text(a), logit_bias={"0": -100}),
    "completion logprobs": complete(lambda a: len(a.choices[0].logprobs.tokens) == 6, logprobs=2),
    "completion logprobs 0": complete(lambda a: a.choices[0].logprobs.token_logprobs[0] <= 0, logprobs=0),
    "completion echo": complete(lambda a: text(a).startswith("Hello"), echo=True),
    "completion echo logprobs": complete(
        lambda a: a.choices[0].logprobs.token_logprobs[0] is None and len(a.choices[0].logprobs.tokens) == 11,
        echo=True,
        logprobs=1,
    ),
    "completion stream": complete(lambda s: parts(s)[1] == "length", stream=True),
    "completion stream equals whole": lambda c: (
        parts(c.completions.create(model="tiny", prompt="Hello", max_tokens=9, temperature=0, stream=True))[0]
        == text(c.completions.create(model="tiny", prompt="Hello", max_tokens=9, temperature=0))
    ),
    "completion stream usage": complete(
        lambda s: list(s)[-1].usage.completion_tokens == 6, stream=True, stream_options={"include_usage": True}
    ),
    "completion user": complete(ever, user="u-1"),
    "completion top_k (extra)": same(lambda k: complete(k, temperature=1, extra_body={"top_k": 1}), complete),
    "completion min_p (extra)": same(lambda k: complete(k, temperature=1, extra_body={"min_p": 1.0}), complete),
    "completion min_tokens (extra)": complete(
        lambda a: a.usage.completion_tokens == 6, extra_body={"min_tokens": 6, "stop_token_ids": list(range(300))}
    ),
    "completion bad_words (extra)": complete(
        lambda a: "e" not in text(a), max_tokens=30, extra_body={"bad_words": ["e"]}
    ),
    "completion prompt_logprobs (extra)": complete(
        lambda a: len(a.choices[0].prompt_logprobs) == 5 and a.choices[0].prompt_logprobs[0] is None,
        extra_body={"prompt_logprobs": 1},
    ),
    "completion guided_regex (extra)": complete(lambda a: text(a) == "abab", extra_body={"guided_regex": "(ab){2}"}),
    "completion guided_choice (extra)": complete(
        lambda a: text(a) in ("red", "blue"), extra_body={"guided_choice": ["red", "blue"]}
    ),
    # chat
    "chat": chat(lambda a: a.object == "chat.completion" and a.choices[0].message.role == "assistant"),
    "chat system": chat(ever, messages=[{"role": "system", "content": "Be brief."}, *USER]),
    "chat parts": same(
        chat, lambda k: chat(k, messages=[{"role": "user", "content": [{"type": "text", "text": "Hi"}]}])
    ),
    "chat max_completion_tokens": lambda c: (
        c.chat.completions.create(model="tiny", messages=USER, max_completion_tokens=3).usage.completion_tokens == 3
    ),
    "chat logprobs": chat(
        lambda a: len(a.choices[0].logprobs.content[0].top_logprobs) == 3, logprobs=True, top_logprobs=3
    ),
    "chat n": chat(lambda a: [c.index for c in a.choices] == [0, 1], n=2),
    "chat stream": chat(lambda s: parts(s)[1] == "length", stream=True),
    "chat stream role first": chat(lambda s: next(iter(s)).choices[0].delta.role == "assistant", stream=True),
    "chat stream usage": chat(
        lambda s: list(s)[-1].usage.total_tokens > 6, stream=True, stream_options={"include_usage": True}
    ),
    "chat stop": chat(ever, stop="x"),
    "chat json_object": chat(
        lambda a: isinstance(json.loads(said(a)), dict) if a.choices[0].finish_reason == "stop" else said(a)[0] == "{",
        response_format={"type": "json_object"},
        max_tokens=60,
    ),
    "chat json_schema": chat(
        lambda a: 1 <= json.loads(said(a))["n"] <= 9,
        max_tokens=60,
        response_format={"type": "json_schema", "json_schema": {"name": "n", "schema": SCHEMA, "strict": True}},
    ),
    "chat response_format text": chat(ever, response_format={"type": "text"}),
    "chat tools auto": chat(lambda a: a.choices[0].message.tool_calls is None, tools=[WEATHER]),
    "chat tools required": chat(
        lambda a: json.loads(a.choices[0].message.tool_calls[0].function.arguments)["days"] in range(1, 10),
        tools=[WEATHER],
        tool_choice="required",
        max_tokens=100,
    ),
    "chat tools named": chat(
        lambda a: a.choices[0].finish_reason == "tool_calls",
        tools=[WEATHER],
        tool_choice={"type": "function", "function": {"name": "weather"}},
        max_tokens=100,
    ),
    "chat tool turn": chat(
        ever,
        tools=[WEATHER],
        messages=[
            *USER,
            {"role": "assistant", "content": None, "tool_calls": [CALLED]},
            {"role": "tool", "tool_call_id": "c1", "content": "sun"},
        ],
    ),
    "chat prompt_logprobs (extra)": chat(lambda a: a.prompt_logprobs[0] is None, extra_body={"prompt_logprobs": 0}),
    "chat metadata": chat(ever, metadata={"a": "b"}, store=False),
    # embeddings and tokens
    "embeddings": embed(
        lambda a: len(a.data[0].embedding) == CONFIG.hidden and abs(np.linalg.norm(a.data[0].embedding) - 1) < 1e-5
    ),
    "embeddings of several": embed(
        lambda a: [d.index for d in a.data] == [0, 1] and a.usage.total_tokens == 4, input=["Hi", "Ho"]
    ),
    "embeddings of tokens": embed(lambda a: a.usage.prompt_tokens == 2, input=[70, 71]),
    "embeddings as floats": embed(lambda a: isinstance(a.data[0].embedding[0], float), encoding_format="float"),
    "tokenize": raw(
        "/tokenize", {"model": "tiny", "prompt": "Hi"}, lambda a: a["count"] == 2 and len(a["tokens"]) == 2
    ),
    "detokenize": raw("/detokenize", {"model": "tiny", "tokens": [39, 72]}, lambda a: a["prompt"] == "Hi"),
    # refusals
    "no such model": refused(complete(ever, model="other"), None, "NotFoundError"),
    "too long": refused(complete(ever, max_tokens=5000), None),
    "bad temperature": refused(complete(ever, temperature=3), "temperature"),
    "misspelt field": refused(complete(ever, extra_body={"max_token": 5}), "max_token"),
    "an image": refused(
        chat(ever, messages=[{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "x"}}]}]),
        "messages[0].content",
    ),
    "embedding dimensions": refused(embed(ever, dimensions=8), "dimensions"),
    "an empty embedding": refused(embed(ever, input=""), "input"),
    "a body that is too large": refused(complete(ever, prompt="x" * 30_000), None, "APIStatusError"),
}


def test_there_are_sixty_calls_at_least() -> None:
    assert len(CALLS) >= 60


@pytest.mark.parametrize("name", CALLS)
def test_call(name: str, client: Any) -> None:
    assert CALLS[name](client), name


def test_prompt_scores_are_the_models_own_whatever_the_cache_holds(client: Any) -> None:
    weights = random_weights(CONFIG)
    weights["lm_head.weight"][256] = 0
    tokens = [int(t) for t in np.random.default_rng(5).integers(0, 250, 90)]  # more than one step computes
    expected = reference_logits(CONFIG, weights, tokens).log_softmax(-1)
    for _ in range(2):  # the second time the prefix cache has the prompt
        answer = client.completions.create(
            model="tiny", prompt=tokens, max_tokens=1, n=2, extra_body={"prompt_logprobs": 2}
        )
        for choice in answer.choices:
            scores = choice.prompt_logprobs
            assert len(scores) == len(tokens) and scores[0] is None
            for at in range(1, len(tokens)):
                own = scores[at][str(tokens[at])]
                assert own["logprob"] == pytest.approx(float(expected[at - 1, tokens[at]]), abs=1e-3)
                best = int(expected[at - 1].argmax())
                assert scores[at][str(best)]["rank"] == 1
                assert own["rank"] == 1 + int((expected[at - 1] > expected[at - 1, tokens[at]]).sum())
    echoed = (
        client.completions.create(model="tiny", prompt=tokens, max_tokens=1, echo=True, logprobs=0).choices[0].logprobs
    )
    assert echoed.token_logprobs[1:90] == pytest.approx(
        [float(expected[at - 1, tokens[at]]) for at in range(1, 90)], abs=1e-3
    )
    assert echoed.text_offset[0] == 0 and len(echoed.tokens) == 91


def test_an_embedding_is_the_state_that_the_head_would_multiply(client: Any) -> None:
    weights = random_weights(CONFIG)
    tokens = [1, 5, 9, 200]
    weights["lm_head.weight"] = torch.eye(CONFIG.vocab, CONFIG.hidden)  # so that the logits are the state
    state = reference_logits(CONFIG, weights, tokens)[-1][: CONFIG.hidden]
    found = client.embeddings.create(model="tiny", input=tokens).data[0].embedding
    assert np.allclose(found, (state / state.norm()).numpy(), atol=1e-5)
    assert re.match(
        r"embd-", client.embeddings.with_raw_response.create(model="tiny", input=tokens).http_response.json()["id"]
    )
