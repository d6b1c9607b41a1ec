"""What the layer test looks at: who imports, includes or reaches whom, read from the sources."""

from __future__ import annotations

import ast
import posixpath
import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "toprope"
_CODE = {".py", ".h", ".hpp", ".cpp"}
_INCLUDE = re.compile(r'^\s*#\s*include\s*"([^"]+)"', re.M)
_MODULE = re.compile(r"toprope(\.\w+)+")


def sources(root: Path, *suffixes: str) -> list[Path]:
    return sorted(p for p in root.rglob("*") if p.suffix in suffixes and "__pycache__" not in p.parts)


def unit_of(path: Path) -> str:
    """The first name below toprope/: a folder, or a file without its ending."""
    return path.relative_to(PACKAGE).parts[0].partition(".")[0]


def units() -> set[str]:
    """Every unit that the tree has: a folder with code in it, a module or a header of its own."""
    return {unit_of(p) for p in sources(PACKAGE, *_CODE)} - {"__init__"}


def imports(path: Path, text: str | None = None, *, named: bool = True) -> Iterator[tuple[int, str]]:
    """(line, full module name) of all that a Python file imports, also inside functions, behind TYPE_CHECKING, or (`named`) in a string.

    A relative import comes out with its dots in front.
    """
    for node in ast.walk(ast.parse(path.read_text() if text is None else text)):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, a.name) for a in node.names)
        elif isinstance(node, ast.ImportFrom):
            module = "." * node.level + (node.module or "")
            # `from toprope import x`: x may be a module
            yield from ((node.lineno, f"{module}.{a.name}") for a in node.names)
        elif named and isinstance(node, ast.Constant) and isinstance(node.value, str) and _MODULE.fullmatch(node.value):
            yield node.lineno, node.value


def includes(path: Path, text: str | None = None) -> Iterator[Path]:
    """The files that a C++ file includes between quotes, as paths; those that are no file of ours are left out."""
    for name in _INCLUDE.findall(path.read_text() if text is None else text):
        for folder in (path.parent, PACKAGE / "ascendc", PACKAGE / "ascendc" / "host"):
            found = Path(posixpath.normpath(folder / name))
            if found.is_file():
                yield found
                break


def reached(path: Path, text: str | None = None) -> list[tuple[int, Path]]:
    """(line, place) that a module names from its own place in the tree: Path(__file__).parent / "x" and the like."""
    found: list[tuple[int, Path]] = []

    def visit(node: ast.AST) -> None:
        place = _place(node, path)
        if place is not None:
            found.append((getattr(node, "lineno", 0), place))
            return
        for child in ast.iter_child_nodes(node):
            visit(child)

    visit(ast.parse(path.read_text() if text is None else text))
    return found


def _place(node: ast.AST, path: Path) -> Path | None:
    """The place that an expression names, as far as it is written out; None if it does not begin at __file__."""
    match node:
        case ast.Name(id="__file__"):
            return path
        case ast.Call(func=ast.Name(id="Path") | ast.Attribute(attr="Path"), args=[inner]):
            return _place(inner, path)
        case ast.Call(func=ast.Attribute(attr="resolve" | "absolute", value=inner)):
            return _place(inner, path)
        case ast.Call(func=ast.Attribute(attr="with_name", value=inner), args=[name]):
            start = _place(inner, path)
            return start and (start.parent / name.value if isinstance(name, ast.Constant) else start.parent)
        case ast.Attribute(attr="parent", value=inner):
            start = _place(inner, path)
            return start and start.parent
        case ast.Subscript(value=ast.Attribute(attr="parents", value=inner), slice=ast.Constant(value=int(n))):
            start = _place(inner, path)
            return start and start.parents[n]
        case ast.BinOp(op=ast.Div(), left=inner, right=ast.Constant(value=str(name))):
            start = _place(inner, path)
            return start and start / name
    return None


def import_cycles(graph: dict[str, set[str]]) -> list[list[str]]:
    """Groups of names that reach one another."""
    number: dict[str, int] = {}
    lowest: dict[str, int] = {}
    stack: list[str] = []
    found: list[list[str]] = []

    def visit(name: str) -> None:
        number[name] = lowest[name] = len(number)
        stack.append(name)
        for other in graph.get(name, ()):
            if other not in number:
                visit(other)
            if other in stack:
                lowest[name] = min(lowest[name], lowest[other])
        if lowest[name] == number[name]:
            group = [stack.pop()]
            while group[-1] != name:
                group.append(stack.pop())
            if len(group) > 1:
                found.append(sorted(group))

    for name in graph:
        if name not in number:
            visit(name)
    return found
