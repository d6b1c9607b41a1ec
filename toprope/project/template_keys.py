"""Template tiling keys: the parameters that a kernel's header declares and the combinations that it allows.

Rules from the reference documentation's pages on tiling template programming: the key is the fields side by side from bit 0, in the
order of declaration; an unsigned field holds the index of its value in the declared list, a bool its value, a dtype or format its number.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType

from toprope import brackets
from toprope.cpp import read
from toprope.project.definition import CPP_TYPES, Definition

_MODES = ("ASCENDC_TPL_UI_LIST", "ASCENDC_TPL_UI_RANGE", "ASCENDC_TPL_UI_MIX")


@dataclass(frozen=True)
class Choice:
    """One parameter with its values as written; `kind` is UINT, BOOL, DTYPE, DATATYPE, FORMAT or KERNEL_TYPE."""

    kind: str
    name: str
    values: tuple[str, ...]
    bits: int = 0


def declared(text: str) -> list[Choice]:
    """The parameters of the first ASCENDC_TPL_ARGS_DECL of a text without comments."""
    first = next(read(text).calls("ASCENDC_TPL_ARGS_DECL"), None)
    return [c for part in first.arguments[1:] if (c := _choice(part, "DECL"))] if first else []


def selections(text: str) -> list[list[Choice]]:
    """The allowed combinations: one list of choices per ASCENDC_TPL_ARGS_SEL."""
    found = read(text).calls("ASCENDC_TPL_ARGS_SEL")
    return [[c for part in call.arguments if (c := _choice(part, "SEL"))] for call in found]


def first_arguments(
    text: str,
    template: str,
    definition: Definition | None,
    combination: int = 0,
    names: Mapping[str, str] = MappingProxyType({}),
) -> str:
    """Template arguments, as C++ text, of the first allowed combination for a kernel's template parameter list.

    `names` gives the dtype of a number ("0" -> "FLOAT") for text in which a preprocessor has replaced the names.
    """
    part = _own_part(text, template)
    allowed = (selections(part) or [declared(part)])[0]
    by_name = {c.name: c for c in allowed}
    inputs = (*definition.inputs, *definition.outputs) if definition else ()
    out = []
    for position, parameter in enumerate(brackets.split(template)):
        words = re.findall(r"\w+", parameter.split("=")[0])
        if not words:
            continue
        usable = [c for c in allowed if c.kind != "KERNEL_TYPE" and c.kind != "DETERMINISTIC"]
        choice = by_name.get(words[-1]) or (usable[position] if position < len(usable) else None)
        is_type = words[0] in ("typename", "class")
        if choice is None or not choice.values:
            if "=" in parameter:
                break
            out.append("float" if is_type else "0")
            continue
        value = choice.values[0]
        if found := re.match(r"ASCENDC_TPL_(INPUT|OUTPUT)\s*\(\s*(\d+)\s*\)", value):
            tensors = inputs if found.group(1) == "INPUT" or definition is None else definition.outputs
            index = int(found.group(2))
            dtypes = tensors[index].dtypes if index < len(tensors) else ()
            value = f"C_DT_{dtypes[min(combination, len(dtypes) - 1)]}" if dtypes else "C_DT_FLOAT"
        if is_type:
            value = names.get(value, value)
            value = CPP_TYPES.get(value.removeprefix("C_").removeprefix("DT_"), "float")
        out.append(value)
    return ", ".join(out)


def _own_part(text: str, template: str) -> str:
    """Of a text that declares parameters for several kernels, the declaration that shares most names with this one, and its selections."""
    starts = [call.at for call in read(text).calls("ASCENDC_TPL_ARGS_DECL")]
    if len(starts) < 2:
        return text
    parameters = set(re.findall(r"\w+", template))
    parts = [text[a:b] for a, b in zip(starts, [*starts[1:], len(text)], strict=True)]
    return max(reversed(parts), key=lambda part: len(parameters & {c.name for c in declared(part)}))


def _choice(part: str, suffix: str) -> Choice | None:
    found = re.match(rf"\s*ASCENDC_TPL_(\w+?)_{suffix}\s*\(", part)
    if found is None or part.rstrip()[-1:] != ")":
        return None
    kind = found.group(1).replace("SHARED_KERNEL_TYPE", "KERNEL_TYPE")
    arguments = brackets.split(part.rstrip()[found.end() : -1])
    if kind in ("KERNEL_TYPE", "DETERMINISTIC", "TILING_STRUCT") and suffix == "SEL":
        return None
    name, values, bits = arguments[0], arguments[1:], 0
    if kind == "UINT":
        if suffix == "DECL":
            bits = int(re.sub(r"\D", "", values[0]) or 0)
            values = values[1:]
        values = list(_numbers(values))
    return Choice(kind, name, tuple(values), bits)


def _numbers(values: list[str]) -> Iterator[str]:
    """The values that a list, ranges or a mix of both stands for; ranges with symbolic ends give their first value."""
    mode = values[0] if values and values[0] in _MODES else ""
    rest = values[1:] if mode else values
    if mode in ("ASCENDC_TPL_UI_RANGE", "ASCENDC_TPL_UI_MIX") and rest and rest[0].isdigit():
        count = int(rest[0])
        for low, high in zip(rest[1 : 1 + 2 * count : 2], rest[2 : 2 + 2 * count : 2], strict=False):
            if low.isdigit() and high.isdigit():
                yield from (str(n) for n in range(int(low), int(high) + 1))
            else:
                yield low
        rest = rest[1 + 2 * count :]
    yield from rest
