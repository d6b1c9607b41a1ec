"""libopapi: both stages of every aclnn function of the table, and their headers. Which executor answers is decided at run time (plans.py)."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from pathlib import Path

TABLE = Path(__file__).parent / "aclnn_functions.tsv"
# Kind in the table -> C type.
TYPES = {
    "tensor": "aclTensor*", "tensors": "aclTensorList*", "scalar": "const aclScalar*", "scalars": "const aclScalarList*",
    "ints": "const aclIntArray*", "floats": "const aclFloatArray*", "bools": "const aclBoolArray*", "text": "const char*", "int": "int64_t",
    "uint": "uint64_t", "uint32": "uint32_t", "int32": "int32_t", "int8": "int8_t", "bool": "bool", "double": "double", "float": "float",
    "dtype": "aclDataType",
}  # fmt: skip


@dataclass(frozen=True)
class Parameter:
    """One argument of stage one: its kind, its name, and whether it is written."""

    kind: str
    name: str
    written: bool

    @property
    def declared(self) -> str:
        """As C has it, without the name."""
        const = "const " if self.kind in ("tensor", "tensors") and not self.written else ""
        return const + TYPES[self.kind]


@cache
def table() -> dict[str, tuple[Parameter, ...]]:
    """The functions of aclnn_functions.tsv by name."""
    rows = [line.split("\t") for line in TABLE.read_text().splitlines() if line and not line.startswith("#")]
    return {name: tuple(map(_parameter, words.split())) for name, words in rows}


def _parameter(word: str) -> Parameter:
    kind, _, name = word.partition(":")
    return Parameter(kind.rstrip("!"), name, kind.endswith("!"))


def library_text() -> str:
    """The C++ text of libopapi."""
    out = ['#include "acl/aclnn.h"\nusing toprope::aclnn::Plan;\nextern "C" {\n']
    for name, parameters in table().items():
        first, second = _declarations(name, parameters)
        collected = "".join(f".{_role(p)}(a{i})" for i, p in enumerate(parameters))
        out.append(f'{first} {{ return Plan("{name}"){collected}.plan(workspaceSize, executor); }}\n')
        out.append(f'{second} {{ return toprope_execute("{name}", workspace, workspaceSize, executor, stream); }}\n')
    return "".join([*out, "}\n"])


def _role(parameter: Parameter) -> str:
    if parameter.kind in ("tensor", "tensors"):
        return "output" if parameter.written else "input"
    return "value"


def _declarations(name: str, parameters: Iterable[Parameter]) -> tuple[str, str]:
    given = "".join(f"{p.declared} a{i}, " for i, p in enumerate(parameters))
    return (
        f"aclnnStatus {name}GetWorkspaceSize({given}uint64_t* workspaceSize, aclOpExecutor** executor)",
        f"aclnnStatus {name}(void* workspace, uint64_t workspaceSize, aclOpExecutor* executor, aclrtStream stream)",
    )


def header_texts() -> dict[str, str]:
    """Headers by path: one with all declarations, and for each function the name that programs include."""
    begin = '#pragma once\n#include "acl/aclnn.h"\n#ifdef __cplusplus\nextern "C" {\n#endif\n'
    lines = [";\n".join(_declarations(name, parameters)) + ";\n" for name, parameters in table().items()]
    sites = [
        f"#define {stage}(...) TOPROPE_AT({stage})(__VA_ARGS__)\n"
        for n in table()
        for stage in (f"{n}GetWorkspaceSize", n)
    ]
    end = "#ifdef __cplusplus\n}\n#endif\n#ifndef TOPROPE_NO_SITES\n"
    out = {"aclnnop/functions.h": "".join([begin, *lines, end, *sites, "#endif\n"])}
    for name in table():
        for file in _file_names(name):
            out.setdefault(f"aclnnop/{file}", '#pragma once\n#include "aclnnop/functions.h"\n')
    return out


def _file_names(name: str) -> list[str]:
    """aclnnInplaceAddV2 -> aclnn_inplace_add_v2.h, aclnn_add_v2.h, aclnn_add.h; MatMul is written as one word or two."""
    bare = name.removeprefix("aclnn")
    out = []
    for stem in dict.fromkeys([bare, bare.removeprefix("Inplace"), re.sub(r"V\d$", "", bare.removeprefix("Inplace"))]):
        for word in (stem, stem.replace("MatMul", "Matmul")):
            snake = re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", word).lower()
            out.append(f"aclnn_{snake}.h")
    return list(dict.fromkeys(out))
