"""Triton functions as kernels: read from their syntax tree, run on NumPy (level A) or as the Ascend C that is emitted from them."""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from toprope.dtypes import Dtype, of_array
from toprope.kernel import DEFAULT_SOC, Run
from toprope.soc import load as load_soc
from toprope.tile.form.show import show
from toprope.tile.from_triton.eager import evaluate
from toprope.tile.from_triton.program import TritonProgram, written_down
from toprope.tile.from_triton.source import TritonSource
from toprope.tile.from_triton.tiles import TritonTiles, as_tiles, has_dot
from toprope.tile.from_triton.types import TYPES
from toprope.tile.front_triton.kernel import FormProgram, Wide, program_of
from toprope.tile.kernel import as_array, loaded, written
from toprope.tile.language import TileError, TileTooLarge, bf16, numpy_of
from toprope.tile.names import KEYWORDS
from toprope.tile.tuner import Candidate

Array = np.ndarray[Any, Any]
# What a launch may say beside the function's arguments; it steers a GPU's compiler.
GPU_OPTIONS = {
    "num_warps",
    "num_stages",
    "num_ctas",
    "maxnreg",
    "grf_mode",
    "waves_per_eu",
    "matrix_instr_nonkdim",
    "kpack",
    "multibuffer",
}
Form = TritonTiles | TritonProgram | FormProgram


