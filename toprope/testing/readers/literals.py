"""Python literals in table cells, as ops-test-kit writes them: tuples, dicts, None, and also inf, nan, float("inf")."""

from __future__ import annotations

import ast
import operator
from typing import Any

from toprope.testing.errors import FormatError

_NAMES = {"inf": float("inf"), "nan": float("nan"), "null": None, "true": True, "false": False}
_ARITHMETIC = {
    ast.Pow: operator.pow,
    ast.Mult: operator.mul,
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Div: operator.truediv,
}


def literal(text: str, where: str = "") -> Any:
    """The value of `text`; the text itself when it is one bare word. Raises FormatError for anything else."""
    text = text.strip()
    try:
        return _value(ast.parse(text, mode="eval").body)
    except (SyntaxError, ValueError, TypeError, RecursionError) as error:
        if text.replace("_", "").replace(".", "").replace(":", "").isalnum():
            return text
        raise FormatError(f"not a literal: {text[:80]!r}", where=where) from error


def _value(node: ast.expr) -> Any:
    if isinstance(node, ast.Constant):
        return node.value
    if isinstance(node, ast.Tuple):
        return tuple(_value(item) for item in node.elts)
    if isinstance(node, ast.List):
        return [_value(item) for item in node.elts]
    if isinstance(node, ast.Set):
        return [_value(item) for item in node.elts]
    if isinstance(node, ast.Dict):
        return {
            _value(key): _value(value) for key, value in zip(node.keys, node.values, strict=True) if key is not None
        }
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub | ast.UAdd):
        value = _value(node.operand)
        return -value if isinstance(node.op, ast.USub) else value
    if isinstance(node, ast.Name) and node.id in _NAMES:
        return _NAMES[node.id]
    if isinstance(node, ast.Attribute) and node.attr in _NAMES:
        return _NAMES[node.attr]
    if (
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Name)
        and node.func.id == "float"
        and len(node.args) == 1
    ):
        return float(_value(node.args[0]))
    if isinstance(node, ast.BinOp) and type(node.op) in _ARITHMETIC:
        left, right = _value(node.left), _value(node.right)
        if isinstance(node.op, ast.Pow) and abs(right) > 1024:
            raise ValueError("exponent out of range")
        return _ARITHMETIC[type(node.op)](left, right)
    raise ValueError(f"{type(node).__name__} is no literal")
