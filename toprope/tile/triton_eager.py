"""Level A of Triton kernels: the Python function itself, run for every program of the grid on NumPy lanes; print and pdb work in it."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np

from toprope.dtypes import Dtype, of_array
from toprope.tile import lanes, rules
from toprope.tile.eager import BUILTINS, Product, Tile, binary, compare
from toprope.tile.language import TileError, bf16, f16, f32, i16, i32, numpy_of

Array = np.ndarray[Any, Any]
TYPES = {"float32": f32, "float16": f16, "bfloat16": bf16, "int32": i32, "int16": i16}


class Block:
    """A block of float lanes: arithmetic of the vector unit, rounded after every operation."""

    __array_ufunc__ = None
    __hash__ = None  # type: ignore[assignment]

    def __init__(self, tile: Tile) -> None:
        self.tile = tile
        self.dtype, self.shape = tile.dtype, tile.data.shape

    def to(self, kind: Dtype) -> Block:
        """The block in another element type."""
        return Block(self.tile.to(kind))

    def __getitem__(self, key: Any) -> Block:
        return Block(Tile(self.tile.data[key], self.dtype))

    def __neg__(self) -> Block:
        return Block(-self.tile)

    def __add__(self, other: Any) -> Block:
        if isinstance(other, Product):  # what the cube adds to its sum, in its order
            total = self.tile.data.copy()
            lanes.matmul_into(total, other.left.data, other.right.data, accumulate=True)
            return Block(Tile(total, f32))
        return _binary("add", self, other)

    def __radd__(self, other: Any) -> Block:
        return _binary("add", other, self)


def _plain(x: Any) -> Any:
    return x.tile if isinstance(x, Block) else x


def _binary(name: str, a: Any, b: Any) -> Block:
    return Block(binary(name, _plain(a), _plain(b)))


def _dunder(name: str, *, swapped: bool) -> Callable[[Block, Any], Block]:
    return lambda a, b: _binary(name, b, a) if swapped else _binary(name, a, b)


for _name, _row in {"sub": "sub", "mul": "mul", "div": "truediv"}.items():
    setattr(Block, f"__{_row}__", _dunder(_name, swapped=False))
    setattr(Block, f"__r{_row}__", _dunder(_name, swapped=True))
for _name in rules.COMPARE:
    setattr(Block, f"__{_name}__", lambda a, b, name=_name: compare(name, _plain(a), _plain(b)).data)


class Pointer:
    """An array's elements at offsets, as `pointer + offsets` builds them."""

    __array_ufunc__ = None

    def __init__(self, name: str, data: Array, offsets: Any = 0) -> None:
        self.name, self.data, self.offsets = name, data, offsets

    def __add__(self, more: Any) -> Pointer:
        return Pointer(self.name, self.data, self.offsets + more)

    __radd__ = __add__

    def __getitem__(self, key: Any) -> Pointer:
        return Pointer(self.name, self.data, self.offsets[key])

    def places(self, mask: Any) -> tuple[Array, Array]:
        """Offsets and mask in one shape. Raises TileError when an unmasked offset leaves the array."""
        offsets, mask = np.broadcast_arrays(np.asarray(self.offsets), np.asarray(True if mask is None else mask))
        used = offsets[mask]
        if used.size and not 0 <= used.min() <= used.max() < self.data.size:
            wrong = used[(used < 0) | (used >= self.data.size)].flat[0]
            raise TileError(
                f"{self.name} has {self.data.size} elements; element {wrong} is touched",
                cure="mask the lanes that lie outside",
            )
        return offsets, mask


def _load(pointer: Pointer, mask: Any = None, other: Any = None) -> Any:
    """tl.load; float lanes that are masked off without `other` hold NaN, because nothing may depend on them."""
    offsets, mask = pointer.places(mask)
    kind = pointer.data.dtype
    fill = other if other is not None else np.nan if kind.kind not in "iu" else 0
    found = np.full(offsets.shape, fill, kind)
    found[mask] = pointer.data[offsets[mask]]
    return found.astype(np.int64) if kind.kind == "i" else Block(Tile(found, of_array(found)))


