"""One aclnn call as the executors see it: its arguments with their places, shapes and element types."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from toprope.project.ge_types import GE_TYPES

KINDS = {"FLOAT": "f32", "FLOAT16": "f16", "BF16": "bf16", "INT32": "i32", "INT64": "i64", "BOOL": "bool"}


class NotServed(Exception):
    """An executor cannot answer a call; the text says why."""


@dataclass(frozen=True)
class Item:
    """One argument of a call: `at` is its place in the flat list of the device library."""

    at: int
    data: dict[str, Any]

    @property
    def shape(self) -> tuple[int, ...]:
        """A tensor's dimensions."""
        return tuple(self.data["dims"])


@dataclass(frozen=True)
class Tensor:
    """A tensor of a call: where it stands in the device library's list, its dimensions, and steps between elements."""

    at: int
    shape: tuple[int, ...]
    steps: tuple[int, ...]
    type_name: str
    as_it_lies: bool = False  # handed over as it lies in memory, not as the view says

    @property
    def kind(self) -> str:
        """The element type as the tile language has it, bool, or other."""
        return KINDS.get(self.type_name, "other")

    @property
    def dense(self) -> bool:
        """Whether elements lie one after the other."""
        step = 1
        for n, s in zip(reversed(self.shape), reversed(self.steps), strict=True):
            if n != 1 and s != step:
                return False
            step *= n
        return True

    @property
    def turned(self) -> bool:
        """Whether it is a dense matrix with rows and columns exchanged."""
        return len(self.shape) == 2 and self.steps == (1, self.shape[0])

    def as_turned(self) -> Tensor:
        """The matrix as it lies in memory."""
        return replace(self, shape=self.shape[::-1], steps=self.steps[::-1], as_it_lies=True)


@dataclass(frozen=True)
class Call:
    """A call: the function, its arguments, each with the members of a list, and how a value is read."""

    function: str
    groups: list[list[Item]]
    read: Callable[[list[Item]], Any]

    def tensors_of(self, at: int) -> list[Tensor]:
        """The tensors of one argument; none where it was left out or is no tensor."""
        return [tensor_of(i) for i in self.groups[at] if i.data["k"] == "tensor"]

    def tensor(self, at: int) -> Tensor:
        """The tensor of one argument. Raises NotServed where it was left out or is no tensor."""
        found = self.tensors_of(at)
        if not found:
            raise NotServed("tensors are left out")
        return found[0]

    def number(self, at: int) -> float | int | None:
        """A number among the arguments."""
        kind = self.groups[at][0].data["k"]
        if kind not in ("scalar", "int", "float", "bool"):
            return None
        value = self.read(self.groups[at])
        return value if isinstance(value, int | float) else None

    def integers(self, at: int) -> list[int]:
        """A list of whole numbers among the arguments."""
        return list(self.groups[at][0].data.get("v") or []) if self.groups[at][0].data["k"] == "ints" else []

    def value(self, at: int) -> Any:
        """An argument as Python has it."""
        return self.read(self.groups[at])


def tensor_of(item: Item) -> Tensor:
    """A tensor argument."""
    shape = item.shape
    steps = item.data["strides"]
    if steps is None:
        steps, step = [], 1
        for n in reversed(shape):
            steps.insert(0, step)
            step *= n
    return Tensor(item.at, shape, tuple(steps), GE_TYPES[item.data["type"]].name)
