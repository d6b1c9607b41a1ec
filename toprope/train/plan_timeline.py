"""A plan over time: the passes of every pipeline stage, what each stage holds meanwhile, and the parts of a step behind the last pass."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from toprope.hccl.cluster import Cluster
from toprope.train.memory import layer_activation_bytes
from toprope.train.schedule import Durations, Pass, held_over_time, simulate
from toprope.train.search import Point
from toprope.train.shape import TrainModel
from toprope.train.step import layer_time
from toprope.train.strategy import Batch

_NAMES = {"F": "forward", "B": "backward", "W": "weight gradients"}
# Parts of a step that the passes do not contain: exposed traffic of data parallelism, the optimiser and what the host adds.
_IN_PASSES = ("compute", "recompute", "tensor", "context", "expert", "bubble", "pipeline")


@dataclass(frozen=True)
class PlanTimeline:
    """`passes` of `shown` micro-batches of `micro`; `each` bytes of activations that one pass of the first stage keeps; `after` in seconds."""

    passes: tuple[Pass, ...]
    stages: int
    micro: int
    shown: int
    each: float
    after: tuple[tuple[str, float], ...]

    @property
    def end_s(self) -> float:
        """When the last pass shown ends."""
        return max(p.end_s for p in self.passes)


def plan_timeline(
    cluster: Cluster, model: TrainModel, batch: Batch, point: Point, most_micro: int = 32
) -> PlanTimeline:
    """Of the decoder's layers; an encoder's time is in the parts of the step, not in the passes."""
    plan = point.plan
    tokens = plan.micro_batch * batch.sequence // plan.cp
    layer = layer_time(cluster, model.decoder, tokens, batch.sequence, plan, causal=True)
    stages = plan.layers_of_stages(model.decoder.layers)
    durations = [
        Durations(
            n * (layer.forward + layer.tensor_forward) / plan.chunks,
            n * (layer.backward_input + layer.tensor_backward + layer.recompute) / plan.chunks,
            n * layer.backward_weight / plan.chunks,
        )
        for n in stages
    ]
    micro = plan.micro_batches(batch)
    shown = min(micro, most_micro)
    shown -= shown % plan.pp if plan.chunks > 1 else 0
    shown = max(shown, plan.pp)
    passes = simulate(durations, shown, plan.chunks, zero_bubble=plan.schedule == "zero-bubble")
    each = layer_activation_bytes(model.decoder, tokens, batch.sequence, plan) * stages[0] / plan.chunks
    after = tuple((n, s) for n, s in point.step.parts().items() if s and not n.startswith(_IN_PASSES))
    return PlanTimeline(tuple(passes), len(stages), micro, shown, each, after)


def perfetto(timeline: PlanTimeline, title: str) -> dict[str, Any]:
    """The trace-event document that ui.perfetto.dev opens: a row and a counter of activations for each stage."""
    events: list[dict[str, Any]] = [_meta(0, 0, "process_name", title)]
    for stage in range(timeline.stages):
        events.append(_meta(0, stage + 1, "thread_name", f"stage {stage}"))
        held = held_over_time(list(timeline.passes), stage, timeline.each)
        name = f"activations of stage {stage} (GiB)"
        events += [{"ph": "C", "pid": 0, "name": name, "ts": 1e6 * t, "args": {"GiB": v / 2**30}} for t, v in held]
    for p in timeline.passes:
        about = {"micro-batch": p.micro, "model part": p.chunk}
        events.append(_slice(p.stage + 1, f"{_NAMES[p.kind]} {p.micro}", p.start_s, p.end_s, _NAMES[p.kind], about))
    at = timeline.end_s
    for name, seconds in timeline.after:
        for stage in range(timeline.stages):
            events.append(_slice(stage + 1, name.replace("_", " "), at, at + seconds, "after the passes", {}))
        at += seconds
    said = f"{timeline.shown} of {timeline.micro} micro-batches; parts of the step that no pass contains follow the last pass"
    return {"traceEvents": events, "displayTimeUnit": "ms", "otherData": {"shown": said}}


def _meta(pid: int, tid: int, what: str, name: str) -> dict[str, Any]:
    return {"ph": "M", "pid": pid, "tid": tid, "name": what, "args": {"name": name}}


def _slice(tid: int, name: str, start_s: float, end_s: float, kind: str, about: dict[str, Any]) -> dict[str, Any]:
    return {
        "ph": "X",
        "pid": 0,
        "tid": tid,
        "name": name,
        "cat": kind,
        "ts": 1e6 * start_s,
        "dur": 1e6 * (end_s - start_s),
        "args": about,
    }
