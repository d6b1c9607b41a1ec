"""Samples of unequal length: packing them into sequences, and dealing them out so that data-parallel cards end together.

A sample costs its decoder's arithmetic (attention grows with the square of its length) and its images' in the encoder. Padded:
each sample fills a sequence of its own. Packed: samples share sequences, each attends to itself only. Balanced: samples go
to the cards by their cost, not in the order they come in, and are packed there. A step ends with the slowest card.
"""

from __future__ import annotations

import heapq
import math
import random
import tomllib
from bisect import bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib.resources import files
from itertools import pairwise
from pathlib import Path

from toprope import inputs
from toprope.errors import BadInput
from toprope.train.shape import TrainModel

MOST_TILES = (
    12  # of an image, as InternVL cuts it (max_dynamic_patch); how often each number comes is not published: equally
)


@dataclass(frozen=True)
class Lengths:
    """A distribution by its quantiles, linear in the logarithm between them; the last piece falls off so that the mean is the published one."""

    name: str
    title: str
    source: str
    quantiles: tuple[tuple[float, float], ...]
    bend: float = 1.0

    def at(self, share: float) -> float:
        """The length below which `share` of the samples lie."""
        points = self.quantiles
        after = min(bisect_right([q for q, _ in points], share), len(points) - 1)
        (low, short), (high, long) = points[after - 1], points[after]
        part = (share - low) / (high - low)
        if after == len(points) - 1:
            part **= self.bend
        return float(math.exp(math.log(short) + part * (math.log(long) - math.log(short))))

    def mean(self, steps: int = 4000) -> float:
        """The mean, by the midpoints of equal shares."""
        return sum(self.at((i + 0.5) / steps) for i in range(steps)) / steps

    @classmethod
    def load(cls, name: str) -> Lengths:
        """A published distribution by name, or a TOML file of the same form. Raises `BadInput`."""
        text = (files("toprope.train") / "lengths.toml").read_text("utf-8")
        known = tomllib.loads(text)
        if name in known:
            return cls._of(name, known[name])
        file = Path(name)
        if not file.is_file():
            raise BadInput(
                f"no distribution of lengths {name!r}", cure=f"name a TOML file or one of: {', '.join(sorted(known))}"
            )
        with inputs.reading(file, "see toprope/train/lengths.toml for the form"):
            table = tomllib.loads(file.read_text("utf-8"))
            only = next(iter(table.values()))
            return cls._of(next(iter(table)), only)

    @classmethod
    def _of(cls, name: str, table: dict[str, object]) -> Lengths:
        given = table["quantiles"]
        assert isinstance(given, list)
        points = tuple((float(q), float(v)) for q, v in given)
        rising = all(a[0] < b[0] and 1 <= a[1] <= b[1] for a, b in pairwise(points))
        if len(points) < 2 or points[0][0] != 0 or points[-1][0] != 1 or not rising:
            raise BadInput(
                f"{name}: quantiles must rise from 0 to 1, lengths from 1 on", cure="see toprope/train/lengths.toml"
            )
        plain = cls(name, str(table.get("title", name)), str(table.get("source", "")), points)
        return plain if "mean" not in table else plain._bent(float(str(table["mean"])))

    def _bent(self, mean: float) -> Lengths:
        low, high = 0.2, 64.0  # a higher power keeps the last piece near its beginning for longer
        for _ in range(60):
            middle = math.sqrt(low * high)
            tried = Lengths(self.name, self.title, self.source, self.quantiles, middle)
            low, high = (middle, high) if tried.mean() > mean else (low, middle)
        return tried


@dataclass(frozen=True)
class Sample:
    """Decoder tokens (those of images among them) and tiles of images."""

    tokens: int
    tiles: int = 0


Cost = Callable[[Sample], float]


def sample_cost(model: TrainModel) -> Cost:
    """Operations of a sample in decoder and encoders, forward."""

    def cost(sample: Sample) -> float:
        total = model.decoder.layers and model.decoder.forward_flops(sample.tokens, sample.tokens)
        for encoder in model.encoders if sample.tiles else ():
            total += sample.tiles * encoder.forward_flops(model.image_tokens, model.image_tokens)
        return float(total)

    return cost


