"""Expressions of a kernel: from Python syntax to typed tile values, with errors at the user's line."""

from __future__ import annotations

import ast
import builtins
import inspect
import textwrap
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from toprope.dtypes import Dtype
from toprope.tile import rules
from toprope.tile.indexing import ArrayName, Indexing, show_axes
from toprope.tile.language import Builtin, Param, TileError, f16, f32, i16, i32
from toprope.tile.program import ONE, Index, Number, Region, Value

__all__ = ["ArrayName", "Expressions", "Source", "show_axes"]

_BINARY: dict[type, str] = {ast.Add: "add", ast.Sub: "sub", ast.Mult: "mul", ast.Div: "div"}
_COMPARE: dict[type, str] = {
    ast.Lt: "lt", ast.LtE: "le", ast.Gt: "gt", ast.GtE: "ge", ast.Eq: "eq", ast.NotEq: "ne",
}  # fmt: skip
BUILTIN_NAMES = {*rules.UNARY, *rules.REDUCE, "maximum", "minimum", "where"}
_INSTEAD = {
    ast.If: ("if", "choose lanes with tile.where(condition, a, b), or test a constant of the signature"),
    ast.While: ("while", "write for i in tile.tiles(extent, size)"),
    ast.Return: ("return", "store results with out[i] = value"),
    ast.With: ("with", "remove it; buffers and order are placed for you"),
    ast.Try: ("try", "remove it; nothing in a kernel raises"),
    ast.FunctionDef: ("a nested function", "define it outside the kernel; calls to it are expanded in place"),
    ast.Lambda: ("lambda", "define a function outside the kernel"),
    ast.ListComp: ("a list", "write the tiles one by one; a kernel has no lists"),
    ast.List: ("a list", "write the tiles one by one; a kernel has no lists"),
    ast.Dict: ("a dict", "use separate names"),
    ast.Break: ("break", "loops run over all tiles; mask lanes with tile.where"),
    ast.Continue: ("continue", "loops run over all tiles; mask lanes with tile.where"),
    ast.Assert: ("assert", "state limits in the signature: tile.Dim(name, min=, max=, multiple_of=)"),
    ast.BoolOp: ("and/or", "multiply conditions by nesting tile.where"),
    ast.BitAnd: ("&", "nest the choices: tile.where(a, tile.where(b, x, y), y)"),
    ast.BitOr: ("|", "nest the choices: tile.where(a, x, tile.where(b, x, y))"),
    ast.Not: ("not", "turn the comparison round, or exchange the choices of tile.where"),
    ast.Invert: ("~", "turn the comparison round, or exchange the choices of tile.where"),
    ast.FloorDiv: ("//", "divide with / and convert: (x / n).to(tile.i32) rounds to even"),
    ast.Mod: ("%", "there is no remainder of tiles; give the array an axis for it"),
    ast.Slice: ("a slice", "loop over that axis: for c in tile.tiles(N, C): x[r, c]"),
    ast.IfExp: ("a if c else b", "write tile.where(c, a, b)"),
}


class Source:
    """A function's syntax tree with the file's own line numbers."""

    def __init__(self, node: ast.FunctionDef, file: str, names: dict[str, Any]) -> None:
        self.node, self.file, self.names = node, file, names

    @staticmethod
    def of(function: Callable[..., Any]) -> Source:
        """Read the file that a function is defined in. Raises TileError when there is none."""
        try:
            lines, first = inspect.getsourcelines(function)
        except (OSError, TypeError):
            raise TileError(
                f"the source of {function.__name__} cannot be read",
                cure="define the kernel in a file, not in exec or a prompt",
            ) from None
        tree = ast.parse(textwrap.dedent("".join(lines)))
        ast.increment_lineno(tree, first - 1)
        node = tree.body[0]
        assert isinstance(node, ast.FunctionDef)
        closure = inspect.getclosurevars(function).nonlocals if function.__closure__ else {}
        return Source(
            node, inspect.getsourcefile(function) or "?", {**vars(builtins), **function.__globals__, **closure}
        )


