"""An operator's prototype: inputs, outputs, attributes and their combinations of types, from msopgen's JSON or a one-line signature.

The JSON fields and the rules for their lists are those of msopgen (gitcode.com/Ascend/msopgen). Each refusal names its place and,
where msopgen has a number for it, that number.
"""

from __future__ import annotations

import json
import keyword
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from toprope import brackets
from toprope.errors import TopropeError

# Words for element types -> the name used here. Values of one column are what a kernel on A2 can hold.
TYPE_WORDS = {
    "float": "float32", "fp32": "float32", "float32": "float32", "f32": "float32", "half": "float16", "fp16": "float16",
    "float16": "float16", "f16": "float16", "bf16": "bfloat16", "bfloat16": "bfloat16", "double": "float64", "fp64": "float64",
    "float64": "float64", "f64": "float64", "int8": "int8", "i8": "int8", "uint8": "uint8", "u8": "uint8", "int16": "int16",
    "i16": "int16", "uint16": "uint16", "u16": "uint16", "int32": "int32", "int": "int32", "i32": "int32", "uint32": "uint32",
    "u32": "uint32", "int64": "int64", "i64": "int64", "uint64": "uint64", "u64": "uint64", "bool": "bool",
}  # fmt: skip
GROUPS = {
    "realnumbertype": ("float32", "float64", "int32", "uint8", "int16", "int8", "int64", "uint16", "float16", "uint32", "uint64", "bfloat16"),
    "quantizedtype": ("int8", "uint8", "int32", "int16", "uint16"),
    "indexnumbertype": ("int32", "int64"),
}  # fmt: skip
GROUPS["numbertype"] = GROUPS["basictype"] = GROUPS["realnumbertype"]
GROUPS["all"] = (*GROUPS["realnumbertype"], "bool")
KNOWN_BUT_NOT_HERE = (
    "int2",
    "int4",
    "uint1",
    "complex32",
    "complex64",
    "complex128",
    "string",
    "resource",
    "qint8",
    "quint8",
)
ATTRIBUTE_TYPES = ("int", "bool", "float", "string", "list_int", "list_float", "list_bool", "list_list_int")
FORMATS = (
    "ND", "NCHW", "NHWC", "NC1HWC0", "FRACTAL_Z", "FRACTAL_NZ", "NDHWC", "NCDHW", "HWCN", "NDC1HWC0", "FRACTAL_Z_3D", "NC1HWC0_C04",
    "NC", "NCL", "DHWCN", "CHWN",
)  # fmt: skip
_CPP_WORDS = frozenset(
    [
        "alignas",
        "and",
        "asm",
        "auto",
        "bool",
        "break",
        "case",
        "catch",
        "char",
        "class",
        "const",
        "continue",
        "default",
        "delete",
        "do",
        "double",
        "else",
        "enum",
        "explicit",
        "extern",
        "float",
        "for",
        "friend",
        "goto",
        "if",
        "inline",
        "int",
        "long",
        "mutable",
        "namespace",
        "new",
        "not",
        "operator",
        "or",
        "private",
        "protected",
        "public",
        "register",
        "return",
        "short",
        "signed",
        "sizeof",
        "static",
        "struct",
        "switch",
        "template",
        "this",
        "throw",
        "true",
        "try",
        "typedef",
        "typename",
        "union",
        "unsigned",
        "using",
        "virtual",
        "void",
        "volatile",
        "while",
        "xor",
        "half",
        "workspace",
        "tiling",
    ]
)


class BadPrototype(TopropeError):
    """A prototype that contradicts itself or names something unknown; the message begins with the place."""

    code = "bad-prototype"

    def __init__(self, where: str, message: str, *, cure: str, msopgen: int = 0) -> None:
        self.msopgen = msopgen
        super().__init__(f"{where}: {message}" + (f" (msopgen error {msopgen})" if msopgen else ""), cure=cure)


