"""Collectives step by step: every message of an algorithm on its own links, with latency, bandwidth and waiting.

Those of `closed_forms` are checked against it, and it shows what they cannot: a pipeline's overlap, two
collectives that share links, a link that is slower than the others.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from fractions import Fraction

from toprope.errors import BadInput
from toprope.hccl.cluster import Level


@dataclass(frozen=True)
class Message:
    """`size_bytes` of piece `piece` from one card to another; it leaves when the sender has all `needs` of the piece."""

    source: int
    target: int
    piece: int
    size_bytes: float


@dataclass(frozen=True)
class Transfer:
    """A message with its time."""

    message: Message
    level: str
    start_s: float
    end_s: float


@dataclass
class Network:
    """Cards numbered 0 …; levels from near to far, `nodes` cards within the first.

    A mesh has a link for each ordered pair; a switch one outgoing and one incoming port a card. `slow` scales the rate of
    links by (level, card). `uplinks`: by level, so many neighbouring cards share one uplink and one downlink of so many bytes a second
    to the rest of it. Every transfer holds its link (or both ports) for size / rate; latency is added after that.
    """

    levels: tuple[Level, ...]
    uplinks: Mapping[str, tuple[int, float]] = field(default_factory=dict)
    slow: Mapping[tuple[str, int], float] = field(default_factory=dict)

    def level_of(self, source: int, target: int) -> Level:
        """The nearest level that both cards share."""
        for level in self.levels:
            if source // level.cards == target // level.cards:
                return level
        raise BadInput(f"cards {source} and {target} share no level", cure="add a level to the cluster")

    def run(self, rounds: Iterable[Iterable[Message]], free: dict[object, float] | None = None) -> list[Transfer]:
        """Time all messages: a card forwards a piece once it has it; rounds give the order on a link, not a barrier.

        `free`: when each link is free, for several collectives on one network; changed in place.
        """
        links: dict[object, float] = {} if free is None else free
        has: dict[tuple[int, int], float] = {}
        done: list[Transfer] = []
        for messages in rounds:
            landed: dict[tuple[int, int], float] = {}
            for message in messages:
                level = self.level_of(message.source, message.target)
                ports = _ports(level, message)
                rate = level.bytes_per_s / (level.cards - 1 if level.shape == "mesh" else 1)
                rate *= min(self.slow.get((level.name, card), 1.0) for card in (message.source, message.target))
                ready = has.get((message.source, message.piece), 0.0)
                start = max([ready, *(links.get(port, 0.0) for port in ports)])
                trunks, trunk_s = self._trunks(level, message)
                start = max([start, *(links.get(trunk, 0.0) for trunk in trunks)])
                sent = start + max(message.size_bytes / rate, trunk_s)
                for port in ports:
                    links[port] = sent
                for trunk in trunks:
                    links[trunk] = start + trunk_s
                end = sent + level.latency_s
                done.append(Transfer(message, level.name, start, end))
                key = (message.target, message.piece)
                landed[key] = max(landed.get(key, 0.0), end)
            for key, when in landed.items():
                has[key] = max(has.get(key, 0.0), when)
        return done

    def _trunks(self, level: Level, message: Message) -> tuple[tuple[object, ...], float]:
        """The shared uplink and downlink that a message takes, and for how long it fills them."""
        if level.name not in self.uplinks:
            return (), 0.0
        cards, rate = self.uplinks[level.name]
        out, into = message.source // cards, message.target // cards
        return (
            ((), 0.0)
            if out == into
            else (((level.name, "up", out), (level.name, "down", into)), message.size_bytes / rate)
        )


def _ports(level: Level, message: Message) -> tuple[object, ...]:
    if level.shape == "mesh":
        return ((level.name, message.source, message.target),)
    return ((level.name, "out", message.source), (level.name, "in", message.target))


def finish_s(transfers: list[Transfer]) -> float:
    """When the last message has arrived."""
    return max((t.end_s for t in transfers), default=0.0)


Rounds = list[list[Message]]


def ring(cards: list[int], size_bytes: float, kind: str) -> Rounds:
    """Neighbours pass pieces on; an AllReduce goes round twice."""
    p, piece = len(cards), size_bytes / len(cards)
    turns = 2 * (p - 1) if kind == "all_reduce" else p - 1
    return [[Message(cards[i], cards[(i + 1) % p], (i - turn) % p, piece) for i in range(p)] for turn in range(turns)]


def mesh(cards: list[int], size_bytes: float, kind: str) -> Rounds:
    """Each sends each other one its piece directly; an AllReduce scatters, then gathers."""
    p, piece = len(cards), size_bytes / len(cards)
    # Reductions deliver into the owner's piece, so the gather that follows waits for all of them.
    scatter = [Message(cards[i], cards[(i + d) % p], (i + d) % p, piece) for d in range(1, p) for i in range(p)]
    gather = [Message(cards[i], cards[(i + d) % p], i, piece) for d in range(1, p) for i in range(p)]
    if kind == "all_reduce":
        return [scatter, gather]
    return [gather if kind == "all_gather" else scatter]


def halving_doubling(cards: list[int], size_bytes: float, kind: str) -> Rounds:
    """Partners at distance p/2, p/4 … exchange halves; p a power of two. The same piece number means: waits for all before."""
    p = len(cards)
    if p & (p - 1):
        raise BadInput(f"halving and doubling of {p} cards", cure="use a power of two, or NHR")
    down = [
        [Message(cards[i], cards[i ^ (p >> (k + 1))], 0, size_bytes / 2 ** (k + 1)) for i in range(p)]
        for k in range(int(math.log2(p)))
    ]
    up = [[Message(m.source, m.target, 0, m.size_bytes) for m in turn] for turn in reversed(down)]
    return {"all_reduce": down + up, "reduce_scatter": down, "all_gather": up}[kind]


def nhr(cards: list[int], size_bytes: float, kind: str) -> Rounds:
    """Non-uniform hierarchical ring: in round k each sends to the card 2**k before it what that card's half lacks."""
    p = len(cards)
    turns: Rounds = []
    left = p
    for k in range(math.ceil(math.log2(p))):
        pieces = left // 2
        turns.append([Message(cards[i], cards[(i - 2**k) % p], 0, size_bytes * pieces / p) for i in range(p)])
        left -= pieces
    back = list(reversed(turns))
    return {"all_reduce": turns + back, "reduce_scatter": turns, "all_gather": back}[kind]


