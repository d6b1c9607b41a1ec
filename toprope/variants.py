"""Other launches of the same kernel, for `toprope check --fuzz`: other values in index tensors, other sizes. The same ones every time."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from toprope.errors import TopropeError
from toprope.kernel import Kernel
from toprope.launch import LaunchFile, arguments, outputs, shaped
from toprope.trace import Array

_MOST_SIZES = 6  # different numbers of a launch that are changed


@dataclass(frozen=True)
class Variant:
    """A launch that differs from the one that was described: in which way, and its arguments, fresh copies."""

    changed: str
    arguments: Mapping[str, Any]


def variants(kernel: Kernel, launch: LaunchFile, most: int) -> list[Variant]:
    """At most `most` launches beside the one described, the telling ones first: for every input of integers the ends of its range, one
    value everywhere, both orders; for every size that a number of the launch names, one more, one less, 1; then random indices."""
    ordered = [*_index_patterns(kernel, launch), *_sizes(kernel, launch)]
    draws = _index_draws(kernel, launch, most - len(ordered))
    return [*ordered, *draws][:most]


def index_inputs(kernel: Kernel, launch: LaunchFile) -> dict[str, tuple[int, int]]:
    """The inputs of integers and the range that their values keep to: what `integers(low, high)` says, else what they hold."""
    given, written = arguments(kernel, launch), outputs(launch)
    out = {}
    for name, value in given.items():
        if not isinstance(value, np.ndarray) or value.dtype.kind not in "iu" or name in written or value.size < 2:
            continue
        low, high = int(value.min()), int(value.max())
        parts = shaped(launch.arguments[name])
        if parts and parts[2].startswith("integers"):
            low, high = (int(n) for n in parts[2][parts[2].index("(") + 1 : -1].split(","))
            high -= 1
        if low < high:
            out[name] = (low, high)
    return out


def _index_patterns(kernel: Kernel, launch: LaunchFile) -> Iterator[Variant]:
    for name, (low, high) in index_inputs(kernel, launch).items():

        def filled(pattern: Array, name: str = name) -> dict[str, Any]:
            given = arguments(kernel, launch)
            given[name] = np.resize(pattern, given[name].shape).astype(given[name].dtype)
            return given

        size = arguments(kernel, launch)[name].size
        ascending = np.linspace(low, high, size).round().astype(np.int64)
        patterns: dict[str, Array] = {
            f"all {high}": np.array([high]),
            f"all {low}": np.array([low]),
            f"{low} and {high} in turn": np.array([low, high]),
            f"rising from {low} to {high}": ascending,
            f"falling from {high} to {low}": ascending[::-1],
        }
        for words, pattern in patterns.items():
            yield Variant(f"{name} {words}", filled(pattern))


def _index_draws(kernel: Kernel, launch: LaunchFile, most: int) -> Iterator[Variant]:
    ranges = index_inputs(kernel, launch)
    for draw in range(max(0, most) if ranges else 0):
        rng, given = np.random.default_rng([launch.seed, draw]), arguments(kernel, launch)
        for name, (low, high) in ranges.items():
            given[name] = rng.integers(low, high, given[name].shape, endpoint=True).astype(given[name].dtype)
        yield Variant(f"{', '.join(ranges)} drawn at random ({draw + 1})", given)


def _sizes(kernel: Kernel, launch: LaunchFile) -> Iterator[Variant]:
    """A size is changed wherever the launch names it, in shapes, numbers and tiling fields; so are products of a whole shape."""
    shapes = [parts[1] for spec in launch.arguments.values() if (parts := shaped(spec))]
    numbers = sorted({n for shape in shapes for n in shape if n > 1}, reverse=True)
    for old in numbers[:_MOST_SIZES]:
        for new in (old - 1, old + 1, 1):
            changed = _resized(launch.arguments, old, new)
            if new == old or changed is None:
                continue
            try:
                yield Variant(f"{old} is {new}", arguments(kernel, replace(launch, arguments=changed)))
            except TopropeError:
                continue  # a size that the arguments cannot have


def _resized(specs: Mapping[str, Any], old: int, new: int) -> dict[str, Any] | None:
    """The arguments with `new` for `old`; None if the kernel would not learn of it: no number and no tiling field follows."""

    def swapped(shape: tuple[int, ...]) -> tuple[int, ...]:
        return tuple(new if n == old else n for n in shape)

    shapes = [parts[1] for spec in specs.values() if (parts := shaped(spec))]
    follows = {math.prod(s): math.prod(swapped(s)) for s in shapes} | {old: new}
    told = False

    def number(value: Any) -> Any:
        nonlocal told
        if isinstance(value, Mapping):
            return {key: number(inner) for key, inner in value.items()}
        if isinstance(value, bool) or not isinstance(value, int) or follows.get(value, value) == value:
            return value
        told = True
        return follows[value]

    out: dict[str, Any] = {}
    for name, spec in specs.items():
        if parts := shaped(spec):
            element, shape, fill = parts
            out[name] = f"{element}[{', '.join(map(str, swapped(shape)))}] {fill}".strip()
        else:
            out[name] = number(spec)
    return out if told else None
