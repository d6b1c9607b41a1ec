"""Time of a training step: what each layer computes and sends, what hides behind what, and what the pipeline adds."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

from toprope.hccl.closed_forms import beyond_node_bytes, collective_s
from toprope.hccl.cluster import Cluster
from toprope.train.memory import stage_parameters
from toprope.train.shape import Product, Stack, TrainModel
from toprope.train.strategy import Batch, Strategy


@dataclass(frozen=True)
class LayerTime:
    """Seconds of one layer for one micro-batch on one card."""

    forward: float
    backward_input: float
    backward_weight: float
    recompute: float
    tensor_forward: float  # tensor- and context-parallel, expert traffic, in the forward pass
    tensor_backward: float
    tensor_again: float  # of a forward pass that is computed again

    @property
    def compute(self) -> float:
        """Arithmetic and memory work, all passes."""
        return self.forward + self.backward_input + self.backward_weight + self.recompute


@dataclass(frozen=True)
class StepTime:
    """Seconds of a step by part; the parts add up to `total`."""

    compute: float
    recompute: float
    tensor: float
    pipeline_bubble: float
    pipeline_sends: float
    data: float  # exposed part of gradient and ZeRO traffic
    optimiser: float
    host: float
    waiting: float  # for the slowest card
    hidden_data: float  # traffic that ran beside computation: not in the total
    model_flops: float
    peak_flops: float

    @property
    def total(self) -> float:
        """Seconds of the step."""
        return (
            self.compute
            + self.recompute
            + self.tensor
            + self.pipeline_bubble
            + self.pipeline_sends
            + self.data
            + self.optimiser
            + self.host
            + self.waiting
        )

    @property
    def mfu(self) -> float:
        """Model operations over what all cards could do in that time."""
        return self.model_flops / (self.peak_flops * self.total)

    def parts(self) -> dict[str, float]:
        """Parts of the total by name, largest first."""
        names = (
            "compute",
            "recompute",
            "tensor",
            "pipeline_bubble",
            "pipeline_sends",
            "data",
            "optimiser",
            "host",
            "waiting",
        )
        return dict(sorted(((n, getattr(self, n)) for n in names), key=lambda item: -item[1]))


@lru_cache(maxsize=4096)
def layer_time(
    cluster: Cluster, stack: Stack, tokens: int, sequence: int, plan: Strategy, *, causal: bool
) -> LayerTime:
    """Seconds of one layer; `tokens` are a micro-batch's on one card after context parallelism."""
    forward, attention = _layer_forward(cluster, stack, tokens, sequence, plan, causal=causal)
    recompute = {"none": 0.0, "selective": 0.0 if plan.flash else attention, "full": forward}[plan.recompute]
    fused = attention * 0.5 if plan.flash else 0.0  # fused attention's backward pass computes its scores again
    one_way = _layer_traffic(cluster, stack, tokens, sequence, plan)
    # A frozen layer passes gradients on but makes none for its weights.
    weights = forward - attention if stack.trained else 0.0
    return LayerTime(
        forward=forward,
        backward_input=forward + attention + fused,
        backward_weight=weights,
        recompute=recompute,
        tensor_forward=one_way,
        tensor_backward=_backward_traffic(one_way, weights, plan),
        tensor_again=one_way if plan.recompute == "full" else 0.0,
    )


def _backward_traffic(one_way: float, weights: float, plan: Strategy) -> float:
    """Exposed traffic of a backward pass.

    Megatron sends the input gradients of column-cut products while it computes their weight gradients (7 of a plain layer's
    12 h^2). With sequence parallelism that is half of the traffic; the gathers before row-cut products wait.
    """
    may_hide = one_way * (0.5 if plan.sequence_parallel and plan.tp > 1 else 1.0)
    return one_way - min(may_hide, 7 / 12 * weights)


