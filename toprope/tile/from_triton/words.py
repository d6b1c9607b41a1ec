"""What Triton's operators and `tl` names mean, written once for NumPy (level A) and for emitted Ascend C.

A machine supplies the steps that a core has (`Machine`); promotion, broadcasting and composed functions stand here, so both evaluations
take the same steps in the same order.
"""

from __future__ import annotations

from typing import Any

from toprope.dtypes import Dtype, dtype
from toprope.tile import rules
from toprope.tile.from_triton.steps import Machine
from toprope.tile.from_triton.types import (
    TYPES,
    Bits,
    Block,
    Mask,
    Pointer,
    Product,
    Range,
    Scalar,
    is_float,
    is_number,
    joined,
    promoted,
    refused,
)  # fmt: skip
from toprope.tile.language import TileError, bf16, f16, f32, i16, i32

i8, u8, i64, boolean = dtype("int8"), dtype("uint8"), dtype("int64"), dtype("bool")
# from -> to: the conversions of the chip, one after the other. Triton cuts fractions off; (type, rounding) pairs.
_ROUTES: dict[tuple[Dtype, Dtype], tuple[tuple[Dtype, str], ...]] = {
    (f16, f32): ((f32, "none"),), (bf16, f32): ((f32, "none"),), (i16, f32): ((f32, "none"),), (i32, f32): ((f32, "rint"),),
    (f32, f16): ((f16, "rint"),), (f32, bf16): ((bf16, "rint"),), (f32, i32): ((i32, "trunc"),), (f16, i32): ((i32, "trunc"),),
    (f32, i16): ((i16, "trunc"),), (i8, f16): ((f16, "none"),), (u8, f16): ((f16, "none"),), (i64, i32): ((i32, "none"),),
    (i32, i64): ((i64, "none"),), (i32, i16): ((i16, "none"),), (f16, i8): ((i8, "trunc"),), (f16, u8): ((u8, "trunc"),),
    (f32, i8): ((f32, "trunc"), (f16, "rint"), (i8, "trunc")), (f32, u8): ((f32, "trunc"), (f16, "rint"), (u8, "trunc")),
    (i8, f32): ((f16, "none"), (f32, "none")), (u8, f32): ((f16, "none"), (f32, "none")),
}  # fmt: skip
_LN2 = 0.6931471805599453
_ROUNDINGS = {"floor": "floor", "ceil": "ceil", "rint": "rint", "nearbyint": "rint", "trunc": "trunc", "round": "round"}
_HINTS = ("multiple_of", "max_contiguous", "max_constancy")


