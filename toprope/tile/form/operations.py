"""Every element-wise operation in one place: types, NumPy meaning, the scalar unit's expression, the vector unit's instruction, its line in the manual."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from toprope.dtypes import Dtype
from toprope.tile import lanes
from toprope.tile.form import numbers
from toprope.tile.form.nodes import boolean, f16, f32, i16, i32

Array = np.ndarray[Any, Any]
WORK = (f32, f16)
NUMBERS = (f32, f16, i32, i16)


@dataclass(frozen=True)
class Operation:
    """`scalar`: C++ over {0}, {1}; "" where the scalar unit has no such thing and one lane of the vector unit does it.

    `vector`: the Ascend C function on tiles of `vector_types`; `with_number` the one with a number on the right. Types beyond that are
    worked on lane by lane.
    """

    name: str
    arity: int
    evaluate: Callable[..., Array]
    scalar: str
    vector: str = ""
    vector_types: tuple[Dtype, ...] = ()
    with_number: str = ""
    commutes: bool = False
    result: Dtype | None = None  # None: the type of the operands
    line: str = ""


def _rows() -> list[Operation]:
    o = Operation
    found = [
        o("add", 2, np.add, "{0} + {1}", "Add", NUMBERS, "Adds", True, line="a + b"),
        o("sub", 2, np.subtract, "{0} - {1}", "Sub", NUMBERS, line="a - b"),
        o("mul", 2, np.multiply, "{0} * {1}", "Mul", NUMBERS, "Muls", True, line="a * b"),
        o("div", 2, np.divide, "{0} / {1}", "Div", WORK, line="a / b of floats"),
        o("max", 2, lanes.larger, "{0} > {1} || {0} != {0} ? {0} : {1}", "Max", NUMBERS, "Maxs", line="the larger; a where it is NaN"),
        o("min", 2, lanes.smaller, "{0} < {1} || {0} != {0} ? {0} : {1}", "Min", NUMBERS, "Mins", line="the smaller; a where it is NaN"),
        o("floordiv", 2, numbers.quotient, "{1} == 0 ? 0 : {0} / {1}", line="a // b of whole numbers, cut towards zero"),
        o("mod", 2, numbers.remainder, "{1} == 0 ? 0 : {0} % {1}", line="what a // b leaves"),
        o("and", 2, np.bitwise_and, "{0} & {1}", line="bits of both"),
        o("or", 2, np.bitwise_or, "{0} | {1}", line="bits of either"),
        o("xor", 2, np.bitwise_xor, "{0} ^ {1}", line="bits of one"),
        o("shl", 2, numbers.shift_left, "{0} << {1}", line="a << b"),
        o("shr", 2, numbers.shift_right, "{0} >> {1}", line="a >> b; signed numbers keep their sign"),
        o("mulhi", 2, numbers.high_product, "(static_cast<uint64_t>({0}) * static_cast<uint64_t>({1})) >> 32", line="upper half of a product"),
        o("exp", 1, numbers.unary("exp"), "", "Exp", WORK, line="e to the x"),
        o("log", 1, numbers.unary("log"), "", "Ln", WORK, line="natural logarithm"),
        o("sqrt", 1, numbers.unary("sqrt"), "", "Sqrt", WORK, line="square root"),
        o("rsqrt", 1, numbers.unary("rsqrt"), "", "Rsqrt", WORK, line="1 / square root"),
        o("abs", 1, np.abs, "{0} < 0 ? -{0} : {0}", "Abs", WORK, line="without sign"),
        o("not", 1, np.invert, "~{0}", line="bits turned round"),
    ]  # fmt: skip
    found += [
        o(n, 2, f, f"{{0}} {sign} {{1}}", mode, WORK, mode, result=boolean, line=f"a {sign} b")
        for n, f, sign, mode in (
            ("eq", np.equal, "==", "EQ"), ("ne", np.not_equal, "!=", "NE"), ("lt", np.less, "<", "LT"),
            ("le", np.less_equal, "<=", "LE"), ("gt", np.greater, ">", "GT"), ("ge", np.greater_equal, ">=", "GE"),
        )
    ]  # fmt: skip
    found += [
        o(n, 1, numbers.rounded(n), "", mode, (f32,), line=text)
        for n, mode, text in (
            ("floor", "CAST_FLOOR", "to whole numbers below"), ("ceil", "CAST_CEIL", "above"), ("trunc", "CAST_TRUNC", "towards zero"),
            ("rint", "CAST_RINT", "the nearest, ties to even"), ("round", "CAST_ROUND", "the nearest, ties away from zero"),
        )
    ]  # fmt: skip
    return found


OPERATIONS = {o.name: o for o in _rows()}
COMPARISONS = ("eq", "ne", "lt", "le", "gt", "ge")
ROUNDINGS = ("floor", "ceil", "trunc", "rint", "round")
# What is element-wise beside the table: its operands lie lane against lane.
ELEMENTWISE = {*OPERATIONS, "cast", "select", "bitcast"}
# Steps between element types that Cast has: from -> to -> rounding.
_CASTS: dict[tuple[str, str], tuple[tuple[str, str], ...]] = {
    ("float16", "float32"): (("float32", "NONE"),), ("bfloat16", "float32"): (("float32", "NONE"),),
    ("float32", "float16"): (("float16", "RINT"),), ("float32", "bfloat16"): (("bfloat16", "RINT"),),
    ("float32", "int32"): (("int32", "TRUNC"),), ("int32", "float32"): (("float32", "RINT"),),
    ("float16", "bfloat16"): (("float32", "NONE"), ("bfloat16", "RINT")), ("bfloat16", "float16"): (("float32", "NONE"), ("float16", "RINT")),
    ("float16", "int32"): (("int32", "TRUNC"),), ("bfloat16", "int32"): (("float32", "NONE"), ("int32", "TRUNC")),
    ("int32", "float16"): (("float32", "RINT"), ("float16", "RINT")), ("int32", "bfloat16"): (("float32", "RINT"), ("bfloat16", "RINT")),
    ("int8", "float16"): (("float16", "NONE"),), ("uint8", "float16"): (("float16", "NONE"),),
    ("int8", "float32"): (("float16", "NONE"), ("float32", "NONE")), ("uint8", "float32"): (("float16", "NONE"), ("float32", "NONE")),
    ("int8", "int32"): (("float16", "NONE"), ("int32", "TRUNC")), ("uint8", "int32"): (("float16", "NONE"), ("int32", "TRUNC")),
    ("float32", "int8"): (("float32", "TRUNC"), ("float16", "RINT"), ("int8", "TRUNC")),
    ("float32", "uint8"): (("float32", "TRUNC"), ("float16", "RINT"), ("uint8", "TRUNC")),
    ("float16", "int8"): (("int8", "TRUNC"),), ("float16", "uint8"): (("uint8", "TRUNC"),),
    ("int16", "float32"): (("float32", "NONE"),), ("float32", "int16"): (("int16", "TRUNC"),),
    ("int32", "int64"): (("int64", "NONE"),),
    # a condition is kept as float16 0 or 1
    ("bool", "float16"): (), ("bool", "float32"): (("float32", "NONE"),), ("bool", "int32"): (("int32", "TRUNC"),),
    ("bool", "bfloat16"): (("float32", "NONE"), ("bfloat16", "RINT")), ("bool", "int8"): (("int8", "TRUNC"),), ("bool", "uint8"): (("uint8", "TRUNC"),),
}  # fmt: skip


def cast_steps(start: Dtype, to: Dtype) -> tuple[tuple[str, str], ...] | None:
    """(element type, rounding) of every Cast on the way, or None where the lanes go through the scalar unit."""
    return _CASTS.get((start.name, to.name))


def on_vector(op: str, kind: Dtype, to: Dtype | None = None) -> bool:
    """Whether the vector unit has an element-wise operation for operands of a type."""
    if op == "cast":
        assert to is not None
        return (
            kind == to
            or cast_steps(kind, to) is not None
            or (to.name == "bool" and kind.name in ("float32", "float16", "int32", "int8", "uint8"))
        )
    if op == "select":
        return kind.bits in (16, 32) or kind.name == "bool"
    if op == "bitcast":
        return True
    row = OPERATIONS[op]
    if kind.name == "bool":
        return op in ("and", "or", "xor", "not", "eq", "ne")
    return kind in row.vector_types or (op in COMPARISONS and kind.name == "int32")
