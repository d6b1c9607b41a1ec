"""aclnn functions of operator projects: which a program wants, where their projects are, and the header that a definition gives."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Collection, Sequence
from pathlib import Path

from toprope.cache import cache_dir
from toprope.errors import BadInput
from toprope.project.host import DYNAMIC, OperatorDef
from toprope.project.loaded import ProjectOperator, load_project

_INCLUDED = re.compile(r'#\s*include\s*["<](?:[^"<>]*/)?aclnn_(\w+)\.h[">]')
_ATTRIBUTE_TYPES = {
    "int": "int64_t", "float": "double", "bool": "bool", "string": "const char*", "list_int": "const aclIntArray*",
    "list_float": "const aclFloatArray*", "list_bool": "const aclBoolArray*",
}  # fmt: skip


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


def header(of: OperatorDef, *, inline: bool = True) -> str:
    """The text of aclnn_<name>.h: both stages of one operator; inputs, then attributes, then outputs, then the answers.

    Without `inline` it only declares them, and `functions` is the text of the library that has them.
    """
    name = f"aclnn{of.type}"
    sized = f"{name}GetWorkspaceSize"
    begin = '#pragma once\n#include "aclnn/acl_meta.h"\n'
    sites = (
        f"#define {sized}(...) TOPROPE_AT({sized})(__VA_ARGS__)\n#define {name}(...) TOPROPE_AT({name})(__VA_ARGS__)\n"
    )
    if inline:
        return f"{begin}{functions(of, 'inline ')}{sites}"
    first, second = _declarations(of)
    return f'{begin}#ifdef __cplusplus\nextern "C" {{\n#endif\n{first};\n{second};\n#ifdef __cplusplus\n}}\n#endif\n{sites}'


def functions(of: OperatorDef, before: str = "") -> str:
    """The definitions of both stages of one operator, with `before` in front of each."""
    collected = []
    n = len(of.inputs)
    for i, _ in enumerate(of.inputs):
        collected.append(f".input(t{i})")
    collected += [f".value(a{i})" for i, _ in enumerate(of.attributes)]
    collected += [f".output(t{n + i})" for i, _ in enumerate(of.outputs)]
    first, second = _declarations(of)
    name = f"aclnn{of.type}"
    return (
        f'{before}{first} {{\n    return toprope::aclnn::Plan("{name}"){"".join(collected)}.plan(workspaceSize, executor);\n}}\n'
        f'{before}{second} {{\n    return toprope_execute("{name}", workspace, workspaceSize, executor, stream);\n}}\n'
    )


def _declarations(of: OperatorDef) -> tuple[str, str]:
    parameters = [
        f"const {'aclTensorList' if t.mode == DYNAMIC else 'aclTensor'}* t{i}"
        for i, t in enumerate((*of.inputs, *of.outputs))
    ]
    values = []
    for i, a in enumerate(of.attributes):
        if a.kind not in _ATTRIBUTE_TYPES:
            raise BadInput(f"attribute {a.name} of {of.type} is {a.kind}, which no aclnn call takes", cure="remove it")
        values.append(f"{_ATTRIBUTE_TYPES[a.kind]} a{i}")
    n = len(of.inputs)
    declared = ", ".join(
        [*parameters[:n], *values, *parameters[n:], "uint64_t* workspaceSize", "aclOpExecutor** executor"]
    )
    return (
        f"aclnnStatus aclnn{of.type}GetWorkspaceSize({declared})",
        f"aclnnStatus aclnn{of.type}(void* workspace, uint64_t workspaceSize, aclOpExecutor* executor, aclrtStream stream)",
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
