"""Finds serving settings by trying them on a virtual clock."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import product

from toprope.errors import BadInput
from toprope.serve.batching.kv_cache import KvCache
from toprope.serve.batching.policies import POLICY_NAMES, make_policy
from toprope.serve.batching.scheduler import Scheduler, SchedulerLimits
from toprope.serve.planning.capacity import kv_block_count
from toprope.serve.planning.engine_flags import Settings
from toprope.serve.planning.model_shape import ModelShape
from toprope.serve.planning.simulator import SimulationResult, simulate
from toprope.serve.planning.step_cost import ChipRates, RooflineCost, StepCost, SwapCost
from toprope.serve.planning.traffic import Arrival


@dataclass(frozen=True)
class Slo:
    """What users are promised: 99 % of the requests stay below both."""

    ttft_s: float = 1.0
    tpot_s: float = 0.05


@dataclass(frozen=True)
class PlanSpace:
    """The settings to try."""

    batch_sizes: Sequence[int] = (16, 32, 64, 128, 256)
    max_tokens: Sequence[int] = (2048, 8192)
    block_sizes: Sequence[int] = (128,)
    policies: Sequence[str] = POLICY_NAMES

    def settings(self) -> Iterator[Settings]:
        """All combinations that make sense, small batches first."""
        for policy, tokens, block, batch in product(
            self.policies, self.max_tokens, self.block_sizes, sorted(self.batch_sizes)
        ):
            if batch <= tokens:
                yield Settings(policy, batch, tokens, block)


@dataclass(frozen=True)
class PlanPoint:
    """Settings and what they led to; times are 99th percentiles in seconds."""

    settings: Settings
    kv_blocks: int
    tokens_per_s: float
    ttft_s: float
    tpot_s: float
    latency_s: float
    share_within: float  # requests that met both targets
    refused: int
    preemptions: int
    tokens_lost: int
    peak_kv_use: float
    peak_running: int

    def meets(self, slo: Slo) -> bool:
        """True when nobody was refused and both percentiles are within the targets."""
        return not self.refused and self.ttft_s <= slo.ttft_s and self.tpot_s <= slo.tpot_s


@dataclass(frozen=True)
class Planner:
    """One question: this model on this chip under this traffic.

    `kv_blocks` overrides the memory estimate (a number for each block size would not be comparable, so it needs a
    single one). `cost` replaces the roofline, for example by a `KernelCost` or `MeasuredCost`; block moves come on top.
    """

    model: ModelShape
    chip: ChipRates
    arrivals: Sequence[Arrival]
    slo: Slo = Slo()
    max_model_len: int | None = None
    kv_blocks: int | None = None
    cost: StepCost | None = None

    def run(self, settings: Settings) -> tuple[PlanPoint, SimulationResult]:
        """Simulate one point."""
        blocks = self.kv_blocks or kv_block_count(
            self.model,
            self.chip.memory_bytes,
            settings.block_size,
            max_tokens=settings.max_tokens,
            max_batch_size=settings.max_batch_size,
        )
        shares_prefixes = any(arrival.prefix_tokens for arrival in self.arrivals)
        limits = SchedulerLimits(
            settings.max_batch_size, settings.max_tokens, self.max_model_len or self.model.max_model_len
        )
        policy = make_policy(settings.policy, ttft_s=self.slo.ttft_s, tpot_s=self.slo.tpot_s)
        cache = KvCache(blocks, settings.block_size, prefix_caching=shares_prefixes)
        scheduler = Scheduler(cache, limits, policy)
        computing = self.cost or RooflineCost(self.model, self.chip)
        cost = SwapCost(computing, self.model, self.chip, settings.block_size)
        log = logging.getLogger("toprope.serve")
        level = log.level
        log.setLevel(logging.ERROR)  # preemptions are counted in the result; hundreds of log lines would hide it
        try:
            result = simulate(scheduler, cost, self.arrivals)
        finally:
            log.setLevel(level)
        return self._point(settings, blocks, result), result

    def sweep(self, space: PlanSpace, *, progress: Callable[[PlanPoint], None] | None = None) -> list[PlanPoint]:
        """Simulate all settings. A batch size above the most that ever ran changes nothing and is not run again."""
        if self.kv_blocks is not None and len(set(space.block_sizes)) > 1:
            raise BadInput("a fixed number of KV blocks and several block sizes", cure="give one block size")
        points: list[PlanPoint] = []
        for settings in space.settings():
            last = points[-1] if points else None
            smaller = last and replace(last.settings, max_batch_size=settings.max_batch_size) == settings
            unreached = last and last.peak_running < last.settings.max_batch_size
            if last and smaller and unreached and settings.policy != "adaptive":  # it starts from the batch size
                point = replace(last, settings=settings)
            else:
                point, _ = self.run(settings)
                if progress:
                    progress(point)
            points.append(point)
        return points

    def _point(self, settings: Settings, blocks: int, result: SimulationResult) -> PlanPoint:
        return PlanPoint(
            settings=settings,
            kv_blocks=blocks,
            tokens_per_s=result.output_tokens_per_s,
            ttft_s=result.percentile("ttft_s", 0.99),
            tpot_s=result.percentile("tpot_s", 0.99),
            latency_s=result.percentile("latency_s", 0.99),
            share_within=result.share_within(ttft_s=self.slo.ttft_s, tpot_s=self.slo.tpot_s),
            refused=sum(result.refused.values()),
            preemptions=result.preemptions,
            tokens_lost=result.tokens_lost,
            peak_kv_use=result.peak_kv_use,
            peak_running=result.peak_running,
        )


def frontier(points: Sequence[PlanPoint]) -> list[PlanPoint]:
    """The points no other point beats in both throughput and p99 time per token, fastest tokens first."""
    best: list[PlanPoint] = []
    for point in sorted(points, key=lambda p: (p.tpot_s, -p.tokens_per_s)):
        if not best or point.tokens_per_s > best[-1].tokens_per_s:
            best.append(point)
    return best
