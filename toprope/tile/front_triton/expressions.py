"""Expressions of a Triton function: Python's operators on numbers, values and pointers, calls, indexing."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from toprope.dtypes import Dtype
from toprope.tile.form import numbers
from toprope.tile.form.builder import Builder
from toprope.tile.form.nodes import FLOATS, WHOLE, Type, Value, bf16, boolean, f32, i32, i64
from toprope.tile.front_triton.carry import joined_shape
from toprope.tile.front_triton.module import Helper, Module, Unread, Words, limit_of, member
from toprope.tile.front_triton.values import BlockPointer, Pointer, common, is_number
from toprope.tile.front_triton.words import WORDS, Language
from toprope.tile.language import TileError

_SIGNS: dict[type, str] = {
    ast.Add: "add", ast.Sub: "sub", ast.Mult: "mul", ast.Div: "div", ast.FloorDiv: "floordiv", ast.Mod: "mod", ast.BitAnd: "and", ast.BitOr: "or",
    ast.BitXor: "xor", ast.LShift: "shl", ast.RShift: "shr", ast.Pow: "pow", ast.MatMult: "matmul",
}  # fmt: skip
_COMPARE: dict[type, str] = {ast.Lt: "lt", ast.LtE: "le", ast.Gt: "gt", ast.GtE: "ge", ast.Eq: "eq", ast.NotEq: "ne"}
_PYTHON: dict[str, Any] = {
    "add": lambda a, b: a + b, "sub": lambda a, b: a - b, "mul": lambda a, b: a * b, "div": lambda a, b: a / b, "floordiv": lambda a, b: a // b,
    "mod": lambda a, b: a % b, "and": lambda a, b: a & b, "or": lambda a, b: a | b, "xor": lambda a, b: a ^ b, "shl": lambda a, b: a << b,
    "shr": lambda a, b: a >> b, "pow": lambda a, b: a**b, "lt": lambda a, b: a < b, "le": lambda a, b: a <= b, "gt": lambda a, b: a > b,
    "ge": lambda a, b: a >= b, "eq": lambda a, b: a == b, "ne": lambda a, b: a != b,
}  # fmt: skip
_BUILTIN = {
    "min",
    "max",
    "abs",
    "range",
    "len",
    "int",
    "float",
    "bool",
    "isinstance",
    "print",
    "tuple",
    "list",
    "zip",
    "enumerate",
    "str",
    "sum",
    "any",
    "all",
    "reversed",
    "round",
    "getattr",
    "type",
}


@dataclass
class Frame:
    """A function that is being read: its file and its names."""

    module: Module
    env: dict[str, Any]
    inlined: bool = False


class Expressions(Language):
    """What expressions mean."""

    def __init__(self, builder: Builder, frame: Frame) -> None:
        self.b, self.frame, self.depth = builder, frame, 0
        self.loops: list[Any] = []
        self.failed = False
        self.notes: list[str] = []

    @property
    def env(self) -> dict[str, Any]:
        """The names of the function that is being read."""
        return self.frame.env

    @contextmanager
    def at(self, node: ast.AST) -> Iterator[None]:
        """Nodes and errors get the line of a statement; a helper's errors name the call's line too."""
        line, self.b.line = self.b.line, getattr(node, "lineno", self.b.line) if not self.frame.inlined else self.b.line
        try:
            yield
        except TileError as e:
            if not getattr(e, "placed", False):
                found = TileError(f"{self.frame.module.file}:{getattr(node, 'lineno', 0)}: {e.message}", cure=e.cure)
                found.placed = True  # type: ignore[attr-defined]
                raise found from None
            raise
        except (
            AttributeError,
            TypeError,
            ValueError,
            LookupError,
            AssertionError,
            ArithmeticError,
            RecursionError,
        ) as e:
            found = TileError(
                f"{self.frame.module.file}:{getattr(node, 'lineno', 0)}: not read: {ast.unparse(node).splitlines()[0][:100]} ({type(e).__name__}: {e})",
                cure="write it with the operations of docs/triton.md",
            )
            found.placed = True  # type: ignore[attr-defined]
            raise found from e
        finally:
            self.b.line = line

    # ---- expressions -------------------------------------------------------------------------------------------------

    def expression(self, node: ast.expr) -> Any:
        """A number or other Python constant, a Value, a pointer, a tuple, a helper, words."""
        match node:
            case ast.Constant(value=v):
                return v
            case ast.Name(id=name):
                return self.name(name)
            case ast.Tuple(elts=elts) | ast.List(elts=elts):
                return tuple(
                    x
                    for e in elts
                    for x in (self.expression(e.value) if isinstance(e, ast.Starred) else (self.expression(e),))
                )
            case ast.Attribute():
                return self.attribute(node)
            case ast.Subscript(value=value, slice=key):
                return self.indexed(self.expression(value), key)
            case ast.UnaryOp(op=op, operand=x):
                return self.unary(op, self.expression(x))
            case ast.BinOp(op=op, left=a, right=b):
                return self.operator(type(op), self.expression(a), self.expression(b))
            case ast.Compare(left=left, ops=ops, comparators=others):
                return self.compared(left, ops, others)
            case ast.BoolOp(op=op, values=values):
                return self.logic(op, values)
            case ast.IfExp(test=test, body=body, orelse=orelse):
                return self.chosen(test, body, orelse)
            case ast.Call():
                return self.call(node)
            case ast.JoinedStr():
                return ast.unparse(node)
            case ast.NamedExpr(target=target, value=value):
                self.env[target.id] = found = self.expression(value)
                return found
            case ast.Slice():
                return slice(
                    *(self.expression(x) if x is not None else None for x in (node.lower, node.upper, node.step))
                )
            case ast.ListComp(elt=elt, generators=[gen]):
                items = self.counted(gen.iter)
                made = []
                for item in items if isinstance(items, list) else []:
                    self.bind(gen.target, item)
                    made.append(self.expression(elt))
                return tuple(made)
            case ast.Lambda() | ast.Dict():
                return Words("lambda")
        raise TileError(f"{type(node).__name__} is not read", cure="write it with the operations of docs/triton.md")

    def name(self, name: str) -> Any:
        """A name of the function, its module, or Python."""
        if name in self.env:
            return self.env[name]
        module = self.frame.module
        if module.has(name):
            found = module.value(name)
            if isinstance(found, Unread):
                raise TileError(
                    f"{name} = {ast.unparse(found.node)[:60]} needs the module to run",
                    cure="pass it as a constant, or pass the function instead of its file",
                )
            return found
        if name in _BUILTIN or name in WORDS or name in ("tl", "triton", "libdevice"):
            return Words(name)
        if name in ("True", "False", "None"):
            return {"True": True, "False": False, "None": None}[name]
        raise TileError(
            f"{name} has no value here", cure="give it one before; names first assigned inside a loop end with it"
        )

    def attribute(self, node: ast.Attribute) -> Any:
        """x.T, x.dtype, x.shape, module members."""
        if isinstance(node.value, ast.Call) and (limit := limit_of(node)) is not None:
            return limit
        x = self.expression(node.value)
        a = node.attr
        if isinstance(x, Words | Module):
            found = member(x, a)
            if isinstance(found, Unread):
                raise TileError(f"{a} needs its module to run", cure="pass it as a constant")
            return found
        if isinstance(x, Value | Pointer | BlockPointer):
            if a == "dtype":
                return x.dtype if isinstance(x, Value) else ("pointer", x.dtype)
            if a == "shape":
                return tuple(x.shape)
            if a == "type":
                return x.dtype if isinstance(x, Value) else ("pointer", x.dtype)
            if a == "T":
                return self.word_trans(x)
            if a == "value":
                return x
            if a in WORDS or a in ("load", "store", "to", "gather", "scatter", "atomic_add"):
                return (x, a)
        if isinstance(x, tuple) and len(x) == 2 and x[0] == "pointer" and isinstance(x[1], Dtype):
            return {"element_ty": x[1], "scalar": x, "dtype": x}.get(a) or (x[1], a)
        if isinstance(x, Dtype):
            if a in ("element_ty", "scalar", "type", "dtype", "value"):
                return x
            if a in ("primitive_bitwidth", "itemsize"):
                return (1 if x == boolean else x.bits) if a == "primitive_bitwidth" else x.bits // 8
            if a in ("name", "mantissa_bits", "fp_mantissa_width", "int_bitwidth"):
                return {"name": _short(x), "int_bitwidth": x.bits}.get(
                    a, {"float32": 23, "float16": 10, "bfloat16": 7}.get(x.name, 0)
                )
            return (x, a)
        if is_number(x) and a in ("value", "to", "dtype"):
            return x if a == "value" else (x, a) if a == "to" else f32 if isinstance(x, float) else i32
        if isinstance(x, Helper) and a in ("fn", "__func__"):
            return x
        if isinstance(x, str | tuple | list) and hasattr(x, a):
            return getattr(x, a)
        raise TileError(
            f".{a} of {_kind(x)}", cure="tiles have .T, .to, .shape, .dtype and the methods of docs/triton.md"
        )

    def unary(self, op: ast.unaryop, x: Any) -> Any:
        if isinstance(op, ast.Not):
            t = self.truth(x)
            return not t if isinstance(t, bool) else self.b.apply("not", t)
        if isinstance(op, ast.UAdd):
            return x
        if is_number(x):
            return -x if isinstance(op, ast.USub) else ~x
        if isinstance(op, ast.USub):
            return self.arith("mul", x, -1.0 if numbers.is_float(x.dtype) else -1)
        return self.b.apply("not", x)

    def operator(self, op: type, a: Any, b: Any) -> Any:
        """a op b."""
        name = _SIGNS.get(op)
        if name is None:
            raise TileError(f"{op.__name__} is not read", cure="use + - * / // % and bit operations")
        if name == "matmul":
            return self.word_dot(a, b)
        if name == "pow" and not (is_number(a) and is_number(b)):
            return self.word_pow(a, b)
        if (isinstance(a, tuple) and isinstance(b, tuple)) or isinstance(a, str) or isinstance(b, str):
            return _PYTHON[name](a, b)
        return self.arith(name, a, b)

    def arith(self, name: str, a: Any, b: Any) -> Any:
        """+ - * / // % and bit operations of numbers, values and pointers."""
        if a is None or b is None:
            raise TileError(
                "an argument that is None takes part in arithmetic",
                cure="pass an array or number, or test for None first",
            )
        if isinstance(a, Pointer) or isinstance(b, Pointer):
            return self.moved(name, a, b)
        if is_number(a) and is_number(b):
            if name in ("floordiv", "mod", "div") and b == 0:
                raise TileError("a division of constants by 0", cure="divide by something else")
            return _PYTHON[name](a, b)
        kind = common(a, b, division=name == "div")
        if name == "floordiv" and numbers.is_float(kind):
            return self.word_floor(self.arith("div", a, b))
        if name == "mod" and numbers.is_float(kind):
            return self.arith("sub", a, self.arith("mul", self.round_to("trunc", self.arith("div", a, b)), b))
        if kind == boolean and name not in ("and", "or", "xor"):
            kind = i32
        if name in ("and", "or", "xor") and numbers.is_float(kind):
            raise TileError(f"{name} of floats", cure="compare first")
        if name in ("shl", "shr") and isinstance(a, Value):
            kind = a.dtype
        return self.in_type(name, kind, a, b)

    def in_type(self, name: str, kind: Dtype, *args: Any) -> Any:
        """An operation on operands of one type and shape; bfloat16 is computed in float32 and rounded."""
        shape: tuple[int, ...] = ()
        for x in args:
            shape = joined_shape(shape, getattr(x, "shape", ()))
        work = f32 if kind == bf16 else kind
        given = [self.lanes(x, work, shape) for x in args]
        found = self.b.apply(name, *given)
        return self.b.cast(found, kind) if kind == bf16 and found.dtype == f32 else found

    def lanes(self, x: Any, kind: Dtype, shape: tuple[int, ...]) -> Value:
        """A number or value in a type and shape."""
        if is_number(x):
            return self.b.splat(self.b.constant(bool(x) if kind == boolean else x, kind), shape)
        if not isinstance(x, Value):
            raise TileError(f"{_kind(x)} where data is needed", cure="load it first")
        return self.b.broadcast(self.b.cast(x, kind), shape)

    def moved(self, name: str, a: Any, b: Any) -> Any:
        """A pointer and an offset; the distance of two pointers into one array."""
        if isinstance(a, Pointer) and isinstance(b, Pointer):
            if name == "sub" and a.array == b.array:
                return self.arith(
                    "sub", a.offset if a.offset is not None else 0, b.offset if b.offset is not None else 0
                )
            raise TileError("two pointers meet", cure="add whole-number offsets to one pointer")
        pointer, offset = (a, b) if isinstance(a, Pointer) else (b, a)
        if (
            name not in ("add", "sub")
            or isinstance(offset, float)
            or (isinstance(offset, Value) and numbers.is_float(offset.dtype))
        ):
            raise TileError(
                "pointers are only moved by + and - of whole numbers", cure="convert the offset with .to(tl.int32)"
            )
        if isinstance(offset, Value) and offset.dtype == boolean:
            offset = self.b.cast(offset, i32)
        if name == "sub":
            offset = self.unary(ast.USub(), offset)
        if pointer.offset is not None:
            offset = self.arith("add", pointer.offset, offset)
        return Pointer(pointer.array, pointer.dtype, self.b.constant(offset) if is_number(offset) else offset)

    # ---- conditions --------------------------------------------------------------------------------------------------

    def compared(self, left: ast.expr, ops: list[ast.cmpop], others: list[ast.expr]) -> Any:
        found: Any = None
        a = self.expression(left)
        for op, node in zip(ops, others, strict=True):
            b = self.expression(node)
            one = self.compare(op, a, b)
            found = one if found is None else self.both("and", found, one)
            a = b
        return found

    def compare(self, op: ast.cmpop, a: Any, b: Any) -> Any:
        """a < b and its like; is, in and texts are Python's."""
        if isinstance(op, ast.Is | ast.IsNot):
            same = a is b or (isinstance(a, Dtype | bool | str | int) and a == b)
            return same if isinstance(op, ast.Is) else not same
        if isinstance(op, ast.In | ast.NotIn):
            inside = any(x is a or (not isinstance(x, Value) and x == a) for x in b)
            return inside if isinstance(op, ast.In) else not inside
        name = _COMPARE[type(op)]
        if not (isinstance(a, Value) or isinstance(b, Value)):
            if isinstance(a, Pointer | BlockPointer) or isinstance(b, Pointer | BlockPointer):
                return name == "ne"  # a pointer is not None and not 0
            if (isinstance(a, Words) or isinstance(b, Words)) and name in ("eq", "ne"):
                return (a == b) == (name == "eq")
            return _PYTHON[name](a, b)
        if not all(isinstance(x, Value) or is_number(x) for x in (a, b)):
            return name == "ne"
        return self.ordered(name, a, b)

    def ordered(self, name: str, a: Any, b: Any) -> Any:
        """A comparison of lanes or scalars."""
        kind = common(a, b)
        if kind == boolean and name not in ("eq", "ne"):
            kind = i32
        return self.in_type(name, f32 if kind == bf16 else kind, a, b)

    def logic(self, op: ast.boolop, values: list[ast.expr]) -> Any:
        """and, or: constants decide at once; tiles are joined lane by lane."""
        name = "and" if isinstance(op, ast.And) else "or"
        found: Any = None
        for node in values:
            x = self.expression(node)
            if not isinstance(x, Value):
                if bool(x) != (name == "and"):
                    return x if found is None else bool(x)
                if found is None and node is values[-1]:
                    return x
                continue
            found = x if found is None else self.both(name, found, x)
        return found if found is not None else name == "and"

    def both(self, name: str, a: Any, b: Any) -> Any:
        """Conditions joined."""
        if isinstance(a, bool) and isinstance(b, bool):
            return (a and b) if name == "and" else (a or b)
        return self.in_type(
            name,
            boolean,
            a if isinstance(a, bool) else self.b.cast(a, boolean),
            b if isinstance(b, bool) else self.b.cast(b, boolean),
        )

    def truth(self, x: Any) -> Any:
        """A bool of Python, or a scalar condition."""
        if isinstance(x, Value):
            if x.type.size != 1:
                raise TileError("an if on a tile", cure="choose lanes with tl.where")
            x = self.b.cast(self.single(x), boolean)
            return bool(x.constant) if x.constant is not None else x
        if isinstance(x, Pointer | BlockPointer | Helper):
            return True
        if isinstance(x, Words):
            raise TileError(f"{x.path} is not known while reading", cure="pass it as a constant of the launch")
        return bool(x)

    def single(self, x: Value) -> Value:
        """A tile of one lane as a scalar."""
        return x if not x.shape else self.b.value("item", Type(x.dtype), x)

    def chosen(self, test: ast.expr, body: ast.expr, orelse: ast.expr) -> Any:
        """a if c else b: of numbers and scalars both sides are computed."""
        t = self.truth(self.expression(test))
        if isinstance(t, bool):
            return self.expression(body if t else orelse)
        a, b = self.expression(body), self.expression(orelse)
        if isinstance(a, Pointer) and isinstance(b, Pointer) and a.array == b.array:
            zero = self.b.constant(0)
            return Pointer(a.array, a.dtype, self.word_where(t, a.offset or zero, b.offset or zero))
        return self.word_where(t, a, b)

    # ---- calls and indexing ------------------------------------------------------------------------------------------

    def call(self, node: ast.Call) -> Any:
        """A helper, a word of triton.language, a method, or a function of Python."""
        function = self.expression(node.func)
        args = [
            x
            for a in node.args
            for x in (self.expression(a.value) if isinstance(a, ast.Starred) else (self.expression(a),))
        ]
        named = {k.arg: self.expression(k.value) for k in node.keywords if k.arg}
        if isinstance(function, Helper):
            return self.expanded(function, args, named)
        if isinstance(function, tuple) and len(function) == 2 and isinstance(function[1], str):
            return self.method(function[0], function[1], args, named)
        if isinstance(function, Dtype):
            return self.word_cast(args[0], function) if args else function
        if isinstance(function, Words):
            return self.word(function, args, named)
        if callable(function):
            return function(*args, **named)
        raise TileError(
            f"{ast.unparse(node.func)} is not called here",
            cure="call helpers of the file and functions of triton.language",
        )

    def method(self, x: Any, name: str, args: list[Any], named: dict[str, Any]) -> Any:
        """x.to(type), x.sum(axis), dtype.is_fp16()."""
        if isinstance(x, tuple):  # a pointer type
            return name == "is_ptr"
        if isinstance(x, Dtype):
            return _asked(x, name)
        if is_number(x):
            return float(x) if args and args[0] in FLOATS else int(x) if args and args[0] in WHOLE else x
        if isinstance(x, BlockPointer) and name in ("load", "store", "atomic_add", "gather", "scatter"):
            return self.by_descriptor(x, name, args)
        if name == "to":
            name = "cast"
        return self.word(Words(name), [x, *args], named)

    def indexed(self, x: Any, key: ast.expr) -> Any:
        """x[:, None]; x[2] of tuples."""
        if isinstance(x, tuple | list | str):
            return x[self.expression(key)]
        if isinstance(x, Helper | Words):  # kernel[grid] inside a kernel
            return x
        keys = list(key.elts) if isinstance(key, ast.Tuple) else [key]
        shape, at = list[int](), 0
        old = x.shape
        if sum(not (isinstance(k, ast.Constant) and k.value is None) and not _is_ellipsis(k) for k in keys) > len(old):
            raise TileError(f"{len(keys)} indices for a tile {list(old)}", cure="one : for each axis")
        begins: list[tuple[int, int]] = []
        for k in keys:
            if isinstance(k, ast.Constant) and k.value is None:
                shape.append(1)
            elif _is_ellipsis(k):
                rest = (
                    len(old)
                    - at
                    - sum(
                        not (isinstance(q, ast.Constant) and q.value is None) and not _is_ellipsis(q)
                        for q in keys[keys.index(k) :]
                    )
                )
                shape += old[at : at + rest]
                at += rest
            elif isinstance(k, ast.Slice) and k.lower is None and k.upper is None:
                shape.append(old[at])
                at += 1
            else:
                place = self.expression(k)
                if not isinstance(place, int):
                    raise TileError(
                        "a tile is taken apart by an index",
                        cure="write x[:, None] or x[None, :]; load the part that is needed",
                    )
                begins.append((at, place % old[at]))
                at += 1
        shape += old[at:]
        for axis, place in begins:
            x = self.b.slice(x, axis, place, 1)
        return self.reshaped(x, tuple(shape))

    def reshaped(self, x: Any, shape: tuple[int, ...]) -> Any:
        """The same lanes under other extents; pointers too."""
        if isinstance(x, Pointer):
            return Pointer(
                x.array, x.dtype, self.b.reshape(x.offset if x.offset is not None else self.b.constant(0), shape)
            )
        return self.b.reshape(x, shape)

    def whole(self, x: Any) -> Any:
        """A bound or offset as a whole scalar."""
        if isinstance(x, Value):
            x = self.single(x)
            return (
                x
                if x.dtype in (i32, i64)
                else self.b.cast(x, i64 if x.dtype.bits == 64 or x.dtype.name == "uint32" else i32)
            )
        return self.b.constant(int(x))

    def bind(self, target: ast.expr, value: Any) -> None:
        """Given by the reader of statements."""
        raise NotImplementedError

    def expanded(self, helper: Helper, args: list[Any], named: dict[str, Any]) -> Any:
        """Given by the reader of statements."""
        raise NotImplementedError

    def counted(self, node: ast.expr) -> Any:
        """What a loop runs over: a list of items to lay out, or (begin, end, step)."""
        if isinstance(node, ast.Call):
            function = self.expression(node.func)
            if isinstance(function, Words) and function.name in ("range", "static_range"):
                args = [self.expression(a) for a in node.args]
                named = {
                    k.arg: self.expression(k.value)
                    for k in node.keywords
                    if k.arg in ("start", "stop", "end", "step", "arg1", "arg2")
                }
                if named.get("arg1") is not None:
                    args.append(named["arg1"])
                if named.get("arg2") is not None:
                    args.append(named["arg2"])
                step = named.get("step")
                if step is not None and len(args) < 3:
                    args = [0, *args] if len(args) == 1 else args
                    args.append(step)
                whole = [int(a) if is_number(a) else a for a in args]
                begin, end, step = (0, whole[0], 1) if len(whole) == 1 else (*whole, 1)[:3]
                if function.name == "static_range" or "constexpr" in function.path:
                    if not all(isinstance(a, int) for a in (begin, end, step)):
                        raise TileError("static_range over numbers that a launch gives", cure="use range")
                    return list(range(begin, end, step))
                return begin, end, step
        found = self.expression(node)
        if isinstance(found, tuple | list):
            return list(found)
        raise TileError(f"a loop over {ast.unparse(node)}", cure="loop over range or tl.range")


