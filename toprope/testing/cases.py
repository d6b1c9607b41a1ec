"""Cases: one call of an operator as plain data, and the arrays it stands for."""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np

from toprope.testing.data import UNIFORM, Fill, make
from toprope.testing.elements import Array, dtype_of
from toprope.testing.errors import CaseError

KINDS = ("general", "boundary", "special", "random")
"""The four classes of case; files of other tools come in as "given"."""


@dataclass(frozen=True)
class Argument:
    """One input tensor: its element type, shape and contents; `file` names raw little-endian data to use instead."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    fill: Fill = UNIFORM
    file: str = ""


@dataclass(frozen=True)
class ArgumentList:
    """A dynamic input: several tensors passed as one list."""

    name: str
    items: tuple[Argument, ...]


@dataclass(frozen=True)
class Absent:
    """An optional input that this case leaves out."""

    name: str


AnyArgument: TypeAlias = Argument | ArgumentList | Absent
Input: TypeAlias = Array | list[Array] | None


@dataclass(frozen=True)
class Output:
    """What is known beforehand about one output; an empty dtype or a shape of None means: whatever golden gives."""

    dtype: str = ""
    shape: tuple[int, ...] | None = None
    name: str = ""


@dataclass(frozen=True)
class Case:
    """One call of one operator.

    The same case gives the same arrays on every computer: the stream of each input is seeded by `seed`, the case's name
    and the input's position.
    """

    name: str
    operator: str
    arguments: tuple[AnyArgument, ...] = ()
    attrs: Mapping[str, Any] = field(default_factory=dict)
    outputs: tuple[Output, ...] = ()
    kind: str = "given"
    seed: int = 0
    standard: str = ""
    limits: Mapping[str, float] = field(default_factory=dict)
    note: str = ""
    extra: Mapping[str, Any] = field(default_factory=dict)

    @property
    def tensors(self) -> tuple[Argument, ...]:
        """All input tensors, those inside lists included."""
        flat: list[Argument] = []
        for argument in self.arguments:
            if isinstance(argument, Argument):
                flat.append(argument)
            elif isinstance(argument, ArgumentList):
                flat.extend(argument.items)
        return tuple(flat)

    @property
    def elements(self) -> int:
        """Number of input elements in total."""
        return sum(int(np.prod(t.shape, dtype=np.int64)) for t in self.tensors)

    def arrays(self) -> tuple[Input, ...]:
        """The inputs in order: an array, a list of arrays for a dynamic input, None for an absent one."""
        made: dict[str, Array] = {}
        result: list[Input] = []
        position = 0
        for argument in self.arguments:
            if isinstance(argument, Absent):
                result.append(None)
                continue
            items = argument.items if isinstance(argument, ArgumentList) else (argument,)
            arrays = []
            for item in items:
                arrays.append(self._array(item, position, made))
                made.setdefault(item.name, arrays[-1])
                position += 1
            result.append(arrays if isinstance(argument, ArgumentList) else arrays[0])
        return tuple(result)

    def _array(self, item: Argument, position: int, made: Mapping[str, Array]) -> Array:
        if item.file:
            return np.fromfile(item.file, dtype=dtype_of(item.dtype)).reshape(item.shape)
        random = np.random.Generator(np.random.SFC64([self.seed, zlib.crc32(self.name.encode()), position]))
        try:
            return make(item.fill, item.dtype, item.shape, random, position=position, earlier=made)
        except CaseError as error:
            raise CaseError(error.what, where=f"case {self.name}, input {item.name}", cure=error.cure) from error
