"""A layout: how a model, its states and a batch are dealt out over the cards."""

from __future__ import annotations

import math
from dataclasses import dataclass

from toprope.errors import BadInput
from toprope.train.shape import TrainModel


@dataclass(frozen=True)
class Batch:
    """The work of one step: samples, tokens of each in the decoder, images in each."""

    samples: int
    sequence: int
    images: float = 0.0

    @property
    def tokens(self) -> int:
        """Decoder tokens of the step."""
        return self.samples * self.sequence


@dataclass(frozen=True)
class Precision:
    """Bytes of each parameter's states.

    Defaults: Megatron's bfloat16 mixed precision with float32 gradients (2 + 4 + 12 = 18). ZeRO's own: 2 + 2 + 12 = 16.
    """

    weight: float = 2.0
    gradient: float = 4.0
    optimiser: float = 12.0

    @property
    def total(self) -> float:
        """Bytes of one parameter with all its states."""
        return self.weight + self.gradient + self.optimiser


@dataclass(frozen=True)
class Strategy:
    """Degrees of parallelism and what is traded for memory.

    `tp` tensor, `cp` context, `pp` pipeline stages, `chunks` model parts per stage (interleaving), `ep` expert.
    `zero`: 0 nothing, 1 optimiser states, 2 also gradients, 3 also weights are sharded over data-parallel cards, or over
    `zero_cards` of them (0: all; a node's cards: node-local ZeRO-3 with replicas between nodes). `secondary`: a second
    copy of the weights sharded inside the node serves the backward gathers (ZeRO++ hpZ). `quantised`: gathers move int8,
    gradients int4 (ZeRO++ qwZ and qgZ). `recompute`: "none", "selective" (attention's core) or "full".
    `flash`: attention keeps no scores. `schedule`: "1f1b" or "zero-bubble" (weight gradients fill the bubble).
    `offload`: optimiser states and their update live on the host. `overlap`: gradient and gather traffic runs beside
    computation where there is some; ZeRO-3 gathers a layer ahead only while two layers' weights are at most
    `live_parameters` (DeepSpeed's `stage3_max_live_parameters`, 1e9 unless set).
    """

    tp: int = 1
    cp: int = 1
    pp: int = 1
    chunks: int = 1
    ep: int = 1
    dp: int = 1
    zero: int = 1
    zero_cards: int = 0
    secondary: bool = False
    quantised: bool = False
    micro_batch: int = 1
    recompute: str = "none"
    recomputed_layers: int = 0
    sequence_parallel: bool = True
    flash: bool = True
    schedule: str = "1f1b"
    offload: bool = False
    overlap: bool = True
    live_parameters: float = 1e9
    precision: Precision = Precision()

    @property
    def cards(self) -> int:
        """Cards that the layout needs; experts live on the data-parallel ones."""
        return self.tp * self.cp * self.pp * self.dp

    def micro_batches(self, batch: Batch) -> int:
        """Micro-batches of one pipeline in a step."""
        return batch.samples // (self.dp * self.micro_batch)

    @property
    def shards(self) -> int:
        """Cards over which ZeRO spreads states: data- and context-parallel ones."""
        return min(self.zero_cards, self.dp * self.cp) if self.zero_cards else self.dp * self.cp

    def recomputed(self, layers: int) -> int:
        """Of a stage's layers, those that are computed again in the backward pass."""
        if self.recompute == "none":
            return 0
        return min(layers, self.recomputed_layers) if self.recomputed_layers else layers

    def check(self, model: TrainModel, batch: Batch) -> None:
        """Raise `BadInput` with the first rule that the layout breaks."""
        decoder = model.decoder
        rules = [
            (self.recompute in ("none", "selective", "full"), f"recompute={self.recompute}"),
            (self.schedule in ("1f1b", "zero-bubble"), f"schedule={self.schedule}"),
            (0 <= self.zero <= 3, f"zero={self.zero}"),
            (decoder.heads % self.tp == 0, f"tp={self.tp} does not divide {decoder.heads} heads"),
            (
                decoder.kv_heads % self.tp == 0 or self.tp % decoder.kv_heads == 0,
                f"tp={self.tp} against {decoder.kv_heads} key heads",
            ),
            (self.pp * self.chunks <= decoder.layers, f"pp={self.pp} x {self.chunks} parts, {decoder.layers} layers"),
            (batch.samples % (self.dp * self.micro_batch) == 0, f"{batch.samples} samples over dp={self.dp}"),
            (batch.sequence % (self.cp * 2) == 0 or self.cp == 1, f"cp={self.cp} against {batch.sequence} tokens"),
            (self.ep == 1 or decoder.experts % self.ep == 0, f"ep={self.ep} against {decoder.experts} experts"),
            (self.ep <= self.dp * self.cp * self.tp, f"ep={self.ep} beyond the cards of one stage"),
            (self.chunks == 1 or self.pp > 1, f"chunks={self.chunks} without a pipeline"),
            (
                self.chunks == 1 or self.micro_batches(batch) % self.pp == 0,
                f"interleaving wants micro-batches in multiples of pp={self.pp}",
            ),
            (self.zero < 2 or self.pp == 1, f"zero={self.zero} shards gradients that a pipeline accumulates"),
        ]
        for holds, what in rules:
            if not holds:
                raise BadInput(f"this layout cannot be: {what}", cure="change the degrees, or let the search choose")

    def layers_of_stages(self, layers: int) -> list[int]:
        """Decoder layers of each stage, the rest to the middle ones: first and last also hold embeddings and head."""
        each, rest = divmod(layers, self.pp)
        order = sorted(range(self.pp), key=lambda s: (s in (0, self.pp - 1), s))
        more = set(order[:rest])
        return [each + (s in more) for s in range(self.pp)]

    def __str__(self) -> str:
        parts = [f"tp{self.tp}"]
        parts += [f"cp{self.cp}"] if self.cp > 1 else []
        parts += [f"pp{self.pp}" + (f"x{self.chunks}" if self.chunks > 1 else "")] if self.pp > 1 else []
        parts += [f"ep{self.ep}"] if self.ep > 1 else []
        parts += [f"dp{self.dp}", f"zero{self.zero}" + (f"/{self.zero_cards}" if self.zero_cards else "")]
        parts += ["hpz"] if self.secondary else []
        parts += ["int8 gathers"] if self.quantised else []
        parts += [f"mb{self.micro_batch}"]
        if self.recompute != "none":
            some = f" of {self.recomputed_layers} layers" if self.recomputed_layers else ""
            parts += [f"{self.recompute} recompute{some}"]
        parts += ["zero-bubble"] if self.schedule == "zero-bubble" else []
        parts += ["offload"] if self.offload else []
        return " ".join(parts)


def divisors(number: int) -> list[int]:
    """Divisors of a positive integer, ascending."""
    small = [d for d in range(1, math.isqrt(number) + 1) if number % d == 0]
    return sorted({*small, *(number // d for d in small)})
