"""Pins: placements that a kernel's author decides outside its body. Each is kept, or refused with what the planner has instead."""

from __future__ import annotations

from collections.abc import Sequence

from toprope.tile.language import Pin, TileError
from toprope.tile.plan import Plan, Ring


def keep(plans: Sequence[Plan], pins: Sequence[Pin]) -> None:
    """Change the rings of all variants as pinned; the ledger says later whether that fits. Raises TileError for a pin that cannot be kept."""
    for pin in pins:
        if not any(_homes_of(plan, pin.name) for plan in plans):
            known = sorted(set[str]().union(*map(_names, plans)))
            raise TileError(
                f"{pin.name} is pinned, and no array or value is called that", cure=f"there are {', '.join(known)}"
            )
    for plan in plans:
        _keep(plan, [p for p in pins if _homes_of(plan, p.name)])


def _keep(plan: Plan, pins: Sequence[Pin]) -> None:
    for pin in pins:
        rings, homes = _rings_of(plan, pin.name), _homes_of(plan, pin.name)
        if pin.memory and pin.memory != "ub":
            raise TileError(
                f"{pin.name} is pinned to {pin.memory}, and vector work reads and writes ub only: it lies in {', '.join(sorted(homes))}",
                cure="pin it to ub, or pin its depth",
            )
        if pin.depth and not rings:
            raise TileError(
                f"{pin.name} has one buffer in {', '.join(sorted(homes))}; only what is copied has a depth",
                cure="pin an array",
            )
        for ring in rings:
            others = [p for p in pins if p.depth and p.depth != pin.depth and ring in _rings_of(plan, p.name)]
            if pin.depth and others:
                raise TileError(
                    f"{pin.name} and {others[0].name} share {ring.name} and are pinned to {pin.depth} and {others[0].depth} buffers",
                    cure="give both the same depth",
                )
            ring.depth = pin.depth or ring.depth


def _rings_of(plan: Plan, array: str) -> list[Ring]:
    homes = {plan.places[v].home for r in plan.program.regions() for v in r.loads if v.array == array}
    homes |= {plan.places[s.value].home for r in plan.program.regions() for s in r.stores if s.array == array}
    return [ring for ring in plan.inputs + plan.outputs if ring.name in homes]


def _homes_of(plan: Plan, name: str) -> set[str]:
    return {p.home for v, p in plan.places.items() if v.label == name} | {r.name for r in _rings_of(plan, name)}


def _names(plan: Plan) -> set[str]:
    arrays = {v.array for r in plan.program.regions() for v in r.loads} | {
        s.array for r in plan.program.regions() for s in r.stores
    }
    return arrays | {v.label for v in plan.places if v.label}
