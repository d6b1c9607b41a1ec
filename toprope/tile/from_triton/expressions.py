"""Expressions of a Triton function, evaluated on values that are written down; helpers are expanded in place."""

from __future__ import annotations

import ast
import builtins
import operator
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from toprope.tile.from_triton.liveness import Rest
from toprope.tile.from_triton.memory import MemoryPrinter
from toprope.tile.from_triton.types import Scalar, Value
from toprope.tile.from_triton.words import Words
from toprope.tile.language import TileError, f32, i32

BINARY: dict[type, Callable[[Any, Any], Any]] = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.Div: operator.truediv, ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod, ast.BitAnd: operator.and_, ast.BitOr: operator.or_, ast.BitXor: operator.xor, ast.LShift: operator.lshift,
    ast.RShift: operator.rshift, ast.Pow: operator.pow,
}  # fmt: skip
_COMPARE: dict[type, Callable[[Any, Any], Any]] = {
    ast.Lt: operator.lt, ast.LtE: operator.le, ast.Gt: operator.gt, ast.GtE: operator.ge, ast.Eq: operator.eq, ast.NotEq: operator.ne,
    ast.Is: operator.is_, ast.IsNot: operator.is_not, ast.In: lambda a, b: a in b, ast.NotIn: lambda a, b: a not in b,
}  # fmt: skip
_INSTEAD: dict[type, tuple[str, str]] = {
    ast.While: ("while", "count with for i in range(...); a lock needs one owner of each element instead"),
    ast.Break: ("break", "let the loop run to its end and mask lanes"),
    ast.Continue: ("continue", "put the rest of the body under an if"),
    ast.Try: ("try", "remove it; nothing in a kernel raises"),
    ast.With: ("with", "remove it"),
    ast.Lambda: ("lambda", "write a @triton.jit function"),
    ast.FunctionDef: ("a nested function", "define it outside the kernel with @triton.jit; calls to it are expanded in place"),
    ast.ListComp: ("a list comprehension", "write the values one by one"),
    ast.Dict: ("a dict", "use separate names"),
}  # fmt: skip


@dataclass(frozen=True)
class Helper:
    """A @triton.jit function that another one calls."""

    node: ast.FunctionDef
    names: dict[str, Any]


class Returned(Exception):
    def __init__(self, value: Any) -> None:
        super().__init__()
        self.value = value


