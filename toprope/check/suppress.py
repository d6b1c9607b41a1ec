"""Suppression: findings that a person has looked at and accepts, each with a reason.

A file of tables, for example `toprope.suppress.toml`::

    [[suppress]]
    code = "uninitialised-read"     # required
    file = "*/softmax*.cpp"         # glob over the path of any place; default: every file
    line = 50                       # or text = "part of the source line"; default: every line
    reason = "lanes past n are never copied out"   # required
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

from toprope import inputs
from toprope.errors import BadInput
from toprope.finding import Finding, codes

_CURE = "give a TOML file with [[suppress]] tables, see docs/sanitizer.md"
_KEYS = {"code", "file", "line", "text", "reason"}


@dataclass(frozen=True)
class Suppression:
    """One accepted kind of finding."""

    code: str
    reason: str
    file: str = "*"
    line: int | None = None
    text: str = ""

    def matches(self, finding: Finding) -> bool:
        """Does any place of the finding fit?"""
        if finding.code != self.code:
            return False
        return any(
            (fnmatch(p.file, self.file) or fnmatch(Path(p.file).name, self.file))
            and (self.line is None or p.line == self.line)
            and self.text in p.text()
            for p in finding.places
        )


def read_suppressions(path: Path) -> list[Suppression]:
    """The suppressions of a TOML file. Raises BadInput for an unreadable file, an unknown key or code, or a missing reason."""
    table = inputs.toml(path, _CURE)
    if unknown := set(table) - {"suppress"}:
        raise BadInput(f"{path} has the unknown table {sorted(unknown)[0]!r}", cure=_CURE)
    given = inputs.fitting(table.get("suppress", []), list[dict[str, Any]], str(path), _CURE)
    return [_suppression(path, i + 1, row) for i, row in enumerate(given)]


def _suppression(path: Path, number: int, row: dict[str, Any]) -> Suppression:
    where = f"suppression {number} of {path.name}"
    if unknown := set(row) - _KEYS:
        raise BadInput(
            f"{where} has the unknown key {sorted(unknown)[0]!r}", cure="keys are " + ", ".join(sorted(_KEYS))
        )
    fitted = inputs.fitting({"code": "", "reason": "", **row}, Suppression, where, _CURE)
    if fitted.code not in codes():
        raise BadInput(
            f"{where} names the unknown code {row.get('code')!r}", cure="codes are listed in docs/sanitizer.md"
        )
    if not str(row.get("reason", "")).strip():
        raise BadInput(f"{where} ({row['code']}) has no reason", cure='add reason = "why this is not a mistake here"')
    return fitted


def apply(findings: Sequence[Finding], suppressions: Sequence[Suppression]) -> tuple[list[Finding], list[Suppression]]:
    """The findings that stay, and the suppressions that fitted nothing (they are out of date)."""
    used = {s for s in suppressions for f in findings if s.matches(f)}
    kept = [f for f in findings if not any(s.matches(f) for s in suppressions)]
    return kept, [s for s in suppressions if s not in used]
