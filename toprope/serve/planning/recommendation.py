"""Chooses one point of a sweep and says why."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from toprope.errors import BadInput
from toprope.serve.planning.plan_sweep import PlanPoint, Slo


@dataclass(frozen=True)
class Recommendation:
    """A point and why."""

    point: PlanPoint
    meets_slo: bool
    reasons: tuple[str, ...]


def recommend(points: Sequence[PlanPoint], slo: Slo) -> Recommendation:
    """The fastest point within the targets, or, if there is none, the one within them for the most requests.

    Throughputs within 1 % are equal; then the lower p99 latency decides, then the smaller batch.
    """
    if not points:
        raise BadInput("nothing was simulated", cure="a batch size must not exceed max_tokens")
    good = [point for point in points if point.meets(slo)]
    pool = good or [point for point in points if point.share_within == max(p.share_within for p in points)]
    fastest = max(point.tokens_per_s for point in pool)
    close = [point for point in pool if point.tokens_per_s >= 0.99 * fastest]
    best = min(close, key=lambda p: (round(p.latency_s, 3), p.settings.max_batch_size))
    reasons = [_verdict(best, slo, bool(good)), _memory(best), _binding(best)]
    reasons += _alternatives(best, points, slo)
    return Recommendation(best, bool(good), tuple(reasons))


def _verdict(best: PlanPoint, slo: Slo, good: bool) -> str:
    numbers = (
        f"p99 time to first token {best.ttft_s:.2f} s (target {slo.ttft_s:g}), "
        f"p99 time per token {best.tpot_s * 1e3:.1f} ms (target {slo.tpot_s * 1e3:g}), {best.tokens_per_s:.0f} tokens/s"
    )
    if good:
        return "meets the targets: " + numbers
    return f"no setting meets the targets; this one does for {best.share_within:.0%} of the requests: {numbers}"


def _memory(best: PlanPoint) -> str:
    text = f"KV cache: {best.kv_blocks} blocks of {best.settings.block_size}, {best.peak_kv_use:.0%} used at most"
    if best.preemptions:
        return f"{text}; {best.preemptions} preemptions computed {best.tokens_lost} tokens twice"
    return f"{text}; no preemption"


def _binding(best: PlanPoint) -> str:
    if best.peak_running == best.settings.max_batch_size:
        return f"the batch size is the limit that binds: {best.peak_running} ran at a time"
    if best.peak_kv_use > 0.98:
        return f"the KV cache is the limit that binds: {best.peak_running} requests fill it"
    return f"the batch size never binds: at most {best.peak_running} of {best.settings.max_batch_size} ran at a time"


def _alternatives(best: PlanPoint, points: Sequence[PlanPoint], slo: Slo) -> list[str]:
    """For each setting, what the nearest other values would have done, all else equal."""
    reasons = []
    for name in ("max_batch_size", "max_tokens", "block_size", "policy"):
        mine = getattr(best.settings, name)
        others = [p for p in points if replace(p.settings, **{name: mine}) == best.settings and p is not best]
        if name != "policy":
            below = [p for p in others if getattr(p.settings, name) < mine]
            above = [p for p in others if getattr(p.settings, name) > mine]
            others = below[-1:] + above[:1]
        for other in others:
            reasons.append(f"{name} {getattr(other.settings, name)} instead of {mine}: {_difference(best, other, slo)}")
    return reasons


def _difference(best: PlanPoint, other: PlanPoint, slo: Slo) -> str:
    if other.refused and not best.refused:
        return f"{other.refused} requests are refused"
    parts = []
    if other.tpot_s > slo.tpot_s >= best.tpot_s:
        parts.append(f"p99 time per token {other.tpot_s * 1e3:.1f} ms misses the target")
    if other.ttft_s > slo.ttft_s >= best.ttft_s:
        parts.append(f"p99 time to first token {other.ttft_s:.2f} s misses the target")
    change = other.tokens_per_s / best.tokens_per_s - 1 if best.tokens_per_s else 0.0
    latency = other.latency_s / best.latency_s - 1 if best.latency_s else 0.0
    parts.append("the same throughput" if abs(change) < 0.01 else f"{change:+.0%} tokens/s")
    parts.append("the same p99 latency" if abs(latency) < 0.01 else f"{latency:+.0%} p99 latency")
    return ", ".join(parts)
