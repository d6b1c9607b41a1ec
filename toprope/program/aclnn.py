"""aclnn calls of operator projects: the header that a project's definition gives, and the two stages behind it."""

from __future__ import annotations

import ctypes as c
import hashlib
import json
import math
import re
from collections.abc import Collection, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from toprope.cache import cache_dir
from toprope.errors import BadInput
from toprope.project.ge_types import GE_TYPES
from toprope.project.host import DYNAMIC, OperatorDef
from toprope.project.loaded import ProjectOperator, load_project
from toprope.soc import Soc

_INCLUDED = re.compile(r'#\s*include\s*["<](?:[^"<>]*/)?aclnn_(\w+)\.h[">]')
ABSENT, TENSOR, LIST, INT, FLOAT, BOOL, TEXT, INTS, FLOATS, BOOLS, SCALAR = range(11)
_ATTRIBUTE_TYPES = {
    "int": "int64_t", "float": "double", "bool": "bool", "string": "const char*", "list_int": "const aclIntArray*",
    "list_float": "const aclFloatArray*", "list_bool": "const aclBoolArray*",
}  # fmt: skip
REFUSED = 161002


class Item(c.Structure):
    """One argument of a call, as acl/aclnn.h lays it out."""

    _fields_ = [
        ("kind", c.c_int32),
        ("output", c.c_int32),
        ("integer", c.c_int64),
        ("number", c.c_double),
        ("data", c.c_void_p),
        ("count", c.c_uint64),
        ("dims", c.POINTER(c.c_int64)),
        ("strides", c.POINTER(c.c_int64)),
        ("type", c.c_int32),
        ("format", c.c_int32),
    ]


class Call(c.Structure):
    """One stage of a call."""

    _fields_ = [
        ("op", c.c_char_p),
        ("items", c.POINTER(Item)),
        ("count", c.c_uint64),
        ("stage", c.c_uint64),
        ("workspace", c.c_uint64),
        ("file", c.c_char_p),
        ("line", c.c_int),
        ("us", c.c_double),
    ]


HOOK = c.CFUNCTYPE(c.c_int, c.POINTER(Call))


def wanted(texts: Sequence[str]) -> list[str]:
    """The operators whose aclnn headers the sources include, such as add_custom."""
    return list(dict.fromkeys(name for text in texts for name in _INCLUDED.findall(text) if name != "base"))


def with_generated(text: str, operators: Collection[str]) -> str:
    """The text with includes of a repository's own aclnn headers (../op_api/aclnn_abs.h) turned to the generated ones."""
    return _INCLUDED.sub(lambda m: f'#include "aclnn_{m[1]}.h"' if m[1] in operators else m[0], text)


def projects_for(names: Sequence[str], given: Sequence[Path], around: Sequence[Path]) -> dict[str, ProjectOperator]:
    """Operators by file name (add_custom), loaded from the given projects, else from the folders around the program. Raises BadInput."""
    found: dict[str, ProjectOperator] = {}
    folders = [*given, *(f for start in around for f in _projects_near(start))]
    for name in names:
        for folder in dict.fromkeys(f.resolve() for f in folders):
            if not any((folder / "op_kernel").glob(f"{name}*.cpp")):
                continue
            operator = load_project(folder)
            operators = operator.project.operators.values()
            match = [o for o in operators if header_name(o.definition) == name]
            if match:
                found[name] = match[0]
                break
        else:
            raise BadInput(
                f"the program includes aclnn_{name}.h, and no operator project for it was found",
                cure="name its folder: toprope run main.cpp --project FOLDER (the one with op_host and op_kernel)",
            )
    return found


def _projects_near(start: Path) -> list[Path]:
    """Folders with op_host and op_kernel: those above `start`, and beside them."""
    found = []
    for above in list(start.resolve().parents)[:3]:
        for folder in (above, *sorted(above.glob("*"))):
            if (folder / "op_host").is_dir() and (folder / "op_kernel").is_dir():
                found.append(folder)
    return found


def header_name(of: OperatorDef) -> str:
    """AddCustom -> add_custom, as the vendor names the header."""
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", of.type).lower()


