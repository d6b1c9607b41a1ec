"""What the host chooses for one shape: rows of a tile and buffers by the capacity rule, tiles of a product; one text for Python and C++.

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


def _turns(m: int, n: int, cubes: int, high: int, wide: int) -> int:
    """Tiles of the core that has most of them, times what a step of 64 of K takes: the cube's cycles or those of its copies into L1.

    Rows of B that do not begin and end at 128 bytes, where L2 hands out bytes, bring more than is used.
    """
    tiles = -(-m // high) * -(-n // wide)
    beside = 0 if n % 64 == 0 and wide % 64 == 0 else 64
    return -(-tiles // cubes) * max(high * wide // 64 + 9, (high + wide + beside) * 128 // 89)


def tile_columns(m: int, n: int, cubes: int, high: int, wide: int) -> int:
    """Columns of a tile of the result, at most `wide`, in whole fractals, that give the cores the most even shares; the most of them."""
    return min(range(wide, 0, -16), key=lambda w: _turns(m, n, cubes, high, w))


def tile_rows(m: int, n: int, cubes: int, high: int, wide: int) -> int:
    """Rows of a tile, at most `high`, each number with its best columns."""
    return min(range(high, 0, -16), key=lambda h: _turns(m, n, cubes, h, tile_columns(m, n, cubes, h, wide)))


FUNCTIONS = {
    "div": lambda a, b: a // b,
    "least": min,
    "most": max,
    "pick": lambda c, a, b: a if c else b,
    "root": lambda a: (math.isqrt(4 * a) + 1) // 2,
    "tileColumns": tile_columns,
    "tileRows": tile_rows,
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
CPP_TILES = """\
// What a step of K costs the core that has most tiles of the result: the cube's cycles or those of its copies into L1.
static int64_t turns(int64_t m, int64_t n, int64_t cubes, int64_t high, int64_t wide) {
    const int64_t tiles = ((m + high - 1) / high) * ((n + wide - 1) / wide);
    const int64_t beside = n % 64 == 0 && wide % 64 == 0 ? 0 : 64;
    return (tiles + cubes - 1) / cubes * most(high * wide / 64 + 9, (high + wide + beside) * 128 / 89);
}
static int64_t tileColumns(int64_t m, int64_t n, int64_t cubes, int64_t high, int64_t wide) {
    int64_t best = wide;
    for (int64_t w = wide - 16; w > 0; w -= 16)
        if (turns(m, n, cubes, high, w) < turns(m, n, cubes, high, best)) best = w;
    return best;
}
static int64_t tileRows(int64_t m, int64_t n, int64_t cubes, int64_t high, int64_t wide) {
    int64_t best = high;
    const auto cost = [=](int64_t h) { return turns(m, n, cubes, h, tileColumns(m, n, cubes, h, wide)); };
    for (int64_t h = high - 16; h > 0; h -= 16)
        if (cost(h) < cost(best)) best = h;
    return best;
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


def tiles_of(p: Product | None) -> Choice | None:
    """Sizes of a product's tiles that give the cores even shares, where they are open; and rows of tiles that make a band.

    The tiles in work at one time cover a block of the result that is about square.
    """
    if p is None:
        return None
    found, extents = [], f"{p.rows.extent.text}, {p.columns.extent.text}, cubes"
    if p.rows.chosen:
        found.append((p.rows.chosen, f"tileRows({extents}, {p.rows.size}, {p.columns.size})"))
        found.append((p.columns.chosen, f"tileColumns({extents}, {p.rows.chosen}, {p.columns.size})"))
    high, wide = p.rows.step, p.columns.step
    if not p.swizzle:
        tiles = f"div({p.rows.extent.text} + {high} - 1, {high})"
        found.append((BAND, f"most(1, least({tiles}, root(div(cubes * {wide}, {high}))))"))
    return Choice(tuple(found), tuple(name for name, _ in found)) if found else None


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