def _is_ellipsis(k: ast.expr) -> bool:
    return isinstance(k, ast.Constant) and k.value is ...


def _kind(x: Any) -> str:
    return (
        "a pointer" if isinstance(x, Pointer) else "a block pointer" if isinstance(x, BlockPointer) else f"{x!r}"[:40]
    )


def _short(kind: Dtype) -> str:
    return {"float32": "fp32", "float16": "fp16", "bfloat16": "bf16", "bool": "int1"}.get(kind.name, kind.name)


def _asked(kind: Dtype, name: str) -> Any:
    """dtype.is_fp16() and its like."""
    answers = {
        "is_fp16": kind.name == "float16", "is_bf16": kind == bf16, "is_fp32": kind == f32, "is_fp64": False, "is_floating": numbers.is_float(kind),
        "is_standard_floating": numbers.is_float(kind), "is_int": kind in WHOLE or kind == boolean, "is_int8": kind.name == "int8", "is_int16": kind.name == "int16",
        "is_int32": kind == i32, "is_int64": kind == i64, "is_uint8": kind.name == "uint8", "is_uint32": kind.name == "uint32", "is_int_signed": kind.name[0] == "i",
        "is_int_unsigned": kind.name[0] == "u", "is_bool": kind == boolean, "is_int1": kind == boolean, "is_ptr": False, "is_block": False, "is_fp8": False, "is_fp8e4nv": False,
        "is_fp8e5": False, "is_fp8e4b15": False, "is_fp8e4b8": False, "is_fp8e5b16": False, "is_uint16": kind.name == "uint16", "is_uint64": kind.name == "uint64",
    }  # fmt: skip
    if name in answers:
        return answers[name]
    raise TileError(f"{name} of an element type", cure="ask is_fp16(), is_int8() and their like")