def header(of: OperatorDef) -> str:
    """The text of aclnn_<name>.h: both stages of one operator; inputs, then attributes, then outputs, then the answers."""
    parameters, collected = [], []
    for i, t in enumerate((*of.inputs, *of.outputs)):
        role = "input" if i < len(of.inputs) else "output"
        kind = "aclTensorList" if t.mode == DYNAMIC else "aclTensor"
        parameters.append(f"const {kind}* t{i}")
        collected.append(f".{role}(t{i})")
    values = []
    for i, a in enumerate(of.attributes):
        if a.kind not in _ATTRIBUTE_TYPES:
            raise BadInput(f"attribute {a.name} of {of.type} is {a.kind}, which no aclnn call takes", cure="remove it")
        values.append(f"{_ATTRIBUTE_TYPES[a.kind]} a{i}")
        collected.append(f".value(a{i})")
    n = len(of.inputs)
    declared = ", ".join(
        [*parameters[:n], *values, *parameters[n:], "uint64_t* workspaceSize", "aclOpExecutor** executor"]
    )
    name = f"aclnn{of.type}"
    sized = f"{name}GetWorkspaceSize"
    return (
        f'#pragma once\n#include "aclnn/acl_meta.h"\ninline aclnnStatus {sized}({declared}) {{\n'
        f'    return toprope::aclnn::Plan("{of.type}"){"".join(collected)}.plan(workspaceSize, executor);\n}}\n'
        f"inline aclnnStatus {name}(void* workspace, uint64_t workspaceSize, aclOpExecutor* executor, aclrtStream stream) {{\n"
        f"    return toprope::aclnn::execute(workspace, workspaceSize, executor, stream);\n}}\n"
        f"#define {sized}(...) toprope_at(__FILE__, __LINE__, {sized})(__VA_ARGS__)\n"
        f"#define {name}(...) toprope_at(__FILE__, __LINE__, {name})(__VA_ARGS__)\n"
    )


def header_folder(operators: dict[str, ProjectOperator]) -> list[Path]:
    """The folder with the generated headers, for the compiler's include path; none if there are no operators."""
    if not operators:
        return []
    texts = {f"aclnn_{name}.h": header(o.definition) for name, o in operators.items()}
    folder = cache_dir() / ("aclnn-" + hashlib.sha256(json.dumps(texts).encode()).hexdigest()[:16])
    (folder / "aclnnop").mkdir(parents=True, exist_ok=True)
    for name, text in texts.items():
        for path in (folder / name, folder / "aclnnop" / name):
            if not path.exists():
                path.write_text(text)
    return [folder]


