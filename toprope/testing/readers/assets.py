"""Suites from an operator folder: test assets give the reference, ops-test-kit tables the cases.

Where a folder has a reference but no table, cases are made from the operator's host unit tests and C++ definition.
"""

from __future__ import annotations

import itertools
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from toprope.project.definition import Definition, Tensor, read_definition
from toprope.testing.cases import Absent, AnyArgument, Argument, ArgumentList, Case, Input, Output
from toprope.testing.data import Fill
from toprope.testing.elements import Array, dtype_of
from toprope.testing.errors import CaseError, FormatError
from toprope.testing.golden import outputs_of, to_torch
from toprope.testing.readers import examples, ttk, unittests
from toprope.testing.readers.aclnn_headers import AclnnParameter, read_aclnn
from toprope.testing.readers.testspec import Asset, index, positional_names
from toprope.testing.standards import ALIASES
from toprope.testing.suite import Suite

BORROWED_CASES = 16
GUESSED_SHAPES = ((4, 16), (2, 3, 8, 8), (16,), (2, 4, 16), (2, 3, 4, 8, 8), (1,), (8, 4), (3, 3))


def read(folder: Path) -> list[Suite]:
    """One suite per asset below `folder`; cases of a table without an asset come as suites without a reference."""
    assets = index([folder])
    by_operator: dict[str, list[Case]] = {}
    problems: list[str] = []
    for table in sorted([*folder.rglob("*.csv"), *folder.rglob("*.xlsx")]):
        if not ttk.is_table(table):
            continue
        cases, complaints = ttk.read(table)
        problems += complaints
        for case in ttk.enabled(cases):
            by_operator.setdefault(case.operator, []).append(case)
    made: dict[str, Suite] = {}
    kernels: dict[str, Sequence[Case]] = {}
    for name, asset in sorted(assets.items(), key=lambda item: item[1].mode != "kernel"):
        other = kernels.get(_plain(name), ()) if asset.mode != "kernel" else ()
        made[name] = _suite(name, asset, by_operator.pop(name, []), folder, problems, other)
        if asset.mode == "kernel":
            kernels[_plain(name)] = made[name].cases
    suites = [made[name] for name in assets]
    for name, cases in by_operator.items():
        suites.append(Suite(name, folder, "ttk", cases, problems=problems))
    return suites


def _plain(name: str) -> str:
    """An operator's name as its kernel, its aclnn function and its framework function have it in common."""
    return name.removeprefix("aclnn").rpartition(".")[2].replace("_", "").lower()


def _suite(
    name: str,
    asset: Asset,
    cases: Sequence[Case],
    folder: Path,
    problems: Sequence[str],
    kernel_cases: Sequence[Case] = (),
) -> Suite:
    """The suite of one asset. kernel_cases: those of the same operator's kernel asset, for one that has none of its own."""
    root = operator_root(asset.file, folder)
    binder: _KernelBinder | _AclnnBinder
    if asset.mode == "kernel":
        definition = find_opdef(root, name)
        names = (
            [t.name for t in definition.inputs]
            if definition
            else positional_names(asset.file, asset.entry, asset.is_spec)
        )
        binder = _KernelBinder(asset, tuple(names))
        if not cases:
            declared = definition or _guessed_definition(required_names(asset))
            known = examples.kernel_cases(root, name, declared) + unittests.read(root, name, definition)
            cases = known + guessed_cases(name, declared)
        cases = [bind_names(case, names) for case in cases]
    else:
        header = read_aclnn(root).get(name, ())
        parameters = _under_own_names(header, required_names(asset))
        binder = _AclnnBinder(asset, parameters)
        if not cases:
            tensors = [p.name for p in parameters if p.kind in ("tensor", "tensors")] or required_names(asset)
            lists = {p.name for p in parameters if p.kind == "tensors"}
            values = {p.name: 1 for p in parameters if p.kind in ("scalar", "value")}
            shown = examples.aclnn_cases(root, name, header) if header else []
            own = {h.name: p.name for h, p in zip(header, parameters, strict=False)}
            known = [replace(c, attrs={own[k]: v for k, v in c.attrs.items()}) for c in shown]
            known += [] if header else _borrowed(name, kernel_cases)
            cases = known + guessed_cases(name, _guessed_definition(tensors, lists, values))
    standard = _standard_of(asset)
    chosen = [_with_standard(case, standard) for case in cases] if standard else list(cases)
    return Suite(name, asset.file, "testspec", chosen, binder.reference, None, binder.prepare, tuple(problems))


