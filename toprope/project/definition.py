"""What an operator definition (`*_def.cpp`, a class deriving OpDef) declares, read without compiling it."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from toprope.cpp import Call, Source, read, strip_comments

_CLASS = re.compile(r"^(?:ops::)?OpDef$")
_LIST = re.compile(r"std::vector\s*<\s*ge::(?:DataType|Format)\s*>\s*(\w+)\s*=?\s*\{([^}]*)\}")
_OWNER = re.compile(r"(\w+)\s*(?:->|\.)\s*$")
_ATTRIBUTE_CALLS: dict[str, Any] = {
    "Int": 1,
    "Float": 1.0,
    "Bool": False,
    "String": "",
    "ListInt": [1],
    "ListFloat": [1.0],
    "ListBool": [False],
    "ListListInt": [[1]],
}
"""How an OpDef gives an attribute its type and default, and the value that tests try where there is no default."""

# ge::DT_… -> the C++ type that DTYPE_… stands for in a kernel.
CPP_TYPES = {
    "FLOAT": "float",
    "FLOAT16": "half",
    "BF16": "bfloat16_t",
    "INT8": "int8_t",
    "INT16": "int16_t",
    "INT32": "int32_t",
    "INT64": "int64_t",
    "UINT8": "uint8_t",
    "UINT16": "uint16_t",
    "UINT32": "uint32_t",
    "UINT64": "uint64_t",
    "BOOL": "bool",
    "DOUBLE": "double",
    "INT4": "int4b_t",
    "COMPLEX32": "complex32",
    "COMPLEX64": "complex64",
    "COMPLEX128": "complex128",
    "STRING": "char",
    "HIFLOAT8": "hifloat8_t",
    "FLOAT8_E5M2": "fp8_e5m2_t",
    "FLOAT8_E4M3FN": "fp8_e4m3fn_t",
    "FLOAT8_E8M0": "fp8_e8m0_t",
    "FLOAT4_E2M1": "fp4x2_e2m1_t",
    "FLOAT4_E1M2": "fp4x2_e1m2_t",
}


@dataclass(frozen=True)
class Tensor:
    """An input or output; entry k of `dtypes` and `formats` of all tensors together is combination k (names without DT_, FORMAT_)."""

    name: str
    dtypes: tuple[str, ...]
    formats: tuple[str, ...]
    mode: str = "REQUIRED"  # or OPTIONAL, DYNAMIC

    @property
    def types(self) -> tuple[str, ...]:
        """The element types in lower case, as cases name them."""
        return tuple(d.lower() for d in self.dtypes)

    @property
    def optional(self) -> bool:
        """It may be left out."""
        return self.mode == "OPTIONAL"

    @property
    def dynamic(self) -> bool:
        """It is a list of tensors."""
        return self.mode == "DYNAMIC"


@dataclass(frozen=True)
class Definition:
    """One operator: its type name, tensors, the chip families it is built for, and kernel file names that some families use.

    `attributes` maps to their defaults (see _ATTRIBUTE_CALLS), None for one of an unknown type.
    """

    type: str
    inputs: tuple[Tensor, ...]
    outputs: tuple[Tensor, ...]
    families: tuple[str, ...] = ()
    kernel_files: dict[str, str] = field(default_factory=dict)
    attributes: dict[str, Any] = field(default_factory=dict)

    @property
    def combinations(self) -> int:
        """How many combinations of element types are declared."""
        return max([1, *(len(t.dtypes) for t in (*self.inputs, *self.outputs))])

    def defines(self, combination: int = 0) -> tuple[str, ...]:
        """Preprocessor defines that the vendor's build passes for one combination, as NAME=VALUE."""
        out = []
        for tensor in (*self.inputs, *self.outputs):
            name = tensor.name.upper()
            # A list that the definition computes stays unknown to a reader; float is what such lists nearly always begin with.
            word = tensor.dtypes[min(combination, len(tensor.dtypes) - 1)] if tensor.dtypes else "FLOAT"
            out += [f"DTYPE_{name}={CPP_TYPES.get(word, 'float')}", f"ORIG_DTYPE_{name}=DT_{word}"]
            layout = tensor.formats[min(combination, len(tensor.formats) - 1)] if tensor.formats else "ND"
            out.append(f"FORMAT_{name}=FORMAT_{layout}")
        return tuple(out)