class Expressions:
    """What is known while one function is read."""

    def __init__(self, node: ast.FunctionDef, file: str, names: dict[str, Any], printer: MemoryPrinter) -> None:
        self.node, self.file, self.names, self.p = node, file, names, printer
        self.env: dict[str, Any] = {}
        self.inlined = 0

    def block(self, statements: Sequence[ast.stmt], after: Rest) -> bool:
        """Statements of an expanded function; the walker says what they may be."""
        raise NotImplementedError

    # ---- expressions -------------------------------------------------------------------------------------------------

    def value(self, node: ast.expr) -> Any:
        with self.at(node):
            match node:
                case ast.Constant(value=value):
                    return value
                case ast.Name(id=name):
                    return self.lookup(name)
                case ast.Tuple() | ast.List():
                    return tuple(self.value(e) for e in node.elts)
                case ast.Attribute():
                    return self.attribute(node)
                case ast.Subscript():
                    owner, key = self.value(node.value), self.key(node.slice)
                    return owner[key]
                case ast.UnaryOp(op=op):
                    return self.unary(op, self.value(node.operand))
                case ast.BinOp(op=op) if type(op) in BINARY:
                    return self.binary(op, self.value(node.left), self.value(node.right))
                case ast.Compare():
                    return self.comparison(node)
                case ast.BoolOp():
                    return self.both(node)
                case ast.IfExp():
                    test = self.value(node.test)
                    if isinstance(test, Scalar):
                        return self.p.words.where(test, self.value(node.body), self.value(node.orelse))
                    if isinstance(test, Value):
                        raise TileError("a if c else b on lanes", cure="write tl.where(c, a, b)")
                    return self.value(node.body if test else node.orelse)
                case ast.Call():
                    return self.call(node)
                case ast.JoinedStr():
                    return ast.unparse(node)
        raise self.unsupported(node)

    def binary(self, op: ast.operator, a: Any, b: Any) -> Any:
        if isinstance(op, ast.LShift | ast.RShift | ast.Pow) and (isinstance(a, Value) or isinstance(b, Value)):
            if isinstance(op, ast.Pow) and b == 2 and isinstance(b, int):
                return a * a
            sign = {ast.LShift: "<<", ast.RShift: ">>", ast.Pow: "**"}[type(op)]
            raise TileError(f"{sign} of values", cure="multiply or divide by a power of two; write squares as x * x")
        return BINARY[type(op)](a, b)

    def unary(self, op: ast.unaryop, x: Any) -> Any:
        if isinstance(op, ast.Not):
            if isinstance(x, Scalar):
                return self.p.words.invert(self.p.words.compare("ne", x, 0) if x.dtype.name != "bool" else x)
            if isinstance(x, Value):
                raise TileError("not of lanes", cure="write ~mask")
            return not x
        return -x if isinstance(op, ast.USub) else ~x if isinstance(op, ast.Invert) else x

    def comparison(self, node: ast.Compare) -> Any:
        if len(node.ops) != 1:
            raise TileError("a chain of comparisons", cure="write (a < b) & (b < c)")
        a, b = self.value(node.left), self.value(node.comparators[0])
        return _COMPARE[type(node.ops[0])](a, b)

    def both(self, node: ast.BoolOp) -> Any:
        """and / or: of constants as in Python, of conditions on the scalar unit."""
        name = "and" if isinstance(node.op, ast.And) else "or"
        found: Any = None
        for n, part in enumerate(node.values):
            x = self.value(part)
            if n == 0:
                found = x
            elif not isinstance(found, Value):
                found = x if bool(found) == (name == "and") else found
            elif not isinstance(x, Value):
                found = found if bool(x) == (name == "and") else x
            else:
                found = self.p.words.logic(name, found, x)
            if not isinstance(found, Value) and bool(found) == (name == "or"):
                return found
        return found

    def key(self, node: ast.expr) -> Any:
        if isinstance(node, ast.Tuple):
            return tuple(self.key(e) for e in node.elts)
        if isinstance(node, ast.Slice):
            return (
                slice(None)
                if node.lower is node.upper is None
                else slice(self.value(node.lower or ast.Constant(0)), None)
            )
        return self.value(node)

    def lookup(self, name: str) -> Any:
        if name in self.env:
            return self.env[name]
        if name in self.names:
            return self.names[name]
        if hasattr(builtins, name):
            return getattr(builtins, name)
        raise TileError(
            f"{name} has no value here",
            cure="give it one before the loop or branch; names first assigned inside end with it",
        )

    def attribute(self, node: ast.Attribute) -> Any:
        owner = self.value(node.value)
        if isinstance(owner, Words):
            return getattr(owner, node.attr)
        if isinstance(owner, int | float | bool) and node.attr in ("to", "cast"):
            return lambda kind, **_: self.p.scalar_cast(
                Scalar(
                    self.p.words,
                    f32 if isinstance(owner, float) else i32,
                    self.p.single(owner) if isinstance(owner, float) else str(owner),
                ),
                kind,
            )
        if isinstance(owner, int | float | bool | str) and node.attr == "value":
            return owner  # of a tl.constexpr
        try:
            return getattr(owner, node.attr)
        except AttributeError:
            raise TileError(
                f".{node.attr} means nothing here", cure="blocks have .to(type), .dtype and .shape"
            ) from None

    def call(self, node: ast.Call) -> Any:
        function = self.value(node.func)
        arguments = [self.value(a) for a in node.args]
        named = {str(k.arg): self.value(k.value) for k in node.keywords}
        if isinstance(function, Helper):
            return self.expand(function, arguments, named)
        if function in (builtins.min, builtins.max) and any(isinstance(a, Value) for a in arguments):
            word = self.p.words.minimum if function is builtins.min else self.p.words.maximum
            found = arguments[0]
            for a in arguments[1:]:
                found = word(found, a)
            return found
        if function in (builtins.float, builtins.int, builtins.abs) and isinstance(arguments[0], Value):
            return (
                self.p.words.abs(arguments[0])
                if function is builtins.abs
                else self.p.words.to(arguments[0], f32 if function is builtins.float else i32)
            )
        if function is builtins.print:
            return None
        if not callable(function):
            raise TileError(
                f"a call of {ast.unparse(node.func)}",
                cure="call functions of triton.language and @triton.jit functions",
            )
        try:
            return function(*arguments, **named)
        except TypeError as e:
            raise TileError(f"{ast.unparse(node.func)}: {e}", cure="docs/triton.md lists what is read") from None

    def expand(self, helper: Helper, arguments: list[Any], named: dict[str, Any]) -> Any:
        """A call of another function, in place."""
        a = helper.node.args
        names = [p.arg for p in [*a.args, *a.kwonlyargs]]
        defaults = {n: d for n, d in zip(names[len(a.args) - len(a.defaults) : len(a.args)], a.defaults, strict=True)}
        defaults |= {p.arg: d for p, d in zip(a.kwonlyargs, a.kw_defaults, strict=True) if d is not None}
        saved = self.env, self.names
        self.env, self.names = {}, helper.names
        bound = {n: self.value(d) for n, d in defaults.items()} | dict(zip(names, arguments, strict=False)) | named
        missing = [n for n in names if n not in bound]
        if missing or len(arguments) > len(names):
            self.env, self.names = saved
            raise TileError(
                f"{helper.node.name}: argument {(missing or ['too many'])[0]}",
                cure=f"its arguments are {', '.join(names)}",
            )
        self.env = bound
        self.inlined += 1
        depth = len(self.p.out.scope)
        try:
            self.block(helper.node.body, Rest())
        except Returned as e:
            if len(self.p.out.scope) != depth:
                raise TileError(
                    "a return under an if that is not constant", cure="choose with tl.where and return once, at the end"
                ) from None
            return e.value
        finally:
            self.inlined -= 1
            self.env, self.names = saved
        return None

    # ---- errors ------------------------------------------------------------------------------------------------------

    @contextmanager
    def at(self, node: ast.AST) -> Iterator[None]:
        """Puts the user's line in front of an error that has none."""
        try:
            yield
        except TileError as e:
            if e.message.startswith(self.file):
                raise
            raise TileError(f"{self.file}:{getattr(node, 'lineno', 0)}: {e.message}", cure=e.cure) from None

    def unsupported(self, node: ast.AST) -> TileError:
        what, instead = _INSTEAD.get(type(node), (type(node).__name__, "docs/triton.md lists what is read"))
        return TileError(f"{what} is not part of what is read of Triton", cure=instead)