def _layer_forward(
    cluster: Cluster, stack: Stack, tokens: int, sequence: int, plan: Strategy, *, causal: bool
) -> tuple[float, float]:
    """Forward seconds of a layer and, of those, attention's core (scores, softmax, values)."""
    rates, t = cluster.rates, plan.tp
    products = sum(rates.product_s(tokens, *_cut(p, t)) for p in (*stack.attention, *stack.feed_forward_parts))
    if stack.experts:
        # Balanced routing: the group's tokens (each card holds tokens / tp of them) spread evenly over all experts.
        rows = tokens / t * plan.ep * stack.active / stack.experts
        products += stack.experts / plan.ep * sum(rates.product_s(rows, p.inner, p.columns) for p in stack.expert_parts)
    core_flops = 4.0 * tokens * sequence * stack.attention_width / t
    spread = t if plan.sequence_parallel else 1
    wide = stack.feed_forward * (stack.active + stack.shared if stack.experts else 1)
    # Norms, residuals, dropout: 22 bytes of each element of the stream; activation: 8 bytes of a plain, 10 of a gated one.
    moved = tokens * (22.0 * stack.hidden / spread + (8.0 if stack.matrices == 2 else 10.0) * wide / t)
    if plan.flash:
        attention = rates.attention_s(core_flops * (0.5 if causal else 1.0))
    else:
        scores = stack.heads / t * tokens * sequence
        head = stack.head_size
        attention = rates.product_s(tokens * stack.heads / t, head, sequence) * 2 + rates.memory_s(9.0 * scores)
    return products + attention + rates.memory_s(moved), attention


def _cut(product: Product, tp: int) -> tuple[float, float]:
    if product.split == "columns":
        return product.inner, product.columns / tp
    if product.split == "rows":
        return product.inner / tp, product.columns
    return product.inner, product.columns


def _layer_traffic(cluster: Cluster, stack: Stack, tokens: int, sequence: int, plan: Strategy) -> float:
    """Seconds of a layer's own traffic in one direction: tensor, context and expert parallel, not overlapped."""
    seconds = 0.0
    stream = 2.0 * tokens * stack.hidden
    if plan.tp > 1:
        if plan.sequence_parallel:
            gather, _ = collective_s(cluster, "all_gather", plan.tp, 1, stream)
            scatter, _ = collective_s(cluster, "reduce_scatter", plan.tp, 1, stream)
            seconds += 2 * (gather + scatter)
        else:
            seconds += 2 * collective_s(cluster, "all_reduce", plan.tp, 1, stream)[0]
    if plan.cp > 1:
        keys = 2.0 * 2 * tokens * stack.kv_heads * stack.head_size / min(plan.tp, stack.kv_heads)
        sent, _ = collective_s(cluster, "all_gather", plan.cp, plan.tp, keys * plan.cp)
        beside = cluster.rates.attention_s(2.0 * tokens * sequence * stack.attention_width / plan.tp)
        seconds += max(sent - beside, sent / plan.cp)  # a ring of blocks: the first block has nothing to hide behind
    if stack.experts and plan.ep > 1:
        routed = stream / plan.tp * stack.active
        seconds += 2 * collective_s(cluster, "all_to_all", plan.ep, 1, routed)[0]
    return seconds