class Expressions(Indexing):
    """What is known while reading one variant, and the meaning of every expression."""

    def __init__(
        self,
        source: Source,
        params: dict[str, Param],
        constants: dict[str, Any],
        *,
        resident: bool,
        free: frozenset[str] = frozenset(),
    ) -> None:
        self.source, self.params, self.resident = source, params, resident
        self.free = free  # tile sizes that the host may choose
        self.nested = sum(isinstance(n, ast.For) for n in ast.walk(source.node)) > 1
        self.names = source.names
        self.sizes = {k: v for k, v in constants.items() if isinstance(v, int) and not isinstance(v, bool)}
        self.env: dict[str, Any] = {name: ArrayName(name, p) for name, p in params.items()}
        self.env |= {k: Number(repr(v), v) if isinstance(v, int | float) else v for k, v in constants.items()}
        self.indices: dict[str, Index] = {}
        self.part = 0  # products that lie before what is read
        self.region = Region(1)
        self.known: dict[tuple[Any, ...], Value] = {}
        self.depth = 0
        self.has_inner_loops = False
        self.takes_swizzle = False  # an option that does nothing is refused

    def statement(self, node: ast.stmt) -> None:
        """One statement of an expanded function; the reader of statements says what it may be."""
        raise NotImplementedError

    # ---- expressions -------------------------------------------------------------------------------------------------

    def expression(self, node: ast.expr) -> Any:
        """A tile value, a Number, a tuple, an array, or a Python object of the kernel's module."""
        with self.at(node):
            match node:
                case ast.Constant(value=int() | float() as value):
                    return Number(repr(value), value)
                case ast.Constant():
                    return node.value
                case ast.Name():
                    return self.name(node)
                case ast.Tuple():
                    return tuple(self.expression(e) for e in node.elts)
                case ast.Attribute():
                    return self.attribute(node)
                case ast.Subscript():
                    return self.subscript(node)
                case ast.UnaryOp(op=ast.USub()):
                    value = self.expression(node.operand)
                    if isinstance(value, Number):
                        return self.fold("-", Number("0", 0), value)
                    return self.binary("mul", value, Number("-1", -1), node.lineno)
                case ast.BinOp(op=ast.Pow()):
                    return self.power(node)
                case ast.BinOp() if type(node.op) in _BINARY:
                    return self.operator(node)
                case ast.Compare() if len(node.ops) == 1 and type(node.ops[0]) in _COMPARE:
                    left, right = self.expression(node.left), self.expression(node.comparators[0])
                    return self.compare(_COMPARE[type(node.ops[0])], left, right, node.lineno)
                case ast.Call():
                    return self.call(node)
        raise self.unsupported(node)

    def name(self, node: ast.Name) -> Any:
        if node.id in self.env:
            return self.env[node.id]
        if node.id in self.names:
            value = self.names[node.id]
            return (
                Number(repr(value), value) if isinstance(value, int | float) and not isinstance(value, bool) else value
            )
        raise TileError(
            f"{node.id} has no value here",
            cure="give it one before the loop; names first assigned inside a loop end with it",
        )

    def attribute(self, node: ast.Attribute) -> Any:
        owner = self.expression(node.value)
        if isinstance(owner, ArrayName):
            if node.attr == "shape":
                return tuple(Number(d.name) for d in owner.param.dims)
            if node.attr == "add":
                return ArrayName(owner.name, owner.param, atomic=True)
        if isinstance(owner, Value) and node.attr == "dtype":
            return owner.dtype
        if inspect.ismodule(owner) and owner.__name__ == "toprope.tile" and node.attr in rules.INSTEAD:
            raise TileError(f"tile.{node.attr} is not part of the tile language", cure=rules.INSTEAD[node.attr])
        if inspect.ismodule(owner) and hasattr(owner, node.attr):
            value = getattr(owner, node.attr)
            return Number("inf", value) if isinstance(value, float) else value
        if inspect.ismodule(owner):
            words = ", ".join(sorted(n for n, v in vars(owner).items() if isinstance(v, Builtin)))
            raise TileError(f"{ast.unparse(node)} is not there", cure=f"the functions of tiles are {words}")
        cure = "tiles have .to(type) and .dtype, arrays have .shape and .add"
        if isinstance(owner, Value) and node.attr in BUILTIN_NAMES:
            cure = f"write tile.{node.attr}(...)"
        raise TileError(f".{node.attr} means nothing here", cure=cure)

    def subscript(self, node: ast.Subscript) -> Any:
        owner = self.expression(node.value)
        if isinstance(owner, tuple):
            return owner[self.constant(node.slice)]
        if not isinstance(owner, ArrayName):
            raise TileError(
                "a tile is indexed", cure="index arrays with the steps of tiles loops; tiles are used whole"
            )
        if owner.param.written:
            raise TileError(
                f"{owner.name} is an Out array and is read", cure="keep the value in a name, or declare another In"
            )
        down, where = self.is_down(node), self.index(node, owner)
        kind, axes = owner.param.dtype, self.axes_of(where)
        if down:
            axes = (axes[1], ONE)
        loaded = self.value(Value("load", "", [], kind, axes, node.lineno, array=owner.name, where=where))
        if not loaded.spread:
            return loaded
        rules.require("an index of elements", rules.GATHERED, kind)
        return self.value(Value("pack", "", [loaded], kind, axes, node.lineno))

    def operator(self, node: ast.BinOp) -> Any:
        left, right = self.expression(node.left), self.expression(node.right)
        if isinstance(left, Number) and isinstance(right, Number):
            return self.fold({"add": "+", "sub": "-", "mul": "*", "div": "/"}[_BINARY[type(node.op)]], left, right)
        return self.binary(_BINARY[type(node.op)], left, right, node.lineno)

    def power(self, node: ast.BinOp) -> Any:
        """x ** n: products for whole numbers, roots for halves."""
        base, exponent = self.expression(node.left), self.expression(node.right)
        if not isinstance(base, Value) or not isinstance(exponent, Number) or exponent.value is None:
            raise TileError(
                "a power of something else than a tile to a constant", cure="write tile.exp(tile.log(x) * p)"
            )
        if exponent.value in rules.ROOTS:
            return self.builtin(rules.ROOTS[exponent.value], [base], {}, node.lineno)
        found = base
        for _ in range(rules.whole_power(exponent.value) - 1):
            found = self.binary("mul", found, base, node.lineno)
        return found

    def fold(self, sign: str, a: Number, b: Number) -> Number:
        text = f"({a.text} {sign} {b.text})"
        if a.value is not None and b.value is not None:
            value = eval(text, {"inf": float("inf")})  # two literals and a sign of our own
            return Number(repr(value), value)
        return Number(text)

    def binary(self, name: str, a: Any, b: Any, line: int) -> Value:
        row = rules.BINARY[name]
        if isinstance(a, Value) and isinstance(b, Value):
            rules.require_same(name, a.dtype, b.dtype)
            rules.require(name, row.dtypes, a.dtype)
            axes = self.joined(a, b)
            if axes not in (a.axes, b.axes):
                a = self.repeated(a, axes, line)
            return self.value(Value("binary", name, [a, b], a.dtype, axes, line))
        scalar_first = isinstance(a, Number)
        x, s = (b, a) if scalar_first else (a, b)
        if not isinstance(x, Value) or not isinstance(s, Number):
            raise TileError(
                f"{name} of something that is neither tile nor number", cure="use tiles, numbers and dimensions"
            )
        rules.require(name, row.dtypes, x.dtype)
        return self.scalar(name, x, s, scalar_first, line)

    def scalar(self, name: str, x: Value, s: Number, scalar_first: bool, line: int) -> Value:
        """A tile and a number; a number that hangs on dimensions becomes an argument that the host computes."""
        known = s.value if s.value is not None else 1.0
        steps, value = rules.scalar_operand(name, known, scalar_first=scalar_first)
        if s.value is not None:
            number = Number(repr(value), value)
        elif name == "div" and not scalar_first:
            number = Number(f"reciprocal({s.text})")
        else:
            number = Number(f"(-{s.text})") if name == "sub" and not scalar_first else s
        if steps == "negate":
            minus = self.value(
                Value("scalar", "mul", [x], x.dtype, x.axes, line, number=Number("-1", -1), steps="plain")
            )
            return self.value(Value("scalar", "add", [minus], x.dtype, x.axes, line, number=number, steps="plain"))
        if steps == "fill":
            filled = self.value(Value("full", "", [], x.dtype, x.axes, line, number=number))
            return self.value(Value("binary", "div", [filled, x], x.dtype, x.axes, line))
        return self.value(Value("scalar", name, [x], x.dtype, x.axes, line, number=number, steps=steps))

    def joined(self, a: Value, b: Value) -> tuple[str, str]:
        axes = []
        for p, q in zip(a.axes, b.axes, strict=True):
            if p != q and ONE not in (p, q):
                down = next((s.label or s.array for s, o in ((a, b), (b, a)) if s.axes == (ONE, o.axes[0])), "")
                raise TileError(
                    f"tiles of axes {show_axes(a.axes)} and {show_axes(b.axes)} meet",
                    cure=f"one number for each row is loaded as {down}[{a.axes[0] if b.array == down else b.axes[0]}, None]"
                    if down
                    else "use the same loop index for the same axis",
                )
            axes.append(q if p == ONE else p)
        joined = (axes[0], axes[1])
        if joined[1] == ONE and a.axes != b.axes:
            raise TileError(
                f"a tile of one number meets one of axes {show_axes(joined)}",
                cure="keep one number for each row: tile.full((r, 1), v), x[r, None]",
            )
        return joined

    def repeated(self, x: Value, axes: tuple[str, str], line: int) -> Value:
        """The tile written out along the axes that it lacks. Adding to -0 changes no bit."""
        if x.axes == axes:
            return x
        zero = self.value(Value("full", "", [], x.dtype, axes, line, number=Number("-0.0", -0.0)))
        return self.value(Value("binary", "add", [zero, x], x.dtype, axes, line))

    def compare(self, name: str, a: Any, b: Any, line: int) -> Any:
        if isinstance(a, Number) and isinstance(b, Number):
            if a.value is None or b.value is None:
                raise TileError(
                    "a comparison of dimensions", cure="dimensions are known at the launch only; compare tiles"
                )
            return bool(rules.COMPARE[name].evaluate(a.value, b.value))
        if not isinstance(a, Value):
            name, a, b = rules.MIRRORED[name], b, a
        rules.require(name, rules.COMPARE[name].dtypes, a.dtype)
        args, number = ([a, b], None) if isinstance(b, Value) else ([a], b)
        if len(args) == 2:
            rules.require_same(name, a.dtype, b.dtype)
            axes = self.joined(a, b)
            a, b = self.repeated(a, axes, line), self.repeated(b, axes, line)
            args = [a, b]
        return self.value(Value("compare", name, args, a.dtype, a.axes, line, number=number))

    def call(self, node: ast.Call) -> Any:
        if isinstance(node.func, ast.Attribute) and node.func.attr == "to":
            owner = self.expression(node.func.value)
            if isinstance(owner, Value):
                return self.cast(owner, self.expression(node.args[0]), node.lineno)
        function = self.expression(node.func)
        arguments = [self.expression(a) for a in node.args]
        named = {str(k.arg): self.expression(k.value) for k in node.keywords}
        if isinstance(function, Builtin):
            return self.builtin(function.name, arguments, named, node.lineno)
        if inspect.isfunction(function):
            return self.macro(function, arguments, named)
        name = ast.unparse(node.func)
        raise self.error(
            node,
            f"a call of {name}",
            {
                "min": "write tile.minimum(a, b), or tile.min(x, 1)",
                "max": "write tile.maximum(a, b), or tile.max(x, 1)",
            }.get(
                name,
                f"write tile.{name}(...)"
                if name in BUILTIN_NAMES
                else "call functions of toprope.tile, or plain functions of tiles",
            ),
        )

    def cast(self, x: Value, kind: Any, line: int) -> Value:
        if not isinstance(kind, Dtype):
            raise TileError(".to takes an element type", cure="for example .to(tile.f16)")
        rules.require_cast(x.dtype, kind)
        return x if kind == x.dtype else self.value(Value("cast", "", [x], kind, x.axes, line))

    def builtin(self, name: str, args: list[Any], named: dict[str, Any], line: int) -> Any:
        if name in rules.UNARY:
            rules.require(name, rules.UNARY[name].dtypes, args[0].dtype)
            return self.value(Value("unary", name, [args[0]], args[0].dtype, args[0].axes, line))
        if name in rules.BINARY:
            return self.binary(name, args[0], args[1], line)
        if name in rules.REDUCE:
            return self.reduce(name, args[0], (args[1:] or [named.get("axis", Number("-1", -1))])[0], line)
        if name == "arange":
            return self.arange(args[0] if args else None, (args[1:] or [named.get("kind", f32)])[0], line)
        if name == "gather":
            return self.gather(args[0], args[1], line)
        if name in ("full", "zeros"):
            number = args.pop(1) if name == "full" else Number("0", 0)
            kind = (args[1:] or [named.get("kind", f32)])[0]
            return self.value(Value("full", "", [], kind, self.shape(args[0]), line, number=number))
        if name == "where":
            return self.where(args, line)
        raise TileError(f"{name} is not used as a value", cure="write it where the tour in docs/tile.md shows it")

    def reduce(self, name: str, x: Value, axis: Number, line: int) -> Value:
        """Over the columns of every row, or over the rows of every column."""
        rules.require(name, rules.REDUCE[name], x.dtype)
        last = 0 if x.axes[0] == ONE else 1
        if axis.value not in (-1, 0, last) or x.is_rows:
            raise TileError(f"{name} over axis {axis.text}", cure="reduce a tile with columns over axis 0 or 1")
        axes = (ONE, x.axes[1]) if axis.value == 0 and last == 1 else (x.axes[0], ONE)
        return self.value(Value("reduce", name, [x], x.dtype, axes, line))

    def arange(self, step: Any, kind: Any, line: int) -> Value:
        """The places of a step's elements on its axis."""
        if not isinstance(step, Index) or step.unit:
            raise TileError(
                "arange of something else than a step of a loop", cure="write tile.arange(c), c of tile.tiles"
            )
        rules.require("arange", (i16, f16, i32, f32), kind)
        return self.value(Value("arange", "", [], kind, (ONE, step.name), line))

    def gather(self, x: Value, index: Value, line: int) -> Value:
        """Elements of a tile of one row, by a tile of int32 that may have been computed."""
        rules.require("gather", rules.GATHERED, x.dtype)
        rules.require("an index", (i32,), index.dtype)
        if x.axes[0] != ONE or index.axes[0] != ONE or ONE in (x.axes[1], index.axes[1]):
            raise TileError(
                "gather of more than one row", cure="write tile.gather(x[c], index[i]), both of one dimension"
            )
        size = Number(repr(x.dtype.bits // 8), x.dtype.bits // 8)
        offsets = self.value(Value("scalar", "mul", [index], i32, index.axes, line, number=size, steps="plain"))
        return self.value(Value("gather", "", [x, offsets], x.dtype, index.axes, line))

    def where(self, args: list[Any], line: int) -> Value:
        condition, a, b = args
        if not isinstance(condition, Value) or condition.op != "compare":
            raise TileError("the condition of where is not a comparison", cure="write tile.where(x > 0, a, b)")
        if not isinstance(a, Value):
            kind = b.dtype if isinstance(b, Value) else condition.dtype
            a = self.value(Value("full", "", [], kind, condition.axes, line, number=a))
        a = self.repeated(a, condition.axes, line) if self.joined(a, condition) == condition.axes else a
        others = (
            [self.repeated(b, condition.axes, line)]
            if isinstance(b, Value) and self.joined(b, condition) == condition.axes
            else []
        )
        for other in others:
            rules.require_same("where", a.dtype, other.dtype)
        if any(v.axes != condition.axes for v in [a, *others]) or a.dtype != condition.dtype:
            raise TileError(
                "condition and choices of where differ in axes or element type", cure="bring them to one shape and type"
            )
        if isinstance(b, Value) and not others:
            raise TileError("a choice of where is larger than its condition", cure="compare tiles of the full shape")
        number = None if others else b
        return self.value(Value("select", "", [condition, a, *others], a.dtype, a.axes, line, number=number))

    def macro(self, function: Callable[..., Any], args: list[Any], named: dict[str, Any]) -> Any:
        """A plain Python function of tiles, expanded in place: assignments and one return."""
        inner = Source.of(function)
        bound = inspect.signature(function).bind(*args, **named)
        bound.apply_defaults()
        saved = self.env, self.names, self.source
        constants = {k: Number(repr(v), v) if isinstance(v, int | float) else v for k, v in bound.arguments.items()}
        self.env, self.names, self.source = constants, inner.names, inner
        try:
            for statement in inner.node.body:
                if isinstance(statement, ast.Return) and statement.value is not None:
                    return self.expression(statement.value)
                self.statement(statement)
            raise self.error(inner.node, f"{function.__name__} returns nothing", "end it with return value")
        finally:
            self.env, self.names, self.source = saved

    # ---- values and errors ---------------------------------------------------------------------------------------------

    def value(self, v: Value) -> Value:
        """Append a value to the region, or give the equal one that is already there."""
        if v.op != "select" and any(a.op == "compare" for a in v.args):
            raise TileError(
                "a condition is used as a number",
                cure="choose with it: tile.where(condition, 1, 0), tile.where(condition, a, b)",
            )
        v.args = [self.use(a) for a in v.args]
        key = (v.op, v.name, tuple(map(id, v.args)), v.number, v.dtype, v.axes, v.array, v.where, v.steps)
        if key not in self.known:
            self.known[key] = self.made(v)
        return self.known[key]

    def made(self, v: Value) -> Value:
        v.region = self.region
        (self.region.loads if v.op == "load" else self.region.ops).append(v)
        return v

    def use(self, v: Value) -> Value:
        """A value as an operand here; one from another region stays in the arena until its last use."""
        if v.region is not None and v.region.part != self.part:
            raise TileError(
                f"{v.label or 'a tile'} from before a product is used behind it",
                cure="leave it in a stage, s = tile.stage((i, N), type): s[:, c] = ... before and s[:, c] behind, or compute it again",
            )
        if v.op == "carried" or v.region is self.region:
            return v
        if v.op == "load" and v.region is not None:
            kept = next((o for o in v.region.ops if o.op == "copy" and o.args == [v]), None)
            if kept is None:
                kept = Value("copy", "", [v], v.dtype, v.axes, v.line, label=v.label, region=v.region)
                v.region.ops.append(kept)
            v = kept
        v.persistent = True
        return v

    def constant(self, node: ast.expr) -> int:
        value = self.expression(node)
        if not isinstance(value, Number) or not isinstance(value.value, int):
            raise self.error(node, f"{ast.unparse(node)} is not a constant", "write a whole number")
        return value.value

    @contextmanager
    def at(self, node: ast.AST) -> Iterator[None]:
        """Puts the user's line in front of an error that has none."""
        try:
            yield
        except TileError as e:
            if e.message.startswith(self.source.file):
                raise
            raise self.error(node, e.message, e.cure) from None

    def error(self, node: ast.AST, message: str, cure: str) -> TileError:
        return TileError(f"{self.source.file}:{getattr(node, 'lineno', 0)}: {message}", cure=cure)

    def unsupported(self, node: ast.AST) -> TileError:
        kind = type(node.op) if isinstance(node, ast.BinOp | ast.UnaryOp) else type(node)
        what, instead = _INSTEAD.get(kind, (kind.__name__, "see docs/tile.md for what a kernel may contain"))
        return self.error(node, f"{what} is not part of the tile language", instead)
