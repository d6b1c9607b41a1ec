"""A pipeline's schedule, pass by pass: when each stage computes what, and how many activations it holds meanwhile."""

from __future__ import annotations

from dataclasses import dataclass

from toprope.errors import BadInput


@dataclass(frozen=True)
class Pass:
    """One pass of one micro-batch on one stage: kind "F" forward, "B" input gradients, "W" weight gradients."""

    stage: int
    kind: str
    micro: int
    chunk: int
    start_s: float
    end_s: float


@dataclass(frozen=True)
class Durations:
    """Seconds of one stage's passes for one micro-batch (one of its parts), and of a send to the next stage."""

    forward: float
    backward_input: float
    backward_weight: float
    send: float = 0.0


def order(stage: int, stages: int, micro: int, chunks: int) -> list[tuple[str, int, int]]:
    """Passes of a stage in one-forward-one-backward order: (kind, micro-batch, part); interleaved for several parts.

    Narayanan et al. 2021, section 2.2: micro-batches go through in groups of `stages`, part by part.
    """
    total = micro * chunks
    if chunks == 1:
        warm = min(stages - stage - 1, total)
    else:
        if micro % stages:
            raise BadInput(f"{micro} micro-batches on {stages} stages", cure="interleaving wants a multiple")
        warm = min(total, (stages - stage - 1) * 2 + (chunks - 1) * stages)

    def unit(number: int, *, backward: bool) -> tuple[int, int]:
        group, rest = divmod(number, stages * chunks)
        part, within = divmod(rest, stages)
        return group * stages + within, (chunks - 1 - part) if backward else part

    def forward(number: int) -> tuple[str, int, int]:
        return ("F", *(unit(number, backward=False) if chunks > 1 else (number, 0)))

    def backward(number: int) -> tuple[str, int, int]:
        return ("B", *(unit(number, backward=True) if chunks > 1 else (number, 0)))

    passes = [forward(n) for n in range(warm)]
    for n in range(total - warm):
        passes += [forward(warm + n), backward(n)]
    return passes + [backward(n) for n in range(total - warm, total)]


def simulate(durations: list[Durations], micro: int, chunks: int = 1, *, zero_bubble: bool = False) -> list[Pass]:
    """All passes with their times. Without `zero_bubble`, B stands for both backward parts.

    With it, weight gradients wait until their stage would idle (Qi et al. 2023, schedule H1: memory as 1F1B's).
    """
    stages = len(durations)
    todo = [order(s, stages, micro, chunks) for s in range(stages)]
    at = [0] * stages
    clock = [0.0] * stages
    waiting: list[list[tuple[int, int]]] = [[] for _ in range(stages)]
    done: dict[tuple[int, str, int, int], float] = {}
    passes: list[Pass] = []

    def ready(stage: int, kind: str, m: int, c: int) -> float | None:
        if kind == "F":
            if stage == 0 and c == 0:
                return 0.0
            before = (stage - 1, "F", m, c) if stage else (stages - 1, "F", m, c - 1)
        elif stage == stages - 1 and c == chunks - 1:
            before = (stage, "F", m, c)
        else:
            before = (stage + 1, "B", m, c) if stage < stages - 1 else (0, "B", m, c + 1)
        when = done.get(before)
        return None if when is None else when + (durations[before[0]].send if before[0] != stage else 0.0)

    def run(stage: int, kind: str, m: int, c: int, start: float) -> None:
        it = durations[stage]
        both = it.backward_input + (0.0 if zero_bubble else it.backward_weight)
        length = {"F": it.forward, "B": both, "W": it.backward_weight}[kind]
        end = start + length
        passes.append(Pass(stage, kind, m, c, start, end))
        clock[stage] = end
        done[stage, kind, m, c] = end

    left = sum(map(len, todo))
    while left:
        moved = False
        for stage in range(stages):
            while at[stage] < len(todo[stage]):
                kind, m, c = todo[stage][at[stage]]
                when = ready(stage, kind, m, c)
                if when is None:
                    break
                while zero_bubble and waiting[stage] and clock[stage] + durations[stage].backward_weight <= when:
                    run(stage, "W", *waiting[stage].pop(0), clock[stage])
                run(stage, kind, m, c, max(when, clock[stage]))
                if kind == "B" and zero_bubble:
                    waiting[stage].append((m, c))
                    if len(waiting[stage]) > stage:  # what 1F1B would hold on the first stage is the room for them
                        run(stage, "W", *waiting[stage].pop(0), clock[stage])
                at[stage] += 1
                left -= 1
                moved = True
        if not moved:
            raise BadInput("the schedule waits for itself", cure="report this: every order here is free of cycles")
    for stage in range(stages):
        for m, c in waiting[stage]:
            run(stage, "W", m, c, clock[stage])
    return sorted(passes, key=lambda p: (p.start_s, p.stage))


def bubble_s(passes: list[Pass]) -> float:
    """Idle time of the busiest stage between start and the end of the last pass."""
    end = max(p.end_s for p in passes)
    busy: dict[int, float] = {}
    for p in passes:
        busy[p.stage] = busy.get(p.stage, 0.0) + p.end_s - p.start_s
    return end - max(busy.values())


def held_over_time(passes: list[Pass], stage: int, each: float) -> list[tuple[float, float]]:
    """(time, bytes of activations) of a stage after each change; `each` is what one micro-batch's part keeps.

    With separate weight gradients, half of it stays until they are made.
    """
    has_weights = any(p.kind == "W" for p in passes)
    changes: list[tuple[float, float]] = []
    for p in passes:
        if p.stage != stage:
            continue
        if p.kind == "F":
            changes.append((p.start_s, each))
        elif p.kind == "B":
            changes.append((p.end_s, -each / 2 if has_weights else -each))
        else:
            changes.append((p.end_s, -each / 2))
    held, points = 0.0, [(0.0, 0.0)]
    for when, change in sorted(changes):
        held += change
        points.append((when, held))
    return points