@dataclass(frozen=True)
class Tensor:
    """An input or output. `dtypes` and `formats` have one entry per combination; `kind` is required, optional or dynamic."""

    name: str
    dtypes: tuple[str, ...]
    formats: tuple[str, ...] = ("ND",)
    kind: str = "required"


@dataclass(frozen=True)
class Attribute:
    """An attribute; `default` is None where there is none, and then it is required."""

    name: str
    type: str
    default: Any = None
    required: bool = True


@dataclass(frozen=True)
class Prototype:
    """An operator: type name (AddCustom), tensors and attributes. All tensors have equally many combinations."""

    op: str
    inputs: tuple[Tensor, ...]
    outputs: tuple[Tensor, ...]
    attributes: tuple[Attribute, ...] = ()

    @property
    def name(self) -> str:
        """The name of files and of the kernel: add_custom."""
        return snake(self.op)

    @property
    def combinations(self) -> int:
        """How many combinations of types and formats there are."""
        return len(self.outputs[0].dtypes)


def snake(name: str) -> str:
    """AbcDef -> abc_def, AbcAAc -> abc_a_ac, Abc -> abc."""
    parted = re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", name)
    return parted.lower()


def camel(name: str) -> str:
    """add_custom -> AddCustom."""
    return "".join(part[:1].upper() + part[1:] for part in name.split("_"))


def from_json(path: Path, op: str = "") -> Prototype:
    """The prototype in a JSON file; `op` chooses one if there are several. Raises BadPrototype."""
    where = path.name
    try:
        if path.stat().st_size > 10 << 20:
            raise BadPrototype(
                where, "the file is larger than 10 MiB", cure="give a file with prototypes only", msopgen=101
            )
        data = json.loads(path.read_text(encoding="utf-8"))
    except json.JSONDecodeError as error:
        raise BadPrototype(
            f"{where}:{error.lineno}:{error.colno}", f"not JSON: {error.msg}", cure="correct the file there"
        ) from error
    except (OSError, UnicodeDecodeError) as error:
        raise BadPrototype(where, f"cannot be read: {error}", cure="check the path") from error
    found = data if isinstance(data, list) else [data]
    if not found or not all(isinstance(entry, dict) for entry in found):
        raise BadPrototype(where, "holds no operator", cure='write {"op": ..., "output_desc": [...]}', msopgen=13)
    names = [str(entry.get("op", "")) for entry in found]
    if op and op not in names:
        raise BadPrototype(where, f"holds no operator {op}", cure=f"it has {', '.join(names)}", msopgen=13)
    if not op and len(found) > 1:
        raise BadPrototype(
            where, f"holds {len(found)} operators: {', '.join(names)}", cure=f"choose one: --op {names[0]}", msopgen=13
        )
    return _checked(_read(found[names.index(op) if op else 0], where), where)


def _read(entry: dict[str, Any], where: str) -> Prototype:
    known = {"op", "language", "input_desc", "output_desc", "attr"}
    if unknown := set(entry) - known:
        raise BadPrototype(
            where, f"unknown fields {sorted(unknown)}", cure=f"fields are {', '.join(sorted(known))}", msopgen=16
        )
    op = _field(entry, "op", where, str)
    inputs = [_tensor(t, f"{where}: input_desc[{i}]") for i, t in enumerate(_rows(entry, "input_desc", where))]
    outputs = [_tensor(t, f"{where}: output_desc[{i}]") for i, t in enumerate(_rows(entry, "output_desc", where))]
    attributes = [_attribute(a, f"{where}: attr[{i}]") for i, a in enumerate(_rows(entry, "attr", where))]
    return Prototype(op, tuple(inputs), tuple(outputs), tuple(attributes))


def _rows(entry: dict[str, Any], key: str, where: str) -> list[dict[str, Any]]:
    rows = entry.get(key) or []
    if not isinstance(rows, list) or not all(isinstance(r, dict) for r in rows):
        raise BadPrototype(
            f"{where}: {key}", "is no list of objects", cure=f'write "{key}": [{{...}}, ...]', msopgen=16
        )
    return rows


