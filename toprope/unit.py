"""The text that stands for a source in a compile: as it is, or with what an ordinary C++ compiler does not take put into plain C++.

Two things need it: launches in triple chevrons, and kernels named like a function of the C library, which its headers declare.
"""

from __future__ import annotations

import ctypes
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from toprope import brackets
from toprope.build import quoted
from toprope.cpp import read, strip_comments
from toprope.errors import BadInput
from toprope.source import local_files

_INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*"([^"]+)"[^\n]*', re.M)
_RUN_MACRO = r"\bICPU_RUN_KF\s*\(\s*"
RENAMED = "toprope_entry_"
"""What the name of a kernel begins with in a compile, if the C library has a function of its own name."""


@cache
def in_c_library(name: str) -> bool:
    """Whether the C or mathematics library of this machine has a function of that name, which its headers may declare."""
    try:
        return any(hasattr(library, name) for library in (ctypes.CDLL(None), _mathematics()))
    except OSError:
        return False


@cache
def _mathematics() -> ctypes.CDLL:
    try:
        return ctypes.CDLL("libm.so.6")
    except OSError:
        return ctypes.CDLL(None)


def symbol_of(entry: str) -> str:
    """The name that a kernel has in a compile: its own, or another where its own is the C library's."""
    return RENAMED + entry if in_c_library(entry) else entry


def text_of(file: Path, include: tuple[Path, ...] = ()) -> str:
    """What a translation unit has to contain for a source: an include of it, or its text where that must be changed.

    An included file of its folder or of `include` that must be changed stands in its include's place.
    """
    return expanded(file, set(), include) if _needs_change(file) else f"#include {quoted(file.resolve())}\n"


def expanded(file: Path, seen: set[Path], include: tuple[Path, ...] = ()) -> str:
    """The file as plain C++; an included file that must be changed, itself or further down, stands in its include's place."""
    seen.add(file.resolve())
    text = rewritten(file.read_text(errors="replace"), str(file))

    def replaced(match: re.Match[str]) -> str:
        found = ((folder / match[1]).resolve() for folder in (file.parent, *include))
        target = next((f for f in found if f.is_file()), None)
        if target is None or not _needs_change(target):
            return match[0]
        inner = "" if target in seen else expanded(target, seen, include)
        line = text.count("\n", 0, match.start()) + 2
        return f"{inner}\n#line {line - 1} {literal(file)}"

    return f"#line 1 {literal(file)}\n{_INCLUDE.sub(replaced, text)}\n"


def literal(path: str | Path) -> str:
    """A path as a C++ string literal, which the name in a #line directive is."""
    return '"' + str(path).replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n") + '"'


def _needs_change(file: Path) -> bool:
    return any("<<<" in text or bool(_renamed_in(text)) for _, text in local_files(file))


def _renamed_in(bare: str) -> list[str]:
    """The kernels that a text without comments defines or declares under names of the C library."""
    return (
        [n for n in dict.fromkeys(f.name for f in read(bare).kernels) if in_c_library(n)]
        if "__global__" in bare
        else []
    )


def rewritten(text: str, file: str) -> str:
    """`kernel<<<blocks, l2ctrl, stream>>>(...)` as a call, kernels under their names in a compile; lines stay where they are.

    Raises BadInput with the line of a launch that cannot be read.
    """
    text = _with_other_names(text)
    bare = strip_comments(text)
    out, copied = [], 0
    for begin, name_at, end in _configurations(bare, file):
        line = bare.count("\n", 0, begin) + 1
        inside = brackets.split(bare[begin + 3 : end], "()[]")
        if len(inside) not in (1, 2, 3):
            raise BadInput(
                f"{file}:{line}: a launch has {len(inside)} settings",
                cure="write kernel<<<blocks, nullptr, stream>>>(arguments)",
            )
        blocks, l2, stream = (*inside, "nullptr", "nullptr")[:3]
        out.append(text[copied:name_at])
        lines = "\n" * bare.count("\n", name_at, end + 3)
        out.append(f"TOPROPE_LAUNCH({bare[name_at:begin].strip()})(__FILE__, {line}, {blocks}, {l2}, {stream}){lines}")
        copied = end + 3
    return "".join([*out, text[copied:]])


def _with_other_names(text: str) -> str:
    """Kernels that are named like functions of the C library under another name, where they are defined, declared and launched."""
    bare = strip_comments(text)
    places = {f.at for f in read(bare).kernels if in_c_library(f.name)} if "__global__" in bare else set()
    for launch in re.finditer(rf"\b(\w+)\s*(?:<<<)|{_RUN_MACRO}(\w+)", bare):
        name = launch[1] or launch[2]
        if in_c_library(name):
            places.add(launch.start(1) if launch[1] else launch.start(2))
    for at in sorted(places, reverse=True):
        text = text[:at] + RENAMED + text[at:]
    return text


def _configurations(bare: str, file: str) -> Iterator[tuple[int, int, int]]:
    """Of each launch: where `<<<` is, where the kernel's name begins, where `>>>` is."""
    at = bare.find("<<<")
    while at >= 0:
        line_begin = bare.rfind("\n", 0, at) + 1
        end = bare.find(">>>", at)
        in_string = bare.count('"', line_begin, at) % 2 == 1
        if not in_string and end > 0:
            name_at = _name_before(bare, at)
            if name_at == at:
                raise BadInput(
                    f"{file}:{bare.count(chr(10), 0, at) + 1}: no kernel stands before <<<",
                    cure="write kernel<<<blocks, nullptr, stream>>>(arguments)",
                )
            yield at, name_at, end
            at = end
        at = bare.find("<<<", at + 3)


def _name_before(text: str, at: int) -> int:
    """Where a kernel's name with its template arguments and namespaces begins that ends before `at`."""
    begin = at
    while True:
        stripped = len(text[:begin].rstrip())
        if stripped and text[stripped - 1] == ">" and text[stripped - 2] != "-":
            depth, i = 0, stripped
            while i > 0:
                i -= 1
                depth += text[i] == ">"
                depth -= text[i] == "<"
                if depth == 0:
                    break
            begin = i
            continue
        match = re.search(r"(?:::\s*)?[A-Za-z_]\w*(?:\s*::\s*[A-Za-z_]\w*)*\s*$", text[max(0, begin - 400) : begin])
        if match is None or match[0].strip() in ("return", "template"):
            return begin
        begin -= len(match[0])
        if match[0].startswith("::") and not re.search(r"[\w>]\s*$", text[:begin]):
            return begin  # a name of the global namespace
        if not match[0].startswith("::"):
            return begin + len(match[0]) - len(match[0].lstrip())
