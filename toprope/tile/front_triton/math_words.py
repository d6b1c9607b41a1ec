"""Functions of lanes: those of the vector unit, and others made of them (their error against float64 is in docs/triton.md)."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from toprope.dtypes import Dtype
from toprope.tile.form import numbers
from toprope.tile.form.nodes import WHOLE, Type, Value, bf16, boolean, f16, f32, i32, i64, u32
from toprope.tile.front_triton.carry import joined_shape
from toprope.tile.front_triton.values import Pointer, common, is_number
from toprope.tile.language import TileError

if TYPE_CHECKING:
    from toprope.tile.form.builder import Builder

_LN2 = 0.6931471805599453
_PI = (
    3.140625,
    0.0009670257568359375,
    6.277114152908325e-07,
)  # pi in three parts that multiply whole numbers without rounding


class MathWords:
    """Element-wise words. `arith`, `in_type`, `lanes`, `ordered` are those of Expressions."""

    b: Builder
    f32 = f32
    arith: Any
    in_type: Any
    lanes: Any
    ordered: Any
    both: Any
    notes: list[str]

    def scalar(self, kind: Dtype) -> Type:
        """A scalar's type."""
        return Type(kind)

    # ---- plumbing ----------------------------------------------------------------------------------------------------

    def wide(self, x: Any) -> Any:
        """x in float32."""
        if is_number(x):
            return self.b.constant(float(x), f32)
        return self.b.cast(x, f32)

    def back(self, found: Value, x: Any) -> Value:
        """A float32 result in the 16-bit type that it came from."""
        return self.b.cast(found, x.dtype) if isinstance(x, Value) and x.dtype in (f16, bf16) else found

    def in_float(self, name: str, x: Any) -> Value:
        """A function of the vector unit; whole numbers become float32, bfloat16 is computed in float32."""
        if is_number(x):
            x = self.b.constant(float(x), f32)
        kind = x.dtype if x.dtype in (f16, f32) else f32
        return self.back(self.b.apply(name, self.b.cast(x, kind)), x)

    def sum_of(self, *terms: Any) -> Any:
        """a + b + ..."""
        found = terms[0]
        for t in terms[1:]:
            found = self.arith("add", found, t)
        return found

    def product(self, *factors: Any) -> Any:
        """a * b * ..."""
        found = factors[0]
        for t in factors[1:]:
            found = self.arith("mul", found, t)
        return found

    def polynomial(self, x: Any, *coefficients: float) -> Any:
        """By Horner's rule, highest power first."""
        found: Any = coefficients[0]
        for c in coefficients[1:]:
            found = self.arith("add", self.arith("mul", found, x), c)
        return found

    def round_to(self, mode: str, x: Any) -> Value:
        """x in whole numbers, still a float."""
        if isinstance(x, Value) and x.dtype in WHOLE:
            return x
        return self.back(self.b.apply(mode, self.wide(x)), x)

    # ---- the vector unit's own ---------------------------------------------------------------------------------------

    def word_exp(self, x: Any, **_: Any) -> Value:
        return self.in_float("exp", x)

    def word_log(self, x: Any, **_: Any) -> Value:
        return self.in_float("log", x)

    def word_sqrt(self, x: Any, **_: Any) -> Value:
        return self.in_float("sqrt", x)

    def word_rsqrt(self, x: Any, **_: Any) -> Value:
        return self.in_float("rsqrt", x)

    def word_abs(self, x: Any, **_: Any) -> Any:
        if x.dtype in WHOLE:
            return self.arith("max", x, self.arith("mul", x, -1))
        return self.in_float("abs", x)

    def word_floor(self, x: Any, **_: Any) -> Value:
        return self.round_to("floor", x)

    def word_ceil(self, x: Any, **_: Any) -> Value:
        return self.round_to("ceil", x)

    def word_trunc(self, x: Any, **_: Any) -> Value:
        return self.round_to("trunc", x)

    def word_rint(self, x: Any, **_: Any) -> Value:
        return self.round_to("rint", x)

    def word_round(self, x: Any, **_: Any) -> Value:
        return self.round_to("round", x)

    def note(self, text: str) -> None:
        """Something that was read and is done otherwise."""
        if text not in self.notes:
            self.notes.append(text)

    def word_logical_and(self, a: Any, b: Any) -> Any:
        return self.both("and", a, b)

    def word_logical_or(self, a: Any, b: Any) -> Any:
        return self.both("or", a, b)

    def word_maximum(self, a: Any, b: Any, *_: Any, **__: Any) -> Any:
        return self.arith("max", a, b) if not (is_number(a) and is_number(b)) else max(a, b)

    def word_minimum(self, a: Any, b: Any, *_: Any, **__: Any) -> Any:
        return self.arith("min", a, b) if not (is_number(a) and is_number(b)) else min(a, b)

    def word_fdiv(self, a: Any, b: Any, **_: Any) -> Any:
        return self.arith("div", a, b)

    def word_fdiv_rz(self, a: Any, b: Any, **_: Any) -> Any:
        return self.arith("div", a, b)

    def word_add(self, a: Any, b: Any, **_: Any) -> Any:
        return self.arith("add", a, b)

    def word_sub(self, a: Any, b: Any, **_: Any) -> Any:
        return self.arith("sub", a, b)

    def word_mul(self, a: Any, b: Any, **_: Any) -> Any:
        return self.arith("mul", a, b)

    def word_fma(self, a: Any, b: Any, c: Any, **_: Any) -> Any:
        return self.arith("add", self.arith("mul", a, b), c)

    def word_clamp(self, x: Any, min: Any, max: Any, *_: Any, **__: Any) -> Any:
        return self.arith("min", self.arith("max", x, min), max)

    def word_relu(self, x: Any) -> Any:
        return self.arith("max", x, 0.0 if numbers.is_float(x.dtype) else 0)

    def word_umulhi(self, a: Any, b: Any) -> Any:
        return self.in_type("mulhi", u32, a, b)

    def word_cast(
        self, x: Any, dtype: Any = None, fp_downcast_rounding: Any = None, bitcast: bool = False, **_: Any
    ) -> Any:
        kind = dtype
        if isinstance(kind, tuple) and kind and kind[0] == "pointer":
            kind = kind[1]
            if isinstance(x, Pointer):
                return Pointer(x.array, kind, x.offset) if x.dtype.bits == kind.bits else self._reseen(x, kind)
            raise TileError(
                "an address is made of a number", cure="pass the array itself; addresses inside arrays are not followed"
            )
        if not isinstance(kind, Dtype):
            raise TileError("a cast to something that is no element type", cure="for example .to(tl.float32)")
        if kind.name == "float64":  # the chip's vector unit has no such lanes
            self.note("float64 is computed in float32")
            kind = f32
        if is_number(x):
            return float(x) if numbers.is_float(kind) else bool(x) if kind == boolean else int(x)
        if bitcast and x.dtype != kind:
            if x.dtype.bits != kind.bits:
                raise TileError("a bitcast between widths", cure="cast between types of one width")
            return self.b.value("bitcast", Type(kind, x.shape), x)
        return self.b.cast(x, kind)

    def _reseen(self, x: Pointer, kind: Dtype) -> Pointer:
        if x.offset is None:
            return Pointer(x.array, kind)
        if kind.bits < x.dtype.bits:
            return Pointer(x.array, kind, self.arith("mul", x.offset, x.dtype.bits // kind.bits))
        return Pointer(x.array, kind, self.arith("floordiv", x.offset, kind.bits // x.dtype.bits))

    def word_bits_int(self, x: Any) -> Any:
        return self.word_cast(x, i32, bitcast=True)

    def word_bits_float(self, x: Any) -> Any:
        return self.word_cast(x, f32, bitcast=True)

    def word_pointer_type(self, kind: Any, *_: Any, **__: Any) -> Any:
        return ("pointer", kind)

    def word_where(self, condition: Any, a: Any, b: Any, **_: Any) -> Any:
        if is_number(condition):
            condition = bool(condition)
        if isinstance(condition, bool) and not isinstance(a, Value) and not isinstance(b, Value):
            return a if condition else b
        if isinstance(a, Pointer) and isinstance(b, Pointer) and a.array == b.array:
            zero = self.b.constant(0)
            return Pointer(a.array, a.dtype, self.word_where(condition, a.offset or zero, b.offset or zero))
        if not all(isinstance(x, Value) or is_number(x) for x in (a, b)):
            raise TileError("a choice between things that are no data", cure="choose between numbers and tiles")
        kind = common(a, b)
        if is_number(a) and is_number(b):
            kind = (
                f32
                if isinstance(a, float) or isinstance(b, float)
                else boolean
                if isinstance(a, bool) and isinstance(b, bool)
                else i32
            )
        shape: tuple[int, ...] = ()
        for x in (condition, a, b):
            shape = joined_shape(shape, getattr(x, "shape", ()))
        if isinstance(condition, bool):
            return self.lanes(a if condition else b, kind, shape)
        return self.b.select(
            self.lanes(self.b.cast(condition, boolean), boolean, shape),
            self.lanes(a, kind, shape),
            self.lanes(b, kind, shape),
        )

    # ---- made of others ----------------------------------------------------------------------------------------------

    def word_exp2(self, x: Any, **_: Any) -> Any:
        return self.back(self.b.apply("exp", self.product(self.wide(x), _LN2)), x)

    def word_exp10(self, x: Any) -> Any:
        return self.back(self.b.apply("exp", self.product(self.wide(x), math.log(10))), x)

    def word_log2(self, x: Any, **_: Any) -> Any:
        return self.back(self.product(self.b.apply("log", self.wide(x)), 1 / _LN2), x)

    def word_log10(self, x: Any) -> Any:
        return self.back(self.product(self.b.apply("log", self.wide(x)), 1 / math.log(10)), x)

    def word_log1p(self, x: Any) -> Any:
        w = self.wide(x)
        u = self.sum_of(w, 1.0)
        correction = self.arith("div", self.arith("sub", self.arith("sub", u, 1.0), w), u)
        return self.back(
            self.word_where(
                self.ordered("gt", u, 1e30),
                self.b.apply("log", w),
                self.arith("sub", self.b.apply("log", u), correction),
            ),
            x,
        )

    def word_expm1(self, x: Any) -> Any:
        w = self.wide(x)
        small = self.product(w, self.polynomial(w, 1 / 720, 1 / 120, 1 / 24, 1 / 6, 0.5, 1.0))
        return self.back(
            self.word_where(
                self.ordered("lt", self.b.apply("abs", w), 0.3), small, self.arith("sub", self.b.apply("exp", w), 1.0)
            ),
            x,
        )

    def word_sigmoid(self, x: Any) -> Any:
        w = self.wide(x)
        return self.back(self.arith("div", 1.0, self.sum_of(self.b.apply("exp", self.product(w, -1.0)), 1.0)), x)

    def word_silu(self, x: Any) -> Any:
        return self.arith("mul", x, self.word_sigmoid(x))

    def word_tanh(self, x: Any, **_: Any) -> Any:
        w = self.wide(x)
        square = self.product(w, w)
        small = self.product(w, self.polynomial(square, -17 / 315, 2 / 15, -1 / 3, 1.0))
        large = self.arith(
            "sub", 1.0, self.arith("div", 2.0, self.sum_of(self.b.apply("exp", self.product(w, 2.0)), 1.0))
        )
        return self.back(self.word_where(self.ordered("lt", self.b.apply("abs", w), 0.1), small, large), x)

    def word_erf(self, x: Any) -> Any:
        w = self.wide(x)
        size = self.b.apply("abs", w)
        t = self.arith("div", 1.0, self.sum_of(self.product(size, 0.3275911), 1.0))
        p = self.product(self.polynomial(t, 1.061405429, -1.453152027, 1.421413741, -0.284496736, 0.254829592), t)
        found = self.arith("sub", 1.0, self.product(p, self.b.apply("exp", self.product(size, size, -1.0))))
        square = self.product(w, w)
        small = self.product(
            w,
            self.polynomial(
                square,
                1 / 216 * 1.1283791671,
                -1 / 42 * 1.1283791671,
                0.1 * 1.1283791671,
                -1.1283791671 / 3,
                1.1283791671,
            ),
        )
        signed = self.word_where(self.ordered("lt", w, 0.0), self.product(found, -1.0), found)
        return self.back(self.word_where(self.ordered("lt", size, 0.3), small, signed), x)

    def word_erfc(self, x: Any) -> Any:
        return self.arith("sub", 1.0, self.word_erf(x))

    def word_gelu(self, x: Any) -> Any:
        return self.product(x, 0.5, self.sum_of(self.word_erf(self.product(x, 0.7071067811865476)), 1.0))

    def _turns(self, w: Any, shift: float) -> tuple[Any, Any]:
        """(k, w - (k - shift) * pi) for the nearest whole k - shift."""
        k = self.b.apply("rint", self.lanes(self.sum_of(self.product(w, 1 / math.pi), shift), f32, w.shape))
        turns = self.arith("sub", k, shift) if shift else k
        r = w
        for part in _PI:
            r = self.arith("sub", r, self.product(turns, part))
        return k, r

    def _sine(self, w: Any, shift: float) -> Any:
        k, r = self._turns(w, shift)
        square = self.product(r, r)
        s = self.product(
            r,
            self.polynomial(
                square, 2.6083159809786593e-06, -0.0001981069071916863, 0.00833307858556509, -0.16666659712791443, 1.0
            ),
        )
        odd = self.arith("sub", k, self.product(self.b.apply("floor", self.product(k, 0.5)), 2.0))
        return self.word_where(self.ordered("gt", odd, 0.5), self.product(s, -1.0), s)

    def word_sin(self, x: Any) -> Any:
        return self.back(self._sine(self.wide(x), 0.0), x)

    def word_cos(self, x: Any) -> Any:
        w = self.wide(x)
        s = self._sine(w, 0.5)
        return self.back(s, x)

    def word_tan(self, x: Any) -> Any:
        w = self.wide(x)
        return self.back(self.arith("div", self._sine(w, 0.0), self._sine(w, 0.5)), x)

    def word_atan(self, x: Any) -> Any:
        w = self.wide(x)
        size = self.b.apply("abs", w)
        large = self.ordered("gt", size, 1.0)
        t = self.word_where(large, self.arith("div", 1.0, self.arith("max", size, 1e-30)), size)
        mid = self.ordered("gt", t, 0.4142135623730951)
        u = self.word_where(mid, self.arith("div", self.arith("sub", t, 1.0), self.sum_of(t, 1.0)), t)
        z = self.product(u, u)
        a = self.product(
            u, self.polynomial(z, 8.05374449538e-2, -1.38776856032e-1, 1.99777106478e-1, -3.33329491539e-1, 1.0)
        )
        a = self.sum_of(a, self.word_where(mid, math.pi / 4, 0.0))
        a = self.word_where(large, self.arith("sub", math.pi / 2, a), a)
        return self.back(self.word_where(self.ordered("lt", w, 0.0), self.product(a, -1.0), a), x)

    def word_atan2(self, y: Any, x: Any) -> Any:
        a, b = self.wide(y), self.wide(x)
        base = self.word_atan(self.arith("div", a, b))
        half = self.word_where(self.ordered("ge", a, 0.0), math.pi, -math.pi)
        found = self.word_where(self.ordered("lt", b, 0.0), self.sum_of(base, half), base)
        upright = self.word_where(
            self.ordered("gt", a, 0.0), math.pi / 2, self.word_where(self.ordered("lt", a, 0.0), -math.pi / 2, 0.0)
        )
        return self.back(self.word_where(self.ordered("eq", b, 0.0), upright, found), y)

    def word_asin(self, x: Any) -> Any:
        w = self.wide(x)
        root = self.b.apply("sqrt", self.product(self.arith("sub", 1.0, w), self.sum_of(w, 1.0)))
        return self.back(self.word_atan2(w, root), x)

    def word_acos(self, x: Any) -> Any:
        w = self.wide(x)
        root = self.b.apply("sqrt", self.product(self.arith("sub", 1.0, w), self.sum_of(w, 1.0)))
        return self.back(self.word_atan2(root, w), x)

    def word_sinh(self, x: Any) -> Any:
        w = self.wide(x)
        e = self.word_expm1(w)
        return self.back(self.product(0.5, self.sum_of(e, self.arith("div", e, self.sum_of(e, 1.0)))), x)

    def word_cosh(self, x: Any) -> Any:
        e = self.b.apply("exp", self.b.apply("abs", self.wide(x)))
        return self.back(self.product(0.5, self.sum_of(e, self.arith("div", 1.0, e))), x)

    def word_asinh(self, x: Any) -> Any:
        w = self.wide(x)
        size = self.b.apply("abs", w)
        square = self.product(size, size)
        found = self.word_log1p(
            self.sum_of(
                size, self.arith("div", square, self.sum_of(self.b.apply("sqrt", self.sum_of(square, 1.0)), 1.0))
            )
        )
        return self.back(self.word_where(self.ordered("lt", w, 0.0), self.product(found, -1.0), found), x)

    def word_acosh(self, x: Any) -> Any:
        w = self.arith("sub", self.wide(x), 1.0)
        return self.back(
            self.word_log1p(
                self.sum_of(w, self.b.apply("sqrt", self.sum_of(self.product(w, w), self.product(w, 2.0))))
            ),
            x,
        )

    def word_atanh(self, x: Any) -> Any:
        w = self.wide(x)
        return self.back(
            self.product(0.5, self.word_log1p(self.arith("div", self.product(w, 2.0), self.arith("sub", 1.0, w)))), x
        )

    def word_pow(self, a: Any, b: Any) -> Any:
        if isinstance(b, int | float) and float(b).is_integer() and 0 <= b <= 8:
            found: Any = 1.0
            for _ in range(int(b)):
                found = a if isinstance(found, float) else self.arith("mul", found, a)
            return found if not isinstance(found, float) else self.word_full_like(a, 1.0)
        if b == 0.5 and is_number(b):
            return self.word_sqrt(a)
        x, y = self.wide(a), self.wide(b)
        size = self.b.apply(
            "exp",
            self.lanes(
                self.product(y, self.b.apply("log", self.b.apply("abs", x))), f32, joined_shape(x.shape, y.shape)
            ),
        )
        whole = self.b.apply("floor", y)
        odd = self.ordered("ne", self.product(self.b.apply("floor", self.product(whole, 0.5)), 2.0), whole)
        negative = self.word_where(
            self.ordered("ne", whole, y), math.nan, self.word_where(odd, self.product(size, -1.0), size)
        )
        found = self.word_where(self.ordered("lt", x, 0.0), negative, size)
        return self.back(self.word_where(self.ordered("eq", y, 0.0), 1.0, found), a)

    def word_full_like(self, x: Any, value: Any, **_: Any) -> Any:
        return self.lanes(value, x.dtype, x.shape)

    def word_fmod(self, a: Any, b: Any) -> Any:
        return self.arith("mod", self.wide(a), self.wide(b))

    def word_isnan(self, x: Any) -> Any:
        return self.ordered("ne", x, x)

    def word_isinf(self, x: Any) -> Any:
        return self.ordered("eq", self.b.apply("abs", self.wide(x)), math.inf)

    def word_isfinited(self, x: Any) -> Any:
        return self.ordered("lt", self.b.apply("abs", self.wide(x)), math.inf)

    def word_signbit(self, x: Any) -> Any:
        return self.ordered("lt", self.word_cast(self.wide(x), i32, bitcast=True), 0)

    def word_copysign(self, a: Any, b: Any) -> Any:
        size = self.b.apply("abs", self.wide(a))
        return self.back(self.word_where(self.word_signbit(b), self.product(size, -1.0), size), a)

    def word_sign(self, x: Any) -> Any:
        return self.word_where(self.ordered("gt", x, 0), 1.0, self.word_where(self.ordered("lt", x, 0), -1.0, 0.0))

    def word_cbrt(self, x: Any) -> Any:
        size = self.word_pow(self.b.apply("abs", self.wide(x)), 1 / 3)
        return self.word_copysign(size, x)

    def word_hypot(self, a: Any, b: Any) -> Any:
        return self.word_sqrt(self.sum_of(self.product(a, a), self.product(b, b)))

    def word_normcdf(self, x: Any) -> Any:
        return self.product(0.5, self.sum_of(self.word_erf(self.product(x, 0.7071067811865476)), 1.0))


__all__ = ["MathWords", "i64"]