def _field(entry: dict[str, Any], key: str, where: str, kind: type) -> Any:
    value = entry.get(key)
    if not isinstance(value, kind) or value in ("", []):
        raise BadPrototype(f"{where}.{key}", "is missing or empty", cure=f'add "{key}"', msopgen=16)
    return value


def _words(entry: dict[str, Any], key: str, where: str) -> list[str]:
    value = entry.get(key)
    words = value if isinstance(value, list) else [] if value is None else [value]
    if not words or not all(isinstance(w, str) and w.strip() for w in words):
        raise BadPrototype(f"{where}.{key}", "is missing or empty", cure=f'write "{key}": ["..."]', msopgen=16)
    return [p.strip() for w in words for p in w.split(",")]


def _tensor(entry: dict[str, Any], where: str) -> Tensor:
    name = _field(entry, "name", where, str)
    if unknown := set(entry) - {"name", "param_type", "format", "type"}:
        raise BadPrototype(
            where, f"unknown fields {sorted(unknown)}", cure="fields are name, param_type, format, type", msopgen=16
        )
    kind = entry.get("param_type", "required")
    if kind not in ("required", "optional", "dynamic"):
        raise BadPrototype(
            f"{where}.param_type", f"{kind!r} is none", cure="use required, optional or dynamic", msopgen=17
        )
    formats = tuple(w.upper() for w in _words(entry, "format", where))
    for i, f in enumerate(formats):
        if f not in FORMATS:
            raise BadPrototype(
                f"{where}.format[{i}]", f"{f!r} is no format", cure=f"use one of {', '.join(FORMATS)}", msopgen=17
            )
    return Tensor(name, types(_words(entry, "type", where), f"{where}.type"), formats, kind)


def types(words: Sequence[str], where: str) -> tuple[str, ...]:
    """Element types by any of their names. A group word stands alone and means all its types. Raises BadPrototype."""
    out: list[str] = []
    for i, word in enumerate(words):
        place, low = f"{where}[{i}]", word.lower()
        if low in TYPE_WORDS:
            out.append(TYPE_WORDS[low])
        elif low in GROUPS and len(words) == 1:
            out += GROUPS[low]
        elif low in GROUPS:
            raise BadPrototype(
                place,
                f"the group {word!r} stands in a list of {len(words)}",
                cure="a group word stands alone",
                msopgen=17,
            )
        elif low in KNOWN_BUT_NOT_HERE:
            raise BadPrototype(
                place,
                f"type {word!r} exists, but the generated kernel cannot hold it",
                cure="use a real number type of 8 to 64 bits or bool",
            )
        else:
            raise BadPrototype(
                place,
                f"{word!r} is no element type",
                cure=f"use one of {', '.join(sorted(set(TYPE_WORDS.values())))}",
                msopgen=17,
            )
    return tuple(out)


def _attribute(entry: dict[str, Any], where: str) -> Attribute:
    name = _field(entry, "name", where, str)
    if unknown := set(entry) - {"name", "param_type", "type", "default_value"}:
        raise BadPrototype(
            where,
            f"unknown fields {sorted(unknown)}",
            cure="fields are name, param_type, type, default_value",
            msopgen=16,
        )
    kind = _field(entry, "type", where, str)
    kind = {"str": "string", "listint": "list_int", "listfloat": "list_float", "listbool": "list_bool"}.get(
        kind.lower(), kind.lower()
    )
    if kind not in ATTRIBUTE_TYPES:
        raise BadPrototype(
            f"{where}.type",
            f"{kind!r} is no attribute type",
            cure=f"use one of {', '.join(ATTRIBUTE_TYPES)}",
            msopgen=17,
        )
    required = entry.get("param_type", "required")
    if required not in ("required", "optional"):
        raise BadPrototype(f"{where}.param_type", f"{required!r} is none", cure="use required or optional", msopgen=17)
    default = _default(kind, entry.get("default_value"), f"{where}.default_value")
    if required == "optional" and default is None:
        default = {"int": 0, "bool": False, "float": 0.0, "string": ""}.get(kind, [])
    return Attribute(name, kind, default, required == "required")


