"""Finding: one problem or one piece of advice, with places and a cure."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, Literal

from toprope.language import say

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
        out = self._head()
        out += [
            "  " + "   ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True) if width).rstrip()
            for row in rows
        ]
        if self.count > 1:
            where = f" {say('on {count} cores').format(count=len(self.cores))}" if len(self.cores) > 1 else ""
            out.append(f"  {say('seen {count} times').format(count=self.count)}{where}")
        if self.outcome:
            out.append(f"{say('explored')}: {self.outcome}")
        if self.cure:
            out.append(f"{say('cure')}: {self._cure()}")
        return "\n".join(out)

    def _head(self) -> list[str]:
        """Code and message; before the message, in other languages than English, the rule that was broken."""
        known = codes().get(self.code)
        if known is None or say(known.rule) == known.rule:
            return [f"{self.code}: {self.message}"]
        return [f"{self.code}: {say(known.rule)}", f"  {self.message}"]

    def _cure(self) -> str:
        """The cure; a particular one that has no translation stands behind the code's general one."""
        known = codes().get(self.code)
        if known is None or say(self.cure) != self.cure or say(known.cure) == known.cure:
            return say(self.cure)
        return f"{say(known.cure)} ({self.cure})"


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
