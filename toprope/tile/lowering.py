"""What a kernel becomes for fixed tile sizes: vector variants, a matrix product, or a vector part that feeds one; and its text."""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, TypeGuard

import numpy as np

from toprope.soc import Soc
from toprope.tile.choice import Choice, choice_of, tiles_of
from toprope.tile.cube import L1_BYTES, Product, ProductReader, is_product
from toprope.tile.cube_text import product_class, shared_buffers
from toprope.tile.emit import entry_text, head_text, numbers_of, variants
from toprope.tile.handover import Handover
from toprope.tile.language import Param, Pin, TileError
from toprope.tile.pins import keep
from toprope.tile.plan import UB_BYTES, Plan, place
from toprope.tile.program import ONE, Index, Number, Program
from toprope.tile.reader import Reader, Source
from toprope.tile.stage import Parts, has_epilogue, is_staged, split

FEWER_ROWS = 4  # of rows that come in pieces, a tile has this many times fewer, in pieces that are so much longer


@dataclass(frozen=True)
class Lowered:
    """A kernel for fixed tile sizes.

    `plans`: vector variants, the general one last; `workspace`: arrays between vector and cube; `later`: products behind the first one;
    `handover`: the order of parts in a kernel that has vector work and products.
    """

    name: str
    file: str
    params: dict[str, Param]
    sizes: dict[str, int]
    plans: tuple[Plan, ...] = ()
    product: Product | None = None
    workspace: dict[str, Param] | None = None
    scalars: tuple[str, ...] = ()
    later: tuple[Product, ...] = ()
    handover: Handover | None = None

    @property
    def dims(self) -> list[str]:
        """Names of the dimensions, in order of the signature, and of other whole-number arguments."""
        return list(dict.fromkeys([*(d.name for p in self.params.values() for d in p.dims), *self.scalars]))

    @property
    def numbers(self) -> list[tuple[Number, bool]]:
        """Numbers that the host computes from the dimensions; True for integers."""
        return numbers_of(list(self.plans))

    @property
    def task_indices(self) -> tuple[Index, ...]:
        """The axes whose steps are dealt out to the cores."""
        if self.product is None:
            return self.plans[-1].program.loop.indices
        by_tile = self.handover is None or self.handover.tiled
        return (self.product.rows, self.product.columns) if by_tile else (self.product.rows,)

    @property
    def products(self) -> tuple[Product, ...]:
        """All products, in order."""
        return (self.product, *self.later) if self.product else ()

    def over(self, chip: Soc) -> str:
        """What does not fit, or nothing. Of the vector variants only the general one must."""
        found = [text for p in self.products for text in p.over(chip)]
        capacity = int(chip.number("spaces.ub_bytes"))
        if self.plans and self.plans[-1].total_bytes > capacity:
            found.append(f"ub needs {self.plans[-1].total_bytes} of {capacity}")
        return ", ".join(found)

    @cached_property
    def choice(self) -> Choice | None:
        """What the host chooses for a shape."""
        found = [c for c in (choice_of(self.plans), tiles_of(self.product)) if c is not None]
        return found[0].and_then(found[1]) if len(found) == 2 else found[0] if found else None

    @property
    def fields(self) -> list[tuple[str, str]]:
        """Type and name of what an entry is told beside its arrays."""
        found = [("uint32_t", d) for d in self.dims]
        found += [("int32_t" if i else "float", f"number{k}") for k, (_, i) in enumerate(self.numbers)]
        return found + [("uint32_t", f) for f in (self.choice.fields if self.choice else ())]

    def chosen(self, dims: Mapping[str, int], blocks: int) -> dict[str, int]:
        """The fields that the host chooses, for a number of blocks: each has a cube core and two vector cores, or a vector core."""
        if self.choice is None:
            return {}
        values = self.choice.values(dims, 2 * blocks if self.product else blocks, blocks)
        return {f: values[f] for f in self.choice.fields}

    def open_sizes(self, dims: Mapping[str, int]) -> dict[str, int]:
        """Values of the sizes that the caller left open, as far as bits hang on them: what level A takes."""
        if self.choice is None:
            return {}
        if len(self.plans) < 2:
            return {}
        whole = self.chosen(dims, 1)["buffers"] > 0
        inner = [i for i in self.plans[0 if whole else -1].program.indices.values() if i.tune and not i.chosen]
        found: dict[str, int] = {}
        for i in inner:
            size = int(eval(i.extent.text, {"__builtins__": {}}, dict(dims))) if whole else i.size
            found[i.tune] = max(found.get(i.tune, 2), size)  # tiles of size 1 would drop their axis
        return found

    def ledger(self, chip: Soc) -> str:
        """The bytes of every memory."""
        parts = [p.ledger(int(chip.number("spaces.ub_bytes"))) for p in self.plans]
        return "\n".join(parts + [p.ledger(chip) for p in self.products])

    def blocks(self, dims: Mapping[str, int], chip: Soc) -> int:
        """min(tasks, cores)."""
        cores, tasks = int(chip.number("cores.aic" if self.product else "cores.aiv")), 1
        known = {**dims, **self.chosen(dims, cores)}
        for i in self.task_indices:
            tasks *= -(-int(eval(i.extent.text, {"__builtins__": {}}, dict(known))) // known.get(i.chosen, i.size))
        return max(1, min(tasks, cores))

    def values(self, dims: Mapping[str, int]) -> list[float]:
        """The host's numbers for one shape."""
        names: dict[str, Any] = {**dims, "inf": float("inf"), "reciprocal": lambda x: np.float32(1) / np.float32(x)}
        # The text was built by the reader from dimensions, literals and arithmetic signs.
        found = [(eval(n.text, {"__builtins__": {}}, names), i) for n, i in self.numbers]
        return [int(v) if is_integer else float(np.float32(v)) for v, is_integer in found]

    def told(self, dims: Mapping[str, int], blocks: int) -> dict[str, Any]:
        """All fields with their values for one launch, in order."""
        numbers = {f"number{k}": v for k, v in enumerate(self.values(dims))}
        return {**dims, **numbers, **self.chosen(dims, blocks)}

    def text(self, *, line_directives: bool, tiling_struct: str = "") -> str:
        """The source file; with `tiling_struct` its entry takes workspace and tiling as an operator project's does."""
        told = choice.fields if (choice := choice_of(self.plans)) else ()
        texts, body, cores = [], "", "AIC_ONLY" if self.product else "AIV_ONLY"
        if self.handover:
            texts, body, cores = *self._parts(told, line_directives), "MIX_AIC_1_2"
        elif self.product:
            text, name, arguments = product_class(self.product, line_directives=line_directives)
            texts, body = [text], f"    {name} op;\n    op.Init({arguments});\n    op.Process();\n"
        else:
            text, body = variants(list(self.plans), told=told, line_directives=line_directives)
            texts = [text]
        entry = entry_text(
            self.name, self._entry_arrays(tiling_struct), self.offsets(), self.fields, body, cores, tiling_struct
        )
        return head_text(self.name, self.file, self.sizes, tiling_struct) + "\n".join(texts) + "\n" + entry

    def _entry_arrays(self, tiling_struct: str) -> list[str]:
        """Arrays as the entry takes them: as written, or (in a project) inputs before outputs, which is how the engine passes them."""
        return sorted(self.params, key=lambda n: self.params[n].written) if tiling_struct else list(self.params)

    def offsets(self) -> dict[str, str]:
        """Arrays between the parts with their places in workspace."""
        found: dict[str, str] = {}
        before = ""
        for name, p in (self.workspace or {}).items():
            found[name] = before
            before += f" + {workspace_bytes(p)}"
        return found

    def _parts(self, told: tuple[str, ...], line_directives: bool) -> tuple[list[str], str]:
        """The classes of all parts, and what the two kinds of cores do with them."""
        assert self.handover is not None
        hand, shared = self.handover, len(self.products) > 1
        found = [product_class(p, line_directives=line_directives, alone=False, shared=shared) for p in self.products]
        names = [f"product{n or ''}" for n in range(len(found))]
        declare = "CubeBuffers cube;\n" if shared else ""
        declare += "\n".join(f"{c} {n};\n{n}.Init({a});" for n, (_, c, a) in zip(names, found, strict=True))
        calls = hand.cube_bodies(names)
        numbers = tuple(n for n, kind in enumerate(hand.order) if kind == "vector")
        work = hand.body("vector", "", dict.fromkeys(numbers, hand.vector_part()))
        text, body = variants(list(self.plans), told=told, parts=numbers, work=work, line_directives=line_directives)
        cube = "".join(f"        {line}\n" for line in hand.body("cube", declare, calls).splitlines())
        body = f"    if ASCEND_IS_AIC {{\n{cube}    }}\n    if ASCEND_IS_AIV {{\n{_indent(body)}    }}\n"
        return [text, *([shared_buffers(self.products)] if shared else []), *(t for t, _, _ in found)], body


def workspace_bytes(p: Param, prefix: str = "") -> str:
    """The bytes of an array in workspace, in whole 512, as an expression over its dimensions."""
    count = " * ".join(f"static_cast<uint64_t>({prefix}{d.name})" for d in p.dims)
    return f"({count} * {p.dtype.bits // 8} + 511) / 512 * 512"


def lower(
    source: Source,
    params: dict[str, Param],
    constants: dict[str, Any],
    pins: Sequence[Pin] = (),
    free: frozenset[str] = frozenset(),
    untold: frozenset[str] = frozenset(),
) -> Lowered:
    """Read and place a kernel, keeping its pins.

    `free` are tile sizes that the host may choose, `untold` all that the caller left open: the host may choose those of a product's result.
    Raises TileError at the user's line.
    """
    found = _lowered(source, params, constants, free, untold)
    stages = [p for p in pins if found.workspace and p.name in found.workspace]
    if found.product and len(stages) < len(pins) and not found.plans:
        raise TileError(
            f"{pins[0].name} is pinned, and a product has two buffers of each operand in l1, l0a and l0b and one sum in l0c",
            cure="change the sizes of its tiles instead",
        )
    for p in stages:
        if p.memory not in ("", "workspace") or p.depth > 1:
            raise TileError(
                f"{p.name} is pinned to {p.memory or p.depth}; on this chip a stage lies in workspace, once",
                cure="remove the pin, or pin it to workspace",
            )
    keep(found.plans, [p for p in pins if p not in stages])
    return found


def _lowered(
    source: Source, params: dict[str, Param], constants: dict[str, Any], free: frozenset[str], untold: frozenset[str]
) -> Lowered:
    sizes = {k: v for k, v in constants.items() if isinstance(v, int) and not isinstance(v, bool)}
    whole = Lowered(source.node.name, source.file, params, sizes)
    if is_staged(source) or (is_product(source) and has_epilogue(source)):
        return _staged(whole, split(source, params, constants), constants, free)
    if is_product(source):
        return replace(whole, product=ProductReader(source, params, constants, resident=False, free=untold).product())
    return replace(whole, plans=_variants(source, params, constants, free))


def _staged(whole: Lowered, parts: Parts, constants: dict[str, Any], free: frozenset[str]) -> Lowered:
    """Vector work and products, with the stages between them."""
    stored = {n.value.id for s in parts.vector_body for n in ast.walk(s) if _is_store(n)}
    vector = {**whole.params, **{n: replace(p, written=n in stored) for n, p in parts.stages.items()}}
    products = []
    for source in parts.products:
        read = {n: replace(p, written=n not in stored) for n, p in parts.stages.items()}
        products.append(ProductReader(source, {**whole.params, **read}, constants, resident=False).product())
    tiled = isinstance(parts.outer.target, ast.Tuple)
    if not tiled:  # a task has all columns of its rows
        products = [replace(p, swizzle=1) for p in products]
    steps = products[0].most_steps
    while len(products) > 1 and steps > 1 and _shared_l1_bytes(products) > L1_BYTES:
        steps -= 1
        products = [replace(p, most_steps=steps) for p in products]
    plans = _rows_that_fit(parts, vector, constants, free)
    over_rows = any(v.op == "reduce" and v.axes[1] != ONE for r in plans[-1].program.regions() for v in r.ops)
    handover = Handover(tuple(parts.order), tuple(products), tiled, halves=not over_rows)
    return replace(
        whole, plans=plans, product=products[0], later=tuple(products[1:]), workspace=parts.stages, handover=handover
    )


def _is_store(node: ast.AST) -> TypeGuard[Any]:
    return isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Store) and isinstance(node.value, ast.Name)


