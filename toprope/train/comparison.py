"""Two layouts of one run side by side: what differs in them, and what that does to each part of memory and step."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Any

from toprope.errors import BadInput
from toprope.hccl.cluster import Cluster
from toprope.train.search import Point, Space, search
from toprope.train.shape import TrainModel
from toprope.train.strategy import Batch

_NUMBERS = ("tp", "pp", "cp", "ep", "chunks", "zero", "micro_batch")
_WORDS = ("recompute", "schedule")
_SWITCHES = ("offload", "quantised")


@dataclass(frozen=True)
class Difference:
    """One part of both plans."""

    part: str
    first: float
    second: float


@dataclass(frozen=True)
class Comparison:
    """`settings`: what the layouts do not have in common; `step` in seconds, `memory` in bytes of the fullest card."""

    first: Point
    second: Point
    settings: Mapping[str, tuple[Any, Any]]
    step: tuple[Difference, ...]
    memory: tuple[Difference, ...]


def narrowed(space: Space, text: str) -> Space:
    """A space with the values of `tp=8,pp=4,zero=1` fixed. Raises `BadInput` for a name or value that no layout has."""
    known = ", ".join((*_NUMBERS, *_WORDS, *_SWITCHES))
    fixed: dict[str, Any] = {}
    for part in text.split(","):
        name, equals, value = (piece.strip() for piece in part.partition("="))
        name = name.replace("-", "_")
        try:
            if name in _NUMBERS and equals:
                fixed[name] = (int(value),)
            elif name in _WORDS and value in getattr(Space(recompute=("none", "selective", "full")), name):
                fixed[name] = (value,)
            elif name in _SWITCHES and value in ("yes", "no"):
                fixed[name] = (value == "yes",)
            else:
                raise ValueError
        except ValueError:
            raise BadInput(f"{part!r} is no setting of a layout", cure=f"write name=value with {known}") from None
    return replace(space, **fixed)


def compare(cluster: Cluster, model: TrainModel, batch: Batch, space: Space, first: str, second: str) -> Comparison:
    """The best layouts with the settings of each text. Raises `BadInput` where none fits."""
    points = []
    for text in (first, second):
        found = search(cluster, model, batch, narrowed(space, text), keep=1)
        if not found.points:
            need = (
                f"; the smallest needs {found.smallest.memory.total / 2**30:.1f} GiB a card" if found.smallest else ""
            )
            raise BadInput(
                f"no layout with {text} fits {cluster.memory_gb:g} GB{need}", cure="fix less, or use more cards"
            )
        points.append(found.points[0])
    a, b = points
    settings = {
        f.name: (getattr(a.plan, f.name), getattr(b.plan, f.name))
        for f in fields(a.plan)
        if getattr(a.plan, f.name) != getattr(b.plan, f.name)
    }
    return Comparison(
        a, b, settings, _parts(a.step.parts(), b.step.parts()), _parts(a.memory.parts(), b.memory.parts())
    )


def _parts(first: Mapping[str, float], second: Mapping[str, float]) -> tuple[Difference, ...]:
    return tuple(Difference(name, first[name], second[name]) for name in first if first[name] or second[name])
