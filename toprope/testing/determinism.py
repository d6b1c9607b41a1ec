"""Determinism: the same bits again, whatever the repetition, the order of the blocks, or the batch around a row."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from toprope.testing.compare import Verdict, compare
from toprope.testing.elements import Array, as_array

Outputs = Sequence[Any]


@dataclass(frozen=True)
class Determinism:
    """Bitwise agreement of several runs with the first: `runs` pairs a description of each run with its verdicts."""

    kind: str
    runs: tuple[tuple[str, tuple[Verdict, ...]], ...]

    @property
    def passed(self) -> bool:
        """Whether every run gave the bits of the first."""
        return all(verdict.passed for _, verdicts in self.runs for verdict in verdicts)

    def __str__(self) -> str:
        if self.passed:
            return f"{self.kind}: bit-identical in {len(self.runs)} runs"
        lines = [f"{self.kind}: bits differ"]
        for label, verdicts in self.runs:
            for number, verdict in enumerate(verdicts):
                if not verdict.passed:
                    where = f", first at {list(verdict.bad[0].index)}" if verdict.bad else ""
                    lines.append(f"  {label}, output {number}: {verdict.summary()}{where}")
        return "\n".join(lines)


def repeatable(run: Callable[[], Outputs], times: int = 3) -> Determinism:
    """Call `run` `times` times; every output must repeat bit by bit."""
    first = _copies(run())
    return Determinism("repeat", tuple((f"run {i}", _same(run(), first)) for i in range(2, times + 1)))


def order_independent(
    run: Callable[[Sequence[int]], Outputs], blocks: int, tries: int = 3, seed: int = 0
) -> Determinism:
    """Call `run(order)` with blocks 0 ... blocks-1 in natural, reversed and `tries` random orders."""
    first = _copies(run(range(blocks)))
    random = np.random.default_rng(seed)
    orders = [list(range(blocks))[::-1], *(random.permutation(blocks).tolist() for _ in range(tries))]
    return Determinism("block order", tuple((f"order {order}", _same(run(order), first)) for order in orders))


def batch_consistent(
    run: Callable[..., Outputs],
    arrays: Sequence[Any],
    *,
    batched: Sequence[int] | None = None,
    axis: int = 0,
    pieces: Sequence[int] = (1, 2, 3),
) -> Determinism:
    """A row's result must not depend on the rows that share its batch.

    run(*arrays)  gives outputs whose `axis` is the batch
    batched       positions of the arrays that carry the batch axis; default: all
    pieces        into how many parts the batch is cut; the parts' results are joined and compared with the whole
    """
    whole = [as_array(a) for a in arrays]
    chosen = range(len(whole)) if batched is None else batched
    first = _copies(run(*whole))
    length = whole[chosen[0]].shape[axis]
    runs = []
    for count in sorted({min(p, length) for p in pieces if p > 0}):
        bounds = [length * i // count for i in range(count + 1)]
        parts = []
        for lo, hi in itertools.pairwise(bounds):
            cut = [np.take(a, range(lo, hi), axis) if i in chosen else a for i, a in enumerate(whole)]
            parts.append(_copies(run(*cut)))
        joined = [np.concatenate(outputs, axis) for outputs in zip(*parts, strict=True)]
        runs.append((f"{count} pieces", _same(joined, first)))
    return Determinism("batch consistency", tuple(runs))


def _copies(outputs: Outputs) -> list[Array]:
    """Outputs may be views of buffers that the next run overwrites."""
    return [np.array(as_array(output)) for output in outputs]


def _same(outputs: Outputs, first: Sequence[Array]) -> tuple[Verdict, ...]:
    return tuple(compare(output, expected, "binary") for output, expected in zip(outputs, first, strict=True))
