"""Runners: a Python function, a golden against itself, an Ascend C kernel or a whole operator project on the software NPU."""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from toprope.commandline import nearest
from toprope.errors import TopropeError
from toprope.testing.cases import Case, Input, Output
from toprope.testing.elements import Array, dtype_of
from toprope.testing.errors import CaseError, FormatError
from toprope.testing.execution import Outcome, Runner
from toprope.testing.golden import Golden, golden_from, outputs_of
from toprope.testing.suite import Suite

_ARITHMETIC: dict[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
}


@dataclass(frozen=True)
class FunctionRunner:
    """Calls function(*inputs, **attrs) at the inputs' own precision; outputs take the element types of the case."""

    function: Callable[..., Any]
    library: str = "numpy"

    def __call__(self, case: Case, inputs: Sequence[Input]) -> Outcome:
        """Run the case; exceptions of the function pass through."""
        made = Golden(self.function, precision="same", library=self.library)(inputs, case.attrs)
        return Outcome(_cast(made, case.outputs))


@dataclass(frozen=True)
class ReferenceRunner:
    """Runs the suite's own reference: golden against golden, to check the test material itself."""

    suite: Suite

    def __call__(self, case: Case, inputs: Sequence[Input]) -> Outcome:
        """Run the case; raises CaseError for a suite without a reference."""
        if self.suite.reference is None:
            raise CaseError(f"{self.suite.name} has no golden", cure="name an implementation with --run")
        return Outcome(outputs_of(self.suite.reference(case, inputs)))


@dataclass(frozen=True)
class KernelRunner:
    """Runs an Ascend C kernel on the software NPU.

    file, entry  source and kernel function (the only one when empty)
    arguments    kernel parameter -> what it gets: the name of an input, "out" / "out0" ..., a number, or arithmetic over
                 sizes such as "x.size", "x.shape[0] * 2", "attr.axis"; a table for a tiling struct, each of its fields the same
                 (or a list of it); parameters named like an input or output need none
    """

    file: Path
    entry: str = ""
    blocks: int = 8
    soc: str = "ascend910b1"
    arguments: Mapping[str, Any] = field(default_factory=dict)
    include: Sequence[Path] = ()
    defines: Sequence[str] = ()

    @cached_property
    def kernel(self) -> Any:
        """The kernel function."""
        # The kernel toolchain needs a compiler; comparing existing data does not.
        from toprope.kernel import load

        kernels = load(self.file, include=self.include, defines=self.defines)
        return kernels[self.entry] if self.entry else next(iter(kernels.kernels.values()))

    def compile(self) -> None:
        """Build the kernel. Raises CaseError with the compiler's words."""
        try:
            self.kernel[self.blocks].compile(self.soc)
        except TopropeError as error:
            raise CaseError(str(error)) from error

    def __call__(self, case: Case, inputs: Sequence[Input]) -> Outcome:
        """Run all blocks. Outputs start poisoned (all bits set), so an element that is never written cannot pass."""
        call = self.call(case, inputs)
        run = call()
        return _outcome(list(call.outputs.values()), run.findings, run.timeline)

    def call(self, case: Case, inputs: Sequence[Input]) -> Any:
        """The launch of a case, ready (toprope.kernel.Call)."""
        # As `kernel`: comparing existing data needs no toolchain.
        from toprope.kernel import Call
        from toprope.soc import load as load_soc

        kernel = self.kernel
        given = {a.name: value for a, value in zip(case.arguments, inputs, strict=False)}
        outputs = {o.name: _poisoned(o) for o in case.outputs}
        arguments = {p.name: self._value(p.name, case, given, outputs) for p in kernel.entry.parameters}
        poisoned = tuple(n for n in arguments if self._names_one_of(outputs, n))
        return Call(kernel, self.blocks, load_soc(self.soc), arguments, outputs, poisoned)

    def _names_one_of(self, outputs: Collection[str], parameter: str) -> bool:
        text = self.arguments.get(parameter, parameter)
        return isinstance(text, str) and text in outputs

    def _value(self, name: str, case: Case, given: Mapping[str, Input], outputs: Mapping[str, Array]) -> Any:
        text = self.arguments.get(name, name)
        if isinstance(text, Mapping):
            return {key: self._field(f"{name}.{key}", part, case, given) for key, part in text.items()}
        if text in outputs:
            return outputs[text]
        if text in given:
            value = given[text]
            if isinstance(value, list):
                raise CaseError(f"input {text} is a list of tensors, which a kernel argument cannot take")
            return None if value is None else np.ascontiguousarray(value)
        if len(outputs) == 1 and text in ("z", "y", "output", "dst") and name not in self.arguments:
            return next(iter(outputs.values()))
        if text in ("workspace", "null"):
            return None
        try:
            return evaluate(text, given, case.attrs)
        except (AttributeError, IndexError, TypeError, KeyError, ValueError, SyntaxError) as error:
            raise CaseError(
                f"kernel parameter {name!r} has no value: {text!r} is neither an input ({', '.join(given)}), "
                f"an output ({', '.join(outputs)}) nor arithmetic over sizes",
                cure=f'add it to [operator.arguments], for example {name} = "x.size"',
            ) from error

    def _field(self, name: str, part: Any, case: Case, given: Mapping[str, Input]) -> Any:
        """A field of a struct: numbers as they are, text as arithmetic over sizes, tables and lists field by field."""
        if isinstance(part, Mapping):
            return {key: self._field(f"{name}.{key}", inner, case, given) for key, inner in part.items()}
        if isinstance(part, list):
            return [self._field(f"{name}[{at}]", inner, case, given) for at, inner in enumerate(part)]
        if not isinstance(part, str):
            return part
        try:
            return evaluate(part, given, case.attrs)
        except (AttributeError, IndexError, TypeError, KeyError, ValueError, SyntaxError) as error:
            raise CaseError(
                f"{name} = {part!r} is no arithmetic over sizes of {', '.join(given)}",
                cure='write a number, or for example "x.size", "x.shape[0] * 2", "attr.axis"',
            ) from error


