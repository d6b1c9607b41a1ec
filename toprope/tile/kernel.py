"""A tile kernel: call it on arrays (level A), read its Ascend C, run that on the software NPU, look at its plan, tune it."""

from __future__ import annotations

import ast
import functools
import hashlib
import inspect
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from toprope.cache import cache_dir
from toprope.dtypes import of_array
from toprope.kernel import DEFAULT_SOC, KernelFile, Run, load
from toprope.soc import Soc
from toprope.soc import load as load_soc
from toprope.tile.eager import STEPS_AT_ONCE, GlobalArray
from toprope.tile.language import Param, Pin, TileError, TileTooLarge, Tune, numpy_of
from toprope.tile.lowering import Lowered, lower, reduced_axes
from toprope.tile.names import Renamed, without_collisions
from toprope.tile.program import ONE
from toprope.tile.reader import Source, dims_of

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Emitted:
    """One emitted kernel: its text, and what its entry needs beside the arrays."""

    lowered: Lowered
    text: str
    path: Path


class TileKernel:
    """What @tile.kernel makes of a function. Calling it evaluates level A; the other methods need no array but run()."""

    def __init__(self, function: Callable[..., Any], pins: tuple[Pin, ...] = ()) -> None:
        functools.update_wrapper(self, function)
        self.pins = pins
        self.function, self.name = function, function.__name__
        self.params: dict[str, Param] = {}
        self.constants: dict[str, Any] = {}
        self.tunes: dict[str, Tune] = {}
        annotations = inspect.get_annotations(function, eval_str=True)
        for p in inspect.signature(function).parameters.values():
            kind = annotations.get(p.name)
            if isinstance(kind, Param):
                self.params[p.name] = kind
            elif isinstance(p.default, Tune):
                self.tunes[p.name] = p.default
            elif p.default is not p.empty:
                self.constants[p.name] = p.default
            else:
                raise TileError(
                    f"parameter {p.name} of {self.name} is neither an array nor has a default",
                    cure="write In[dims, type], Out[dims, type], tile.tune(size) or a constant default",
                )
        self.dims = dims_of(self.params)
        self._tree = Source.of(function)
        self.open_sizes = frozenset(self.tunes) - _needed_as_given(self._tree)
        self._lowered: dict[tuple[Any, ...], Lowered] = {}
        self.renamed = Renamed(self._tree, self.params, {})
        self._emitted: dict[tuple[Any, ...], Emitted] = {}
        self.lowered()
        self.renamed = without_collisions(self._tree, self.params, self._text_under)
        if self.renamed.names:
            self._lowered.clear()
        self.steps_at_once = _steps_at_once(self.lowered())  # reading also shows mistakes at the definition

    def pin(self, name: str, memory: str = "", *, depth: int = 0) -> TileKernel:
        """The kernel with a placement decided: the buffers of an array (`depth`), or the memory where an array or value must lie.

        Raises TileError for a pin that cannot be kept, with what the planner has instead.
        """
        return TileKernel(self.function, (*self.pins, Pin(name, memory, depth)))

    # ---- level A -----------------------------------------------------------------------------------------------------

    def __call__(self, *arrays: Array, **options: Any) -> None:
        """Evaluate the function on NumPy arrays (or torch CPU tensors); outputs are written in place. Raises TileError."""
        data = [as_array(a) for a in arrays]
        dims = self.shape_of(data)
        named = dict(zip(self.params, map(GlobalArray, data), strict=True))
        settings = {**self._settings(options), **self.lowered(**options).open_sizes(self.in_text(dims))}
        STEPS_AT_ONCE.set(self.steps_at_once)
        with np.errstate(all="ignore"):
            self.function(**named, **settings)

    def _settings(self, options: Mapping[str, Any]) -> dict[str, Any]:
        unknown = set(options) - set(self.tunes) - set(self.constants)
        if unknown:
            known = ", ".join([*self.tunes, *self.constants]) or "none"
            raise TileError(f"{self.name} has no parameter {sorted(unknown)[0]}", cure=f"its parameters are: {known}")
        for name, t in self.tunes.items():
            if options.get(name, t.default) % t.mult:
                raise TileError(
                    f"{name} = {options[name]} is not a multiple of {t.mult}", cure="choose another tile size"
                )
        return {**{k: t.default for k, t in self.tunes.items()}, **self.constants, **options}

    def shape_of(self, arrays: list[Array]) -> dict[str, int]:
        """The dimensions that a launch's arrays agree on. Raises TileError."""
        if len(arrays) != len(self.params):
            raise TileError(
                f"{self.name} takes {len(self.params)} arrays, {len(arrays)} were given",
                cure=f"in order: {', '.join(self.params)}",
            )
        dims: dict[str, int] = {}
        for (name, p), a in zip(self.params.items(), arrays, strict=True):
            if of_array(a) != p.dtype or a.ndim != len(p.dims):
                wanted = f"{p.dtype.name}[{', '.join(d.name for d in p.dims)}]"
                raise TileError(
                    f"array {name} is {a.dtype}{list(a.shape)}, the kernel takes {wanted}", cure="convert or reshape it"
                )
            for d, n in zip(p.dims, a.shape, strict=True):
                if dims.setdefault(d.name, n) != n:
                    raise TileError(
                        f"dimension {d.name} is {dims[d.name]} and, in {name}, {n}", cure="pass arrays that agree"
                    )
                d.check(n)
        return dims

    # ---- emission ----------------------------------------------------------------------------------------------------

    def lowered(self, **options: Any) -> Lowered:
        """The kernel read and placed for some tile sizes, whether or not it fits a chip."""
        key = tuple(sorted(options.items()))
        if key not in self._lowered:
            self._lowered[key] = lower(
                self.renamed.source,
                self.renamed.params,
                self._settings(options),
                [replace(p, name=self.renamed.here(p.name)) for p in self.pins],
                self.open_sizes - set(options),
                frozenset(self.tunes) - set(options),
            )
        return self._lowered[key]

    def _text_under(self, renamed: Renamed) -> str:
        """The text under other names, for a look at the names that it uses itself."""
        found = lower(renamed.source, renamed.params, self._settings({}), (), self.open_sizes, frozenset(self.tunes))
        return found.text(line_directives=False)

    def in_text(self, dims: Mapping[str, int]) -> dict[str, int]:
        """Dimensions under their names in the text."""
        return {self.renamed.here(k): v for k, v in dims.items()}

    def emit(self, soc: str = DEFAULT_SOC, **options: Any) -> Emitted:
        """Lower for a chip and tile sizes; kept. Raises TileTooLarge with the ledger when the general form does not fit."""
        key = (soc, *sorted(options.items()))
        if key not in self._emitted:
            chip = load_soc(soc)
            lowered = self.lowered(**options)
            if over := lowered.over(chip):
                raise TileTooLarge(
                    f"{self.name} does not fit {soc}: {over}\n{lowered.ledger(chip)}", cure=self._biggest(chip, options)
                )
            text = lowered.text(line_directives=True)
            path = written(self.name, text)
            self._emitted[key] = Emitted(lowered, text, path)
        return self._emitted[key]

    def _biggest(self, chip: Soc, options: Mapping[str, Any]) -> str:
        """The largest tile sizes that fit, shrinking one parameter at a time."""
        answers = []
        for name, t in self.tunes.items():
            size = self._settings(options)[name] // t.mult * t.mult
            while size > 0 and self.lowered(**{**options, name: size}).over(chip):
                size = size // 2 // t.mult * t.mult
            if size > 0:
                answers.append(f"{name} = {size}")
        return "it fits with " + " or ".join(answers) if answers else "use smaller tiles"

    def source(self, soc: str = DEFAULT_SOC, *, line_directives: bool = False, **options: Any) -> str:
        """The Ascend C text; with `line_directives` compilers and findings point at the Python lines."""
        emitted = self.emit(soc, **options)
        return emitted.text if line_directives else emitted.lowered.text(line_directives=False)

    def plan(self, soc: str = DEFAULT_SOC, **options: Any) -> str:
        """The byte ledger of every variant that fits."""
        return self.emit(soc, **options).lowered.ledger(load_soc(soc))

    def run(
        self, *arrays: Array, soc: str = DEFAULT_SOC, blocks: int | None = None, time_only: bool = False, **options: Any
    ) -> Run:
        """Compile the emitted Ascend C and run it on the software NPU; outputs are written in place. Same Run as a loaded kernel."""
        data = [as_array(a) for a in arrays]
        dims = self.shape_of(data)
        emitted = self.emit(soc, **options)
        lowered = emitted.lowered
        dims = self.in_text(dims)
        data += [
            np.zeros([dims[d.name] for d in p.dims], numpy_of(p.dtype)) for p in (lowered.workspace or {}).values()
        ]
        blocks = blocks or lowered.blocks(dims, load_soc(soc))
        kernel = loaded(emitted.path)[lowered.name]
        told = lowered.told(dims, blocks)
        return kernel(*data, *told.values(), blocks=blocks, soc=soc, time_only=time_only)

    def tiling(
        self, dims: Mapping[str, int], *, soc: str = DEFAULT_SOC, blocks: int | None = None, **options: Any
    ) -> dict[str, Any]:
        """What the host tells the emitted kernel for one shape: dimensions, numbers that hang on them, and the sizes that it chooses."""
        lowered, dims = self.emit(soc, **options).lowered, self.in_text(dims)
        return lowered.told(dims, blocks or lowered.blocks(dims, load_soc(soc)))


