"""Finding: one problem or one piece of advice, with places and a cure."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, Literal

Severity = Literal["error", "warning", "advice"]


@dataclass(frozen=True)
class Place:
    """A line of the user's source and what happened there, e.g. file, 50, "Add", "V", "writes UB[0:4096]"."""

    file: str
    line: int
    op: str = ""
    pipe: str = ""
    action: str = ""

    def text(self) -> str:
        """The source line itself, stripped; empty if the file cannot be read."""
        lines = _lines_of(self.file)
        return lines[self.line - 1].strip() if 0 < self.line <= len(lines) else ""


@dataclass(frozen=True)
class Finding:
    """One thing the user should know. `code` has a page docs/errors/<code>.md; `count` says how often the same cause was seen."""

    code: str
    severity: Severity
    message: str
    places: tuple[Place, ...] = ()
    cure: str = ""
    count: int = 1
    cores: tuple[int, ...] = ()
    cycles_at_stake: float = 0.0
    bytes_at_stake: int = 0
    data: dict[str, Any] = field(default_factory=dict)
    outcome: str = ""  # what happens when the two places swap their order, if schedules were explored

    def __str__(self) -> str:
        """As a person reads it: what, both places in columns, how often, and the cure."""
        rows = [
            (f"{Path(p.file).name}:{p.line}", p.text() or p.op, f"pipe {p.pipe}" if p.pipe else "", p.action)
            for p in self.places
        ]
        widths = [max((len(row[i]) for row in rows), default=0) for i in range(4)]
        out = [f"{self.code}: {self.message}"]
        out += [
            "  " + "   ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True) if width).rstrip()
            for row in rows
        ]
        if self.count > 1:
            where = f" on {len(self.cores)} cores" if len(self.cores) > 1 else ""
            out.append(f"  seen {self.count} times{where}")
        if self.outcome:
            out.append(f"explored: {self.outcome}")
        if self.cure:
            out.append(f"cure: {self.cure}")
        return "\n".join(out)


@dataclass(frozen=True)
class Code:
    """A stable finding code: its usual severity, the rule in one sentence, and the general cure."""

    name: str
    severity: Severity
    rule: str
    cure: str


@cache
def codes() -> dict[str, Code]:
    """Every finding code, from findings.toml (also written by documentation and tests)."""
    table = tomllib.loads(Path(__file__).with_name("findings.toml").read_text())
    return {name: Code(name, row["severity"], row["rule"], row["cure"]) for name, row in table.items()}


@cache
def _lines_of(file: str) -> list[str]:
    try:
        return Path(file).read_text(errors="replace").splitlines()
    except OSError:
        return []