def _default(kind: str, value: Any, where: str) -> Any:
    """A default value of the attribute's type; text as JSON writers give it ("1.0", "[1,2]") is read."""
    if value is None or (value == "" and kind != "string"):
        return None
    if isinstance(value, str) and kind != "string":
        try:
            value = json.loads(value.strip().lower() if kind == "bool" else value)
        except json.JSONDecodeError:
            raise BadPrototype(
                where, f"{value!r} is no {kind}", cure="write a JSON value of that type", msopgen=17
            ) from None
    if kind == "float" and isinstance(value, int) and not isinstance(value, bool):
        value = float(value)
    if not _fits(kind, value):
        raise BadPrototype(where, f"{value!r} is no {kind}", cure="write a JSON value of that type", msopgen=17)
    return value


def _fits(kind: str, value: Any) -> bool:
    if kind.startswith("list_"):
        return isinstance(value, list) and all(_fits(kind[5:], v) for v in value)
    if kind in ("int", "float") and isinstance(value, bool):
        return False
    return isinstance(value, {"int": int, "bool": bool, "float": (int, float), "string": str}[kind])  # type: ignore[arg-type]


_SIGNATURE = re.compile(r"^\s*(\w+)\s*\((.*)\)\s*->\s*(.+?)\s*$", re.S)
_PARAMETER = re.compile(r"^(\w+)\s*([?*]?)\s*(?::\s*([^=]+?))?\s*(?:=\s*(.+))?$", re.S)
_ATTRIBUTE_WORDS = {
    "int": "int", "float": "float", "bool": "bool", "str": "string", "string": "string", "list[int]": "list_int",
    "list[float]": "list_float", "list[bool]": "list_bool", "list[list[int]]": "list_list_int",
}  # fmt: skip


def from_signature(text: str) -> Prototype:
    """The prototype in one line, such as "add_custom(x: f16|f32, y: f16|f32, bias?: f32, alpha: float = 1.0) -> z".

    x: f16|f32   an input; the k-th types of all tensors belong together      x?: an optional input      x*: a list of tensors
    n: int       an attribute: int, float, bool, str, list[int] ...           n: int = 1  with a default
    -> z, m: u8  outputs; one without a type has those of the first input
    Raises BadPrototype.
    """
    match = _SIGNATURE.match(text)
    where = "signature"
    if not match:
        raise BadPrototype(where, f"{text!r} is none", cure='write "add_custom(x: f16|f32, y: f16|f32) -> z"')
    op, inside, after = match.groups()
    inputs: list[Tensor] = []
    attributes: list[Attribute] = []
    for part in brackets.split(inside):
        made = _parameter(part)
        if isinstance(made, Attribute):
            attributes.append(made)
        else:
            inputs.append(made)
    outputs = []
    for part in brackets.split(after.strip("() ")):
        name, mark, kind, default = _split_parameter(part)
        if default or mark:
            raise BadPrototype(
                f"output {name}", "an output is a name and types", cure='write "-> z" or "-> z: f16|f32"'
            )
        first = inputs[0].dtypes if inputs else ()
        outputs.append(Tensor(name, types(kind.split("|"), f"output {name}") if kind else first))
    return _checked(
        Prototype(op if op[0].isupper() else camel(op), tuple(inputs), tuple(outputs), tuple(attributes)), where
    )


def _split_parameter(part: str) -> tuple[str, str, str, str]:
    match = _PARAMETER.match(part)
    if not match:
        raise BadPrototype("signature", f"{part!r} is no parameter", cure='write "x: f16|f32" or "alpha: float = 1.0"')
    name, mark, kind, default = match.groups()
    return name, mark, re.sub(r"\s", "", kind or ""), default or ""


