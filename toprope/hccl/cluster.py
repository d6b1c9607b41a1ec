"""Clusters as data: the levels of their network, the rates of their cards, and the source of each number."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from importlib.resources import files
from pathlib import Path
from typing import Any, NotRequired, TypedDict

from toprope import inputs
from toprope.errors import BadInput


@dataclass(frozen=True)
class Level:
    """One level of the network: `cards` are reached within it; `gbps` is 1e9 bytes per second, one card, one way.

    `shape` "mesh": one link to each other card, `gbps` is their sum. "switch": one port that reaches any card.
    `efficiency`: the share of the line rate that large messages attain.
    """

    name: str
    cards: int
    shape: str
    gbps: float
    latency_us: float
    efficiency: float = 1.0

    @property
    def bytes_per_s(self) -> float:
        """Attained rate of one card, all its links together."""
        return self.gbps * 1e9 * self.efficiency

    @property
    def latency_s(self) -> float:
        """Latency of one message."""
        return self.latency_us * 1e-6


@dataclass(frozen=True)
class Rates:
    """What one card attains.

    A product of m x k x n runs at peak x `product_efficiency` x a / (a + `product_intensity`), where a is its arithmetic
    intensity, mkn / (mk + kn + mn): small and thin products are slower. Elementwise work moves its bytes at
    `memory_efficiency` of `hbm_gbps`; attention runs at `attention_efficiency` of the peak. `host_ms` is the part of a
    step that nothing overlaps: launches, data loading, the optimiser's small kernels. `overlap`: of the traffic that may
    run beside computation, the part that does. `waiting`: what each doubling of the cards beyond a node adds to a step,
    because all wait for the slowest.
    """

    peak_tflops: float
    hbm_gbps: float
    product_efficiency: float
    product_intensity: float
    attention_efficiency: float
    memory_efficiency: float
    host_ms: float
    overlap: float
    waiting: float
    host_gbps: float

    def product_s(self, rows: float, inner: float, columns: float) -> float:
        """Seconds of one matrix product."""
        if rows <= 0 or inner <= 0 or columns <= 0:
            return 0.0
        flops = 2.0 * rows * inner * columns
        intensity = flops / 2.0 / (rows * inner + inner * columns + rows * columns)
        share = self.product_efficiency * intensity / (intensity + self.product_intensity)
        return flops / (self.peak_tflops * 1e12 * share)

    def attention_s(self, flops: float) -> float:
        """Seconds of fused attention of so many operations."""
        return flops / (self.peak_tflops * 1e12 * self.attention_efficiency)

    def memory_s(self, moved_bytes: float) -> float:
        """Seconds to move bytes through the card's memory."""
        return moved_bytes / (self.hbm_gbps * 1e9 * self.memory_efficiency)


