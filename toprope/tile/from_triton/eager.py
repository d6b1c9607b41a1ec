"""Level A of Triton kernels: the Python function itself, run for every program of the grid on NumPy lanes; print and pdb work in it."""

from __future__ import annotations

import traceback
from collections.abc import Callable
from typing import Any

import numpy as np

from toprope.dtypes import Dtype, dtype, of_array
from toprope.tile import lanes, rules
from toprope.tile.from_triton.types import Bits, Block, Lanes, Mask, Pointer, Product, Range, Scalar, is_float, promoted
from toprope.tile.from_triton.words import Words
from toprope.tile.language import TileError, f32, i32, numpy_of

Array = np.ndarray[Any, Any]
boolean = dtype("bool")
_ROUND: dict[str, Callable[[Array], Array]] = {
    "trunc": np.trunc, "floor": np.floor, "ceil": np.ceil, "rint": np.rint, "round": lambda x: np.copysign(np.floor(np.abs(x) + 0.5), x),
}  # fmt: skip
_LOGIC: dict[str, Callable[..., Any]] = {"and": np.logical_and, "or": np.logical_or, "xor": np.logical_xor}


class NumpyMachine:
    """One program of a grid on NumPy arrays; `it` of a value is a number or an array."""

    words: Any

    def __init__(self, program: tuple[int, ...], grid: tuple[int, ...]) -> None:
        self.program, self.grid = program, grid

    def program_id(self, axis: int) -> Scalar:
        return self.whole(self.program[axis] if axis < len(self.program) else 0)

    def num_programs(self, axis: int) -> Scalar:
        return self.whole(self.grid[axis] if axis < len(self.grid) else 1)

    def note(self, text: str) -> None:
        """Notes are collected by the reader."""

    def barrier(self) -> None:
        """Programs run one after the other."""

    def counted(self, bounds: tuple[Any, ...]) -> Any:
        return [self.whole(n) for n in range(*bounds)]

    def argument(self, value: Any, *, constant: bool) -> Any:
        """A launch's argument as the function sees it: constants stay Python's, numbers are int32 or float32."""
        if constant or value is None or isinstance(value, bool | str | Dtype):
            return value
        if isinstance(value, float):
            return Scalar(self.words, f32, np.float32(value))
        return self.whole(value) if isinstance(value, int) else value

    # ---- the scalar unit ---------------------------------------------------------------------------------------------

    def whole(self, value: int) -> Scalar:
        return Scalar(self.words, i32, int(value))

    def scalar_arith(self, name: str, a: Any, b: Any) -> Scalar:
        kind = promoted(name, a, b)
        x, y = (v.it if isinstance(v, Scalar) else v for v in (a, b))
        if is_float(kind):
            single = rules.BINARY[name].evaluate(np.float32(x), np.float32(y))
            return Scalar(self.words, kind, np.float32(np.asarray(single, numpy_of(kind))))
        return Scalar(self.words, kind, _whole(name, int(x), int(y)))

    def scalar_compare(self, name: str, a: Any, b: Any) -> Scalar:
        x, y = (v.it if isinstance(v, Scalar) else v for v in (a, b))
        if is_float(promoted("add", a, b)):
            x, y = np.float32(x), np.float32(y)
        return Scalar(self.words, boolean, bool(rules.COMPARE[name].evaluate(x, y)))

    def scalar_logic(self, name: str, a: Any, b: Any) -> Scalar:
        return Scalar(self.words, boolean, bool(_LOGIC[name](bool(a), bool(b))))

    def scalar_choice(self, condition: Scalar, a: Any, b: Any) -> Any:
        kind = promoted("add", a, b)
        return self.scalar_cast(_scalar(self.words, a if condition else b), kind)

    def scalar_cast(self, x: Scalar, kind: Dtype) -> Scalar:
        value = np.float32(np.asarray(np.float32(x.it), numpy_of(kind))) if is_float(kind) else int(x.it)
        return Scalar(self.words, kind, value)

    def reciprocal(self, x: Any) -> float:
        number = np.float32(x.it if isinstance(x, Scalar) else x)
        if not isinstance(x, Scalar) and number == 0:
            raise TileError("a block is divided by the number 0", cure="divide by something else")
        return float(np.float32(1) / number)

    def truth(self, x: Any) -> Scalar:
        return Scalar(self.words, boolean, bool(x.it))

    # ---- index lanes and masks ---------------------------------------------------------------------------------------

    def arange(self, start: int, end: int) -> Range:
        return Range(self.words, (end - start,), np.arange(start, end, dtype=np.int64))

    def is_index(self, x: Any) -> bool:
        """Loaded whole numbers are data here; sums with a range are ranges."""
        return False

    def range_arith(self, name: str, a: Any, b: Any) -> Range | None:
        if (
            any(isinstance(v, float) or (isinstance(v, Scalar | Block) and is_float(v.dtype)) for v in (a, b))
            or name == "div"
        ):
            return None
        x, y = (np.asarray(v.it if isinstance(v, Scalar | Lanes) else v).astype(np.int64) for v in (a, b))
        found = np.asarray(_whole(name, x, y))
        return Range(self.words, found.shape, found)

    def range_compare(self, name: str, a: Any, b: Any) -> Mask | None:
        if any(isinstance(v, float) or (isinstance(v, Scalar | Block) and is_float(v.dtype)) for v in (a, b)):
            return None
        x, y = (np.asarray(v.it if isinstance(v, Scalar | Lanes) else v) for v in (a, b))
        found = np.asarray(rules.COMPARE[name].evaluate(x, y))
        return Mask(self.words, found.shape, found)

    def materialise(self, x: Range) -> Block:
        return self.block(x.it.astype(np.int32), i32)

    def mask_logic(self, name: str, a: Any, b: Any) -> Mask:
        found = np.asarray(_LOGIC[name](a.it, b.it))
        return Mask(self.words, found.shape, found)

    def never(self, x: Any) -> Mask:
        return Mask(self.words, np.shape(x.it), np.zeros(np.shape(x.it), bool))

    def bits_of(self, x: Mask) -> Bits:
        return Bits(self.words, x.shape, x.it)

    def expanded(self, x: Any, key: Any) -> Any:
        if isinstance(x, Pointer):
            return Pointer(self.words, x.name, x.dtype, (x.it[0], np.asarray(x.it[1])[key]))
        found = np.asarray(x.it)[key]
        if isinstance(x, Block):
            return self.block(found, x.dtype)
        return type(x)(self.words, found.shape, found)

    # ---- memory ------------------------------------------------------------------------------------------------------

    def move(self, pointer: Pointer, offset: Any) -> Pointer:
        data, at = pointer.it
        more = offset.it if isinstance(offset, Value_) else offset
        return Pointer(self.words, pointer.name, pointer.dtype, (data, at + np.asarray(more).astype(np.int64)))

    def places(self, pointer: Pointer, mask: Any) -> tuple[Array, Array]:
        """Offsets and mask in one shape. Raises TileError when an unmasked offset leaves the array."""
        data, at = pointer.it
        offsets, used = np.broadcast_arrays(
            np.asarray(at), np.asarray(True if mask is None else getattr(mask, "it", mask))
        )
        if used.shape != np.shape(at) and np.shape(at) != ():
            raise TileError(
                f"a mask of shape {list(used.shape)} for offsets of {list(np.shape(at))}", cure="give both one shape"
            )
        touched = offsets[used]
        if touched.size and not 0 <= touched.min() <= touched.max() < data.size:
            wrong = touched[(touched < 0) | (touched >= data.size)].flat[0]
            raise TileError(
                f"{pointer.name} has {data.size} elements; element {wrong} is touched",
                cure="mask the lanes that lie outside",
            )
        return offsets, used

    def load(self, pointer: Pointer, mask: Any, other: Any) -> Any:
        """Float lanes that are masked off without `other` hold NaN, because nothing may depend on them."""
        offsets, used = self.places(pointer, mask)
        data, kind = pointer.it[0], pointer.dtype
        other = getattr(other, "it", other)
        fill = other if other is not None else np.nan if is_float(kind) else 0
        found = np.full(offsets.shape, np.float32(fill) if is_float(kind) else int(fill), data.dtype)
        found[used] = data[offsets[used]]
        return self.block(found, kind) if found.shape or is_float(kind) else Scalar(self.words, kind, int(found))

    def store(self, pointer: Pointer, value: Any, mask: Any, *, atomic: bool) -> None:
        offsets, used = self.places(pointer, mask)
        data = pointer.it[0]
        stored = np.broadcast_to(np.asarray(getattr(value, "it", value)).astype(data.dtype), offsets.shape)[used]
        if atomic:
            np.add.at(data, offsets[used], stored)
        else:
            data[offsets[used]] = stored

    # ---- the vector unit ---------------------------------------------------------------------------------------------

    def block(self, data: Any, kind: Dtype) -> Block:
        array = np.asarray(data)
        return Block(self.words, array.shape, kind, array)

    def number(self, value: Any, kind: Dtype) -> Array:
        """A number as the unit takes it: a float32 first."""
        plain = value.it if isinstance(value, Scalar) else value
        return np.asarray(np.float32(plain) if is_float(kind) else int(plain)).astype(numpy_of(kind))

    def full(self, shape: tuple[int, ...], value: Any, kind: Dtype) -> Block:
        return self.block(np.full(shape, self.number(value, kind)), kind)

    def unary(self, name: str, x: Block) -> Block:
        rules.require(name, rules.UNARY[name].dtypes, x.dtype)
        return self.block(rules.UNARY[name].evaluate(x.it).reshape(x.shape), x.dtype)

    def binary(self, name: str, x: Block, y: Block) -> Block:
        return self.block(rules.BINARY[name].evaluate(x.it, y.it), x.dtype)

    def with_scalar(self, name: str, x: Block, number: Any) -> Block:
        return self.block(rules.BINARY[name].evaluate(x.it, self.number(number, x.dtype)), x.dtype)

    def cast(self, x: Block, kind: Dtype, mode: str) -> Block:
        data = (
            _ROUND[mode](x.it.astype(np.float32))
            if mode in _ROUND and is_float(x.dtype) and (not is_float(kind) or kind is x.dtype)
            else x.it
        )
        if not is_float(kind) and is_float(x.dtype):
            limits = np.iinfo(numpy_of(kind))
            wide = np.nan_to_num(data.astype(np.float64), nan=0.0, posinf=float(limits.max), neginf=float(limits.min))
            data = np.clip(wide, limits.min, limits.max)
        return self.block(np.asarray(data).astype(numpy_of(kind)), kind)

    def broadcast(self, x: Block, shape: tuple[int, ...]) -> Block:
        return self.block(np.broadcast_to(x.it, shape), x.dtype)

    def compare(self, name: str, x: Block, y: Any) -> Bits:
        right = y.it if isinstance(y, Block) else self.number(y, x.dtype)
        return Bits(self.words, x.shape, np.asarray(rules.COMPARE[name].evaluate(x.it, right)))

    def inverted(self, x: Bits) -> Bits:
        return Bits(self.words, x.shape, ~x.it)

    def bits_to(self, x: Bits, shape: tuple[int, ...]) -> Bits:
        return Bits(self.words, shape, np.broadcast_to(x.it, shape))

    def select(self, bits: Any, x: Block, y: Any) -> Block:
        right = y.it if isinstance(y, Block) else self.number(y, x.dtype)
        return self.block(np.where(bits.it, x.it, right), x.dtype)

    mask_select = select

    def choice(self, condition: Scalar, x: Block, y: Block) -> Block:
        return x if condition else y

    def reduce(self, name: str, x: Block, axis: int) -> Block:
        if axis == 0 and len(x.shape) == 2:
            return self.block(lanes.fold_columns(name, x.it), x.dtype)
        rows = np.ascontiguousarray(x.it).reshape(-1, x.shape[-1])
        return self.block(lanes.fold_rows(name, rows).reshape(x.shape[:-1]), x.dtype)

    def dot(self, a: Block, b: Block) -> Block:
        """The product alone; it remembers its sides, because the cube adds to a sum in its own order."""
        made = Product(self.words, (a.shape[0], b.shape[1]), f32, np.zeros((a.shape[0], b.shape[1]), np.float32))
        lanes.matmul_into(made.it, a.it, b.it, accumulate=False)
        made.sides = (a, b)
        return made

    def accumulate(self, total: Block, product: Any) -> Block:
        data = total.it.copy()
        lanes.matmul_into(data, product.sides[0].it, product.sides[1].it, accumulate=True)
        return self.block(data, f32)

    def fold_whole(self, name: str, x: Block) -> Scalar:
        fold = {"sum": np.add, "max": np.maximum, "min": np.minimum}[name]
        return self.whole(int(fold.reduce(x.it, dtype=np.int32)))


