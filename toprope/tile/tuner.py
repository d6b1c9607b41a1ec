"""Choosing tile sizes: every candidate with its predicted time, or with the reason why it has none."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import product

import numpy as np

from toprope.kernel import DEFAULT_SOC
from toprope.tile.kernel import TileKernel
from toprope.tile.language import TileTooLarge, Tune, numpy_of


@dataclass(frozen=True)
class Candidate:
    """One choice of tile sizes, none given where the host chooses: predicted microseconds, or why it was not timed."""

    sizes: dict[str, int]
    microseconds: float | None = None
    reason: str = ""


def tune(kernel: TileKernel, dims: Mapping[str, int], *, soc: str = DEFAULT_SOC, most: int = 8) -> list[Candidate]:
    """All candidates for one shape, fastest first, the others behind with their reasons.

    Each parameter takes a quarter, half, once, twice and four times its default. What does not fit by its exact ledger is not
    compiled; of the rest the `most` nearest to the defaults are compiled and timed without executing (some seconds each).
    """
    names = list(kernel.tunes)
    arrays = [np.zeros([dims[d.name] for d in p.dims], numpy_of(p.dtype)) for p in kernel.params.values()]
    found: list[Candidate] = []
    by_host = kernel.lowered().choice
    if by_host is not None and len(by_host.fields) > 1:  # sizes that nobody gives
        found.append(Candidate({}, round(kernel.run(*arrays, soc=soc, time_only=True).timeline.microseconds, 3)))
    choices = sorted(product(*(_sizes(kernel.tunes[n]) for n in names)), key=lambda c: _distance(kernel, c))
    timed = 0
    for choice in choices:
        sizes = dict(zip(names, choice, strict=True))
        try:
            kernel.emit(soc, **sizes)
        except TileTooLarge as e:
            found.append(Candidate(sizes, reason=e.message.splitlines()[0]))
            continue
        if timed == most:
            found.append(Candidate(sizes, reason=f"not compiled: {most} candidates nearer to the defaults were"))
            continue
        timed += 1
        found.append(
            Candidate(sizes, round(kernel.run(*arrays, soc=soc, time_only=True, **sizes).timeline.microseconds, 3))
        )
    return sorted(found, key=lambda c: (c.microseconds is None, c.microseconds or 0.0))


def _sizes(t: Tune) -> list[int]:
    scaled = (t.default // 4, t.default // 2, t.default, t.default * 2, t.default * 4)
    return sorted({s for s in scaled if s > 1 and s % t.mult == 0})


def _distance(kernel: TileKernel, choice: tuple[int, ...]) -> tuple[float, tuple[int, ...]]:
    steps = (abs(np.log2(size / t.default)) for size, t in zip(choice, kernel.tunes.values(), strict=True))
    return float(sum(steps)), choice