def _store(pointer: Pointer, value: Any, mask: Any = None) -> None:
    offsets, mask = pointer.places(mask)
    pointer.data[offsets[mask]] = np.broadcast_to(_lanes(pointer, value), offsets.shape)[mask]


def _atomic_add(pointer: Pointer, value: Any, mask: Any = None) -> None:
    offsets, mask = pointer.places(mask)
    np.add.at(pointer.data, offsets[mask], np.broadcast_to(_lanes(pointer, value), offsets.shape)[mask])


def _lanes(pointer: Pointer, value: Any) -> Array:
    if isinstance(value, Block):
        rules.require_same(f"a store to {pointer.name}", of_array(pointer.data), value.dtype)
        return value.tile.data
    return np.asarray(value).astype(pointer.data.dtype)


def _dot(a: Block, b: Block, acc: Block | None = None) -> Any:
    rules.require_same("dot", a.dtype, b.dtype)
    rules.require("dot", rules.PRODUCTS, a.dtype)
    product = Product(a.tile, b.tile)
    return product if acc is None else acc + product


def _reduce(name: str) -> Callable[..., Block]:
    def evaluate(x: Block, axis: int = 0) -> Block:
        found = BUILTINS[name](x.tile, axis).data
        return Block(Tile(found[..., 0] if axis == x.tile.data.ndim - 1 else found, x.dtype))

    return evaluate


def _where(condition: Any, a: Any, b: Any) -> Any:
    kind = next((x.dtype for x in (a, b) if isinstance(x, Block)), None)
    if kind is None:
        return np.where(condition, a, b)
    a, b = (
        _plain(x).data if isinstance(x, Block) else np.asarray(np.float32(x)).astype(numpy_of(kind)) for x in (a, b)
    )
    return Block(Tile(np.where(condition, a, b).astype(numpy_of(kind)), kind))


def _shaped(shape: Any, value: float, dtype: Dtype) -> Block:
    extents = shape if isinstance(shape, tuple | list) else (shape,)
    return Block(Tile(np.full(tuple(extents), value, numpy_of(dtype)), dtype))


class TritonLanguage(SimpleNamespace):
    """`tl` for one program of a grid."""

    def __init__(self, program: tuple[int, ...], grid: tuple[int, ...]) -> None:
        unary = {n: (lambda x, n=n: Block(BUILTINS[n](x.tile))) for n in ("exp", "log", "sqrt", "rsqrt", "abs")}
        super().__init__(
            program_id=lambda axis: program[axis] if axis < len(program) else 0,
            num_programs=lambda axis: grid[axis] if axis < len(grid) else 1,
            arange=lambda a, b: np.arange(a, b, dtype=np.int64),
            cdiv=lambda a, b: -(-a // b), constexpr=object, load=_load, store=_store, atomic_add=_atomic_add, dot=_dot, where=_where,
            zeros=lambda shape, dtype=f32: _shaped(shape, 0.0, dtype), full=_shaped,
            maximum=lambda a, b: _binary("maximum", a, b), minimum=lambda a, b: _binary("minimum", a, b),
            sum=_reduce("sum"), max=_reduce("max"), min=_reduce("min"), **unary, **TYPES,
        )  # fmt: skip

    def __getattr__(self, name: str) -> Any:
        raise TileError(f"tl.{name} is not supported", cure=f"supported: {', '.join(sorted(vars(self)))}")


def evaluate(function: Callable[..., None], alias: str, arguments: dict[str, Any], grid: tuple[int, ...]) -> None:
    """Run the function for every program; arrays in `arguments` become pointers to their flat elements."""
    bound = {k: Pointer(k, v.reshape(-1)) if isinstance(v, np.ndarray) else v for k, v in arguments.items()}
    scope = function.__globals__
    with np.errstate(all="ignore"):
        for program in np.ndindex(*grid):
            scope[alias] = TritonLanguage(program, grid)
            function(**bound)
