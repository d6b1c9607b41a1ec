"""What control flow carries: names that a body assigns, the common type of two leaves, whole-number tiles as a number plus fixed lanes."""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence
from typing import Any

from toprope.tile.form.builder import Builder
from toprope.tile.form.nodes import WHOLE, Type, Value, boolean, f32, i32, i64
from toprope.tile.front_triton.values import is_number, promoted
from toprope.tile.language import TileError


def carried_names(nodes: Sequence[ast.stmt], env: Mapping[str, Any]) -> set[str]:
    """Names that exist before and are assigned inside."""
    found = set()
    for s in nodes:
        for n in ast.walk(s):
            if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store) and n.id in env:
                found.add(n.id)
    return found


def merged_type(options: Sequence[Any]) -> Type:
    """The type that holds all of some values and numbers."""
    values = [o for o in options if isinstance(o, Value)]
    numbers = [o for o in options if is_number(o)]
    shape: tuple[int, ...] = ()
    for v in values:
        shape = joined_shape(shape, v.shape)
    if not values:
        kinds = {
            boolean
            if isinstance(n, bool)
            else f32
            if isinstance(n, float)
            else i32
            if -(1 << 31) <= n < 1 << 31
            else i64
            for n in numbers
        }
        return Type(f32 if f32 in kinds else i64 if i64 in kinds else i32 if i32 in kinds else boolean, ())
    kind = values[0].dtype
    for v in values[1:]:
        kind = promoted(kind, v.dtype)
    if any(isinstance(n, float) for n in numbers) and kind in (*WHOLE, boolean):
        kind = f32
    if kind == boolean and any(isinstance(n, int) and not isinstance(n, bool) for n in numbers):
        kind = i32
    return Type(kind, shape)


def joined_shape(a: tuple[int, ...], b: tuple[int, ...]) -> tuple[int, ...]:
    """The extents of two tiles that meet. Raises TileError."""
    n = max(len(a), len(b))
    left, right = (1,) * (n - len(a)) + a, (1,) * (n - len(b)) + b
    for p, q in zip(left, right, strict=True):
        if p != q and 1 not in (p, q):
            raise TileError(
                f"a tile {list(a)} meets one of {list(b)}", cure="give both one shape with [:, None] and [None, :]"
            )
    return tuple(max(p, q) for p, q in zip(left, right, strict=True))


def decomposed(b: Builder, v: Value) -> tuple[Value, Value | None]:
    """A whole-number tile as a scalar plus lanes that no scalar moves."""
    base, lanes = _parts(b, v)
    if lanes is None:
        zero = b.splat(b.constant(0, v.dtype), v.shape)
        return base if base is not None else b.constant(0, v.dtype), zero
    return base if base is not None else b.constant(0, v.dtype), lanes


def _parts(b: Builder, v: Value) -> tuple[Value | None, Value | None]:
    if v.op == "splat":
        return (v.args[0], None) if v.args[0].constant != 0 else (None, None)
    if v.op == "add":
        (p, x), (q, y) = _parts(b, v.args[0]), _parts(b, v.args[1])
        base = p if q is None else q if p is None else b.apply("add", _wide(b, p, q), _wide(b, q, p))
        lanes = x if y is None else y if x is None else v if x is v.args[0] and y is v.args[1] else b.apply("add", x, y)
        return base, lanes
    if v.op == "sub" and v.args[1].op == "splat":
        p, x = _parts(b, v.args[0])
        scalar = v.args[1].args[0]
        p = p if p is not None else b.constant(0, scalar.dtype)
        return b.apply("sub", _wide(b, p, scalar), _wide(b, scalar, p)), x
    if v.op in ("broadcast", "reshape", "cast") and v.args[0].shape and v.args[0].dtype in WHOLE:
        p, x = _parts(b, v.args[0])
        if p is None:
            return None, v
        if v.op == "cast":
            return b.cast(p, v.dtype), None if x is None else b.cast(x, v.dtype)
        made = None if x is None else b.broadcast(x, v.shape) if v.op == "broadcast" else b.reshape(x, v.shape)
        return p, made
    if v.op == "mul" and v.args[1].op == "splat":
        p, x = _parts(b, v.args[0])
        if p is None:
            return None, v
        scalar = v.args[1].args[0]
        made = None if x is None else b.apply("mul", x, b.splat(scalar, v.shape))
        return b.apply("mul", _wide(b, p, scalar), _wide(b, scalar, p)), made
    return None, v


def _wide(b: Builder, x: Value, other: Value) -> Any:
    return b.cast(x, promoted(x.dtype, other.dtype))