def step_time(cluster: Cluster, model: TrainModel, batch: Batch, plan: Strategy) -> StepTime:
    """Predicted step of a checked layout."""
    micro = plan.micro_batches(batch)
    stages = plan.layers_of_stages(model.decoder.layers)
    tokens = plan.micro_batch * batch.sequence // plan.cp
    layer = layer_time(cluster, model.decoder, tokens, batch.sequence, plan, causal=True)
    ends = _ends(cluster, model, batch, plan, tokens)
    stage_compute = [n * (layer.compute - layer.recompute) + e.compute for n, e in zip(stages, ends, strict=True)]
    stage_recompute = [plan.recomputed(n) * layer.recompute for n in stages]
    stage_tensor = [
        n * (layer.tensor_forward + layer.tensor_backward) + plan.recomputed(n) * layer.tensor_again + e.tensor
        for n, e in zip(stages, ends, strict=True)
    ]
    whole = [c + r + t for c, r, t in zip(stage_compute, stage_recompute, stage_tensor, strict=True)]
    slow = max(range(plan.pp), key=whole.__getitem__)
    bubble = _bubble(plan, whole, layer, stages[slow])
    sends = _sends(cluster, model, batch, plan, micro, tokens)
    exposed, hidden = _data_traffic(cluster, model, plan, micro, layer, stages)
    trained, _, experts = stage_parameters(model, plan, 0)
    updated = trained / (plan.shards if plan.zero >= 1 else 1) + experts
    if plan.offload:
        optimiser = updated * (plan.precision.optimiser * 2 + 4) / (cluster.rates.host_gbps * 1e9)
    else:
        optimiser = cluster.rates.memory_s(updated * (2 * plan.precision.optimiser + 20))
    host = cluster.rates.host_ms * 1e-3
    alone = micro * whole[slow] + bubble + sends + exposed + optimiser + host
    doublings = math.log2(max(1.0, plan.cards / cluster.node_cards()))
    return StepTime(
        compute=micro * stage_compute[slow],
        recompute=micro * stage_recompute[slow],
        tensor=micro * stage_tensor[slow],
        pipeline_bubble=bubble,
        pipeline_sends=sends,
        data=exposed,
        optimiser=optimiser,
        host=host,
        waiting=alone * cluster.rates.waiting * doublings,
        hidden_data=hidden,
        model_flops=model.step_flops(batch.samples, batch.sequence, batch.images),
        peak_flops=cluster.rates.peak_tflops * 1e12 * plan.cards,
    )


@dataclass(frozen=True)
class _End:
    compute: float = 0.0
    tensor: float = 0.0


def _ends(cluster: Cluster, model: TrainModel, batch: Batch, plan: Strategy, tokens: int) -> list[_End]:
    """What first and last stage do beside their decoder layers: encoders, embeddings, head and loss."""
    compute, tensor = [0.0] * plan.pp, [0.0] * plan.pp
    rates = cluster.rates
    passes_gradients = False
    for stack in model.encoders:
        passes_gradients = passes_gradients or stack.trained
        image_tokens = round(plan.micro_batch * batch.images * model.image_tokens)
        if not image_tokens:
            continue
        one = layer_time(cluster, stack, image_tokens, model.image_tokens, plan, causal=False)
        forward_only = not passes_gradients
        compute[0] += stack.layers * (one.forward if forward_only else one.compute)
        tensor[0] += stack.layers * (one.tensor_forward + (0.0 if forward_only else one.tensor_backward))
    head = rates.product_s(tokens, model.decoder.hidden, model.vocabulary / plan.tp)
    loss = rates.memory_s(tokens * model.vocabulary / plan.tp * 14.0)  # logits written, read for maximum, sum, gradient
    compute[-1] += 3 * head + loss
    compute[0] += rates.memory_s(tokens * model.decoder.hidden * 8.0)
    return [_End(c, t) for c, t in zip(compute, tensor, strict=True)]


def _bubble(plan: Strategy, whole: list[float], layer: LayerTime, layers: int) -> float:
    """Idle time of the slowest stage while the pipeline fills and drains."""
    if plan.pp == 1:
        return 0.0
    others = (sum(whole) - max(whole)) / plan.chunks
    if plan.schedule == "zero-bubble":  # weight gradients fill it: (p - 1)(F + B - W), Qi et al. 2023, schedule H1
        others = max(0.0, others - 2 * (plan.pp - 1) * layers * layer.backward_weight)
    return others


def _sends(cluster: Cluster, model: TrainModel, batch: Batch, plan: Strategy, micro: int, tokens: int) -> float:
    """Activations between stages: sent beside computation but for the filling and draining, and per interleaved part."""
    if plan.pp == 1:
        return 0.0
    level = cluster.group(plan.pp, plan.tp * plan.cp * plan.dp)[-1][0]
    size = (
        2.0 * tokens * model.decoder.hidden / plan.tp
    )  # scattered over tensor-parallel cards, gathered inside the node
    one = level.latency_s + size / level.bytes_per_s
    one += collective_s(cluster, "all_gather", plan.tp, 1, size * plan.tp)[0]
    exposed = 2 * (plan.pp - 1) * one
    # Interleaving sends `chunks` times as often, in between passes that are that much shorter: not hidden by Megatron.
    return exposed + (2 * micro * plan.chunks * one if plan.chunks > 1 else 0.0)


