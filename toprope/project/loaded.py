"""load_project: an operator project as a Python function. Its own host code infers shapes and tiles; its own kernel runs."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from toprope.errors import BadArgument, BadInput
from toprope.finding import Finding
from toprope.kernel import DEFAULT_SOC, Call, Run
from toprope.project.call_tensors import (
    arrays_of,
    described_inputs,
    fill_initial,
    followed_shapes,
    fresh_output,
    kernel_arguments,
    matching_combination,
    member_count,
)
from toprope.project.checkout import Checkout
from toprope.project.definition import builds_for
from toprope.project.errors import AttributeMissing, InputCount, MissingHostSource, TilingFailed
from toprope.project.ge_types import GE_TYPES, GeType, ge_type
from toprope.project.host import DYNAMIC, OPTIONAL, HostLibrary, OperatorDef, Problem, TensorValue, Tiling
from toprope.project.host_build import host_library, host_sources, shared_sources
from toprope.project.operators import Operator
from toprope.project.project_kernel import ProjectKernel, kernel_source, project_kernel, snake
from toprope.project.tiling_fields import changed_data, check_layout, decode
from toprope.soc import Soc
from toprope.soc import load as load_soc
from toprope.timing import Timeline

Array = np.ndarray[Any, Any]
_UNDEFINED = GE_TYPES[28]


@dataclass(frozen=True, repr=False)
class OperatorRun:
    """One call of an operator: its outputs by name (a list for a dynamic output), its tiling, and the launch behind it."""

    outputs: Mapping[str, Any]
    tiling: Tiling
    run: Run

    def __repr__(self) -> str:
        said = ((n, v if isinstance(v, list) else [v]) for n, v in self.outputs.items())
        arrays = ", ".join(f"{n} {a.dtype.name}{list(a.shape)}" for n, group in said for a in group)
        return f"OperatorRun({arrays}; key {self.tiling.key}, {self.run!r})"

    @property
    def findings(self) -> list[Finding]:
        """Mistakes and advice from every check."""
        return self.run.findings

    @property
    def timeline(self) -> Timeline:
        """When each instruction would run on the chip."""
        return self.run.timeline

    @property
    def time_us(self) -> float:
        """Predicted task duration on the chip, in microseconds."""
        return self.run.timeline.microseconds


class Output(np.ndarray[Any, Any]):
    """An output as a NumPy array that remembers the call it came from; what is computed from it is a plain array of that kind without one."""

    call: OperatorRun | None = None

    def __array_finalize__(self, source: Any) -> None:
        self.call = None

    def _origin(self) -> OperatorRun:
        if self.call is None:
            raise AttributeError(
                "this array was computed from an output; findings and time belong to the output itself"
            )
        return self.call

    @property
    def findings(self) -> list[Finding]:
        """Mistakes and advice of the call."""
        return self._origin().findings

    @property
    def timeline(self) -> Timeline:
        """When each instruction of the call would run on the chip."""
        return self._origin().timeline

    @property
    def time_us(self) -> float:
        """Predicted duration of the call, in microseconds."""
        return self._origin().time_us


@dataclass(frozen=True)
class OutputInfo:
    """What shape and type inference says of one output."""

    name: str
    shape: tuple[int, ...]
    dtype: GeType


@dataclass(frozen=True)
class Prepared:
    """A call that is ready to be launched: the definition for its chip, its tiling, and the kernel of that tiling."""

    definition: OperatorDef
    tiling: Tiling
    kernel: ProjectKernel


@dataclass(frozen=True)
class ProjectOperator:
    """An operator of a project. `op(x1, x2, attribute=...)` infers, tiles, picks the kernel by its key and runs it."""

    project: LoadedProject
    definition: OperatorDef
    kernels: dict[Any, ProjectKernel] = field(default_factory=dict, compare=False, repr=False)

    @property
    def name(self) -> str:
        """The operator's type, e.g. AddCustom."""
        return self.definition.type

    def __call__(
        self, *inputs: Any, soc: str | Soc = DEFAULT_SOC, out: Sequence[Array] | None = None, **attributes: Any
    ) -> Any:
        """Run on arrays, in the order of the definition; None leaves an optional input out, a list fills a dynamic one.

        Returns the output (a NumPy array with `findings`, `timeline` and `time_us`), or a tuple of them. `out` gives the output arrays
        where the operator has no shape inference (a list of arrays for a dynamic output). Raises InputCount, AttributeMissing, InferFailed, TilingFailed, KeyNotCompiled,
        TilingMismatch, BadArgument, CompileFailed.
        """
        found = self.run(*inputs, soc=soc, out=out, **attributes)
        outputs: list[Any] = []
        for value in found.outputs.values():
            outputs.append([_attached(v, found) for v in value] if isinstance(value, list) else _attached(value, found))
        return outputs[0] if len(outputs) == 1 else tuple(outputs)

    def run(
        self,
        *inputs: Any,
        soc: str | Soc = DEFAULT_SOC,
        out: Sequence[Array] | None = None,
        options: Mapping[str, Any] | None = None,
        tiling: Tiling | None = None,
        **attributes: Any,
    ) -> OperatorRun:
        """As a call, but returns the whole OperatorRun. `options` go to the launch (sync, time_only, time_limit_s, ...).

        `tiling` takes the place of what the tiling function would decide; see `changed`. With time_only no array is copied or filled.
        """
        fill = not (options or {}).get("time_only", False)
        call, tiling = self.call(*inputs, soc=soc, out=out, tiling=tiling, fill=fill, **attributes)
        return OperatorRun(call.outputs, tiling, call(**{"poisoned": (), **(options or {})}))

    def call(
        self,
        *inputs: Any,
        soc: str | Soc = DEFAULT_SOC,
        out: Sequence[Array] | None = None,
        tiling: Tiling | None = None,
        fill: bool = True,
        **attributes: Any,
    ) -> tuple[Call, Tiling]:
        """What `run` launches, ready, and the tiling behind it. Without `fill` no array is copied or filled: for time only."""
        chip = load_soc(soc) if isinstance(soc, str) else soc
        of = self._for(chip)
        arrays = [arrays_of(of, d, v, copy=fill) for d, v in zip(of.inputs, self._padded(of, inputs), strict=True)]
        shapes = [[TensorValue(a.shape, ge_type(a.dtype), value=a) for a in group] for group in arrays]
        problem, types, formats = self._problem(of, chip, shapes, attributes, None)
        outputs = self._outputs(of, problem, arrays, out, fill)
        problem = replace(
            problem,
            outputs=[
                [TensorValue(a.shape, ge_type(a.dtype), formats[d.name]) for a in g]
                for d, g in zip(of.outputs, outputs, strict=True)
            ],
        )
        types.update({d.name: ge_type(g[0].dtype) for d, g in zip(of.outputs, outputs, strict=True) if g})
        tiling = tiling or self._tile(of, problem, chip)
        kernel = self._kernel(of, chip, tiling, types, formats, [*arrays, *outputs])
        check_layout(self.project.library, of, tiling, self.project.operator, kernel.path)
        begun = tiling.need_atomic or any(t.initial is not None for t in of.outputs)
        if begun:
            fill_initial(of, outputs, types)
        if tiling.block_dim < 1:
            raise TilingFailed(
                f"the tiling function of {of.type} set no number of blocks", cure="call context->SetBlockDim(...)"
            )
        values = kernel_arguments(of, arrays, outputs, tiling, fill=fill)
        arguments = {p.name: v for p, v in zip(kernel.entry.parameters, values, strict=True)}
        fresh = {id(a) for g in outputs for a in g} - {id(a) for g in arrays for a in g}
        poisoned = () if begun or not fill else tuple(n for n, v in arguments.items() if id(v) in fresh)
        named = {d.name: (g if d.mode == DYNAMIC else g[0]) for d, g in zip(of.outputs, outputs, strict=True) if g}
        return Call(kernel, tiling.block_dim, chip, arguments, named, poisoned, tiling.key), tiling

    def tiling(
        self,
        *,
        shapes: Sequence[Any],
        dtypes: Any = "float16",
        soc: str | Soc = DEFAULT_SOC,
        formats: Sequence[str] | None = None,
        values: Mapping[str, Any] | None = None,
        output_shapes: Sequence[Any] | None = None,
        **attributes: Any,
    ) -> Tiling:
        """What the operator's own tiling function decides.

        `shapes` in the order of the inputs (None: left out; a list of shapes for a dynamic input); `dtypes` one for all, or one each;
        `values` the contents of inputs that the tiling depends on, by name. Raises InputCount, AttributeMissing, InferFailed, TilingFailed.
        """
        chip = load_soc(soc) if isinstance(soc, str) else soc
        of = self._for(chip)
        given = described_inputs(of, self._padded(of, shapes), dtypes, formats, values or {})
        problem, types, found_formats = self._problem(of, chip, given, attributes, output_shapes)
        del types, found_formats
        return self._tile(of, problem, chip)

    def prepared(
        self,
        inputs: Sequence[Sequence[TensorValue]],
        outputs: Sequence[Sequence[TensorValue]],
        *,
        soc: Soc,
        attributes: Mapping[str, Any],
    ) -> Prepared:
        """What a launch elsewhere needs: the tiling that the operator's own function decides for these tensors, and the kernel for it.

        Raises what a call raises, and BadInput where inference says another size than a given output has.
        """
        of = self._for(soc)
        problem, types, formats = self._problem(of, soc, [list(g) for g in inputs], attributes, None)
        if of.has_infer_shape:
            for d, inferred, given in zip(of.outputs, problem.outputs, outputs, strict=True):
                for a, b in zip(inferred, given, strict=False):
                    if a.shape and math.prod(a.shape) != math.prod(b.shape):
                        raise BadInput(
                            f"output {d.name} of {of.type} is {list(a.shape)}, the tensor given for it is {list(b.shape)}",
                            cure="give a tensor of that shape",
                        )
        problem = replace(problem, outputs=[list(g) for g in outputs])
        types.update({d.name: g[0].dtype for d, g in zip(of.outputs, outputs, strict=True) if g})
        tiling = self._tile(of, problem, soc)
        groups: list[Any] = [*inputs, *outputs]
        kernel = self._kernel(of, soc, tiling, types, formats, groups)
        check_layout(self.project.library, of, tiling, self.project.operator, kernel.path)
        if tiling.block_dim < 1:
            raise TilingFailed(
                f"the tiling function of {of.type} set no number of blocks", cure="call context->SetBlockDim(...)"
            )
        return Prepared(of, tiling, kernel)

    def changed(
        self,
        tiling: Tiling,
        *,
        key: int | None = None,
        block_dim: int | None = None,
        workspaces: Sequence[int] | None = None,
        **fields: Any,
    ) -> Tiling:
        """A tiling with another key, number of blocks, workspaces (bytes) or fields of its data, for `run(..., tiling=...)`.

        So a choice is tried out without an edit of the host code. Raises BadArgument for a field that the data does not have.
        """
        data = changed_data(self.project.library, self.definition, tiling, self.project.operator, fields)
        new = replace(
            tiling,
            data=data,
            key=tiling.key if key is None else key,
            block_dim=tiling.block_dim if block_dim is None else block_dim,
            workspaces=tiling.workspaces if workspaces is None else tuple(workspaces),
        )
        return replace(new, fields=decode(self.project.library, self.definition, new, self.project.operator))

    def infer_shape(
        self,
        *,
        shapes: Sequence[Any],
        dtypes: Any = "float16",
        soc: str | Soc = DEFAULT_SOC,
        values: Mapping[str, Any] | None = None,
        **attributes: Any,
    ) -> list[OutputInfo]:
        """Shape and element type of every output, as the operator's own functions infer them. Raises InputCount, InferFailed."""
        chip = load_soc(soc) if isinstance(soc, str) else soc
        of = self._for(chip)
        given = described_inputs(of, self._padded(of, shapes), dtypes, None, values or {})
        problem, _, _ = self._problem(of, chip, given, attributes, None)
        return [
            OutputInfo(d.name, t.shape, t.dtype)
            for d, group in zip(of.outputs, problem.outputs, strict=True)
            for t in group
        ]

    # ---- steps ---------------------------------------------------------------------------------------------------------------

    def _for(self, chip: Soc) -> OperatorDef:
        of = self.definition
        if not of.defined:
            raise MissingHostSource(
                f"{of.type} has functions but no definition: no OP_ADD({of.type}) was found in op_host",
                cure="add the source with the class that derives from OpDef",
            )
        if of.families and not any(builds_for(f, chip.name) for f in of.families):
            raise BadArgument(
                f"{of.type} is not built for {chip.name}: its definition lists {', '.join(of.families)}",
                cure='choose another soc, or add this->AICore().AddConfig("...") for the chip',
            )
        return of.for_chip(chip.name)

    def _padded(self, of: OperatorDef, given: Sequence[Any]) -> list[Any]:
        """One entry for each declared input; trailing optional ones may be left out. Raises InputCount."""
        names = ", ".join(
            t.name + ("?" if t.mode == OPTIONAL else "[]" if t.mode == DYNAMIC else "") for t in of.inputs
        )
        if len(given) > len(of.inputs):
            raise InputCount(
                f"{of.type} takes {len(of.inputs)} inputs ({names}), {len(given)} were given",
                cure="attributes are given by name",
            )
        padded = [*given, *[None] * (len(of.inputs) - len(given))]
        for tensor, value in zip(of.inputs, padded, strict=True):
            if value is None and tensor.mode not in (OPTIONAL, DYNAMIC):
                raise InputCount(
                    f"{of.type} needs the input {tensor.name}; {len(given)} of its inputs ({names}) were given",
                    cure="give every required input; None stands for an optional one that is left out",
                )
        return padded

    def _attributes(self, of: OperatorDef, given: Mapping[str, Any]) -> list[tuple[Any, Any]]:
        unknown = set(given) - {a.name for a in of.attributes}
        if unknown:
            raise BadArgument(
                f"{of.type} has no attribute {', '.join(sorted(unknown))}",
                cure="its attributes are " + (", ".join(f"{a.name} ({a.kind})" for a in of.attributes) or "none"),
            )
        missing = [a.name for a in of.attributes if a.required and a.default is None and a.name not in given]
        if missing:
            raise AttributeMissing(
                f"{of.type} requires the attribute {', '.join(missing)}",
                cure=f"call it with {missing[0]}=..., or declare a default value",
            )
        return [(a, given.get(a.name, a.default)) for a in of.attributes]

    def _problem(
        self,
        of: OperatorDef,
        chip: Soc,
        inputs: list[list[TensorValue]],
        attributes: Mapping[str, Any],
        output_shapes: Sequence[Any] | None,
    ) -> tuple[Problem, dict[str, GeType], dict[str, int]]:
        """The call as host code will see it, outputs inferred; the element type and format of each tensor by name."""
        combination = matching_combination(of, inputs)
        formats = {
            t.name: g[0].format if g and g[0].format != 2 else t.format(combination)
            for t, g in zip(of.inputs, inputs, strict=True)
        }
        formats |= {t.name: t.format(combination) for t in of.outputs if t.name not in formats}
        needs = of.needs_value
        seen = [
            [
                replace(t, format=formats[d.name], value=t.value if d.value_depends or i in needs else None)
                for t in group
            ]
            for i, (d, group) in enumerate(zip(of.inputs, inputs, strict=True))
        ]
        types = {d.name: g[0].dtype for d, g in zip(of.inputs, inputs, strict=True) if g}
        for tensor in (*of.inputs, *of.outputs):
            if (declared := tensor.dtype(combination)) is not None:
                types.setdefault(tensor.name, declared)
        members = {d.name: len(g) for d, g in zip(of.inputs, inputs, strict=True) if d.mode == DYNAMIC}
        blank = [
            [TensorValue((), types.get(d.name, _UNDEFINED), formats[d.name])] * member_count(d, members)
            for d in of.outputs
        ]
        problem = Problem(seen, blank, self._attributes(of, attributes))
        if output_shapes is not None:
            outs = []
            for d, group, given in zip(of.outputs, blank, output_shapes, strict=True):
                shapes = given if d.mode == DYNAMIC else [given]
                outs.append([replace(group[0], shape=tuple(s)) for s in shapes])
        else:
            outs = self._inferred(of, problem, chip)
        types |= {d.name: g[0].dtype for d, g in zip(of.outputs, outs, strict=True) if g and g[0].dtype != _UNDEFINED}
        return replace(problem, outputs=outs), types, formats

    def _inferred(self, of: OperatorDef, problem: Problem, chip: Soc) -> list[list[TensorValue]]:
        by_name = {d.name: g for d, g in zip(of.inputs, problem.inputs, strict=True)}
        if not (of.has_infer_shape or of.has_infer_type):
            return [followed_shapes(d, g, by_name) for d, g in zip(of.outputs, problem.outputs, strict=True)]
        answers = iter(self.project.library.infer(of, problem, chip))
        outs = []
        for d, group in zip(of.outputs, problem.outputs, strict=True):
            known = group if of.has_infer_shape else followed_shapes(d, group, by_name)
            row = []
            for one, blank, (shape, dtype) in zip(known, group, answers, strict=False):
                typed = dtype if of.has_infer_type and dtype != _UNDEFINED else blank.dtype
                row.append(replace(one, shape=shape if of.has_infer_shape else one.shape, dtype=typed))
            outs.append(row)
        return outs

    def _outputs(
        self, of: OperatorDef, problem: Problem, arrays: list[list[Array]], given: Sequence[Array] | None, fill: bool
    ) -> list[list[Array]]:
        """Arrays for the outputs: the caller's, a copy of the input of the same name, or new ones full of rubbish."""
        if given is not None:
            if len(given) != len(of.outputs):
                raise InputCount(
                    f"{of.type} has {len(of.outputs)} outputs, `out` holds {len(given)}",
                    cure="give one array for each output",
                )
            return [list(a) if d.mode == DYNAMIC else [a] for d, a in zip(of.outputs, given, strict=True)]
        by_name = {d.name: g for d, g in zip(of.inputs, arrays, strict=True)}
        outs = []
        for d, group in zip(of.outputs, problem.outputs, strict=True):
            if by_name.get(d.name):
                outs.append(by_name[d.name])  # the kernel updates this input in place
                continue
            outs.append([fresh_output(of, d, t, fill=fill) for t in group])
        return outs

    def _tile(self, of: OperatorDef, problem: Problem, chip: Soc) -> Tiling:
        if not of.has_tiling:
            raise MissingHostSource(
                f"{of.type} has no tiling function for {chip.name}",
                cure="register one: this->AICore().SetTiling(...) or IMPL_OP_OPTILING(...).Tiling(...)",
            )
        tiling = self.project.library.tiling(of, problem, chip)
        return replace(tiling, fields=decode(self.project.library, of, tiling, self.project.operator))

    def _kernel(
        self,
        of: OperatorDef,
        chip: Soc,
        tiling: Tiling,
        types: dict[str, GeType],
        formats: dict[str, int],
        arrays: list[list[Array]],
    ) -> ProjectKernel:
        tensors = (*of.inputs, *of.outputs)
        pointers = [(d.name, len(g) if d.mode == DYNAMIC else 0) for d, g in zip(tensors, arrays, strict=True)]
        pointers += [("workspace", 0), ("tiling", 0)]
        key = (
            chip.name,
            tiling.key,
            tuple(sorted((n, t.name) for n, t in types.items())),
            tuple(sorted(formats.items())),
            tuple(pointers),
        )
        if key not in self.kernels:
            project = self.project
            self.kernels[key] = project_kernel(
                project.checkout,
                project.operator,
                of,
                kernel_source(project.operator, of, chip),
                chip,
                key=tiling.key,
                classes=project.library.tilings,
                types=types,
                formats=formats,
                pointers=pointers,
            )
        return self.kernels[key]

    def __reduce__(self) -> tuple[Any, ...]:
        return load_project, (self.project.operator.folder, self.name)  # host code is loaded again in another process

    def __repr__(self) -> str:
        of = self.definition
        words = [t.name + ("?" if t.mode == OPTIONAL else "[]" if t.mode == DYNAMIC else "") for t in of.inputs]
        words += [f"{a.name}={a.default!r}" if a.default is not None else f"{a.name}=..." for a in of.attributes]
        return f"{of.type}({', '.join(words)}) -> {', '.join(t.name for t in of.outputs)}"


