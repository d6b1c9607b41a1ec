"""Compiling the host sources of an operator project: one object a file, one shared library, both cached by content."""

from __future__ import annotations

import ctypes
import hashlib
import os
import re
import subprocess
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path

from toprope.build import FLAGS, GCC_FLAGS, compiler, header_folders, host_folders, shared_library
from toprope.cache import cache_dir
from toprope.errors import CompileFailed
from toprope.project.checkout import Checkout
from toprope.project.errors import MissingHeader, MissingHostSource
from toprope.project.operators import Operator
from toprope.vendor_paths import INCLUDE

HOST = INCLUDE / "host"
_OTHER_GENERATION = re.compile(r"arch(?!22\b|32\b)\d\d|_apt\b|regbase|_950\b")
_NOT_HOST = {"op_api", "op_graph", "tests", "config", "examples"}
_NO_SUCH = re.compile(r"(\S+): No such file")
_FLAGS = ("-O1", "-fpermissive", "-DTOPROPE_HOST=1")


def host_sources(folder: Path, *, every_generation: bool = False) -> list[Path]:
    """The C++ files of op_host that define, infer and tile, those of other chip generations left out unless asked for."""
    host = folder / "op_host"
    found = []
    for file in sorted(host.rglob("*.cpp")):
        inside = file.relative_to(host)
        if _NOT_HOST & set(inside.parts):
            continue
        if every_generation or not _OTHER_GENERATION.search(inside.as_posix()):
            found.append(file)
    return found


def shared_sources(
    checkout: Checkout, operator: Operator, own: Sequence[Path], *, every_generation: bool = False
) -> list[Path]:
    """Sources beside the operator's folder that register functions for its types, as families of operators share them.

    every_generation: those too that add tiling classes for other chips.
    """
    if checkout.root == operator.folder:
        return []
    texts = [checkout.text(f) for f in own]
    types = {name for text in texts for name in re.findall(r"\bOP_ADD\s*\(\s*(\w+)", text)}
    macro = r"(?:IMPL_OP|REGISTER_\w*TILING_TEMPLATE)" if every_generation else "IMPL_OP"
    registers = re.compile(rf"\b{macro}\w*\s*\(\s*(?:{'|'.join(sorted(types))})\s*[,)]")
    words = ("IMPL_OP", "TILING_TEMPLATE") if every_generation else ("IMPL_OP",)
    found = []
    for file in sorted(operator.folder.parent.glob("*/op_host/*.cpp")) if types else []:
        if operator.folder not in file.parents and (every_generation or not _OTHER_GENERATION.search(file.name)):
            text = file.read_text(errors="replace")
            if any(word in text for word in words) and registers.search(checkout.text(file)):
                found.append(file)
    return found


def host_library(checkout: Checkout, operator: Operator, sources: Iterable[Path], extra: tuple[str, ...] = ()) -> Path:
    """Compile (with `extra` flags) and link the sources with the C entry points. Raises CompileFailed, MissingHeader, MissingHostSource."""
    todo = list(sources)
    ahead = precompiled()
    with ThreadPoolExecutor(2) as pool:
        objects = list(pool.map(lambda s: compiled(checkout, operator, s, extra), todo))
    objects.append(shared_library('#include "host/entry.h"\n', include=host_folders(), extra=("-c", *_FLAGS, *ahead)))
    for _ in range(6):
        library = shared_library("// host code of an operator project\n", link=objects)
        missing = _undefined(library)
        if not missing:
            return library
        more = [f for f in _sources_that_define(checkout, operator, missing) if f not in todo]
        if not more:
            break
        todo += more
        objects += [compiled(checkout, operator, f, extra) for f in more]
    raise MissingHostSource(
        f"{operator.label}: host code uses {missing}, which no source of op_host defines",
        cure="add the source that defines it to op_host, or correct the name",
    )


