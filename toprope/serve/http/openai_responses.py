"""The JSON that the OpenAI API answers with."""

from __future__ import annotations

import json
import math
import time
import uuid
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from toprope.serve.engine.prompt_scores import PromptScore
from toprope.serve.engine.sampler import Sampled, TokenLogprob
from toprope.serve.errors import ServeError
from toprope.serve.http.openai_requests import Job
from toprope.serve.http.tool_calls import without_index
from toprope.serve.model.tokenizer import Tokenizer


@dataclass
class Choice:
    """One answer as far as it has come."""

    index: int
    prompt: int  # which of the job's prompts it answers
    prompt_tokens: int
    cached_tokens: int = 0
    output_tokens: int = 0
    text: str = ""
    sampled: list[Sampled] = field(default_factory=list)
    calls: list[dict[str, Any]] = field(default_factory=list)
    finish_reason: str | None = None
    scores: tuple[PromptScore, ...] = ()  # of the prompt, from its second token on
    chip_first_s: float | None = None  # on the chip whose operators are timed: to the first token, and to the last
    chip_last_s: float | None = None


class ResponseWriter:
    """Writes the objects of one response; the id and time are the same in all of them."""

    def __init__(self, job: Job, tokenizer: Tokenizer) -> None:
        self._job, self._tokenizer = job, tokenizer
        self.id = f"{'chatcmpl' if job.is_chat else 'cmpl'}-{uuid.uuid4().hex}"
        self._created = int(time.time())

    def whole(self, choices: Sequence[Choice]) -> dict[str, Any]:
        """The answer to a request without streaming."""
        items = []
        scores = {choice.prompt: choice.scores for choice in choices if choice.scores}
        for choice in choices:
            item: dict[str, Any] = {"index": choice.index, "finish_reason": choice.finish_reason}
            if self._job.is_chat:
                item["message"] = {"role": "assistant", "content": choice.text, "refusal": None}
                if choice.calls:
                    item["finish_reason"] = "tool_calls"
                    item["message"]["content"] = choice.text.strip() or None
                    item["message"]["tool_calls"] = without_index(choice.calls)
            else:
                item["text"] = self.echoed(choice.prompt) + choice.text
            item["logprobs"] = self._logprobs(choice.sampled, 0)
            if self._job.echo and item["logprobs"] is not None:
                item["logprobs"] = self._echoed_logprobs(choice, scores.get(choice.prompt, ()))
            if self._job.shows_scores and not self._job.is_chat:
                item["prompt_logprobs"] = self._scores(scores.get(choice.prompt, ()))
            items.append(item)
        kind = "chat.completion" if self._job.is_chat else "text_completion"
        whole = {**self._head(kind), "choices": items, "usage": usage(choices)}
        if self._job.shows_scores and self._job.is_chat:
            whole["prompt_logprobs"] = self._scores(scores.get(0, ()))
        return whole

    def _scores(self, scores: Sequence[PromptScore]) -> list[dict[str, Any] | None]:
        """In vLLM's form: for each prompt token (the first has none before it) the token and the likeliest, by token id."""
        count = self._job.sampling.prompt_logprobs or 0
        listed: list[dict[str, Any] | None] = [None]
        for score in scores:
            ranked = [(score.token, score.logprob, score.rank)]
            ranked += [
                (t.token, t.logprob, rank) for rank, t in enumerate(score.top[:count], 1) if t.token != score.token
            ]
            listed.append(
                {
                    str(token): {"logprob": value, "rank": rank, "decoded_token": self._tokenizer.token_text(token)}
                    for token, value, rank in ranked
                }
            )
        return listed

    def _echoed_logprobs(self, choice: Choice, scores: Sequence[PromptScore]) -> dict[str, Any] | None:
        """The prompt's tokens before the answer's, the first without a probability."""
        first = self._job.prompts[choice.prompt][0]
        count = self._job.sampling.logprobs or 0
        before = [Sampled(s.token, s.logprob, s.top[:count]) for s in scores]
        whole = self._logprobs([Sampled(first, None, ()), *before, *choice.sampled], 0)
        if whole is not None:
            whole["top_logprobs"][0] = None
        return whole

    def echoed(self, prompt: int) -> str:
        """The prompt's own text where the answer begins with it."""
        return self._job.echo[prompt] if self._job.echo else ""

    def call_chunk(self, index: int, calls: Sequence[dict[str, Any]]) -> dict[str, Any]:
        """Complete tool calls of a streamed answer."""
        return self._chunk({"index": index, "delta": {"tool_calls": list(calls)}, "finish_reason": None})

    def first_chunk(self, index: int) -> dict[str, Any]:
        """Opens an answer of a streamed chat: it has the role only."""
        return self._chunk({"index": index, "delta": {"role": "assistant", "content": ""}, "finish_reason": None})

    def chunk(
        self, index: int, text: str, sampled: Sequence[Sampled], reason: str | None, text_offset: int
    ) -> dict[str, Any]:
        """A piece of a streamed answer; `text_offset` is the number of characters before it."""
        body = {"delta": {"content": text}} if self._job.is_chat else {"text": text}
        logprobs = self._logprobs(sampled, text_offset)
        return self._chunk({"index": index, **body, "logprobs": logprobs, "finish_reason": reason})

    def usage_chunk(self, choices: Sequence[Choice]) -> dict[str, Any]:
        """The last object of a stream that asked for `include_usage`."""
        return {**self._chunk(None), "usage": usage(choices)}

    def _chunk(self, choice: dict[str, Any] | None) -> dict[str, Any]:
        kind = "chat.completion.chunk" if self._job.is_chat else "text_completion"
        return {**self._head(kind), "choices": [] if choice is None else [choice]}

    def _head(self, kind: str) -> dict[str, Any]:
        return {"id": self.id, "object": kind, "created": self._created, "model": self._job.model}

    def _logprobs(self, sampled: Sequence[Sampled], text_offset: int) -> dict[str, Any] | None:
        if self._job.sampling.logprobs is None:
            return None
        name = self._tokenizer.token_text
        if self._job.is_chat:
            content = []
            for item in sampled:
                top = [_token(name(t.token), t.logprob) for t in _possible(item)]
                content.append({**_token(name(item.token), item.logprob), "top_logprobs": top})
            return {"content": content, "refusal": None}
        texts = [name(item.token) for item in sampled]
        return {
            "tokens": texts,
            "token_logprobs": [item.logprob for item in sampled],
            "top_logprobs": [{name(t.token): t.logprob for t in _possible(item)} for item in sampled],
            "text_offset": [text_offset + sum(map(len, texts[:i])) for i in range(len(texts))],
        }