def _under_own_names(header: Sequence[AclnnParameter], names: Sequence[str]) -> tuple[AclnnParameter, ...]:
    """The header's parameters; for a golden that asks for more than it has, the same kinds under the golden's own names.

    Results come last in every aclnn function; what such a golden has between the inputs and them is a value of its own.
    """
    if not header or len(header) >= len(names):
        return tuple(header)
    inputs = [p.kind for p in header if p.kind != "output"]
    results = ["output"] * (len(header) - len(inputs))
    kinds = [*inputs, *["value"] * (len(names) - len(header)), *results]
    return tuple(AclnnParameter(name, kind) for name, kind in zip(names, kinds, strict=True))


def _borrowed(name: str, kernel_cases: Sequence[Case]) -> list[Case]:
    """Another asset's cases as cases of `name`, the smallest first."""
    usable = sorted(
        (c for c in kernel_cases if 0 < c.elements <= examples.MAX_ELEMENTS),
        key=lambda c: ("_guess_" in c.name, c.elements),
    )
    return [replace(c, name=f"{name}_{c.name}", operator=name, standard="") for c in usable[:BORROWED_CASES]]


def operator_root(file: Path, limit: Path) -> Path:
    """The operator's folder: the nearest one above `file` that has op_host, op_api or op_kernel, within `limit`."""
    for parent in file.parents:
        is_operator = any((parent / part).is_dir() for part in ("op_host", "op_api", "op_kernel", "op_graph"))
        if is_operator and parent.name != "ut" and parent.parent.name != "tests":
            return parent
        if parent == limit:
            break
    return file.parent


def find_opdef(root: Path, name: str) -> Definition | None:
    """The definition of operator `name` in `root`: `<name>_def.cpp`, else the only one there is."""
    files = sorted(root.rglob("*_def.cpp"))
    exact = [f for f in files if f.name == f"{name}_def.cpp"]
    for file in exact or (files if len(files) == 1 else []):
        if (found := read_definition(file)) is not None and found.outputs:
            return found
    return None


def bind_names(case: Case, names: Sequence[str]) -> Case:
    """Give inputs the operator's names, and move attributes that name an input into that input's contents."""
    arguments: list[AnyArgument] = []
    attrs = dict(case.attrs)
    for position, argument in enumerate(case.arguments):
        name = names[position] if position < len(names) else argument.name
        if isinstance(argument, Argument):
            argument = replace(argument, name=name)
            if name in attrs and attrs[name] is not None:
                argument = _with_values(argument, attrs.pop(name))
        elif isinstance(argument, ArgumentList):
            argument = ArgumentList(name, argument.items)
        else:
            argument = Absent(name)
        arguments.append(argument)
    return replace(case, arguments=tuple(arguments), attrs=attrs)


def _with_values(argument: Argument, value: Any) -> Argument:
    flat = np.array(value).reshape(-1)
    return replace(argument, fill=Fill("values", values=tuple(flat.tolist()))) if flat.size else argument


def required_names(asset: Asset) -> list[str]:
    """The positional parameters of a golden without a default: its tensors, as far as the source tells."""
    return list(positional_names(asset.file, asset.entry, asset.is_spec, required_only=True))


def _guessed_definition(
    names: Sequence[str], lists: Collection[str] = (), attributes: Mapping[str, Any] | None = None
) -> Definition:
    kinds = ("float16", "float")
    inputs = tuple(Tensor(n, kinds, (), "DYNAMIC" if n in lists else "REQUIRED") for n in names)
    return Definition("", inputs, (Tensor("", kinds, ()),), attributes=dict(attributes or {}))