def _parameter(part: str) -> Tensor | Attribute:
    name, mark, kind, default = _split_parameter(part)
    if not kind:
        raise BadPrototype(f"input {name}", "has no type", cure=f'write "{name}: f16|f32"')
    if kind in _ATTRIBUTE_WORDS:
        if mark:
            raise BadPrototype(
                f"attribute {name}", f"cannot be marked {mark!r}", cure="give it a default value instead"
            )
        if not default:
            return Attribute(name, _ATTRIBUTE_WORDS[kind])
        text = default.strip()
        value = text.strip("\"'") if kind in ("str", "string") else text
        return Attribute(
            name, _ATTRIBUTE_WORDS[kind], _default(_ATTRIBUTE_WORDS[kind], value, f"attribute {name}"), False
        )
    if default:
        raise BadPrototype(
            f"input {name}", "an input has no default value", cure=f'mark it optional: "{name}?: {kind}"'
        )
    return Tensor(
        name, types(kind.split("|"), f"input {name}"), kind={"": "required", "?": "optional", "*": "dynamic"}[mark]
    )


def _checked(p: Prototype, where: str) -> Prototype:
    """Names, and lists brought to the common number of combinations: length 1 is widened, other lengths must agree."""
    if not re.fullmatch(r"[A-Z][A-Za-z0-9]*", p.op):
        raise BadPrototype(f"{where}: op", f"{p.op!r} is no operator type", cure="write it like AddCustom", msopgen=16)
    if not p.outputs:
        raise BadPrototype(f"{where}: output_desc", "an operator has an output", cure="add one", msopgen=13)
    if not any(t.kind != "optional" for t in p.inputs):
        raise BadPrototype(
            f"{where}: input_desc",
            "no input is always there, so nothing tells the output's shape",
            cure="add a required input",
        )
    if dynamic := [t.name for t in p.outputs if t.kind != "required"]:
        raise BadPrototype(
            f"{where}: output {dynamic[0]}", "only required outputs can be generated", cure="make it required"
        )
    _check_names([t.name for t in p.inputs] + [a.name for a in p.attributes], where)
    _check_names([t.name for t in p.outputs], where)
    lists = [
        (t.name, key, len(v)) for t in (*p.inputs, *p.outputs) for key, v in (("type", t.dtypes), ("format", t.formats))
    ]
    count = max(n for _, _, n in lists)
    longest = next((name, key) for name, key, n in lists if n == count)
    for name, key, n in lists:
        if n not in (1, count):
            raise BadPrototype(
                f"{where}: {name}.{key}",
                f"has {n} entries, {longest[0]}.{longest[1]} has {count}",
                cure="entry k of all lists is combination k: give every list the same length, or length 1",
                msopgen=114,
            )

    def widened(tensors: Iterable[Tensor]) -> tuple[Tensor, ...]:
        return tuple(
            replace(t, dtypes=t.dtypes * (count // len(t.dtypes)), formats=t.formats * (count // len(t.formats)))
            for t in tensors
        )

    return replace(p, inputs=widened(p.inputs), outputs=widened(p.outputs))


def _check_names(names: Sequence[str], where: str) -> None:
    for i, name in enumerate(names):
        if not re.fullmatch(r"[A-Za-z_]\w*", name):
            raise BadPrototype(
                f"{where}: name {name!r}", "is no C identifier", cure="use letters, digits and _", msopgen=17
            )
        if name in _CPP_WORDS or keyword.iskeyword(name):
            raise BadPrototype(
                f"{where}: name {name!r}",
                "means something in C++ or Python, or is an argument of every kernel",
                cure="choose another name",
                msopgen=17,
            )
        if name in names[:i]:
            raise BadPrototype(
                f"{where}: name {name!r}", "stands there twice", cure="give each its own name", msopgen=17
            )
