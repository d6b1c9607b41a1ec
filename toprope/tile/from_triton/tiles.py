"""Triton functions whose programs are independent tiles, and products: lowered by the tile language, which pipelines their tiles."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from toprope.dtypes import Dtype
from toprope.soc import Soc
from toprope.tile.cube import Product
from toprope.tile.expressions import Source
from toprope.tile.from_triton.reader import TritonReader
from toprope.tile.from_triton.source import TritonSource
from toprope.tile.language import Dim, Param, TileError, TileTooLarge
from toprope.tile.lowering import Lowered
from toprope.tile.plan import place


@dataclass(frozen=True)
class TritonTiles:
    """A function lowered as tiles, and what its launches must keep."""

    lowered: Lowered
    reader: TritonReader

    @property
    def params(self) -> dict[str, Param]:
        """The arrays."""
        return self.lowered.params

    @property
    def dims(self) -> list[str]:
        """Whole-number arguments behind the arrays."""
        return self.lowered.dims

    def text(self, *, line_directives: bool, tiling_struct: str = "", chip: Soc | None = None) -> str:
        """The source file."""
        return self.lowered.text(line_directives=line_directives, tiling_struct=tiling_struct)

    def ledger(self, chip: Soc) -> str:
        """The bytes of every memory."""
        return self.lowered.ledger(chip)

    def blocks(self, dims: Mapping[str, Any], chip: Soc) -> int:
        """min(tasks, cores)."""
        return self.lowered.blocks(dims, chip)

    def values(self, dims: Mapping[str, Any]) -> list[float]:
        """The host's numbers for a launch."""
        return self.lowered.values(dims)

    def check_launch(self, dims: Mapping[str, Any], programs: tuple[int, ...]) -> None:
        """What tiles take for granted. Raises TileError."""
        reader = self.reader

        def value(text: Any) -> int:
            return int(eval(str(text), {"__builtins__": {}, "min": min, "max": max}, dict(dims)))

        for n, count in enumerate(programs):
            wanted = {
                -(-value(i.extent.text) // i.size) for (begin, _), i in reader.made_axes.items() if begin == f"pid{n}"
            } or {1}
            if wanted != {count} and not reader.atoms.orders:
                raise TileError(
                    f"axis {n} of the grid has {count} programs for {sorted(wanted)[0]} blocks",
                    cure="launch one program for each block",
                )
        if reader.atoms.orders:
            self._check_order(dims, programs)
        for text, most in reader.at_most:
            if value(text) > value(most):
                raise TileError(
                    f"{text} is {value(text)}, more than {most}", cure="take a larger block or a smaller grid"
                )
        for text, size in reader.multiples:
            if value(text) % size:
                raise TileError(
                    f"{text} is {value(text)}, no multiple of {size}, and loads along it have no mask", cure="mask them"
                )

    def _check_order(self, dims: Mapping[str, Any], programs: tuple[int, ...]) -> None:
        """Programs that are numbered anew, as by groups of rows, must take every tile once; their order changes no result."""
        reader, names = self.reader, dict(dims)
        axes = {begin: i for (begin, _), i in reader.made_axes.items() if begin.startswith("pid")}
        seen = set()
        for number in range(programs[0]):
            names["pid0"] = number
            scope = {"__builtins__": {}, "min": min, "max": max}
            seen.add(tuple(int(eval(reader.atoms.order_of(b), scope, names)) for b in axes))
        counts = [-(-int(eval(i.extent.text, {"__builtins__": {}}, dict(dims))) // i.size) for i in axes.values()]
        total = 1
        for n in counts:
            total *= n
        inside = all(0 <= k < n for one in seen for k, n in zip(one, counts, strict=True))
        if (
            (len(programs) != 1 and any(n != 1 for n in programs[1:]))
            or len(seen) != programs[0]
            or total != programs[0]
            or not inside
        ):
            raise TileError(
                f"{programs[0]} programs take {len(seen)} of {total} tiles",
                cure="launch one program for each tile of the result",
            )


def has_dot(written: TritonSource) -> bool:
    """Whether a function, or a helper that it calls, is a matrix product."""
    called = {n.id for n in ast.walk(written.node) if isinstance(n, ast.Name)}
    nodes = [written.node, *(f for name, f in written.functions.items() if name in called)]
    return any(isinstance(n, ast.Attribute) and n.attr == "dot" for f in nodes for n in ast.walk(f))


def as_tiles(written: TritonSource, described: Mapping[str, Any], ones: frozenset[str], chip: Soc) -> TritonTiles:
    """Read with two buffers for every block, or one where two do not fit. Raises TileError."""
    for depth in (2, 1):
        found = _read(written, described, ones, depth)
        over = found.lowered.over(chip)
        if not over:
            return found
    raise TileTooLarge(
        f"{written.node.name} does not fit {chip.name}: {over}\n{found.ledger(chip)}", cure="use smaller blocks"
    )


def _read(written: TritonSource, described: Mapping[str, Any], ones: frozenset[str], depth: int) -> TritonTiles:
    kinds = {k: v for k, v in described.items() if isinstance(v, Dtype) and k not in written.constexprs}
    params = {k: Param((Dim(f"{k}Size"),), kinds[k], written=True) for k in written.parameters if k in kinds}
    scalars = {
        k: described.get(k, int)
        for k in written.parameters
        if k not in params and isinstance(described.get(k, int), type)
    }
    constants = {k: v for k, v in described.items() if k not in params and k not in scalars}
    source = Source(written.node, written.file, {"min": min, "max": max, **written.constants()})
    reader = TritonReader(source, params, constants, scalars, _alias(written.tree), ones)
    found = reader.read(depth)
    whole = tuple([k for k, t in scalars.items() if t is int] + [f"grid{n}" for n in reader.grid_axes])
    lowered = Lowered(written.node.name, written.file, params, reader.sizes, scalars=whole)
    if isinstance(found, Product):
        return TritonTiles(replace(lowered, params=dict(found.params), product=found), reader)
    return TritonTiles(replace(lowered, plans=(place(replace(found, scalars=whole)),)), reader)


def _alias(tree: ast.Module) -> str:
    """The name of triton.language in the source; tl unless it says otherwise."""
    for n in ast.walk(tree):
        if isinstance(n, ast.Import):
            for a in n.names:
                if a.name == "triton.language":
                    return a.asname or a.name
    return "tl"