def compiled(checkout: Checkout, operator: Operator, source: Path, extra: tuple[str, ...] = ()) -> Path:
    """The object of one host source. Raises CompileFailed, MissingHeader."""
    # The project's own headers come first: a repository may bring what opbase otherwise provides.
    include = [source.parent, operator.folder / "op_host", operator.folder, *checkout.include_folders(operator)]
    include += host_folders()
    while True:
        try:
            return shared_library(source, include=include, extra=("-c", *_FLAGS, *precompiled(), *extra))
        except CompileFailed as error:
            missing = _NO_SUCH.search(error.message)
            if missing is None:
                raise
            folder = checkout.folder_of_header(missing.group(1), operator)
            if folder is None or folder in include:
                place = next((line for line in error.message.splitlines() if "No such file" in line), "")
                raise MissingHeader(
                    f"{source.name} includes {missing.group(1)}, which is nowhere in the project ({place.split(': ')[0]})",
                    cure="add the header, or generate it first if the build makes it; the host API's own headers come with toprope",
                ) from None
            include.append(folder)


_HEADERS = ("register/op_def_registry.h", "tiling/tiling_api.h", "log/log.h", "algorithm", "sstream")


@cache
def precompiled() -> tuple[str, ...]:
    """Flags that let a compile begin with the host API read already: reading it is most of the time of a host source."""
    if not compiler().is_gcc:
        return ()
    digest = hashlib.sha256(repr((FLAGS, GCC_FLAGS, _FLAGS, compiler().version)).encode())
    for file in sorted([*HOST.rglob("*.h"), *(INCLUDE / "lib").glob("*.h")]):
        digest.update(file.read_bytes())
    header = cache_dir() / "precompiled" / digest.hexdigest()[:16] / "host_header.h"
    if not header.with_suffix(".h.gch").exists():
        header.parent.mkdir(parents=True, exist_ok=True)
        header.write_text("".join(f"#include <{name}>\n" for name in _HEADERS))
        partial = header.with_name(f"{os.getpid()}.gch")
        folders = [f"-I{p}" for p in (*header_folders(), *host_folders())]
        command = [*compiler().command, *FLAGS, *_FLAGS, *GCC_FLAGS, *folders, "-x", "c++-header"]
        subprocess.run([*command, str(header), "-o", str(partial)], capture_output=True, check=False)
        if partial.exists():
            os.replace(partial, header.with_suffix(".h.gch"))
    return ("-include", str(header))


def _undefined(library: Path) -> str:
    """A symbol that keeps the library from loading, readable; "" if none does."""
    try:
        ctypes.CDLL(str(library))
    except OSError as error:
        found = re.search(r"undefined symbol: (\S+)", str(error))
        if found is None:
            raise
        return readable(found.group(1))
    return ""


def readable(symbol: str) -> str:
    """The C++ name behind a mangled one, without parameters: _ZN8optiling3FooEv -> optiling::Foo."""
    parts, at = [], 0
    body = re.sub(r"^_Z(TV|TI|TS|GV)?N?K?", "", symbol)
    while found := re.match(r"(\d+)", body[at:]):
        begin = at + found.end()
        parts.append(body[begin : begin + int(found.group(1))])
        at = begin + int(found.group(1))
    return "::".join(parts) or symbol


def _sources_that_define(checkout: Checkout, operator: Operator, name: str) -> list[Path]:
    """Host sources elsewhere in the checkout that seem to define a function or class member, the nearest only."""
    parts = name.split("::")
    last = parts[-1]
    owner = parts[-2] if len(parts) > 1 else ""
    pattern = re.compile(rf"\b(?:{re.escape(owner)}\s*::\s*)?{re.escape(last)}\s*\([^;{{]*\)[^;{{]*\{{")
    candidates = []
    for file in checkout.root.rglob("*.cpp"):
        if "op_host" not in file.parts or _NOT_HOST & set(file.parts):
            continue
        if last in (text := file.read_text(errors="replace")) and pattern.search(text):
            candidates.append(file)
    here = operator.folder.parts

    def rank(file: Path) -> tuple[int, int, str]:
        shared = sum(a == b for a, b in zip(here, file.parts, strict=False))
        return (-shared, len(file.parts), str(file))

    return sorted(candidates, key=rank)[:1]
