"""Where each number of a plan comes from: formula, inputs, source."""

from __future__ import annotations

from dataclasses import dataclass

from toprope.hccl.closed_forms import collective_s
from toprope.hccl.cluster import Cluster
from toprope.train.memory import layer_activation_bytes, pipeline_depth, stage_parameters
from toprope.train.search import Point
from toprope.train.shape import TrainModel
from toprope.train.step import beyond_node_volume, layer_time
from toprope.train.strategy import Batch

_GIB = 2**30


@dataclass(frozen=True)
class Why:
    """One number: its name, value, the formula with the inputs put in, and the source of formula or inputs."""

    name: str
    value: str
    formula: str
    source: str


def explain(cluster: Cluster, model: TrainModel, batch: Batch, point: Point) -> list[Why]:
    """Each part of a plan's memory and step."""
    plan, memory, step, p = point.plan, point.memory, point.step, point.plan.precision
    trained, frozen, experts = stage_parameters(model, plan, memory.stage)
    layers = plan.layers_of_stages(model.decoder.layers)[memory.stage]
    tokens = plan.micro_batch * batch.sequence // plan.cp
    per_layer = layer_activation_bytes(model.decoder, tokens, batch.sequence, plan)
    depth = pipeline_depth(plan, plan.micro_batches(batch), memory.stage)
    layer = layer_time(cluster, model.decoder, tokens, batch.sequence, plan, causal=True)
    gathered, how = collective_s(cluster, "all_gather", plan.shards, plan.tp, 2.0 * (trained + frozen) / layers)
    shared = f" / {plan.shards} cards" if plan.zero >= 3 else ""
    zero = "ZeRO (arXiv 1910.02054)"
    rates = f"cluster {cluster.name}: {cluster.source.get('rates', '')}"

    def gib(value: float) -> str:
        return f"{value / _GIB:.2f} GiB"

    def seconds(value: float) -> str:
        return f"{value:.3f} s"

    state = f"{trained / 1e9:.3f} G trained"
    return [
        Why(
            "weights",
            gib(memory.weights),
            f"({state} + {frozen / 1e9:.3f} G frozen) x {p.weight:g} B{shared} + {experts / 1e9:.3f} G of experts",
            zero,
        ),
        Why("gradients", gib(memory.gradients), f"{state} x {p.gradient:g} B, sharded from ZeRO-2 on", zero),
        Why("optimiser", gib(memory.optimiser), f"{state} x {p.optimiser:g} B, sharded from ZeRO-1 on", zero),
        Why(
            "activations",
            gib(memory.activations),
            f"{layers} layers of stage {memory.stage}, {depth:.2f} micro-batches at once, {gib(per_layer)} a layer that "
            f"is computed again ({plan.recomputed(layers)}); the others keep everything",
            "Korthikanti et al. 2022 (arXiv 2205.05198), equations 1-4",
        ),
        Why("gathered", gib(memory.gathered), "two layers' weights whole and the largest piece's gradient", zero),
        Why("logits", gib(memory.logits), f"{tokens} tokens x {model.vocabulary} / tp {plan.tp} x 6 B", "derived"),
        Why("buffers", gib(memory.buffers), "400 MiB for each communicator", "HCCL_BUFFSIZE, HCCL user guide"),
        Why(
            "compute",
            seconds(step.compute),
            f"{plan.micro_batches(batch)} micro-batches x {layers} layers x {layer.compute - layer.recompute:.4f} s",
            rates,
        ),
        Why("recompute", seconds(step.recompute), f"{plan.recomputed(layers)} layers x {layer.recompute:.4f} s", rates),
        Why(
            "tensor",
            seconds(step.tensor),
            f"a layer sends {layer.tensor_forward + layer.tensor_backward:.4f} s that nothing hides",
            f"collectives: HCCL user guide; {cluster.source.get('level', '')}",
        ),
        Why(
            "pipeline_bubble",
            seconds(step.pipeline_bubble),
            f"(pp - 1) stages / {plan.chunks} parts" + (", less weight gradients" if plan.schedule != "1f1b" else ""),
            "Narayanan et al. 2021 (arXiv 2104.04473), section 2.2; zero bubble: arXiv 2401.10241",
        ),
        Why(
            "pipeline_sends",
            seconds(step.pipeline_sends),
            f"2 (pp - 1) sends, and {2 * plan.chunks} for each micro-batch where parts interleave",
            "Narayanan et al. 2021, section 4.1",
        ),
        Why(
            "data",
            seconds(step.data),
            f"a layer's gather over {plan.shards} cards takes {gathered:.4f} s ({how}); {step.hidden_data:.3f} s of "
            f"traffic ran beside computation; {beyond_node_volume(cluster, model, plan) / 1e9:.2f} GB leave the node",
            "collectives as above; overlap share: cluster file",
        ),
        Why("optimiser step", seconds(step.optimiser), "44 B moved for each parameter that this card updates", rates),
        Why("host", seconds(step.host), "per step", f"{rates} (assumed)"),
        Why("waiting", seconds(step.waiting), f"{cluster.rates.waiting:.2%} for each doubling beyond a node", rates),
        Why(
            "MFU",
            f"{step.mfu:.1%}",
            f"{step.model_flops:.3e} operations / ({plan.cards} x {cluster.rates.peak_tflops:g} TFLOP/s x {step.total:.3f} s)",
            "Narayanan et al. 2021, section 5.1: three passes, attention in full, nothing recomputed counted",
        ),
    ]


def why_it_loses(winner: Point, other: Point) -> str:
    """The part of the step that costs a runner-up most beside the winner."""
    mine, theirs = winner.step.parts(), other.step.parts()
    more = {name: theirs[name] - mine[name] for name in theirs}
    worst = max(more, key=lambda name: more[name])
    late = other.step.total / winner.step.total - 1
    return f"+{late:.1%}: {worst.replace('_', ' ')} takes {more[worst]:.2f} s more"


def binding_limit(cluster: Cluster, point: Point) -> str:
    """What holds the winner back: memory when it is nearly full and layers are recomputed, else its largest lost part."""
    parts = point.step.parts()
    parts.pop("compute")
    name, lost = next(iter(parts.items()))
    full = point.memory.total / cluster.memory_bytes
    if parts.get("recompute", 0.0) > 0 and full > 0.85:
        return f"memory ({full:.0%} full): recomputation costs {parts['recompute'] / point.step.total:.0%} of the step"
    return f"{name.replace('_', ' ')}: {lost / point.step.total:.0%} of the step"
