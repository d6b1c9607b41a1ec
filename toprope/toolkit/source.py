"""The text of a host program: is it one, which kernels does it launch, and its launch syntax in plain C++."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from toprope import cpp
from toprope.errors import BadInput, BadKernel
from toprope.source import Entry, Parameter, entries, local_files

_LAUNCHED = re.compile(r"\bACLRT_LAUNCH_KERNEL\s*\(\s*(\w+)\s*\)|\baclrtlaunch_(\w+?)(?:\.h\"|\s*\()")
SOURCES = (".cpp", ".asc", ".cce", ".cc", ".cxx")


def is_program(path: Path) -> bool:
    """Whether a source file has a main function, so that it runs as a program and not as a single kernel."""
    if path.suffix not in SOURCES or not path.is_file():
        return False
    text = path.read_text(errors="replace")
    return "main" in text and any(
        f.name == "main" and not f.owner for f in cpp.read(cpp.strip_comments(text)).functions
    )


@dataclass(frozen=True)
class Program:
    """What a program's sources say.

    folders   include folders, the sources' own
    entries   kernels in these sources by name
    by_name   names of kernels that are launched by name (ACLRT_LAUNCH_KERNEL)
    launched  those of them that lie elsewhere
    headers   the texts of the sources and of what they include from their own folders
    """

    folders: tuple[Path, ...]
    entries: dict[str, Entry]
    by_name: tuple[str, ...]
    launched: tuple[str, ...]
    headers: tuple[str, ...] = ()


def read(sources: Sequence[Path]) -> Program:
    """Read a program. Raises BadInput for a file that is missing."""
    found: dict[str, Entry] = {}
    launched: dict[str, None] = {}
    folders: dict[Path, None] = {}
    headers: list[str] = []
    for source in sources:
        if not source.is_file():
            raise BadInput(f"there is no file {source}", cure="check the path")
        folders[source.resolve().parent] = None
        for file, text in local_files(source):
            headers.append(text)
            launched |= {a or b: None for a, b in _LAUNCHED.findall(text)}
            found |= {e.name: e for e in kernels(file)}
    return Program(tuple(folders), found, tuple(launched), tuple(n for n in launched if n not in found), tuple(headers))


def kernels(file: Path) -> list[Entry]:
    """The kernels that a file defines; none for one that only declares them."""
    try:
        return entries(file) if "__global__" in file.read_text(errors="replace") else []
    except BadKernel:
        return []


def kernel_source(name: str, given: Sequence[Path], around: Sequence[Path]) -> Path:
    """The file that defines kernel `name`: among the given sources, else in the folders around the program. Raises BadInput."""
    mark = re.compile(rf"\b{re.escape(name)}\s*\(")
    candidates = list(given)
    for folder in around:
        for root in (folder, folder.parent):
            candidates += [f for f in sorted(root.glob("*")) + sorted(root.glob("*/*")) if f.suffix in SOURCES]
    for file in dict.fromkeys(f.resolve() for f in candidates):
        text = file.read_text(errors="replace") if file.is_file() and file.stat().st_size < 4 << 20 else ""
        if "__global__" in text and mark.search(text) and any(e.name == name for e in kernels(file)):
            return file
    raise BadInput(
        f"the program launches {name}, and no source with that kernel was found",
        cure=f"name it: toprope run main.cpp {name}.cpp",
    )


def launch_header(entry: Entry) -> str:
    """aclrtlaunch_<name>.h: the function that the vendor's build generates for a kernel."""
    known = re.compile(r"^(?:(?:const )?(?:u?int(?:8|16|32|64)_t|float|double|bool|int|unsigned|size_t|half|char))$")
    generic = [i for i, p in enumerate(entry.parameters) if not p.is_pointer and not known.match(p.type)]
    template = f"template <{', '.join(f'typename T{i}' for i in generic)}>\n" if generic else ""

    def declared(i: int, p: Parameter) -> str:
        return f"void* a{i}" if p.is_pointer else f"T{i} a{i}" if i in generic else f"{p.type} a{i}"

    parameters = "".join(f", {declared(i, p)}" for i, p in enumerate(entry.parameters))
    values = ", ".join(f"a{i}" for i in range(len(entry.parameters)))
    return (
        f'#pragma once\n#include "acl/launch.h"\n{template}inline uint32_t aclrtlaunch_{entry.name}'
        f"(uint32_t blocks, aclrtStream stream{parameters}) {{\n"
        f'    return toprope::program::launch_values("", "{entry.name}", nullptr, blocks, stream, std::make_tuple({values}));\n}}\n'
    )
