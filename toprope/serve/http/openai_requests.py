"""Read the JSON bodies of the OpenAI API into generation jobs, refusing what cannot be honoured."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from toprope.serve.batching.request import SamplingParams
from toprope.serve.errors import BadRequest
from toprope.serve.model.tokenizer import BadChat, Tokenizer

_MOST_CHOICES, _MOST_ANSWERS, _MOST_LOGPROBS, _MOST_STOPS = 128, 16_384, 20, 16
_COMPLETION_MAX_TOKENS = 16  # the API's default for /v1/completions
# Honouring these half would be worse than refusing them.
_UNSUPPORTED = ("tools", "functions", "logit_bias", "echo", "suffix", "audio", "prediction", "use_beam_search")


class BadParameter(BadRequest):
    """A field of the body is missing or wrong; `param` names it."""

    code = "invalid-value"

    def __init__(self, param: str, message: str) -> None:
        super().__init__(f"{param}: {message}")
        self.param = param


class BadJson(BadRequest):
    """The body is not a JSON object."""

    code = "invalid-json"


@dataclass(frozen=True)
class Job:
    """What a body asks for: each of `prompts` (tokens) answered `choices` times."""

    model: str
    prompts: tuple[list[int], ...]
    choices: int
    max_tokens: int | None  # None: as long as the context allows
    sampling: SamplingParams
    stream: bool
    stream_usage: bool
    is_chat: bool
    priority: int


def read_body(raw: bytes) -> dict[str, Any]:
    """The JSON object in a body; raises `BadJson`."""
    try:
        body = json.loads(raw)
    except (ValueError, RecursionError) as error:
        raise BadJson(f"the body is not valid JSON: {error}") from None
    if not isinstance(body, dict):
        raise BadJson(f"the body must be a JSON object, not {type(body).__name__}")
    return body


def chat_job(body: Mapping[str, Any], tokenizer: Tokenizer, end_tokens: frozenset[int]) -> Job:
    """The job of a `/v1/chat/completions` body."""
    messages = _messages(body)
    try:
        text = tokenizer.chat(messages)
    except BadChat as error:
        raise BadParameter("messages", f"the model's chat template refuses them: {error}") from None
    # The template writes the begin token itself where the model has one.
    prompt = tokenizer.encode(text, add_specials=False)
    limit = body.get("max_completion_tokens")
    name = "max_tokens" if limit is None else "max_completion_tokens"
    logprobs = None
    if _boolean(body, "logprobs", False):
        logprobs = _integer(body, "top_logprobs", 0, 0, _MOST_LOGPROBS)
    elif body.get("top_logprobs"):
        raise BadParameter("top_logprobs", "needs logprobs to be true")
    return _job(body, (prompt,), _optional_integer(body, name, 1), logprobs, end_tokens, is_chat=True)


def completion_job(body: Mapping[str, Any], tokenizer: Tokenizer, end_tokens: frozenset[int]) -> Job:
    """The job of a `/v1/completions` body; prompts are text, token ids, or lists of either."""
    limit = _optional_integer(body, "max_tokens", 1) or _COMPLETION_MAX_TOKENS
    logprobs = _optional_integer(body, "logprobs", 0, _MOST_LOGPROBS)
    if _integer(body, "best_of", 1, 1, _MOST_CHOICES) > _integer(body, "n", 1, 1, _MOST_CHOICES):
        raise BadParameter("best_of", "is not supported; ask for n answers and choose")
    return _job(body, _prompts(body, tokenizer), limit, logprobs, end_tokens, is_chat=False)


def _job(
    body: Mapping[str, Any],
    prompts: tuple[list[int], ...],
    max_tokens: int | None,
    logprobs: int | None,
    end_tokens: frozenset[int],
    *,
    is_chat: bool,
) -> Job:
    for name in _UNSUPPORTED:
        if body.get(name):
            raise BadParameter(name, "is not supported by this server; leave it out")
    form = body.get("response_format")
    if form is not None and (not isinstance(form, dict) or form.get("type") != "text"):
        raise BadParameter("response_format", "only text is supported")
    model = body.get("model")
    if not isinstance(model, str) or not model:
        raise BadParameter("model", "is required and must be a string; GET /v1/models lists the names")
    for prompt in prompts:
        if not prompt:
            raise BadParameter("messages" if is_chat else "prompt", "is empty; send at least one token")
    choices = _integer(body, "n", 1, 1, _MOST_CHOICES)
    if len(prompts) * choices > _MOST_ANSWERS:
        raise BadParameter("n", f"{len(prompts)} prompts times n={choices} are more than {_MOST_ANSWERS} answers")
    options = body.get("stream_options") or {}
    if not isinstance(options, dict):
        raise BadParameter("stream_options", "must be an object")
    ignore_end = _boolean(body, "ignore_eos", False)
    top_k = _optional_integer(body, "top_k", -1)
    sampling = SamplingParams(
        temperature=_number(body, "temperature", 1.0, 0.0, 2.0),
        top_k=top_k if top_k is not None and top_k > 0 else None,
        top_p=_number(body, "top_p", 1.0, 1e-6, 1.0),
        min_p=_number(body, "min_p", 0.0, 0.0, 1.0),
        presence_penalty=_number(body, "presence_penalty", 0.0, -2.0, 2.0),
        frequency_penalty=_number(body, "frequency_penalty", 0.0, -2.0, 2.0),
        repetition_penalty=_number(body, "repetition_penalty", 1.0, 0.01, 100.0),
        seed=_optional_integer(body, "seed", -(2**63), 2**63 - 1),
        logprobs=logprobs,
        stop=_stops(body),
        stop_token_ids=_stop_tokens(body) | (frozenset() if ignore_end else end_tokens),
    )
    return Job(
        model=model,
        prompts=prompts,
        choices=choices,
        max_tokens=max_tokens,
        sampling=sampling,
        stream=_boolean(body, "stream", False),
        stream_usage=_boolean(options, "include_usage", False),
        is_chat=is_chat,
        priority=_integer(body, "priority", 0, -(2**31), 2**31 - 1),
    )


def _messages(body: Mapping[str, Any]) -> list[dict[str, Any]]:
    messages = body.get("messages")
    if not isinstance(messages, list) or not messages:
        raise BadParameter("messages", "is required and must be a non-empty list")
    plain = []
    for index, message in enumerate(messages):
        at = f"messages[{index}]"
        if not isinstance(message, dict) or not isinstance(message.get("role"), str):
            raise BadParameter(at, "must be an object with a role")
        content = message.get("content")
        if isinstance(content, list):  # parts; only text can be served
            if not all(
                isinstance(p, dict) and p.get("type") == "text" and isinstance(p.get("text"), str) for p in content
            ):
                raise BadParameter(f"{at}.content", "may only hold text parts; this model takes no images or audio")
            content = "".join(part["text"] for part in content)
        if not isinstance(content, str):
            raise BadParameter(f"{at}.content", "must be a string or a list of text parts")
        plain.append({**message, "content": content})
    return plain


def _prompts(body: Mapping[str, Any], tokenizer: Tokenizer) -> tuple[list[int], ...]:
    prompt = body.get("prompt")
    if isinstance(prompt, str):
        return (tokenizer.encode(prompt),)
    if isinstance(prompt, list) and prompt:
        if all(isinstance(p, str) for p in prompt):
            return tuple(tokenizer.encode(p) for p in prompt)
        if _are_tokens(prompt):
            return (prompt,)
        if all(isinstance(p, list) and _are_tokens(p) for p in prompt):
            return tuple(prompt)
    if prompt == []:
        return ([],)
    raise BadParameter("prompt", "is required: a string, a list of token ids, or a list of either")


def _are_tokens(items: list[Any]) -> bool:
    return all(isinstance(i, int) and not isinstance(i, bool) for i in items)


def _stops(body: Mapping[str, Any]) -> tuple[str, ...]:
    stop = body.get("stop")
    stops = [] if stop is None else [stop] if isinstance(stop, str) else stop
    if not isinstance(stops, list) or not all(isinstance(s, str) and s for s in stops) or len(stops) > _MOST_STOPS:
        raise BadParameter("stop", f"must be a non-empty string or at most {_MOST_STOPS} of them")
    return tuple(stops)


def _stop_tokens(body: Mapping[str, Any]) -> frozenset[int]:
    tokens = body.get("stop_token_ids") or []
    if not isinstance(tokens, list) or not _are_tokens(tokens):
        raise BadParameter("stop_token_ids", "must be a list of token ids")
    return frozenset(tokens)


def _number(body: Mapping[str, Any], name: str, default: float, low: float, high: float) -> float:
    value = body.get(name)
    if value is None:
        return default
    if isinstance(value, bool) or not isinstance(value, int | float) or not low <= value <= high:
        raise BadParameter(name, f"must be a number from {low:g} to {high:g}, not {value!r}")
    return float(value)


def _optional_integer(body: Mapping[str, Any], name: str, low: int, high: int = 2**31 - 1) -> int | None:
    value = body.get(name)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
        limits = f"at least {low}" if high == 2**31 - 1 else f"from {low} to {high}"
        raise BadParameter(name, f"must be an integer {limits}, not {value!r}")
    return value


def _integer(body: Mapping[str, Any], name: str, default: int, low: int, high: int) -> int:
    value = _optional_integer(body, name, low, high)
    return default if value is None else value


def _boolean(body: Mapping[str, Any], name: str, default: bool) -> bool:
    value = body.get(name)
    if value is None:
        return default
    if not isinstance(value, bool):
        raise BadParameter(name, f"must be true or false, not {value!r}")
    return value
