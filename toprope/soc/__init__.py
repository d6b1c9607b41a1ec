"""Chips as data: one TOML file a chip, every group of numbers with its source and kind."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from toprope.errors import BadChip

KINDS = ("documented", "measured", "derived", "assumed")


@dataclass(frozen=True)
class Soc:
    """A chip. `table` holds groups of numbers; units end the names (_bytes, _cycles, _ghz, _bytes_per_cycle)."""

    name: str
    table: dict[str, Any]

    def __hash__(self) -> int:
        return hash(self.name)

    def number(self, path: str) -> float:
        """The number at a dotted path, e.g. "spaces.ub_bytes". Raises BadChip naming the missing row: a cost is never silently zero."""
        node: Any = self.table
        for part in path.split("."):
            if not isinstance(node, dict) or part not in node:
                raise BadChip(f"{self.name} has no number {path!r}", cure=f"add it, with its source, to soc/{self.name}.toml")
            node = node[part]
        return float(node)

    def bytes_of(self, space: str) -> int:
        """Size of an on-chip memory (ub l1 l0a l0b l0c bias fixbuf) of one core, in bytes."""
        return int(self.number(f"spaces.{space}_bytes"))

    @property
    def npu_arch(self) -> int:
        """The number behind __NPU_ARCH__: 2201 for A2/A3, 2002 for 310P."""
        return int(self.table["npu_arch"])

    @property
    def split(self) -> bool:
        """Cube and vector cores are separate (A2, A3, 950)."""
        return bool(self.table["split"])

    @property
    def aic(self) -> int:
        """Cube (or coupled) cores."""
        return int(self.number("cores.aic"))

    @property
    def aiv(self) -> int:
        """Vector cores."""
        return int(self.number("cores.aiv"))


def names() -> list[str]:
    """The chips there are files for."""
    return sorted(p.stem for p in Path(__file__).parent.glob("*.toml"))


@cache
def load(name: str) -> Soc:
    """The chip called `name` (case does not matter). Raises BadChip listing the known ones."""
    file = Path(__file__).parent / f"{name.lower()}.toml"
    if not file.exists():
        raise BadChip(f"unknown chip {name!r}", cure="known chips: " + ", ".join(names()))
    return Soc(name.lower(), tomllib.loads(file.read_text()))
