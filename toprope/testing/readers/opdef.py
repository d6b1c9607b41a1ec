"""Operator signatures from C++: OpDef classes (`*_def.cpp`) and aclnn headers, read with regular expressions.

Only what tests need: names, element types, optional and dynamic inputs, attributes with defaults, parameter order.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.S)
_DECLARATION = re.compile(r"this->(Input|Output|Attr)\(\s*\"(\w+)\"\s*\)(.*?);", re.S)
_CALL = re.compile(r"\.(\w+)\(\s*(\{.*?\}|[^()]*)\s*\)", re.S)
_GETTER = re.compile(r"(aclnn\w+?)GetWorkspaceSize\s*\((.*?)\)\s*;", re.S)
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


@dataclass(frozen=True)
class DeclaredTensor:
    """An input or output of an OpDef; dtypes are positional: entry k of all tensors together is combination k."""

    name: str
    dtypes: tuple[str, ...]
    optional: bool
    dynamic: bool


@dataclass(frozen=True)
class OpDef:
    """What an operator definition declares; attributes map to their defaults (see _ATTRIBUTE_CALLS), None for an unknown type."""

    inputs: tuple[DeclaredTensor, ...]
    outputs: tuple[DeclaredTensor, ...]
    attributes: dict[str, Any]


@dataclass(frozen=True)
class AclnnParameter:
    """One parameter of aclnnXxxGetWorkspaceSize: its name and kind (tensor, tensors, scalar, value or output)."""

    name: str
    kind: str


def read_opdef(path: Path) -> OpDef | None:
    """The OpDef of a `*_def.cpp`; None when the file declares none (variants per chip are ignored)."""
    text = _COMMENT.sub("", path.read_text(errors="replace"))
    # Words such as std::vector<ge::DataType> tables stay unknown; literal lists are what nearly all operators use.
    tensors: dict[str, list[DeclaredTensor]] = {"Input": [], "Output": []}
    attributes: dict[str, Any] = {}
    for kind, name, chain in _DECLARATION.findall(text):
        calls = dict(_CALL.findall(chain))
        if kind == "Attr":
            attributes[name] = _attribute(calls)
            continue
        listed: str = calls.get("DataType") or calls.get("DataTypeList") or ""
        words = re.findall(r"DT_(\w+)", listed)
        mode = calls.get("ParamType", "REQUIRED")
        tensors[kind].append(
            DeclaredTensor(name, tuple(w.lower() for w in words), "OPTIONAL" in mode, "DYNAMIC" in mode)
        )
    if not tensors["Output"]:
        return None
    return OpDef(tuple(tensors["Input"]), tuple(tensors["Output"]), attributes)


def _attribute(calls: dict[str, str]) -> Any:
    """The default of an attribute, in the shape of its type; the type's usual value for one without a default."""
    for call, usual in _ATTRIBUTE_CALLS.items():
        if call in calls:
            value = _constant(calls[call])
            if value is None:
                return usual
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


def read_aclnn(folder: Path) -> dict[str, tuple[AclnnParameter, ...]]:
    """Parameter lists of every aclnn function declared in headers below `folder`, workspace and executor left out."""
    found: dict[str, tuple[AclnnParameter, ...]] = {}
    for header in sorted(folder.rglob("aclnn*.h")):
        for name, inside in _GETTER.findall(_COMMENT.sub("", header.read_text(errors="replace"))):
            parameters = [_aclnn_parameter(p.strip()) for p in inside.split(",") if p.strip()]
            found[name] = tuple(p for p in parameters if p.name not in ("workspaceSize", "executor"))
    return found


def _aclnn_parameter(text: str) -> AclnnParameter:
    name = re.split(r"[\s*&]+", text)[-1]
    if "aclTensorList" in text:
        kind = "tensors"
    elif "aclTensor" in text:
        # In-place operators name the tensor they overwrite ...Ref, and it is an input all the same.
        kind = "tensor" if "const" in text or name.endswith("Ref") else "output"
    elif "aclScalar" in text:
        kind = "scalar"
    else:
        kind = "value"
    return AclnnParameter(name, kind)
