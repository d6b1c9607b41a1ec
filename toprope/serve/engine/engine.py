"""Runs a model step by step: scheduler → model → sampler → text."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from toprope.serve.batching.batch import Batch, BatchEntry
from toprope.serve.batching.kv_cache import KvCache
from toprope.serve.batching.request import FinishReason, Request, SamplingParams
from toprope.serve.batching.scheduler import Scheduler
from toprope.serve.engine.constraints import Constraints
from toprope.serve.engine.delta import Delta
from toprope.serve.engine.engine_config import EngineConfig
from toprope.serve.engine.prompt_scores import PromptScores
from toprope.serve.engine.sampler import Sampled, Sampler
from toprope.serve.engine.text_stream import TextStream
from toprope.serve.errors import ServeError
from toprope.serve.kernels.attention import AttentionPlan
from toprope.serve.kernels.chip_clock import ChipClock
from toprope.serve.kernels.choose_kernels import load_kernels
from toprope.serve.kernels.interface import Kernels
from toprope.serve.kernels.kv_memory import KvMemory
from toprope.serve.model.llama import Llama
from toprope.serve.model.llama_config import LlamaConfig
from toprope.serve.model.tokenizer import Tokenizer
from toprope.serve.model.weights import open_model

_PROMPT_TAIL_TOKENS = 8  # of the prompt, so that the first word of the answer gets its space


class UnsupportedRequest(ServeError):
    """The request asks for something this engine cannot do."""

    code = "unsupported"
    http_status = 400


@dataclass(frozen=True)
class StepReport:
    """What one step did, for metrics."""

    batch: Batch
    seconds: float
    deltas: tuple[Delta, ...]
    chip_s: float = 0.0  # the same on the chip, where operators are timed
    operators_s: Mapping[str, float] = field(default_factory=dict)  # of which each operator has so much


class Engine:
    """One model, one cache, one thread. `add` and `abort` between steps; `step` until `has_work` is false."""

    def __init__(
        self,
        model: Llama,
        memory: KvMemory,
        scheduler: Scheduler,
        *,
        tokenizer: Tokenizer | None = None,
        sampler: Sampler | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        if scheduler.limits.max_tokens > model.max_tokens:
            raise ValueError(
                f"steps of {scheduler.limits.max_tokens} tokens do not fit a model made for {model.max_tokens} per step"
            )
        if scheduler.cache.block_size != memory.block_tokens or scheduler.cache.device.block_count != memory.blocks:
            raise ValueError("the scheduler's KV cache and the KV memory differ in number or size of blocks")
        self.model, self.memory, self.scheduler = model, memory, scheduler
        self.tokenizer = tokenizer
        self._sampler = sampler or Sampler()
        self._clock = clock
        self._scores = PromptScores()
        self._embedded: dict[str, NDArray[np.float32]] = {}
        self._constraints = Constraints(tokenizer, model.config.vocab, model.config.end_tokens)
        self._texts: dict[str, TextStream] = {}
        self._chip_began_s: dict[str, float] = {}  # when each live request came, by the chip's clock
        self._numbers = itertools.count()

    @classmethod
    def open(cls, path: str | Path, config: EngineConfig | None = None) -> Engine:
        """Load a model folder or GGUF file with its tokenizer; raises `BadWeights`."""
        config = config or EngineConfig()
        files = open_model(path)
        tokenizer = Tokenizer.from_gguf(files.gguf) if files.gguf else Tokenizer.from_folder(files.path)
        limits = replace(config.limits, max_model_len=min(config.limits.max_model_len, files.config.context_tokens))
        if config.threads:
            torch.set_num_threads(config.threads)
        kernels = _kernels(files.config, config)
        model = Llama(files.config, files.tensors, kernels, max_tokens=limits.max_tokens)
        engine = cls.around(model, replace(config, limits=limits), tokenizer=tokenizer)
        engine.warm_up()
        return engine

    @classmethod
    def around(cls, model: Llama, config: EngineConfig, *, tokenizer: Tokenizer | None = None) -> Engine:
        """An engine for a model in memory, with as many KV blocks as `config` has bytes for."""
        shape = model.config
        block_bytes = KvMemory.block_bytes(
            block_tokens=config.block_tokens, layers=shape.layers, kv_heads=shape.kv_heads, head=shape.head,
            dtype=model.kernels.dtype,
        )  # fmt: skip
        blocks, host_blocks = config.kv_bytes // block_bytes, config.host_kv_bytes // block_bytes
        if blocks < 1:
            raise ValueError(f"{config.kv_bytes} bytes do not hold one KV block of {block_bytes} bytes; give more")
        memory = model.memory(blocks=blocks, block_tokens=config.block_tokens, host_blocks=host_blocks)
        cache = KvCache(blocks, config.block_tokens, host_block_count=host_blocks, prefix_caching=config.prefix_caching)
        return cls(model, memory, Scheduler(cache, config.limits, config.policy), tokenizer=tokenizer)

    def warm_up(self) -> None:
        """Compile what launches need, where there is a chip: cold, that takes minutes, which no step should. Before the first request."""
        if self._chip is not None:
            entry = BatchEntry(Request("warm-up", [0], 1), 0, [0], np.zeros(1, np.int32), True)
            self.model.forward(AttentionPlan.of([entry], self.memory.block_tokens), self.memory)
            self._chip.restart()

    @property
    def _chip(self) -> ChipClock | None:
        return self.model.kernels.chip

    @property
    def has_work(self) -> bool:
        """True while any request is live."""
        return self.scheduler.has_work

    def add(self, request: Request) -> None:
        """Queue a request, or refuse it with the `ServeError` that says why."""
        vocab = self.model.config.vocab
        if request.sampling.stop and self.tokenizer is None:
            raise UnsupportedRequest("stop strings need a tokenizer, and this engine has none; use stop_token_ids")
        if bad := next((t for t in request.prompt_tokens if not 0 <= t < vocab), None):
            raise UnsupportedRequest(f"the prompt holds token {bad}; this model's tokens are 0 to {vocab - 1}")
        self._constraints.add(request)
        self._scores.add(request)
        try:
            self.scheduler.add(request)
        except ServeError:
            self._drop(request.id)
            raise
        if self._chip is not None:
            self._chip_began_s[request.id] = self._chip.now_s
        if self.tokenizer is not None:
            tail = list(request.prompt_tokens[-_PROMPT_TAIL_TOKENS:])
            params = request.sampling
            self._texts[request.id] = TextStream(
                self.tokenizer, tail, params.stop, include_stop=params.include_stop, min_tokens=params.min_tokens
            )

    def abort(self, request_id: str) -> None:
        """Forget a request; its blocks are free at once. Unknown ids raise `UnknownRequest`."""
        self.scheduler.abort(request_id)
        self._texts.pop(request_id, None)
        self._drop(request_id)

    def step(self) -> StepReport:
        """Compute one batch. An exception leaves the scheduler's state unknown: build a new engine after it."""
        began, chip = self._clock(), self._chip
        before = (chip.now_s, dict(chip.seconds)) if chip else (0.0, {})
        batch = self.scheduler.step(began)
        self.memory.move(batch.swap_out, batch.copies, batch.swap_in)
        sampled = self._compute(batch) if batch.entries else {}
        now = self._clock()
        outputs = self.scheduler.update(batch, {key: value.token for key, value in sampled.items()}, now)
        deltas = tuple(self._delta(o.request, sampled[o.request.id], o.finish_reason) for o in outputs)
        if chip is None:
            return StepReport(batch, now - began, deltas)
        return StepReport(batch, now - began, deltas, chip.now_s - before[0], chip.since(before[1]))

    def generate(
        self, prompts: Sequence[Sequence[int]], max_tokens: int | Sequence[int], sampling: SamplingParams | None = None
    ) -> list[list[int]]:
        """Answer token prompts together, for programs and tests; the answers' tokens, in the order of the prompts."""
        limits = [max_tokens] * len(prompts) if isinstance(max_tokens, int) else max_tokens
        requests = [
            Request(f"generate-{next(self._numbers)}", list(prompt), limit, sampling or SamplingParams(temperature=0))
            for prompt, limit in zip(prompts, limits, strict=True)
        ]
        for request in requests:
            self.add(request)
        while self.has_work:
            self.step()
        return [request.output_tokens for request in requests]

    def _compute(self, batch: Batch) -> dict[str, Sampled]:
        plan = AttentionPlan.of(batch.entries, self.memory.block_tokens, self._scores.wanted(batch.entries))
        logits = self.model.forward(plan, self.memory)
        requests = [entry.request for entry in batch.entries if entry.samples]
        rows = self._scores.take(batch.entries, logits.numpy())
        self._embed(batch.entries)
        self._constraints.apply(rows, requests)
        chosen = self._sampler.sample(rows, requests)
        return {request.id: sampled for request, sampled in zip(requests, chosen, strict=True)}

    def _embed(self, entries: Sequence[BatchEntry]) -> None:
        ends = itertools.accumulate(len(entry.tokens) for entry in entries)
        wanted = {
            e.request.id: end - 1
            for e, end in zip(entries, ends, strict=True)
            if e.samples and e.request.sampling.embed
        }
        if wanted:
            states = self.model.last_hidden(list(wanted.values())).numpy()
            self._embedded.update(zip(wanted, states, strict=True))

    def _delta(self, request: Request, sampled: Sampled, reason: FinishReason | None) -> Delta:
        stream = self._texts.get(request.id)
        chip_s = self._chip.now_s - self._chip_began_s[request.id] if self._chip else None
        if reason is not None:
            self._constraints.drop(request.id)
        extra = (chip_s, self._scores.finished(request), self._embedded.pop(request.id, None))
        if stream is None:
            self._forget(request.id, reason)
            return Delta(request.id, sampled, "", reason, *extra)
        text = "" if reason is FinishReason.STOP else stream.push(sampled.token)  # the end token is not text
        if stream.stopped and reason is not FinishReason.STOP:
            if reason is None:
                self.scheduler.finish(request.id, FinishReason.STOP)
                self._constraints.drop(request.id)
            reason = FinishReason.STOP
        if reason is not None:
            text += stream.finish()
            del self._texts[request.id]
        self._forget(request.id, reason)
        return Delta(request.id, sampled, text, reason, *extra)

    def _forget(self, request_id: str, reason: FinishReason | None) -> None:
        if reason is not None:
            self._drop(request_id)

    def _drop(self, request_id: str) -> None:
        self._constraints.drop(request_id)
        self._scores.drop(request_id)
        self._chip_began_s.pop(request_id, None)


def _kernels(shape: LlamaConfig, config: EngineConfig) -> Kernels:
    """The kernels that `config` asks for, for a model of this shape."""
    if config.device == "npu":
        from toprope.serve.npu.npu_kernels import (
            NpuKernels,
            check_heads,
        )  # the operator library is read only where it is used
        from toprope.serve.npu.timed_kernels import TimedKernels

        check_heads(shape.heads, shape.kv_heads, shape.head)
        if config.executes_operators:
            if config.batch_invariant:
                raise ValueError(
                    "the operators do not promise batch invariance\n  cure: use --device cpu, or --estimate"
                )
            return NpuKernels(config.chip)
    measured = None if config.batch_invariant else (shape.hidden, 2 * shape.ffn)
    kernels = load_kernels(getattr(torch, config.dtype), config.kernels, measured)
    if config.batch_invariant and not kernels.batch_invariant:
        raise ValueError("torch kernels are not batch-invariant\n  cure: install a C++ compiler for the compiled ones")
    return TimedKernels(kernels, config.chip) if config.estimate else kernels
