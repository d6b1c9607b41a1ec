"""Reads a Triton function's syntax tree and has it written down: loops and branches stay, names become variables, helpers are expanded."""

from __future__ import annotations

import ast
import operator
from collections.abc import Sequence
from typing import Any

from toprope.dtypes import Dtype
from toprope.tile.from_triton.expressions import BINARY, Expressions, Returned
from toprope.tile.from_triton.forms import Affine, Home, MaskForm
from toprope.tile.from_triton.liveness import Rest, always, assigned, reads_first
from toprope.tile.from_triton.printer import condition, text_of
from toprope.tile.from_triton.slots import Line
from toprope.tile.from_triton.types import Bits, Block, Mask, Pointer, Range, Scalar, Value, is_float
from toprope.tile.language import TileError, f32


class Walker(Expressions):
    """Walks one function with a printer."""

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
                self.bind(node.target, BINARY[type(node.op)](self.lookup(name), self.value(node.value)))
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
            raise Returned(self.value(node.value) if node.value is not None else None)
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
        for name in sorted(assigned(body) - skip):
            start = self.env.get(name, self)
            if start is self or not reads_first(after, name):
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
        both = always(node.body) & always(node.orelse)
        return sorted(n for n in both if n not in self.env and reads_first(after, n))

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
