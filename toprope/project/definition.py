"""What an operator definition (`*_def.cpp`, a class deriving OpDef) declares, read without compiling it."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path

from toprope.source import strip_comments

_CLASS = re.compile(r"\bclass\s+(\w+)\s*(?:final\s*)?:\s*public\s+(?:ops::)?OpDef\b")
_CHAIN = re.compile(r"(\w+)\s*(?:->|\.)\s*(Input|Output)\s*\(\s*\"(\w+)\"\s*\)([^;]*);", re.S)
_CONFIG = re.compile(r"AddConfig\s*\(\s*\"(\w+)\"\s*(?:,\s*(\w+))?")
_OP_FILE = re.compile(r"ExtendCfgInfo\s*\(\s*\"opFile\.value\"\s*,\s*\"(\w+)\"")
_LIST = re.compile(r"std::vector\s*<\s*ge::(?:DataType|Format)\s*>\s*(\w+)\s*=?\s*\{([^}]*)\}")
_MACRO = re.compile(r"#\s*define\s+(\w+)\s+((?:[^\n\\]|\\\n)*(?:DT_|FORMAT_)(?:[^\n\\]|\\\n)*)")

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
    mode: str  # REQUIRED, OPTIONAL or DYNAMIC


@dataclass(frozen=True)
class Definition:
    """One operator: its type name, tensors, the chip families it is built for, and kernel file names that some families use."""

    type: str
    inputs: tuple[Tensor, ...]
    outputs: tuple[Tensor, ...]
    families: tuple[str, ...]
    kernel_files: dict[str, str] = field(default_factory=dict)

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
    text = strip_comments(file.read_text(errors="replace"))
    found = _CLASS.search(text)
    if found is None:
        return None
    lists = {name: words for name, words in [*_LIST.findall(text), *_MACRO.findall(text)]}
    configs = _CONFIG.findall(text)
    own = {variable for family, variable in configs if variable and builds_for(family, chip)}
    tensors: dict[str, dict[str, Tensor]] = {"Input": {}, "Output": {}}
    for owner, kind, name, chain in _CHAIN.findall(text):
        if owner != "this" and owner not in own:
            continue  # another chip's own list
        tensor = _tensor(name, chain, lists)
        if tensor.dtypes or name not in tensors[kind]:
            tensors[kind][name] = tensor
    files: dict[str, str] = {}  # a configuration variable -> its kernel file, which may change between two AddConfig
    kernel_files = {}
    for statement in text.split(";"):
        if named := _OP_FILE.search(statement):
            files[re.split(r"\W", statement.split("{")[-1].strip(), maxsplit=1)[0]] = named.group(1)
        for family, variable in _CONFIG.findall(statement):
            if variable in files:
                kernel_files[family] = files[variable]
    return Definition(
        found.group(1),
        tuple(tensors["Input"].values()),
        tuple(tensors["Output"].values()),
        tuple(dict.fromkeys(family for family, _ in configs)),
        kernel_files,
    )


def builds_for(family: str, chip: str) -> bool:
    """Whether a family name of AddConfig ("ascend910b") covers a chip ("ascend910b1")."""
    return chip == "ascend910a" if family == "ascend910" else chip.startswith(family)


def _tensor(name: str, chain: str, lists: dict[str, str]) -> Tensor:
    mode = re.search(r"ParamType\s*\(\s*(?:ops::)?(?:Option::)?(\w+)", chain)
    return Tensor(
        name,
        _words(chain, ("DataType", "DataTypeList"), "DT_", lists),
        _words(chain, ("Format", "FormatList"), "FORMAT_", lists),
        mode.group(1) if mode else "REQUIRED",
    )


def _words(chain: str, calls: tuple[str, ...], prefix: str, lists: dict[str, str]) -> tuple[str, ...]:
    """The enumerators that `.Call({...})` or `.Call(list)` names, without their prefix."""
    for call in calls:
        if given := re.search(rf"\.\s*{call}\s*\(([^)]*)\)", chain):
            text = re.sub(r"\b\w+\b", lambda m: lists.get(m.group(0), m.group(0)), given.group(1))
            if words := re.findall(rf"\b{prefix}(\w+)", text):
                return tuple(words)
    return ()
