"""Case files: TOML with an operator's signature, generation settings and written-out cases; read and written.

    [operator]
    name = "add"
    golden = "numpy.add"                 # a NumPy or torch function, or "file.py:function"
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
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from toprope.testing.cases import Absent, AnyArgument, Argument, ArgumentList, Case, Output
from toprope.testing.data import Fill
from toprope.testing.errors import FormatError
from toprope.testing.generate import generate
from toprope.testing.signature import Attribute, Signature, Tensor


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
        raise FormatError(f"case {data['name']!r} has unknown entries {sorted(unknown)}", where=where,
                          cure=f"known: {', '.join(sorted(known))}")
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
    return Argument(name, entry["dtype"], tuple(entry["shape"]), fill_from(entry.get("fill", {})), entry.get("file", ""))


def fill_from(entry: Mapping[str, Any] | str) -> Fill:
    """A Fill from a table of its fields, or from the name of its kind alone."""
    if isinstance(entry, str):
        return Fill(kind=entry)
    unknown = set(entry) - set(Fill.__dataclass_fields__)
    if unknown:
        raise FormatError(f"a fill has no entries {sorted(unknown)}", cure=f"known: {', '.join(Fill.__dataclass_fields__)}")
    return Fill(**{k: tuple(v) if isinstance(v, Sequence) and not isinstance(v, str) else v for k, v in entry.items()})
