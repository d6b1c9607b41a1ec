"""Many shapes: few regions with a tiling each, as JSON and as a header for the host's tiling function."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from toprope.tune.space import Point

Shape = Mapping[str, int]
Times = Mapping[tuple[tuple[str, int], ...], float | None]
"""Predicted microseconds by point; None where the point has no time for the shape."""


def key(point: Point) -> tuple[tuple[str, int], ...]:
    """A point as a key of `Times`."""
    return tuple(sorted(point.items()))


@dataclass(frozen=True)
class Region:
    """The shapes for which every condition holds (dimension, "<=" or ">", bound), and their point."""

    conditions: tuple[tuple[str, str, int], ...]
    point: dict[str, int]


@dataclass(frozen=True)
class Decision:
    """Regions that cover all shapes without overlap, and for each shape how much of the best time its region's point reaches."""

    regions: tuple[Region, ...]
    reached: tuple[float, ...]

    def choose(self, shape: Shape) -> dict[str, int]:
        """The point for a shape."""
        for region in self.regions:
            if all(shape[d] <= b if sign == "<=" else shape[d] > b for d, sign, b in region.conditions):
                return region.point
        raise AssertionError("the regions cover every shape")


def decide(shapes: Sequence[Shape], times: Sequence[Times], points: Sequence[Point], *, most: int = 8) -> Decision:
    """At most `most` regions, cut where that gains most. `times[i]` holds what each of `points` takes for `shapes[i]`."""
    best = [min(t for t in row.values() if t is not None) for row in times]

    def lost(rows: Sequence[int]) -> tuple[float, Point]:
        def loss(point: Point) -> float:
            found = [times[r].get(key(point)) for r in rows]
            return sum(math.log(us / best[r]) if us is not None else 1e3 for r, us in zip(rows, found, strict=True))

        point = min(points, key=lambda p: (loss(p), key(p)))
        return loss(point), point

    leaves: list[tuple[tuple[tuple[str, str, int], ...], list[int]]] = [((), list(range(len(shapes))))]
    while len(leaves) < most:
        cuts = []
        for at, (conditions, rows) in enumerate(leaves):
            now = lost(rows)[0]
            for dim in shapes[0]:
                bounds = sorted({shapes[r][dim] for r in rows})[:-1]
                for bound in bounds:
                    low = [r for r in rows if shapes[r][dim] <= bound]
                    high = [r for r in rows if shapes[r][dim] > bound]
                    cuts.append((now - lost(low)[0] - lost(high)[0], at, dim, bound, conditions, low, high))
        gain, at, dim, bound, conditions, low, high = max(
            cuts, key=lambda c: (c[0], -c[1]), default=(0.0, 0, "", 0, (), [], [])
        )
        if gain < 1e-3:
            break
        leaves[at : at + 1] = [((*conditions, (dim, "<=", bound)), low), ((*conditions, (dim, ">", bound)), high)]
    regions = tuple(Region(conditions, dict(lost(rows)[1])) for conditions, rows in leaves)
    made = Decision(regions, ())
    reached = []
    for shape, row, least in zip(shapes, times, best, strict=True):
        us = row.get(key(made.choose(shape)))
        reached.append(least / us if us else 0.0)
    return Decision(regions, tuple(reached))


def header(name: str, decision: Decision, shapes: Sequence[Shape] = ()) -> str:
    """A C++ header for the host's tiling function: a struct of the numbers, and a function from dimensions to it.

    `shapes` those on which the regions were run and compared; the header names them, because others were not.
    """
    name = re.sub(r"\W|^(?=\d)", "_", name) or "choice"
    fields = list(decision.regions[0].point)
    dims = list(dict.fromkeys(d for r in decision.regions for d, _, _ in r.conditions))
    guard = f"TUNED_{name.upper()}_H"
    lines = [
        f"// Tiling of {name} by shape, written by `toprope tune`. Without this file the host's own rule decides.",
        "// Run and compared for these shapes only; for others the host has to check that the numbers fit:",
        *(f"//   {', '.join(f'{d} = {n}' for d, n in shape.items())}" for shape in shapes),
        f"#ifndef {guard}",
        f"#define {guard}",
        "",
        "#include <cstdint>",
        "",
        "namespace tuned {",
        f"struct {name.capitalize()}Choice {{",
        *(f"    int64_t {field};" for field in fields),
        "};",
        f"inline {name.capitalize()}Choice {name}({', '.join(f'int64_t {d}' for d in dims)}) {{",
    ]
    for region in decision.regions:
        values = ", ".join(str(region.point[f]) for f in fields)
        condition = " && ".join(f"{d} {sign} {bound}" for d, sign, bound in region.conditions)
        lines.append(f"    if ({condition}) return {{{values}}};" if condition else f"    return {{{values}}};")
    if decision.regions[0].conditions:
        values = ", ".join(str(decision.regions[-1].point[f]) for f in fields)
        lines.append(f"    return {{{values}}};")
    return "\n".join([*lines, "}", "}  // namespace tuned", "", f"#endif  // {guard}", ""])


@dataclass
class Selector:
    """Switches between tunings while it runs: to the one that is best in a state, but only where it is faster by `margin`, so that two
    that are close do not change places all the time. `times[state][name]` microseconds."""

    times: Mapping[str, Mapping[str, float]]
    margin: float = 0.05
    current: str = ""

    def choose(self, state: str) -> str:
        """The tuning for a state."""
        row = self.times[state]
        best = min(row, key=lambda n: (row[n], n))
        if not self.current or row[best] < row[self.current] * (1 - self.margin):
            self.current = best
        return self.current
