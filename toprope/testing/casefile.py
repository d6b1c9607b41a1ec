"""Case files: TOML with an operator's signature, generation settings and written-out cases; read and written.

[operator]
name = "add"
golden = "numpy.add"                 # a NumPy or torch function, or "file.py:function"
run = "add.cpp:add_custom"           # what is tested: a kernel, or a function like golden's; --run overrides it
blocks = 8
arguments = { length = "x.size" }    # kernel parameters that are neither inputs nor outputs by name
outputs = [{ name = "z", dtype = "same:x" }]
[[operator.inputs]]
name = "x"
dtypes = ["float16", "float32"]
shape = "*"
[[operator.inputs]]
name = "y"
dtypes = "same:x"
shape = "broadcast:x"
[generate]
count = 200
seed = 1
[[cases]]
name = "big_row"
inputs = [{ name = "x", dtype = "float16", shape = [1, 65536] }, { name = "y", dtype = "float16", shape = [1] }]
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, NotRequired, TypedDict

from toprope.inputs import fitting, numbers, reading, toml
from toprope.testing.cases import Absent, AnyArgument, Argument, ArgumentList, Case, Output
from toprope.testing.data import Fill
from toprope.testing.errors import FormatError
from toprope.testing.generate import generate
from toprope.testing.signature import Attribute, Signature, Tensor

_CURE = "docs/testing.md shows a complete case file"


def to_dict(case: Case) -> dict[str, Any]:
    """`case` as JSON- and TOML-ready data; entries that equal their default are left out."""
    result: dict[str, Any] = {"name": case.name, "operator": case.operator, "kind": case.kind}
    if case.seed:
        result["seed"] = case.seed
    result["inputs"] = [_argument_to_dict(argument) for argument in case.arguments]
    if case.outputs:
        result["outputs"] = [
            {k: list(v) if isinstance(v, tuple) else v for k, v in asdict(o).items() if v not in ("", None)}
            for o in case.outputs
        ]
    for key in ("attrs", "limits", "extra"):
        if getattr(case, key):
            result[key] = dict(getattr(case, key))
    for key in ("standard", "note"):
        if getattr(case, key):
            result[key] = getattr(case, key)
    return result


def from_dict(data: Mapping[str, Any], where: str = "") -> Case:
    """The inverse of `to_dict`. Raises FormatError naming what is missing or unknown."""
    known = {"name", "operator", "kind", "seed", "inputs", "outputs", "attrs", "limits", "extra", "standard", "note"}
    if "name" not in data or "operator" not in data:
        raise FormatError("a case needs a name and an operator", where=where)
    unknown = set(data) - known
    if unknown:
        raise FormatError(
            f"case {data['name']!r} has unknown entries {sorted(unknown)}",
            where=where,
            cure=f"known: {', '.join(sorted(known))}",
        )
    at = f"{where} case {data['name']!r}"
    fitting({k: v for k, v in data.items() if k in _Written.__annotations__}, _Written, at, _CURE, FormatError)
    numbers(data.get("seed", 0), f"{at}: seed", kind=FormatError)
    return Case(
        name=data["name"],
        operator=data["operator"],
        kind=data.get("kind", "given"),
        seed=data.get("seed", 0),
        arguments=tuple(_argument_from_dict(entry, f"{where} case {data['name']}") for entry in data.get("inputs", ())),
        attrs=data.get("attrs", {}),
        outputs=tuple(
            Output(o.get("dtype", ""), tuple(o["shape"]) if "shape" in o else None, o.get("name", ""))
            for o in data.get("outputs", ())
        ),
        standard=data.get("standard", ""),
        limits=data.get("limits", {}),
        note=data.get("note", ""),
        extra=data.get("extra", {}),
    )


def _argument_to_dict(argument: AnyArgument) -> dict[str, Any]:
    if isinstance(argument, Absent):
        return {"name": argument.name, "absent": True}
    if isinstance(argument, ArgumentList):
        return {"name": argument.name, "items": [_argument_to_dict(item) for item in argument.items]}
    result: dict[str, Any] = {"name": argument.name, "dtype": argument.dtype, "shape": list(argument.shape)}
    default = asdict(Fill())
    changed = {k: v for k, v in asdict(argument.fill).items() if v != default[k]}
    if changed:
        result["fill"] = {k: list(v) if isinstance(v, tuple) else v for k, v in changed.items()}
    if argument.file:
        result["file"] = argument.file
    return result


def _argument_from_dict(entry: Mapping[str, Any], where: str) -> AnyArgument:
    name = entry.get("name", "")
    if entry.get("absent"):
        return Absent(name)
    if "items" in entry:
        items = [_argument_from_dict(item, where) for item in entry["items"]]
        return ArgumentList(name, tuple(item for item in items if isinstance(item, Argument)))
    if "dtype" not in entry or "shape" not in entry:
        raise FormatError(f"input {name!r} needs a dtype and a shape", where=where)
    at = f"{where} input {name!r}"
    shape = fitting(entry["shape"], list[int], f"{at}: shape", _CURE, FormatError)
    numbers(shape, f"{at}: shape", kind=FormatError)
    texts = fitting([name, entry["dtype"], entry.get("file", "")], list[str], at, _CURE, FormatError)
    with reading(at, _CURE, FormatError):
        return Argument(texts[0], texts[1], tuple(shape), fill_from(entry.get("fill", {})), texts[2])


class _Written(TypedDict):
    """What a written-out case holds, beside its tensors."""

    name: str
    operator: str
    kind: NotRequired[str]
    seed: NotRequired[int]
    inputs: NotRequired[list[dict[str, Any]]]
    outputs: NotRequired[list[dict[str, Any]]]
    attrs: NotRequired[dict[str, Any]]
    limits: NotRequired[dict[str, float]]
    extra: NotRequired[dict[str, Any]]
    standard: NotRequired[str]
    note: NotRequired[str]


class _Operator(TypedDict):
    """The [operator] table."""

    name: NotRequired[str]
    golden: NotRequired[str]
    run: NotRequired[str]
    competitor: NotRequired[str]
    blocks: NotRequired[int]
    soc: NotRequired[str]
    standard: NotRequired[str]
    arguments: NotRequired[dict[str, Any]]
    outputs: NotRequired[list[dict[str, Any]]]
    inputs: NotRequired[list[dict[str, Any]]]
    attributes: NotRequired[list[dict[str, Any]]]
    sizes: NotRequired[dict[str, list[int]]]


def fill_from(entry: Mapping[str, Any] | str) -> Fill:
    """A Fill from a table of its fields, or from the name of its kind alone."""
    if isinstance(entry, str):
        return Fill(kind=entry)
    unknown = set(entry) - set(Fill.__dataclass_fields__)
    if unknown:
        raise FormatError(
            f"a fill has no entries {sorted(unknown)}", cure=f"known: {', '.join(Fill.__dataclass_fields__)}"
        )
    return fitting(dict(entry), Fill, "fill", _CURE, FormatError)


def _tuples(table: Mapping[str, Any]) -> dict[str, Any]:
    """Lists as tuples, because everything they end up in is frozen."""
    return {k: tuple(v) if isinstance(v, list) else v for k, v in table.items()}


class CaseFile:
    """A read case file: cases, signature (None when it only lists cases), name of the golden, how to run the operator."""

    def __init__(
        self, path: Path, cases: list[Case], signature: Signature | None, golden: str, settings: Mapping[str, Any]
    ) -> None:
        self.path, self.cases, self.signature, self.golden, self.settings = path, cases, signature, golden, settings


def read(path: Path) -> CaseFile:
    """Read a TOML case file; cases to be generated are generated. Raises FormatError with the entry at fault."""
    data = toml(path, _CURE, FormatError)
    with reading(path, _CURE, FormatError):
        return _case_file(path, data)


def _case_file(path: Path, data: Mapping[str, Any]) -> CaseFile:
    unknown = set(data) - {"operator", "generate", "cases"}
    if unknown:
        raise FormatError(f"unknown tables {sorted(unknown)}", where=str(path), cure="use operator, generate, cases")
    operator = data.get("operator", {})
    fitting(operator, _Operator, f"{path} [operator]", _CURE, FormatError)
    fitting([data.get("generate", {})], list[dict[str, Any]], f"{path} [generate]", _CURE, FormatError)
    fitting(data.get("cases", []), list[dict[str, Any]], f"{path} [[cases]]", _CURE, FormatError)
    signature = signature_from(operator, str(path)) if operator.get("inputs") else None
    cases = [from_dict({"operator": operator.get("name", ""), **entry}, str(path)) for entry in data.get("cases", ())]
    if signature is not None and ("generate" in data or not cases):
        settings = data.get("generate", {})
        numbers(settings, f"{path} [generate]", kind=FormatError)
        with reading(f"{path} [generate]", _CURE, FormatError):
            cases += generate(signature, **_tuples(settings))
    standard = operator.get("standard", "")
    outputs = tuple(Output(o.get("dtype", ""), None, o.get("name", "")) for o in operator.get("outputs", ()))
    cases = [
        replace(case, standard=case.standard or standard, outputs=case.outputs or _resolved(outputs, case))
        for case in cases
    ]
    settings = {k: operator[k] for k in ("run", "blocks", "soc", "arguments", "competitor") if k in operator}
    return CaseFile(path, cases, signature, operator.get("golden", ""), settings)


def _resolved(outputs: tuple[Output, ...], case: Case) -> tuple[Output, ...]:
    """Declared outputs with "same:x" replaced by the element type of input x in this case."""
    dtypes = {t.name: t.dtype for t in case.tensors}
    return tuple(replace(o, dtype=dtypes.get(o.dtype.removeprefix("same:"), o.dtype)) for o in outputs)


def signature_from(operator: Mapping[str, Any], where: str = "") -> Signature:
    """A Signature from the [operator] table."""
    inputs = []
    for entry in operator.get("inputs", ()):
        if "name" not in entry:
            raise FormatError("an input needs a name", where=where)
        changed = _tuples(entry)
        if "fill" in changed:
            changed["fill"] = fill_from(entry["fill"])
        unknown = set(changed) - set(Tensor.__dataclass_fields__)
        if unknown:
            raise FormatError(f"input {entry['name']!r} has unknown entries {sorted(unknown)}", where=where)
        if isinstance(changed.get("fill"), Fill):
            changed["fill"] = vars(changed["fill"])
        inputs.append(fitting(changed, Tensor, f"{where} input {entry['name']!r}", _CURE, FormatError))
    attributes = tuple(Attribute(a["name"], tuple(a["values"])) for a in operator.get("attributes", ()))
    return Signature(operator.get("name", "operator"), tuple(inputs), attributes, operator.get("sizes"))


def write(path: Path, cases: Iterable[Case]) -> None:
    """Write cases one by one, so that the file no longer depends on the generator."""
    blocks = ["\n".join(["[[cases]]", *(f"{k} = {_toml(v)}" for k, v in to_dict(case).items())]) for case in cases]
    path.write_text("\n\n".join(blocks) + "\n")


def _toml(value: Any) -> str:
    """`value` as TOML; None, which TOML lacks, becomes the string "None"."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str) or value is None:
        return json.dumps(str(value), ensure_ascii=False)
    if isinstance(value, int):
        return str(value)
    if isinstance(value, float):
        return repr(value) if value == value and abs(value) != float("inf") else f"{value}"
    if isinstance(value, Mapping):
        return "{ " + ", ".join(f"{json.dumps(str(k))} = {_toml(v)}" for k, v in value.items()) + " }"
    return "[" + ", ".join(_toml(v) for v in value) + "]"