def _shared_l1_bytes(products: list[Product]) -> int:
    a = max(-(-p.rows.size // 16) * 16 * p.steps.size * p.packet for p in products)
    b = max(-(-p.columns.size // 16) * 16 * p.steps.size * p.packet for p in products)
    return 4 * (a + b) + max(p.columns.size for p in products) * 4 + 64


def _rows_that_fit(
    parts: Parts, params: dict[str, Param], constants: dict[str, Any], free: frozenset[str]
) -> tuple[Plan, ...]:
    """Vector parts in half of a task's rows, for each of the two vector cores, or as many as fit; a sum over rows needs them all."""
    rows = parts.rows
    plans = _variants(parts.vector(rows), params, constants, free)
    if any(v.op == "reduce" and v.axes[1] != ONE for r in plans[-1].program.regions() for v in r.ops):
        return plans
    rows = (rows + 1) // 2
    while True:
        plans = _variants(parts.vector(max(2, rows)), params, constants, free)  # one row would drop its axis
        if rows <= 2 or plans[-1].total_bytes <= UB_BYTES:
            return plans
        rows = (rows + 1) // 2


def _variants(
    source: Source, params: dict[str, Param], constants: dict[str, Any], free: frozenset[str]
) -> tuple[Plan, ...]:
    """Resident first where inner loops can make one trip, then the general one. What is summed along is not cut anew by the host."""
    general = Reader(source, params, constants, resident=False, free=free)
    program = general.program()
    if not general.has_inner_loops:
        return (place(program),)
    chosen = {i.name: i.tune for i in program.loop.indices if i.chosen}
    if fixed := {chosen[a] for a in reduced_axes(program) if a in chosen} | _seen_in_results(program):
        return _variants(source, params, constants, free - fixed)
    resident = place(Reader(source, params, constants, resident=True, free=free).program())
    return resident, _long_pieces(source, params, constants, free, program)


def _long_pieces(
    source: Source, params: dict[str, Param], constants: dict[str, Any], free: frozenset[str], program: Program
) -> Plan:
    """The general variant, where sizes are open with fewer rows and longer pieces of them: rows that do not fit are long."""
    plan = place(program)
    chosen = next((i for i in program.loop.indices if i.chosen), None)
    inner = {i.tune for i in program.indices.values() if i.tune and not i.chosen}
    if chosen is None or not inner or plan.total_bytes > UB_BYTES:
        return plan
    rows = max(2, chosen.size // FEWER_ROWS)  # one row would drop its axis
    sizes = {chosen.tune: rows, **{t: constants[t] * (chosen.size // rows) for t in inner}}
    longer = place(Reader(source, params, {**constants, **sizes}, resident=False, free=free).program())
    return longer if longer.total_bytes <= UB_BYTES else plan


def _seen_in_results(program: Program) -> set[str]:
    """Open sizes that results show: a sum over a tile is stored in the very loop over tiles, not joined to a loop variable."""
    found: set[str] = set()
    for region in program.regions():
        along: dict[int, set[str]] = {}
        for v in region.ops:
            along[id(v)] = set[str]().union(*(along.get(id(a), set()) for a in v.args))
            if v.op == "reduce":
                gone = [program.indices[a] for a in v.args[0].axes if a not in v.axes]
                along[id(v)] |= {i.tune for i in gone if i.tune and not i.chosen}
        found |= set[str]().union(*(along.get(id(s.value), set()) for s in region.stores))
    return found


def reduced_axes(program: Program) -> set[str]:
    """Axes that a sum, a maximum or a minimum runs along."""
    values = [v for r in program.regions() for v in r.loads + r.ops]
    return {a for v in values if v.op == "reduce" for a in v.args[0].axes if a not in v.axes}


def _indent(text: str) -> str:
    return "".join(f"    {line}\n" for line in text.splitlines())