def draw(
    lengths: Lengths, model: TrainModel, count: int, sequence: int, *, images: bool, seed: int = 0
) -> list[Sample]:
    """`count` samples, none longer than `sequence` (longer ones are cut, as training scripts do)."""
    chance = random.Random(seed)
    samples = []
    for _ in range(count):
        text, tiles = round(lengths.at(chance.random())), chance.randint(1, MOST_TILES) if images else 0
        samples.append(Sample(min(sequence, text + tiles * model.pooled_tokens), tiles))
    return samples


def packed(samples: Sequence[Sample], sequence: int) -> list[list[Sample]]:
    """Samples in sequences of at most `sequence` tokens: the longest first, each into the fullest that has room (best fit decreasing)."""
    packs: list[list[Sample]] = []
    rooms: list[tuple[int, int]] = []  # (room left, number of the pack), ascending
    for sample in sorted(samples, key=lambda s: -s.tokens):
        at = bisect_right(rooms, (sample.tokens, -1))
        if at == len(rooms):
            packs.append([])
            room, number = sequence, len(packs) - 1
        else:
            room, number = rooms.pop(at)
        packs[number].append(sample)
        left = (room - sample.tokens, number)
        rooms.insert(bisect_right(rooms, left), left)
    return packs


def dealt(costs: Sequence[float], ranks: int) -> list[list[int]]:
    """Items in turn, as they come: what a sampler does that does not look."""
    return [list(range(rank, len(costs), ranks)) for rank in range(ranks)]


def balanced(costs: Sequence[float], ranks: int) -> list[list[int]]:
    """The costliest item first, each to the rank with the least so far: at most 4/3 of the best possible (Graham 1969)."""
    heap = [(0.0, rank) for rank in range(ranks)]
    out: list[list[int]] = [[] for _ in range(ranks)]
    for item in sorted(range(len(costs)), key=lambda i: -costs[i]):
        load, rank = heapq.heappop(heap)
        out[rank].append(item)
        heapq.heappush(heap, (load + costs[item], rank))
    return out


def slowest(costs: Sequence[float], ranks: Sequence[Sequence[int]]) -> float:
    """The cost of the rank with the most."""
    return max(sum(costs[i] for i in rank) for rank in ranks)


@dataclass(frozen=True)
class Gain:
    """Operations of the slowest card in a step, mean over the steps, for one global batch of samples: padded, packed, balanced and then packed.

    `even`: if all cards had the same. `filled_…`: the share of the sequences' tokens that are samples.
    """

    padded: float
    packed: float
    balanced: float
    even: float
    filled_padded: float
    filled_packed: float
    filled_balanced: float


def gain(
    lengths: Lengths,
    model: TrainModel,
    sequence: int,
    samples: int,
    ranks: int,
    *,
    images: bool,
    steps: int = 20,
    seed: int = 0,
) -> Gain:
    """Over `steps` global batches of `samples` on `ranks` data-parallel cards. Raises `BadInput` for fewer samples than ranks."""
    if samples < ranks:
        raise BadInput(f"{samples} samples a step for {ranks} data-parallel cards", cure="use a larger --batch")
    cost = sample_cost(model)
    sums, places = [0.0] * 4, [0] * 3
    tokens = 0
    for step in range(steps):
        batch = draw(lengths, model, samples, sequence, images=images, seed=seed + step)
        padded = [cost(Sample(sequence, s.tiles)) for s in batch]
        packs = packed(batch, sequence)
        random.Random(seed + step).shuffle(packs)  # sequences reach a sampler in no order
        together = [sum(map(cost, pack)) for pack in packs]
        costs = [cost(s) for s in batch]
        shares = balanced(costs, ranks)
        found = (
            slowest(padded, dealt(padded, ranks)),
            slowest(together, dealt(together, ranks)),
            slowest(costs, shares),
            sum(costs) / ranks,
        )
        sums = [a + b for a, b in zip(sums, found, strict=True)]
        used = (len(batch), len(packs), sum(len(packed([batch[i] for i in share], sequence)) for share in shares))
        places = [a + b for a, b in zip(places, used, strict=True)]
        tokens += sum(s.tokens for s in batch)
    mean = [value / steps for value in sums]
    filled = [tokens / (sequences * sequence) for sequences in places]
    return Gain(mean[0], mean[1], mean[2], mean[3], filled[0], filled[1], filled[2])