class Calls:
    """The hook of both stages. `say` gets what happened, in the form of a launch."""

    def __init__(self, operators: dict[str, ProjectOperator], soc: Soc, say: Any) -> None:
        self.operators = {o.name: o for o in operators.values()}
        self.soc, self.say = soc, say

    def __call__(self, pointer: Any) -> int:
        call = pointer.contents
        where = {"file": (call.file or b"").decode(), "line": call.line}
        try:
            operator = self.operators[(call.op or b"").decode()]
            groups = _grouped(call.items[: call.count])
            n, m = len(operator.definition.inputs), len(operator.definition.outputs)
            tensors, given = groups[: n + m], groups[n + m :]
            attributes = {
                a.name: v
                for a, group in zip(operator.definition.attributes, given, strict=True)
                if (v := _value(group[0])) is not None
            }
            if call.stage == 1:
                call.workspace = self._plan(operator, tensors, attributes)
            else:
                self._run(operator, tensors, attributes, call, where)
        except Exception as error:  # nothing may fly into the C++ caller
            self.say({"refused": str(error), **where})
            return REFUSED
        return 0

    def _plan(self, operator: ProjectOperator, tensors: list[list[Item]], attributes: dict[str, Any]) -> int:
        of = operator.definition
        n = len(of.inputs)
        shapes: list[Any] = []
        dtypes = []
        for d, group in zip(of.inputs, tensors[:n], strict=True):
            found = [_shape(i) for i in _tensors(group)]
            shapes.append(found if d.mode == DYNAMIC else found[0] if found else None)
            dtypes.append(next((GE_TYPES[i.type].name for i in _tensors(group)), "float32"))
        values = {
            d.name: _array(_tensors(g)[0])
            for d, g in zip(of.inputs, tensors[:n], strict=True)
            if d.value_depends and _tensors(g)
        }
        outputs = [[_shape(i) for i in _tensors(g)] for g in tensors[n:]]
        if of.has_infer_shape and all(len(o) == 1 for o in outputs):
            # The call's own tensors count; inference, where it says anything, must agree with them.
            inferred = operator.infer_shape(shapes=shapes, dtypes=dtypes, soc=self.soc, values=values, **attributes)
            for info, (shape,) in zip(inferred, outputs, strict=True):
                if info.shape and math.prod(info.shape) != math.prod(shape):
                    raise BadInput(
                        f"output {info.name} of {of.type} is {list(info.shape)}, the tensor given for it is {list(shape)}"
                    )
        tiling = operator.tiling(
            shapes=shapes,
            dtypes=dtypes,
            soc=self.soc,
            values=values,
            output_shapes=[o[0] for o in outputs] if all(len(o) == 1 for o in outputs) else None,
            **attributes,
        )
        return tiling.workspace_bytes

    def _run(
        self, operator: ProjectOperator, tensors: list[list[Item]], attributes: dict[str, Any], call: Call, where: Any
    ) -> None:
        of = operator.definition
        n = len(of.inputs)
        inputs: list[Any] = []
        for d, group in zip(of.inputs, tensors[:n], strict=True):
            arrays = [_array(i) for i in _tensors(group)]
            inputs.append(arrays if d.mode == DYNAMIC else arrays[0] if arrays else None)
        targets = [_array(i) for g in tensors[n:] for i in _tensors(g)]
        in_place = {d.name for d in of.inputs} & {d.name for d in of.outputs}
        out = None if in_place else [np.array(t) for t in targets]  # what the kernel leaves out stays as it was
        done = operator.run(*inputs, soc=self.soc, out=out, **attributes)
        results = [a for v in done.outputs.values() for a in (v if isinstance(v, list) else [v])]
        for target, result in zip(targets, results, strict=True):
            target[...] = np.asarray(result).reshape(target.shape)
        call.us = float(done.time_us)
        row = {"kernel": of.type, "blocks": done.tiling.block_dim, "microseconds": call.us, **where}
        self.say({"launch": row, "findings": [asdict(f) | {"data": {}} for f in done.findings]})


def _grouped(items: Sequence[Item]) -> list[list[Item]]:
    """Arguments one by one; a list with its members."""
    out, i = [], 0
    while i < len(items):
        members = items[i].count if items[i].kind == LIST else 0
        out.append(list(items[i : i + 1 + members]))
        i += 1 + members
    return out


def _tensors(group: Sequence[Item]) -> list[Item]:
    return [i for i in group if i.kind == TENSOR]


def _shape(item: Item) -> tuple[int, ...]:
    return tuple(item.dims[: item.count])


def _array(item: Item) -> np.ndarray[Any, Any]:
    """The tensor's elements in device memory, where they are."""
    kind = GE_TYPES[item.type].numpy
    if kind is None:
        raise BadInput(f"a tensor of type {GE_TYPES[item.type]} cannot be held here")
    shape = _shape(item)
    steps = list(item.strides[: item.count]) if item.strides else []
    if not steps:
        steps = [math.prod(shape[k + 1 :]) for k in range(len(shape))]
    elements = 1 + sum((s - 1) * t for s, t in zip(shape, steps, strict=True)) if all(shape) else 0
    memory: Any = (
        (c.c_uint8 * max(1, elements * kind.itemsize)).from_address(item.data or 0) if elements else bytearray(1)
    )
    return np.ndarray(shape, kind, buffer=memory, strides=[t * kind.itemsize for t in steps])


def _value(item: Item) -> Any:
    """An attribute as Python has it; None: left to its default."""
    arrays: dict[int, Any] = {INTS: c.c_int64, FLOATS: c.c_float, BOOLS: c.c_uint8}
    if item.kind in arrays:
        values = c.cast(item.data, c.POINTER(arrays[item.kind]))[: item.count] if item.count else []
        return [bool(v) for v in values] if item.kind == BOOLS else list(values)
    if item.kind == TEXT:
        return (c.cast(item.data, c.c_char_p).value or b"").decode()
    if item.kind == SCALAR:
        kind = GE_TYPES[item.type].numpy
        memory: Any = (c.c_uint8 * 16).from_address(item.data or 0)
        return None if kind is None else np.ndarray((), kind, buffer=memory).item()
    return {INT: item.integer, BOOL: bool(item.integer), FLOAT: item.number}.get(item.kind)
