"""Time of collectives: HCCL's algorithms in closed form, and the best of them for a size and a place.

Formulas: HCCL user guide, "introduction to collective algorithms" (Hockney model: latency a, seconds per byte b, and g for
reducing a byte), p members, n bytes. n is the whole array: what each card holds before an AllReduce and after an AllGather.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache

from toprope.errors import BadInput
from toprope.hccl.cluster import Cluster, Level

KINDS = ("all_reduce", "reduce_scatter", "all_gather", "all_to_all")


@dataclass(frozen=True)
class Link:
    """A level as the formulas see it: latency, seconds per byte of one link, whether each pair has its own link.

    `g`: seconds to reduce a byte; 0 where the copy engine reduces as the bytes arrive, as HCCL's does.
    """

    a: float
    b: float
    mesh: bool = False
    g: float = 0.0

    @classmethod
    def of(cls, level: Level, members: int) -> Link:
        """The link between `members` of a level; a mesh's rate is the sum of its links, of which a part is used."""
        if level.shape == "mesh":
            return cls(level.latency_s, (level.cards - 1) / level.bytes_per_s, mesh=True)
        return cls(level.latency_s, 1 / level.bytes_per_s)


def _log(p: int) -> int:
    return math.ceil(math.log2(p))


def _mesh(kind: str, p: int, n: float, x: Link) -> float:
    # Every pair at once: on a mesh over its own link; through a switch the p - 1 messages share the port.
    share = n / p * x.b * (1 if x.mesh else p - 1)
    rounds = 2 if kind == "all_reduce" else 1
    return rounds * (x.a + share) + _reducing(kind, p, n, x)


def _ring(kind: str, p: int, n: float, x: Link) -> float:
    rounds = 2 * (p - 1) if kind == "all_reduce" else p - 1
    return rounds * (x.a + n / p * x.b) + _reducing(kind, p, n, x)


def _halving_doubling(kind: str, p: int, n: float, x: Link) -> float:
    whole: int = 2 ** int(math.log2(p))
    rounds = 2 if kind == "all_reduce" else 1
    time = rounds * (_log(whole) * x.a + (whole - 1) / whole * n * x.b)
    if whole != p:  # the rest hands its array over first and takes the result back last
        time += rounds * (x.a + n * x.b)
    return time + _reducing(kind, p, n, x)


def _nhr(kind: str, p: int, n: float, x: Link) -> float:
    rounds = 2 if kind == "all_reduce" else 1
    return rounds * (_log(p) * x.a + (p - 1) / p * n * x.b) + _reducing(kind, p, n, x)


def _pairwise(kind: str, p: int, n: float, x: Link) -> float:
    return (p - 1) * (x.a + n / p * x.b)


def _star(kind: str, p: int, n: float, x: Link) -> float:
    """One root hands each member its part, or takes it; a mesh gives each its own link."""
    return x.a + n * x.b * (1 if x.mesh else p - 1)


def _reducing(kind: str, p: int, n: float, x: Link) -> float:
    return (p - 1) / p * n * x.g if kind in ("all_reduce", "reduce_scatter") else 0.0


# What each algorithm can do. NB has NHR's closed form (it differs in which members talk, not in rounds or bytes).
ALGORITHMS: dict[str, tuple[Callable[[str, int, float, Link], float], tuple[str, ...]]] = {
    "mesh": (_mesh, KINDS),
    "ring": (_ring, KINDS[:3]),
    "halving-doubling": (_halving_doubling, KINDS[:3]),
    "nhr": (_nhr, KINDS[:3]),
    "nb": (_nhr, KINDS[:3]),
    "pairwise": (_pairwise, ("all_to_all",)),
    "star": (_star, ("scatter", "gather", "broadcast")),
}


def flat_s(algorithm: str, kind: str, members: int, size_bytes: float, link: Link) -> float:
    """Seconds of one algorithm among `members` on one level. Raises `BadInput` where the algorithm has no such kind."""
    if algorithm not in ALGORITHMS or kind not in ALGORITHMS[algorithm][1]:
        raise BadInput(f"{algorithm} does no {kind}", cure=f"known: {', '.join(sorted(ALGORITHMS))}")
    if members <= 1 or size_bytes <= 0:
        return 0.0
    return ALGORITHMS[algorithm][0](kind, members, size_bytes, link)


def pipeline_s(kind: str, inner: tuple[int, Link], outer: tuple[int, Link], size_bytes: float) -> float:
    """HCCL's pipeline algorithm: the node's transfers run beside those between nodes (nodes x cards, s = n / nodes)."""
    (p, near), (nodes, far) = inner, outer
    piece = size_bytes / nodes / p
    near_step = piece * near.b * (1 if near.mesh else p - 1) + near.a
    one_way = max(piece * far.b + far.a, near_step) * (nodes - 1) + near_step
    return (2 if kind == "all_reduce" else 1) * one_way + _reducing(kind, p * nodes, size_bytes, far)


