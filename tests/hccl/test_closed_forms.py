"""Closed forms against the simulation, message by message; the published figures of 8 x 8 cards; refusals."""

from __future__ import annotations

from dataclasses import replace

import pytest

from toprope.errors import BadInput
from toprope.hccl.closed_forms import (
    Link,
    ahc_s,
    beyond_node_bytes,
    collective_s,
    congested,
    flat_s,
    hierarchical_s,
    pipeline_s,
)
from toprope.hccl.cluster import Cluster, Level
from toprope.hccl.network import ALGORITHMS, Network, ahc, at_once, finish_s, hierarchical, hierarchical_finish_s

MESH = Level("mesh", 8, "mesh", 196.0, 0.5)
SWITCH = Level("switch", 64, "switch", 25.0, 1.5)


@pytest.mark.parametrize("size", [1e3, 1e6, 1e9])
@pytest.mark.parametrize("kind", ["all_reduce", "reduce_scatter", "all_gather"])
@pytest.mark.parametrize("algorithm", ["ring", "mesh", "halving-doubling", "nhr", "nb"])
@pytest.mark.parametrize("level", [MESH, SWITCH], ids=lambda v: v.name)
@pytest.mark.parametrize("members", [2, 4, 8])
def test_closed_form_is_the_simulation(level: Level, members: int, algorithm: str, kind: str, size: float) -> None:
    network = Network((level,))
    run = finish_s(network.run(ALGORITHMS[algorithm](list(range(members)), size, kind)))
    assert flat_s(algorithm, kind, members, size, Link.of(level, members)) == pytest.approx(run, rel=1e-6)


@pytest.mark.parametrize("members", [3, 5, 6, 7])
@pytest.mark.parametrize("algorithm", ["ring", "mesh", "nhr"])
def test_any_number_of_members(algorithm: str, members: int) -> None:
    network = Network((SWITCH,))
    run = finish_s(network.run(ALGORITHMS[algorithm](list(range(members)), 1e8, "all_reduce")))
    assert flat_s(algorithm, "all_reduce", members, 1e8, Link.of(SWITCH, members)) == pytest.approx(run, rel=1e-6)


def test_pairwise_all_to_all() -> None:
    run = finish_s(Network((SWITCH,)).run(ALGORITHMS["pairwise"](list(range(8)), 1e8, "all_to_all")))
    assert flat_s("pairwise", "all_to_all", 8, 1e8, Link.of(SWITCH, 8)) == pytest.approx(run, rel=0.01)


def test_figures_of_eight_nodes_of_eight_at_line_rate() -> None:
    """Milliseconds of a 1 GB AllReduce: one flat ring 78.9, mesh and ring 17.7, pipeline 9.9 (training facts, 2.3)."""
    near, far = Link.of(MESH, 8), Link.of(SWITCH, 8)
    assert flat_s("ring", "all_reduce", 64, 1e9, far) * 1e3 == pytest.approx(78.9, rel=0.002)
    phases = hierarchical_finish_s(Network((MESH, SWITCH)), hierarchical(8, 8, 1e9, "mesh", "ring"))
    assert phases * 1e3 == pytest.approx(17.7, rel=0.01)
    assert pipeline_s("all_reduce", (8, near), (8, far), 1e9) * 1e3 == pytest.approx(9.9, rel=0.03)
    assert hierarchical_s("all_reduce", [(MESH, 8), (SWITCH, 8)], 1e9)[0] <= phases * 1.001


def test_halving_and_doubling_of_an_odd_number_takes_a_step_more() -> None:
    link = Link.of(SWITCH, 5)
    whole = flat_s("halving-doubling", "all_reduce", 4, 1e8, link)
    assert flat_s("halving-doubling", "all_reduce", 5, 1e8, link) == pytest.approx(whole + 2 * (link.a + 1e8 * link.b))


def test_two_collectives_share_a_port() -> None:
    network = Network((SWITCH,))
    rounds = ALGORITHMS["ring"](list(range(4)), 1e8, "all_gather")
    alone = finish_s(network.run(rounds))
    ports: dict[object, float] = {}
    network.run(rounds, ports)
    both = finish_s(network.run(rounds, ports))
    assert both == pytest.approx(2 * alone, rel=0.01)


def test_a_slow_card_holds_all_up() -> None:
    rounds = ALGORITHMS["ring"](list(range(4)), 1e8, "all_gather")
    alone = finish_s(Network((SWITCH,)).run(rounds))
    slow = finish_s(Network((SWITCH,), slow={("switch", 2): 0.5}).run(rounds))
    assert slow == pytest.approx(2 * alone, rel=0.1)


def test_groups_meet_the_levels_they_span() -> None:
    cluster = Cluster.load("atlas-a2", 64)
    assert [(level.name, n) for level, n in cluster.group(8, 1)] == [("node", 8)]
    assert [(level.name, n) for level, n in cluster.group(8, 8)] == [("RoCE", 8)]
    assert [(level.name, n) for level, n in cluster.group(16, 4)] == [("node", 2), ("RoCE", 8)]
    with pytest.raises(BadInput, match="on 64 cards"):
        cluster.group(16, 8)


def test_bytes_beyond_the_node() -> None:
    cluster = Cluster.load("atlas-a2", 64)
    assert beyond_node_bytes(cluster, "all_gather", 8, 1, 8e9) == 0
    assert beyond_node_bytes(cluster, "all_gather", 64, 1, 8e9) == pytest.approx(7 / 8 * 1e9)
    assert beyond_node_bytes(cluster, "all_reduce", 8, 8, 8e9) == pytest.approx(2 * 7e9)


