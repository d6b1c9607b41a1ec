"""A checkout as its own build sees it: sibling operators flattened, tiling structs of host code as plain structs."""

from __future__ import annotations

import contextlib
import hashlib
import itertools
import os
import re
from collections.abc import Iterator
from functools import cache, cached_property
from pathlib import Path

from toprope.cache import cache_dir
from toprope.cpp import read, strip_comments
from toprope.project.operators import Operator, find_operators
from toprope.tiling import MacroStruct, macro_structs
from toprope.vendor_paths import INCLUDE

_CPU_ONLY = re.compile(r"^\s*#\s*ifdef\s+__CCE_KT_TEST__.*?^\s*#\s*(?:else|undef|define|endif)", re.S | re.M)


class Checkout:
    """The operators of one repository and what they share."""

    def __init__(self, root: Path) -> None:
        self.root = root.resolve()
        self.operators = find_operators(self.root)
        self._texts: dict[Path, str] = {}

    def text(self, file: Path) -> str:
        """A source without comments, read once."""
        if file not in self._texts:
            self._texts[file] = strip_comments(file.read_text(errors="replace"))
        return self._texts[file]

    def include_folders(self, operator: Operator) -> list[Path]:
        """Folders for -I, so that "../X/f.h" finds X/op_kernel/f.h as in the vendor's flattened build tree."""
        flat = self._flat_tree(operator.folder.parent)
        folders = [
            operator.kernel_folder,
            flat / "_here",
            flat / "_here" / "_deeper",
            operator.folder,
            operator.folder.parent,
            operator.folder.parent / "common" / "op_kernel",
            self.root / "common" / "inc" / "op_kernel",
            self.root / "common" / "inc",
            self.root / "common" / "include",
            self.root / "common" / "include" / "kernel",
            self.root / "common",
            self.root,
        ]
        return [f for f in folders if f.is_dir()]

    def _flat_tree(self, area: Path) -> Path:
        """A folder of links <operator> -> its op_kernel; operators beside the asking one win over others of the same name."""
        key = hashlib.sha256(f"{self.root}|{area}".encode()).hexdigest()[:12]
        tree = cache_dir() / "checkouts" / key
        if (tree / "_here" / "_deeper").is_dir():
            return tree
        chosen: dict[str, Path] = {}
        near = sorted(self.operators, key=lambda o: (o.folder.parent != area, "experimental" in o.label))
        for operator in near:
            chosen.setdefault(operator.name, operator.kernel_folder)
        # Folders of shared code that are no operator: <area>/<name> holding headers only.
        for folder in sorted(f for f in area.iterdir() if f.is_dir()):
            chosen.setdefault(folder.name, folder)
        tree.mkdir(parents=True, exist_ok=True)
        for name, target in chosen.items():
            link = tree / name
            if not link.is_symlink():
                with contextlib.suppress(FileExistsError):  # another process makes the same tree
                    os.symlink(target, link)
        (tree / "_here" / "_deeper").mkdir(parents=True, exist_ok=True)
        return tree

    def reached(self, file: Path, include: list[Path]) -> Iterator[Path]:
        """The file and what it includes from this checkout, each once (conditional includes count)."""
        queue, seen = [file.resolve()], set()
        while queue:
            current = queue.pop()
            if current in seen:
                continue
            seen.add(current)
            yield current
            for name in read(self.text(current)).includes:
                for folder in (current.parent, *include):
                    candidate = folder / name
                    if candidate.is_file():
                        queue.append(candidate.resolve())
                        break

    @cached_property
    def _headers(self) -> dict[str, list[Path]]:
        """File name -> where headers of that name are."""
        found: dict[str, list[Path]] = {}
        for folder, _, files in os.walk(self.root):
            for name in files:
                if name.endswith((".h", ".hpp")):
                    found.setdefault(name, []).append(Path(folder) / name)
        return found

    def folder_of_header(self, name: str, operator: Operator) -> Path | None:
        """The folder to search so that #include "name" is found, nearest to the operator; None if the checkout has no such header."""
        plain = name.lstrip("./")
        places = [f for f in self._headers.get(Path(plain).name, []) if f.as_posix().endswith("/" + plain)]
        if not places:
            return None
        here = operator.folder.parts

        def rank(file: Path) -> tuple[bool, int, int, str]:
            shared = sum(1 for _ in itertools.takewhile(lambda p: p[0] == p[1], zip(here, file.parts, strict=False)))
            return ("arch35" in file.parts or "tests" in file.parts, -shared, len(file.parts), str(file))

        best = min(places, key=rank)
        folder = best.parents[plain.count("/")]
        # "../op_kernel/x.h": the search begins as many folders further down, in folders of the header's own path.
        down = folder.joinpath(*Path(plain).parts[: name.split(plain)[0].count("../")])
        return down if down.is_dir() else folder

    @cached_property
    def _tiling_index(self) -> dict[str, list[tuple[Path, MacroStruct]]]:
        """Struct name -> the files that define it with the tiling macros, and what they define."""
        index: dict[str, list[tuple[Path, MacroStruct]]] = {}
        for file in sorted(self.root.rglob("*")):
            if file.suffix not in {".h", ".hpp", ".cpp"} or "op_api" in file.parts or not file.is_file():
                continue
            text = file.read_text(errors="replace")
            if "REGISTER_TILING_DATA_CLASS" in text:
                self.text(file)
            if "TILING_DATA_DEF" in text:
                for each in macro_structs(self.text(file)):
                    index.setdefault(each.name, []).append((file, each))
        return index

    def tiling_header(self, operator: Operator, kernel: Path, include: list[Path]) -> str:
        """The header that the vendor's build generates from the host's tiling macros: plain structs and the default struct."""
        # Headers of another generation are reached through an inactive #if.
        texts = [self.text(f) for f in self.reached(kernel, include) if not {"arch35", "v35"} & set(f.parts)]
        whole = _CPU_ONLY.sub("", "\n".join(texts))
        plain = {r.name for r in read(whole).records}
        words = set(re.findall(r"\b\w+\b", whole))
        prefix = f"{operator.folder}/"
        own = [n for n, places in self._tiling_index.items() if any(str(f).startswith(prefix) for f, _ in places)]
        mentioned = [n for n in self._tiling_index if n in words and n not in own]
        lines: list[str] = []
        done = set(plain)
        default = self._default_struct(operator, own)
        for name in (*own, *mentioned, *([default] if default else [])):
            self._emit(name, operator, lines, done, ())
        emitted = default in done - plain or default in _vendor_structs()
        get = "#undef GET_TILING_DATA\n#define GET_TILING_DATA(data, argument) GET_TILING_DATA_WITH_STRUCT({}, data, argument)\n"
        if default and emitted:
            # A function with its own REGISTER_TILING_DEFAULT keeps it; elsewhere the host's registration counts.
            lines.append(f"using TopropeUnitTiling = {default};\n#undef REGISTER_TILING_DEFAULT\n")
            lines.append("#define REGISTER_TILING_DEFAULT(TilingStruct) using TopropeUnitTiling = TilingStruct\n")
            lines.append(get.format("TopropeUnitTiling"))
        elif default in plain and "REGISTER_TILING_DEFAULT" not in whole:
            lines.append(get.format(default))  # the kernel's own headers define it, perhaps in a namespace
        elif (
            not default
            and len(named := {c.arguments[0] for c in read(whole).calls("REGISTER_TILING_DEFAULT")}) == 1
            and named <= plain
        ):
            lines.append(get.format(named.pop()))  # named by the entry, used in headers before it
        return '#include "kernel_tiling/kernel_tiling.h"\n' + "".join(lines) if lines else ""

    def _emit(self, name: str, operator: Operator, lines: list[str], done: set[str], outer: tuple[str, ...]) -> None:
        if name in done or name in outer or name not in self._tiling_index or name in _vendor_structs():
            return
        place = min(self._tiling_index[name], key=lambda p: _distance(p[0], operator))
        members = []
        for kind, member, size in place[1].members:
            self._emit(kind, operator, lines, done, (*outer, name))  # a struct within, if it is one
            array = f"[{self._number(size, place[0])}]" if size != "1" else ""
            members.append(f"{kind} {member}{array}{{}};")
        done.add(name)
        lines.append(f"struct alignas(8) {name} {{ {' '.join(members)} }};\n")

    def _number(self, text: str, file: Path) -> str:
        """An array size as a number: constants of the file and of what it includes are looked up, arithmetic is left to the compiler."""
        for _ in range(4):
            names = set(re.findall(r"\b[A-Za-z_]\w*\b", text.replace("::", "_")))
            if not names:
                break
            text = re.sub(r"\b(?:\w+::)+", "", text)
            for name in sorted(names):
                if value := self._constant(name.split("__")[-1], file):
                    text = re.sub(rf"\b{name}\b", f"({value})", text)
        return text

    def _constant(self, name: str, file: Path) -> str:
        folders = [file.parent, file.parent.parent, self.root]
        for source in (file, *self.reached(file, folders)):
            if found := read(self.text(source)).constants.get(name):
                return re.sub(r"\b(\d+)[uUlL]+\b", r"\1", found)
        return ""

    @cached_property
    def _registered(self) -> dict[str, list[tuple[Path, str]]]:
        """Operator type in lower case -> the structs registered for it, with their files."""
        found: dict[str, list[tuple[Path, str]]] = {}
        for file, text in self._texts.items():
            for call in read(text).calls("REGISTER_TILING_DATA_CLASS"):
                if len(call.arguments) == 2:
                    found.setdefault(call.arguments[0].lower(), []).append((file, call.arguments[1]))
        return found

    def _default_struct(self, operator: Operator, own: list[str]) -> str:
        places = self._registered.get(operator.name.replace("_", "").lower(), [])
        if places:
            return min(places, key=lambda p: _distance(p[0], operator))[1]
        near = [p for found in self._registered.values() for p in found if p[1] in own and "arch35" not in p[0].parts]
        return near[0][1] if near else own[0] if own else ""


def _distance(file: Path, operator: Operator) -> tuple[bool, bool, bool, int, str]:
    same = operator.folder in file.parents
    return (not same, "arch35" in file.parts, "tests" in file.parts, len(file.parts), str(file))


@cache
def _vendor_structs() -> frozenset[str]:
    return frozenset(r.name for r in read(strip_comments((INCLUDE / "lib" / "tiling_structs.h").read_text())).records)
