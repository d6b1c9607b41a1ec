"""Which function of a C++ source a line belongs to, found from its braces: enough for a flame graph, no compiler needed."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path

# Comments, string and character literals, preprocessor lines: none of their braces count.
_NOISE = re.compile(
    r"""//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"|'(?:\\[^\n']+|[^'\\\n])'|^[ \t]*\#(?:[^\n]*\\\n)*[^\n]*""",
    re.DOTALL | re.MULTILINE,
)
_CALLABLE = re.compile(r"(~?\w+(?:::~?\w+)*|operator\s*\S+?)\s*\(")
_NOT_A_NAME = {"alignas", "decltype", "requires", "noexcept", "__attribute__", "__launch_bounds__", "explicit"}
_ACCESS = re.compile(r"^\s*(?:public|private|protected)\s*:(?!:)")
_CLASS = re.compile(r"\b(?:class|struct|union)\s+(\w+)(?=[^()]*$)")


@dataclass(frozen=True)
class Function:
    """A function definition: its name with the class before it, and its first and last line."""

    name: str
    first: int
    last: int


def functions(text: str) -> list[Function]:
    """Every function definition of a source text, in order of its last line."""
    code = _NOISE.sub(lambda m: "\n" * m.group().count("\n") or " ", text)
    found: list[Function] = []
    scopes: list[tuple[str, str, int]] = []  # kind (class, function, block), name, first line
    head_begin = 0
    for mark in re.finditer(r"[{};]", code):
        head, head_begin = code[head_begin : mark.start()], mark.end()
        head = _ACCESS.sub("", head)
        if mark.group() == "{":
            inside = any(kind == "function" for kind, _, _ in scopes)
            kind, name = ("block", "") if inside else _what(head)
            classes = [n for k, n, _ in scopes if k == "class"]
            first = code.count("\n", 0, mark.start() - len(head.lstrip())) + 1
            scopes.append((kind, "::".join([*classes, name]) if kind == "function" else name, first))
        elif mark.group() == "}" and scopes:
            kind, name, first = scopes.pop()
            if kind == "function":
                found.append(Function(name, first, code.count("\n", 0, mark.start()) + 1))
    return found


def _what(head: str) -> tuple[str, str]:
    """What a brace after this text opens, and its name."""
    head = re.sub(r"\btemplate\s*<[^{}()]*>", "", head)
    names = [m.group(1) for m in _CALLABLE.finditer(head) if m.group(1) not in _NOT_A_NAME]
    if names and "=" not in head[: head.index("(")]:
        return "function", names[0]
    named = _CLASS.search(head)
    return ("class", named.group(1)) if named else ("block", "")


def enclosing(file: str, line: int) -> str:
    """The function around a line, "" where there is none or the file cannot be read."""
    return next((f.name for f in _of_file(file) if f.first <= line <= f.last), "")


@cache
def _of_file(file: str) -> list[Function]:
    try:
        return functions(Path(file).read_text(errors="replace"))
    except OSError:
        return []
