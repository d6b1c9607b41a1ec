"""ops-test-kit tables (CSV or xlsx): kernel, aclnn and e2e rows as cases, and cases written back as kernel rows.

Column meanings: ops-test-kit, docs/Operator_Test_Guides/*_Case_Writing.md and docs/Test_Case_Generation.md.
"""

from __future__ import annotations

import csv
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from toprope.inputs import reading
from toprope.testing.cases import Absent, AnyArgument, Argument, ArgumentList, Case, Output
from toprope.testing.data import UNIFORM, Fill
from toprope.testing.errors import FormatError
from toprope.testing.readers.literals import literal

DEFAULT_RANGE = (UNIFORM.low, UNIFORM.high)
_NAMES = "testcase_name"
_TEXT = (
    "testcase_name",
    "network_name",
    "op_name",
    "api_name",
    "remark",
    "soc_series",
    "dump_file_prefix",
    "golden_api",
)
_LITERAL = (
    *("input_shapes", "input_dtypes", "output_shapes", "output_dtypes", "attributes", "input_data_ranges"),
    *("tensor_view_shapes", "tensor_dtypes", "output_tensor_indexes", "scalar_dtypes", "scalar_data_ranges"),
)

_OLD_NAMES = {
    "stc_inputs": "input_shapes",
    "stc_ori_inputs": "input_ori_shapes",
    "stc_outputs": "output_shapes",
    "stc_ori_outputs": "output_ori_shapes",
    "stc_input_dtypes": "input_dtypes",
    "stc_input_formats": "input_formats",
    "other_runtime_params": "attributes",
}
"""Columns of tables from before static and dynamic shapes shared one set."""

KERNEL_COLUMNS = (
    "testcase_name",
    "op_name",
    "input_shapes",
    "input_dtypes",
    "input_formats",
    "output_shapes",
    "output_dtypes",
    "output_formats",
    "attributes",
    "input_data_ranges",
    "is_enabled",
    "remark",
)


def is_table(path: Path) -> bool:
    """Whether the first line of a CSV or the first row of an xlsx carries ops-test-kit's columns."""
    if path.suffix == ".csv":
        with path.open(encoding="utf-8-sig", errors="replace") as file:
            return _NAMES in file.readline()
    return path.suffix == ".xlsx" and any(_NAMES in map(str, rows[0]) for _, rows in _sheets(path) if rows)


def read(path: Path) -> tuple[list[Case], list[str]]:
    """All cases of a table, and complaints about rows that are not understood (with file and row)."""
    cases, problems = [], []
    for where, row in _rows(path):
        try:
            with reading(where, "docs/testing.md says what a table holds", FormatError):
                cases.append(case_from_row(row, where))
        except FormatError as error:
            problems.append(str(error))
    return cases, problems


def case_from_row(row: Mapping[str, str], where: str = "") -> Case:
    """One case from one row; cells are Python literals in text form."""
    row = {_OLD_NAMES.get(key, key): value for key, value in row.items() if key}
    cells = {key: _cell(key, value, where) for key, value in row.items() if key and value not in (None, "")}
    name = str(cells.get(_NAMES, "")) or where
    if "op_name" in cells and "api_name" not in cells:
        return _kernel_case(name, cells, where)
    if "api_name" not in cells:
        raise FormatError("a row needs op_name or api_name", where=where)
    return _api_case(name, cells, where)


def write(path: Path, cases: Iterable[Case]) -> None:
    """Write cases as a kernel-mode CSV. Fills without a counterpart there become their value range."""
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, KERNEL_COLUMNS)
        writer.writeheader()
        for case in cases:
            writer.writerow(_kernel_row(case))


def _cell(key: str, text: str, where: str) -> Any:
    if key in _TEXT:
        return text.strip()
    if key in _LITERAL:
        return literal(text, f"{where}, column {key}")
    try:
        return literal(text)
    except FormatError:
        # Result files repeat the table and add columns of their own; they are kept as they are.
        return text


def _rows(path: Path) -> Iterator[tuple[str, dict[str, str]]]:
    if path.suffix == ".csv":
        # Cells of foreach operators list dozens of shapes; the csv module's default limit is too low for some.
        csv.field_size_limit(min(sys.maxsize, 2**31 - 1))
        with path.open(newline="", encoding="utf-8-sig", errors="replace") as file:
            for row in csv.DictReader(file):
                if any(row.values()):
                    yield f"{path}:{row.get(_NAMES) or '?'}", {k: v for k, v in row.items() if isinstance(v, str)}
        return
    for sheet, rows in _sheets(path):
        header = [str(cell) for cell in rows[0]] if rows else []
        for number, cells in enumerate(rows[1:], start=2):
            row = {h: str(c) for h, c in zip(header, cells, strict=False) if c is not None}
            if row and _NAMES in header:
                yield f"{path}[{sheet}]:{number}", row