def ahc_s(
    kind: str, sizes: Sequence[int], near: Link, far: Link, size_bytes: float, *, convergence: float = 1.0
) -> float:
    """HCCL's asymmetric hierarchical concatenation: groups of unequal `sizes` scatter inside, combine slice by slice across, gather inside.

    Inside, NHR of the largest group; across, the smallest group's cards carry the most: 1 / smallest of the array each. `convergence`
    is how many times less the links between groups carry than all cards of a group could send. The simulation takes up to 1.4 times as
    long where sizes do not divide each other (3 and 5): slices of several widths then wait for each other's ports.
    """
    largest, smallest, groups = max(sizes), min(sizes), len(sizes)
    rounds = 2 if kind == "all_reduce" else 1
    inside = _log(largest) * near.a + (largest - 1) / largest * size_bytes * near.b if largest > 1 else 0.0
    across = (
        _log(groups) * far.a + (groups - 1) / groups * size_bytes / smallest * far.b * convergence
        if groups > 1
        else 0.0
    )
    return rounds * (inside + across) + _reducing(kind, sum(sizes), size_bytes, far)


def congested(link: Link, collectives: int, convergence: float = 1.0) -> Link:
    """The link as one of so many collectives sees it that use the same ports at a time, behind uplinks that carry less than the ports."""
    return Link(link.a, link.b * collectives * convergence, link.mesh, link.g)


def hierarchical_s(kind: str, groups: Sequence[tuple[Level, int]], size_bytes: float) -> tuple[float, str]:
    """The nearest level's best algorithm around what the levels beyond it do; returns seconds and the algorithms.

    AllReduce: scatter inside, reduce across with a share each, gather inside. All-to-all: inside, then across.
    """
    level, members = groups[0]
    link = Link.of(level, members)
    if len(groups) == 1:
        return _best(kind, members, size_bytes, link)
    if kind == "all_to_all":
        near, near_name = _best(kind, members, size_bytes, link)
        far, far_name = hierarchical_s(kind, groups[1:], size_bytes)
        return near + far, f"{near_name}+{far_name}"
    share = size_bytes / members
    far, far_name = hierarchical_s(kind, groups[1:], share)
    if kind == "all_reduce":
        down, name = _best("reduce_scatter", members, size_bytes, link)
        up, _ = _best("all_gather", members, size_bytes, link)
        return down + far + up, f"{name}+{far_name}"
    near, name = _best(kind, members, size_bytes, link)
    return near + far, f"{name}+{far_name}"


def _best(kind: str, members: int, size_bytes: float, link: Link) -> tuple[float, str]:
    options = [
        (flat_s(name, kind, members, size_bytes, link), name) for name, (_, ks) in ALGORITHMS.items() if kind in ks
    ]
    return min(options)


@lru_cache(maxsize=65536)
def collective_s(cluster: Cluster, kind: str, size: int, stride: int, size_bytes: float) -> tuple[float, str]:
    """Seconds of a collective of `size` cards, `stride` apart, over `size_bytes`, and the algorithm that HCCL would take.

    The best of the hierarchical forms, the pipeline (two levels) and flat rings; plus the start of a collective.
    """
    if size <= 1 or size_bytes <= 0:
        return 0.0, "none"
    groups = cluster.group(size, stride)
    uneven = _uneven(groups, size)
    options = [] if uneven and kind != "all_to_all" else [hierarchical_s(kind, groups, size_bytes)]
    if uneven and kind != "all_to_all":
        inner, outer = Link.of(groups[0][0], groups[0][1]), Link.of(groups[-1][0], len(uneven))
        options.append((ahc_s(kind, uneven, inner, outer, size_bytes), "AHC"))
    elif len(groups) == 2 and kind != "all_to_all":
        (near, p), (far, nodes) = groups
        time = pipeline_s(kind, (p, Link.of(near, p)), (nodes, Link.of(far, nodes)), size_bytes)
        options.append((time, "pipeline"))
    if len(groups) > 1 and kind != "all_to_all":
        options.append((flat_s("ring", kind, size, size_bytes, Link.of(groups[-1][0], size)), "flat ring"))
    time, name = min(options)
    return cluster.collective_start_us * 1e-6 + time, name


def _uneven(groups: Sequence[tuple[Level, int]], size: int) -> list[int]:
    """Sizes of two levels' nearest groups where the last one is smaller; nothing where all are alike."""
    if len(groups) != 2 or groups[0][1] * groups[1][1] == size:
        return []
    whole, rest = divmod(size, groups[0][1])
    return [groups[0][1]] * whole + [rest]


def beyond_node_bytes(cluster: Cluster, kind: str, size: int, stride: int, size_bytes: float) -> float:
    """Bytes that one card sends beyond the first level of the network, hierarchical form."""
    groups = cluster.group(size, stride)
    inside = groups[0][1] if groups[0][0] is cluster.levels[0] else 1
    beyond = math.prod(m for _, m in groups) // inside
    return (2 if kind == "all_reduce" else 1) * size_bytes / inside * (beyond - 1) / beyond
