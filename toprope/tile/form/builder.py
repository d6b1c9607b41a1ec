"""Makes nodes in order: folds constants, finds what was computed before, keeps the blocks that control flow opens."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from toprope.dtypes import Dtype
from toprope.tile.form import numbers
from toprope.tile.form.nodes import (
    WHOLE,
    Block,
    For,
    If,
    Leave,
    Say,
    Set,
    Statement,
    Store,
    Type,
    Value,
    Variable,
    While,
    boolean,
    f32,
    i32,
    i64,
)
from toprope.tile.form.operations import COMPARISONS, OPERATIONS
from toprope.tile.language import TileError

# Made anew every time: what they give hangs on when they run.
_ORDERED = {"load", "read"}


class Builder:
    """One kernel's statements while a front end writes them."""

    def __init__(self) -> None:
        self.block: Block = []
        self.line = 0
        self._known: list[dict[Any, Value]] = [{}]

    # ---- statements --------------------------------------------------------------------------------------------------

    def add(self, s: Statement) -> None:
        """The next statement."""
        self.block.append(s)

    @contextmanager
    def inside(self, block: Block) -> Iterator[Block]:
        """What is made in it goes to a block of its own."""
        before, self.block = self.block, block
        self._known.append({})
        try:
            yield block
        finally:
            self.block = before
            self._known.pop()

    def set(self, variable: Variable, value: Value) -> None:
        """variable = value."""
        assert variable.type == value.type, f"{variable} is {variable.type}, {value.op} is {value.type}"
        self.add(Set(variable, value, self.line))

    def store(
        self, array: str, kind: Dtype, offset: Value, value: Value, mask: Value | None = None, **more: Any
    ) -> None:
        """array[offset] = value."""
        self.add(Store(array, kind, offset, value, mask, line=self.line, **more))

    def leave(self, kind: str) -> None:
        """return, break or continue."""
        self.add(Leave(kind, self.line))

    def say(self, kind: str, text: str, values: tuple[Value, ...]) -> None:
        """print or assert."""
        self.add(Say(kind, text, values, self.line))

    def loop(self, index: Variable, begin: Value, end: Value, step: Value, body: Block) -> None:
        """A counted loop."""
        self.add(For(index, begin, end, step, body, self.line))

    def whilst(self, head: Block, condition: Value, body: Block) -> None:
        """A loop on a condition."""
        self.add(While(head, condition, body, self.line))

    def branch(self, condition: Value, body: Block, orelse: Block) -> None:
        """A branch."""
        self.add(If(condition, body, orelse, self.line))

    def forget(self) -> None:
        """Statements were taken back: what they made is not known any more."""
        self._known[-1].clear()

    # ---- values ------------------------------------------------------------------------------------------------------

    def value(self, op: str, kind: Type, *args: Value, **attributes: Any) -> Any:
        """A node, or the one that says the same."""
        key = (op, kind, args, tuple(sorted((k, repr(v)) for k, v in attributes.items())))
        if op not in _ORDERED:
            for known in reversed(self._known):
                if key in known:
                    return known[key]
        made = Value(op, kind, args, attributes, self.line)
        self.add(made)
        if op not in _ORDERED:
            self._known[-1][key] = made
        return made

    def constant(self, value: Any, kind: Dtype | None = None) -> Any:
        """A scalar: whole numbers are int32 where they fit, others float32."""
        if kind is None:
            kind = (
                boolean
                if isinstance(value, bool)
                else f32
                if isinstance(value, float)
                else i32
                if -(1 << 31) <= value < 1 << 31
                else i64
            )
        plain: Any = bool(value) if kind is boolean else int(value) if kind in WHOLE else float(value)
        if numbers.is_float(kind):
            plain = float(np.asarray(np.float32(plain)).astype(numbers.numpy_type(kind)).astype(np.float32))
        return self.value("constant", Type(kind), value=plain)

    def splat(self, scalar: Value, shape: tuple[int, ...]) -> Value:
        """A tile of one number."""
        return scalar if not shape else self.value("splat", Type(scalar.dtype, shape), scalar)

    def apply(self, op: str, *args: Value) -> Any:
        """An element-wise operation; the operands have one type."""
        row = OPERATIONS[op]
        kind = args[0].type
        assert all(a.type == kind for a in args), f"{op} of {', '.join(str(a.type) for a in args)}"
        folded = self._folded(op, args)
        if folded is not None:
            return folded
        return self.value(op, Type(row.result or kind.dtype, kind.shape), *args)

    def cast(self, x: Value, kind: Dtype, mode: str = "") -> Any:
        """x in another element type."""
        if x.dtype == kind:
            return x
        if x.op == "splat":
            return self.splat(self.cast(x.args[0], kind, mode), x.shape)
        if x.constant is not None:
            return self.constant(
                numbers.cast(np.asarray(x.constant).astype(numbers.numpy_type(x.dtype)), kind, mode).item(), kind
            )
        return self.value("cast", Type(kind, x.shape), x, **({"mode": mode} if mode else {}))

    def select(self, condition: Value, a: Value, b: Value) -> Any:
        """a where the condition holds, else b."""
        if condition.constant is not None:
            return a if condition.constant else b
        return self.value("select", a.type, condition, a, b)

    def reshape(self, x: Value, shape: tuple[int, ...]) -> Any:
        """The same lanes in order under other extents."""
        if x.shape == shape:
            return x
        if x.op == "splat":
            return self.splat(x.args[0], shape) if shape else x.args[0]
        if not x.shape:
            return self.splat(x, shape)
        if not shape:
            return self.value("item", Type(x.dtype), x)
        return self.value("reshape", Type(x.dtype, shape), x)

    def broadcast(self, x: Value, shape: tuple[int, ...]) -> Value:
        """Axes of extent 1 repeated; missing ones are put in front."""
        if x.shape == shape:
            return x
        if not x.shape:
            return self.splat(x, shape)
        if x.op == "splat":
            return self.splat(x.args[0], shape)
        if len(x.shape) > len(shape) or any(p not in (1, q) for p, q in zip(x.shape[::-1], shape[::-1], strict=False)):
            raise TileError(
                f"a tile {list(x.shape)} where {list(shape)} is needed",
                cure="give both one shape with [:, None] and [None, :]",
            )
        x = self.reshape(x, (1,) * (len(shape) - len(x.shape)) + x.shape)
        return x if x.shape == shape else self.value("broadcast", Type(x.dtype, shape), x)

    def transpose(self, x: Value, axes: tuple[int, ...]) -> Value:
        """Axes in another order."""
        if axes == tuple(range(len(axes))):
            return x
        shape = tuple(x.shape[a] for a in axes)
        return (
            self.splat(x.args[0], shape)
            if x.op == "splat"
            else self.value("transpose", Type(x.dtype, shape), x, axes=axes)
        )

    def reduce(self, name: str, x: Value, axis: int) -> Any:
        """sum, max or min along an axis, which goes."""
        return self.value("reduce", Type(x.dtype, x.shape[:axis] + x.shape[axis + 1 :]), x, name=name, axis=axis)

    def slice(self, x: Value, axis: int, begin: int, extent: int, step: int = 1) -> Value:
        """Some places of an axis."""
        shape = (*x.shape[:axis], extent, *x.shape[axis + 1 :])
        return (
            x
            if shape == x.shape and step == 1
            else self.value("slice", Type(x.dtype, shape), x, axis=axis, begin=begin, step=step)
        )

    def join(self, parts: list[Value], axis: int) -> Any:
        """Tiles one behind the other along an axis."""
        if len(parts) == 1:
            return parts[0]
        first = parts[0]
        extent = sum(p.shape[axis] for p in parts)
        return self.value(
            "concat", Type(first.dtype, (*first.shape[:axis], extent, *first.shape[axis + 1 :])), *parts, axis=axis
        )

    def _folded(self, op: str, args: tuple[Value, ...]) -> Value | None:
        """Numbers are computed at once; nothing changes whole numbers under + 0 and * 1."""
        known = [a.constant for a in args]
        shape = args[0].shape
        if all(k is not None for k in known):
            arrays = [np.asarray(k).astype(numbers.numpy_type(args[0].dtype)) for k in known]
            if not shape and args[0].dtype in (i32, i64):
                arrays = [a.astype(np.int64) for a in arrays]
            with np.errstate(all="ignore"):
                found = OPERATIONS[op].evaluate(*arrays)
            result = OPERATIONS[op].result or args[0].dtype
            return self.splat(self.constant(np.asarray(found).item(), result), shape)
        if args[0].dtype in WHOLE and len(args) == 2:
            a, b = known
            if (b == 0 and op in ("add", "sub", "or", "xor", "shl", "shr")) or (b == 1 and op in ("mul", "floordiv")):
                return args[0]
            if (a == 0 and op in ("add", "or", "xor")) or (a == 1 and op == "mul"):
                return args[1]
            if op == "mul" and 0 in (a, b):
                return args[0] if a == 0 else args[1]
        if args[0].dtype == boolean and op in ("and", "or") and len(args) == 2:
            for k, other in ((known[0], args[1]), (known[1], args[0])):
                if k is not None:
                    return other if bool(k) == (op == "and") else self.splat(self.constant(bool(k), boolean), shape)
        if args[0] is args[-1] and len(args) == 2 and op in COMPARISONS and not numbers.is_float(args[0].dtype):
            return self.splat(self.constant(op in ("eq", "le", "ge"), boolean), shape)
        return None
