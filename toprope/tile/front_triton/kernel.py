"""A Triton function in the form: read for a launch, evaluated on NumPy, emitted."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from toprope.dtypes import Dtype, dtype
from toprope.soc import Soc
from toprope.tile.form.evaluate import evaluate
from toprope.tile.form.nodes import Form, i32, i64
from toprope.tile.front_triton.module import Module, module_of
from toprope.tile.front_triton.reader import read
from toprope.tile.language import Param, TileError, f32
from toprope.tile.passes.emit import Emitted, emitted
from toprope.tile.text.kernel import argument_type


@dataclass(frozen=True)
class FormProgram:
    """One reading of a function."""

    form: Form

    @cached_property
    def emitted(self) -> Emitted:
        """Placed and ordered. Raises TileError for what the passes do not carry."""
        try:
            return emitted(self.form)
        except (
            AssertionError,
            LookupError,
            AttributeError,
            ValueError,
            TypeError,
            ArithmeticError,
            RecursionError,
        ) as e:
            raise TileError(
                f"{self.form.file}: {self.form.name} was read, and cannot be emitted: {type(e).__name__}: {e}",
                cure="this is a gap of the compiler; report the kernel",
            ) from e

    @property
    def params(self) -> dict[str, Param]:
        """The arrays."""
        return {a.name: Param((), a.dtype, written=True) for a in self.form.arguments if a.is_array}

    @property
    def scalars(self) -> dict[str, Dtype]:
        """Numbers that a launch gives."""
        return {a.name: a.dtype for a in self.form.arguments if not a.is_array}

    @property
    def dims(self) -> list[str]:
        """Arguments behind the arrays, the grid last."""
        return [*self.scalars, "grid0", "grid1", "grid2"]

    @property
    def notes(self) -> list[str]:
        """What was read and has no effect here."""
        return list(self.form.notes)

    def fields(self) -> list[tuple[str, str]]:
        """(C++ type, name) of the arguments behind the arrays, as the text has them."""
        return [
            *((argument_type(k.name), f"{n}Arg") for n, k in self.scalars.items()),
            *(("int64_t", f"grid{n}") for n in range(3)),
        ]

    def values(self, dims: Mapping[str, Any]) -> list[float]:
        """Numbers of the host: none."""
        return []

    def blocks(self, dims: Mapping[str, Any], chip: Soc) -> int:
        """min(steps of the grid, cores); a cube core with its two vector cores takes two at a time."""
        steps = int(dims["grid0"]) * int(dims["grid1"]) * int(dims["grid2"])
        if self.form.serial:
            return 1
        if self.emitted.mixed:
            return max(1, min(-(-steps // 2), int(chip.number("cores.aic"))))
        return max(1, min(steps, int(chip.number("cores.aiv"))))

    def over(self, chip: Soc) -> str:
        """What does not fit, or nothing."""
        return self.emitted.over(chip)

    def ledger(self, chip: Soc) -> str:
        """The bytes of every buffer."""
        return self.emitted.ledger(chip)

    def text(self, *, line_directives: bool, tiling_struct: str = "", chip: Soc | None = None) -> str:
        """The source file."""
        return self.emitted.text(line_directives=line_directives, tiling_struct=tiling_struct)

    def evaluate(self, bound: Mapping[str, Any], grid: tuple[int, ...]) -> None:
        """Level A."""
        evaluate(self.form, bound, grid)


def program_of(
    tree: Any,
    file: str,
    given: dict[str, Any],
    name: str,
    parameters: list[str],
    described: Mapping[str, Any],
    constexprs: set[str],
    ones: frozenset[str],
) -> FormProgram:
    """Read a function for element types, types of scalars, and values of constants. Raises TileError."""
    module = module_of(Path(file)) if Path(file).is_file() and not given else Module(tree, file, given)
    if name not in module.functions:
        module = Module(tree, file, given)
    node = module.functions[name]
    arrays = {k: v for k, v in described.items() if isinstance(v, Dtype) and k not in constexprs}
    scalars, constants = dict[str, Dtype](), dict[str, Any]()
    for k in parameters:
        if k in arrays:
            continue
        v = described.get(k, int)
        if k in constexprs and k not in described:
            raise TileError(f"{name}: the constant {k} has no value", cure=f"give it: {k}=...")
        if k in ones:
            constants[k] = 1
        elif isinstance(v, type):
            scalars[k] = f32 if v is float else i64 if v is Wide else i32
        else:
            constants[k] = v
    return FormProgram(read(module, node, arrays, scalars, constants))


class Wide(int):
    """A whole number of more than 32 bits, as a launch describes it."""


__all__ = ["FormProgram", "Wide", "dtype", "program_of"]
