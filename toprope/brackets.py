"""Text of C++ and signatures by its brackets."""

from __future__ import annotations


def split(text: str, pairs: str = "<>(){}[]") -> list[str]:
    """The parts between commas that stand in no bracket of `pairs`, stripped; empty parts are left out."""
    opening, closing = pairs[::2], pairs[1::2]
    parts, depth, begin = [], 0, 0
    for i, letter in enumerate(text):
        depth += (letter in opening) - (letter in closing)
        if letter == "," and depth == 0:
            parts.append(text[begin:i])
            begin = i + 1
    return [part.strip() for part in [*parts, text[begin:]] if part.strip()]


def closing(text: str, opening: int) -> int:
    """Where the bracket at `opening` is closed; -1 if it is not."""
    begin = text[opening]
    end = {"(": ")", "{": "}", "<": ">", "[": "]"}[begin]
    depth = 0
    for i in range(opening, len(text)):
        depth += (text[i] == begin) - (text[i] == end)
        if depth == 0:
            return i
    return -1


def inside(text: str, opening: int) -> str:
    """What stands between the bracket at `opening` and its end; "" if it has none."""
    end = closing(text, opening)
    return text[opening + 1 : end] if end >= 0 else ""