def read_definition(file: Path, chip: str = "ascend910b1") -> Definition | None:
    """The operator that a file defines, as declared for `chip`; None if it defines none."""
    source = read(strip_comments(file.read_text(errors="replace")))
    owner = next((r for r in source.records if any(_CLASS.match(b) for b in r.bases)), None)
    if owner is None:
        return None
    text = source.text
    lists = {**source.constants, **dict(_LIST.findall(text))}
    configs = [
        (_word(c, 0), _word(c, 1)) for c in source.calls("AddConfig") if c.arguments and c.arguments[0].startswith('"')
    ]
    own = {variable for family, variable in configs if variable and builds_for(family, chip)}
    tensors: dict[str, dict[str, Tensor]] = {"Input": {}, "Output": {}}
    attributes: dict[str, Any] = {}
    for call in source.calls("Input", "Output", "Attr"):
        holder = _OWNER.search(text, max(0, call.at - 80), call.at)
        if holder is None or not call.arguments or not call.arguments[0].startswith('"'):
            continue
        if holder[1] != "this" and holder[1] not in own:
            continue  # another chip's own list
        chain = text[call.end : max(text.find(";", call.end), call.end)]
        name, said = _word(call, 0), {c.name: c.arguments for c in read(chain).calls("[A-Z]\\w*")}
        if call.name == "Attr":
            attributes[name] = _attribute(said, source.constants)
            continue
        tensor = _tensor(name, said, lists)
        if tensor.dtypes or name not in tensors[call.name]:
            tensors[call.name][name] = tensor
    return Definition(
        owner.name,
        tuple(tensors["Input"].values()),
        tuple(tensors["Output"].values()),
        tuple(dict.fromkeys(family for family, _ in configs)),
        _kernel_files(source),
        attributes,
    )


def _kernel_files(source: Source) -> dict[str, str]:
    """Chip family to kernel file, for families that use one of their own: a configuration may change it between two AddConfig."""
    files: dict[str, str] = {}
    out = {}
    for call in source.calls("ExtendCfgInfo", "AddConfig"):
        if call.name == "AddConfig":
            if call.arguments[0].startswith('"') and _word(call, 1) in files:
                out[_word(call, 0)] = files[_word(call, 1)]
        elif _word(call, 0) == "opFile.value":
            statement = source.text[max(source.text.rfind(c, 0, call.at) for c in ";{") + 1 : call.at]
            files[re.split(r"\W", statement.strip(), maxsplit=1)[0]] = _word(call, 1)
    return out


def _word(call: Call, position: int) -> str:
    """An argument without its quotes; "" where there is none."""
    return call.arguments[position].strip('"') if position < len(call.arguments) else ""


def builds_for(family: str, chip: str) -> bool:
    """Whether a family name of AddConfig ("ascend910b") covers a chip ("ascend910b1")."""
    return chip == "ascend910a" if family == "ascend910" else chip.startswith(family)


def _tensor(name: str, said: Mapping[str, Sequence[str]], lists: Mapping[str, str]) -> Tensor:
    mode = said.get("ParamType", ("REQUIRED",))[0].split("::")[-1]
    return Tensor(
        name,
        _words([*said.get("DataType", ()), *said.get("DataTypeList", ())], "DT_", lists),
        _words([*said.get("Format", ()), *said.get("FormatList", ())], "FORMAT_", lists),
        mode,
    )


def _words(arguments: Sequence[str], prefix: str, lists: Mapping[str, str]) -> tuple[str, ...]:
    """The enumerators in `.Call({...})` or `.Call(list)`, without their prefix."""
    text = re.sub(r"\b\w+\b", lambda m: lists.get(m.group(0), m.group(0)), " ".join(arguments))
    return tuple(re.findall(rf"\b{prefix}(\w+)", text))


def _attribute(said: Mapping[str, Sequence[str]], constants: Mapping[str, str]) -> Any:
    """The default of an attribute, in the shape of its type; the type's usual value for one without, None for one that cannot be read."""
    for call, usual in _ATTRIBUTE_CALLS.items():
        if call in said:
            text = ", ".join(said[call]).strip()
            value = _constant(constants.get(text.split("::")[-1], text))
            if value is None:
                return usual if text in ("", "{}") else None
            return [value] if isinstance(usual, list) and not isinstance(value, list) else value
    return None


def _constant(text: str) -> Any:
    """A C++ default value as Python; None where it is not a plain constant."""
    text = text.strip().strip("{}").strip() if text.strip().startswith("{") else text.strip()
    words = [w.strip() for w in text.split(",")] if text else []
    values: list[Any] = []
    for word in words:
        if word in ("true", "false"):
            values.append(word == "true")
        elif word.startswith('"'):
            values.append(word.strip('"'))
        else:
            try:
                number = float(word.rstrip("fFlLuU"))
            except ValueError:
                return None
            values.append(int(number) if re.fullmatch(r"-?\d+[lLuU]*", word) else number)
    return values[0] if len(values) == 1 else values or None