class Words:
    """`tl` of one program: its functions, and the operators of all values."""

    def __init__(self, machine: Machine) -> None:
        self.m = machine
        machine.words = self
        for name, kind in TYPES.items():
            setattr(self, name, kind)
        self.math = self.libdevice = self.extra = self.cuda = self.standard = self
        for name in ("exp", "log", "sqrt", "rsqrt"):
            setattr(self, name, lambda x, name=name: self.in_float(lambda v: self.m.unary(name, v), x))
        for name, mode in _ROUNDINGS.items():
            setattr(self, name, lambda x, mode=mode: self.in_single(lambda v: self.m.cast(v, f32, mode), x))
        self.sqrt_rn, self.llrint, self.fast_expf = self.sqrt, self.rint, self.exp

    def __getattr__(self, name: str) -> Any:
        raise refused(name)

    # ---- operators ---------------------------------------------------------------------------------------------------

    def arith(self, name: str, a: Any, b: Any) -> Any:
        """a + b and its like. Raises TileError for what the vector unit does not have."""
        if a is None or b is None:
            raise TileError(
                "an argument that is None takes part in arithmetic",
                cure="pass an array or number, or test for None first",
            )
        if isinstance(a, Pointer) or isinstance(b, Pointer):
            return self.moved(name, a, b)
        if all(isinstance(x, Mask | Bits) for x in (a, b)) or isinstance(a, Bits | Mask) or isinstance(b, Bits | Mask):
            a, b = (self.to(x, i32) if isinstance(x, Bits | Mask) else x for x in (a, b))
        if _single(a) and _single(b):
            return self.m.scalar_arith(name, a, b)
        if name == "add" and (isinstance(a, Product) or isinstance(b, Product)):
            return self.m.accumulate(*((b, a) if isinstance(a, Product) else (a, b)))
        if isinstance(a, Range) or isinstance(b, Range) or self.m.is_index(a) or self.m.is_index(b):
            found = self.m.range_arith(name, a, b)
            if found is not None:
                return found
        a, b = self.materialised(a), self.materialised(b)
        kind = promoted(name, a, b)
        if name in ("floordiv", "mod"):
            raise TileError(
                f"{'//' if name == 'floordiv' else '%'} of blocks: the vector unit has no division of whole numbers",
                cure="divide program ids and sizes, which are scalars, and add tl.arange afterwards",
            )
        kind = i32 if kind is i64 else kind  # the vector unit's whole numbers
        if kind is bf16:
            return self.to(self.arith(name, self.to(a, f32), self.to(b, f32)), bf16)
        if name == "div" and not is_float(kind):
            kind = f32
        rules.require(name, rules.BINARY[name].dtypes, kind)
        x, y = (v if is_number(v) else self.to(v, kind) for v in (a, b))
        if isinstance(x, Block) and isinstance(y, Block):
            joined(x.shape, y.shape)
            return self.m.binary(name, x, y)
        return self.with_number(name, x, y, kind)

    def with_number(self, name: str, x: Any, y: Any, kind: Dtype) -> Block:
        """A block and a number: the chip adds, multiplies and compares, the rest is composed of that."""
        m = self.m
        if isinstance(x, Block):
            if name == "sub":
                return m.with_scalar("add", x, m.scalar_arith("sub", 0, y) if isinstance(y, Scalar) else -y)
            if name == "div":
                return m.with_scalar("mul", x, m.reciprocal(y))
            return m.with_scalar(name, x, y)
        if name == "sub":
            return m.with_scalar("add", m.with_scalar("mul", y, -1), x)
        if name == "div":
            return m.binary("div", m.full(y.shape, x, kind), y)
        return m.with_scalar(name, y, x)

    def moved(self, name: str, a: Any, b: Any) -> Pointer:
        pointer, offset = (a, b) if isinstance(a, Pointer) else (b, a)
        if name not in ("add", "sub") or isinstance(offset, Pointer):
            raise TileError("pointers are only moved by + and -", cure="add whole-number offsets to a pointer argument")
        if isinstance(offset, float) or (isinstance(offset, Scalar | Block) and is_float(offset.dtype)):
            raise TileError("a pointer moves by a float", cure="convert the offset with .to(tl.int32)")
        return self.m.move(pointer, self.negative(offset) if name == "sub" else offset)

    def negative(self, x: Any) -> Any:
        return -x if isinstance(x, int | float) else self.arith("mul", x, -1)

    def compare(self, name: str, a: Any, b: Any) -> Any:
        """Lanes that hold, as a mask or as bits."""
        if a is None or b is None or isinstance(a, str | Dtype) or isinstance(b, str | Dtype):
            return (a is b) if name == "eq" else (a is not b)
        if _single(a) and _single(b):
            return self.m.scalar_compare(name, a, b)
        if isinstance(a, Range) or isinstance(b, Range):
            found = self.m.range_compare(name, a, b)
            if found is not None:
                return found
        a, b = self.materialised(a), self.materialised(b)
        kind = promoted("add", a, b)
        kind = f32 if kind in (bf16, i16, i8, u8) else i32 if kind is i64 else kind
        shape = joined(getattr(a, "shape", ()), getattr(b, "shape", ()))
        if not isinstance(a, Block):
            name, a, b = rules.MIRRORED[name], b, a
        a, b = self.to(a, kind), b if is_number(b) else self.to(b, kind)
        if kind is i32:
            return self.compare_whole(name, a, b, shape)
        rules.require(name, rules.COMPARE[name].dtypes, kind)
        return self.m.compare(name, self.m.broadcast(a, shape), b if is_number(b) else self.m.broadcast(b, shape))

    def compare_whole(self, name: str, a: Block, b: Any, shape: tuple[int, ...]) -> Bits:
        """int32 lanes, of which the chip only knows whether they are equal: a <= b is min(a, b) == a."""
        m = self.m
        a, b = m.broadcast(a, shape), m.full(shape, b, i32) if is_number(b) else m.broadcast(b, shape)
        if name in ("eq", "ne"):
            found = m.compare("eq", a, b)
            return m.inverted(found) if name == "ne" else found
        small, large = (a, b) if name in ("le", "gt") else (b, a)
        found = m.compare("eq", m.binary("minimum", small, large), small)
        return m.inverted(found) if name in ("gt", "lt") else found

    def logic(self, name: str, a: Any, b: Any) -> Any:
        """& | ^ of masks, conditions and whole numbers."""
        if isinstance(a, bool | Scalar) and isinstance(b, bool | Scalar):
            return self.m.scalar_logic(name, a, b)
        if isinstance(a, bool) or isinstance(b, bool):
            known, other = (a, b) if isinstance(a, bool) else (b, a)
            if name == "and":
                return other if known else self.m.never(other)
            if name == "or" and not known:
                return other
        if isinstance(a, Mask | Bits | Scalar) and isinstance(b, Mask | Bits | Scalar):
            return self.m.mask_logic(name, a, b)
        raise TileError(
            f"{name} of bits inside data", cure="combine masks and comparisons with & and |; the vector unit's bit operations are not read"
        )  # fmt: skip

    def invert(self, x: Any) -> Any:
        """~mask."""
        if isinstance(x, Bits):
            return self.m.inverted(x)
        if isinstance(x, Scalar) and x.dtype is boolean:
            return self.m.scalar_compare("eq", x, 0)
        if isinstance(x, Mask):
            return self.m.inverted(self.m.bits_of(x))
        raise TileError("~ of something else than a mask", cure="invert comparisons")

    def materialised(self, x: Any) -> Any:
        """Index lanes as data."""
        return self.m.materialise(x) if isinstance(x, Range) else x

    def to(self, x: Any, kind: Any, **_: Any) -> Any:
        """x in another element type; fractions are cut off on the way to whole numbers, as Triton does."""
        if not isinstance(kind, Dtype):
            raise TileError(".to takes an element type", cure="for example .to(tl.float32)")
        if isinstance(x, bool | int | float):
            return float(x) if is_float(kind) else int(x)
        if isinstance(x, Scalar):
            return self.m.scalar_cast(x, kind)
        if isinstance(x, Range):
            if not is_float(kind):
                return x
            x = self.m.materialise(x)
        if isinstance(x, Mask):
            x = self.m.bits_of(x)
        if isinstance(x, Bits):
            return x if kind is boolean else self.to(self.m.select(x, self.m.full(x.shape, 1.0, f32), 0.0), kind)
        if kind is boolean:
            return self.compare("ne", x, 0)
        if kind is x.dtype or (kind is i64 and not is_float(x.dtype)):
            return x  # an index of 64 bits has the lanes of its 32
        for other in (f32, f16, i32):
            route = _ROUTES.get((x.dtype, kind)) or (
                (*_ROUTES[(x.dtype, other)], *_ROUTES[(other, kind)])
                if (x.dtype, other) in _ROUTES and (other, kind) in _ROUTES
                else ()
            )
            if route:
                for step, mode in route:
                    x = self.m.cast(x, step, mode)
                return x
        raise TileError(f"no conversion from {x.dtype.name} to {kind.name}", cure="convert by way of tl.float32")

    # ---- programs, memory --------------------------------------------------------------------------------------------

    def program_id(self, axis: Any = 0) -> Any:
        return self.m.program_id(int(axis))

    def num_programs(self, axis: Any = 0) -> Any:
        return self.m.num_programs(int(axis))

    def arange(self, start: Any, end: Any) -> Any:
        if not isinstance(start, int) or not isinstance(end, int):
            raise TileError("tl.arange of a size that is not constant", cure="pass it as tl.constexpr")
        return self.m.arange(start, end)

    def load(self, pointer: Any, mask: Any = None, other: Any = None, **options: Any) -> Any:
        """tl.load; options that only steer caches are noted and ignored."""
        self.cache_options("load", options)
        return self.m.load(_pointer(pointer), _mask(mask), other)

    def store(self, pointer: Any, value: Any, mask: Any = None, **options: Any) -> None:
        """tl.store; the value is converted to the array's element type, as Triton does."""
        self.cache_options("store", options)
        self.m.store(_pointer(pointer), self.stored(pointer, value), _mask(mask), atomic=False)

    def atomic_add(self, pointer: Any, value: Any, mask: Any = None, **_: Any) -> None:
        """tl.atomic_add; the old values are not given back."""
        self.m.store(_pointer(pointer), self.stored(pointer, value), _mask(mask), atomic=True)

    def stored(self, pointer: Pointer, value: Any) -> Any:
        value = self.materialised(value)
        return value if isinstance(value, int | float) else self.to(value, pointer.dtype)

    def cache_options(self, name: str, options: dict[str, Any]) -> None:
        for key, value in options.items():
            if key in ("eviction_policy", "cache_modifier", "volatile", "cache", "evict"):
                if value not in ("", False, None):
                    self.m.note(f"{key}={value!r} of tl.{name} is ignored: it steers a GPU's cache")
            elif value is not None and (key != "boundary_check" or value != ()):
                raise TileError(f"{key} of tl.{name}", cure="use pointers with mask and other")

    def cdiv(self, a: Any, b: Any) -> Any:
        return self.arith("floordiv", self.arith("sub", self.arith("add", a, b), 1), b) if not (
            isinstance(a, int) and isinstance(b, int)) else -(-a // b)  # fmt: skip

    def zeros(self, shape: Any, dtype: Dtype = f32) -> Any:
        return self.full(shape, 0, dtype)

    def full(self, shape: Any, value: Any, dtype: Dtype = f32) -> Any:
        sizes = tuple(shape) if isinstance(shape, tuple | list) else (shape,)
        if not all(isinstance(n, int) for n in sizes):
            raise TileError("a shape that is not constant", cure="pass its sizes as tl.constexpr")
        if not is_number(value):
            return self.to(self.m.broadcast(self.materialised(value), sizes), dtype)
        return self.m.full(sizes, value, dtype)

    def zeros_like(self, x: Any) -> Any:
        return self.m.full(x.shape, 0, x.dtype)

    def full_like(self, x: Any, value: Any) -> Any:
        return self.m.full(x.shape, value, x.dtype)

    def broadcast_to(self, x: Any, *shape: Any) -> Any:
        sizes = tuple(shape[0]) if isinstance(shape[0], tuple | list) else shape
        return self.m.full(sizes, x, f32) if is_number(x) else self.m.broadcast(self.materialised(x), sizes)

    def expand_dims(self, x: Any, axis: int) -> Any:
        return x[(None, slice(None)) if axis == 0 else (slice(None), None)]

    def cast(self, x: Any, dtype: Dtype, **_: Any) -> Any:
        return self.to(x, dtype)

    def where(self, condition: Any, a: Any, b: Any) -> Any:
        """Lanes of a where the condition holds, else of b."""
        if isinstance(condition, bool | int):
            return a if condition else b
        if isinstance(condition, Block | Range):
            condition = self.compare("ne", condition, 0)
        if isinstance(condition, Bits) and condition.shape == () and _single(a) and _single(b):
            condition = self.m.truth(condition)
        if isinstance(condition, Scalar) and _single(a) and _single(b):
            return self.m.scalar_choice(condition, a, b)
        a, b = self.materialised(a), self.materialised(b)
        kind = promoted("add", a, b)
        shape = joined(condition.shape, joined(getattr(a, "shape", ()), getattr(b, "shape", ())))
        x, y = (v if is_number(v) else self.m.broadcast(self.to(v, kind), shape) for v in (a, b))
        if isinstance(condition, Scalar):
            return self.m.choice(condition, self.filled(x, shape, kind), self.filled(y, shape, kind))
        x = self.filled(x, shape, kind)
        if isinstance(condition, Mask):
            return self.m.mask_select(condition, x, y)
        return self.m.select(self.m.bits_to(condition, shape), x, y)

    def filled(self, x: Any, shape: tuple[int, ...], kind: Dtype) -> Block:
        return self.m.full(shape, x, kind) if is_number(x) else x

    # ---- functions of lanes ------------------------------------------------------------------------------------------

    def in_float(self, function: Any, x: Any) -> Any:
        """A function that the unit has for float16 and float32; whole numbers become float32, bfloat16 is computed in it."""
        x = self.m.full((), x, f32) if is_number(x) and not isinstance(x, Block) else self.materialised(x)
        if x.dtype is f16:
            return function(x)
        found = function(self.to(x, f32))
        return self.to(found, bf16) if x.dtype is bf16 else found

    def in_single(self, function: Any, x: Any) -> Any:
        """A composed function, computed in float32 and given back in its float type."""
        x = self.m.full((), x, f32) if is_number(x) else self.materialised(x)
        found = function(self.to(x, f32))
        return self.to(found, x.dtype) if is_float(x.dtype) else found

    def maximum(self, a: Any, b: Any, **_: Any) -> Any:
        return max(a, b) if isinstance(a, int | float) and isinstance(b, int | float) else self.arith("maximum", a, b)

    def minimum(self, a: Any, b: Any, **_: Any) -> Any:
        return min(a, b) if isinstance(a, int | float) and isinstance(b, int | float) else self.arith("minimum", a, b)

    fmax, fmin = maximum, minimum

    def clamp(self, x: Any, low: Any, high: Any, **_: Any) -> Any:
        return self.minimum(self.maximum(x, low), high)

    def abs(self, x: Any) -> Any:
        x = self.materialised(x)
        if isinstance(x, Block) and is_float(x.dtype):
            return self.in_float(lambda v: self.m.unary("abs", v), x)
        return abs(x) if isinstance(x, int | float) else self.maximum(x, self.negative(x))

    fabs = abs

    def exp2(self, x: Any) -> Any:
        return self.exp(self.arith("mul", x, _LN2))

    def log2(self, x: Any) -> Any:
        return self.arith("mul", self.log(x), 1 / _LN2)

    def log1p(self, x: Any) -> Any:
        return self.log(self.arith("add", x, 1.0))

    def fma(self, a: Any, b: Any, c: Any) -> Any:
        return self.arith("add", self.arith("mul", a, b), c)

    def div_rn(self, a: Any, b: Any) -> Any:
        return self.arith("div", a, b)

    fdiv = div_rn

    def sigmoid(self, x: Any) -> Any:
        return self.in_single(lambda v: 1.0 / (1.0 + self.exp(-v)), x)

    def tanh(self, x: Any) -> Any:
        """1 - 2 / (e^2x + 1): exact at both ends, 1e-7 near 0."""
        return self.in_single(lambda v: 1.0 - 2.0 / (self.exp(v * 2.0) + 1.0), x)

    fast_tanh = tanh

    def erf(self, x: Any) -> Any:
        """Abramowitz and Stegun, formula 7.1.26: 1.5e-7 off at most."""

        def of(v: Any) -> Any:
            size = self.abs(v)
            t = 1.0 / (size * 0.3275911 + 1.0)
            p = ((((t * 1.061405429 - 1.453152027) * t + 1.421413741) * t - 0.284496736) * t + 0.254829592) * t
            y = 1.0 - p * self.exp(size * size * -1.0)
            return self.where(v < 0.0, y * -1.0, y)

        return self.in_single(of, x)

    def softmax(self, x: Any, **_: Any) -> Any:
        e = self.exp(x - self.max(x, 0))
        return e / self.sum(e, 0)

    def sum(self, x: Any, axis: Any = None, keep_dims: bool = False, dtype: Any = None, **_: Any) -> Any:
        return self.fold("sum", x if dtype is None else self.to(x, dtype), axis, keep_dims)

    def max(self, x: Any, axis: Any = None, return_indices: bool = False, keep_dims: bool = False, **_: Any) -> Any:
        return (self.max(x, axis), self.argmax(x, axis)) if return_indices else self.fold("max", x, axis, keep_dims)

    def min(self, x: Any, axis: Any = None, return_indices: bool = False, keep_dims: bool = False, **_: Any) -> Any:
        return (self.min(x, axis), self.argmin(x, axis)) if return_indices else self.fold("min", x, axis, keep_dims)

    def fold(self, name: str, x: Any, axis: Any, keep: bool) -> Any:
        """A reduction over one axis, or over all: rows first."""
        if axis is not None and not isinstance(axis, int):
            raise TileError(
                f"axis of tl.{name} is a value",
                cure=f"write tl.{name}imum(a, b) for two values" if name != "sum" else "write a + b",
            )
        x = self.materialised(x)
        if isinstance(x, Mask | Bits):
            x = self.to(x, i32)
        if not isinstance(x, Block) or x.shape == ():
            return x
        if axis is None:
            return (
                self.fold(name, self.fold(name, x, 1, False), 0, False)
                if len(x.shape) == 2
                else self.fold(name, x, 0, False)
            )
        axis = axis % len(x.shape)
        kind = i32 if x.dtype in (i8, u8, i16) else x.dtype
        if kind in (i32, i64):
            if len(x.shape) != 1:
                raise TileError(f"tl.{name} of whole numbers in two dimensions", cure="convert with .to(tl.float32)")
            return self.m.fold_whole(name, self.to(x, i32))
        native = any(kind is k for k in rules.REDUCE[name])
        found = self.m.reduce(name, x if native else self.to(x, f32), axis)
        found = found if native else self.to(found, kind)
        return found[(None, slice(None)) if axis == 0 else (slice(None), None)] if keep and len(x.shape) == 2 else found

    def argmax(self, x: Any, axis: Any = None, **_: Any) -> Any:
        return self.arg("max", x, axis)

    def argmin(self, x: Any, axis: Any = None, **_: Any) -> Any:
        return self.arg("min", x, axis)

    def arg(self, name: str, x: Any, axis: Any) -> Any:
        """The first lane that holds the extreme: the least of the indices where it stands."""
        axis = 0 if axis is None else int(axis) % len(x.shape)
        x = self.to(x, f32)
        size = x.shape[axis]
        lane = self.to(self.m.arange(0, size), f32)
        best = self.fold(name, x, axis, False)
        if len(x.shape) == 2:
            where = (slice(None), None) if axis == 1 else (None, slice(None))
            best, lane = best[where], lane[(None, slice(None)) if axis == 1 else (slice(None), None)]
        equal = self.compare("eq", x, self.m.broadcast(best, x.shape))
        return self.to(
            self.fold("min", self.where(equal, self.m.broadcast(lane, x.shape), float(size)), axis, False), i32
        )

    def dot(self, a: Any, b: Any, acc: Any = None, **_: Any) -> Any:
        """A product of 16-bit floats with float32 sums."""
        rules.require_same("dot", a.dtype, b.dtype)
        rules.require("dot", rules.PRODUCTS, a.dtype)
        product = self.m.dot(a, b)
        return product if acc is None else self.m.accumulate(acc, product)

    # ---- words that say something to a compiler, or to nobody --------------------------------------------------------

    def constexpr(self, x: Any) -> Any:
        return x

    def debug_barrier(self) -> None:
        self.m.barrier()

    def multiple_of(self, x: Any, _: Any) -> Any:
        return x

    max_contiguous = max_constancy = multiple_of

    def assume(self, _: Any) -> None:
        return None

    device_print = device_assert = static_print = lambda *_, **__: None

    def static_assert(self, holds: Any, text: str = "") -> None:
        if not holds:
            raise TileError(f"tl.static_assert fails: {text}", cure="launch with other constants")

    def range(self, *bounds: Any, **_: Any) -> Any:
        return self.m.counted(bounds)

    def static_range(self, *bounds: Any, **_: Any) -> Any:
        return range(*bounds)


def _single(x: Any) -> bool:
    return isinstance(x, bool | int | float | Scalar)


def _pointer(x: Any) -> Pointer:
    if isinstance(x, Pointer):
        return x
    raise TileError("the address is not a pointer plus offsets", cure="add whole-number offsets to a pointer argument")


def _mask(x: Any) -> Any:
    return None if x is None or x is True else x
