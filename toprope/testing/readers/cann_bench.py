"""cann-bench tasks: proto.yaml (signature), cases.yaml or cases.csv, golden.py (one torch function), and back again."""

from __future__ import annotations

import csv
import inspect
import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NotRequired, TypedDict

from toprope.inputs import fitting, reading
from toprope.testing.cases import Absent, AnyArgument, Argument, ArgumentList, Case, Input
from toprope.testing.data import UNIFORM, Fill
from toprope.testing.elements import Array
from toprope.testing.errors import FormatError
from toprope.testing.golden import outputs_of, to_torch
from toprope.testing.readers.literals import literal
from toprope.testing.readers.testspec import load
from toprope.testing.suite import Suite

CSV_COLUMNS = ("operator", "case_id", "input_shape", "dtype", "attrs", "value_range", "note")
_CASTS: dict[str, Callable[[str], Any]] = {
    "int": int,
    "float": float,
    "bool": lambda v: str(v).lower() in ("true", "1"),
}


def is_task(folder: Path) -> bool:
    """Whether `folder` is a task: proto.yaml with cases beside it."""
    return (folder / "proto.yaml").is_file() and any((folder / c).is_file() for c in ("cases.yaml", "cases.csv"))


def read(folder: Path) -> Suite:
    """The task in `folder`. Raises FormatError for a prototype or case table that cannot be understood."""
    proto = folder / "proto.yaml"
    operator = _yaml(proto).get("operator")
    if not isinstance(operator, Mapping) or "name" not in operator:
        raise FormatError("no operator.name", where=str(proto))
    fitting(
        {k: v for k, v in operator.items() if k in _Operator.__annotations__}, _Operator, str(proto), kind=FormatError
    )
    rows = _case_rows(folder)
    file = folder / ("cases.yaml" if (folder / "cases.yaml").is_file() else "cases.csv")
    with reading(file, "docs/testing.md says what a task holds", FormatError):
        cases = [_case(row, operator, folder) for row in rows]
    task = _Task(folder, operator)
    has_golden = (folder / "golden.py").is_file()
    name = snake(str(operator["name"]))
    return Suite(name, folder, "cann-bench", cases, task.reference if has_golden else None, None, task.prepare)


class _Operator(TypedDict):
    """What is read of a task's proto.yaml."""

    name: str
    inputs: NotRequired[list[dict[str, Any]] | None]
    attrs: NotRequired[list[dict[str, Any]] | None]


def snake(name: str) -> str:
    """cann-bench's function name for an operator: Conv3dBackpropFilter -> conv3d_backprop_filter."""
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", name).lower()


def write(folder: Path, cases: Iterable[Case]) -> None:
    """Write cases.yaml and cases.csv for kernel cases of one operator (proto.yaml and golden.py are the author's)."""
    folder.mkdir(parents=True, exist_ok=True)
    rows = [_row(number, case) for number, case in enumerate(cases, start=1)]
    # JSON is YAML: the file needs no YAML writer to be read by one.
    body = ",\n".join("  " + json.dumps(row, ensure_ascii=False) for row in rows)
    (folder / "cases.yaml").write_text('{"cases": [\n' + body + "\n]}\n")
    with (folder / "cases.csv").open("w", newline="") as file:
        writer = csv.DictWriter(file, CSV_COLUMNS)
        writer.writeheader()
        for row in rows:
            writer.writerow({k: v if isinstance(v, str | int) else json.dumps(v) for k, v in row.items()})


def _row(number: int, case: Case) -> dict[str, Any]:
    def each(argument: AnyArgument, pick: Any) -> Any:
        if isinstance(argument, Absent):
            return None
        return [pick(i) for i in argument.items] if isinstance(argument, ArgumentList) else pick(argument)

    operator = "".join(word.capitalize() for word in case.operator.split("_"))
    return {
        "operator": operator,
        "case_id": number,
        "input_shape": [each(a, lambda i: list(i.shape)) for a in case.arguments],
        "dtype": [each(a, lambda i: i.dtype) for a in case.arguments],
        "attrs": dict(case.attrs),
        "value_range": [each(a, lambda i: [i.fill.low, i.fill.high]) for a in case.arguments],
        "note": case.note or case.name,
    }


def _yaml(path: Path) -> dict[str, Any]:
    # PyYAML belongs to the optional extra "testing"; only this format needs it.
    try:
        import yaml
    except ImportError as error:
        raise FormatError("YAML files need PyYAML", where=str(path), cure="pip install toprope[testing]") from error
    try:
        # The C loader reads a task's cases several times faster; not every build of PyYAML has it.
        with reading(path, kind=FormatError):
            found = yaml.load(path.read_text(encoding="utf-8"), Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))
    except yaml.YAMLError as error:
        raise FormatError(f"not YAML: {str(error).splitlines()[0]}", where=str(path)) from error
    return found if isinstance(found, dict) else {}


def _case_rows(folder: Path) -> list[Mapping[str, Any]]:
    listed = folder / "cases.yaml"
    if listed.is_file():
        found = _yaml(listed).get("cases", [])
        rows = fitting(found, list[dict[str, Any]], f"{listed}: cases", kind=FormatError)
        if not rows:
            raise FormatError("no cases", where=str(listed), cure="docs/testing.md says what a task holds")
        return [*rows]
    table = folder / "cases.csv"
    with table.open(newline="", encoding="utf-8-sig") as file:
        return [{k: _csv_cell(k, v, table) for k, v in row.items() if k} for row in csv.DictReader(file)]


def _csv_cell(key: str, text: str | None, table: Path) -> Any:
    if key in ("operator", "note") or text is None:
        return text
    try:
        return json.loads(text)
    except json.JSONDecodeError:
        return literal(text, f"{table}, column {key}")


