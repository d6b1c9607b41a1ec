"""Memory of a card, part by part: states, activations, gathered weights, logits, communication buffers."""

from __future__ import annotations

from dataclasses import dataclass, replace

from toprope.train.shape import Stack, TrainModel
from toprope.train.strategy import Batch, Strategy

_HCCL_BUFFER_BYTES = 2 * 200 * 2**20  # HCCL_BUFFSIZE, twice for each communicator (HCCL user guide)


@dataclass(frozen=True)
class Memory:
    """Bytes of one card, by part, at the fullest moment of a step."""

    stage: int
    weights: float
    gradients: float
    optimiser: float
    activations: float
    gathered: float
    logits: float
    buffers: float

    @property
    def states(self) -> float:
        """Weights, gradients and optimiser states."""
        return self.weights + self.gradients + self.optimiser

    @property
    def total(self) -> float:
        """All parts."""
        return self.states + self.activations + self.gathered + self.logits + self.buffers

    def parts(self) -> dict[str, float]:
        """The parts by name, largest first."""
        names = ("weights", "gradients", "optimiser", "activations", "gathered", "logits", "buffers")
        return dict(sorted(((n, getattr(self, n)) for n in names), key=lambda item: -item[1]))


def card_memory(model: TrainModel, batch: Batch, plan: Strategy, *, buffers: bool = True) -> Memory:
    """Memory of the card that needs most. Formulas: Korthikanti et al. 2022 (activations), Rajbhandari et al. 2020 (ZeRO)."""
    stages = {0, plan.pp - 1} | ({plan.pp // 2} if plan.pp > 2 else set())
    return max((stage_memory(model, batch, plan, s, buffers=buffers) for s in sorted(stages)), key=lambda m: m.total)


def stage_memory(model: TrainModel, batch: Batch, plan: Strategy, stage: int, *, buffers: bool = True) -> Memory:
    """Memory of a card of one pipeline stage."""
    trained, frozen, experts = stage_parameters(model, plan, stage)
    layers = plan.layers_of_stages(model.decoder.layers)[stage]
    held = _held(trained + frozen, plan.precision.weight, plan, 3) + plan.precision.weight * experts
    weights = held
    if plan.secondary and plan.zero == 3:
        weights += plan.precision.weight * (trained + frozen) / 8  # the node's own copy (ZeRO++, arXiv 2306.10209)
    expert_copies = max(1, plan.dp * plan.cp * plan.tp // plan.ep)
    gradients = _held(trained, plan.precision.gradient, plan, 2) + plan.precision.gradient * experts
    optimiser = _held(trained, plan.precision.optimiser, plan, 1)
    optimiser += plan.precision.optimiser * experts / (expert_copies if plan.zero >= 1 else 1)
    last = stage == plan.pp - 1
    return Memory(
        stage=stage,
        weights=weights,
        gradients=gradients,
        optimiser=0.0 if plan.offload else optimiser,
        activations=_activations(model, batch, plan, stage, layers),
        gathered=_gathered(model, plan) if plan.zero == 3 and plan.shards > 1 else 0.0,
        logits=_logits(model, batch, plan) if last else 0.0,
        buffers=_buffers(plan) if buffers else 0.0,
    )


def stage_parameters(model: TrainModel, plan: Strategy, stage: int) -> tuple[float, float, float]:
    """Parameters that a card of a stage holds before ZeRO: trained, frozen, routed experts'."""
    decoder = model.decoder
    layers = plan.layers_of_stages(decoder.layers)[stage]
    dense = min(decoder.dense_first, layers) if stage == 0 else 0
    own = ((layers - dense) * decoder.shared_layer_parameters + dense * decoder.dense_layer_parameters) / plan.tp
    experts = (layers - dense) * decoder.expert_layer_parameters / plan.ep if decoder.experts else 0.0
    first, last = stage == 0, stage == plan.pp - 1
    if first:
        own += model.embedding_parameters / plan.tp
    if last and not (first and model.tied_embeddings):
        own += model.head_parameters / plan.tp  # a tied head on another stage is a copy
    trained, frozen = (own, 0.0) if decoder.trained else (0.0, own)
    if not decoder.trained:
        frozen, experts = frozen + experts, 0.0
    if first:
        for stack in model.encoders:
            share = stack.parameters / plan.tp
            trained, frozen = (trained + share, frozen) if stack.trained else (trained, frozen + share)
        projector = float(model.projector_parameters)
        trained += projector if model.projector_trained else 0.0
        frozen += 0.0 if model.projector_trained else projector
    return trained, frozen, experts


def _held(parameters: float, bytes_each: float, plan: Strategy, from_zero: int) -> float:
    return parameters * bytes_each / (plan.shards if plan.zero >= from_zero else 1)


def layer_activation_bytes(stack: Stack, tokens: float, sequence: int, plan: Strategy) -> float:
    """Bytes that one layer keeps for its backward pass; `tokens` are a micro-batch's on this card (after cp).

    Plain layers: Korthikanti et al. 2022, equations 1 to 4 and table 2: sbh(10 + 24/t + 5as/(ht)), all over t with sequence
    parallelism, 5as/(ht) away with selective recomputation or fused attention, 2sbh in full recomputation. Gated and
    grouped-query layers keep what their own products and activations read: no dropout masks, three feed-forward arrays.
    """
    t = plan.tp
    spread = t if plan.sequence_parallel else 1
    if plan.recompute == "full":
        return 2.0 * tokens * stack.hidden / spread
    keep_scores = plan.recompute == "none" and not plan.flash
    scores = 5.0 * stack.heads * sequence / t * tokens if keep_scores else 0.0
    if stack.matrices == 2:
        per_token = stack.hidden * (10.0 / spread + 24.0 / t)
    else:
        kv = 2 * stack.kv_heads * stack.head_size
        wide = stack.heads * stack.head_size
        feed = stack.feed_forward * (stack.active + stack.shared if stack.experts else 1)
        # Two norms' inputs and outputs; queries, keys, values; attention's output; gate, up, their product and SiLU.
        per_token = 2.0 * 4 * stack.hidden / spread + 2.0 * (2 * wide + kv) / t + 2.0 * 4 * feed / t
    return tokens * per_token + scores


def _activations(model: TrainModel, batch: Batch, plan: Strategy, stage: int, layers: int) -> float:
    decoder = model.decoder
    tokens = plan.micro_batch * batch.sequence / plan.cp
    again = plan.recomputed(layers)
    in_flight = pipeline_depth(plan, plan.micro_batches(batch), stage)
    kept = again * layer_activation_bytes(decoder, tokens, batch.sequence, plan) * in_flight
    if again < layers or plan.recompute == "full":
        whole = layer_activation_bytes(decoder, tokens, batch.sequence, replace(plan, recompute="none"))
        # The layer that is being computed again has all its activations for a moment.
        kept += whole * ((layers - again) * in_flight + (plan.recompute == "full"))
    if stage == 0:
        images = plan.micro_batch * batch.images
        for stack in model.encoders:
            if stack.trained:
                image_tokens = images * model.image_tokens
                kept += stack.layers * layer_activation_bytes(stack, image_tokens, model.image_tokens, plan) * in_flight
    return kept


def pipeline_depth(plan: Strategy, micro_batches: int, stage: int) -> float:
    """Micro-batches whose activations a stage holds at once, in units of the stage's own layers.

    One-forward-one-backward: p - stage; interleaved, first stage: p (1 + (p - 1)/(p m)), Korthikanti et al. section 4.2.3.
    """
    p = plan.pp
    if p == 1:
        return 1.0
    depth = float(p - stage)
    if plan.chunks > 1:
        depth = p * (1 + (p - 1) / (p * plan.chunks)) - 2.0 * stage / plan.chunks
    return min(depth, float(micro_batches))


def _gathered(model: TrainModel, plan: Strategy) -> float:
    """ZeRO-3: two layers' weights whole (one in use, one on its way) and the largest piece's gradient in float32."""
    decoder = model.decoder
    layer = (decoder.shared_layer_parameters) / plan.tp
    largest = max(layer, model.embedding_parameters / plan.tp)
    return 2 * plan.precision.weight * layer + plan.precision.gradient * largest


def _logits(model: TrainModel, batch: Batch, plan: Strategy) -> float:
    """Logits in bfloat16 and float32 and their gradient, cut by tensor parallelism."""
    tokens = plan.micro_batch * batch.sequence / plan.cp
    return tokens * model.vocabulary / plan.tp * (2.0 + 4.0)


def _buffers(plan: Strategy) -> float:
    degrees = (plan.tp, plan.cp, plan.pp, plan.dp, plan.ep)
    return _HCCL_BUFFER_BYTES * sum(d > 1 for d in degrees)