def test_the_choice_changes_with_the_size() -> None:
    cluster = Cluster.load("atlas-a2", 64)
    names = [collective_s(cluster, "all_reduce", 64, 1, size)[1] for size in (1e6, 1e8)]
    assert names == ["mesh+mesh", "pipeline"], names


def test_an_algorithm_says_what_it_cannot() -> None:
    with pytest.raises(BadInput, match="ring does no all_to_all"):
        flat_s("ring", "all_to_all", 8, 1.0, Link.of(SWITCH, 8))
    with pytest.raises(BadInput, match="power of two"):
        ALGORITHMS["halving-doubling"](list(range(6)), 1.0, "all_reduce")
    with pytest.raises(BadInput, match="share no level"):
        Network((replace(MESH, cards=2),)).level_of(0, 7)


@pytest.mark.parametrize("size", [1e5, 1e8])
@pytest.mark.parametrize("kind", ["all_reduce", "reduce_scatter", "all_gather"])
@pytest.mark.parametrize("sizes", [[4, 4], [8, 4], [8, 8, 2], [3, 5], [8, 1], [6]], ids=str)
def test_groups_of_unequal_sizes(sizes: list[int], kind: str, size: float) -> None:
    """The closed form is what the messages take. Where sizes do not divide each other, slices of several widths wait for each other's ports."""
    near, far = Level("near", 8, "switch", 196.0, 0.5), Level("far", 64, "switch", 25.0, 1.5)
    network = Network((Level("all", 64, "switch", 25.0, 1.5),))
    phases = ahc(sizes, size, kind)
    link = Link.of(network.levels[0], 64)
    run = hierarchical_finish_s(network, phases)
    waits = 1.4 if sizes == [3, 5] else 1.001
    assert 0.85 <= run / ahc_s(kind, sizes, link, link, size) <= waits
    assert ahc_s(kind, sizes, Link.of(near, 8), Link.of(far, 64), size) < ahc_s(
        kind, sizes, link, link, size
    ) or sizes == [6]


def test_equal_groups_are_the_hierarchical_form() -> None:
    link = Link.of(SWITCH, 8)
    plain = 2 * flat_s("nhr", "reduce_scatter", 4, 1e8, link) + flat_s("nhr", "all_reduce", 2, 1e8 / 4, link)
    assert ahc_s("all_reduce", [4, 4], link, link, 1e8) == pytest.approx(plain)


def test_a_group_that_fills_no_whole_node_takes_the_asymmetric_form() -> None:
    cluster = Cluster.load("atlas-a2", 16)
    seconds, name = collective_s(cluster, "all_reduce", 12, 1, 1e8)
    assert name == "AHC" and seconds < flat_s("ring", "all_reduce", 12, 1e8, Link.of(cluster.levels[-1], 12))
    assert collective_s(cluster, "all_reduce", 16, 1, 1e8)[1] != "AHC"


@pytest.mark.parametrize("near", ["mesh", "ring", "nhr"])
@pytest.mark.parametrize("far", ["ring", "nhr", "halving-doubling"])
@pytest.mark.parametrize(("nodes", "cards"), [(2, 8), (8, 8), (4, 4)])
def test_hierarchical_closed_form_is_the_simulation(nodes: int, cards: int, near: str, far: str) -> None:
    inner, outer = Level("mesh", cards, "mesh", 196.0, 0.5), Level("switch", nodes * cards, "switch", 25.0, 1.5)
    run = hierarchical_finish_s(Network((inner, outer)), hierarchical(nodes, cards, 1e8, near, far))
    a, b = Link.of(inner, cards), Link.of(outer, nodes)
    closed = flat_s(near, "reduce_scatter", cards, 1e8, a) + flat_s(near, "all_gather", cards, 1e8, a)
    closed += flat_s(far, "all_reduce", nodes, 1e8 / cards, b)
    assert run == pytest.approx(closed, rel=1e-6)


@pytest.mark.parametrize("collectives", [2, 3, 5])
@pytest.mark.parametrize("algorithm", ["ring", "nhr"])
def test_collectives_at_a_time_share_the_ports(algorithm: str, collectives: int) -> None:
    """Each ends when all do: latency once a round, the bytes of all."""
    rounds = ALGORITHMS[algorithm](list(range(8)), 1e8, "all_gather")
    run = finish_s(Network((SWITCH,)).run(at_once([rounds] * collectives)))
    closed = flat_s(algorithm, "all_gather", 8, 1e8, congested(Link.of(SWITCH, 8), collectives))
    assert 0.99 <= run / closed <= 1.001
    assert run > (collectives - 0.1) * finish_s(Network((SWITCH,)).run(rounds))


@pytest.mark.parametrize("convergence", [1, 2, 4])
def test_uplinks_that_carry_less_than_the_ports(convergence: int) -> None:
    """Eight nodes of eight, rings among equal places: eight cards of a node send through an uplink of 8 / convergence ports."""
    network = Network((SWITCH,), uplinks={"switch": (8, 8 * SWITCH.bytes_per_s / convergence)})
    across = at_once([ALGORITHMS["ring"]([n * 8 + c for n in range(8)], 1e7, "all_reduce") for c in range(8)])
    run = finish_s(network.run(across))
    closed = flat_s("ring", "all_reduce", 8, 1e7, congested(Link.of(SWITCH, 8), 1, convergence))
    assert run == pytest.approx(closed, rel=0.15)