@dataclass(frozen=True)
class ProjectRunner:
    """Runs an operator project through its own host code: shape inference, tiling, the kernel that the tiling key chooses."""

    operator: Any  # toprope.project.ProjectOperator; the toolchain is loaded only where a case needs it
    soc: str = "ascend910b1"

    def __call__(self, case: Case, inputs: Sequence[Input]) -> Outcome:
        """Run the case. Refusals of the host code and of the kernel's build pass through as exceptions."""
        call = self.operator.run(*inputs, soc=self.soc, **case.attrs)
        outputs = [a for value in call.outputs.values() for a in (value if isinstance(value, list) else [value])]
        return _outcome(outputs, call.findings, call.timeline)


def _outcome(outputs: list[Array], findings: Sequence[Any], timeline: Any) -> Outcome:
    return Outcome(
        outputs,
        predicted_us=float(timeline.microseconds),
        predicted_cycles=float(timeline.cycles),
        findings=[str(f) for f in sorted(findings, key=lambda f: f.severity != "error")],
        errors=sum(f.severity == "error" for f in findings),
    )


def evaluate(text: str, inputs: Mapping[str, Input], attrs: Mapping[str, Any]) -> Any:
    """Arithmetic over the sizes of inputs: x.size, x.shape[1], x.ndim, attr.<name>, numbers, + - * // %."""
    return _evaluated(ast.parse(text, mode="eval").body, inputs, attrs)


def _evaluated(node: ast.expr, inputs: Mapping[str, Input], attrs: Mapping[str, Any]) -> Any:
    if isinstance(node, ast.Constant):
        return node.value
    if isinstance(node, ast.BinOp) and type(node.op) in _ARITHMETIC:
        left, right = _evaluated(node.left, inputs, attrs), _evaluated(node.right, inputs, attrs)
        return _ARITHMETIC[type(node.op)](left, right)
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        return -_evaluated(node.operand, inputs, attrs)
    if isinstance(node, ast.Subscript):
        return _evaluated(node.value, inputs, attrs)[_evaluated(node.slice, inputs, attrs)]
    if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
        if node.value.id == "attr":
            return attrs[node.attr]
        value = inputs[node.value.id]
        if isinstance(value, np.ndarray) and node.attr in ("size", "shape", "ndim"):
            return getattr(value, node.attr)
    raise ValueError(f"{ast.dump(node)} is no arithmetic over sizes")


def runner_from(text: str, suite: Suite, *, soc: str = "", settings: Mapping[str, Any] | None = None) -> Runner:
    """The runner that `--run` or a case file names.

    "golden"; "numpy.add", "torch.abs", "file.py:function"; "kernel.cpp" or "kernel.cpp:entry" (.cpp and .asc files); "project",
    "project:folder" (a folder with op_host and op_kernel) or "project:folder:Operator".
    """
    table = settings or {}
    folder = suite.path if suite.path.is_dir() else suite.path.parent
    if text == "golden":
        return ReferenceRunner(suite)
    path, _, entry = text.partition(":")
    if Path(path).suffix in (".cpp", ".asc", ".cce"):
        file = Path(path) if Path(path).is_file() else folder / path
        if not file.is_file():
            beside = [f.name for f in folder.glob("*") if f.suffix == Path(path).suffix]
            raise FormatError(
                f"no kernel source {path!r}{nearest(Path(path).name, beside)}",
                where=str(folder),
                cure="run = ... is relative to the case file"
                + (f"; beside it are {', '.join(beside[:6])}" if beside else ""),
            )
        # Cases run in forked children, which then need not import the toolchain each time.
        import toprope.kernel  # noqa: F401

        chip = soc or str(table.get("soc", "ascend910b1"))
        arguments = {k: v if isinstance(v, dict) else str(v) for k, v in table.get("arguments", {}).items()}
        return KernelRunner(file, entry, int(table.get("blocks", 8)), chip, arguments)
    if path == "project":
        # As for kernels: only cases of projects need it.
        from toprope.project.loaded import load_project

        place, _, operator_type = entry.partition(":")
        try:
            operator = load_project(folder / place, operator_type)
        except TopropeError as error:
            raise FormatError(str(error), where=str(folder / place)) from error
        return ProjectRunner(operator, soc or str(table.get("soc", "ascend910b1")))
    base = None if path and Path(path).is_file() else folder
    golden = golden_from(text, base)
    return FunctionRunner(golden.function, golden.library)


def _cast(made: Sequence[Array], outputs: Sequence[Output]) -> list[Array]:
    """Results in the declared element types: a NumPy function may widen what a kernel would not."""
    cast = []
    for number, array in enumerate(made):
        dtype = outputs[number].dtype if number < len(outputs) else ""
        with np.errstate(all="ignore"):
            cast.append(array.astype(dtype_of(dtype)) if dtype and array.dtype != dtype_of(dtype) else array)
    return cast


def _poisoned(output: Output) -> Array:
    kind = dtype_of(output.dtype)
    size = int(np.prod(output.shape or (), dtype=np.int64))
    bits = np.full(size * kind.itemsize, 1 if kind.kind == "b" else 0xFF, dtype=np.uint8)
    return bits.view(kind).reshape(output.shape or ())
