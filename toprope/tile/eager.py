"""Level A: a kernel's own Python function, run on NumPy tiles. print and pdb work in it; the bits are those of the emitted kernel."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextvars import ContextVar
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np

from toprope.dtypes import Dtype, of_array
from toprope.tile import lanes, rules
from toprope.tile.language import Builtin, TileError, f32, numpy_of

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Span:
    """One step of a tiles loop: elements [lo, hi) of an axis; steps of size 1 drop their axis from loaded tiles."""

    lo: int
    hi: int
    size: int

    def __len__(self) -> int:
        return self.hi - self.lo

    @property
    def numpy(self) -> int | slice:
        """The step as an index of NumPy."""
        return self.lo if self.size == 1 else slice(self.lo, self.hi)


class Tile:
    """A value of a kernel: lanes with an element type. Arithmetic is that of the vector unit, rounded after every operation."""

    __array_ufunc__ = None  # a NumPy array on the left must not swallow it

    __slots__ = ("data", "dtype")

    def __init__(self, data: Array, dtype: Dtype | None = None) -> None:
        self.data = data
        self.dtype = dtype or of_array(data)  # kept, because every operation asks for it

    @property
    def shape(self) -> tuple[int, ...]:
        """The valid extents of this step."""
        return tuple(self.data.shape)

    def to(self, kind: Dtype) -> Tile:
        """The tile in another element type, ties to even."""
        rules.require_cast(self.dtype, kind)
        return Tile(lanes.convert(self.data, numpy_of(kind)))

    @property
    def T(self) -> Tile:
        """The transposed operand of a matrix product."""
        return Tile(self.data.T)

    def __repr__(self) -> str:
        return f"Tile({self.data!r})"

    def __add__(self, other: Any) -> Tile:
        return binary("add", self, other)

    def __radd__(self, other: Any) -> Tile:
        return binary("add", other, self)

    def __sub__(self, other: Any) -> Tile:
        return binary("sub", self, other)

    def __rsub__(self, other: Any) -> Tile:
        return binary("sub", other, self)

    def __mul__(self, other: Any) -> Tile:
        return binary("mul", self, other)

    def __rmul__(self, other: Any) -> Tile:
        return binary("mul", other, self)

    def __truediv__(self, other: Any) -> Tile:
        return binary("div", self, other)

    def __rtruediv__(self, other: Any) -> Tile:
        return binary("div", other, self)

    def __pow__(self, exponent: float) -> Tile:
        if exponent in rules.ROOTS:
            return unary(rules.ROOTS[exponent])(self)
        found = self
        for _ in range(rules.whole_power(exponent) - 1):
            found = binary("mul", found, self)
        return found

    def __neg__(self) -> Tile:
        return binary("mul", self, -1)

    def __matmul__(self, other: Tile) -> Product:
        return matmul(self, other)

    def __lt__(self, other: Any) -> Tile:
        return compare("lt", self, other)

    def __le__(self, other: Any) -> Tile:
        return compare("le", self, other)

    def __gt__(self, other: Any) -> Tile:
        return compare("gt", self, other)

    def __ge__(self, other: Any) -> Tile:
        return compare("ge", self, other)

    def __eq__(self, other: Any) -> Tile:  # type: ignore[override]
        return compare("eq", self, other)

    def __ne__(self, other: Any) -> Tile:  # type: ignore[override]
        return compare("ne", self, other)

    __hash__ = None  # type: ignore[assignment]

    def __bool__(self) -> bool:
        raise TileError("a tile has no single truth value", cure="choose lane by lane with tile.where(condition, a, b)")


class Atomic:
    """`array.add[...] = tile` adds into global memory."""

    def __init__(self, array: GlobalArray) -> None:
        self._array = array

    def __setitem__(self, key: Any, value: Tile) -> None:
        where = self._array.place(key)
        if any(isinstance(w, np.ndarray) for w in where):  # an entry may come twice
            np.add.at(self._array.data, where, self._array.fitting(value, where))
        else:
            self._array.data[where] += self._array.fitting(value, where)


class GlobalArray:
    """A parameter during level A: loads and stores by the steps of tiles loops."""

    def __init__(self, data: Array) -> None:
        self.data = data
        self.shape = data.shape
        self.dtype = of_array(data)
        self.add = Atomic(self)

    def place(self, key: Any) -> tuple[Any, ...]:
        """The NumPy index of a tile index; a step of size-1 tiles drops its axis."""
        keys = key if isinstance(key, tuple) else (key,)
        down = len(keys) > 1 and keys[-1] is None  # x[r, None]: one number for each row
        keys = keys[:-1] if down else keys
        if len(keys) != self.data.ndim:
            raise TileError(
                f"{len(keys)} indices for an array of {self.data.ndim} dimensions", cure="one index per dimension"
            )
        found = tuple(
            self.entries(k, n) if isinstance(k, Tile) else k if isinstance(k, int) else k.numpy
            for k, n in zip(keys, self.shape, strict=True)
        )
        return (*found, None) if down else found

    def entries(self, index: Tile, extent: int) -> Array:
        """An index tile, checked against the axis that it indexes. Raises TileError."""
        found = index.data
        if found.size and not 0 <= found.min() <= found.max() < extent:
            wrong = found[(found < 0) | (found >= extent)].flat[0]
            raise TileError(
                f"index {wrong} for an axis of {extent}", cure="every entry of an index tile must lie in the array"
            )
        return found

    def fitting(self, value: Tile, where: tuple[Any, ...]) -> Array:
        """The stored lanes; one value per row, (r, 1), goes to an array of one dimension."""
        data = value.data
        if data.dtype != self.data.dtype:
            raise TileError(
                f"a {value.dtype.name} tile is stored into a {of_array(self.data).name} array", cure="add .to(...)"
            )
        return data.reshape(self.data[where].shape) if data.size == self.data[where].size else data

    def __getitem__(self, key: Any) -> Tile:
        return Tile(self.data[self.place(key)], self.dtype)

    def __setitem__(self, key: Any, value: Tile) -> None:
        where = self.place(key)
        self.data[where] = self.fitting(value, where)


def _number(value: float, kind: Dtype) -> Array:
    if numpy_of(kind).kind == "i":
        return np.asarray(value).astype(numpy_of(kind))
    return np.asarray(np.float32(value)).astype(numpy_of(kind))  # a kernel's argument is a float32 first


def binary(name: str, a: Any, b: Any) -> Tile:
    """An element-wise operation of two tiles, or of a tile and a number, as the emitted instructions compute it."""
    row = rules.BINARY[name]
    if isinstance(a, Tile) and isinstance(b, Tile):
        kind = a.dtype
        rules.require_same(name, kind, b.dtype)
        rules.require(name, row.dtypes, kind)
        return Tile(row.evaluate(a.data, b.data), kind)
    scalar_first = not isinstance(a, Tile)
    x, s = (b, a) if scalar_first else (a, b)
    rules.require(name, row.dtypes, x.dtype)
    steps, value = rules.scalar_operand(name, s, scalar_first=scalar_first)
    number = _number(value, x.dtype)
    if steps == "negate":
        return Tile(np.multiply(x.data, _number(-1, x.dtype)) + number, x.dtype)
    if steps == "fill":
        return Tile(np.divide(np.full_like(x.data, number), x.data), x.dtype)
    evaluate = {"Adds": np.add, "Muls": np.multiply}.get(row.with_scalar, row.evaluate)
    return Tile(evaluate(x.data, number), x.dtype)


def compare(name: str, a: Tile, b: Any) -> Tile:
    """A comparison, lane by lane; its only use is the condition of where."""
    rules.require(name, rules.COMPARE[name].dtypes, a.dtype)
    if isinstance(b, Tile):
        rules.require_same(name, a.dtype, b.dtype)
    right = b.data if isinstance(b, Tile) else _number(b, a.dtype)
    return Tile(rules.COMPARE[name].evaluate(a.data, right), a.dtype)  # of what was compared


def unary(name: str) -> Callable[[Tile], Tile]:
    """The level-A form of a unary function."""

    def evaluate(x: Tile) -> Tile:
        rules.require(name, rules.UNARY[name].dtypes, x.dtype)
        return Tile(rules.UNARY[name].evaluate(x.data), x.dtype)

    return evaluate


def reduce(name: str) -> Callable[..., Tile]:
    """The level-A form of sum, max and min over the last axis (one number per row) or the first one (one per column)."""

    def evaluate(x: Tile, axis: int = -1) -> Tile:
        rules.require(name, rules.REDUCE[name], x.dtype)
        if axis not in (-1, 0, x.data.ndim - 1):
            raise TileError(f"{name} over axis {axis} of {x.data.ndim}", cure="reduce over axis 0 or 1")
        if axis == 0 and x.data.ndim > 1:
            return Tile(lanes.fold_columns(name, x.data), x.dtype)
        rows = x.data.reshape(-1, x.data.shape[-1])
        return Tile(lanes.fold_rows(name, rows).reshape(*x.data.shape[:-1], 1), x.dtype)

    return evaluate


def arange(step: Span, kind: Dtype = f32) -> Tile:
    """The places of a step's elements on its axis."""
    return Tile(np.arange(step.lo, step.hi).astype(numpy_of(kind)), kind)


