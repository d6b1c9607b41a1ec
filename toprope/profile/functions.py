"""Which function of a C++ source a line belongs to: enough for a flame graph, no compiler needed."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from toprope.cpp import Function, read, strip_comments


def functions(text: str) -> list[Function]:
    """Every function definition of a source text, in order of its last line."""
    return sorted(read(strip_comments(text)).functions, key=lambda f: f.last)


def enclosing(file: str, line: int) -> str:
    """The function around a line with the classes before it, "" where there is none or the file cannot be read."""
    return next((f.full_name for f in _of_file(file) if f.first <= line <= f.last), "")


@cache
def _of_file(file: str) -> list[Function]:
    try:
        return functions(Path(file).read_text(errors="replace"))
    except OSError:
        return []
