"""Parameters, the values that they may take, and the points made of them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import product

from toprope.errors import BadInput

Point = Mapping[str, int]
MOST_VALUES = 100_000
"""Of one parameter."""


@dataclass(frozen=True)
class Parameter:
    """A number to choose: its values in ascending order, the one that stands there today, and where the values come from."""

    name: str
    values: tuple[int, ...]
    default: int
    source: str = ""


@dataclass(frozen=True)
class Space:
    """All points: every value of every parameter with every other."""

    parameters: tuple[Parameter, ...]

    @property
    def size(self) -> int:
        """How many points there are."""
        count = 1
        for parameter in self.parameters:
            count *= len(parameter.values)
        return count

    @property
    def default(self) -> dict[str, int]:
        """The point that stands there today."""
        return {p.name: p.default for p in self.parameters}

    def thinned(self, most: int) -> Space:
        """The space with every other value of its longest parameters left out, until it has at most `most` points; defaults stay."""
        space = self
        while space.size > most:
            longest = max(space.parameters, key=lambda p: len(p.values))
            if len(longest.values) < 3:
                break
            fewer = tuple(v for i, v in enumerate(longest.values) if i % 2 == 0 or v == longest.default)
            if fewer == longest.values:
                break
            shorter = replace(longest, values=fewer)
            space = Space(tuple(shorter if p is longest else p for p in space.parameters))
        return space

    def points(self) -> Iterator[dict[str, int]]:
        """Every point, the last parameter running fastest."""
        names = [p.name for p in self.parameters]
        for values in product(*(p.values for p in self.parameters)):
            yield dict(zip(names, values, strict=True))


def ladder(low: int, high: int, multiple: int = 1) -> tuple[int, ...]:
    """Powers of two and their halves in between, from low to high, as far as they are multiples of `multiple`."""
    found = set()
    step = 1
    while step <= high:
        found |= {step, step * 3 // 2} if step > 1 else {step}
        step *= 2
    return tuple(sorted(v for v in found if low <= v <= high and v % multiple == 0))


def parameter_of(text: str) -> Parameter:
    """A parameter as a user writes it: NAME=8,16,32 or NAME=LOW:HIGH (powers of two and halves in between) or NAME=LOW:HIGH:STEP.

    The first value is today's. Raises BadInput.
    """
    name, _, values = text.partition("=")
    if not re.fullmatch(r"[A-Za-z_]\w*", name) or not values:
        raise BadInput(
            f"--parameter {text!r} is not NAME=VALUES", cure="write for example TILE=1024,2048,4096 or TILE=256:8192"
        )
    try:
        if ":" in values:
            low, high, *step = (int(part) for part in values.split(":"))
            if len(step) > 1:
                raise ValueError(values)
            whole = range(low, high + 1, step[0]) if step else ladder(low, high)
            if len(whole) > MOST_VALUES:
                raise BadInput(f"--parameter {text!r} has {len(whole):,} values", cure=f"at most {MOST_VALUES:,}")
            found = tuple(whole)
        else:
            found = tuple(int(part) for part in values.split(","))
    except (ValueError, OverflowError) as error:
        raise BadInput(
            f"--parameter {text!r}: {values!r} are no whole numbers", cure="write for example TILE=256:8192"
        ) from error
    if not found or min(found) < 0 or max(found) >= 1 << 31:
        what = "has no values" if not found else "has values below 0 or beyond 2^31"
        raise BadInput(f"--parameter {text!r} {what}", cure="write for example TILE=256:8192")
    return Parameter(name, tuple(sorted(set(found))), found[0], "given")
