"""What the host chooses for one shape: the rows of a tile and how many buffers, by the capacity rule; one text for Python and C++.

A kernel with inner loops has a variant that holds whole rows and one that works in pieces. Whole rows come in as many at a time as fit,
with two buffers or, for long rows, with one. The pieces are there for rows that do not fit at all.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from toprope.tile.amounts import Amount
from toprope.tile.cube import Product
from toprope.tile.cube_text import BAND
from toprope.tile.emit_text import GROUP_ROWS
from toprope.tile.plan import UB_BYTES, Plan, names_of, pitch_elements
from toprope.tile.program import Index

MOST_ROWS = 4095  # what one DataCopyPad moves
FUNCTIONS = {
    "div": lambda a, b: a // b,
    "least": min,
    "most": max,
    "pick": lambda c, a, b: a if c else b,
    "root": lambda a: (math.isqrt(4 * a) + 1) // 2,
}
CPP_FUNCTIONS = """\
static int64_t div(int64_t a, int64_t b) { return a < 0 ? -1 : a / b; }
static int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }
static int64_t most(int64_t a, int64_t b) { return a > b ? a : b; }
static int64_t pick(bool condition, int64_t a, int64_t b) { return condition ? a : b; }
static int64_t root(int64_t a) {
    int64_t r = 0;
    while ((2 * r + 1) * (2 * r + 1) <= 4 * a) r++;
    return r;
}
"""


@dataclass(frozen=True)
class Choice:
    """The statements that give the kernel's chosen sizes out of dimensions, `cores` (of vectors) and `cubes`, and which it is told."""

    statements: tuple[tuple[str, str], ...]
    fields: tuple[str, ...]

    def and_then(self, other: Choice) -> Choice:
        """Both."""
        return Choice(self.statements + other.statements, self.fields + other.fields)

    def values(self, dims: Mapping[str, int], cores: int, cubes: int) -> dict[str, int]:
        """All statements evaluated for one shape."""
        known: dict[str, int] = {**dims, "cores": cores, "cubes": cubes}
        for name, text in self.statements:  # built below from names, numbers and FUNCTIONS
            known[name] = int(eval(text, {"__builtins__": {}, **FUNCTIONS}, known))
        return known


def band_of(p: Product | None) -> Choice | None:
    """Rows of tiles of a product that make a band: the tiles in work at one time cover a block of the result that is about square."""
    if p is None or p.swizzle:
        return None
    high, wide = p.rows.size, p.columns.size
    band = f"root(div(cubes * {wide}, {high}))"
    tiles = f"div({p.rows.extent.text} + {high - 1}, {high})"
    return Choice(((BAND, f"most(1, least({tiles}, {band}))"),), (BAND,))


def choice_of(plans: tuple[Plan, ...]) -> Choice | None:
    """How the host chooses, or None for a kernel without inner loops."""
    if len(plans) != 2:
        return None
    resident, pieces = plans
    index = next((i for i in resident.program.loop.indices if i.chosen), None)
    found = [("limits", _limits(resident))]
    if index is None:
        for buffers, single in (("two", False), ("one", True)):
            found.append((buffers, f"pick({resident.total(single=single).text} <= {UB_BYTES}, 1, 0)"))
        found.append(("buffers", "pick(limits == 0, 0, pick(two > 0, 2, one))"))
        return Choice((*_widths(resident, found), *found), ("buffers",))
    grain = _grain(resident, index)
    for buffers, single in (("two", False), ("one", True)):
        found += _rows_that_fit(resident.total(single=single), index, buffers, grain)
    general = next(i.size for i in pieces.program.loop.indices if i.chosen)
    others = [f"div({i.extent.text} + {i.size - 1}, {i.size})" for i in resident.program.loop.indices if i != index]
    every = " * ".join([index.extent.text, *others])
    even = "div(share + trips - 1, trips)"
    found += [
        ("buffers", "pick(limits == 0, 0, pick(two > 0, 2, pick(one > 0, 1, 0)))"),
        ("fitting", f"pick(buffers == 2, two, pick(buffers == 1, one, {general}))"),
        ("share", f"most(1, div({every} + cores - 1, cores))"),
        ("trips", "div(share + fitting - 1, fitting)"),
        (index.chosen, f"least(fitting, {even if grain == 1 else f'div({even} + {grain - 1}, {grain}) * {grain}'})"),
    ]
    return Choice((*_widths(resident, found), *found), (index.chosen, "buffers"))


def _widths(plan: Plan, statements: list[tuple[str, str]]) -> list[tuple[str, str]]:
    """Padded extents of whole axes, as far as the statements mention them."""
    pitch, found = pitch_elements(plan.program), []
    for i in plan.program.indices.values():
        if i.whole:
            found.append((names_of(i).width, f"div({i.extent.text} + {pitch - 1}, {pitch}) * {pitch}"))
            found.append((names_of(i).mask, f"div({names_of(i).width} + 255, 256) * 32"))
    text = " ".join(t for _, t in [*statements, *found])
    return [s for s in found if s[0] in text]


def _limits(plan: Plan) -> str:
    """1 where whole axes are as short as sizes that the user gave, and rows as few as a copy moves."""
    rows = {v.axes[0] for r in plan.program.regions() for v in r.loads + r.ops}
    text = "1"
    for i in plan.program.indices.values():
        if i.whole and not i.tune:
            text = f"pick({i.extent.text} <= {i.size}, {text}, 0)"
        elif i.whole and i.name in rows:
            text = f"pick({i.extent.text} <= {MOST_ROWS}, {text}, 0)"
    return text


def _grain(plan: Plan, index: Index) -> int:
    """A tile's rows come in multiples of this where they lie side by side."""
    beside = any(v.axes[1] == index.name for r in plan.program.regions() for v in r.loads + r.ops)
    return pitch_elements(plan.program) if beside else 1


def _rows_that_fit(total: Amount, index: Index, name: str, grain: int) -> list[tuple[str, str]]:
    """Statements for the most rows whose bytes fit. Few rows take scratch for each of them, many for a group."""
    names, each, fixed, grouped = names_of(index), Amount(), Amount(), Amount()
    for term, c in total.terms:
        rest = tuple(n for n in term if n not in (index.chosen, names.rows, names.group))
        if index.chosen in term:
            each += Amount.of(c, *rest)
        elif names.rows in term:  # whole sixteens
            each += Amount.of(c, *rest)
            fixed += Amount.of(15 * c, *rest)
        elif names.group in term:
            grouped += Amount.of(c, *rest)
        else:
            fixed += Amount.of(c, *rest)
    few = f"div({UB_BYTES} - ({fixed.text}), {(each + grouped).text})"
    many = f"div({UB_BYTES} - ({(fixed + grouped * GROUP_ROWS).text}), {each.text})"
    best = f"most(least({name}Few, {GROUP_ROWS}), {name}Many)"
    few, many = few.replace(", ", ", (", 1)[:-1] + "))", many.replace(", ", ", (", 1)[:-1] + "))"
    return [
        (name + "Few", few),
        (name + "Many", many),
        (name, f"least({MOST_ROWS // grain * grain}, {best if grain == 1 else f'div({best}, {grain}) * {grain}'})"),
    ]
