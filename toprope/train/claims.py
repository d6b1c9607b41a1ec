"""The public claims about training 110 billion parameters, with the meaning under which each holds and where it does not."""

from __future__ import annotations

from dataclasses import dataclass, replace

from toprope.hccl.closed_forms import Link, flat_s, hierarchical_s, pipeline_s
from toprope.hccl.cluster import Cluster
from toprope.train.memory import stage_memory
from toprope.train.shape import TrainModel
from toprope.train.step import beyond_node_volume
from toprope.train.strategy import Batch, Precision, Strategy


@dataclass(frozen=True)
class Reading:
    """One reading of a claim: what was computed, the number, what was claimed."""

    claim: str
    meaning: str
    value: str
    holds: bool


def readings() -> list[Reading]:
    """1.1 TB to 28 GB a card, and 62.5 % less communication."""
    return [*_memory(), *_traffic()]


def _memory() -> list[Reading]:
    model = TrainModel.load("internvl-110b")
    scale = 110e9 / model.parameters
    rows = []
    for name, precision in (
        ("weights and Adam moments only, 10 B a parameter", Precision(2, 0, 8)),
        ("ZeRO's mixed precision, 16 B", Precision(2, 2, 12)),
        ("with float32 gradients, 18 B", Precision(2, 4, 12)),
    ):
        total = 110e9 * precision.total
        rows.append(Reading("1.1 TB", f"all states, {name}", f"{total / 1e12:.2f} TB", abs(total / 1e12 - 1.1) < 0.05))
        for layout, plan in (
            ("ZeRO-3 over 64 cards", Strategy(dp=64, zero=3, precision=precision)),
            ("TP 8 x ZeRO-3 over 8", Strategy(tp=8, dp=8, zero=3, precision=precision)),
        ):
            card = stage_memory(model, Batch(64, 4096), plan, 0, buffers=False).states * scale
            rows.append(
                Reading("28 GB a card", f"{layout}, {name}", f"{card / 1e9:.1f} GB", abs(card / 1e9 - 28) < 0.8)
            )
    return rows


def _traffic() -> list[Reading]:
    model, cluster = TrainModel.load("internvl-110b"), Cluster.load("atlas-a2", 64)
    plain = Strategy(dp=64, zero=3, precision=Precision(2, 2, 12))
    base = beyond_node_volume(cluster, model, plain)
    # Counted as the papers do, each collective moving M bytes a card, and M/8 once a node's cards reduced among themselves.
    papers = 1 - (1 + 0 + 1 / 8) / 3
    rows = [
        Reading(
            "-62.5 %",
            "volume between nodes as papers count it: 3M of ZeRO-3 becomes M forward, 0 backward (hpZ), M/8 of gradients",
            f"-{papers:.1%}",
            abs(papers - 0.625) < 0.02,
        )
    ]
    for meaning, plan in (
        ("second copy of the weights in each node (hpZ)", replace(plain, secondary=True)),
        ("ZeRO-3 inside the node, replicas between nodes", replace(plain, zero_cards=8)),
        ("hpZ with int8 gathers and int4 gradients (ZeRO++)", replace(plain, secondary=True, quantised=True)),
    ):
        less = 1 - beyond_node_volume(cluster, model, plan) / base
        rows.append(
            Reading(
                "-62.5 %",
                f"bytes that leave a node, against plain ZeRO-3: {meaning}",
                f"-{less:.1%}",
                abs(less - 0.625) < 0.02,
            )
        )
    size = 1e9
    near, far = Link.of(cluster.levels[0], 8), Link.of(cluster.levels[1], 8)
    one_ring = flat_s("ring", "all_reduce", 64, size, far)
    forms = {
        "hierarchical AllReduce of 1 GB against one flat ring": hierarchical_s(
            "all_reduce", cluster.group(64, 1), size
        )[0],
        "pipelined AllReduce of 1 GB against one flat ring": pipeline_s("all_reduce", (8, near), (8, far), size),
    }
    for meaning, seconds in forms.items():
        less = 1 - seconds / one_ring
        rows.append(Reading("-62.5 %", meaning, f"-{less:.1%}", abs(less - 0.625) < 0.02))
    return rows
