"""Command lines that a C++ test puts together from strings and variables: what the first call of a script looks like.

Understands "text" + name + to_string(name), adjacent strings, variables with a constant, and parameters of a function by the
arguments of its first call.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

_PIECE = re.compile(r'"((?:[^"\\]|\\.)*)"|(?:std::)?to_string\s*\(\s*(\w+)\s*\)|([A-Za-z_]\w*)|(\S)')
_FUNCTION = re.compile(r"\b(\w+)\s*\(([^(){};]*)\)\s*(?:const\s*)?\{")
_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.S)


def commands(script: str, text: str) -> Iterator[str]:
    """What follows the name of `script` in each command built in `text`, everything resolved; others are left out."""
    text = _COMMENT.sub("", text)
    for match in re.finditer(rf'"[^"\n]*{re.escape(script)}', text):
        end = text.find(";", match.end())
        joined = _joined(text[match.start() : end], text, match.start())
        if joined is not None:
            yield joined.partition(script)[2]


def _joined(expression: str, text: str, place: int) -> str | None:
    made, depth = "", 0
    for literal, number, name, other in _PIECE.findall(expression):
        if number or name:
            if name in ("std", "string", "c_str"):
                continue
            value = _value(number or name, text, place)
            if value is None:
                return None
            made += value
        elif other:
            depth += (other == "(") - (other == ")")
            if depth < 0:
                break
            if other not in "+().:":
                return None
        else:
            made += literal
    return made


def _value(name: str, text: str, place: int) -> str | None:
    """The constant that `name` stands for at `place`: its last assignment before, or what the enclosing function is first given."""
    assigned = re.findall(rf'\b{name}\s*(?:=\s*|\{{\s*|\(\s*)("(?:[^"\\]|\\.)*"|-?\d[\w.]*)\s*[;)}}]', text[:place])
    if assigned:
        return _constant(assigned[-1])
    enclosing = [m for m in _FUNCTION.finditer(text[:place]) if re.search(rf"\b{name}\s*(?:,|$)", m[2].strip())]
    if not enclosing:
        return None
    function, parameters = enclosing[-1][1], [p.strip() for p in enclosing[-1][2].split(",")]
    position = next((i for i, p in enumerate(parameters) if re.search(rf"\b{name}$", p)), None)
    call = re.search(rf"\b{function}(?:<[^<>]*>)?\s*\(([^;{{}}]*)\)\s*;", text[enclosing[-1].end() :])
    given = re.findall(r'"(?:[^"\\]|\\.)*"|[^,\s][^,]*', call[1]) if call else []
    return _constant(given[position].strip()) if position is not None and position < len(given) else None


def _constant(word: str) -> str | None:
    if word.startswith('"'):
        return word.strip('"')
    return re.sub(r"[uUlLfF]+$", "", word) if re.fullmatch(r"-?\d[\w.]*", word) else None
