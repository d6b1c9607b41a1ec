"""Read the JSON bodies of the OpenAI API into generation jobs, refusing what cannot be honoured."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from toprope.serve.batching.request import SamplingParams
from toprope.serve.errors import BadRequest
from toprope.serve.http.answer_form import read_grammar
from toprope.serve.http.fields import BadParameter, check_fields
from toprope.serve.http.tool_calls import Tools, read_tools
from toprope.serve.model.tokenizer import BadChat, Tokenizer

_MOST_CHOICES, _MOST_ANSWERS, _MOST_LOGPROBS, _MOST_STOPS = 128, 16_384, 20, 16
_COMPLETION_MAX_TOKENS = 16  # the API's default for /v1/completions
_GREEDY_BELOW = 1e-5  # dividing logits by less than this leaves the range of numbers
_MOST_BIASES, _MOST_WORDS = 1024, 128


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
    tools: Tools | None = None
    echo: tuple[str, ...] = ()  # the prompts as text, where the answer begins with them
    shows_scores: bool = (
        False  # the prompts' log-probabilities as a list of their own, not only in front of the answer's
    )


def read_body(raw: bytes) -> dict[str, Any]:
    """The JSON object in a body; raises `BadJson`."""
    try:
        body = json.loads(raw)
    except (ValueError, RecursionError) as error:
        raise BadJson(f"the body is not valid JSON: {error}") from None
    if not isinstance(body, dict):
        raise BadJson(f"the body must be a JSON object, not {type(body).__name__}")
    if b"\\ud" in raw.lower():  # half a character, which no tokenizer and no answer can hold
        try:
            json.dumps(body, ensure_ascii=False).encode()
        except UnicodeEncodeError as error:
            half = error.object[error.start]
            raise BadJson(f"the body holds the lone surrogate {half!r}; send whole characters") from None
    return body


def chat_job(body: Mapping[str, Any], tokenizer: Tokenizer, end_tokens: frozenset[int]) -> Job:
    """The job of a `/v1/chat/completions` body."""
    check_fields(body, is_chat=True)
    messages = _messages(body)
    tools = read_tools(body, tokenizer.template_text)
    if not _boolean(body, "parallel_tool_calls", True) and tools and not tools.must:
        raise BadParameter("parallel_tool_calls", "can only be false with a tool_choice that demands a call")
    options = body.get("chat_template_kwargs") or {}
    if not isinstance(options, dict):
        raise BadParameter("chat_template_kwargs", "must be an object")
    try:
        text = tokenizer.chat(messages, tools=body["tools"] if tools else None, options=options)
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
    job = _job(body, (prompt,), _optional_integer(body, name, 1), logprobs, tokenizer, end_tokens, is_chat=True)
    demanded = tools.grammar() if tools else None
    if demanded is not None:
        if job.sampling.grammar is not None:
            raise BadParameter("response_format", "and a tool_choice that demands a call exclude each other")
        job = replace(job, sampling=replace(job.sampling, grammar=demanded))
    return replace(job, tools=tools)


def completion_job(body: Mapping[str, Any], tokenizer: Tokenizer, end_tokens: frozenset[int]) -> Job:
    """The job of a `/v1/completions` body; prompts are text, token ids, or lists of either."""
    check_fields(body, is_chat=False)
    limit = _optional_integer(body, "max_tokens", 1) or _COMPLETION_MAX_TOKENS
    logprobs = _optional_integer(body, "logprobs", 0, _MOST_LOGPROBS)
    if _integer(body, "best_of", 1, 1, _MOST_CHOICES) > _integer(body, "n", 1, 1, _MOST_CHOICES):
        raise BadParameter("best_of", "is not supported; ask for n answers and choose")
    prompts = _prompts(body, tokenizer)
    job = _job(body, prompts, limit, logprobs, tokenizer, end_tokens, is_chat=False)
    if _boolean(body, "echo", False):
        job = replace(job, echo=tuple(_echoes(body["prompt"], prompts, tokenizer)))
        if logprobs is not None:  # the prompt's tokens are listed before the answer's
            if job.stream:
                raise BadParameter("echo", "with logprobs cannot be streamed")
            count = max(logprobs, job.sampling.prompt_logprobs or 0)
            job = replace(job, sampling=replace(job.sampling, prompt_logprobs=count))
    return job


def _echoes(given: Any, prompts: tuple[list[int], ...], tokenizer: Tokenizer) -> list[str]:
    texts = [given] if isinstance(given, str) else given
    if all(isinstance(text, str) for text in texts):
        return list(texts)
    return [tokenizer.decode(prompt) for prompt in prompts]


def tokens_of(body: Mapping[str, Any], tokenizer: Tokenizer) -> list[int]:
    """The tokens of a `/tokenize` body: `prompt`, or `messages` under the chat template."""
    known = {"model", "prompt", "messages", "add_special_tokens", "return_token_strs"}
    if unknown := sorted(set(body) - known):
        raise BadParameter(unknown[0], f"is not a field of /tokenize; known: {', '.join(sorted(known))}")
    if "messages" in body:
        try:
            return tokenizer.encode(tokenizer.chat(_messages(body)), add_specials=False)
        except BadChat as error:
            raise BadParameter("messages", f"the model's chat template refuses them: {error}") from None
    prompt = body.get("prompt")
    if not isinstance(prompt, str):
        raise BadParameter("prompt", "is required and must be a string, or send messages")
    return tokenizer.encode(prompt, add_specials=_boolean(body, "add_special_tokens", True))


def embedding_prompts(body: Mapping[str, Any], tokenizer: Tokenizer) -> tuple[tuple[list[int], ...], bool]:
    """The prompts of a `/v1/embeddings` body, and whether its vectors are wanted as base64."""
    known = {"model", "input", "encoding_format", "dimensions", "user"}
    if unknown := sorted(set(body) - known):
        raise BadParameter(unknown[0], f"is not a field of /v1/embeddings; known: {', '.join(sorted(known))}")
    if body.get("dimensions") is not None:
        raise BadParameter("dimensions", "is not supported: this model's vectors are not made to be cut")
    form = body.get("encoding_format") or "float"
    if form not in ("float", "base64"):
        raise BadParameter("encoding_format", f"must be float or base64, not {form!r}")
    try:
        prompts = _prompts({"prompt": body.get("input")}, tokenizer)
    except BadParameter as error:
        raise BadParameter("input", error.message.partition(": ")[2]) from None
    if not all(prompts) or len(prompts) > _MOST_ANSWERS:
        raise BadParameter("input", f"must be 1 to {_MOST_ANSWERS} texts or token lists, none of them empty")
    return prompts, form == "base64"


def token_list(body: Mapping[str, Any], vocab: int) -> list[int]:
    """The tokens of a `/detokenize` body, all below `vocab`."""
    tokens = body.get("tokens")
    if not isinstance(tokens, list) or not _are_tokens(tokens) or not all(0 <= t < vocab for t in tokens):
        raise BadParameter("tokens", f"must be a list of token ids from 0 to {vocab - 1}")
    return tokens


def _job(
    body: Mapping[str, Any],
    prompts: tuple[list[int], ...],
    max_tokens: int | None,
    logprobs: int | None,
    tokenizer: Tokenizer,
    end_tokens: frozenset[int],
    *,
    is_chat: bool,
) -> Job:
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
    for name in options:
        if name != "include_usage":
            raise BadParameter(f"stream_options.{name}", "is not a field of this API; known: include_usage")
    if body.get("prompt_logprobs") is not None and _boolean(body, "stream", False):
        raise BadParameter("prompt_logprobs", "cannot be streamed")
    min_tokens = _integer(body, "min_tokens", 0, 0, 2**31 - 1)
    if max_tokens is not None and min_tokens > max_tokens:
        raise BadParameter("min_tokens", f"is {min_tokens}, and max_tokens only {max_tokens}")
    return Job(
        model=model,
        prompts=prompts,
        choices=choices,
        max_tokens=max_tokens,
        sampling=_sampling(body, logprobs, min_tokens, tokenizer, end_tokens),
        stream=_boolean(body, "stream", False),
        stream_usage=_boolean(options, "include_usage", False),
        is_chat=is_chat,
        priority=_integer(body, "priority", 0, -(2**31), 2**31 - 1),
        shows_scores=body.get("prompt_logprobs") is not None,
    )


def _sampling(
    body: Mapping[str, Any], logprobs: int | None, min_tokens: int, tokenizer: Tokenizer, end_tokens: frozenset[int]
) -> SamplingParams:
    ignore_end = _boolean(body, "ignore_eos", False)
    top_k = _optional_integer(body, "top_k", -1)
    temperature = _number(body, "temperature", 1.0, 0.0, 2.0)
    return SamplingParams(
        temperature=temperature if temperature >= _GREEDY_BELOW else 0.0,
        top_k=top_k if top_k is not None and top_k > 0 else None,
        top_p=_number(body, "top_p", 1.0, 1e-6, 1.0),
        min_p=_number(body, "min_p", 0.0, 0.0, 1.0),
        presence_penalty=_number(body, "presence_penalty", 0.0, -2.0, 2.0),
        frequency_penalty=_number(body, "frequency_penalty", 0.0, -2.0, 2.0),
        repetition_penalty=_number(body, "repetition_penalty", 1.0, 0.01, 100.0),
        seed=_optional_integer(body, "seed", -(2**63), 2**63 - 1),
        logprobs=logprobs,
        stop=_stops(body),
        include_stop=_boolean(body, "include_stop_str_in_output", False),
        stop_token_ids=_stop_tokens(body) | (frozenset() if ignore_end else end_tokens),
        min_tokens=min_tokens,
        logit_bias=_biases(body),
        bad_words=_bad_words(body, tokenizer),
        grammar=read_grammar(body),
        prompt_logprobs=_optional_integer(body, "prompt_logprobs", 0, _MOST_LOGPROBS),
    )


def _biases(body: Mapping[str, Any]) -> tuple[tuple[int, float], ...]:
    given = body.get("logit_bias") or {}
    if not isinstance(given, dict) or len(given) > _MOST_BIASES:
        raise BadParameter("logit_bias", f"must be an object of at most {_MOST_BIASES} token ids and biases")
    found = []
    for token, bias in given.items():
        if not token.isascii() or not token.isdigit():
            raise BadParameter("logit_bias", f"names {token!r}, which is no token id")
        found.append((int(token), _number({"logit_bias": bias}, "logit_bias", 0.0, -100.0, 100.0)))
    return tuple(found)


def _bad_words(body: Mapping[str, Any], tokenizer: Tokenizer) -> tuple[tuple[int, ...], ...]:
    words = body.get("bad_words") or []
    if not isinstance(words, list) or not all(isinstance(w, str) and w for w in words) or len(words) > _MOST_WORDS:
        raise BadParameter("bad_words", f"must be a list of at most {_MOST_WORDS} non-empty strings")
    # A word is cut differently at the beginning of a text and after a space.
    forms = [form for word in words for form in (word, f" {word.lstrip()}")]
    return tuple(dict.fromkeys(tuple(tokenizer.encode(form, add_specials=False)) for form in forms))


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
        if content is None and message["role"] == "assistant":
            content = ""  # an assistant's turn that only called tools has none
        if isinstance(content, list):  # parts; only text can be served
            if not all(
                isinstance(p, dict) and p.get("type") == "text" and isinstance(p.get("text"), str) for p in content
            ):
                raise BadParameter(f"{at}.content", "may only hold text parts; this model takes no images or audio")
            content = "".join(part["text"] for part in content)
        if not isinstance(content, str):
            raise BadParameter(f"{at}.content", "must be a string or a list of text parts")
        plain.append({**message, "content": content, **_called(message, at)})
    return plain


def _called(message: Mapping[str, Any], at: str) -> dict[str, Any]:
    """Tool calls of an assistant's turn, their arguments as objects: chat templates print them as JSON themselves."""
    calls = message.get("tool_calls")
    if not calls:
        return {}
    if message["role"] != "assistant" or not isinstance(calls, list):
        raise BadParameter(f"{at}.tool_calls", "must be a list, in a message of the assistant")
    plain = []
    for number, call in enumerate(calls):
        try:
            function = dict(call["function"])
            if isinstance(function["arguments"], str):
                function["arguments"] = json.loads(function["arguments"] or "{}")
            plain.append({**call, "function": {"name": str(function["name"]), "arguments": function["arguments"]}})
        except (KeyError, TypeError, ValueError) as error:
            raise BadParameter(f"{at}.tool_calls[{number}]", f"is no function call: {error}") from None
    return {"tool_calls": plain}


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