def _sheets(path: Path) -> list[tuple[str, list[tuple[Any, ...]]]]:
    # openpyxl belongs to the optional extra "testing"; only xlsx files need it.
    try:
        import openpyxl
    except ImportError as error:
        raise FormatError("xlsx tables need openpyxl", where=str(path), cure="pip install toprope[testing]") from error
    book = openpyxl.load_workbook(path, read_only=True, data_only=True)
    return [(sheet.title, [tuple(r) for r in sheet.iter_rows(values_only=True)]) for sheet in book.worksheets]


def _kernel_case(name: str, cells: Mapping[str, Any], where: str) -> Case:
    if "input_shapes" not in cells:
        raise FormatError("a kernel row needs input_shapes", where=where)
    arguments = _arguments(cells["input_shapes"], cells.get("input_dtypes", ()), cells.get("input_data_ranges"), where)
    shapes = _tuple(cells.get("output_shapes") or ())
    dtypes = _spread(cells.get("output_dtypes") or ("",), len(shapes))
    outputs = tuple(o for s, d in zip(shapes, dtypes, strict=False) for o in _outputs(s, d))
    return Case(
        name, str(cells["op_name"]), arguments, _attributes(cells), outputs, extra=_extra(cells), note=_note(cells)
    )


def _api_case(name: str, cells: Mapping[str, Any], where: str) -> Case:
    tensors = list(_tuple(cells.get("tensor_view_shapes") or cells.get("input_shapes") or ()))
    dtypes = _spread(cells.get("tensor_dtypes") or cells.get("input_dtypes") or ("float32",), len(tensors))
    ranges = _spread(cells.get("input_data_ranges") or (DEFAULT_RANGE,), len(tensors))
    results = set(_tuple(cells.get("output_tensor_indexes") or ())) if tensors else set()
    kept = [i for i in range(len(tensors)) if i not in results]
    arguments = _arguments([tensors[i] for i in kept], [dtypes[i] for i in kept], [ranges[i] for i in kept], where)
    outputs = tuple(o for i in sorted(results) if i < len(tensors) for o in _outputs(tensors[i], dtypes[i]))
    scalars = _tuple(cells.get("scalar_dtypes") or ())
    spans = _spread(cells.get("scalar_data_ranges") or (DEFAULT_RANGE,), len(scalars))
    scalar_arguments = tuple(
        Argument(f"scalar{i}", str(d), (), _fill(r))
        for i, (d, r) in enumerate(zip(scalars, spans, strict=False))
        if isinstance(d, str)
    )
    extra = {**_extra(cells), "tensors": len(arguments)}
    operator = str(cells["api_name"])
    return Case(
        name, operator, arguments + scalar_arguments, _attributes(cells), outputs, extra=extra, note=_note(cells)
    )


