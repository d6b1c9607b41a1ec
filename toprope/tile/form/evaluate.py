"""Level A: a form evaluated on NumPy arrays, step by step of the grid. Its bits are those of the emitted kernel."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from toprope.tile import lanes
from toprope.tile.form import numbers
from toprope.tile.form.nodes import Block, For, Form, If, Leave, Say, Set, Store, Value, Variable, While
from toprope.tile.form.operations import OPERATIONS
from toprope.tile.language import TileError

Array = np.ndarray[Any, Any]
_JOIN = {
    "add": np.add,
    "max": np.maximum,
    "min": np.minimum,
    "and": np.bitwise_and,
    "or": np.bitwise_or,
    "xor": np.bitwise_xor,
}


class _Left(Exception):
    """return, break or continue on its way out."""

    def __init__(self, kind: str) -> None:
        self.kind = kind


def evaluate(form: Form, arguments: Mapping[str, Any], grid: tuple[int, ...]) -> None:
    """Every step of the grid, axis 0 fastest; arrays are written in place. Raises TileError where a lane leaves its array."""
    counts = (*grid, 1, 1, 1)[:3]
    with np.errstate(all="ignore"):
        for n in range(counts[0] * counts[1] * counts[2]):
            place = (n % counts[0], n // counts[0] % counts[1], n // (counts[0] * counts[1]))
            with contextlib.suppress(_Left):
                _Step(form, arguments, place, counts).run(form.body)


class _Step:
    """One step of the grid."""

    def __init__(self, form: Form, arguments: Mapping[str, Any], place: tuple[int, ...], grid: tuple[int, ...]) -> None:
        self.form, self.arguments, self.place, self.grid = form, arguments, place, grid
        self.values: dict[Value, Array] = {}
        self.variables: dict[Variable, Array] = {}

    def run(self, block: Block) -> None:
        """The statements in order."""
        for s in block:
            match s:
                case Value():
                    self.values[s] = np.asarray(self.compute(s))
                case Store():
                    self.store(s)
                case Set():
                    self.variables[s.variable] = self.values[s.value]
                case For():
                    begin, end, step = (int(self.values[v]) for v in (s.begin, s.end, s.step))
                    for n in range(begin, end, step):
                        self.variables[s.index] = np.asarray(n).astype(np.int64)
                        if self._left(s.body):
                            break
                case While():
                    while True:
                        self.run(s.head)
                        if not self.values[s.condition] or self._left(s.body):
                            break
                case If():
                    self.run(s.body if self.values[s.condition] else s.orelse)
                case Leave():
                    raise _Left(s.kind)
                case Say(kind="print"):
                    print(f"pid {self.place} {s.text}", *(self.values[v] for v in s.values))
                case Say():
                    if not all(np.all(self.values[v]) for v in s.values):
                        raise TileError(
                            f"{self.form.file}:{s.line}: device_assert failed: {s.text}",
                            cure="give the kernel what it asserts",
                        )

    def _left(self, body: Block) -> bool:
        """Runs a loop's body; whether the loop is over."""
        try:
            self.run(body)
        except _Left as e:
            if e.kind == "return":
                raise
            return e.kind == "break"
        return False

    # ---- values ------------------------------------------------------------------------------------------------------

    def compute(self, v: Value) -> Any:
        """One value."""
        args = [self.values[a] for a in v.args]
        kind, a = numbers.numpy_type(v.dtype), v.attributes
        if not v.shape and v.dtype.name in ("int32", "int64"):
            kind = np.dtype(np.int64)  # whole scalars have the width of the scalar unit
        if v.op in OPERATIONS:
            if not v.shape and kind == np.int64:
                args = [x.astype(np.int64) for x in args]
            return np.asarray(OPERATIONS[v.op].evaluate(*args)).astype(
                bool if v.dtype.name == "bool" else kind, copy=False
            )
        match v.op:
            case "constant":
                return np.asarray(a["value"]).astype(kind)
            case "argument":
                return np.asarray(self.arguments[a["name"]]).astype(kind)
            case "program":
                return np.asarray(self.place[a["axis"]]).astype(kind)
            case "programs":
                return np.asarray(self.grid[a["axis"]]).astype(kind)
            case "read":
                return self.variables[a["variable"]]
            case "iota":
                return np.arange(v.shape[0], dtype=kind)
            case "splat":
                return np.full(v.shape, args[0].astype(kind))
            case "broadcast":
                return np.broadcast_to(args[0], v.shape)
            case "reshape":
                return args[0].reshape(v.shape)
            case "transpose":
                return args[0].transpose(a["axes"])
            case "item":
                return args[0].reshape(()).astype(kind)
            case "cast":
                return numbers.cast(args[0], v.dtype, a.get("mode", "")).astype(kind)
            case "bitcast":
                return np.ascontiguousarray(args[0]).view(kind).reshape(v.shape)
            case "select":
                return np.where(args[0], args[1], args[2])
            case "slice":
                places = a["begin"] + a["step"] * np.arange(v.shape[a["axis"]])
                return np.take(args[0], places, a["axis"])
            case "concat":
                return np.concatenate(args, a["axis"])
            case "reduce":
                return _reduced(a["name"], args[0], a["axis"])
            case "scan":
                return _scanned(a["name"], args[0], a["axis"], a["reverse"])
            case "sort":
                found = np.sort(args[0], a["axis"], kind="stable")
                return np.flip(found, a["axis"]) if a["descending"] else found
            case "gather":
                return np.take_along_axis(args[0], args[1].astype(np.int64), a["axis"])
            case "histogram":
                return np.bincount(args[0].reshape(-1).clip(0, v.shape[0]), minlength=v.shape[0] + 1)[
                    : v.shape[0]
                ].astype(kind)
            case "dot":
                return _product(*args)
            case "load":
                return self.load(v, args)
        raise AssertionError(v.op)

    def load(self, v: Value, args: list[Array]) -> Array:
        data = self._array(v.attributes["array"], v.dtype)
        offsets, mask = args[0].astype(np.int64), args[1] if v.attributes["masked"] else np.asarray(True)
        other = args[-1] if v.attributes["other"] else np.asarray(0)
        offsets, mask = np.broadcast_arrays(offsets, mask)
        self._inside(v.attributes["array"], data, offsets[mask], v.line)
        found = np.broadcast_to(other.astype(data.dtype), offsets.shape).copy()
        found[mask] = data[offsets[mask]]
        return found

    def store(self, s: Store) -> None:
        data = self._array(s.array, s.dtype)
        offsets = self.values[s.offset].astype(np.int64)
        mask = self.values[s.mask] if s.mask is not None else np.asarray(True)
        offsets, mask, value = np.broadcast_arrays(offsets, mask, self.values[s.value])
        self._inside(s.array, data, offsets[mask], s.line)
        value = value.astype(data.dtype)
        if s.atomic:
            self._atomic(s, data, offsets, mask, value)
        else:
            data[offsets[mask]] = value[mask]

    def _atomic(self, s: Store, data: Array, offsets: Array, mask: Array, value: Array) -> None:
        old = np.zeros(offsets.shape, data.dtype)
        compare = np.broadcast_to(self.values[s.compare], offsets.shape) if s.compare is not None else value
        for at in np.ndindex(offsets.shape):
            if mask[at]:
                k = offsets[at]
                old[at] = data[k]
                if s.atomic == "xchg" or (s.atomic == "cas" and data[k] == compare[at]):
                    data[k] = value[at]
                elif s.atomic != "cas":
                    data[k] = _JOIN[s.atomic](data[k], value[at])
        if s.old is not None:
            kind = np.int64 if not s.old.type.shape and s.old.type.dtype.name in ("int32", "int64") else old.dtype
            self.variables[s.old] = old.astype(kind)

    def _array(self, name: str, kind: Any) -> Array:
        data: Array = self.arguments[name].reshape(-1)
        to = numbers.numpy_type(kind)
        return data if data.dtype == to else data.view(to)

    def _inside(self, name: str, data: Array, touched: Array, line: int) -> None:
        if touched.size and not 0 <= touched.min() <= touched.max() < data.size:
            wrong = touched[(touched < 0) | (touched >= data.size)].flat[0]
            raise TileError(
                f"{self.form.file}:{line}: {name} has {data.size} elements; element {wrong} is touched",
                cure="mask the lanes that lie outside",
            )


