"""What an operator accepts: its inputs, element types, shapes and attributes, as far as tests need to know."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from toprope.testing.data import UNIFORM, Fill
from toprope.testing.errors import CaseError

Shape = tuple[int, ...]


@dataclass(frozen=True)
class Tensor:
    """One input of an operator.

    dtypes   element types it may have, or "same:x" for that of input x
    shape    "*" any shape; "same:x"; "broadcast:x" anything that broadcasts to x's shape; or a list of sizes and
             symbols such as ("M", "K"), where a symbol has one value throughout a case
    ranks    ranks that "*" may take
    fill     contents in general cases; special-value cases replace it unless `special` is False (indices, masks)
    optional whether a case may leave it out
    """

    name: str
    dtypes: tuple[str, ...] | str = ("float32",)
    shape: tuple[int | str, ...] | str = "*"
    ranks: tuple[int, ...] = (1, 2, 3, 4, 5, 6, 7, 8)
    fill: Fill = UNIFORM
    special: bool = True
    optional: bool = False

    def __post_init__(self) -> None:
        if isinstance(self.shape, str) and self.shape != "*" and not self.shape.startswith(("same:", "broadcast:")):
            raise CaseError(
                f"input {self.name!r}: shape {self.shape!r} is not understood",
                cure='use "*", "same:<input>", "broadcast:<input>" or a list of sizes and symbols',
            )


@dataclass(frozen=True)
class Attribute:
    """One attribute of an operator and the values that tests try, the usual one first."""

    name: str
    values: tuple[Any, ...]


@dataclass(frozen=True)
class Signature:
    """An operator as the case generator sees it. `sizes` lists values that a shape symbol may take."""

    name: str
    inputs: tuple[Tensor, ...]
    attributes: tuple[Attribute, ...] = ()
    sizes: Mapping[str, Sequence[int]] | None = None

    @property
    def dtypes(self) -> tuple[str, ...]:
        """Element types of the first input, which lead every case."""
        first = self.inputs[0].dtypes if self.inputs else ("float32",)
        return (first,) if isinstance(first, str) else tuple(first)

    @property
    def ranks(self) -> tuple[int, ...]:
        """Ranks that cases are generated for: one entry per rank of the first free shape, else just one."""
        for tensor in self.inputs:
            if tensor.shape == "*":
                return tensor.ranks
        return (len(self.inputs[0].shape),) if self.inputs else (0,)

    @property
    def symbols(self) -> tuple[str, ...]:
        """Shape symbols in order of appearance."""
        found: dict[str, None] = {}
        for tensor in self.inputs:
            if not isinstance(tensor.shape, str):
                found |= {size: None for size in tensor.shape if isinstance(size, str)}
        return tuple(found)

    def dtype_of_inputs(self, leading: str, turn: int = 0) -> dict[str, str]:
        """Element type of every input when the first has `leading`; independent inputs rotate with `turn`."""
        chosen: dict[str, str] = {}
        for position, tensor in enumerate(self.inputs):
            if isinstance(tensor.dtypes, str):
                reference = tensor.dtypes.removeprefix("same:")
                if reference not in chosen:
                    raise CaseError(f"input {tensor.name!r} takes its dtype from {reference!r}, which is not before it")
                chosen[tensor.name] = chosen[reference]
            elif position == 0:
                chosen[tensor.name] = leading
            else:
                chosen[tensor.name] = tensor.dtypes[turn % len(tensor.dtypes)]
        return chosen

    def shapes(self, free: Shape, symbols: Mapping[str, int], random: np.random.Generator) -> dict[str, Shape]:
        """Shape of every input when "*" means `free` and the symbols have the given values."""
        chosen: dict[str, Shape] = {}
        for tensor in self.inputs:
            if isinstance(tensor.shape, tuple | list):
                chosen[tensor.name] = tuple(symbols[s] if isinstance(s, str) else s for s in tensor.shape)
            elif tensor.shape == "*":
                chosen[tensor.name] = free
            else:
                how, _, reference = tensor.shape.partition(":")
                if reference not in chosen:
                    raise CaseError(f"input {tensor.name!r} takes its shape from {reference!r}, which is not before it")
                shape = chosen[reference]
                chosen[tensor.name] = shape if how == "same" else _broadcastable(shape, random)
        return chosen


def _broadcastable(shape: Shape, random: np.random.Generator) -> Shape:
    """A shape that broadcasts to `shape`: half of the time the same, else leading axes dropped and some sizes one."""
    if not shape or random.random() < 0.5:
        return shape
    kept = shape[int(random.integers(0, len(shape))) :]
    return tuple(1 if random.random() < 0.4 else size for size in kept)