def _tensor(name: str, dtype: str, shape: tuple[int, ...], fill: Fill) -> Argument:
    """An input; one of bits (uint1) is held as bytes, eight neighbours of the last axis in one."""
    if dtype == "uint1" and shape and shape[-1] % 8 == 0:
        return Argument(name, "uint8", (*shape[:-1], shape[-1] // 8), Fill("bits"))
    return Argument(name, dtype, shape, fill)


def _arguments(shapes: Any, dtypes: Any, ranges: Any, where: str) -> tuple[AnyArgument, ...]:
    shapes = _tuple(shapes)
    if shapes and all(isinstance(s, int) for s in shapes):
        shapes = (shapes,)
    kinds, spans = _spread(dtypes or ("float32",), len(shapes)), _spread(ranges or (DEFAULT_RANGE,), len(shapes))
    result: list[AnyArgument] = []
    for position, (shape, dtype, span) in enumerate(zip(shapes, kinds, spans, strict=False)):
        name = f"x{position}"
        if shape is None:
            result.append(Absent(name))
        elif _is_list_of_shapes(shape):
            items = _spread(dtype, len(shape)) if isinstance(dtype, list | tuple) else [dtype] * len(shape)
            parts = _spread(span, len(shape)) if _is_list_of_ranges(span) else [span] * len(shape)
            result.append(
                ArgumentList(
                    name,
                    tuple(
                        _tensor(f"{name}_{i}", str(d), tuple(s), _fill(r))
                        for i, (s, d, r) in enumerate(zip(shape, items, parts, strict=False))
                        if s is not None
                    ),
                )
            )
        elif dtype is None:
            result.append(Absent(name))
        else:
            if not all(isinstance(size, int) for size in shape):
                raise FormatError(f"input {position}: shape {shape} has a size that is no number", where=where)
            result.append(
                _tensor(name, str(dtype[0] if isinstance(dtype, tuple | list) else dtype), tuple(shape), _fill(span))
            )
    return tuple(result)


def _fill(span: Any) -> Fill:
    """(min, max[, values that must appear]) as a Fill."""
    if not isinstance(span, tuple | list) or not span:
        return UNIFORM
    if isinstance(span[0], tuple | list):
        return _fill(span[0])
    low = DEFAULT_RANGE[0] if span[0] is None else float(span[0])
    high = DEFAULT_RANGE[1] if len(span) < 2 or span[1] is None else float(span[1])
    planted = [v for extra in span[2:] for v in (extra if isinstance(extra, tuple | list) else (extra,))]
    return Fill("uniform", low, high, values=tuple(float(v) for v in planted if isinstance(v, int | float)))


def _outputs(shape: Any, dtype: Any) -> list[Output]:
    if shape is None:
        return []
    if _is_list_of_shapes(shape):
        kinds = _spread(dtype, len(shape)) if isinstance(dtype, list | tuple) else [dtype] * len(shape)
        return [o for s, d in zip(shape, kinds, strict=False) for o in _outputs(s, d)]
    known = isinstance(shape, tuple | list) and all(isinstance(size, int) and size >= 0 for size in shape)
    return [Output(str(dtype or ""), tuple(shape) if known else None)]


def _attributes(cells: Mapping[str, Any]) -> dict[str, Any]:
    found = cells.get("attributes") or {}
    return {str(k): v for k, v in found.items()} if isinstance(found, Mapping) else {}


def _extra(cells: Mapping[str, Any]) -> dict[str, Any]:
    """Columns that other parts may ask for: formats, original shapes, legacy tolerances, batch consistency."""
    used = {"testcase_name", "op_name", "input_shapes", "input_dtypes", "input_data_ranges", "attributes", "remark"}
    return {k: v for k, v in cells.items() if k not in used and v not in ((), None, "")}


def _note(cells: Mapping[str, Any]) -> str:
    return str(cells.get("remark", ""))


def _tuple(value: Any) -> tuple[Any, ...]:
    return tuple(value) if isinstance(value, tuple | list) else (value,)


def _spread(value: Any, count: int) -> list[Any]:
    """A value per input: one entry serves all, too short lists repeat their last entry."""
    entries = list(value) if isinstance(value, tuple | list) else [value]
    if entries and not isinstance(entries[0], tuple | list | str) and entries[0] is not None:
        entries = [tuple(entries)]
    return entries + entries[-1:] * (count - len(entries)) if entries else [None] * count


def _is_list_of_shapes(shape: Any) -> bool:
    return (
        isinstance(shape, tuple | list) and bool(shape) and any(isinstance(s, tuple | list) or s is None for s in shape)
    )


def _is_list_of_ranges(span: Any) -> bool:
    return isinstance(span, tuple | list) and bool(span) and isinstance(span[0], tuple | list)


def _kernel_row(case: Case) -> dict[str, str]:
    def each(pick: Any, argument: AnyArgument) -> Any:
        if isinstance(argument, Absent):
            return None
        return tuple(pick(i) for i in argument.items) if isinstance(argument, ArgumentList) else pick(argument)

    def column(pick: Any) -> str:
        return repr(tuple(each(pick, argument) for argument in case.arguments))

    def span(item: Argument) -> tuple[Any, ...]:
        fill = item.fill
        return (fill.low, fill.high, fill.values) if fill.values else (fill.low, fill.high)

    return {
        "testcase_name": case.name,
        "op_name": case.operator,
        "input_shapes": column(lambda i: i.shape),
        "input_dtypes": column(lambda i: i.dtype),
        "input_formats": column(lambda i: "ND"),
        "output_shapes": repr(tuple(o.shape for o in case.outputs)),
        "output_dtypes": repr(tuple(o.dtype for o in case.outputs)),
        "output_formats": repr(tuple("ND" for _ in case.outputs)),
        "attributes": repr(dict(case.attrs)),
        "input_data_ranges": column(span),
        "is_enabled": "True",
        "remark": case.note,
    }


def enabled(cases: Sequence[Case]) -> list[Case]:
    """The cases whose is_enabled column is not false."""
    return [case for case in cases if case.extra.get("is_enabled", True) not in (False, 0, "False")]
