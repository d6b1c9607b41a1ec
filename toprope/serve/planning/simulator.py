"""The scheduler on a virtual clock."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from toprope.serve.batching.request import FinishReason, Request
from toprope.serve.batching.scheduler import Scheduler
from toprope.serve.errors import ServeError
from toprope.serve.planning.step_cost import StepCost
from toprope.serve.planning.traffic import Arrival


@dataclass(frozen=True)
class Served:
    """What one request experienced, in seconds."""

    arrival_s: float
    ttft_s: float  # arrival to first token
    tpot_s: float  # mean time between the tokens after the first; 0 for a single token
    latency_s: float  # arrival to last token
    output_tokens: int
    preemptions: int


@dataclass(frozen=True)
class StepSample:
    """The state after one step."""

    now_s: float
    running: int
    waiting: int
    kv_use: float
    decodes: int


@dataclass(frozen=True)
class SimulationResult:
    """What a run showed."""

    served: tuple[Served, ...]
    refused: dict[str, int]  # error code → requests
    steps: tuple[StepSample, ...]
    duration_s: float  # first arrival to last token
    preemptions: int
    tokens_lost: int
    prefix_hit_share: float  # of the prompt tokens admitted

    @property
    def output_tokens_per_s(self) -> float:
        """Generated tokens over the whole duration."""
        return sum(one.output_tokens for one in self.served) / self.duration_s if self.duration_s else 0.0

    @property
    def peak_running(self) -> int:
        """The most requests that ran at a time."""
        return max((step.running for step in self.steps), default=0)

    @property
    def peak_kv_use(self) -> float:
        """Highest share of KV blocks in use, 0..1."""
        return max((step.kv_use for step in self.steps), default=0.0)

    def percentile(self, what: str, share: float) -> float:
        """Percentile of `ttft_s`, `tpot_s` or `latency_s` over the served requests, `share` in 0..1."""
        values = [getattr(one, what) for one in self.served]
        return float(np.quantile(values, share)) if values else float("inf")

    def share_within(self, *, ttft_s: float, tpot_s: float) -> float:
        """Share of all requests, refused ones included, that met both targets."""
        good = sum(1 for one in self.served if one.ttft_s <= ttft_s and one.tpot_s <= tpot_s)
        total = len(self.served) + sum(self.refused.values())
        return good / total if total else 0.0


def simulate(scheduler: Scheduler, cost: StepCost, arrivals: Sequence[Arrival]) -> SimulationResult:
    """Serve `arrivals` (sorted by time) with the real scheduler, taking the time of each step from `cost`.

    Outputs have the length the traffic says; every request ends by its `max_tokens`. A step that `cost` puts at
    zero seconds would freeze the clock and raises `ValueError`.
    """
    now = arrivals[0].arrival_s if arrivals else 0.0
    first = now
    requests: list[Request] = []
    refused: dict[str, int] = {}
    steps: list[StepSample] = []
    upcoming = 0
    while upcoming < len(arrivals) or scheduler.has_work:
        if not scheduler.has_work:
            now = max(now, arrivals[upcoming].arrival_s)
        while upcoming < len(arrivals) and arrivals[upcoming].arrival_s <= now:
            request = _request(upcoming, arrivals[upcoming])
            upcoming += 1
            try:
                scheduler.add(request)
                requests.append(request)
            except ServeError as error:
                refused[error.code] = refused.get(error.code, 0) + 1
        if not scheduler.has_work:
            continue
        batch = scheduler.step(now)
        duration_s = cost.step_s(batch)
        if duration_s <= 0:
            raise ValueError(f"step {batch.step} takes {duration_s} s by {type(cost).__name__}; time must pass")
        now += duration_s
        stats = scheduler.stats()
        sample = StepSample(now, stats.running, stats.waiting, stats.kv_use, batch.decode_count)
        scheduler.update(batch, {entry.request.id: 0 for entry in batch.entries if entry.samples}, now)
        steps.append(sample)
    stats = scheduler.stats()
    return SimulationResult(
        served=tuple(_served(request) for request in requests if request.finish_reason is FinishReason.LENGTH),
        refused=refused,
        steps=tuple(steps),
        duration_s=now - first,
        preemptions=stats.preemptions,
        tokens_lost=stats.tokens_lost,
        prefix_hit_share=stats.prefix_hit_tokens / stats.prefix_query_tokens if stats.prefix_query_tokens else 0.0,
    )


def _request(number: int, arrival: Arrival) -> Request:
    # Token values only matter to the prefix cache: equal within a shared prefix, unique after it.
    shared = range(-(arrival.prefix + 1) * 1_000_000, -(arrival.prefix + 1) * 1_000_000 + arrival.prefix_tokens)
    own = [number] * (arrival.prompt_tokens - arrival.prefix_tokens)
    return Request(f"r{number}", [*shared, *own], arrival.output_tokens, arrival_s=arrival.arrival_s)


def _served(request: Request) -> Served:
    assert request.first_token_s is not None and request.finished_s is not None, "a finished request has its times"
    following = request.output_length - 1
    decode_s = request.finished_s - request.first_token_s
    return Served(
        arrival_s=request.arrival_s,
        ttft_s=request.first_token_s - request.arrival_s,
        tpot_s=decode_s / following if following else 0.0,
        latency_s=request.finished_s - request.arrival_s,
        output_tokens=request.output_length,
        preemptions=request.preemptions,
    )
