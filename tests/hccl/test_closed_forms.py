"""Closed forms against the simulation, message by message; the published figures of 8 x 8 cards; refusals."""

from __future__ import annotations

from dataclasses import replace

import pytest

from toprope.errors import BadInput
from toprope.hccl.closed_forms import Link, beyond_node_bytes, collective_s, flat_s, hierarchical_s, pipeline_s
from toprope.hccl.cluster import Cluster, Level
from toprope.hccl.network import ALGORITHMS, Network, finish_s, hierarchical, hierarchical_finish_s

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
