"""Bytes that hang on sizes known at the launch: sums of products of names, printed for the kernel and evaluated by the host."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

Term = tuple[str, ...]  # names of which the product is taken, in order; () is the constant


@dataclass(frozen=True)
class Amount:
    """A sum of coefficients times products of names."""

    terms: tuple[tuple[Term, int], ...] = ()

    @staticmethod
    def of(value: int, *names: str) -> Amount:
        """`value` times the product of names."""
        return Amount(((tuple(sorted(names)), value),)) if value else Amount()

    def __add__(self, other: Amount) -> Amount:
        found = dict(self.terms)
        for term, c in other.terms:
            found[term] = found.get(term, 0) + c
        return Amount(tuple(sorted(found.items())))

    def __mul__(self, factor: int) -> Amount:
        return Amount(tuple((term, c * factor) for term, c in self.terms)) if factor else Amount()

    def most(self, other: Amount) -> Amount:
        """At least as much as either, whatever the names stand for."""
        mine, theirs = dict(self.terms), dict(other.terms)
        return Amount(tuple(sorted((t, max(mine.get(t, 0), theirs.get(t, 0))) for t in mine.keys() | theirs.keys())))

    def covers(self, other: Amount) -> bool:
        """Whether it is at least as much, whatever the names stand for."""
        mine = dict(self.terms)
        return all(mine.get(t, 0) >= c for t, c in other.terms)

    def at(self, values: Mapping[str, int]) -> int:
        """The number for some values of the names."""
        total = 0
        for term, c in self.terms:
            for name in term:
                c *= values[name]
            total += c
        return total

    @property
    def names(self) -> set[str]:
        """The names that it hangs on."""
        return {n for term, _ in self.terms for n in term}

    @property
    def text(self) -> str:
        """An expression of C++ and Python alike."""
        return (
            " + ".join(" * ".join([*term, *([] if c == 1 and term else [str(c)])]) for term, c in reversed(self.terms))
            or "0"
        )

    def __bool__(self) -> bool:
        return bool(self.terms)


NOTHING = Amount()


def most_of(amounts: list[Amount]) -> Amount:
    """At least as much as each of them."""
    found = Amount()
    for a in amounts:
        found = found.most(a)
    return found