def guessed_cases(name: str, definition: Definition) -> list[Case]:
    """Small cases from an operator's definition, for each combination of element types.

    Up to four guesses per shape: all inputs alike; whole-number inputs with one element (axes, counts); all but the first
    so; lists of one number with two (paddings of both sides).
    """
    # Element types held in a C++ variable are unknown here; float32 is what nearly every operator takes.
    combinations = max((len(t.types) or 1 for t in definition.inputs), default=0)
    attrs = {k: v for k, v in definition.attributes.items() if v is not None}
    pairs = {k: v * 2 if isinstance(v, list) and len(v) == 1 else v for k, v in attrs.items()}
    cases = []
    seen: set[tuple[str, ...]] = set()
    for number in range(combinations):
        kinds = tuple(_entry(t.types, number, "float") for t in definition.inputs)
        if kinds in seen:
            continue
        seen.add(kinds)
        outputs = tuple(Output(_entry(t.types, number, "")) for t in definition.outputs)
        for shape, guess in itertools.product(GUESSED_SHAPES, ("alike", "counts", "first", "pairs")):
            if guess == "pairs" and pairs == attrs:
                continue
            if guess == "counts" and not any("int" in kind for kind in kinds[1:]):
                continue
            arguments: list[AnyArgument] = []
            for position, (tensor, kind) in enumerate(zip(definition.inputs, kinds, strict=True)):
                single = position > 0 and (guess == "first" or (guess == "counts" and "int" in kind))
                arguments.append(_guessed(tensor, kind, (1,) if single else shape))
            size = "x".join(map(str, shape))
            case_name = f"{name}_guess_{number}_{size}_{guess}"
            values = pairs if guess == "pairs" else attrs
            cases.append(Case(case_name, name, tuple(arguments), values, outputs, kind="general"))
    # The rarest last: tries are limited.
    return sorted(cases, key=lambda case: case.name.endswith("_pairs"))


def _guessed(tensor: Tensor, kind: str, shape: tuple[int, ...]) -> AnyArgument:
    # Whole numbers are most often indices or sizes: small ones are least likely to be refused.
    fill = Fill("uniform", 0, 3) if "int" in kind else Fill("uniform", 0.1, 2)
    one = Argument(tensor.name, kind, shape, fill)
    return ArgumentList(tensor.name, (one, one)) if tensor.dynamic else one


def _entry(entries: Sequence[str], number: int, otherwise: str) -> str:
    return entries[min(number, len(entries) - 1)] if entries else otherwise


class _KernelBinder:
    """Calls a kernel-mode golden: NumPy inputs in definition order, attributes and circumstances as keywords."""

    def __init__(self, asset: Asset, names: tuple[str, ...]) -> None:
        self.asset, self.names = asset, names

    def reference(self, case: Case, inputs: Sequence[Input]) -> list[Array]:
        function = self.asset.golden()
        with np.errstate(all="ignore"):
            return outputs_of(function(*_own(inputs), **{**circumstances(case), **case.attrs}))

    def prepare(self, case: Case, inputs: Sequence[Input]) -> Sequence[Input]:
        function = self.asset.preparation()
        if function is None:
            return inputs
        made = function(*_own(inputs), **{**circumstances(case), **case.attrs})
        return list(made) if isinstance(made, tuple | list) else [made]


class _AclnnBinder:
    """Calls an aclnn- or e2e-mode golden: torch tensors, everything in the order of the aclnn header where there is one."""

    def __init__(self, asset: Asset, parameters: tuple[AclnnParameter, ...]) -> None:
        self.asset, self.parameters = asset, parameters

    def reference(self, case: Case, inputs: Sequence[Input]) -> list[Array]:
        positional, keywords = self._call(case, inputs)
        return outputs_of(self.asset.golden()(*positional, **keywords))

    def prepare(self, case: Case, inputs: Sequence[Input]) -> Sequence[Input]:
        function = self.asset.preparation()
        if function is None:
            return inputs
        positional, keywords = self._call(case, inputs)
        made = function(*positional, **keywords)
        arrays = [None if m is None else outputs_of(m) for m in (made if isinstance(made, tuple | list) else [made])]
        return [a[0] if a and len(a) == 1 else a for a in arrays][: len(inputs)]

    def _call(self, case: Case, inputs: Sequence[Input]) -> tuple[list[Any], dict[str, Any]]:
        count = int(case.extra.get("tensors", len(inputs)))
        tensors = [_torch_of(value) for value in inputs[:count]]
        scalars = [value.item() for value in inputs[count:] if isinstance(value, np.ndarray)]
        attrs = dict(case.attrs)
        names = [p.name for p in self.parameters] or list(
            positional_names(self.asset.file, self.asset.entry, self.asset.is_spec)
        )
        kinds = {p.name: p.kind for p in self.parameters}
        results = [_empty(output) for output in case.outputs]
        required = set(required_names(self.asset))
        positional: list[Any] = []
        for name in names:
            kind = kinds.get(name, "")
            if kind == "output":
                # Most goldens ignore their result tensors; some ask them for shape and type.
                positional.append(results.pop(0) if results else None)
                continue
            if name in attrs and (kind in ("scalar", "value", "") or not tensors):
                positional.append(attrs.pop(name))
            elif kind == "scalar" and scalars:
                positional.append(scalars.pop(0))
            elif kind in ("tensor", "tensors", "") and tensors:
                positional.append(tensors.pop(0))
            elif not kind and scalars:
                positional.append(scalars.pop(0))
            elif kind or name in required:
                positional.append(None)
            else:
                break
        return positional, {**circumstances(case), **attrs}


