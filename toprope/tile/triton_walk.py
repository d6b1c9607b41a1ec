"""Reads a Triton function's syntax tree and has it written down: loops and branches stay, names become variables, helpers are expanded."""

from __future__ import annotations

import ast
import builtins
import operator
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from toprope.dtypes import Dtype
from toprope.tile.language import TileError, f32, i32
from toprope.tile.triton_forms import Affine, Home, MaskForm
from toprope.tile.triton_memory import MemoryPrinter
from toprope.tile.triton_printer import condition, text_of
from toprope.tile.triton_slots import Line
from toprope.tile.triton_types import Bits, Block, Mask, Pointer, Range, Scalar, Value, is_float
from toprope.tile.triton_words import Words

_BINARY: dict[type, Callable[[Any, Any], Any]] = {
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


@dataclass(frozen=True)
class Rest:
    """Statements that run next, and what may come behind them."""

    statements: Sequence[ast.stmt] = ()
    nexts: tuple[Rest, ...] = ()


class _Return(Exception):
    def __init__(self, value: Any) -> None:
        super().__init__()
        self.value = value


class Walker:
    """Walks one function with a printer."""

    def __init__(self, node: ast.FunctionDef, file: str, names: dict[str, Any], printer: MemoryPrinter) -> None:
        self.node, self.file, self.names, self.p = node, file, names, printer
        self.env: dict[str, Any] = {}
        self.inlined = 0

    def walk(self, arguments: dict[str, Any]) -> None:
        """The whole function. Raises TileError at the user's line."""
        self.env = dict(arguments)
        self.block(self.node.body, Rest())

    # ---- statements --------------------------------------------------------------------------------------------------

    def block(self, statements: Sequence[ast.stmt], after: Rest) -> bool:
        """Statements in order; True when they end with a return. `after` is what runs behind them."""
        for n, statement in enumerate(statements):
            with self.at(statement):
                if self.statement(statement, Rest(statements[n + 1 :], (after,))):
                    return True
        return False

    def statement(self, node: ast.stmt, after: Rest) -> bool:
        self.p.line = node.lineno
        if not self.inlined:
            self.p.out.mark(node.lineno)
        match node:
            case ast.Assign(targets=targets):
                value = self.value(node.value)
                for target in targets:
                    self.bind(target, value)
            case ast.AnnAssign() if node.value is not None:
                self.bind(node.target, self.value(node.value))
            case ast.AugAssign(target=ast.Name(id=name)):
                self.bind(node.target, _BINARY[type(node.op)](self.lookup(name), self.value(node.value)))
            case ast.Expr(value=ast.Constant()) | ast.Pass() | ast.AnnAssign():
                pass
            case ast.Expr():
                self.value(node.value)
            case ast.Assert():
                pass
            case ast.For():
                self.loop(node, after)
            case ast.If():
                return self.branch(node, after)
            case ast.Return():
                return self.returned(node)
            case _:
                raise self.unsupported(node)
        return False

    def returned(self, node: ast.Return) -> bool:
        if self.inlined:
            raise _Return(self.value(node.value) if node.value is not None else None)
        self.p.out.add("return;")
        self.p.out.returns.append(len(self.p.out.lines) - 1)
        return True

    def bind(self, target: ast.expr, value: Any) -> None:
        if isinstance(target, ast.Tuple | ast.List):
            values = tuple(value)
            if len(values) != len(target.elts):
                raise TileError(f"{len(values)} values for {len(target.elts)} names", cure="one name for each")
            for element, part in zip(target.elts, values, strict=True):
                self.bind(element, part)
            return
        if not isinstance(target, ast.Name):
            raise TileError("an element is assigned", cure="use tl.store")
        self.env[target.id] = self.settled(target.id, value)

    def settled(self, name: str, value: Any) -> Any:
        """A name's value: long scalar expressions become constants of the program, so that they are computed once."""
        if isinstance(value, Block | Bits):
            slot = value.it.slot
            slot.label = slot.label or name
        elif isinstance(value, Scalar) and not str(value.it).isidentifier() and not str(value.it).isdigit():
            kind = "float" if is_float(value.dtype) else "bool" if value.dtype.name == "bool" else "int64_t"
            return Scalar(value.words, value.dtype, self.p.named(kind, name, str(value.it)))
        elif isinstance(value, Pointer):
            form, shape = value.it
            return Pointer(value.words, value.name, value.dtype, (self.based(f"{name}At", form), shape))
        elif isinstance(value, Range):
            return Range(value.words, value.shape, self.based(f"{name}At", value.it))
        elif isinstance(value, Mask):
            conditions = tuple(
                c if c.isidentifier() else self.p.named("bool", f"{name}Holds", c) for c in value.it.conditions
            )
            return Mask(value.words, value.shape, MaskForm(value.it.limits, conditions))
        return value

    def based(self, name: str, form: Affine) -> Affine:
        base = form.base
        if isinstance(base, int) or base.isidentifier():
            return form
        return Affine(self.p.named("int64_t", name, base), form.strides, form.entries)

    # ---- loops and branches ------------------------------------------------------------------------------------------

    def loop(self, node: ast.For, after: Rest) -> None:
        if node.orelse or not isinstance(node.target, ast.Name):
            raise TileError("for ... else, or a loop over several names", cure="write for i in range(...)")
        call = node.iter
        if not isinstance(call, ast.Call):
            raise TileError(f"for over {ast.unparse(call)}", cure="write for i in range(...) or tl.range(...)")
        word = ast.unparse(call.func).rpartition(".")[2]
        bounds = [self.value(a) for a in call.args]
        if word == "static_range":
            for value in range(*(operator.index(b) for b in bounds)):
                self.env[node.target.id] = value
                self.block(node.body, Rest((), (Rest(node.body, (after,)), after)))
            return
        if word != "range" or any(not isinstance(b, int | Scalar) for b in bounds):
            raise TileError(
                f"for over {ast.unparse(call)}", cure="write for i in range(start, end, step) with whole numbers"
            )
        begin, end, step = {1: (0, *bounds, 1), 2: (*bounds, 1), 3: tuple(bounds)}[len(bounds)]
        if isinstance(step, int) and step <= 0:
            raise TileError("a loop that counts down", cure="count up and subtract from the end inside the loop")
        behind = Rest((), (Rest(node.body, (after,)), after))
        carried = self.variables(node.body, behind, skip={node.target.id})
        counter = self.p.unique(node.target.id)
        last = text_of(end)
        last = (
            last
            if isinstance(last, int) or str(last).isidentifier()
            else self.p.named("int64_t", f"{counter}End", str(last))
        )
        outer = dict(self.env)
        self.p.out.open(
            f"for (int64_t {counter} = {text_of(begin)}; {counter} < {last}; {counter} += {text_of(step)}) {{",
            loop=True,
        )
        self.p.counts.append({})
        self.env[node.target.id] = self.p.whole(counter)
        stored = set(self.p.stored)
        self.stores_ahead(node.body)
        if self.block(node.body, behind):
            raise TileError("a return inside a loop", cure="mask the rest of the loop's work")
        self.assign(carried)
        self.p.stored |= stored
        self.p.counts.pop()
        self.p.out.close()
        self.env = {k: carried.get(k, v) for k, v in outer.items()}

    def stores_ahead(self, body: Sequence[ast.stmt]) -> None:
        """Arrays that a later line of the loop stores to: the next step's loads of them must wait."""
        for statement in body:
            for n in ast.walk(statement):
                if isinstance(n, ast.Call) and ast.unparse(n.func).endswith((".store", ".atomic_add")) and n.args:
                    names = [m.id for m in ast.walk(n.args[0]) if isinstance(m, ast.Name)]
                    found = [self.env.get(m) for m in names]
                    self.p.stored |= {x.name for x in found if isinstance(x, Pointer)}

    def branch(self, node: ast.If, after: Rest) -> bool:
        """An if: decided while reading where its test is known, else a branch of the scalar unit."""
        test = self.value(node.test)
        if isinstance(test, Bits) and test.shape == ():
            test = self.p.truth(test)
        if isinstance(test, Block) and test.shape == ():
            test = self.p.truth(self.p.words.compare("ne", test, 0))
        if not isinstance(test, Scalar):
            if isinstance(test, Value) and not isinstance(test, Pointer):
                raise TileError("an if on a block of lanes", cure="choose lanes with tl.where")
            return self.block(node.body if test else node.orelse, after)
        carried = self.variables([*node.body, *node.orelse], after, skip=set())
        fresh = self.fresh_names(node, after)
        self.p.out.add("")
        place = self.p.out.lines[-1]
        outer = dict(self.env)
        ends = []
        made: list[dict[str, Any]] = []
        for n, body in enumerate((node.body, node.orelse)):
            if n and not body:
                ends.append(False)
                break
            if n:
                self.p.out.otherwise()
            else:
                self.p.out.open(f"if ({condition(test)}) {{", loop=False)
            self.env = dict(outer)
            self.p.counts.append({})
            ends.append(self.block(body, after))
            if not ends[-1]:
                for name in fresh:
                    if name not in carried and name in self.env:
                        carried[name] = self.fresh(name, self.env[name], place)
                self.assign(carried)
            self.p.counts.pop()
            made.append(self.env)
        self.p.out.close()
        self.env = {k: carried.get(k, v) for k, v in outer.items()} | carried
        return all(ends) and len(made) == 2

    def variables(self, body: Sequence[ast.stmt], after: Rest, *, skip: set[str]) -> dict[str, Any]:
        """C++ variables for the outer names that a body gives new values which are read later."""
        found: dict[str, Any] = {}
        for name in sorted(_assigned(body) - skip):
            start = self.env.get(name, self)
            if start is self or not _reads_first(after, name):
                continue
            found[name] = self.env[name] = self.variable(name, start)
        return found

    def variable(self, name: str, start: Any) -> Any:
        p = self.p
        if isinstance(start, float):
            start = p.full((), start, f32)
        if start is None or isinstance(start, bool | str | Dtype):
            return start  # changes of those are refused when they come
        if isinstance(start, int):
            start = p.whole(start)
        if isinstance(start, Scalar):
            kind = "float" if is_float(start.dtype) else "bool" if start.dtype.name == "bool" else "int64_t"
            made = p.unique(name)
            p.out.add(f"{kind} {made} = {start.it};")
            return Scalar(p.words, start.dtype, made)
        if isinstance(start, Pointer | Range):
            form, shape = start.it if isinstance(start, Pointer) else (start.it, start.shape)
            made = p.unique(f"{name}At")
            p.out.add(f"int64_t {made} = {form.base};")
            moved = Affine(made, form.strides, form.entries)
            if isinstance(start, Pointer):
                return Pointer(p.words, start.name, start.dtype, (moved, shape))
            return Range(p.words, shape, moved)
        if isinstance(start, Block):
            source = start.it.slot
            slot = p.out.slot(start.dtype, source.lanes, "numbers" if source.home == "numbers" else "arena", p.line)
            slot.label, slot.variable = name, True
            p.out.add(f"DataCopy({slot}, {source}, {source.lanes});", (source,), slot, copies=(slot, source))
            return Block(p.words, start.shape, start.dtype, Home(slot, start.it.loose))
        return start

    def fresh_names(self, node: ast.If, after: Rest) -> list[str]:
        """Names that both sides of an if give a value, that have none before and are read behind it."""
        both = _always(node.body) & _always(node.orelse)
        return sorted(n for n in both if n not in self.env and _reads_first(after, n))

    def fresh(self, name: str, value: Any, place: Line) -> Any:
        """A variable for a name that begins in a branch; it is declared in front of the if."""
        p = self.p
        if isinstance(value, float):
            value = p.full((), value, f32)
            self.env[name] = value
        if isinstance(value, Block):
            source = value.it.slot
            slot = p.out.slot(value.dtype, source.lanes, "numbers" if source.home == "numbers" else "arena", p.line)
            slot.label, slot.variable = name, True
            place.uses = (*place.uses, slot)
            return Block(p.words, value.shape, value.dtype, Home(slot, value.it.loose))
        if isinstance(value, int) and not isinstance(value, bool):
            value = p.whole(value)
        if not isinstance(value, Scalar):
            raise TileError(f"{name} begins in a branch as {_kind(value)}", cure="give it a value before the if")
        kind = "float" if is_float(value.dtype) else "bool" if value.dtype.name == "bool" else "int64_t"
        made = p.unique(name)
        place.text += f"{kind} {made} = 0; "
        return Scalar(p.words, value.dtype, made)

    def assign(self, carried: dict[str, Any]) -> None:
        """The variables take their new values at the end of a body."""
        p, plain = self.p, list[tuple[str, str]]()
        copies: list[tuple[Block, Block]] = []
        for name, variable in carried.items():
            value = self.env[name]
            if value is variable:
                continue
            if isinstance(variable, Block):
                if isinstance(value, int | float | Scalar):
                    value = p.full(variable.shape, value, variable.dtype)
                if not isinstance(value, Block) or value.shape != variable.shape or value.dtype is not variable.dtype:
                    raise TileError(
                        f"{name} is {_kind(variable)} before the loop or branch and {_kind(value)} behind it",
                        cure="start it with the shape and element type it ends with, for example tl.zeros((BLOCK,), tl.float32)",
                    )
                copies.append((variable, value))
            elif isinstance(variable, Scalar):
                if not isinstance(value, int | float | Scalar) and not (isinstance(value, Block) and value.shape == ()):
                    raise TileError(
                        f"{name} is a number before the loop or branch and {_kind(value)} behind it",
                        cure="use two names",
                    )
                if isinstance(value, Block):
                    value = Scalar(p.words, value.dtype, p.fetched(value))
                plain.append((str(variable.it), p.single(value) if is_float(variable.dtype) else str(text_of(value))))
            elif isinstance(variable, Pointer | Range):
                plain.append((_base(variable), str(_moved(name, variable, value))))
            elif isinstance(value, Value) or isinstance(variable, Value) or value != variable:
                raise TileError(f"{name} = {variable!r} changes in a loop or branch", cure="use another name inside it")
        if len(plain) > 1:
            plain = [(to, p.named("auto", f"{to}Next", text)) for to, text in plain if to != text]
        for to, text in plain:
            p.out.add(f"{to} = {text};")
        held = {id(v.it.slot) for v, _ in copies}
        for n, (variable, value) in enumerate(copies):
            if id(value.it.slot) in held:  # two variables trade values
                kept = p.new(value.shape, value.dtype)
                p.step(f"DataCopy({kept.it.slot}, {value.it.slot}, {p.lanes(value)});", kept, value)
                copies[n] = (variable, kept)
        for variable, value in copies:
            variable.it.loose = variable.it.loose or value.it.loose
            slots = (variable.it.slot, value.it.slot)
            p.out.add(f"DataCopy({slots[0]}, {slots[1]}, {slots[0].lanes});", (slots[1], slots[0]), copies=slots)

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
                case ast.BinOp(op=op) if type(op) in _BINARY:
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
        return _BINARY[type(op)](a, b)

    def unary(self, op: ast.unaryop, x: Any) -> Any:
        if isinstance(op, ast.Not):
            if isinstance(x, Scalar):
                return self.p.words.invert(self.p.words.compare("ne", x, 0) if x.dtype.name != "bool" else x)
            if isinstance(x, Value):
                raise TileError("not of lanes", cure="write ~mask")
            return not x
        return {ast.USub: operator.neg, ast.Invert: operator.invert, ast.UAdd: lambda v: v}[type(op)](x)  # type: ignore[index]

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
        if isinstance(owner, Pointer) and node.attr == "dtype":
            return _PointerType(owner.dtype)
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
        except _Return as e:
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


@dataclass(frozen=True)
class _PointerType:
    """The dtype of a pointer, of which only the element type is asked."""

    element_ty: Dtype


def _assigned(body: Sequence[ast.stmt]) -> set[str]:
    return {n.id for s in body for n in ast.walk(s) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}


def _always(body: Sequence[ast.stmt]) -> set[str]:
    """Names that statements give a value in any case."""
    found: set[str] = set()
    for s in body:
        if isinstance(s, ast.If):
            found |= _always(s.body) & _always(s.orelse)
        elif isinstance(s, ast.Assign | ast.AnnAssign | ast.AugAssign):
            found |= _assigned([s])
    return found


def _reads_first(after: Rest, name: str) -> bool:
    """Whether a name may be read before it is assigned anew, on some way through what runs next."""
    found = _first(after.statements, name)
    return found if found is not None else any(_reads_first(r, name) for r in after.nexts)


def _effect(s: ast.stmt, name: str) -> bool | None:
    """True: the statement may read the name first; False: it gives it a new value; None: neither."""
    if isinstance(s, ast.If):
        if _uses(s.test, name):
            return True
        parts = [_first(s.body, name), _first(s.orelse, name)]
        return True if True in parts else False if parts == [False, False] else None
    if isinstance(s, ast.For):
        if _uses(s.iter, name):
            return True
        target = isinstance(s.target, ast.Name) and s.target.id == name
        return None if target or _first(s.body, name) is not True else True
    if isinstance(s, ast.AugAssign) and isinstance(s.target, ast.Name) and s.target.id == name:
        return True
    if isinstance(s, ast.Assign | ast.AnnAssign | ast.AugAssign):
        if s.value is not None and _uses(s.value, name):
            return True
        targets = s.targets if isinstance(s, ast.Assign) else [s.target]
        return False if any(isinstance(n, ast.Name) and n.id == name for t in targets for n in ast.walk(t)) else None
    return True if _uses(s, name) else None


def _first(body: Sequence[ast.stmt], name: str) -> bool | None:
    for s in body:
        found = _effect(s, name)
        if found is not None:
            return found
    return None


def _uses(node: ast.AST, name: str) -> bool:
    return any(isinstance(n, ast.Name) and n.id == name and isinstance(n.ctx, ast.Load) for n in ast.walk(node))


def _base(x: Any) -> str:
    return str(x.it[0].base if isinstance(x, Pointer) else x.it.base)


def _moved(name: str, variable: Any, value: Any) -> Any:
    """The new beginning of a pointer or range that moves by whole numbers in a loop."""
    same = isinstance(value, type(variable)) and (not isinstance(variable, Pointer) or value.name == variable.name)
    if same:
        a, b = (x.it[0] if isinstance(x, Pointer) else x.it for x in (variable, value))
        same = a.strides == b.strides and a.entries == b.entries
    if not same:
        raise TileError(f"{name} changes its array, strides or shape in a loop or branch", cure="use two names")
    return value.it[0].base if isinstance(value, Pointer) else value.it.base


def _kind(x: Any) -> str:
    if isinstance(x, Block):
        return f"{x.dtype.name}{list(x.shape)}"
    return {Scalar: "a number", Pointer: "a pointer", Range: "index lanes", Mask: "a mask", Bits: "a mask"}.get(
        type(x), repr(x)
    )