def _reduced(name: str, x: Array, axis: int) -> Array:
    """Along the last axis of floats as RowReduce goes, else halves against halves."""
    inner = int(np.prod(x.shape[axis + 1 :]))
    if inner == 1 and by_rows(x.dtype, x.shape[axis]) and not (name == "sum" and x.dtype == np.float16):
        rows = np.ascontiguousarray(x).reshape(-1, x.shape[axis])
        return lanes.fold_rows(name, rows).reshape(x.shape[:axis] + x.shape[axis + 1 :])
    return numbers.halves(name, x, axis)


def by_rows(kind: np.dtype[Any], extent: int) -> bool:
    """Whether rows of an extent are reduced by the vector unit's row instructions: floats in whole blocks of 32 bytes."""
    return kind in (np.float32, np.float16) and extent * kind.itemsize % 32 == 0


def _scanned(name: str, x: Array, axis: int, reverse: bool) -> Array:
    """One after the other."""
    x = np.flip(x, axis) if reverse else x
    steps: dict[str, Callable[..., Array]] = {
        "sum": np.add, "prod": np.multiply, "max": lanes.larger, "min": lanes.smaller, "or": np.bitwise_or, "and": np.bitwise_and,
    }  # fmt: skip
    step = steps[name]
    x = np.moveaxis(x, axis, 0).copy()
    for k in range(1, len(x)):
        x[k] = step(x[k - 1], x[k])
    x = np.moveaxis(x, 0, axis)
    return np.flip(x, axis) if reverse else x


def _product(a: Array, b: Array) -> Array:
    """Batches of products, float32 sums in the cube's order; whole numbers exactly."""
    if a.dtype.kind == "i":
        found: Array = np.matmul(a.astype(np.int32), b.astype(np.int32))
        return found
    batch = a.shape[:-2]
    c = np.zeros((*batch, a.shape[-2], b.shape[-1]), np.float32)
    for at in np.ndindex(batch):
        one = np.zeros(c.shape[-2:], np.float32)
        lanes.matmul_into(one, a[at], b[at], accumulate=False)
        c[at] = one
    return c
