"""Triton functions as kernels: read from their syntax tree, run on NumPy (level A) or as the Ascend C that is emitted from them."""

from __future__ import annotations

import ast
import inspect
import textwrap
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from toprope.dtypes import Dtype, of_array
from toprope.kernel import DEFAULT_SOC, Run
from toprope.soc import load as load_soc
from toprope.tile.cube import Product
from toprope.tile.expressions import Source
from toprope.tile.kernel import as_array, loaded, written
from toprope.tile.language import Dim, Param, TileError, TileTooLarge
from toprope.tile.lowering import Lowered
from toprope.tile.plan import place
from toprope.tile.triton_eager import evaluate
from toprope.tile.triton_reader import TritonReader

Array = np.ndarray[Any, Any]


class TritonKernel:
    """`kernel[grid](arguments)` evaluates every program on NumPy; `kernel.run(grid, arguments)` runs the emitted Ascend C."""

    def __init__(self, given: Callable[..., Any] | str | Path, name: str = "") -> None:
        text, self.file, first = _text_of(given)
        tree = ast.parse(textwrap.dedent(text))
        ast.increment_lineno(tree, first)
        functions = [n for n in tree.body if isinstance(n, ast.FunctionDef) and (not name or n.name == name)]
        if len(functions) != 1 and not name:
            functions = [n for n in functions if any("jit" in ast.unparse(d) for d in n.decorator_list)]
        if len(functions) != 1:
            raise TileError(
                f"{len(functions)} functions in the Triton source", cure='name one: tile.triton(source, "kernel")'
            )
        self.node = functions[0]
        self.name, self.alias = self.node.name, _alias(tree)
        parameters = self.node.args
        self.parameters = [a.arg for a in [*parameters.args, *parameters.kwonlyargs]]
        self.constexprs = {
            a.arg
            for a in [*parameters.args, *parameters.kwonlyargs]
            if a.annotation and "constexpr" in ast.unparse(a.annotation)
        }
        self._globals = dict(getattr(getattr(given, "fn", given), "__globals__", {}))
        self._globals |= _literals(tree)
        self.node.decorator_list = []  # neither they nor the annotations mean anything from here on
        for a in [*parameters.args, *parameters.kwonlyargs]:
            a.annotation = None
        exec(compile(ast.Module([self.node], []), self.file, "exec"), self._globals)
        self.function: Callable[..., None] = self._globals[self.name]

    # ---- launches ----------------------------------------------------------------------------------------------------

    def __getitem__(self, grid: Any) -> Callable[..., None]:
        """Level A for a grid of programs; outputs are written in place. Raises TileError."""

        def launch(*arguments: Any, **named: Any) -> None:
            bound = self._bound(arguments, named)
            evaluate(self.function, self.alias, bound, _grid(grid, bound))

        return launch

    def run(self, grid: Any, *arguments: Any, soc: str = DEFAULT_SOC, blocks: int | None = None, **named: Any) -> Run:
        """Run the emitted Ascend C on the software NPU; outputs are written in place. Raises TileError."""
        bound = self._bound(arguments, named)
        programs = _grid(grid, bound)
        arrays = {k: v for k, v in bound.items() if isinstance(v, np.ndarray)}
        scalars = {k: v for k, v in bound.items() if k not in arrays}
        described = {k: of_array(v) for k, v in arrays.items()} | {
            k: v if k in self.constexprs or v is None or isinstance(v, bool) else type(v) for k, v in scalars.items()
        }
        ones = frozenset(k for k, v in scalars.items() if isinstance(v, int) and v == 1)
        lowered, reader = self._lowered(soc, described, ones)
        dims: dict[str, Any] = {f"{k}Size": v.size for k, v in arrays.items()} | scalars
        dims |= {f"grid{n}": g for n, g in enumerate(programs)}
        self._check_launch(reader, lowered, dims, programs)
        path = written(self.name, lowered.text(line_directives=True))
        values = [dims[d] for d in lowered.dims]
        flat = [arrays[n].reshape(-1) for n in lowered.params]
        return loaded(path)[self.name](
            *flat, *values, *lowered.values(dims), blocks=blocks or lowered.blocks(dims, load_soc(soc)), soc=soc
        )

    def source(self, soc: str = DEFAULT_SOC, *, line_directives: bool = False, **described: Any) -> str:
        """The Ascend C for element types of pointers and values of constants: `k.source(x_ptr=tile.f32, BLOCK=1024)`.

        Scalar arguments that are not named stay arguments, whole numbers unless given as `name=float`.
        """
        return self._lowered(soc, described)[0].text(line_directives=line_directives)

    def plan(self, soc: str = DEFAULT_SOC, **described: Any) -> str:
        """The byte ledger, described as for `source`."""
        return self._lowered(soc, described)[0].ledger(load_soc(soc))

    # ---- reading -----------------------------------------------------------------------------------------------------

    def _bound(self, arguments: tuple[Any, ...], named: Mapping[str, Any]) -> dict[str, Any]:
        defaults = dict(
            zip(self.parameters[::-1], [ast.literal_eval(d) for d in self.node.args.defaults[::-1]], strict=False)
        )
        bound = {**defaults, **dict(zip(self.parameters, arguments, strict=False)), **named}
        wrong = [p for p in self.parameters if p not in bound] + [p for p in bound if p not in self.parameters]
        if wrong or len(arguments) > len(self.parameters):
            raise TileError(
                f"{self.name}: argument {(wrong or ['too many'])[0]}",
                cure=f"its arguments are {', '.join(self.parameters)}",
            )
        found = {p: bound[p] for p in self.parameters}
        return {k: as_array(v) if hasattr(v, "shape") else v for k, v in found.items()}

    def _lowered(
        self, soc: str, described: Mapping[str, Any], ones: frozenset[str] = frozenset()
    ) -> tuple[Lowered, TritonReader]:
        """Read with two buffers for every block, or one where two do not fit. Raises TileError."""
        for depth in (2, 1):
            lowered, reader = self._read(described, ones, depth)
            over = lowered.over(load_soc(soc))
            if not over:
                return lowered, reader
        raise TileTooLarge(
            f"{self.name} does not fit {soc}: {over}\n{lowered.ledger(load_soc(soc))}", cure="use smaller blocks"
        )

    def _read(self, described: Mapping[str, Any], ones: frozenset[str], depth: int) -> tuple[Lowered, TritonReader]:
        params = {k: Param((Dim(f"{k}Size"),), v, written=True) for k, v in described.items() if isinstance(v, Dtype)}
        scalars = {
            k: described.get(k, int)
            for k in self.parameters
            if k not in params and isinstance(described.get(k, int), type)
        }
        constants = {k: v for k, v in described.items() if k not in params and k not in scalars}
        params = {k: params[k] for k in self.parameters if k in params}
        source = Source(self.node, self.file, self._globals)
        reader = TritonReader(source, params, constants, scalars, self.alias, ones)
        found = reader.read(depth)
        whole = [k for k, t in scalars.items() if t is int] + [f"grid{n}" for n in reader.grid_axes]
        lowered = Lowered(self.name, self.file, params, reader.sizes, scalars=tuple(whole))
        if isinstance(found, Product):
            return replace(lowered, params={n: p for n, p in found.params.items()}, product=found), reader
        return replace(lowered, plans=(place(replace(found, scalars=tuple(whole))),)), reader

    def _check_launch(
        self, reader: TritonReader, lowered: Lowered, dims: Mapping[str, Any], programs: tuple[int, ...]
    ) -> None:
        """What the emitted form takes for granted. Raises TileError."""

        def value(text: Any) -> int:
            return int(eval(str(text), {"__builtins__": {}}, dict(dims)))

        for n, count in enumerate(programs):
            wanted = {
                -(-value(i.extent.text) // i.size) for (begin, _), i in reader.made_axes.items() if begin == f"pid{n}"
            } or {1}
            if wanted != {count}:
                raise TileError(
                    f"axis {n} of the grid has {count} programs for {sorted(wanted)[0]} blocks",
                    cure="launch one program for each block",
                )
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


def _text_of(given: Callable[..., Any] | str | Path) -> tuple[str, str, int]:
    """Source text, file and lines before it, of a function (jitted or not), a path, or a text."""
    if isinstance(given, Path):
        return given.read_text(), str(given), 0
    if isinstance(given, str):
        return given, "<triton>", 0
    function = getattr(given, "fn", given)  # triton.jit keeps the function there
    lines, first = inspect.getsourcelines(function)
    return "".join(lines), inspect.getsourcefile(function) or "?", first - 1


def _literals(tree: ast.Module) -> dict[str, Any]:
    """Constants that a source text defines beside its functions."""
    found = {}
    for n in tree.body:
        if isinstance(n, ast.Assign) and isinstance(n.targets[0], ast.Name) and isinstance(n.value, ast.Constant):
            found[n.targets[0].id] = n.value.value
    return found


def _alias(tree: ast.Module) -> str:
    """The name of triton.language in the source; tl unless it says otherwise."""
    for n in tree.body:
        if isinstance(n, ast.Import):
            for a in n.names:
                if a.name == "triton.language":
                    return a.asname or a.name
    return "tl"


def _grid(grid: Any, bound: dict[str, Any]) -> tuple[int, ...]:
    found = grid(bound) if callable(grid) else grid
    return tuple(int(n) for n in (found if isinstance(found, tuple | list) else (found,)))


def triton(given: Callable[..., Any] | str | Path, name: str = "") -> TritonKernel:
    """A kernel of a Triton function (decorated or not), its source text, or its file. Raises TileError. Triton need not be installed."""
    return TritonKernel(given, name)
