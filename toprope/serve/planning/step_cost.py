"""How long a step takes: the seam between the simulator and whatever knows about time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from toprope.serve.batching.batch import Batch
from toprope.serve.batching.policies.step_times import OnlineRegression
from toprope.serve.planning.card_links import CardLinks
from toprope.serve.planning.model_shape import ModelShape
from toprope.soc import Soc

_FLOPS_PER_STEP = 2 * 16**3  # of the cube unit on 16-bit numbers: one 16 x 16 x 16 product


class StepCost(Protocol):
    """A clock for batches that are not run."""

    def step_s(self, batch: Batch) -> float:
        """Seconds that the batch would take, block moves included."""


@dataclass(frozen=True)
class ChipRates:
    """What a chip attains, not what its data sheet promises; `sources` says where each number comes from."""

    name: str
    flops_per_s: float
    bytes_per_s: float
    memory_bytes: float
    overhead_s: float = 0.0  # per step: launches, scheduling, waiting for other cards
    overlapped: bool = False  # the overhead runs beside the chip's work, so that the longer of both counts
    sequence_s: float = 0.0  # per sequence in a step: sampling, text, bookkeeping
    host_bytes_per_s: float = 20e9  # swaps
    sources: str = ""

    def __post_init__(self) -> None:
        for field in ("flops_per_s", "bytes_per_s", "memory_bytes", "host_bytes_per_s"):
            if getattr(self, field) <= 0:
                raise ValueError(f"{field} of {self.name} must be positive, got {getattr(self, field)}")

    @classmethod
    def of(cls, soc: Soc, *, overlapped: bool = False, **given: float) -> ChipRates:
        """The rates of a chip file: 16-bit matrix products at 80 % of the peak (published: 74 to 89 %), reads from HBM.

        `given` replaces fields by name; a number that is given need not be in the chip file. Raises `BadChip`.
        """
        bandwidth, memory = "hbm.read_tbps", "memory.gm_bytes"
        rates = dict(given)
        sources = [f"given: {', '.join(given)}"] if given else []
        if "bytes_per_s" not in given:
            rates["bytes_per_s"] = soc.number(bandwidth) * 1e12
            sources.append(f"bandwidth {soc.kind_of(bandwidth)}: {soc.source_of(bandwidth)}")
        if "memory_bytes" not in given:
            rates["memory_bytes"] = soc.number(memory)
            sources.append(f"memory {soc.kind_of(memory)}")
        if "flops_per_s" not in given:
            steps_per_s = soc.aic * soc.ghz * 1e9 / soc.cost("mmad").per_work_of("float16", "float32")
            rates["flops_per_s"] = 0.8 * steps_per_s * _FLOPS_PER_STEP
            sources.append("matrix rate derived: 80 % of cores x clock x 8192")
        if "overhead_s" not in given:
            rates["overhead_s"] = 3e-3
            sources.append("overhead assumed")
        return cls(
            soc.name, **rates, overlapped=overlapped, sources="; ".join([*sources, "host link (20 GB/s) assumed"])
        )


class RooflineCost:
    """Each part of a step takes the longer of its arithmetic and its memory traffic; the parts add up.

    Parts: linear layers (weights are read once per step), traffic between cards, attention (keys and values of each context are read), output
    head (only for entries that sample), block moves. A bound, not a measurement: it ignores how well one part overlaps
    with the next, which makes it slow, and every inefficiency not in `ChipRates`, which makes it fast.
    """

    basis = "a roofline"

    def __init__(self, model: ModelShape, chip: ChipRates, links: CardLinks | None = None) -> None:
        self.model, self.chip, self.links = model, chip, links or CardLinks(None)
        self._head_bytes = model.head_parameters * model.weight_bytes_each
        self._attention_flops = 4.0 * model.layers * model.heads * model.head_size  # per query token and context token

    def step_s(self, batch: Batch) -> float:
        """See `StepCost`; at least the chip's overhead."""
        tokens = sampled = 0
        attention_flops = kv_bytes = 0.0
        for _, start, computed, _, samples in batch.entries:
            count = len(computed)
            tokens += count
            sampled += samples
            attention_flops += count * (start + (count + 1) / 2)
            kv_bytes += start + 2 * count
        products_s = (self.layers_s(tokens) if tokens else 0.0) + (self.head_s(sampled) if sampled else 0.0)
        attention_s = self._longer(attention_flops * self._attention_flops, kv_bytes * self.model.kv_bytes_per_token)
        work_s = products_s + attention_s + self.links.step_s(self.model, tokens)
        work_s = max(work_s, self.chip.overhead_s) if self.chip.overlapped else work_s + self.chip.overhead_s
        return work_s + self.chip.sequence_s * len(batch.entries)

    def layers_s(self, tokens: int) -> float:
        """Seconds of all linear layers for a step of `tokens`."""
        read = self.model.parameters_read(tokens) * self.model.weight_bytes_each
        return self._longer(2.0 * self.model.active_parameters * tokens, read)

    def head_s(self, sampled: int) -> float:
        """Seconds of the output head for `sampled` tokens."""
        return self._longer(2.0 * self.model.head_parameters * sampled, self._head_bytes)

    def _longer(self, flops: float, moved_bytes: float) -> float:
        return max(flops / self.chip.flops_per_s, moved_bytes / self.chip.bytes_per_s)


class SwapCost:
    """Adds the time of block moves to another cost."""

    def __init__(self, inner: StepCost, model: ModelShape, chip: ChipRates, block_size: int) -> None:
        self._inner, self._chip = inner, chip
        self._block_bytes = block_size * model.kv_bytes_per_token

    def step_s(self, batch: Batch) -> float:
        """See `StepCost`."""
        swapped = len(batch.swap_out) + len(batch.swap_in)
        moves_s = swapped * self._block_bytes / self._chip.host_bytes_per_s
        copies_s = 2 * len(batch.copies) * self._block_bytes / self._chip.bytes_per_s
        return self._inner.step_s(batch) + moves_s + copies_s


class MeasuredCost:
    """Learns from the steps of a real engine: time ≈ a + b·tokens + c·entries + d·context, no weight negative."""

    def __init__(self) -> None:
        self._fit = OnlineRegression(4, decay=1.0)

    def observe(self, batch: Batch, duration_s: float) -> None:
        """Learn from one step; empty ones teach nothing."""
        if batch.entries:
            self._fit.add(self._features(batch), duration_s)

    def step_s(self, batch: Batch) -> float:
        """See `StepCost`; raises `ValueError` before anything was observed."""
        if self._fit.points == 0:
            raise ValueError("no step was observed yet; run the real engine and call observe() first")
        return self._fit.predict(self._features(batch))

    @staticmethod
    def _features(batch: Batch) -> tuple[float, float, float, float]:
        context = sum(entry.context for entry in batch.entries)
        return (1.0, float(batch.token_count), float(len(batch.entries)), float(context))
