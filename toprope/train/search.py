"""The best layout of a model on a cluster: every layout that can be, cut down by memory before its time is asked for."""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import product

from toprope.errors import BadInput
from toprope.hccl.cluster import Cluster
from toprope.train.memory import Memory, card_memory
from toprope.train.shape import TrainModel
from toprope.train.step import StepTime, step_time
from toprope.train.strategy import Batch, Strategy, divisors

_RESERVE_BYTES = 3 * 2**30  # framework, context, fragmentation: assumed


@dataclass(frozen=True)
class Point:
    """A layout with its memory and its time."""

    plan: Strategy
    memory: Memory
    step: StepTime


@dataclass(frozen=True)
class Space:
    """What the search may choose. `None` means: whatever the model and the cluster allow."""

    tp: tuple[int, ...] | None = None
    pp: tuple[int, ...] | None = None
    cp: tuple[int, ...] | None = None
    ep: tuple[int, ...] | None = None
    chunks: tuple[int, ...] = (1, 2, 4)
    zero: tuple[int, ...] = (1, 2, 3)
    micro_batch: tuple[int, ...] = (1, 2, 4, 8)
    recompute: tuple[str, ...] = ("none", "full")
    schedule: tuple[str, ...] = ("1f1b", "zero-bubble")
    offload: tuple[bool, ...] = (False,)
    quantised: tuple[bool, ...] = (False,)


@dataclass(frozen=True)
class Found:
    """The answer: layouts from the fastest on, and how many were looked at."""

    points: tuple[Point, ...]
    looked_at: int
    too_large: int
    smallest: Point | None  # the layout nearest to fitting, where none fits


def layouts(cluster: Cluster, model: TrainModel, batch: Batch, space: Space) -> Iterator[Strategy]:
    """Every layout of the space that the rules allow, `recomputed_layers` still open."""
    decoder = model.decoder
    node = cluster.node_cards()
    near = max(node, cluster.levels[1].cards if cluster.levels[0].cards < 8 and len(cluster.levels) > 1 else node)
    tps = space.tp or tuple(t for t in divisors(cluster.cards) if t <= min(near, 16))
    pps = space.pp or tuple(p for p in divisors(cluster.cards) if p <= min(decoder.layers, 64))
    cps = space.cp or tuple(c for c in (1, 2, 4, 8, 16) if c == 1 or batch.sequence >= 8192 * c)
    for tp, pp, cp in product(tps, pps, cps):
        if cluster.cards % (tp * pp * cp):
            continue
        dp = cluster.cards // (tp * pp * cp)
        eps = space.ep or (
            tuple(e for e in divisors(decoder.experts) if e <= tp * dp * cp) if decoder.experts else (1,)
        )
        forms = _zero_forms(space, node, tp, dp * cp, pp)
        choices = product(eps, forms, space.micro_batch, space.chunks, space.recompute, space.schedule)
        for ep, (zero, cards, secondary, quantised), micro, chunks, recompute, schedule in choices:
            if (chunks > 1 or schedule == "zero-bubble") and (pp == 1 or (chunks > 1 and schedule == "zero-bubble")):
                continue
            for offload in space.offload:
                plan = Strategy(
                    tp=tp,
                    cp=cp,
                    pp=pp,
                    dp=dp,
                    ep=ep,
                    chunks=chunks,
                    zero=zero,
                    zero_cards=cards,
                    secondary=secondary,
                    quantised=quantised,
                    micro_batch=micro,
                    recompute=recompute,
                    schedule=schedule,
                    offload=offload,
                )
                try:
                    plan.check(model, batch)
                except BadInput:
                    continue
                yield plan


def _zero_forms(space: Space, node: int, tp: int, data: int, pp: int) -> list[tuple[int, int, bool, bool]]:
    """ZeRO stage, cards that share, second copy, quantised traffic."""
    local = max(1, node // tp)
    forms: list[tuple[int, int, bool, bool]] = []
    for zero in space.zero:
        if zero >= 2 and (pp > 1 or data == 1):
            continue
        for quantised in space.quantised if zero == 3 else (False,):
            forms.append((zero, 0, False, quantised))
            if zero == 3 and 1 < local < data:
                forms.append((zero, local, False, quantised))
                forms.append((zero, 0, True, quantised))
    return forms


def search(cluster: Cluster, model: TrainModel, batch: Batch, space: Space | None = None, *, keep: int = 10) -> Found:
    """The fastest layouts that fit. Raises `BadInput` when no layout obeys the rules at all."""
    best: list[tuple[float, int, Point]] = []
    looked = large = 0
    nearest: tuple[float, Strategy, Memory] | None = None
    room = cluster.memory_bytes - _RESERVE_BYTES
    for number, plan in enumerate(layouts(cluster, model, batch, space or Space())):
        looked += 1
        fitted = _fit(model, batch, plan, room)
        if fitted is None:
            large += 1
            memory = card_memory(model, batch, plan)
            if nearest is None or memory.total < nearest[0]:
                nearest = (memory.total, plan, memory)
            continue
        plan, memory = fitted
        step = step_time(cluster, model, batch, plan)
        item = (-step.total, -number, Point(plan, memory, step))
        if len(best) < keep:
            heapq.heappush(best, item)
        elif item > best[0]:
            heapq.heapreplace(best, item)
    if looked == 0:
        raise BadInput(
            f"no layout of {model.name} on {cluster.cards} cards takes {batch.samples} samples",
            cure="let the batch be a multiple of the data-parallel degree, or widen the degrees",
        )
    points = tuple(point for _, _, point in sorted(best, key=lambda i: (-i[0], -i[1])))
    smallest = None
    if not points and nearest is not None:
        _, plan, memory = nearest
        smallest = Point(plan, memory, step_time(cluster, model, batch, plan))
    return Found(points, looked, large, smallest)


def _fit(model: TrainModel, batch: Batch, plan: Strategy, room: float) -> tuple[Strategy, Memory] | None:
    """The plan that recomputes as few layers as the memory allows, or None."""
    memory = card_memory(model, batch, plan)
    if memory.total > room:
        return None
    if plan.recompute != "full":
        return plan, memory
    layers = max(plan.layers_of_stages(model.decoder.layers))
    low, high = 1, layers  # more recomputation needs less memory: bisect the smallest count that fits
    while low < high:
        middle = (low + high) // 2
        if card_memory(model, batch, replace(plan, recomputed_layers=middle)).total <= room:
            high = middle
        else:
            low = middle + 1
    plan = replace(plan, recomputed_layers=low)
    return plan, card_memory(model, batch, plan)