def _needed_as_given(source: Source) -> set[str]:
    """Names that mean more than the size of a loop's tiles, or that cut a product: nobody may choose them anew."""
    nodes = list(ast.walk(source.node))
    products = [n for n in nodes if isinstance(n, ast.For) and any(isinstance(m, ast.MatMult) for m in ast.walk(n))]
    headers = [n.iter for n in nodes if isinstance(n, ast.For) and n not in products and isinstance(n.iter, ast.Call)]
    sizes = [a.elts[1:] if isinstance(a, ast.Tuple) else [] for h in headers for a in h.args]
    sizes += [h.args[1:2] for h in headers]
    known = {id(s) for group in sizes for s in group}
    return {n.id for n in nodes if isinstance(n, ast.Name) and id(n) not in known}


LEVEL_A_LANES = 65536  # lanes per NumPy operation that make its call cheap and still lie in a cache


def _steps_at_once(lowered: Lowered) -> tuple[int, ...]:
    """Steps of the outermost loop that level A may join: on an axis that no sum or maximum runs along, that changes no bit."""
    if lowered.product is not None:
        return ()
    program = lowered.plans[-1].program
    values = [v for r in program.regions() for v in r.loads + r.ops]
    reduced = reduced_axes(program)
    sizes = {ONE: 1, **{i.name: i.size for i in program.indices.values()}}
    lanes = max((sizes[v.axes[0]] * sizes[v.axes[1]] for v in values), default=1)
    factors = [1] * len(program.loop.indices)
    for n, i in enumerate(program.loop.indices):
        if not i.unit and i.name not in reduced:
            factors[n] = max(1, LEVEL_A_LANES // lanes)
            break
    return tuple(factors)


def written(name: str, text: str) -> Path:
    """A file with an emitted kernel; the same text is written once."""
    folder = cache_dir() / "tile" / hashlib.sha256(text.encode()).hexdigest()[:16]
    path = folder / f"{name}.cpp"
    if not path.exists():
        folder.mkdir(parents=True, exist_ok=True)
        partial = folder / f"{os.getpid()}.tmp"
        partial.write_text(text)
        partial.replace(path)
    return path


@functools.cache
def loaded(path: Path) -> KernelFile:
    """The kernels of an emitted file, compiled once."""
    return load(path)


def as_array(a: Any) -> Array:
    """A NumPy array, or the memory of a torch CPU tensor."""
    return a if isinstance(a, np.ndarray) else np.asarray(a.numpy() if hasattr(a, "numpy") else a)


def kernel(function: Callable[..., Any]) -> TileKernel:
    """Make a tile kernel of a function. Raises TileError at the user's line."""
    return TileKernel(function)