def gather(x: Tile, index: Tile) -> Tile:
    """Elements of a tile of one dimension by an index tile. Raises TileError for an entry outside it."""
    return Tile(x.data[GlobalArray(x.data).entries(index, x.data.size)], x.dtype)


def where(condition: Tile, a: Any, b: Any) -> Tile:
    """a where the condition holds, else b; tiles or numbers."""
    kind = a.dtype if isinstance(a, Tile) else b.dtype if isinstance(b, Tile) else condition.dtype
    left, right = (v.data if isinstance(v, Tile) else _number(v, kind) for v in (a, b))
    return Tile(np.where(condition.data, left, right), kind)


def full(shape: Any, value: float, kind: Dtype = f32) -> Tile:
    """A tile of one value; `shape` holds steps of tiles loops, extents and 1."""
    extents = shape if isinstance(shape, tuple) else (shape,)
    return Tile(np.full([len(s) if isinstance(s, Span) else s for s in extents], value, numpy_of(kind)))


def zeros(shape: Any, kind: Dtype = f32) -> Tile:
    """A tile of zeros."""
    return full(shape, 0.0, kind)


@dataclass(frozen=True)
class Product:
    """a @ b before it is summed: it exists only on its way into an accumulator."""

    left: Tile
    right: Tile


class Accumulator(Tile):
    """A sum of products in the cube's accumulator memory (float32); once it is complete, a tile like others."""

    __slots__ = ("started",)

    def __init__(self, rows: Span, columns: Span, bias: Tile | None = None) -> None:
        super().__init__(np.zeros((len(rows), len(columns)), np.float32), f32)
        self.started = bias is not None
        if bias is not None:
            rules.require("bias", (f32,), bias.dtype)
            self.data[:] = bias.data

    def __add__(self, product: Any) -> Tile:
        if not isinstance(product, Product):
            return super().__add__(product)
        lanes.matmul_into(self.data, product.left.data, product.right.data, accumulate=self.started)
        self.started = True
        return self