def _case(row: Mapping[str, Any], operator: Mapping[str, Any], folder: Path) -> Case:
    where = f"{folder.name} case {row.get('case_id', '?')}"
    shapes = row.get("input_shape")
    if not isinstance(shapes, Sequence):
        raise FormatError("input_shape is no list", where=where)
    names = [str(entry.get("name", f"x{i}")) for i, entry in enumerate(operator.get("inputs") or ())]
    dtypes = row.get("dtype") or ["float32"]
    dtypes = [dtypes] if isinstance(dtypes, str) else list(dtypes)
    arguments: list[AnyArgument] = []
    for position, shape in enumerate(shapes):
        name = names[position] if position < len(names) else f"x{position}"
        dtype = dtypes[min(position, len(dtypes) - 1)]
        span = _range_of(row.get("value_range"), position, len(shapes))
        arguments.append(_argument(name, shape, dtype, span))
    attrs = _attrs(row.get("attrs") or {}, operator)
    name = f"{snake(str(operator['name']))}_{row.get('case_id', len(names))}"
    return Case(name, snake(str(operator["name"])), tuple(arguments), attrs, note=str(row.get("note") or ""))


def _argument(name: str, shape: Any, dtype: Any, span: Any) -> AnyArgument:
    if shape is None or dtype in (None, "null"):
        return Absent(name)
    if shape and isinstance(shape[0], Sequence) and not isinstance(shape[0], str):
        kinds = dtype if isinstance(dtype, list) else [dtype] * len(shape)
        items = [
            Argument(f"{name}_{i}", str(k), tuple(s), _fill(span))
            for i, (s, k) in enumerate(zip(shape, kinds, strict=False))
        ]
        return ArgumentList(name, tuple(items))
    kind = dtype[0] if isinstance(dtype, list) else dtype
    return Argument(name, str(kind), tuple(int(s) for s in shape), _fill(span))


def _range_of(ranges: Any, position: int, count: int) -> Any:
    if not isinstance(ranges, Sequence) or not ranges or isinstance(ranges, str):
        return ranges
    if isinstance(ranges[0], Sequence) or ranges[0] is None or len(ranges) != 2:
        return ranges[position] if position < len(ranges) else ranges[-1]
    return ranges


def _fill(span: Any) -> Fill:
    """[low, high], one number, or a word for special contents."""
    if isinstance(span, Sequence) and not isinstance(span, str) and len(span) == 2:
        if isinstance(span[0], Sequence) and not isinstance(span[0], str):
            return _fill(span[0])
        low, high = _bound(span[0]), _bound(span[1])
        if low is not None and high is not None:
            return Fill("uniform", low, high)
    number = _bound(span)
    return UNIFORM if number is None else Fill("constant", number, number)


def _bound(value: Any) -> float | None:
    try:
        return float(value)
    except (TypeError, ValueError):
        return None


def _attrs(given: Mapping[str, Any], operator: Mapping[str, Any]) -> dict[str, Any]:
    """Attributes with the types of the prototype: tables write 1e-5 as text."""
    types = {str(a.get("name")): str(a.get("type", "")) for a in operator.get("attrs") or () if isinstance(a, Mapping)}
    result = dict(given)
    for name, value in given.items():
        cast = _CASTS.get(types.get(name, ""))
        if cast is not None and isinstance(value, str):
            try:
                result[name] = cast(value)
            except ValueError:
                result[name] = value
    return result


class _Task:
    """golden.py of a task, loaded when the first case needs it."""

    def __init__(self, folder: Path, operator: Mapping[str, Any]) -> None:
        self.file, self.name = folder / "golden.py", snake(str(operator["name"]))
        self.folder_name = folder.name

    def reference(self, case: Case, inputs: Sequence[Input]) -> list[Array]:
        module = load(self.file)
        function = getattr(module, self.folder_name, None) or getattr(module, self.name, None) or _only_function(module)
        if function is None:
            raise FormatError(f"no function {self.name!r}", where=str(self.file))
        return outputs_of(_call(function, case, inputs))

    def prepare(self, case: Case, inputs: Sequence[Input]) -> Sequence[Input]:
        function = getattr(load(self.file), "get_input", None) if self.file.is_file() else None
        if function is None:
            return inputs
        made = _call(function, case, inputs)
        made = list(made.values()) if isinstance(made, Mapping) else made if isinstance(made, list | tuple) else [made]
        return [
            None if m is None else [*outputs_of(m)] if isinstance(m, list | tuple) else outputs_of(m)[0] for m in made
        ]


def _call(function: Any, case: Case, inputs: Sequence[Input]) -> Any:
    """Tensors and attributes by name where the function has those names, tensors by position otherwise."""
    tensors = [_tensor(value) for value in inputs]
    parameters = inspect.signature(function).parameters
    names = [a.name for a in case.arguments]
    takes_all = any(p.kind is p.VAR_KEYWORD for p in parameters.values())
    attrs = {k: v for k, v in case.attrs.items() if takes_all or k in parameters}
    if all(n in parameters for n in names):
        return function(**dict(zip(names, tensors, strict=False)), **attrs)
    positional = list(parameters)[: len(tensors)]
    return function(*tensors, **{k: v for k, v in attrs.items() if k not in positional})


def _tensor(value: Input) -> Any:
    if isinstance(value, list):
        return [to_torch(item) for item in value]
    return None if value is None else to_torch(value)


def _only_function(module: Any) -> Any:
    """The single public function of a golden whose name follows another convention."""
    found = [
        f
        for n, f in vars(module).items()
        if inspect.isfunction(f) and not n.startswith("_") and n != "get_input" and f.__module__ == module.__name__
    ]
    return found[-1] if found else None
