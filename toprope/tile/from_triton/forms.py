"""Index lanes, masks and comparisons while a Triton program is written down: sums over lane numbers, with C++ text for what a launch gives."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any

from toprope.tile.from_triton.slots import Slot

Text = int | str  # a number, or C++ text of type int64_t


def plus(a: Text, b: Text) -> Text:
    """a + b."""
    if isinstance(a, int) and isinstance(b, int):
        return a + b
    if a == 0:
        return b
    if b == 0:
        return a
    if isinstance(b, int) and b < 0:
        return f"{a} - {-b}"
    return f"{a} + {b}"


def minus(a: Text, b: Text) -> Text:
    """a - b."""
    if isinstance(b, int):
        return plus(a, -b)
    return f"-{factor(b)}" if a == 0 else f"{a} - {factor(b)}"


def times(a: Text, b: Text) -> Text:
    """a * b."""
    if isinstance(a, int) and isinstance(b, int):
        return a * b
    if 0 in (a, b):
        return 0
    if a in (1, "1"):
        return b
    if b in (1, "1"):
        return a
    return f"{factor(a)} * {factor(b)}"


def factor(a: Text) -> str:
    """With parentheses where it is a sum."""
    text = str(a)
    return text if re.fullmatch(r"-?\w+(\.\w+)*(\([^()]*\))?", text) or _wrapped(text) else f"({text})"


def _wrapped(text: str) -> bool:
    """Whether one pair of parentheses goes around all of it."""
    if not text.startswith("("):
        return False
    depth = 0
    for n, c in enumerate(text):
        depth += (c == "(") - (c == ")")
        if depth == 0:
            return n == len(text) - 1
    return False


@dataclass(frozen=True)
class Entries:
    """Loaded whole numbers as part of an index: entry of the lane along `axis`, times `scale`."""

    slot: Slot
    scale: Text
    axis: int


@dataclass(frozen=True)
class Affine:
    """base + sum of strides times lane numbers + entries of index blocks; one stride for each axis."""

    base: Text
    strides: tuple[Text, ...] = ()
    entries: tuple[Entries, ...] = ()

    def plus(self, other: Affine) -> Affine:
        """The sum, axes aligned at the last one."""
        n = max(len(self.strides), len(other.strides))
        a, b = self.of_rank(n), other.of_rank(n)
        strides = tuple(plus(p, q) for p, q in zip(a.strides, b.strides, strict=True))
        return Affine(plus(a.base, b.base), strides, a.entries + b.entries)

    def times(self, number: Text) -> Affine:
        """Everything times one number."""
        entries = tuple(Entries(e.slot, times(e.scale, number), e.axis) for e in self.entries)
        return Affine(times(self.base, number), tuple(times(s, number) for s in self.strides), entries)

    def of_rank(self, n: int) -> Affine:
        """With new axes in front."""
        more = n - len(self.strides)
        return Affine(
            self.base, (0,) * more + self.strides, tuple(Entries(e.slot, e.scale, e.axis + more) for e in self.entries)
        )

    def expanded(self, at: int) -> Affine:
        """With a new axis of one lane at a place."""
        strides = (*self.strides[:at], 0, *self.strides[at:])
        return Affine(
            self.base, strides, tuple(Entries(e.slot, e.scale, e.axis + (e.axis >= at)) for e in self.entries)
        )

    @property
    def slots(self) -> tuple[Slot, ...]:
        """What its entries lie in."""
        return tuple(e.slot for e in self.entries)


@dataclass(frozen=True)
class MaskForm:
    """Lanes that count: along some axes those below a limit, all of them only under some conditions."""

    limits: tuple[tuple[int, str], ...] = ()  # (axis, text)
    conditions: tuple[str, ...] = ()

    def of_rank(self, more: int) -> MaskForm:
        """With new axes in front."""
        return MaskForm(tuple((axis + more, t) for axis, t in self.limits), self.conditions)

    def expanded(self, at: int) -> MaskForm:
        """With a new axis at a place."""
        return MaskForm(tuple((axis + (axis >= at), t) for axis, t in self.limits), self.conditions)

    def plus(self, other: MaskForm) -> MaskForm:
        """Both."""
        return MaskForm(
            tuple(dict.fromkeys(self.limits + other.limits)), tuple(dict.fromkeys(self.conditions + other.conditions))
        )


@dataclass
class BitsForm:
    """A comparison of data: its bits, whether they mean the opposite, and what was compared."""

    slot: Slot
    negated: bool
    name: str
    left: Any
    right: Any


@dataclass
class Home:
    """A block's bytes, and whether masked-off lanes of it hold nothing that Triton defines."""

    slot: Slot
    loose: bool = False
    notes: dict[str, Any] = field(default_factory=dict)
