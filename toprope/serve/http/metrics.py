"""Counters and histograms of the server: Prometheus text, and a short history for the web page."""

from __future__ import annotations

import time
from collections import deque
from typing import Any

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

from toprope.serve.batching.scheduler import SchedulerStats
from toprope.serve.engine.worker import StepNews
from toprope.serve.http.chip_metrics import ChipMetrics

_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120)
_SIZES = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048)
_HISTORY = 300  # steps and latencies kept for the page


class Metrics:
    """One set per server; times in seconds."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self._requests = self._counter("requests", "Requests that ended, by reason", "reason")
        self._prompt_tokens = self._counter("prompt_tokens", "Prompt tokens of answered requests")
        self._output_tokens = self._counter("output_tokens", "Generated tokens")
        self._preemptions = self._counter("preemptions", "Requests pushed out of the KV cache", "mode")
        self._tokens_lost = self._counter("tokens_lost", "Tokens that preemption made us compute again")
        self._restarts = self._counter("engine_restarts", "Times the engine's process died")
        self._running = self._gauge("requests_running", "Requests in the batch")
        self._waiting = self._gauge("requests_waiting", "Requests in the queue")
        self._kv_use = self._gauge("kv_use_ratio", "Share of KV blocks in use")
        self._hits = self._gauge("prefix_cache_hit_tokens", "Prompt tokens found in the prefix cache so far")
        self._first = self._histogram("time_to_first_token_seconds", "From arrival to the first token", _SECONDS)
        self._gap = self._histogram("time_per_output_token_seconds", "Between two tokens of an answer", _SECONDS)
        self._whole = self._histogram("request_seconds", "From arrival to the last token", _SECONDS)
        self._step = self._histogram("step_seconds", "One step of the engine", _SECONDS)
        self._batch = self._histogram("batch_size", "Requests per step", _SIZES)
        self.chip = ChipMetrics(self.registry)
        self._steps: deque[dict[str, float]] = deque(maxlen=_HISTORY)
        self._recent: dict[str, deque[float]] = {
            name: deque(maxlen=_HISTORY) for name in ("first_token", "per_token", "request")
        }
        self._events: deque[dict[str, Any]] = deque(maxlen=20)
        self._stats: SchedulerStats | None = None

    # -- what happened ---------------------------------------------------------------------------------------------

    def step(self, news: StepNews) -> None:
        """The engine took a step (or only dropped a request, when its batch is empty)."""
        self._stats = stats = news.stats
        self._running.set(stats.running)
        self._waiting.set(stats.waiting)
        self._kv_use.set(stats.kv_use)
        self._hits.set(stats.prefix_hit_tokens)
        for event in news.preemptions:
            self._preemptions.labels(event.mode.value).inc()
            self._tokens_lost.inc(event.tokens_lost)
            self._events.append({"request": event.request_id, "tokens_lost": event.tokens_lost, "mode": event.mode.value,
                                 "kv_before": event.kv_use_before, "kv_after": event.kv_use_after})  # fmt: skip
        self.chip.step(news)
        if news.batch_size:
            self._output_tokens.inc(len(news.deltas))
            self._step.observe(news.seconds)
            self._batch.observe(news.batch_size)
            self._steps.append({"at": time.time(), "size": news.batch_size, "tokens": news.batch_tokens, "output": len(news.deltas),
                                "ms": 1e3 * news.seconds, "kv": stats.kv_use, "waiting": stats.waiting})  # fmt: skip

    def first_token(self, seconds: float) -> None:
        """An answer began."""
        self._first.observe(seconds)
        self._recent["first_token"].append(seconds)

    def next_token(self, seconds: float) -> None:
        """An answer went on."""
        self._gap.observe(seconds)
        self._recent["per_token"].append(seconds)

    def ended(self, reason: str, seconds: float, prompt_tokens: int) -> None:
        """A request ended: an OpenAI finish reason, `abort`, or an error's code."""
        self._requests.labels(reason).inc()
        if reason in ("stop", "length"):
            self._prompt_tokens.inc(prompt_tokens)
            self._whole.observe(seconds)
            self._recent["request"].append(seconds)

    def engine_restarted(self) -> None:
        """The engine's process died and comes back with an empty cache."""
        self._restarts.inc()
        for gauge in (self._running, self._waiting, self._kv_use):
            gauge.set(0)

    # -- what to show ----------------------------------------------------------------------------------------------

    def prometheus(self) -> bytes:
        """The text format that Prometheus scrapes."""
        return generate_latest(self.registry)

    def recent(self) -> dict[str, Any]:
        """The last steps, latency percentiles in milliseconds, and preemptions, as JSON values."""
        stats = self._stats
        return {
            "steps": list(self._steps),
            "latency_ms": {name: _percentiles(values) for name, values in self._recent.items()},
            "preempted": list(self._events),
            "running": stats.running if stats else 0,
            "waiting": stats.waiting if stats else 0,
            "kv_use": stats.kv_use if stats else 0.0,
            "preemptions": stats.preemptions if stats else 0,
            "prefix_hit_tokens": stats.prefix_hit_tokens if stats else 0,
            "prefix_query_tokens": stats.prefix_query_tokens if stats else 0,
        }

    def _counter(self, name: str, text: str, *labels: str) -> Counter:
        return Counter(f"toprope_{name}", text, labels, registry=self.registry)

    def _gauge(self, name: str, text: str) -> Gauge:
        return Gauge(f"toprope_{name}", text, registry=self.registry)

    def _histogram(self, name: str, text: str, buckets: tuple[float, ...]) -> Histogram:
        return Histogram(f"toprope_{name}", text, registry=self.registry, buckets=buckets)


def _percentiles(values: deque[float]) -> dict[str, float] | None:
    if not values:
        return None
    ordered = sorted(values)
    return {f"p{p}": 1e3 * ordered[min(len(ordered) - 1, len(ordered) * p // 100)] for p in (50, 95, 99)}
