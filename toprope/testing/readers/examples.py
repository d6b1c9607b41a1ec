"""Inputs out of an operator's example programs, which call it with shapes, numbers and attributes that are known to fit.

Reads vectors of constants, the calls that make tensors and scalars of them (CreateAclTensor, Make...Tensor,
aclCreateScalar) and set_attr_NAME; a tensor belongs to the input of its name, or to the one at its place.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from toprope.project.definition import Definition
from toprope.testing.cases import AnyArgument, Argument, ArgumentList, Case, Output
from toprope.testing.data import Fill
from toprope.testing.readers.aclnn_headers import AclnnParameter

MAX_ELEMENTS = 1 << 20
_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.S)
_VECTOR = re.compile(r"vector<\s*[\w:]+\s*>\s+(\w+)\s*(?:=\s*)?\{([^{}]*)\}\s*;")
_FILLED = re.compile(r"vector<\s*[\w:]+\s*>\s+(\w+)\s*\([^;()]*(?:\([^;()]*\))?[^;()]*,\s*([-\w.]+)\s*\)\s*;")
_CONSTANT = re.compile(r"\b(?:int\w*|float|double|bool|auto|size_t|uint\w+)\s+(\w+)\s*=\s*(-?[\w.+-]+)\s*;")
_ACL_TENSOR = re.compile(r"CreateAclTensor\w*\s*\(\s*(\w+)\s*,\s*(\w+)\s*,[^;]*?ACL_(\w+)\s*,[^;]*?&\s*(\w+)\s*\)\s*;")
_GRAPH_TENSOR = re.compile(
    r"Make\w*Tensor\s*\(\s*(\w+)\s*,\s*(?:[\w:]*FORMAT_\w+\s*,\s*)?(?:[\w:]*DT_(\w+)\s*,\s*)?(?:(\w+)\s*\)|vector<[\w:]+>\s*\{([^{}]*)\})"
)
_DESCRIPTION = re.compile(r"(\w+)\s*=\s*MakeTensorDesc\s*\(\s*\{([^{}]*)\}\s*,\s*[\w:]*DT_(\w+)")
_SCALAR = re.compile(r"(\w+)\s*=\s*aclCreateScalar\s*\(\s*&?\s*(\w+)")
_ATTRIBUTE = re.compile(r"set_attr_(\w+)\s*\(\s*([^()]*)\)")
_DATA_SUFFIX = re.compile(r"_?(?:host|self)?_?data\w*$|_?shape\w*$", re.I)


@dataclass(frozen=True)
class _Tensor:
    label: str
    shape: tuple[int, ...]
    dtype: str
    values: tuple[int | float, ...]


def kernel_cases(root: Path, name: str, definition: Definition) -> list[Case]:
    """One case per example program below `root` that has a tensor for every required input of the definition."""
    cases = []
    required = sum(not declared.optional for declared in definition.inputs)
    for number, text in enumerate(_programs(root)):
        program = _Program(text)
        arguments: list[AnyArgument] = []
        for position, declared in enumerate(definition.inputs):
            tensor = program.tensor(declared.name, position, required)
            if tensor is None:
                if declared.optional:
                    continue
                break
            one = _argument(declared.name, tensor, declared.types[0] if declared.types else "float")
            arguments.append(ArgumentList(declared.name, (one,)) if declared.dynamic else one)
        else:
            attrs = {k: v for k, v in {**definition.attributes, **program.attributes()}.items() if v is not None}
            outputs = tuple(Output(o.types[0] if o.types else "") for o in definition.outputs)
            cases.append(Case(f"{name}_example_{number}", name, tuple(arguments), attrs, outputs, kind="general"))
    return [case for case in cases if 0 < case.elements <= MAX_ELEMENTS]


def aclnn_cases(root: Path, name: str, parameters: Sequence[AclnnParameter]) -> list[Case]:
    """One case per example program below `root` that calls the aclnn function `name`."""
    cases = []
    for number, text in enumerate(_programs(root)):
        call = re.search(rf"\b{name}GetWorkspaceSize\s*\(([^;]*)\)\s*;", text)
        words = [w.strip() for w in call[1].split(",")][: len(parameters)] if call else []
        if len(words) < len(parameters):
            continue
        program = _Program(text)
        arguments: list[AnyArgument] = []
        attrs: dict[str, Any] = {}
        outputs: list[Output] = []
        for parameter, word in zip(parameters, words, strict=True):
            tensor = program.tensors.get(word)
            if parameter.kind == "output":
                outputs.append(Output(tensor.dtype, tensor.shape) if tensor else Output())
            elif tensor is not None and parameter.kind == "tensor":
                arguments.append(_argument(parameter.name, tensor, "float"))
            elif tensor is None and (value := program.value(word)) is not None:
                attrs[parameter.name] = value
        cases.append(Case(f"{name}_example_{number}", name, tuple(arguments), attrs, tuple(outputs), kind="general"))
    return [case for case in cases if case.elements <= MAX_ELEMENTS]


def _programs(root: Path) -> Iterator[str]:
    for file in sorted((root / "examples").rglob("*.cpp")):
        yield _COMMENT.sub("", file.read_text(errors="replace"))


def _plain(name: str) -> str:
    return name.replace("_", "").lower()


class _Program:
    """The constants and tensors of one example program."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._numbers = {n: v for n, v in _CONSTANT.findall(text)}
        self._vectors = {n: _numbers(v, self._numbers) for n, v in _VECTOR.findall(text)}
        self._kinds: dict[str, str] = {}
        for label, sizes, kind in _DESCRIPTION.findall(text):
            self._vectors[label], self._kinds[label] = _numbers(sizes, self._numbers), kind.lower()
        self._repeated = {n: _number(v, self._numbers) for n, v in _FILLED.findall(text)}
        self._scalars = {n: v for n, v in _SCALAR.findall(text)}
        found = [self._acl(*m) for m in _ACL_TENSOR.findall(text)] or [
            self._graph(*m) for m in _GRAPH_TENSOR.findall(text)
        ]
        known = [t for t in found if t is not None] or self._named()
        self.tensors = {t.label: t for t in known}
        self._ordered = known
        self._by_name = {_plain(t.label): t for t in known}

    def tensor(self, name: str, position: int, of: int) -> _Tensor | None:
        """The tensor called `name`; without one, the tensor at `position` if the program makes at least `of`."""
        named = self._by_name.get(_plain(name))
        return named or (self._ordered[position] if max(of, position + 1) <= len(self._ordered) else None)

    def value(self, word: str) -> Any:
        """A constant, a variable or a scalar as a number; None for what is neither."""
        word = self._scalars.get(word, word)
        if word in self._vectors and self._vectors[word] is not None:
            return list(self._vectors[word] or ())
        return _number(word, self._numbers)

    def attributes(self) -> dict[str, Any]:
        """What set_attr_NAME is called with, as far as it is constant."""
        found: dict[str, Any] = {}
        for name, text in _ATTRIBUTE.findall(self._text):
            if name == "index":
                continue
            text = text.strip()
            listed = _numbers(text.strip("{}"), self._numbers) if text.startswith("{") else None
            found[name] = text.strip('"') if text.startswith('"') else list(listed) if listed else self.value(text)
        return {name: value for name, value in found.items() if value is not None}

    def _acl(self, data: str, shape: str, kind: str, variable: str) -> _Tensor | None:
        return self._made(
            variable, shape, {"float": "float32", "bf16": "bfloat16"}.get(kind.lower(), kind.lower()), data
        )

    def _graph(self, shape: str, kind: str, data: str, literal: str) -> _Tensor | None:
        values = tuple(_numbers(literal, self._numbers) or ()) if literal else None
        return self._made(_DATA_SUFFIX.sub("", data), shape, kind.lower() or self._kinds.get(shape, ""), data, values)

    def _named(self) -> list[_Tensor]:
        """Tensors of programs that name their shapes and say the rest elsewhere."""
        shapes = [name for name in self._vectors if "shape" in name.lower()]
        made = [self._made(label, name, "", f"{label}Data") for name in shapes if (label := _DATA_SUFFIX.sub("", name))]
        return [tensor for tensor in made if tensor is not None]

    def _made(
        self, label: str, shape: str, dtype: str, data: str, values: tuple[int | float, ...] | None = None
    ) -> _Tensor | None:
        sizes = self._vectors.get(shape)
        if sizes is None or any(size < 0 or size != int(size) for size in sizes):
            return None
        count = int(np.prod(sizes, dtype=np.int64))
        if values is None:
            values = tuple(self._vectors.get(data) or ())
        if not values and self._repeated.get(data) is not None:
            values = (float(self._repeated[data] or 0),) * min(count, 1 << 12)
        return _Tensor(label, tuple(int(size) for size in sizes), dtype, values if len(values) == count else ())


def _argument(name: str, tensor: _Tensor, otherwise: str) -> Argument:
    dtype = tensor.dtype or otherwise
    if tensor.values:
        return Argument(name, dtype, tensor.shape, Fill("values", values=tensor.values))
    return Argument(name, dtype, tensor.shape, Fill("uniform", 0, 1) if "int" in dtype else Fill("uniform", 0.1, 1))


def _numbers(text: str, constants: dict[str, str]) -> tuple[int | float, ...] | None:
    made = [_number(word.strip(), constants) for word in text.split(",") if word.strip()]
    return None if any(value is None for value in made) else tuple(value for value in made if value is not None)


def _number(word: str, constants: dict[str, str], depth: int = 3) -> Any:
    word = word.strip()
    if word in ("true", "false"):
        return word == "true"
    if word in constants and depth:
        return _number(constants[word], constants, depth - 1)
    try:
        return int(word.rstrip("lLuU"), 0)
    except ValueError:
        try:
            return float(word.rstrip("fFlL"))
        except ValueError:
            return None
