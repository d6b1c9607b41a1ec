"""What the cards of a plan send each other in a step, priced by the collectives of `toprope.hccl`."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from toprope.hccl.closed_forms import collective_s
from toprope.hccl.cluster import Cluster
from toprope.serve.planning.model_shape import ModelShape
from toprope.soc import load

_ACTIVATION_BYTES = 2.0


@lru_cache
def cluster_of(chip: str, cards: int) -> Cluster | None:
    """The cluster that a chip's cards are sold in; None where nothing is known of their links."""
    soc = load(chip)
    if soc.npu_arch != 2201:
        return None
    return Cluster.load("atlas-a3" if soc.name.startswith("ascend910_93") else "atlas-a2", cards)


@dataclass(frozen=True)
class CardLinks:
    """`tensor` cards share every layer of a copy; `copies` of the model hold its experts together (1: they do not)."""

    cluster: Cluster | None
    tensor: int = 1
    copies: int = 1

    def step_s(self, model: ModelShape, tokens: float) -> float:
        """Seconds of a step of `tokens` in each copy: two AllReduces a layer, and two all-to-alls where experts are spread."""
        if self.cluster is None or tokens <= 0:
            return 0.0
        held = tokens * model.hidden * _ACTIVATION_BYTES
        total = 2 * model.layers * collective_s(self.cluster, "all_reduce", self.tensor, 1, held)[0]
        if self.copies > 1 and model.experts:
            sent = held * model.experts_per_token / self.tensor
            total += (
                2
                * model.expert_layers
                * collective_s(self.cluster, "all_to_all", self.tensor * self.copies, 1, sent)[0]
            )
        return total