def _possible(item: Sampled) -> list[TokenLogprob]:
    """Alternatives that could have come: what a constraint bars has no probability, and JSON no infinity."""
    return [t for t in item.top if t.logprob > -math.inf]


def usage(choices: Sequence[Choice]) -> dict[str, Any]:
    """Token counts; a prompt is counted once however many answers it got."""
    prompts = {choice.prompt: choice for choice in reversed(choices)}.values()
    prompt, output = sum(c.prompt_tokens for c in prompts), sum(c.output_tokens for c in choices)
    found: dict[str, Any] = {
        "prompt_tokens": prompt,
        "completion_tokens": output,
        "total_tokens": prompt + output,
        "prompt_tokens_details": {"cached_tokens": sum(c.cached_tokens for c in prompts)},
    }
    timed = [c for c in choices if c.chip_first_s is not None and c.chip_last_s is not None]
    if timed:
        found["chip_time"] = {"time_to_first_token_ms": [_ms(c.chip_first_s) for c in timed],
                              "time_per_output_token_ms": [_ms(chip_gap_s(c)) for c in timed]}  # fmt: skip
    return found


def chip_gap_s(choice: Choice) -> float | None:
    """The chip's mean time for each token behind the first."""
    if choice.chip_first_s is None or choice.chip_last_s is None or choice.output_tokens < 2:
        return None
    return (choice.chip_last_s - choice.chip_first_s) / (choice.output_tokens - 1)


def _ms(seconds: float | None) -> float | None:
    return None if seconds is None else round(1e3 * seconds, 4)


def event(item: dict[str, Any] | str) -> bytes:
    """One server-sent event."""
    data = item if isinstance(item, str) else json.dumps(item, ensure_ascii=False, separators=(",", ":"))
    return f"data: {data}\n\n".encode()


def error_body(error: ServeError) -> dict[str, Any]:
    """The error object that OpenAI clients understand."""
    status = error.http_status
    kind = "rate_limit_error" if status == 429 else "server_error" if status >= 500 else "invalid_request_error"
    param = getattr(error, "param", None)
    text = f"{error.message}; {error.cure}" if error.cure else error.message
    return {"error": {"message": text, "type": kind, "param": param, "code": error.code.replace("-", "_")}}


def _token(text: str, logprob: float | None) -> dict[str, Any]:
    return {"token": text, "logprob": logprob, "bytes": list(text.encode())}
