"""A Triton function's statements, read into the form: loops and branches carry variables, helpers are expanded in place."""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence
from typing import Any

from toprope.dtypes import Dtype
from toprope.tile.form.builder import Builder
from toprope.tile.form.nodes import WHOLE, Argument, Block, Form, Type, Value, Variable, boolean, f32, i32, i64
from toprope.tile.front_triton.carry import carried_names, decomposed, merged_type
from toprope.tile.front_triton.expressions import Expressions, Frame
from toprope.tile.front_triton.module import Helper, Module
from toprope.tile.front_triton.values import Pointer, is_number, leaves
from toprope.tile.language import TileError


class Left(Exception):
    """A return, break or continue that every path of a block ends with."""

    def __init__(self, kind: str, value: Any = None) -> None:
        self.kind, self.value = kind, value


class Reader(Expressions):
    """Reads one kernel for the types and constants of a launch."""

    # ---- statements --------------------------------------------------------------------------------------------------

    def statements(self, nodes: Sequence[ast.stmt]) -> None:
        """In order; a branch that returns from a helper takes what follows it along."""
        for n, node in enumerate(nodes):
            with self.at(node):
                if isinstance(node, ast.If) and self.branch(node, nodes[n + 1 :]):
                    return
                if not isinstance(node, ast.If):
                    self.statement(node)

    def statement(self, node: ast.stmt) -> None:
        """One statement that is no branch."""
        match node:
            case ast.Assign(targets=targets, value=value):
                found = self.expression(value)
                for t in targets:
                    self.bind(t, found)
            case ast.AnnAssign(target=target, value=value):
                if value is not None:
                    self.bind(target, self.expression(value))
            case ast.AugAssign(target=target, op=op, value=value):
                left = (
                    ast.copy_location(ast.Name(target.id, ast.Load()), node) if isinstance(target, ast.Name) else target
                )
                self.bind(target, self.operator(type(op), self.expression(left), self.expression(value)))
            case ast.Expr(value=value):
                if not isinstance(value, ast.Constant):
                    self.expression(value)
            case ast.For():
                self.loop(node)
            case ast.While():
                self.whilst(node)
            case ast.Return(value=value):
                raise Left("return", self.expression(value) if value is not None else None)
            case ast.Break() | ast.Continue():
                raise Left("break" if isinstance(node, ast.Break) else "continue")
            case ast.Assert(test=test):
                if self.truth(self.expression(test)) is False:
                    raise TileError(f"assert {ast.unparse(test)} does not hold", cure="give constants that it accepts")
            case ast.With(body=body):  # scopes of libraries for GPUs and of triton-ascend steer a compiler
                self.statements(body)
            case ast.Raise():
                raise TileError(f"{ast.unparse(node)} is reached", cure="give constants that the kernel accepts")
            case ast.Pass() | ast.Global() | ast.Import() | ast.ImportFrom():
                pass
            case ast.FunctionDef():
                self.env[node.name] = Helper(node, self.frame.module)
            case ast.Delete():
                pass
            case _:
                raise TileError(
                    f"{type(node).__name__} in a kernel", cure="a kernel has assignments, loops, branches and stores"
                )

    def bind(self, target: ast.expr, value: Any) -> None:
        """name = value, a, b = pair."""
        if isinstance(target, ast.Name):
            self.env[target.id] = value
        elif isinstance(target, ast.Tuple | ast.List):
            parts = list(value) if isinstance(value, tuple | list) else []
            if len(parts) != len(target.elts):
                raise TileError(
                    f"{len(target.elts)} names for {len(parts) or 'one'} values", cure="unpack what the call gives"
                )
            for t, v in zip(target.elts, parts, strict=True):
                self.bind(t, v)
        else:
            raise TileError("an assignment to something else than a name", cure="store through a pointer with tl.store")

    # ---- branches ----------------------------------------------------------------------------------------------------

    def branch(self, node: ast.If, rest: Sequence[ast.stmt]) -> bool:
        """An if: decided where its condition is known. True when it took the rest of the block along."""
        test = self.truth(self.expression(node.test))
        if isinstance(test, bool):
            self.statements(node.body if test else node.orelse)
            return False
        inner = [n for part in (node.body, node.orelse) for s in part for n in ast.walk(s)]
        takes_rest = self.frame.inlined and any(isinstance(n, ast.Return) for n in inner)
        sides: list[tuple[Block, dict[str, Any]]] = []
        ends: list[Left | None] = []
        before = dict(self.env)
        for part in (node.body, node.orelse):
            self.frame.env = dict(before)
            ends.append(None)
            block: Block = []
            with self.b.inside(block):
                try:
                    self.statements([*part, *rest] if takes_rest else part)
                except Left as e:
                    if not (takes_rest and e.kind == "return") and not e.kind.startswith("after"):
                        self.leave(e.kind)
                    ends[-1] = e
            sides.append((block, self.env))
        self.frame.env = before
        self.b.branch(test, sides[0][0], sides[1][0])
        returned = [e for e in ends if e is not None and e.kind == "return"] if takes_rest else []
        if takes_rest:
            values = [e.value if e is not None else None for e in ends]
            position = len(self.b.block) - 1
            result = self._joined(values, [b for b, _ in sides], position)
            if returned:
                raise Left("return", result)
        live = [k for k, e in enumerate(ends) if e is None]
        if not live:
            if all(e is not None and e.kind == ends[0].kind for e in ends):  # type: ignore[union-attr]
                raise Left(f"after {ends[0].kind}")  # type: ignore[union-attr]
            return True
        names = {
            n
            for _, env in sides
            for n in env
            if any(env.get(n) is not before.get(n) for k, (_, env) in enumerate(sides) if k in live)
        }
        position = len(self.b.block) - 1
        for name in sorted(names):
            values = [env.get(name, before.get(name)) if k in live else None for k, (_, env) in enumerate(sides)]
            self.env[name] = self._joined(values, [b for b, _ in sides], position)
        return takes_rest

    def _joined(self, values: list[Any], blocks: list[Block], position: int) -> Any:
        """One value of what two branches give; variables that both set, declared before the branch."""
        known = [v for v in values if v is not None]
        if not known:
            return None
        flat = [leaves(v) for v in values]
        model, rebuild = leaves(known[0])
        if any(v is not None and len(f) != len(model) for v, (f, _) in zip(values, flat, strict=True)):
            return known[-1]  # a name that means something else on each side; it may not be used any more
        if not model:
            return known[0]
        joined: list[Any] = []
        for n in range(len(model)):
            options = [f[n] if v is not None else None for v, (f, _) in zip(values, flat, strict=True)]
            present = [o for o in options if o is not None]
            if all(
                o is present[0]
                or (is_number(o) and is_number(present[0]) and o == present[0] and type(o) is type(present[0]))
                for o in present
            ) and len(present) == len(values):
                joined.append(present[0])
                continue
            kind = merged_type(present)
            variable = Variable("v", kind)
            for option, block in zip(options, blocks, strict=True):
                with self.b.inside(block):
                    self.b.set(variable, self.fitted(option if option is not None else 0, kind))
            joined.append(self.b.value("read", kind, variable=variable))
        return rebuild(joined)

    # ---- loops -------------------------------------------------------------------------------------------------------

    def loop(self, node: ast.For) -> None:
        """A counted loop; static_range and loops over tuples are laid out."""
        if node.orelse:
            raise TileError("for ... else", cure="remove the else")
        items = self.counted(node.iter)
        if isinstance(items, list):
            for item in items:
                self.bind(node.target, item)
                try:
                    self.statements(node.body)
                except Left as e:
                    if e.kind == "break":
                        break
                    if e.kind != "continue":
                        raise
            return
        begin, end, step = (self.whole(x) for x in items)
        if not isinstance(node.target, ast.Name):
            raise TileError("a loop over several names", cure="count with one name")
        name, names = node.target.id, carried_names(node.body, self.env)

        def make(body: Block) -> None:
            index = Variable(name, Type(i32 if begin.dtype != i64 and end.dtype != i64 else i64))
            self.b.loop(index, begin, end, step, body)
            made = self.b.block.pop()
            with self.b.inside(body):
                self.env[name] = self.b.value("read", index.type, variable=index)
                self._body(node.body)
            self.b.block.append(made)

        self._carrying(names - {name}, make)

    def whilst(self, node: ast.While) -> None:
        """A loop on a condition."""
        names = carried_names([*node.body, ast.Expr(node.test)], self.env)

        def make(body: Block) -> None:
            head: Block = list(body)  # what it reads is read anew before every test
            body.clear()
            with self.b.inside(head):
                test = self.truth(self.expression(node.test))
                condition = self.b.constant(test, boolean) if isinstance(test, bool) else test
            with self.b.inside(body):
                self._body(node.body)
            self.b.whilst(head, condition, body)

        self._carrying(names, make)

    def _body(self, nodes: Sequence[ast.stmt]) -> None:
        try:
            self.statements(nodes)
            self._set_carried()
        except Left as e:
            if e.kind == "return" and self.frame.inlined:
                raise TileError("a helper returns from inside a loop", cure="leave the loop with a condition") from None
            if not e.kind.startswith("after"):
                self.leave(e.kind)

    def _carrying(self, names: set[str], make: Any) -> None:
        """Makes a loop whose body changes names: each becomes variables. Tried again with wider types where the body widens them."""
        before, start = dict(self.env), len(self.b.block)
        kinds: dict[tuple[str, int], Any] = {}
        for _ in range(12):
            del self.b.block[start:]
            self.b.forget()
            self.frame.env = dict(before)
            slots: dict[str, Any] = {}
            for name in sorted(names):
                found, rebuild = leaves(before[name])
                if found:
                    slots[name] = ([self._slot(name, n, x, kinds) for n, x in enumerate(found)], rebuild)
            body: Block = []
            with self.b.inside(body):
                self._read_slots(slots)
            self.loops.append((slots, kinds))
            self.failed = False
            try:
                make(body)
            finally:
                self.loops.pop()
            failed = self.failed
            self.frame.env = dict(before)
            if not failed:
                self._read_slots(slots)
                return
        raise TileError(
            f"{', '.join(sorted(names))}: types change in every pass of a loop",
            cure="give them one type and shape before the loop",
        )

    def _read_slots(self, slots: Mapping[str, Any]) -> None:
        for name, (each, rebuild) in slots.items():
            self.env[name] = rebuild([read() for read, _ in each])

    def _set_carried(self) -> None:
        """What the body left in its names goes to their variables; `failed` when some type did not fit."""
        slots, _ = self.loops[-1]
        pending = []
        for name, (each, _) in slots.items():
            found, _ = leaves(self.env[name])
            if len(found) != len(each):
                raise TileError(f"{name} becomes something else in a loop", cure="use another name inside it")
            for x, (_, accept) in zip(found, each, strict=True):
                done = accept(x)
                if done is None:
                    self.failed = True
                else:
                    pending.append(done)
        for variable, value in pending:
            if not (value.op == "read" and value.attributes["variable"] is variable):
                self.b.set(variable, value)

    def leave(self, kind: str) -> None:
        """return, break or continue; the next pass and what follows the loop find what its names hold now."""
        if kind in ("break", "continue"):
            self._set_carried()
        self.b.leave(kind)

    def _slot(self, name: str, n: int, x: Any, kinds: dict[tuple[str, int], Any]) -> tuple[Any, Any]:
        """One carried leaf: how it is read, and what takes the value of the next pass (None: it does not fit, try again)."""
        b = self.b
        want: Any = kinds.get((name, n))
        if want is None and isinstance(x, Value) and x.shape and x.dtype in WHOLE:
            base, lanes = decomposed(b, x)
            if lanes is not None:
                variable = Variable(name, Type(i64 if base.dtype == i64 else base.dtype))
                b.set(variable, base)

                def accept_lanes(new: Any) -> Any:
                    if isinstance(new, Value) and new.shape == x.shape:
                        more, same = decomposed(b, new)
                        if same is lanes:
                            if more.dtype == variable.type.dtype:
                                return variable, more
                            if variable.type.dtype != i64:
                                kinds[(name, n)] = "wide"
                                return None
                            return variable, b.cast(more, i64)
                    kinds[(name, n)] = Type(
                        new.dtype if isinstance(new, Value) and new.dtype == i64 else x.dtype, x.shape
                    )
                    return None

                return lambda: b.apply(
                    "add",
                    b.splat(b.cast(b.value("read", variable.type, variable=variable), lanes.dtype), x.shape),
                    lanes,
                ), accept_lanes
        if want == "wide":
            base, lanes = decomposed(b, b.cast(x, i64))
            want = Type(i64, x.shape)
            x = b.cast(x, i64)
            base, lanes = decomposed(b, x)
            if lanes is not None:
                kinds.pop((name, n))
                found = self._slot(name, n, x, kinds)
                kinds[(name, n)] = "wide"
                return found
        kind = want if isinstance(want, Type) else merged_type([x])
        variable = Variable(name, kind)
        b.set(variable, self.fitted(x, kind))

        def accept(new: Any) -> Any:
            wider = merged_type([new, b.value("read", kind, variable=variable)])
            if wider != kind and not (is_number(new) and kind.dtype not in (i32, boolean)):
                kinds[(name, n)] = wider
                return None
            return variable, self.fitted(new, kind)

        return lambda: b.value("read", kind, variable=variable), accept

    def fitted(self, x: Any, kind: Type) -> Value:
        """A value or number in a type and shape."""
        if is_number(x):
            return self.b.splat(self.b.constant(x if kind.dtype != boolean else bool(x), kind.dtype), kind.shape)
        return self.b.broadcast(self.b.cast(x, kind.dtype), kind.shape)

    # ---- helpers -----------------------------------------------------------------------------------------------------

    def expanded(self, helper: Helper, args: list[Any], named: dict[str, Any]) -> Any:
        """A call of a helper: its body in place."""
        if self.depth > 40:
            raise TileError(f"{helper.node.name} calls itself", cure="write a loop")
        a = helper.node.args
        every = [*a.posonlyargs, *a.args]
        env: dict[str, Any] = dict(zip((p.arg for p in every), args, strict=False))
        if a.vararg:
            env[a.vararg.arg] = tuple(args[len(every) :])
        elif len(args) > len(every):
            raise TileError(f"{helper.node.name} takes {len(every)} arguments", cure="leave out the others")
        env |= {k: v for k, v in named.items() if k in {p.arg for p in [*every, *a.kwonlyargs]}}
        frame = Frame(helper.module, env, inlined=True)
        before, self.frame = self.frame, frame
        self.depth += 1
        try:
            defaults = [*zip(every[len(every) - len(a.defaults) :], a.defaults, strict=True)] + [
                (p, d) for p, d in zip(a.kwonlyargs, a.kw_defaults, strict=True) if d is not None
            ]
            for p, d in defaults:
                if p.arg not in env:
                    env[p.arg] = self.expression(d)
            missing = [p.arg for p in [*every, *a.kwonlyargs] if p.arg not in env]
            if missing:
                raise TileError(f"{helper.node.name} needs {missing[0]}", cure="pass it")
            self.statements(helper.node.body)
        except Left as e:
            if e.kind != "return":
                raise
            return e.value
        finally:
            self.frame = before
            self.depth -= 1
        return None


def read(
    module: Module,
    node: ast.FunctionDef,
    arrays: Mapping[str, Dtype],
    scalars: Mapping[str, Dtype],
    constants: Mapping[str, Any],
) -> Form:
    """A function for element types of arrays, types of scalars and values of constants. Raises TileError at the user's line."""
    builder = Builder()
    every = [p.arg for p in [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]]
    env: dict[str, Any] = dict(constants)
    for name, kind in arrays.items():
        env[name] = Pointer(name, kind)
    for name, kind in scalars.items():
        env[name] = builder.value("argument", Type(kind), name=name)
    reader = Reader(builder, Frame(module, env))
    try:
        reader.statements(node.body)
    except Left as e:
        if e.kind in ("break", "continue"):
            raise TileError(f"{module.file}: {e.kind} outside a loop", cure="remove it") from None
    told = tuple(
        Argument(n, arrays[n] if n in arrays else scalars[n], n in arrays) for n in every if n in arrays or n in scalars
    )
    return Form(
        node.name,
        module.file,
        told,
        builder.block,
        {k: v for k, v in constants.items() if isinstance(v, int | float)},
        tuple(reader.notes),
    )


__all__ = ["Left", "Reader", "f32", "read"]
