"""Names of a kernel's author beside names of emitted text: what collides gets a number in the text, nowhere else."""

from __future__ import annotations

import ast
import copy
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from toprope.tile.expressions import Source
from toprope.tile.language import Param

# C++ 17, and the macros that Ascend C's headers define.
KEYWORDS = frozenset(
    [
        "alignas",
        "alignof",
        "and",
        "and_eq",
        "asm",
        "auto",
        "bitand",
        "bitor",
        "bool",
        "break",
        "case",
        "catch",
        "char",
        "char16_t",
        "char32_t",
        "class",
        "compl",
        "const",
        "const_cast",
        "constexpr",
        "continue",
        "decltype",
        "default",
        "delete",
        "do",
        "double",
        "dynamic_cast",
        "else",
        "enum",
        "explicit",
        "export",
        "extern",
        "false",
        "float",
        "for",
        "friend",
        "goto",
        "half",
        "if",
        "inline",
        "int",
        "long",
        "mutable",
        "namespace",
        "new",
        "noexcept",
        "not",
        "not_eq",
        "nullptr",
        "operator",
        "or",
        "or_eq",
        "private",
        "protected",
        "public",
        "register",
        "reinterpret_cast",
        "return",
        "short",
        "signed",
        "sizeof",
        "static",
        "static_assert",
        "static_cast",
        "struct",
        "switch",
        "template",
        "this",
        "thread_local",
        "throw",
        "true",
        "try",
        "typedef",
        "typeid",
        "typename",
        "union",
        "unsigned",
        "using",
        "virtual",
        "void",
        "volatile",
        "wchar_t",
        "while",
        "xor",
        "xor_eq",
        "std",
        "AscendC",
        "main",
        "NULL",
        "INFINITY",
        "NAN",
        "assert",
        "GM_ADDR",
    ]
)


@dataclass(frozen=True)
class Renamed:
    """A kernel as it is lowered: its source and arrays under names that the emitted text does not use itself."""

    source: Source
    params: dict[str, Param]
    names: Mapping[str, str]  # the author's name -> the one in the text, where they differ

    def here(self, name: str) -> str:
        """An author's name as the text has it."""
        return self.names.get(name, name)


def without_collisions(source: Source, params: dict[str, Param], text_of: Callable[[Renamed], str]) -> Renamed:
    """The author's names, but for those that `text_of` would use for something else: it is asked once with names that nobody uses."""
    arrays = {*params, *(d.name for p in params.values() for d in p.dims)}
    mine = arrays | (_assigned(source.node) & KEYWORDS)  # other local names are numbered where they collide
    marked = _renamed(source, params, {n: f"{n}_OfTheAuthor" for n in mine})
    code = re.sub(r"//.*|\"[^\"]*\"", "", text_of(marked))
    own = code[
        code.find("class ") :
    ]  # the kernel's own part; of the fixed functions in front of it only their names count
    words = re.findall(r"[A-Za-z_]\w*", own) + re.findall(r"inline \w+ (\w+)\(", code)
    taken = {w for w in words if not w.endswith("_OfTheAuthor")} - {source.node.name}
    found: dict[str, str] = {}
    for name in sorted(mine & (taken | KEYWORDS)):
        other = f"{name}_0"
        while other in taken | mine | set(found.values()):
            other += "0"
        found[name] = other
    entry = source.node.name
    if entry[:1].isupper() or entry in KEYWORDS | taken:  # as functions of Ascend C are called
        found[entry] = f"{entry}_kernel"
    return _renamed(source, params, found)


def _assigned(node: ast.FunctionDef) -> set[str]:
    return {n.id for n in ast.walk(node) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}


def _renamed(source: Source, params: dict[str, Param], names: Mapping[str, str]) -> Renamed:
    if not names:
        return Renamed(source, params, {})
    own = {*params, *_assigned(source.node)}  # a dimension may have the name of a tile size

    class Names(ast.NodeTransformer):
        def visit_Name(self, node: ast.Name) -> ast.AST:
            node.id = names.get(node.id, node.id) if node.id in own else node.id
            return node

        def visit_arg(self, node: ast.arg) -> ast.AST:
            node.arg = names.get(node.arg, node.arg) if node.arg in own else node.arg
            return node

    tree: ast.FunctionDef = Names().visit(copy.deepcopy(source.node))
    tree.name = names.get(tree.name, tree.name)
    arrays = {
        names.get(k, k): replace(p, dims=tuple(replace(d, name=names.get(d.name, d.name)) for d in p.dims))
        for k, p in params.items()
    }
    return Renamed(Source(tree, source.file, source.names), arrays, dict(names))
