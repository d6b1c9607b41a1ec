"""One HTTP request on its way through the engine: its answers, their texts and times."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

from toprope.serve.batching.request import Request, SamplingParams
from toprope.serve.engine.delta import Delta
from toprope.serve.engine.engine_process import Answer, EngineProcess
from toprope.serve.engine.sampler import Sampled
from toprope.serve.errors import ServeError
from toprope.serve.http.metrics import Metrics
from toprope.serve.http.openai_requests import Job
from toprope.serve.http.openai_responses import Choice, ResponseWriter, chip_gap_s
from toprope.serve.http.tool_calls import CallReader
from toprope.serve.model.tokenizer import Tokenizer


class Generation:
    """Submits the job's requests when first asked for something. `close` ends whatever is not finished."""

    def __init__(self, job: Job, engine: EngineProcess, tokenizer: Tokenizer, metrics: Metrics) -> None:
        self._job, self._engine, self._metrics = job, engine, metrics
        self._writer = ResponseWriter(job, tokenizer)
        self.began = time.monotonic()
        self._answers: list[Answer] = []
        self._choices: list[Choice] = []
        self._last_token_s: dict[int, float] = {}
        self._events: AsyncIterator[dict[str, Any]] | None = None

    async def whole(self) -> dict[str, Any]:
        """The complete response; raises the `ServeError` of the first answer that failed."""
        self._submit()
        tasks = [asyncio.ensure_future(self._collect(index)) for index in range(len(self._answers))]
        try:
            await asyncio.gather(*tasks)
        finally:
            for task in tasks:
                task.cancel()
        return self._writer.whole(self._choices)

    async def next_event(self) -> dict[str, Any] | None:
        """The next object of a streamed response; `None` at its end."""
        if self._events is None:
            self._submit()
            self._events = self._stream()
        return await anext(self._events, None)

    def close(self) -> None:
        """Stop computing what is not finished, and count it."""
        for answer, choice in zip(self._answers, self._choices, strict=True):
            if not answer.is_done:
                self._engine.abort(answer)
                answer.is_done = True
                self._end(choice, "abort")

    def _submit(self) -> None:
        job = self._job
        assert self._engine.ready is not None
        longest = self._engine.ready.max_model_len
        for number, prompt in enumerate(job.prompts):
            for answer_of_prompt in range(job.choices):
                choice = Choice(len(self._choices), number, len(prompt))
                request = Request(
                    id=f"{self._writer.id}-{choice.index}",
                    prompt_tokens=prompt,
                    max_tokens=longest - len(prompt) if job.max_tokens is None else job.max_tokens,
                    sampling=self._sampling(choice.index, scored=answer_of_prompt == 0),
                    priority=job.priority,
                )
                self._answers.append(self._engine.submit(request))
                self._choices.append(choice)

    def _sampling(self, index: int, *, scored: bool) -> SamplingParams:
        params = self._job.sampling
        if params.prompt_logprobs is not None and not scored:  # once a prompt
            params = replace(params, prompt_logprobs=None)
        return params if params.seed is None or index == 0 else replace(params, seed=params.seed + index)

    async def _deltas(self, index: int) -> AsyncIterator[Delta]:
        answer, choice = self._answers[index], self._choices[index]
        try:
            async for delta in answer:
                self._book(choice, delta)
                choice.cached_tokens = answer.cached_tokens
                yield delta
        except ServeError as error:
            self._end(choice, error.code)
            raise

    async def _collect(self, index: int) -> None:
        choice = self._choices[index]
        reader = CallReader(self._job.tools) if self._job.tools else None
        async for delta in self._deltas(index):
            text, calls = _read(reader, delta)
            choice.text += text
            choice.calls += calls
            if self._job.sampling.logprobs is not None:
                choice.sampled.append(delta.sampled)

    async def _stream(self) -> AsyncIterator[dict[str, Any]]:
        merged: asyncio.Queue[tuple[int, Delta] | ServeError | None] = asyncio.Queue()
        tasks = [asyncio.ensure_future(self._forward(index, merged)) for index in range(len(self._answers))]
        shown = [0] * len(tasks)
        held: list[list[Sampled]] = [[] for _ in tasks]
        is_open = [False] * len(tasks)
        readers = [CallReader(self._job.tools) if self._job.tools else None for _ in tasks]
        try:
            left = len(tasks)
            while left:
                item = await merged.get()
                if item is None:
                    left -= 1
                    continue
                if isinstance(item, ServeError):
                    raise item
                index, delta = item
                text, calls = _read(readers[index], delta)
                if not is_open[index]:
                    is_open[index] = True
                    if self._job.is_chat:
                        yield self._writer.first_chunk(index)
                    elif echo := self._writer.echoed(self._choices[index].prompt):
                        yield self._writer.chunk(index, echo, (), None, 0)
                        shown[index] += len(echo)
                held[index].append(delta.sampled)
                reason = delta.finish_reason.value if delta.finish_reason else None
                if calls:
                    self._choices[index].calls += calls
                    yield self._writer.call_chunk(index, calls)
                if reason and self._choices[index].calls:
                    reason = "tool_calls"
                if text or reason:
                    yield self._writer.chunk(index, text, held[index], reason, shown[index])
                    shown[index] += len(text)
                    held[index] = []
            if self._job.stream_usage:
                yield self._writer.usage_chunk(self._choices)
        finally:
            for task in tasks:
                task.cancel()

    async def _forward(self, index: int, merged: asyncio.Queue[tuple[int, Delta] | ServeError | None]) -> None:
        try:
            async for delta in self._deltas(index):
                merged.put_nowait((index, delta))
        except ServeError as error:
            merged.put_nowait(error)
        merged.put_nowait(None)

    def _book(self, choice: Choice, delta: Delta) -> None:
        now = time.monotonic()
        if choice.output_tokens == 0:
            self._metrics.first_token(now - self.began)
        else:
            self._metrics.next_token(now - self._last_token_s[choice.index])
        self._last_token_s[choice.index] = now
        choice.output_tokens += 1
        choice.chip_last_s = delta.chip_s
        choice.scores = choice.scores or delta.prompt
        if choice.output_tokens == 1:
            choice.chip_first_s = delta.chip_s
        if delta.finish_reason is not None:
            self._metrics.chip.answered(choice.chip_first_s, chip_gap_s(choice))
            choice.finish_reason = delta.finish_reason.value
            self._end(choice, delta.finish_reason.value)

    def _end(self, choice: Choice, reason: str) -> None:
        self._metrics.ended(reason, time.monotonic() - self.began, choice.prompt_tokens)


def _read(reader: CallReader | None, delta: Delta) -> tuple[str, list[dict[str, Any]]]:
    """Text and tool calls that a delta completes."""
    if reader is None:
        return delta.text, []
    text, calls = reader.push(delta.text)
    if delta.finish_reason is not None:
        rest, last = reader.finish()
        text, calls = text + rest, [*calls, *last]
    return text, calls