def _data_traffic(
    cluster: Cluster, model: TrainModel, plan: Strategy, micro: int, layer: LayerTime, stages: list[int]
) -> tuple[float, float]:
    """Exposed and hidden seconds of gradient and ZeRO traffic of a step."""
    if plan.dp * plan.cp == 1:
        return 0.0, 0.0
    stride = plan.tp
    size = plan.dp * plan.cp
    trained, frozen, experts = stage_parameters(model, plan, 0)
    traffic = 0.0
    gradient_bytes = (0.5 if plan.quantised else plan.precision.gradient) * trained
    weight_bytes = (1.0 if plan.quantised else plan.precision.weight) * (trained + frozen)
    per_layer = max(1, stages[0])
    passes = micro if plan.zero == 3 else 1

    def layerwise(kind: str, size_bytes: float, cards: int, apart: int) -> float:
        return per_layer * collective_s(cluster, kind, cards, apart, size_bytes / per_layer)[0]

    shards = plan.shards
    if plan.zero <= 1:
        if plan.zero == 0:
            traffic += layerwise("all_reduce", gradient_bytes, size, stride)
        else:
            traffic += layerwise("reduce_scatter", gradient_bytes, size, stride)
            traffic += layerwise("all_gather", weight_bytes, size, stride)
    else:
        traffic += layerwise("reduce_scatter", gradient_bytes, shards, stride) * micro
        if plan.zero == 2:
            traffic += layerwise("all_gather", weight_bytes, shards, stride)
        if shards < size:  # replicas of the sharded copies reduce their share of the gradients once a step
            traffic += layerwise("all_reduce", gradient_bytes / shards, size // shards, stride * shards)
    if plan.zero == 3:
        forward = layerwise("all_gather", weight_bytes, shards, stride)
        near = max(1, cluster.node_cards() // plan.tp) if plan.secondary else shards
        backward = (
            layerwise("all_gather", plan.precision.weight * (trained + frozen), near, stride)
            if plan.secondary
            else forward
        )
        traffic += passes * (forward + backward)
    if experts:
        copies = max(1, size * plan.tp // plan.ep)
        traffic += collective_s(cluster, "all_reduce", copies, plan.ep, plan.precision.gradient * experts)[0]
    compute = stages[0] * (layer.compute + layer.tensor_forward + layer.tensor_backward)
    beside = compute * passes if plan.zero == 3 else stages[0] * (layer.backward_input + layer.backward_weight)
    ahead = plan.zero < 3 or 2 * model.decoder.shared_layer_parameters / plan.tp <= plan.live_parameters
    hidden = min(traffic, beside) * cluster.rates.overlap if plan.overlap and ahead else 0.0
    return traffic - hidden, hidden


def beyond_node_volume(cluster: Cluster, model: TrainModel, plan: Strategy) -> float:
    """Bytes one card sends beyond its node in one micro-batch's weight and gradient traffic, 16-bit elements."""
    trained, frozen, _ = stage_parameters(model, plan, 0)
    size, stride = (plan.shards if plan.zero >= 2 else plan.dp * plan.cp), plan.tp
    gradients = 2.0 * trained * (0.25 if plan.quantised else 1.0)
    volume = beyond_node_bytes(cluster, "reduce_scatter", size, stride, gradients)
    if size < plan.dp * plan.cp:  # replicas of the shards meet once
        volume += beyond_node_bytes(cluster, "all_reduce", plan.dp * plan.cp // size, stride * size, gradients / size)
    if plan.zero == 3:
        forward = beyond_node_bytes(
            cluster, "all_gather", size, stride, 2.0 * (trained + frozen) * (0.5 if plan.quantised else 1.0)
        )
        volume += forward + (0.0 if plan.secondary else forward)
    return volume