Value_ = (Scalar, Lanes)


def _at_line(e: TileError, file: str) -> TileError:
    """The error with the user's line in front."""
    frames = [f for f in traceback.extract_tb(e.__traceback__) if f.filename == file]
    return TileError(f"{file}:{frames[-1].lineno}: {e.message}", cure=e.cure) if frames else e


def _scalar(words: Any, x: Any) -> Scalar:
    return (
        x
        if isinstance(x, Scalar)
        else Scalar(words, f32 if isinstance(x, float) else i32, np.float32(x) if isinstance(x, float) else int(x))
    )


def _whole(name: str, x: Any, y: Any) -> Any:
    """Whole numbers as the scalar unit computes them: / and % cut towards zero."""
    if name in ("floordiv", "mod"):
        if np.any(np.asarray(y) == 0):
            raise TileError("a division of whole numbers by 0", cure="divide by something else")
        quotient = np.abs(x) // np.abs(y) * (np.sign(x) * np.sign(y))
        found = quotient if name == "floordiv" else x - quotient * y
        return found if isinstance(found, np.ndarray) else int(found)
    steps: dict[str, Callable[..., Any]] = {
        "add": lambda: x + y, "sub": lambda: x - y, "mul": lambda: x * y, "maximum": lambda: np.maximum(x, y), "minimum": lambda: np.minimum(x, y),
    }  # fmt: skip
    return steps[name]()


def evaluate(
    function: Callable[..., None], scope: dict[str, Any], fill: Callable[[dict[str, Any], Words], None],
    arguments: dict[str, Any], constants: set[str], grid: tuple[int, ...],
) -> None:  # fmt: skip
    """Run the function for every program; `fill` puts the words of one program into the function's globals."""
    with np.errstate(all="ignore"):
        for program in np.ndindex(*grid[::-1]):  # axis 0 runs fastest
            machine = NumpyMachine(program[::-1], grid)
            words = Words(machine)
            fill(scope, words)
            bound = {
                k: Pointer(words, k, of_array(v), (v.reshape(-1), 0)) if isinstance(v, np.ndarray)
                else machine.argument(v, constant=k in constants) for k, v in arguments.items()
            }  # fmt: skip
            try:
                function(**bound)
            except TileError as e:
                raise _at_line(e, function.__code__.co_filename) from None
