"""From a Triton function to a Program or a Product: pointers become tiles of arrays, masks their valid extents."""

from __future__ import annotations

import ast
import math
from dataclasses import replace
from typing import Any

from toprope.dtypes import Dtype
from toprope.tile import rules
from toprope.tile.cube import RESULTS, Operand, Product
from toprope.tile.expressions import Source, show_axes
from toprope.tile.language import Dim, Param, TileError, f32, i32
from toprope.tile.program import ONE, ByIndex, Index, Loop, Number, Program, Region, Store, Value
from toprope.tile.triton_eager import TYPES
from toprope.tile.triton_offsets import Cut, Offsets, Place
from toprope.tile.triton_places import Places
from toprope.tile.triton_values import Dot, Filled, Lanes, Tiles, Word, outside_of

_ARITHMETIC: dict[type, str] = {ast.Add: "add", ast.Sub: "sub", ast.Mult: "mul", ast.Div: "div"}
_IDENTITY = {"sum": 0.0, "max": -math.inf, "min": math.inf}
_COMPARE: dict[type, str] = {
    ast.Lt: "lt", ast.LtE: "le", ast.Gt: "gt", ast.GtE: "ge", ast.Eq: "eq", ast.NotEq: "ne",
}  # fmt: skip


class TritonReader(Places):
    """Reads one Triton function for given element types and constants."""

    def __init__(
        self,
        source: Source,
        params: dict[str, Param],
        constants: dict[str, Any],
        scalars: dict[str, type],
        alias: str,
        ones: frozenset[str],
    ) -> None:
        super().__init__(source, params, ones)
        self.alias = alias
        self.sizes = {k: v for k, v in constants.items() if isinstance(v, int)}
        self.env = {name: Place(name, Offsets.number(0)) for name in params}
        self.env |= {k: Offsets.of(name=k) if t is int else Number(k) for k, t in scalars.items()}
        self.env |= {k: _constant(v) for k, v in constants.items()}
        self.exit: tuple[Store | None, Dot] | None = None

    # ---- the whole function ------------------------------------------------------------------------------------------

    def read(self, depth: int) -> Program | Product:
        """The function as a vector program, or as a product when it uses tl.dot. Raises TileError at the user's line."""
        self.region, self.known = Region(depth), {}
        for statement in self.source.node.body:
            self.statement(statement)
        if self.exit:
            return self.product(*self.exit)
        axes: dict[str, list[Index]] = {}
        for (begin, _), index in self.made_axes.items():
            if begin.startswith("pid"):
                axes.setdefault(begin, []).append(index)
        main = tuple(max(found, key=lambda i: i.size) for _, found in sorted(axes.items()))
        if not main:
            raise self.error(self.source.node, "no tl.program_id in an offset", "let each program take its own tile")
        others = tuple((i, m) for m in main for i in axes[next(k for k, v in axes.items() if m in v)] if i is not m)
        loop = Loop(main, [self.region], self.source.node.lineno, depth)
        return Program(
            self.source.node.name,
            self.source.file,
            self.params,
            loop,
            self.indices,
            self.sizes,
            strides=self.strides,
            followers=others,
        )

    @property
    def grid_axes(self) -> list[int]:
        """The axes of the grid that the function asks for."""
        return sorted({int(begin[3:]) for begin, _ in self.made_axes if begin.startswith("pid")})

    def statement(self, node: ast.stmt) -> None:
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call) and not self.is_print(node.value):
            self.expression(node.value)
        elif isinstance(node, ast.For):
            self.range_loop(node)
        elif isinstance(node, ast.If):
            self.static_if(node)
        elif isinstance(node, ast.Assign | ast.AnnAssign | ast.AugAssign) and isinstance(
            node.targets[0] if isinstance(node, ast.Assign) else node.target, ast.Subscript
        ):
            raise self.error(node, "an element is assigned", "use tl.store")
        else:
            super().statement(node)

    def static_if(self, node: ast.If) -> None:
        test = self.expression(node.test)
        test = test.constant if isinstance(test, Offsets) else test.value if isinstance(test, Number) else test
        if not isinstance(test, bool | int | float):
            raise self.error(node, "an if on something else than a constexpr", "choose lanes with tl.where or a mask")
        for statement in node.body if test else node.orelse:
            self.statement(statement)

    def bind(self, target: ast.expr, value: Any) -> None:
        if isinstance(target, ast.Name) and isinstance(value, Lanes) and not value.value.label:
            value.value.label = target.id
        super().bind(target, value)

    def range_loop(self, node: ast.For) -> None:
        """The loop over K of a product; pointers that move in it are pointers times its counter."""
        if not any(isinstance(n, ast.Attribute) and n.attr == "dot" for s in node.body for n in ast.walk(s)):
            raise self.error(node, "a loop without tl.dot", "give each program one tile; only products loop, over K")
        call = node.iter
        if not (
            isinstance(call, ast.Call)
            and isinstance(call.func, ast.Name)
            and call.func.id == "range"
            and isinstance(node.target, ast.Name)
        ):
            raise self.error(node, f"for over {ast.unparse(call)}", "write for k in range(0, K, BLOCK_K)")
        parts = [self.expression(a) for a in call.args]
        start, end, step = {
            1: [Offsets.number(0), *parts, Offsets.number(1)],
            2: [*parts, Offsets.number(1)],
            3: parts,
        }[len(parts)]
        if not isinstance(start, Offsets) or start.constant != 0 or not isinstance(step, Offsets) or not step.constant:
            raise self.error(
                node, "a loop that starts elsewhere than at 0 or has no constant step", "write range(0, K, BLOCK_K)"
            )
        atom = f"loop:{node.target.id}"
        self.loop_extents[atom] = (end.extent, end.size) if isinstance(end, Tiles) else (end, step.constant)
        counter = Offsets.of(atom)
        self.env[node.target.id] = counter * step
        moved = {}
        for s in node.body:
            if isinstance(s, ast.AugAssign) and isinstance(s.op, ast.Add) and isinstance(s.target, ast.Name):
                start_place = self.env.get(s.target.id)
                if isinstance(start_place, Place):
                    with self.at(s):
                        moved[id(s)] = s
                        self.env[s.target.id] = Place(
                            start_place.array, start_place.offsets + self.offsets(self.expression(s.value)) * counter
                        )
        for s in node.body:
            if id(s) not in moved:
                self.statement(s)

    # ---- expressions -------------------------------------------------------------------------------------------------

    def expression(self, node: ast.expr) -> Any:
        with self.at(node):
            match node:
                case ast.Constant():
                    return _constant(node.value)
                case ast.Tuple() | ast.List():
                    return tuple(self.expression(e) for e in node.elts)
                case ast.Attribute(value=ast.Name(id=owner)) if owner == self.alias:
                    return TYPES.get(node.attr, Word(node.attr))
                case ast.Attribute(attr="dtype"):
                    return self.lanes(self.expression(node.value)).value.dtype
                case ast.Subscript():
                    return self.spread_out(node)
                case ast.UnaryOp(op=ast.USub()):
                    return self.negative(self.expression(node.operand), node.lineno)
                case ast.BinOp(op=ast.BitAnd()):
                    sides = self.expression(node.left), self.expression(node.right)
                    if all(isinstance(s, tuple) for s in sides):
                        return sides[0] + sides[1]
                    raise TileError(
                        "& of something else than masks", cure="combine masks; choose lanes by nesting tl.where"
                    )
                case ast.BinOp():
                    return self.arithmetic(node)
                case ast.Compare() if len(node.ops) == 1 and type(node.ops[0]) in _COMPARE:
                    left, right = self.expression(node.left), self.expression(node.comparators[0])
                    return self.comparison(_COMPARE[type(node.ops[0])], left, right, node.lineno)
                case ast.Name():
                    found = self.name(node)
                    return _constant(getattr(found, "value", found)) if not isinstance(found, _KNOWN) else found
                case ast.Call():
                    return self.call(node)
        raise self.unsupported(node)

    def negative(self, x: Any, line: int) -> Any:
        if isinstance(x, Offsets):
            return x * Offsets.number(-1)
        if isinstance(x, Number):
            return self.fold("-", Number("0", 0), x)
        return self.on_tiles("mul", x, Number("-1", -1), line)

    def spread_out(self, node: ast.Subscript) -> Any:
        """x[:, None] lies along the rows, x[None, :] along the columns."""
        x, where = self.expression(node.value), ast.unparse(node.slice).strip("()")
        if where not in (":, None", "None, :"):
            raise TileError(f"[{where}] of a block", cure="write x[:, None] or x[None, :]")
        axis = 0 if where == ":, None" else 1
        if isinstance(x, Lanes) and x.value.dtype == i32:
            x = self.offsets(x)
        if isinstance(x, Offsets):
            return x.placed(axis)
        if isinstance(x, tuple):
            return tuple(Cut(c.difference.placed(axis)) for c in x)
        value = self.lanes(x).value
        if value.axes != (ONE, ONE) and value.is_rows != (axis == 0):
            raise TileError("lanes would have to turn", cure="load the block along the axis where it is used")
        return x

    def arithmetic(self, node: ast.BinOp) -> Any:
        a, b = self.expression(node.left), self.expression(node.right)
        name = _ARITHMETIC.get(type(node.op), "")
        sign = {"add": "+", "sub": "-", "mul": "*", "div": "/"}.get(name, "")
        if isinstance(b, Dot) or isinstance(a, Dot):
            return self.accumulate(a, b, name)
        if isinstance(a, Place) or isinstance(b, Place):
            place, more = (a, b) if isinstance(a, Place) else (b, a)
            if name != "add":
                raise TileError(f"{ast.unparse(node)} of a pointer", cure="add offsets to a pointer")
            return Place(place.array, place.offsets + self.offsets(more))
        if _is_integer(a) and _is_integer(b) and name in ("add", "sub", "mul"):
            x, y = self.offsets(a), self.offsets(b)
            try:
                return x + y if name == "add" else x - y if name == "sub" else x * y
            except ValueError as e:
                raise TileError(f"{ast.unparse(node)}: {e}", cure="offsets are sums of indices times sizes") from None
        if not name:
            if (
                isinstance(a, Offsets)
                and isinstance(b, Offsets)
                and a.constant is not None
                and b.constant
                and isinstance(node.op, ast.FloorDiv | ast.Mod)
            ):
                return Offsets.number(
                    a.constant // b.constant if isinstance(node.op, ast.FloorDiv) else a.constant % b.constant
                )
            raise TileError(
                f"{ast.unparse(node)}: {type(node.op).__name__} is not supported",
                cure="use + - * / on blocks; give each axis of the grid its own tl.program_id instead of // and %",
            )
        if not isinstance(a, Lanes) and not isinstance(b, Lanes):
            return self.fold(sign, self.number(a), self.number(b))
        return self.on_tiles(name, a, b, node.lineno)

    def on_tiles(self, name: str, a: Any, b: Any, line: int) -> Lanes:
        """Element-wise, and what it makes of the masked-off lanes."""
        sides = [x if isinstance(x, Lanes) else self.number(x) for x in (a, b)]
        x, y = (s.value if isinstance(s, Lanes) else s for s in sides)
        value = self.binary(name, x, y, line)
        tiles = [s for s in sides if isinstance(s, Lanes)]
        rows = [s for s in tiles if s.value.is_rows and not value.is_rows]
        outside = [None if s in rows else s.outside if isinstance(s, Lanes) else s.value for s in sides]
        repeated = any(s.repeated for s in tiles) or any(not s.whole for s in rows)
        return Lanes(value, outside_of(name, outside), all(s.whole for s in tiles), repeated)

    def comparison(self, name: str, a: Any, b: Any, line: int) -> Any:
        """A mask of offsets, a constant, or a comparison of lanes."""
        if not (_is_integer(a) and _is_integer(b)):
            if not isinstance(a, Lanes) and not isinstance(b, Lanes):
                return self.compare(name, self.number(a), self.number(b), line)
            left, right = (x.value if isinstance(x, Lanes) else self.number(x) for x in (a, b))
            return Lanes(self.compare(name, left, right, line))
        x, y = self.offsets(a), self.offsets(b)
        if x.constant is not None and y.constant is not None:
            return bool(rules.COMPARE[name].evaluate(x.constant, y.constant))
        one = Offsets.number(1)
        cuts = {"lt": lambda: x - y, "le": lambda: x - y - one, "gt": lambda: y - x, "ge": lambda: y - x - one}
        if name not in cuts:
            raise TileError("a mask by == or !=", cure="masks are offsets < extent")
        return (Cut(cuts[name]()),)

    # ---- calls -------------------------------------------------------------------------------------------------------

    def call(self, node: ast.Call) -> Any:
        if isinstance(node.func, ast.Attribute) and node.func.attr == "to":
            return self.converted(self.expression(node.func.value), self.expression(node.args[0]), node.lineno)
        if isinstance(node.func, ast.Name) and node.func.id == "float":
            return Number("inf", float(ast.literal_eval(node.args[0])))
        word = self.expression(node.func)
        args = [self.expression(a) for a in node.args]
        named = {str(k.arg): self.expression(k.value) for k in node.keywords}
        if not isinstance(word, Word):
            raise TileError(f"a call of {ast.unparse(node.func)}", cure="call functions of triton.language")
        found = getattr(self, f"tl_{word.name}", None)
        if word.name in ("exp", "log", "sqrt", "rsqrt", "abs"):
            x = self.lanes(args[0])
            value = self.builtin(word.name, [x.value], {}, node.lineno)
            return Lanes(value, outside_of(word.name, [x.outside]), x.whole, x.repeated)
        if word.name in ("maximum", "minimum"):
            return self.on_tiles(word.name, args[0], args[1], node.lineno)
        if word.name in _IDENTITY:
            return self.fold_lanes(
                word.name, self.lanes(args[0]), (args[1:] or [named.get("axis", Offsets.number(0))])[0], node.lineno
            )
        if found is None:
            words = "program_id arange cdiv load store atomic_add zeros full where dot exp log sqrt rsqrt abs maximum minimum sum max min"
            raise TileError(f"tl.{word.name} is not supported", cure=f"supported: {words}")
        return found(node, *args, **named)

    def converted(self, x: Any, kind: Any, line: int) -> Any:
        if isinstance(x, Dot):
            return replace(x, kind=kind)
        lanes = self.lanes(x)
        return replace(lanes, value=self.cast(lanes.value, kind, line))

    def fold_lanes(self, name: str, x: Lanes, axis: Any, line: int) -> Lanes:
        """A reduction; masked-off lanes must not matter to it."""
        value = self.reduce(name, x.value, self.number(axis), line)
        along_rows = value.axes[1] != ONE and x.repeated
        if not x.whole and (x.outside != _IDENTITY[name] or along_rows):
            holds = "hold something" if x.outside is None else f"hold {x.outside}"
            raise TileError(
                f"masked-off lanes {holds} in a {name}; {_IDENTITY[name]} would leave it alone",
                cure=f"load with other={_IDENTITY[name]}, or tl.where(mask, x, {_IDENTITY[name]}) first",
            )
        return Lanes(value, None, whole=True) if value.axes == (ONE, ONE) else Lanes(value, _IDENTITY[name], x.whole)

    def tl_program_id(self, node: ast.Call, axis: Any) -> Offsets:
        return Offsets.of(f"pid{self.whole_number(axis)}")

    def tl_arange(self, node: ast.Call, start: Any, end: Any) -> Offsets:
        if self.whole_number(start) != 0:
            raise TileError("a range that does not start at 0", cure="add the start to tl.arange(0, size)")
        return self.atoms.new_range(self.whole_number(end))

    def tl_cdiv(self, node: ast.Call, extent: Any, size: Any) -> Tiles:
        return Tiles(self.offsets(extent), self.whole_number(size))

    def tl_zeros(self, node: ast.Call, shape: Any, dtype: Dtype = f32) -> Filled:
        return Filled(Number("0", 0), dtype)

    def tl_full(self, node: ast.Call, shape: Any, value: Any, dtype: Dtype = f32) -> Filled:
        return Filled(self.number(value), dtype)

    def tl_load(self, node: ast.Call, place: Any, mask: Any = None, other: Any = None) -> Lanes:
        where, kind = self.located(place, mask), self.params[place.array].dtype
        loaded = Value("load", "", [], kind, self.axes_of(where), node.lineno, array=place.array, where=where)
        if (
            self.strides[(place.array, where)][len(where) - 1] not in self.ones
            and loaded.axes[1] != ONE
            and not loaded.spread
            and not self.has_dot()
        ):
            raise TileError(
                "the columns of a block are not neighbours in memory", cure="let the last axis have stride 1"
            )
        value = self.value(loaded)
        if value.spread:
            value = self.value(Value("pack", "", [value], kind, value.axes, node.lineno))
        outside = None if other is None else self.number(other).value
        return Lanes(
            value,
            outside,
            mask is None and not any((k in self.extents) for k, i in self.made_axes.items() if i in where),
        )

    def tl_store(self, node: ast.Call, place: Any, value: Any, mask: Any = None) -> None:
        self.stored(node, place, value, mask, atomic=False)

    def tl_atomic_add(self, node: ast.Call, place: Any, value: Any, mask: Any = None) -> None:
        self.stored(node, place, value, mask, atomic=True)

    def stored(self, node: ast.Call, place: Any, value: Any, mask: Any, *, atomic: bool) -> None:
        where, kind = self.located(place, mask), self.params[place.array].dtype
        axes = self.axes_of(where)
        if isinstance(value, Dot):
            self.exit = (Store(place.array, where, value.left, atomic, node.lineno), value)
            return
        if isinstance(value, Filled):
            value = Lanes(self.value(Value("full", "", [], value.dtype, axes, node.lineno, number=value.number)))
        found = self.lanes(value).value
        rules.require_same(f"a store to {place.array}", kind, found.dtype)
        if found.axes != axes and found.axes != (axes[1], ONE):
            raise TileError(
                f"lanes of axes {show_axes(found.axes)} are stored at {show_axes(axes)}", cure="use one mask for both"
            )
        self.region.stores.append(Store(place.array, where, self.use(found), atomic, node.lineno))

    def tl_where(self, node: ast.Call, condition: Any, a: Any, b: Any) -> Lanes:
        if isinstance(condition, tuple):
            for cut in condition:
                self.cut(cut)
            outside = b.outside if isinstance(b, Lanes) else self.number(b).value
            return Lanes(self.lanes(a).value, outside)
        others = [x.value if isinstance(x, Lanes) else self.number(x) for x in (a, b)]
        return Lanes(self.where([self.lanes(condition).value, *others], node.lineno))

    def tl_dot(self, node: ast.Call, a: Any, b: Any, acc: Any = None) -> Dot:
        sides = [self.lanes(x).value for x in (a, b)]
        if any(s.op != "load" or s.by_index for s in sides):
            raise TileError("an operand of tl.dot is not a loaded block", cure="multiply blocks as they were loaded")
        rules.require_same("dot", sides[0].dtype, sides[1].dtype)
        rules.require("dot", rules.PRODUCTS, sides[0].dtype)
        found = Dot(sides[0], sides[1], node.lineno)
        return found if acc is None else self.accumulate(acc, found, "add")

    def accumulate(self, a: Any, b: Any, name: str) -> Dot:
        if name != "add" or not isinstance(a, Filled) or not isinstance(b, Dot) or a.number.value != 0:
            raise TileError(
                "a product meets something else than its accumulator",
                cure="write acc = tl.zeros(...); acc += tl.dot(a, b); tl.store(p, acc.to(type))",
            )
        return replace(b, summed=True)

    def has_dot(self) -> bool:
        """Whether the function is a matrix product."""
        return any(isinstance(n, ast.Attribute) and n.attr == "dot" for n in ast.walk(self.source.node))

    # ---- kinds of values ---------------------------------------------------------------------------------------------

    def lanes(self, x: Any) -> Lanes:
        if isinstance(x, Lanes):
            return x
        raise TileError("an index or number where lanes of data are needed", cure="compute with loaded blocks")

    def number(self, x: Any) -> Number:
        if isinstance(x, Number):
            return x
        if isinstance(x, Filled):
            return x.number
        if isinstance(x, Offsets) and x.is_scalar:
            return Number(x.text(), x.constant)
        raise TileError(
            "an index block where a number is needed", cure="compute with loaded blocks and scalar arguments"
        )

    def offsets(self, x: Any) -> Offsets:
        """An integer expression; loaded int32 lanes become an index."""
        if isinstance(x, Offsets):
            return x
        if isinstance(x, Lanes) and x.value.op == "load" and x.value.dtype == i32 and not x.value.by_index:
            return self.atoms.new_entry(ByIndex(x.value.array, tuple(i for i in x.value.where if isinstance(i, Index))))
        raise TileError("a number or block that is no index is added to a pointer", cure="index with whole numbers")

    def whole_number(self, x: Any) -> int:
        if isinstance(x, Offsets) and x.constant is not None:
            return x.constant
        raise TileError("a size that is not constant", cure="pass it as tl.constexpr")

    # ---- products ----------------------------------------------------------------------------------------------------

    def product(self, store: Store | None, dot: Dot) -> Product:
        """The product that the function is. Raises TileError."""
        node = self.source.node
        left, right = dot.left.where, dot.right.where
        if (
            store is None
            or not dot.summed
            or len(left) != 2
            or len(right) != 2
            or store.where != (left[0], right[1])
            or left[1] != right[0]
        ):
            raise self.error(
                node,
                "tl.dot is used another way than acc += tl.dot(a, b) over K",
                "store one block of sums per program",
            )
        rows, columns, steps = (i for i in (left[0], right[1], left[1]) if isinstance(i, Index))
        kind = self.params[store.array].dtype
        if kind is not dot.kind or kind not in RESULTS or store.atomic:
            raise self.error(
                node,
                f"a {dot.kind.name} sum is stored into {kind.name}",
                "write tl.store(p, acc.to(type of the array))",
            )
        operands = [self.operand_of(v) for v in (dot.left, dot.right)]
        params = {v.array: p for v, (_, p) in zip((dot.left, dot.right), operands, strict=True)}
        pitch = self.strides[(store.array, store.where)][0]
        params[store.array] = Param((self.dim(rows.extent.text), self.dim(pitch)), kind, written=True)
        lines = {"loop": node.lineno, "acc": node.lineno, "sum": dot.line, "store": store.line}
        return Product(
            node.name, self.source.file, {n: params.get(n, p) for n, p in self.params.items()}, rows, columns, steps, operands[0][0],
            operands[1][0], store.array, False, 1, lines, self.sizes,
        )  # fmt: skip

    def operand_of(self, v: Value) -> tuple[Operand, Param]:
        """An operand with its rows as they lie in memory."""
        where = tuple(i for i in v.where if isinstance(i, Index))
        strides = self.strides[(v.array, v.where)]
        turned = strides[1] not in self.ones
        if (turned and strides[0] not in self.ones) or strides[2] != "0":
            raise self.error(self.source.node, f"no axis of {v.array} has stride 1", "pass a stride of 1 for one axis")
        rows = where[1] if turned else where[0]
        dims = (self.dim(rows.extent.text), self.dim(strides[1 if turned else 0]))
        return Operand(v.array, where[::-1] if turned else where, turned), Param(dims, v.dtype, written=False)

    def dim(self, text: str) -> Dim:
        if not text.isidentifier():
            raise self.error(
                self.source.node,
                f"an extent or row stride of the product is {text}",
                "pass it as a scalar argument and mask with it",
            )
        return Dim(text)


_KNOWN = (Offsets, Place, Lanes, Number, Filled, Tiles, Dot, Word, Dtype, tuple)


def _constant(value: Any) -> Any:
    if isinstance(value, int) and not isinstance(value, bool):
        return Offsets.number(value)
    return Number(repr(value), value) if isinstance(value, float) else value


def _is_integer(x: Any) -> bool:
    return isinstance(x, Offsets) or (isinstance(x, Lanes) and x.value.dtype is i32)
