"""Determinism: the same bits again, whatever the repetition, the order of the blocks, or the batch around a row."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from toprope.testing.compare import Verdict, compare
from toprope.testing.elements import Array, as_array

Outputs = Sequence[Any]
ORDER_SEED = 7


@dataclass(frozen=True)
class Determinism:
    """Bitwise agreement of several runs with the first: `runs` pairs a description of each run with its verdicts."""

    kind: str
    runs: tuple[tuple[str, tuple[Verdict, ...]], ...]

    @property
    def passed(self) -> bool:
        """Whether every run gave the bits of the first."""
        return all(verdict.passed for _, verdicts in self.runs for verdict in verdicts)

    @property
    def difference(self) -> str:
        """The first difference in one line; empty when there is none."""
        for label, verdicts in self.runs:
            for number, verdict in enumerate(verdicts):
                if not verdict.passed:
                    many = f"{verdict.metrics.get('unequal', 0):,.0f} elements of output {number} differ"
                    where = f", first at {list(verdict.bad[0].index)}" if verdict.bad else ""
                    return f"{self.kind}, {label}: {many}{where}"
        return ""

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
    chosen = range(len(arrays)) if batched is None else batched
    first = _copies(run(*arrays))
    length = as_array(arrays[chosen[0]]).shape[axis]
    runs = []
    for count in sorted({min(p, length) for p in pieces if p > 0}):
        runs.append((f"{count} pieces", _same(_in_pieces(run, arrays, chosen, axis, count), first)))
    return Determinism("batch consistency", tuple(runs))


def _in_pieces(
    run: Callable[..., Outputs], arrays: Sequence[Any], chosen: Sequence[int], axis: int, count: int
) -> list[Array]:
    """The outputs of run on `count` parts of the chosen arrays, joined."""
    length = as_array(arrays[chosen[0]]).shape[axis]
    parts = []
    for lo, hi in itertools.pairwise(length * i // count for i in range(count + 1)):
        cut = [np.take(as_array(a), range(lo, hi), axis) if i in chosen else a for i, a in enumerate(arrays)]
        parts.append(_copies(run(*cut)))
    return [np.concatenate(outputs, axis) for outputs in zip(*parts, strict=True)]


def batch_axis(arrays: Sequence[Any], reference: Callable[..., Outputs]) -> list[int]:
    """Positions of the arrays that carry a batch as their first axis; empty if the operator has none.

    The reference decides: cut in two and joined, its result must be that of the whole (to 1e-9, for float64 sums).
    """
    whole = _copies(reference(*arrays))
    lengths = [a.shape[0] if isinstance(a, np.ndarray) and a.ndim > 0 else 0 for a in arrays]
    length = whole[0].shape[0] if whole and all(o.ndim > 0 and o.shape[0] == whole[0].shape[0] for o in whole) else 0
    having = [i for i, n in enumerate(lengths) if n == length]
    for chosen in (having, *([i] for i in having if len(having) > 1)):
        if length < 2 or not chosen:
            continue
        with contextlib.suppress(Exception):  # whatever the reference objects to, this is no batch axis
            joined = _in_pieces(reference, arrays, chosen, 0, 2)
            pairs = list(zip(joined, whole, strict=True))
            alike = all(np.allclose(a, b, 1e-9, 1e-12, equal_nan=True) for a, b in pairs)
            if alike and all(np.isfinite(b).any() for _, b in pairs):  # NaN everywhere says nothing
                return list(chosen)
    return []


def examine(
    run: Callable[..., Outputs], arrays: Sequence[Any], reference: Callable[..., Outputs] | None
) -> tuple[list[Determinism], dict[str, str]]:
    """Repeat, block order and, where the operator has a batch axis, batch consistency of run(*arrays).

    Also what could not be tried, by kind, and why. Kernels that `run` launches, at whatever depth, take their blocks in reverse and in
    a random order.
    """
    # Kernels are optional here: plain Python functions can be examined without the toolchain.
    from toprope.kernel import in_block_order

    first = _copies(run(*arrays))
    orders: dict[str, Callable[[int], Sequence[int]]] = {
        "reversed": lambda blocks: range(blocks)[::-1],
        "random": lambda blocks: np.random.default_rng(ORDER_SEED).permutation(blocks).tolist(),
    }
    reordered = []
    for label, order in orders.items():
        with in_block_order(order):
            reordered.append((label, _same(run(*arrays), first)))
    found = [
        Determinism("repeat", (("again", _same(run(*arrays), first)),)),
        Determinism("block order", tuple(reordered)),
    ]
    chosen = batch_axis(arrays, reference) if reference is not None else []
    if not chosen:
        return found, {
            "batch": "the first axis is no batch" if reference is not None else "no golden says what a batch is"
        }
    try:
        found.append(batch_consistent(run, arrays, batched=chosen, pieces=(2, 3)))
    except Exception as error:
        return found, {"batch": f"refuses a part of the batch: {error}".splitlines()[0]}
    return found, {}


def _copies(outputs: Outputs) -> list[Array]:
    """Outputs may be views of buffers that the next run overwrites."""
    return [np.array(as_array(output)) for output in outputs]


def _same(outputs: Outputs, first: Sequence[Array]) -> tuple[Verdict, ...]:
    return tuple(compare(output, expected, "binary") for output, expected in zip(outputs, first, strict=True))