def _own(inputs: Sequence[Input]) -> list[Input]:
    """Copies, because goldens of in-place operators write into what they are given."""
    return [[np.array(v) for v in i] if isinstance(i, list) else None if i is None else np.array(i) for i in inputs]


def _empty(output: Output) -> Any:
    """A result tensor to be overwritten: empty, or of float32, where shape or type are not known beforehand."""
    return to_torch(np.zeros(output.shape or (0,), dtype_of(output.dtype or "float32")))


def _torch_of(value: Input) -> Any:
    if isinstance(value, list):
        return [to_torch(item) for item in value]
    return None if value is None else to_torch(value)


def circumstances(case: Case) -> dict[str, Any]:
    """The keywords that ops-test-kit adds to every golden call: shapes, formats, dtypes, chip, case name."""
    arguments = [a for a in case.arguments if isinstance(a, Argument)]
    shapes = [a.shape for a in arguments]
    dtypes = [a.dtype for a in arguments]
    results = [o.shape for o in case.outputs]
    formats = case.extra.get("input_formats", ("ND",) * len(shapes))
    result_formats = case.extra.get("output_formats", ("ND",) * len(results))
    return {
        "input_shapes": shapes,
        "input_ori_shapes": case.extra.get("input_ori_shapes", shapes),
        "input_formats": formats,
        "input_ori_formats": case.extra.get("input_ori_formats", formats),
        "input_dtypes": dtypes,
        "output_shapes": results,
        "output_ori_shapes": case.extra.get("output_ori_shapes", results),
        "output_formats": result_formats,
        "output_ori_formats": case.extra.get("output_ori_formats", result_formats),
        "output_dtypes": [o.dtype or (dtypes[0] if dtypes else "float32") for o in case.outputs],
        "tensor_dtypes": dtypes,
        "tensor_formats": case.extra.get("tensor_formats", ("ND",)),
        "scalar_dtypes": case.extra.get("scalar_dtypes", ()),
        "input_ranges": [(a.fill.low, a.fill.high) for a in arguments],
        "short_soc_version": "Ascend910B",
        "full_soc_version": "Ascend910B1",
        "testcase_name": case.name,
        "use_torch": True,
    }


def _standard_of(asset: Asset) -> Mapping[str, Mapping[str, Any]]:
    """Tolerances are read lazily: only specs that load can declare them, and a broken file must not stop the others."""
    if not asset.is_spec or "tolerance" not in asset.file.read_text(errors="replace"):
        return {}
    try:
        return asset.tolerance()
    except (FormatError, CaseError, ImportError):
        return {}


def _with_standard(case: Case, tolerance: Mapping[str, Mapping[str, Any]]) -> Case:
    dtype = case.outputs[0].dtype if case.outputs else case.tensors[0].dtype if case.tensors else ""
    entry = tolerance.get(dtype)
    if not entry or "standard" not in entry:
        return case
    limits = {k: float(v) for k, v in entry.items() if k in ("rtol", "atol") and isinstance(v, int | float) and v}
    name = str(entry["standard"])
    return replace(case, standard=ALIASES.get(name, name), limits=limits)


def operator_folders(root: Path) -> Iterator[Path]:
    """Folders below `root` that hold at least one asset file, one per operator."""
    seen: set[Path] = set()
    for asset in index([root]).values():
        folder = operator_root(asset.file, root)
        if folder not in seen:
            seen.add(folder)
            yield folder
