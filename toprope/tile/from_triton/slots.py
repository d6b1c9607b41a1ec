"""Lines of an emitted Triton program and the buffers that they use: liveness over nested loops, rings for what comes and goes, one arena."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field

from toprope.dtypes import Dtype

REPEAT_BYTES = 256
_RINGS = {"in": "VECIN", "out": "VECOUT"}


@dataclass(eq=False)
class Slot:
    """Bytes of one value. `home`: arena, numbers (kept defined beyond its lanes), in or out (a ring of its own queue)."""

    number: int
    dtype: Dtype
    lanes: int
    bytes: int
    home: str
    label: str = ""
    line: int = 0  # of the Python source
    loaded: bool = False
    variable: bool = False
    first: int = -1
    last: int = -1
    offset: int = 0
    ring: int = 0
    alias: Slot | None = None

    def __str__(self) -> str:
        return f"\x01{self.number}\x02"

    @property
    def root(self) -> Slot:
        """The slot whose bytes it has."""
        return self.alias.root if self.alias is not None else self


@dataclass(eq=False)
class Line:
    """One line of C++. `defines` is declared in front of it; `in_place`: its result may lie where an operand lay."""

    text: str
    depth: int
    scope: tuple[int, ...]
    uses: tuple[Slot, ...] = ()
    defines: Slot | None = None
    in_place: bool = False
    copies: tuple[Slot, Slot] | None = None  # (to, from) of a plain copy that may turn out needless
    frees: list[Slot] = field(default_factory=list)


class Listing:
    """Lines in order, with the loops and branches they stand in."""

    def __init__(self) -> None:
        self.lines: list[Line] = []
        self.slots: list[Slot] = []
        self.regions: list[tuple[int, int, bool]] = []  # (first line, last line, is a loop)
        self.returns: list[int] = []
        self.scope: list[int] = []
        self._opened: list[tuple[int, bool]] = []
        self._scopes = 0

    def slot(self, dtype: Dtype, lanes: int, home: str, line: int, *, bits: bool = False) -> Slot:
        """A new value's bytes, in whole repeats so that comparisons may run over its end."""
        size = -(-lanes // 8) if bits else -(-lanes * dtype.bits // 8)
        made = Slot(len(self.slots), dtype, lanes, -(-size // REPEAT_BYTES) * REPEAT_BYTES, home, line=line)
        self.slots.append(made)
        return made

    def add(
        self, text: str, uses: tuple[Slot, ...] = (), defines: Slot | None = None, *, in_place: bool = False,
        copies: tuple[Slot, Slot] | None = None,
    ) -> None:  # fmt: skip
        """Append one line."""
        depth = len(self.scope)
        self.lines.append(Line(text, depth, tuple(self.scope), uses, defines, in_place, copies))

    def open(self, text: str, *, loop: bool, uses: tuple[Slot, ...] = ()) -> None:
        """A line that opens a block."""
        self.add(text, uses)
        self._opened.append((len(self.lines) - 1, loop))
        self._scopes += 1
        self.scope.append(self._scopes)

    def close(self, text: str = "}") -> None:
        """The line that closes it."""
        first, loop = self._opened.pop()
        self.scope.pop()
        self.add(text)
        self.regions.append((first, len(self.lines) - 1, loop))

    def otherwise(self) -> None:
        """From a branch to its else."""
        self.close("} else {")
        self._opened.append((len(self.lines) - 1, False))
        self._scopes += 1
        self.scope.append(self._scopes)

    def mark(self, line: int) -> None:
        """What follows comes from a line of the source."""
        self.add(f"\x05{line}")

    # ---- placement ---------------------------------------------------------------------------------------------------

    def place(self) -> None:
        """Drop needless copies, find how long every value lives, and give each its bytes."""
        self._intervals()
        for n, line in enumerate(self.lines):
            if line.copies is not None:
                self._without_copy(n, line)
                self._intervals()
        self._free_rings()
        for home in ("arena", "numbers"):
            self._pack(home)
        for home in _RINGS:
            self._share_rings(home)

    def _intervals(self) -> None:
        for s in self.slots:
            s.first = s.last = -1
        for n, line in enumerate(self.lines):
            for s in (*line.uses, *((line.defines,) if line.defines else ())):
                r = s.root
                r.first = n if r.first < 0 else r.first
                r.last = n
        for s in self.slots:
            s.last = self._stretched(s.first, s.last, whole=s.home in _RINGS)

    def _stretched(self, first: int, last: int, *, whole: bool) -> int:
        """To the end of the loops that it enters; a ring's buffer also to the end of a branch."""
        before = -1
        while before != last:  # a branch's end is its else's beginning
            before = last
            for begin, end, loop in self.regions:
                if first < begin <= last < end and (loop or whole):
                    last = end
        return last

    def _without_copy(self, n: int, line: Line) -> None:
        """A value goes straight to where it is copied: an output buffer, or a loop variable that is not read any more."""
        assert line.copies is not None
        to, source = line.copies[0].root, line.copies[1].root
        if source is to or source.home in _RINGS or source.last != n or (source.variable and not to.variable):
            return
        made = next(
            (k for k, other in enumerate(self.lines) if other.defines is not None and other.defines.root is source), -1
        )
        if made < 0 or source.lanes != to.lanes or source.dtype is not to.dtype:
            return
        if to.variable:
            if not self._can_write_variable(to, source, made, n):
                return
        elif source.home != "arena" or self.lines[made].scope != line.scope or any(made < r < n for r in self.returns):
            return
        source.alias = to
        line.text, line.copies, line.uses = "", None, (to,)

    def _can_write_variable(self, to: Slot, source: Slot, made: int, n: int) -> bool:
        """Whether no line between still reads the variable's old value."""
        if to.first == n:  # its first value: the variable begins where that was made
            return self.lines[made].scope == self.lines[n].scope and not source.variable
        if source.variable or self.lines[made].scope != self.lines[n].scope:
            return False
        reads = [k for k in range(made, n) if any(u.root is to for u in self.lines[k].uses)]
        return not reads or (reads == [made] and self.lines[made].in_place)

    def _free_rings(self) -> None:
        """Buffers of rings are given back after their last use, and before every return that they would live through."""
        for s in self.slots:
            if s.alias is None and s.home == "in" and s.first >= 0:
                self.lines[s.last].frees.append(s)
                for r in self.returns:
                    if s.first < r < s.last:
                        self.lines[r].frees.append(s)

    def _live(self, home: str) -> list[Slot]:
        return sorted(
            (s for s in self.slots if s.alias is None and s.home == home and s.first >= 0), key=lambda s: s.first
        )

    def _pack(self, home: str) -> None:
        """Offsets by liveness, first fit."""
        placed: list[Slot] = []
        for s in self._live(home):
            in_place = self.lines[s.first].in_place
            busy = sorted(
                (p.offset, p.offset + p.bytes) for p in placed
                if p.last > s.first or (p.last == s.first and not (in_place and p.bytes == s.bytes))
            )  # fmt: skip
            at = 0
            for begin, end in busy:
                if at + s.bytes <= begin:
                    break
                at = max(at, end)
            s.offset = at
            placed.append(s)

    def _share_rings(self, home: str) -> None:
        """A ring for each buffer that is alive at the same time as others."""
        until: list[int] = []
        for s in self._live(home):
            s.ring = next((n for n, last in enumerate(until) if last < s.first), len(until))
            until[s.ring : s.ring + 1] = [s.last]

    # ---- what came out -----------------------------------------------------------------------------------------------

    def bytes_of(self, home: str) -> int:
        """Bytes of the arena or of the numbers."""
        return max((s.offset + s.bytes for s in self._live(home)), default=0)

    def rings(self) -> list[tuple[str, str, int]]:
        """(name, position, bytes of a buffer) of every ring."""
        found: dict[tuple[str, int], int] = {}
        for home in _RINGS:
            for s in self._live(home):
                found[(home, s.ring)] = max(found.get((home, s.ring), 0), s.bytes)
        return [(f"{home}{n}", _RINGS[home], size) for (home, n), size in found.items()]

    def names(self, taken: set[str]) -> dict[int, str]:
        """A C++ name for every slot, its Python name where that is free."""
        found: dict[int, str] = {}
        for s in self.slots:
            r = s.root
            if r.number not in found:
                base = re.sub(r"\W+", "_", r.label or s.label or f"t{r.number}")
                name, k = base, 2
                while name in taken:
                    name, k = f"{base}{k}", k + 1
                taken.add(name)
                found[r.number] = name
            found[s.number] = found[r.number]
        return found

    def text(self, indent: str, taken: set[str], comment: Callable[[int], list[str]]) -> list[str]:
        """The lines as C++; `comment` gives what stands in front of a source line's work."""
        names, found = self.names(set(taken)), list[str]()
        declared: set[int] = set()
        marked: tuple[str, list[str]] = ("", [])
        for n, line in enumerate(self.lines):
            pad = indent + "    " * line.depth
            if line.text.startswith("\x05"):
                marked = (pad, comment(int(line.text[1:])))
                continue
            if (line.text or line.frees) and marked[1] and not line.text.startswith("}"):
                found += [c if c.startswith("#") else marked[0] + c for c in marked[1]]
                marked = ("", [])
            for s in (line.defines, *line.uses):
                if s is not None and s.root.number not in declared and s.root.first == n:
                    declared.add(s.root.number)
                    found.append(pad + _declaration(s.root))
            frees = [f"{pad}in{s.ring}.FreeTensor({s});" for s in line.frees]
            text = [pad + line.text] if line.text else []
            found += [*frees, *text] if line.text == "return;" else [*text, *frees]
        rings = {s.number: f"{s.root.home}{s.root.ring}" for s in self.slots}
        whole = "\n".join(found)
        whole = re.sub("\x03(\\d+)\x04", lambda m: rings[int(m[1])], whole)
        return re.sub("\x01(\\d+)\x02", lambda m: names[int(m[1])], whole).split("\n")


def ring_of(s: Slot) -> str:
    """The name of a slot's ring, as a token that becomes one when rings are shared out."""
    return f"\x03{s.number}\x04"


def _declaration(s: Slot) -> str:
    if s.home in _RINGS:
        return f"LocalTensor<{s.dtype.cpp}> {s} = {s.home}{s.ring}.AllocTensor<{s.dtype.cpp}>();"
    return f"LocalTensor<{s.dtype.cpp}> {s} = {s.home}.GetWithOffset<{s.dtype.cpp}>({s.bytes * 8 // s.dtype.bits}, {s.offset});"