def acc(shape: tuple[Span, Span], bias: Tile | None = None) -> Accumulator:
    """An accumulator for the products of one tile of the result; it starts with 0, or every row of it with `bias`."""
    return Accumulator(*shape, bias)


class Stage:
    """A tile that vector work fills and a product reads, [rows, K]."""

    def __init__(self, rows: Span, columns: int, kind: Dtype) -> None:
        self.data = np.zeros((len(rows), columns), numpy_of(kind))
        self.dtype = kind

    def __getitem__(self, key: tuple[slice, Span]) -> Tile:
        return Tile(self.data[:, key[1].lo : key[1].hi], self.dtype)

    def __setitem__(self, key: tuple[slice, Span], value: Tile) -> None:
        rules.require_same("stage", self.dtype, value.dtype)
        self.data[:, key[1].lo : key[1].hi] = value.data


def stage(shape: tuple[Span, int], kind: Dtype) -> Stage:
    """The place where vector cores leave the left operand of a product."""
    return Stage(*shape, kind)


def matmul(a: Tile, b: Tile) -> Product:
    """A product of 16-bit float tiles; add it to an accumulator."""
    rules.require_same("@", a.dtype, b.dtype)
    rules.require("@", rules.PRODUCTS, a.dtype)
    return Product(a, b)


# How many steps of the outermost loop's axes are taken at once; set for one evaluation, used up by its first loop.
STEPS_AT_ONCE: ContextVar[tuple[int, ...]] = ContextVar("steps_at_once", default=())


def tiles(*axes: Any, depth: int = 1, swizzle: int = 1) -> Iterator[Any]:
    """The steps of a loop over tiles: tiles(extent, size), or tiles((extent, size), (extent, size)) for several axes."""
    pairs = axes if isinstance(axes[0], tuple) else (axes,)
    at_once = STEPS_AT_ONCE.get() or (1,) * len(pairs)
    STEPS_AT_ONCE.set(())
    pairs = tuple((extent, size * many) for (extent, size), many in zip(pairs, at_once, strict=True))
    spans = [[Span(lo, min(lo + size, extent), size) for lo in range(0, extent, size)] for extent, size in pairs]
    for step in product(*spans):  # swizzle and depth change the order and the buffers, never a value
        yield step if isinstance(axes[0], tuple) else step[0]


BUILTINS = {
    **{name: Builtin(name, unary(name)) for name in rules.UNARY},
    **{name: Builtin(name, reduce(name)) for name in rules.REDUCE},
    "maximum": Builtin("maximum", lambda a, b: binary("maximum", a, b)),
    "minimum": Builtin("minimum", lambda a, b: binary("minimum", a, b)),
    "arange": Builtin("arange", arange),
    "gather": Builtin("gather", gather),
    "where": Builtin("where", where),
    "full": Builtin("full", full),
    "zeros": Builtin("zeros", zeros),
    "tiles": Builtin("tiles", tiles),
    "acc": Builtin("acc", acc),
    "stage": Builtin("stage", stage),
}
