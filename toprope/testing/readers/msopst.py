"""msopst case files (JSON) and its report st_report.json: read into cases, written back, reports in the same shape.

Format: Ascend/msopgen, docs user guide, section on msopst. Lists under `type`, `format`, `data_distribute` and
`value_range` are positional across all descriptions: entry k of each belongs to combination k; length one serves all.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from toprope.inputs import fitting, json_of, reading
from toprope.testing.cases import Absent, AnyArgument, Argument, ArgumentList, Case, Input, Output
from toprope.testing.data import DISTRIBUTIONS, Fill
from toprope.testing.elements import Array
from toprope.testing.errors import FormatError
from toprope.testing.golden import outputs_of
from toprope.testing.readers.testspec import load
from toprope.testing.suite import Suite

_CURE = "docs/testing.md names the fields of a case"
_UNSET_TYPES = ("UNDEFINED", "RESERVED")


def is_case_file(path: Path) -> bool:
    """Whether a JSON file looks like msopst's: a list of cases with shapes. Operator prototypes look alike, but have none."""
    try:
        data = json.loads(path.read_text(errors="replace"))
    except ValueError:
        return False
    return isinstance(data, list) and bool(data) and all(isinstance(d, dict) and _is_case(d) for d in data)


def _is_case(entry: Mapping[str, Any]) -> bool:
    described = entry.get("input_desc")
    if not isinstance(described, list):
        return False
    return "case_name" in entry or any(isinstance(d, dict) and "shape" in d for d in described)


def read(path: Path) -> Suite:
    """All cases of a file, fuzz cases drawn. Raises FormatError naming the case at fault."""
    with reading(path, _CURE, FormatError):
        return _suite(
            path, fitting(json_of(path, _CURE, FormatError), list[dict[str, Any]], str(path), _CURE, FormatError)
        )


def _suite(path: Path, entries: Sequence[Mapping[str, Any]]) -> Suite:
    cases: list[Case] = []
    golden = ""
    for entry in entries:
        where = f"{path}, case {entry.get('case_name', '?')}"
        golden = golden or str(entry.get("calc_expect_func_file") or "")
        with reading(where, _CURE, FormatError):
            for number, concrete in enumerate(_fuzzed(entry, path.parent, where)):
                cases += _combinations(concrete, number if entry.get("fuzz_impl") else None, path.parent, where)
    operator = cases[0].operator if cases else path.stem
    reference = _Reference(golden, path.parent).outputs if golden else None
    return Suite(operator, path, "msopst", cases, reference)


def write(path: Path, cases: Iterable[Case]) -> None:
    """Write cases as an msopst file, one combination each."""
    path.write_text(json.dumps([_entry(case) for case in cases], indent=4) + "\n")


def write_report(path: Path, results: Sequence[tuple[Case, bool, str]], command: str = "") -> None:
    """Write st_report.json: per case (passed, message), and the totals."""
    rows = [
        {
            "case_name": case.name,
            "status": "success" if passed else "failed",
            "expect": case.extra.get("expect", "success"),
            "trace_detail": {
                "st_case_info": {"case_name": case.name, "op_params": _entry(case)},
                "stage_result": [
                    {"status": "success" if passed else "failed", "result": message, "stage_name": "compare"}
                ],
            },
        }
        for case, passed, message in results
    ]
    good = sum(passed for _, passed, _ in results)
    counts = {"test case count": len(rows), "success count": good, "failed count": len(rows) - good}
    path.write_text(json.dumps({"run_cmd": command, "report_list": rows, "summary": counts}, indent=4) + "\n")


def _fuzzed(entry: Mapping[str, Any], folder: Path, where: str) -> list[Mapping[str, Any]]:
    """The entry itself, or `fuzz_case_num` copies with the values that fuzz_branch() of its fuzz file returns."""
    if not entry.get("fuzz_impl"):
        return [entry]
    file, _, name = str(entry["fuzz_impl"]).partition(":")
    branch = getattr(load((folder / file).resolve()), name or "fuzz_branch", None)
    if branch is None:
        raise FormatError(f"{file} has no {name or 'fuzz_branch'}()", where=where)
    copies = []
    for _ in range(max(1, min(int(entry.get("fuzz_case_num", 1)), 2000))):
        drawn = branch()
        copy = json.loads(json.dumps(entry))
        for section in ("input_desc", "output_desc", "attr"):
            for part in copy.get(section) or ():
                part.update(drawn.get(section, {}).get(part.get("name"), {}))
        copies.append(copy)
    return copies


def _combinations(entry: Mapping[str, Any], fuzz: int | None, folder: Path, where: str) -> list[Case]:
    descriptions = [*entry.get("input_desc", ()), *entry.get("output_desc", ())]
    for description in descriptions:
        if "type" not in description:
            raise FormatError(f"description {description.get('name', '?')!r} has no type", where=where)
    count = max((len(_list(d.get(key))) for d in descriptions for key in ("type", "format") if d.get(key)), default=1)
    cases = []
    for k in range(count):
        names = [str(entry.get("case_name", "case"))]
        names += [f"fuzz_case_{fuzz + 1:03d}"] if fuzz is not None else []
        names += [f"case_{k + 1:03d}"] if count > 1 else []
        inputs = entry.get("input_desc") or ()
        cases.append(
            Case(
                "_".join(names),
                str(entry.get("op", "")),
                tuple(_argument(d, i, k, folder, where) for i, d in enumerate(inputs)),
                {a["name"]: a.get("value") for a in entry.get("attr") or () if a.get("value") is not None},
                tuple(_output(d, k) for d in entry.get("output_desc") or ()),
                standard="msopst",
                extra={"expect": _at(entry.get("expect", "success"), k), "attr_types": _attr_types(entry)},
            )
        )
    return cases