def pairwise(cards: list[int], size_bytes: float, kind: str) -> Rounds:
    """All-to-all in p - 1 rounds: in round d each sends to the card d after it."""
    p = len(cards)
    return [[Message(cards[i], cards[(i + d) % p], i * p + d, size_bytes / p) for i in range(p)] for d in range(1, p)]


ALGORITHMS: dict[str, Callable[[list[int], float, str], Rounds]] = {
    "ring": ring,
    "mesh": mesh,
    "halving-doubling": halving_doubling,
    "nhr": nhr,
    "nb": nhr,
    "pairwise": pairwise,
}


def hierarchical(nodes: int, cards: int, size_bytes: float, near: str, far: str) -> list[Rounds]:
    """AllReduce over `nodes` x `cards`: scatter in each node, reduce among equal places, gather in each node.

    One list of rounds for each phase; a card starts a phase when it has finished the one before.
    """
    inside = [[n * cards + c for c in range(cards)] for n in range(nodes)]
    across = [[n * cards + c for n in range(nodes)] for c in range(cards)]
    scatter = [_together([ALGORITHMS[near](g, size_bytes, "reduce_scatter") for g in inside])]
    reduce = [_together([ALGORITHMS[far](g, size_bytes / cards, "all_reduce") for g in across])]
    gather = [_together([ALGORITHMS[near](g, size_bytes, "all_gather") for g in inside])]
    return [*scatter, *reduce, *gather]


def at_once(several: list[Rounds]) -> Rounds:
    """Collectives that run beside each other, their rounds taking turns on the ports they share; pieces stay apart."""
    longest = max(map(len, several))
    apart = [
        [[Message(m.source, m.target, m.piece + 1_000_000 * n, m.size_bytes) for m in turn] for turn in rounds]
        for n, rounds in enumerate(several)
    ]
    return [[m for rounds in apart if turn < len(rounds) for m in rounds[turn]] for turn in range(longest)]


def ahc(sizes: list[int], size_bytes: float, kind: str) -> list[Rounds]:
    """Asymmetric hierarchical concatenation over groups of neighbouring cards: phases as in `hierarchical`.

    Across groups, the array is cut where any group's parts end; of each slice one card a group holds a part, and these combine it by NHR.
    """
    starts = [sum(sizes[:g]) for g in range(len(sizes))]
    groups = [list(range(start, start + count)) for start, count in zip(starts, sizes, strict=True)]
    cuts = sorted({Fraction(i, count) for count in sizes for i in range(count + 1)})
    slices = []
    for low, high in itertools.pairwise(cuts):
        owners = [start + int(low * count) for start, count in zip(starts, sizes, strict=True)]
        slices.append(nhr(owners, size_bytes * float(high - low), kind))
    inside = [g for g in groups if len(g) > 1]
    scatter = at_once([nhr(g, size_bytes, "reduce_scatter") for g in inside]) if inside else []
    gather = at_once([nhr(g, size_bytes, "all_gather") for g in inside]) if inside else []
    across = at_once(slices) if len(sizes) > 1 else []
    return {
        "all_reduce": [scatter, across, gather],
        "reduce_scatter": [scatter, across],
        "all_gather": [across, gather],
    }[kind]


def hierarchical_finish_s(network: Network, phases: list[Rounds]) -> float:
    """Time of phases one after the other."""
    return sum(finish_s(network.run(rounds)) for rounds in phases)


def _together(several: list[Rounds]) -> Rounds:
    return [[m for rounds in several for m in rounds[turn]] for turn in range(len(several[0]))]
