"""Integer expressions of a Triton kernel as polynomials: sums of program ids, ranges, loop counters and index entries times sizes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from toprope.tile.program import ByIndex

Monomial = tuple[str, tuple[str, ...]]  # an atom ("" for none) and the scalar arguments that multiply it


@dataclass(frozen=True)
class Offsets:
    """`terms`: monomial -> whole factor. Atoms are "pid0", "loop:k", "range:n" and "entry:n"; "@0" or "@1" behind one says its axis."""

    terms: Mapping[Monomial, int]

    @staticmethod
    def number(value: int) -> Offsets:
        """A constant."""
        return Offsets({("", ()): value} if value else {})

    @staticmethod
    def of(atom: str = "", name: str = "") -> Offsets:
        """One atom, or one scalar argument."""
        return Offsets({(atom, (name,) if name else ()): 1})

    @property
    def constant(self) -> int | None:
        """The value, when it is known while reading."""
        if not self.terms:
            return 0
        return self.terms.get(("", ())) if set(self.terms) == {("", ())} else None

    @property
    def is_scalar(self) -> bool:
        """Whether it hangs on scalar arguments only."""
        return all(atom == "" for atom, _ in self.terms)

    def __add__(self, other: Offsets) -> Offsets:
        terms = dict(self.terms)
        for m, c in other.terms.items():
            terms[m] = terms.get(m, 0) + c
        return Offsets({m: c for m, c in terms.items() if c})

    def __sub__(self, other: Offsets) -> Offsets:
        return self + other * Offsets.number(-1)

    def __mul__(self, other: Offsets) -> Offsets:
        terms: dict[Monomial, int] = {}
        for (a, names), c in self.terms.items():
            for (b, more), d in other.terms.items():
                if a and b:
                    raise ValueError("a product of two indices")
                m = (a or b, tuple(sorted(names + more)))
                terms[m] = terms.get(m, 0) + c * d
        return Offsets({m: c for m, c in terms.items() if c})

    def placed(self, axis: int) -> Offsets:
        """Its lanes along an axis of a tile of two dimensions."""
        lanes = ("range:", "entry:")
        return Offsets(
            {(f"{a}@{axis}" if a.startswith(lanes) and "@" not in a else a, n): c for (a, n), c in self.terms.items()}
        )

    def text(self) -> str:
        """Python and C++ text of a scalar."""
        parts = ["*".join([*([str(c)] if c != 1 or not n else []), *n]) for (_, n), c in sorted(self.terms.items())]
        return parts[0] if len(parts) == 1 else f"({' + '.join(parts)})" if parts else "0"


@dataclass(frozen=True)
class Cut:
    """A comparison that masks lanes: `difference` < 0 on the lanes that count."""

    difference: Offsets


@dataclass(frozen=True)
class Place:
    """A pointer: an array at offsets."""

    array: str
    offsets: Offsets


@dataclass
class Atoms:
    """What stands behind the numbered atoms of one kernel."""

    ranges: list[int] = field(default_factory=list)
    entries: list[ByIndex] = field(default_factory=list)
    orders: list[str] = field(default_factory=list)

    def new_range(self, size: int) -> Offsets:
        """tl.arange(0, size)."""
        self.ranges.append(size)
        return Offsets.of(f"range:{len(self.ranges) - 1}")

    def new_entry(self, entry: ByIndex) -> Offsets:
        """Loaded int32 lanes as an index."""
        if entry not in self.entries:
            self.entries.append(entry)
        return Offsets.of(f"entry:{self.entries.index(entry)}")

    def new_order(self, text: str) -> Offsets:
        """A number of program ids and sizes that is no sum, as Python text."""
        if text not in self.orders:
            self.orders.append(text)
        return Offsets.of(f"pid:{self.orders.index(text)}")

    def order_of(self, atom: str) -> str:
        """The text of a program id, or of a number made of them."""
        return self.orders[int(atom[4:])] if atom.startswith("pid:") else atom

    def size(self, atom: str) -> int:
        """Lanes of a range."""
        return self.ranges[int(atom.split(":")[1].split("@")[0])]

    def entry(self, atom: str) -> ByIndex:
        """The index behind an entry."""
        return self.entries[int(atom.split(":")[1].split("@")[0])]
