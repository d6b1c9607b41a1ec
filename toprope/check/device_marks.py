"""Functions that a kernel calls and that are not marked __aicore__: they compile here, and not with the vendor's compiler."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from toprope.cpp import Function, read
from toprope.finding import Finding, Place, codes
from toprope.source import local_files

_MARK = re.compile(r"__aicore__|\baicore\b|__simd_vf__|__simd_callee__|__simt_vf__|__simt_callee__")
_MACRO = re.compile(r"^[ \t]*#[ \t]*define[ \t]+(\w+)(?:\\\r?\n|[^\n])*?(?:__aicore__|\baicore\b)", re.M)


def unmarked_functions(path: Path) -> list[Finding]:
    """A warning for each entry of the kernel at `path`, and each member function that it calls, that does not say it runs on a core.

    The rule is the vendor's: what is not marked __aicore__ is a host function, which device code cannot call. Looked at are entries, and
    members of classes that have marked members as well; not `constexpr` ones, and no name of which any function is marked. Who calls whom is
    read from the text, not compiled.
    """
    texts = dict(local_files(path))
    macros = {name for text in texts.values() for name in _MACRO.findall(text)}
    found = [(file, f, _marked(f, text, macros)) for file, text in texts.items() for f in _bodies(text)]
    on_core = "\n".join(f.body or "" for _, f, marked in found if marked or f.is_kernel)
    right = {f.name for _, f, marked in found if marked}
    owners = {f.owner for _, f, marked in found if marked and f.owner}
    row = codes()["missing-aicore"]
    out = []
    for file, f, marked in found:
        called = (
            f.owner in owners and f.name not in right and re.search(rf"\b{f.name}\s*(?:<[^;(){{}}]*>\s*)?\(", on_core)
        )
        if not marked and (f.is_kernel or called):
            what = "the kernel" if f.is_kernel else "a function that the kernel calls,"
            place = Place(str(file), f.line, f.name, "", "")
            message = f"{f.full_name} is {what} and is not marked __aicore__"
            out.append(Finding(row.name, row.severity, message, (place,), row.cure))
    return out


def _bodies(text: str) -> Iterator[Function]:
    return (f for f in read(text).functions if f.body is not None and f.name != "main" and re.fullmatch(r"\w+", f.name))


def _marked(function: Function, text: str, macros: set[str]) -> bool:
    if _MARK.search(function.marks) or "constexpr" in function.returns or "__host__" in function.marks:
        return True
    head = text.split("\n")[max(0, function.first - 2) : function.line]
    words = set(re.findall(r"\w+", "\n".join(head)))
    return bool(words & macros) or "constexpr" in words
