"""Which names of a Triton function are read later: what a loop or branch must carry."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Rest:
    """Statements that run next, and what may come behind them."""

    statements: Sequence[ast.stmt] = ()
    nexts: tuple[Rest, ...] = ()


def assigned(body: Sequence[ast.stmt]) -> set[str]:
    return {n.id for s in body for n in ast.walk(s) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}


def always(body: Sequence[ast.stmt]) -> set[str]:
    """Names that statements give a value in any case."""
    found: set[str] = set()
    for s in body:
        if isinstance(s, ast.If):
            found |= always(s.body) & always(s.orelse)
        elif isinstance(s, ast.Assign | ast.AnnAssign | ast.AugAssign):
            found |= assigned([s])
    return found


def reads_first(after: Rest, name: str) -> bool:
    """Whether a name may be read before it is assigned anew, on some way through what runs next."""
    found = _first(after.statements, name)
    return found if found is not None else any(reads_first(r, name) for r in after.nexts)


def _effect(s: ast.stmt, name: str) -> bool | None:
    """True: the statement may read the name first; False: it gives it a new value; None: neither."""
    if isinstance(s, ast.If):
        if _uses(s.test, name):
            return True
        parts = [_first(s.body, name), _first(s.orelse, name)]
        return True if True in parts else False if parts == [False, False] else None
    if isinstance(s, ast.For):
        if _uses(s.iter, name):
            return True
        target = isinstance(s.target, ast.Name) and s.target.id == name
        return None if target or _first(s.body, name) is not True else True
    if isinstance(s, ast.AugAssign) and isinstance(s.target, ast.Name) and s.target.id == name:
        return True
    if isinstance(s, ast.Assign | ast.AnnAssign | ast.AugAssign):
        if s.value is not None and _uses(s.value, name):
            return True
        targets = s.targets if isinstance(s, ast.Assign) else [s.target]
        return False if any(isinstance(n, ast.Name) and n.id == name for t in targets for n in ast.walk(t)) else None
    return True if _uses(s, name) else None


def _first(body: Sequence[ast.stmt], name: str) -> bool | None:
    for s in body:
        found = _effect(s, name)
        if found is not None:
            return found
    return None


def _uses(node: ast.AST, name: str) -> bool:
    return any(isinstance(n, ast.Name) and n.id == name and isinstance(n.ctx, ast.Load) for n in ast.walk(node))