class TritonKernel:
    """`kernel[grid](arguments)` evaluates every program on NumPy; `kernel.run(grid, arguments)` runs the emitted Ascend C."""

    def __init__(self, given: Callable[..., Any] | str | Path, name: str = "") -> None:
        self.written = TritonSource(given, name)
        self.name, self.file = self.written.node.name, self.written.file
        self.parameters, self.constexprs = self.written.parameters, self.written.constexprs
        self.configs = self.written.configs
        self.notes: list[str] = []
        self._forms: dict[Any, list[Form]] = {}
        self._best: dict[Any, dict[str, Any]] = {}

    # ---- launches ----------------------------------------------------------------------------------------------------

    def __getitem__(self, grid: Any) -> Callable[..., None]:
        """Level A for a grid of programs; outputs are written in place. Raises TileError."""

        def launch(*arguments: Any, **named: Any) -> None:
            bound = self.bound(arguments, {**self._settings(arguments, named), **named})
            programs = programs_of(grid, bound)
            form = self._in_the_form(bound, programs)
            if form is not None:
                form.evaluate(bound, (*programs, 1, 1)[:3])
                return
            function, scope, fill = self.written.compiled()
            evaluate(function, scope, fill, bound, self.constexprs, programs)

        return launch

    def run(
        self, grid: Any, *arguments: Any, soc: str = DEFAULT_SOC, blocks: int | None = None, time_only: bool = False, **named: Any
    ) -> Run:  # fmt: skip
        """Run the emitted Ascend C on the software NPU; outputs are written in place. Raises TileError.

        With @triton.autotune and no sizes given, every configuration is timed without executing, once for each value of its key,
        and the fastest one runs.
        """
        if self._untuned(named):
            named = {**named, **self.best(grid, *arguments, soc=soc, **named)}
        bound = self.bound(arguments, named)
        programs = programs_of(grid, bound)
        arrays = {k: v for k, v in bound.items() if isinstance(v, np.ndarray)}
        scalars = {k: v for k, v in bound.items() if k not in arrays}
        dims: dict[str, Any] = {f"{k}Size": v.size for k, v in arrays.items()} | scalars
        dims |= {f"grid{n}": (*programs, 1, 1)[n] for n in range(3)}
        form = self._launched(soc, arrays, scalars, dims, programs)
        path = written(self.name, self._text(form, soc, line_directives=True))
        flat = [arrays[n].reshape(-1) for n in form.params]
        return loaded(path)[self.name](
            *flat, *[dims[d] for d in form.dims], *form.values(dims), soc=soc, time_only=time_only,
            blocks=blocks or form.blocks(dims, load_soc(soc)),
        )  # fmt: skip

    def _in_the_form(self, bound: dict[str, Any], programs: tuple[int, ...]) -> FormProgram | None:
        """The function in the form, where that is how it is emitted: both evaluations then are of the same nodes."""
        arrays = {k: v for k, v in bound.items() if isinstance(v, np.ndarray)}
        scalars = {k: v for k, v in bound.items() if k not in arrays}
        dims: dict[str, Any] = {f"{k}Size": v.size for k, v in arrays.items()} | scalars
        dims |= {f"grid{n}": (*programs, 1, 1)[n] for n in range(3)}
        try:
            found = self._launched(DEFAULT_SOC, arrays, scalars, dims, programs)
        except TileTooLarge:
            return None
        return found if isinstance(found, FormProgram) else None

    def _launched(
        self,
        soc: str,
        arrays: Mapping[str, Array],
        scalars: Mapping[str, Any],
        dims: Mapping[str, Any],
        programs: tuple[int, ...],
    ) -> Form:
        """The form for a launch: tiles where the grid is one program for each, else the program as it is written."""
        described: dict[str, Any] = {k: of_array(v) for k, v in arrays.items()}
        described |= {
            k: v
            if k in self.constexprs or v is None or isinstance(v, bool | str | Dtype)
            else Wide
            if isinstance(v, int) and not -(1 << 31) <= v < 1 << 31
            else type(v)
            for k, v in scalars.items()
        }
        ones = frozenset(k for k, v in scalars.items() if isinstance(v, int) and v == 1)
        forms = self._read(soc, described, ones)
        first = forms[0]
        if isinstance(first, TritonTiles):
            try:
                first.check_launch(dims, programs)
            except TileError:
                return self._without_tiles(soc, described, ones)
        return first

    # ---- autotune ----------------------------------------------------------------------------------------------------

    def search(self, grid: Any, *arguments: Any, soc: str = DEFAULT_SOC, **named: Any) -> list[Candidate]:
        """Every configuration of @triton.autotune with its predicted time, fastest first, or the reason why it has none."""
        found = []
        for config in self.configs or [{}]:
            sizes = {k: v for k, v in config.items() if k in self.parameters}
            try:
                run = self.run(grid, *arguments, soc=soc, time_only=True, **{**named, **sizes})
                found.append(Candidate(sizes, round(run.timeline.microseconds, 3)))
            except TileError as e:
                found.append(Candidate(sizes, reason=e.message.splitlines()[0]))
        return sorted(found, key=lambda c: (c.microseconds is None, c.microseconds or 0.0))

    def best(self, grid: Any, *arguments: Any, soc: str = DEFAULT_SOC, **named: Any) -> dict[str, Any]:
        """The fastest configuration for these arguments. Raises TileError when none can be emitted."""
        given = dict(zip(self.parameters, arguments, strict=False)) | named
        key = (soc, *(given[k] if isinstance(given.get(k), int | float | str) else str(k) for k in self.written.key))
        if key not in self._best:
            found = self.search(grid, *arguments, soc=soc, **named)
            if found[0].microseconds is None:
                raise TileError(
                    f"no configuration of {self.name} can be emitted: {found[0].reason}",
                    cure="pass sizes at the launch",
                )
            self._best[key] = found[0].sizes
        return self._best[key]

    def _untuned(self, named: Mapping[str, Any]) -> bool:
        return len(self.configs) > 1 and not any(k in named for k in self.configs[0])

    def _settings(self, arguments: tuple[Any, ...], named: Mapping[str, Any]) -> dict[str, Any]:
        """Sizes of the first configuration, where a launch gives none: level A does not hang on them."""
        config = self.configs[0] if self.configs else {}
        given = set(named) | set(self.parameters[: len(arguments)])
        return {k: v for k, v in config.items() if k in self.parameters and k not in given}

    # ---- reading -----------------------------------------------------------------------------------------------------

    def source(self, soc: str = DEFAULT_SOC, *, line_directives: bool = False, **described: Any) -> str:
        """The Ascend C for element types of pointers and values of constants: `k.source(x_ptr=tile.f32, BLOCK=1024)`.

        Scalar arguments that are not named stay arguments, whole numbers unless given as `name=float`.
        """
        return self._text(self._read(soc, self._described(described))[0], soc, line_directives=line_directives)

    def plan(self, soc: str = DEFAULT_SOC, **described: Any) -> str:
        """The byte ledger, described as for `source`."""
        return self._read(soc, self._described(described))[0].ledger(load_soc(soc))

    def form(self, soc: str = DEFAULT_SOC, **described: Any) -> str:
        """Which form it is emitted in, "tiles" or "program"; described as for `source`."""
        return "tiles" if isinstance(self._read(soc, self._described(described))[0], TritonTiles) else "program"

    def lowered(self, soc: str = DEFAULT_SOC, **described: Any) -> Form:
        """What is emitted for element types and constants, described as for `source`."""
        return self._read(soc, self._described(described))[0]

    def as_program(self, soc: str = DEFAULT_SOC, **described: Any) -> TritonProgram:
        """The function as a program for every step of the grid, whatever its form; described as for `source`."""
        if has_dot(self.written):
            raise TileError(
                f"{self.name} is a matrix product", cure="write it in the tile language; its host side is then made too"
            )
        return self._program(soc, self._described(described), frozenset())

    def in_form(self, **described: Any) -> FormProgram:
        """The function in the form, whatever else reads it; described as for `source`."""
        return program_of(
            self.written.tree, self.file, self.written.given, self.name, self.parameters, self._described(described),
            self.constexprs, frozenset(),
        )  # fmt: skip

    def explain(self, **described: Any) -> str:
        """The function as the form's nodes, one a line with the line of the source; described as for `source`."""
        return show(self.in_form(**described).form)

    def _described(self, given: Mapping[str, Any]) -> dict[str, Any]:
        unknown = [k for k in given if k not in self.parameters]
        if unknown:
            raise TileError(
                f"{self.name} has no argument {unknown[0]}", cure=f"its arguments are {', '.join(self.parameters)}"
            )
        sizes = {k: v for k, v in (self.configs[0] if self.configs else {}).items() if k in self.parameters}
        constants = {k: v for k, v in self.written.defaults.items() if k in self.constexprs or v is None}
        return {**constants, **sizes, **given}

    def _text(self, form: Form, soc: str, *, line_directives: bool) -> str:
        return form.text(line_directives=line_directives, chip=load_soc(soc))

    def bound(self, arguments: tuple[Any, ...], named: Mapping[str, Any]) -> dict[str, Any]:
        """Argument by argument what a launch gives, with defaults and heuristics. Raises TileError."""
        ignored = {k: v for k, v in named.items() if k in GPU_OPTIONS and k not in self.parameters}
        self._note(*(f"{self.name}: {k}={v} is ignored: it steers a GPU's compiler" for k, v in ignored.items()))
        found = {**self.written.defaults, **dict(zip(self.parameters, arguments, strict=False))}
        found |= {k: v for k, v in named.items() if k not in ignored}
        if len(self.configs) == 1:
            found |= self._settings(arguments, named)
        for name, value in self.written.heuristics.items():
            found.setdefault(name, value(found))
        wrong = [p for p in self.parameters if p not in found] + [p for p in found if p not in self.parameters]
        if wrong or len(arguments) > len(self.parameters):
            raise TileError(
                f"{self.name}: argument {(wrong or ['too many'])[0]}",
                cure=f"its arguments are {', '.join(self.parameters)}",
            )
        return {p: _argument(found[p]) for p in self.parameters}

    def _note(self, *texts: str) -> None:
        self.notes += [t for t in texts if t not in self.notes]

    def _read(self, soc: str, described: Mapping[str, Any], ones: frozenset[str] = frozenset()) -> list[Form]:
        """Tiles where the function is one of independent tiles (they are pipelined), else the program as it is written."""
        key = (soc, ones, tuple(sorted((k, repr(v)) for k, v in described.items())))
        if key not in self._forms:
            try:
                if self._only_in_the_form():
                    raise TileError(f"{self.name} is read in the form", cure="nothing")
                form: Form = as_tiles(self.written, described, ones, load_soc(soc))
            except TileError as e:
                form = self._without_tiles(soc, described, ones, e)
            except (
                AttributeError,
                TypeError,
                KeyError,
                ValueError,
                IndexError,
                AssertionError,
                ArithmeticError,
                RecursionError,
            ):
                form = self._without_tiles(soc, described, ones)  # the older reader does not know it
            self._forms[key] = [form]
        return self._forms[key]

    def _only_in_the_form(self) -> bool:
        """Whether it has what the older reader and its NumPy evaluation understand differently, or names that C++ takes."""
        logic = any(isinstance(n, ast.BoolOp) for f in self.written.needed() for n in ast.walk(f))
        return logic or any(p in KEYWORDS for p in self.parameters)

    def _without_tiles(
        self, soc: str, described: Mapping[str, Any], ones: frozenset[str], refusal: TileError | None = None
    ) -> Form:
        """The function as a program; in the form where the older reader refuses it. A product is always in the form."""
        if not has_dot(self.written) and not self._only_in_the_form():
            try:
                return (
                    self._program_instead(refusal, soc, described, ones)
                    if refusal
                    else self._program(soc, described, ones)
                )
            except TileTooLarge:
                raise
            except (
                TileError,
                AttributeError,
                TypeError,
                KeyError,
                ValueError,
                IndexError,
                AssertionError,
                ArithmeticError,
                RecursionError,
            ):
                pass
        found = program_of(
            self.written.tree,
            self.file,
            self.written.given,
            self.name,
            self.parameters,
            described,
            self.constexprs,
            ones,
        )
        if over := found.over(load_soc(soc)):
            raise TileTooLarge(
                f"{self.name} does not fit {soc}: {over}\n{found.ledger(load_soc(soc))}", cure="use smaller blocks"
            )
        return found

    def _program_instead(
        self, refusal: TileError, soc: str, described: Mapping[str, Any], ones: frozenset[str]
    ) -> TritonProgram:
        """The function as it is written where tiles refuse it; of two that do not fit, the smaller one's ledger."""
        try:
            return self._program(soc, described, ones)
        except TileTooLarge:
            if isinstance(refusal, TileTooLarge):
                raise refusal from None
            raise

    def _program(self, soc: str, described: Mapping[str, Any], ones: frozenset[str]) -> TritonProgram:
        arrays = {k: v for k, v in described.items() if isinstance(v, Dtype) and k not in self.constexprs}
        free = [k for k in self.parameters if k not in arrays]
        scalars = {k: described.get(k, int) for k in free if isinstance(described.get(k, int), type)}
        missing = [k for k in free if k in self.constexprs and k not in described]
        if missing:
            raise TileError(f"{self.name}: the constant {missing[0]} has no value", cure=f"give it: {missing[0]}=...")
        constants = {k: described[k] for k in free if k not in scalars}
        arrays = {k: arrays[k] for k in self.parameters if k in arrays}
        found = written_down(self.written.node, self.file, self.written.scope, arrays, scalars, constants, ones)
        self._note(*found.notes)
        if over := found.over(load_soc(soc)):
            raise TileTooLarge(
                f"{self.name} does not fit {soc}: {over}\n{found.ledger(load_soc(soc))}", cure="use smaller blocks"
            )
        return found


