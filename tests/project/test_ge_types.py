"""Element types and formats have their numbers in three places: the enumerations, their names in C++, and their names in Python."""

from __future__ import annotations

import re

from toprope.project.ge_types import GE_TYPES, format_name, format_number
from toprope.vendor_paths import INCLUDE

GRAPH = INCLUDE / "host" / "graph"


def enumerators(kind: str) -> dict[str, int]:
    """Name to number, of an enumeration of graph/types.h."""
    body = re.search(rf"enum {kind} \{{(.*?)\}};", (GRAPH / "types.h").read_text(), re.S)
    assert body is not None
    numbers: dict[str, int] = {}
    for name, number in re.findall(r"^\s*(\w+)(?:\s*=\s*(\w+))?", re.sub(r"//.*", "", body[1]), re.M):
        value = numbers[number] if number in numbers else int(number, 0) if number else len(numbers)
        numbers[name] = value
    return numbers


def named_in_cpp(function: str) -> dict[str, int]:
    """Name to number, of a table of graph/utils/type_utils.h."""
    text = (GRAPH / "utils" / "type_utils.h").read_text()
    table = re.search(rf"& {function}\(\).*?names\[\] = \{{(.*?)\}};", text, re.S)
    assert table is not None
    return {name: number for number, name in enumerate(re.findall(r'"(\w*)"', table[1])) if name}


def test_element_types_agree() -> None:
    python = {t.name: t.number for t in GE_TYPES.values()}
    assert len(python) > 40
    assert named_in_cpp("data_types") == python
    declared = {n.removeprefix("DT_"): v for n, v in enumerators("DataType").items() if n != "DT_MAX"}
    assert declared == python


def test_formats_agree() -> None:
    cpp = named_in_cpp("formats")
    assert len(cpp) > 50
    assert {format_name(number): number for number in cpp.values()} == cpp
    declared = {n.removeprefix("FORMAT_"): v for n, v in enumerators("Format").items()}
    assert {name: declared[name] for name in cpp} == cpp
    assert all(format_number(f"FORMAT_{name}") == number for name, number in cpp.items())