class LoadedProject:
    """A project folder with its host code compiled on first use; its operators by type."""

    def __init__(self, operator: Operator, checkout: Checkout) -> None:
        self.operator, self.checkout = operator, checkout

    @cached_property
    def library(self) -> HostLibrary:
        """The compiled host code. Raises CompileFailed, MissingHeader, MissingHostSource."""
        sources = host_sources(self.operator.folder)
        if not sources:
            raise MissingHostSource(
                f"{self.operator.folder} has no host source: op_host/ holds no .cpp for this generation of chips",
                cure="add op_host/<operator>.cpp with the definition, shape inference and tiling",
            )
        sources += shared_sources(self.checkout, self.operator, sources)
        return HostLibrary(host_library(self.checkout, self.operator, sources))

    @cached_property
    def operators(self) -> dict[str, ProjectOperator]:
        """The operators that op_host defines, by type."""
        found = {n: ProjectOperator(self, o) for n, o in self.library.operators.items() if o.defined}
        if not found:
            raise MissingHostSource(
                f"no source of {self.operator.folder / 'op_host'} defines an operator",
                cure="write a class that derives from OpDef and register it with OP_ADD",
            )
        return found


def load_project(path: str | Path, operator: str = "") -> ProjectOperator:
    """The operator of a project folder (op_host/, op_kernel/). Compiles on first use.

    Its type name chooses among several; without one, the operator that the folder is named after.
    Works on a project made by `toprope new` or msopgen and on one operator's folder inside a repository's checkout. Raises BadInput,
    CompileFailed, MissingHostSource, MissingHeader.
    """
    folder = Path(path).resolve()
    if not (folder / "op_kernel").is_dir():
        raise BadInput(
            f"{path} is no operator project: it has no folder op_kernel",
            cure="give the folder that holds op_host/ and op_kernel/",
        )
    checkout = Checkout(repository_of(folder))
    found = LoadedProject(Operator(folder, checkout.root), checkout).operators
    if operator and operator not in found:
        raise BadInput(f"{path} has no operator {operator}", cure="it has " + ", ".join(found))
    if not operator and len(found) > 1:
        if named := next((found[n] for n in found if snake(n) == folder.name), None):
            return named
        raise BadInput(
            f"{path} defines {len(found)} operators",
            cure="choose one: load_project(path, operator=...) with " + ", ".join(found),
        )
    return found[operator or next(iter(found))]


def operators_of(path: str | Path) -> list[ProjectOperator]:
    """All operators of a project folder, in the order of their types. Raises what load_project raises."""
    folder = Path(path).resolve()
    if not (folder / "op_kernel").is_dir():
        raise BadInput(
            f"{path} is no operator project: it has no folder op_kernel",
            cure="give the folder that holds op_host/ and op_kernel/",
        )
    checkout = Checkout(repository_of(folder))
    found = LoadedProject(Operator(folder, checkout.root), checkout).operators
    return [found[name] for name in sorted(found)]


def repository_of(folder: Path) -> Path:
    """The checkout that an operator's folder belongs to: the nearest folder above with build.sh and common/, else the folder itself."""
    for above in folder.parents:
        if (above / "common").is_dir() and (above / "build.sh").is_file():
            return above
    return folder


def _attached(array: Array, call: OperatorRun) -> Output:
    out = array.view(Output)
    out.call = call
    return out
