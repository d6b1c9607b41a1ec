"""Shapes and attributes out of an operator's host unit tests (gtest): they call it with inputs that are known to be valid.

Reads the arguments of TilingContextPara / InfershapeContextPara: a list of {{{sizes}, {sizes}}, ge::DT_X, ge::FORMAT_Y}
for the inputs, one for the outputs, and ("name", ...CreateFrom<type>(value)) for the attributes.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from toprope.project.definition import Definition
from toprope.testing.cases import AnyArgument, Argument, ArgumentList, Case, Output
from toprope.testing.data import Fill

MAX_ELEMENTS = 1 << 20
_START = re.compile(r"(?:Tiling|Infershape)ContextPara\s+\w+\s*\(\s*\"(\w+)\"\s*,")
_TENSOR = re.compile(
    r"\{\s*\{\s*\{([-\d,\s]*)\}\s*,\s*\{[-\d,\s]*\}\s*\}\s*,\s*ge::DT_(\w+)\s*,\s*ge::\w+\s*(?:,\s*true\s*,\s*&?(\w+))?"
)
_ATTRIBUTE = re.compile(r"\"(\w+)\"\s*,\s*[\w:]*CreateFrom<([^()]*)>\s*\(\s*(\{[^}]*\}|[^()]*)\)")
_CONSTANT = re.compile(r"\b(\w+)\s*(?:\[\w*\])?\s*=\s*\{?\s*(-?[\d.]+[fF]?(?:\s*,\s*-?[\d.]+[fF]?)*)\s*\}?\s*;")


def read(root: Path, name: str, definition: Definition | None) -> list[Case]:
    """Cases of operator `name` from the unit tests below `root`, smallest first, each shape and attribute set once."""
    found: dict[str, Case] = {}
    for file in sorted((root / "tests").rglob("*.cpp")):
        text = file.read_text(errors="replace")
        constants = {n: v for n, v in _CONSTANT.findall(text)}
        for operator, arguments in _calls(text):
            if operator.lower() != name.replace("_", "").lower() or len(arguments) < 2:
                continue
            case = _case(name, arguments, constants, definition)
            if case is not None and 0 < case.elements <= MAX_ELEMENTS:
                found.setdefault(repr((case.arguments, case.attrs)), case)
    ordered = sorted(found.values(), key=lambda case: case.elements)
    return [
        Case(f"{name}_unit_{i}", name, c.arguments, c.attrs, c.outputs, kind="general") for i, c in enumerate(ordered)
    ]


def _calls(text: str) -> Iterator[tuple[str, list[str]]]:
    """(operator, remaining top-level arguments) of every context constructed in `text`."""
    for match in _START.finditer(text):
        depth, start, pieces = 0, match.end(), []
        for position in range(match.end(), min(len(text), match.end() + 20_000)):
            letter = text[position]
            if letter in "{(":
                depth += 1
            elif letter in "})":
                if depth == 0:
                    pieces.append(text[start:position])
                    break
                depth -= 1
            elif letter == "," and depth == 0:
                pieces.append(text[start:position])
                start = position + 1
        yield match[1], pieces


def _case(name: str, arguments: Sequence[str], constants: dict[str, str], definition: Definition | None) -> Case | None:
    tensors = _TENSOR.findall(arguments[0])
    if not tensors:
        return None
    declared = definition.inputs if definition else ()
    made: list[AnyArgument] = []
    for position, (sizes, dtype, pointer) in enumerate(tensors):
        shape = _sizes(sizes)
        if shape is None:
            return None
        known = declared[position] if position < len(declared) else None
        label = known.name if known else f"x{position}"
        one = Argument(label, dtype.lower(), shape, _fill(dtype.lower(), shape, constants.get(pointer, "")))
        made.append(ArgumentList(label, (one,)) if known and known.dynamic and len(tensors) <= len(declared) else one)
    attrs = dict(definition.attributes) if definition else {}
    for text in arguments[1:]:
        attrs |= {n: _value(kind, value) for n, kind, value in _ATTRIBUTE.findall(text)}
    results = tuple(Output(dtype.lower(), _sizes(sizes)) for sizes, dtype, _ in _TENSOR.findall(arguments[1]))
    return Case("", name, tuple(made), {k: v for k, v in attrs.items() if v is not None}, results)


def _sizes(text: str) -> tuple[int, ...] | None:
    """The sizes of a known shape; None for one with dynamic sizes."""
    sizes = tuple(int(size) for size in text.split(",") if size.strip())
    return None if any(size < 0 for size in sizes) else sizes


def _fill(dtype: str, shape: tuple[int, ...], constant: str) -> Fill:
    values = tuple(float(v.rstrip("fF")) for v in constant.split(",") if v.strip())
    if values and len(values) == int(np.prod(shape, dtype=np.int64)):
        return Fill("values", values=values)
    return Fill("uniform", 0, 1) if "int" in dtype else Fill("uniform", 0.1, 1)


def _value(kind: str, text: str) -> Any:
    """A C++ constant as Python, by the type in CreateFrom<...>."""
    words = [w.strip() for w in text.strip("{} \n").split(",") if w.strip()]
    if "bool" in kind:
        made: list[Any] = [w == "true" for w in words]
    elif "string" in kind:
        made = [w.strip('"') for w in words] or [""]
    else:
        try:
            made = [float(w.rstrip("fF")) if "float" in kind else int(w.rstrip("lLuU")) for w in words]
        except ValueError:
            return None
    return made if "vector" in kind else made[0] if made else None