def _argument(description: Mapping[str, Any], position: int, k: int, folder: Path, where: str) -> AnyArgument:
    name = str(description.get("name") or f"x{position + 1}")
    dtype = str(_at(description["type"], k))
    shape = _shape(description, where)
    if dtype in _UNSET_TYPES or shape is None:
        return Absent(name)
    value = description.get("value")
    if isinstance(value, str):
        return Argument(name, dtype, shape, file=str(folder / value))
    if value is not None:
        flat = np.array(value).reshape(-1).tolist()
        return Argument(name, dtype, shape, Fill("values", values=tuple(flat)))
    kind = str(_at(description.get("data_distribute") or "uniform", k))
    if kind not in DISTRIBUTIONS:
        raise FormatError(f"distribution {kind!r} is unknown", where=where, cure=f"use {', '.join(DISTRIBUTIONS)}")
    span = description.get("value_range") or [0.1, 1.0]
    low, high = _at(span, k) if isinstance(span[0], list) else span
    return Argument(name, dtype, shape, Fill(kind, float(low), float(high)))


def _shape(description: Mapping[str, Any], where: str) -> tuple[int, ...] | None:
    shape = description.get("shape")
    if shape is None:
        return None
    if isinstance(shape, str):
        raise FormatError(
            f"shape {shape!r} of {description.get('name')!r} is left to fuzzing, but fuzz_branch gave none", where=where
        )
    if any(size < 0 for size in shape):
        typical = description.get("typical_shape")
        if not typical:
            raise FormatError(f"dynamic shape {shape} needs typical_shape", where=where)
        shape = typical
    return tuple(int(size) for size in shape)


def _output(description: Mapping[str, Any], k: int) -> Output:
    shape = description.get("shape")
    if isinstance(shape, list) and any(size < 0 for size in shape):
        shape = description.get("typical_shape")
    known = tuple(shape) if isinstance(shape, list) else None
    return Output(str(_at(description["type"], k)), known, str(description.get("name") or ""))


def _attr_types(entry: Mapping[str, Any]) -> dict[str, str]:
    return {a["name"]: a.get("type", "") for a in entry.get("attr") or ()}


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


def _at(value: Any, k: int) -> Any:
    entries = _list(value)
    return entries[k] if k < len(entries) else entries[-1]


def _entry(case: Case) -> dict[str, Any]:
    types = case.extra.get("attr_types", {})
    inputs: list[dict[str, Any]] = []
    for argument in case.arguments:
        if isinstance(argument, Absent):
            inputs.append({"format": ["ND"], "type": [_UNSET_TYPES[0]], "shape": [], "name": argument.name})
        else:
            items = argument.items if isinstance(argument, ArgumentList) else (argument,)
            inputs += [_described(item) for item in items]
    return {
        "case_name": case.name,
        "op": case.operator,
        "input_desc": inputs,
        "output_desc": [
            {"format": ["ND"], "type": [o.dtype], "shape": list(o.shape or ()), "name": o.name} for o in case.outputs
        ],
        "attr": [{"name": n, "type": types.get(n) or _attr_type(v), "value": v} for n, v in case.attrs.items()],
    }


def _described(item: Argument) -> dict[str, Any]:
    result: dict[str, Any] = {"format": ["ND"], "type": [item.dtype], "shape": list(item.shape), "name": item.name}
    if item.file:
        result["value"] = item.file
    elif item.fill.kind == "values":
        result["value"] = list(item.fill.values)
    else:
        result["data_distribute"] = [item.fill.kind if item.fill.kind in DISTRIBUTIONS else "uniform"]
        result["value_range"] = [[item.fill.low, item.fill.high]]
    return result


def _attr_type(value: Any) -> str:
    if isinstance(value, list | tuple):
        return "list_" + (_attr_type(value[0]) if value else "int")
    return {bool: "bool", int: "int", float: "float"}.get(type(value), "string")


class _Reference:
    """calc_expect_func_file "path.py:function": called with one dict per description (value, shape, type) and the attributes."""

    def __init__(self, text: str, folder: Path) -> None:
        file, _, self.name = text.rpartition(":")
        self.file = (folder / (file or text)).resolve()
        self.name = self.name if file else "calc_expect_func"

    def outputs(self, case: Case, inputs: Sequence[Input]) -> list[Array]:
        function = getattr(load(self.file), self.name, None)
        if function is None:
            raise FormatError(f"no function {self.name!r}", where=str(self.file))
        described: dict[str, Any] = {}
        for argument, value in zip(case.arguments, inputs, strict=True):
            if isinstance(argument, Argument) and isinstance(value, np.ndarray):
                described[argument.name] = {
                    "value": value,
                    "shape": list(value.shape),
                    "type": argument.dtype,
                    "format": "ND",
                }
        for output in case.outputs:
            described[output.name] = {"shape": list(output.shape or ()), "type": output.dtype, "format": "ND"}
        return outputs_of(function(**described, **case.attrs))