@dataclass(frozen=True)
class Cluster:
    """Cards, network levels from the nearest to the farthest, and where their numbers come from."""

    name: str
    title: str
    cards: int
    memory_gb: float
    levels: tuple[Level, ...]
    rates: Rates
    collective_start_us: float
    source: Mapping[str, str] = field(hash=False, compare=False)
    soc: str = ""

    @property
    def memory_bytes(self) -> float:
        """Memory of one card; the data sheets' GB are 2**30 bytes."""
        return self.memory_gb * 2**30

    def with_constants(self, changed: Mapping[str, float]) -> Cluster:
        """The same cluster with other rates; `near_efficiency` and `far_efficiency` are those of first and last level."""
        ends = {"near_efficiency": 0, "far_efficiency": len(self.levels) - 1}
        rates = replace(self.rates, **{k: v for k, v in changed.items() if k not in ends})
        levels = list(self.levels)
        for name, at in ends.items():
            if name in changed:
                levels[at] = replace(levels[at], efficiency=changed[name])
        return replace(self, rates=rates, levels=tuple(levels))

    def node_cards(self) -> int:
        """Cards of the first level."""
        return min(self.levels[0].cards, self.cards)

    def group(self, size: int, stride: int) -> list[tuple[Level, int]]:
        """How many members a group of `size` cards, `stride` apart, meets at each level; products give `size`.

        Cards are numbered so that neighbours are near. Raises `BadInput` where the cluster is too small.
        """
        if size * stride > self.cards:
            raise BadInput(f"a group of {size} cards {stride} apart on {self.cards} cards", cure="use more cards")
        found: list[tuple[Level, int]] = []
        within = 1
        for level in self.levels:
            reach = max(1, min(size, level.cards // stride))
            members = max(1, reach // within)
            if members > 1:
                found.append((level, members))
                within *= members
            if within >= size:
                break
        if within < size:  # an uneven rest crosses the last level
            found.append((self.levels[-1], -(-size // within)))
        return found or [(self.levels[0], 1)]

    @classmethod
    def load(cls, name: str, cards: int, stack: str = "") -> Cluster:
        """A cluster by name or TOML file, cut to `cards`, with the constants fitted for a software stack where named.

        Raises `BadInput` for unknown names and wrong fields.
        """
        if cards < 1:
            raise BadInput(f"{cards} cards", cure="give a positive number")
        folder = files("toprope.hccl") / "clusters"
        known = sorted(p.name.removesuffix(".toml") for p in folder.iterdir() if p.name.endswith(".toml"))
        try:
            text = (folder / f"{name}.toml" if name in known else Path(name)).read_text("utf-8")
            with inputs.reading(name, "a cluster is a TOML file"):
                table = tomllib.loads(text)
        except OSError as error:
            raise BadInput(f"no cluster {name!r}", cure=f"name a TOML file or one of: {', '.join(known)}") from error
        except UnicodeDecodeError as error:
            raise BadInput(f"{name}: byte {error.start} is no UTF-8 text", cure="a cluster is a TOML file") from error
        cluster = _from_table(name, table, cards)
        return cluster.with_constants(_fitted(cluster.name, stack)) if stack else cluster


def _fitted(cluster: str, stack: str) -> Mapping[str, float]:
    table = tomllib.loads((files("toprope.hccl") / "fitted.toml").read_text("utf-8"))
    rows: Mapping[str, Mapping[str, float]] = table.get(cluster, {})
    if stack not in rows:
        raise BadInput(
            f"nothing is fitted for {stack!r} on {cluster}", cure=f"known: {', '.join(sorted(rows)) or 'none'}"
        )
    return rows[stack]


def _from_table(name: str, table: Mapping[str, Any], cards: int) -> Cluster:
    cure = "see toprope/hccl/clusters for the fields"
    given = inputs.fitting(table, _Table, name, cure)
    inputs.numbers(table, name)
    for place in ("memory_gb", "level", "rates"):
        _positive(table[place], f"{name}: {place}", cure)
    if not given["level"]:
        raise BadInput(f"{name}: level is empty", cure=cure)
    return Cluster(
        name=Path(name).stem,
        title=given["title"],
        cards=cards,
        memory_gb=given["memory_gb"],
        levels=tuple(inputs.fitting(row, Level, f"{name}: level[{i}]", cure) for i, row in enumerate(given["level"])),
        rates=inputs.fitting(given["rates"], Rates, f"{name}: rates", cure),
        collective_start_us=given["collective_start_us"],
        source=given["source"],
        soc=given.get("soc", ""),
    )


class _Table(TypedDict):
    """A cluster's file."""

    title: str
    memory_gb: float
    level: list[dict[str, Any]]
    rates: dict[str, Any]
    collective_start_us: float
    source: dict[str, str]
    soc: NotRequired[str]


_MAY_BE_ZERO = {"latency_us", "product_intensity", "host_ms", "overlap", "waiting"}


def _positive(node: Any, where: str, cure: str) -> None:
    """Raises BadInput for a rate or a size of 0, which nothing can be divided by."""
    if isinstance(node, Mapping):
        for key, value in node.items():
            if key not in _MAY_BE_ZERO:
                _positive(value, f"{where}: {key}", cure)
    elif isinstance(node, list):
        for at, value in enumerate(node):
            _positive(value, f"{where}[{at}]", cure)
    elif node == 0 and not isinstance(node, bool):
        raise BadInput(f"{where} is 0", cure=cure)