def _argument(value: Any) -> Any:
    """An argument as NumPy or Python has it: tensors become arrays, element types those of the language."""
    if hasattr(value, "shape") and not isinstance(value, np.generic):
        array = _array_of(value)
        return array.view(np.int8) if array.dtype == np.bool_ else array
    if type(value).__name__ == "dtype" and str(value).rpartition(".")[2] in TYPES:  # of triton or torch
        return TYPES[str(value).rpartition(".")[2]]
    if isinstance(value, np.generic):
        return value.item()
    return getattr(value, "value", value) if type(value).__name__ == "constexpr" else value


def _array_of(value: Any) -> Array:
    """The memory of an array or of a torch CPU tensor; NumPy has no bfloat16 of its own, so those pass as 16-bit numbers."""
    if str(getattr(value, "dtype", "")) == "torch.bfloat16":
        import torch  # heavy, and only where the caller has loaded it

        bits: Array = value.detach().view(torch.int16).numpy()
        return bits.view(numpy_of(bf16))
    return as_array(value.detach() if hasattr(value, "detach") else value)


def programs_of(grid: Any, bound: dict[str, Any]) -> tuple[int, ...]:
    """The programs of each axis of a grid: a number, a tuple, or a function of the arguments."""
    found = grid(bound) if callable(grid) else grid
    return tuple(int(n) for n in (found if isinstance(found, tuple | list) else (found,)))


def triton(given: Callable[..., Any] | str | Path, name: str = "") -> TritonKernel:
    """A kernel of a Triton function (decorated or not), its source text, or its file. Raises TileError. Triton need not be installed."""
    return TritonKernel(given, name)
