"""From a Triton function to a Program or a Product: pointers become tiles of arrays, masks their valid extents."""

from __future__ import annotations

import ast
import math
from dataclasses import replace
from typing import Any

from toprope.dtypes import Dtype
from toprope.tile import rules
from toprope.tile.cube import Product
from toprope.tile.expressions import Source, show_axes
from toprope.tile.from_triton.offsets import Cut, Offsets, Place
from toprope.tile.from_triton.products import Products
from toprope.tile.from_triton.types import TYPES
from toprope.tile.from_triton.values import Dot, Filled, Lanes, Tiles, Word, outside_of
from toprope.tile.language import Param, TileError, f32, i32
from toprope.tile.program import ONE, ByIndex, Index, Loop, Number, Program, Region, Store, Value

_ARITHMETIC: dict[type, str] = {ast.Add: "add", ast.Sub: "sub", ast.Mult: "mul", ast.Div: "div"}
_IDENTITY = {"sum": 0.0, "max": -math.inf, "min": math.inf}
_COMPARE: dict[type, str] = {
    ast.Lt: "lt", ast.LtE: "le", ast.Gt: "gt", ast.GtE: "ge", ast.Eq: "eq", ast.NotEq: "ne",
}  # fmt: skip


class TritonReader(Products):
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
        return sorted({int(begin[3:]) for begin, _ in self.made_axes if begin.startswith("pid") and ":" not in begin})

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
        if (
            isinstance(value, Offsets)
            and len(value.terms) > 1
            and any(atom.startswith("pid:") for atom, _ in value.terms)
        ):
            value = (
                self.ordered(self.order_text(value))
                if not any(a.startswith("range:") for a, _ in value.terms)
                else value
            )
        if isinstance(target, ast.Name) and isinstance(value, Lanes) and not value.value.label:
            value.value.label = target.id
        super().bind(target, value)

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
                case ast.Attribute(value=owner, attr="dtype"):
                    if isinstance(found := self.expression(owner), Place):
                        return self.params[found.array].dtype
                    return self.lanes(found).value.dtype
                case ast.Attribute(attr="element_ty"):
                    return self.expression(node.value)
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
            return self.sum_of(name, self.offsets(a), self.offsets(b), node)
        if not name:
            return self.divided(node, a, b)
        if isinstance(a, Tiles | Offsets) and isinstance(b, Tiles | Offsets) and name != "div":
            return self.sum_of(name, self.offsets(a), self.offsets(b), node)
        if not isinstance(a, Lanes) and not isinstance(b, Lanes):
            return self.fold(sign, self.number(a), self.number(b))
        return self.on_tiles(name, a, b, node.lineno)

    def sum_of(self, name: str, x: Offsets, y: Offsets, node: ast.expr) -> Offsets:
        try:
            return x + y if name == "add" else x - y if name == "sub" else x * y
        except ValueError as e:
            raise TileError(f"{ast.unparse(node)}: {e}", cure="offsets are sums of indices times sizes") from None

    def divided(self, node: ast.BinOp, a: Any, b: Any) -> Offsets:
        """// and %: of constants, of program ids that are numbered anew, and offsets % extent, which only keeps loads inside."""
        whole, rest = isinstance(node.op, ast.FloorDiv), isinstance(node.op, ast.Mod)
        if (whole or rest) and isinstance(a, Tiles | Offsets) and isinstance(b, Tiles | Offsets):
            x, y = self.offsets(a), self.offsets(b)
            if x.constant is not None and y.constant:
                return Offsets.number(x.constant // y.constant if whole else x.constant % y.constant)
            if self.has_dot() and rest and any(atom.startswith("range:") for atom, _ in x.terms) and y.is_scalar:
                self.cut(Cut(x - y))
                return x
            if self.has_dot():
                return self.ordered(f"({self.order_text(x)} {'//' if whole else '%'} {self.order_text(y)})")
        raise TileError(
            f"{ast.unparse(node)}: {type(node.op).__name__} is not supported",
            cure="use + - * / on blocks; give each axis of the grid its own tl.program_id instead of // and %",
        )

    def on_tiles(self, name: str, a: Any, b: Any, line: int) -> Lanes:
        """Element-wise, and what it makes of the masked-off lanes."""
        sides = [x if isinstance(x, Lanes) else self.number(x) for x in (a, b)]
        if name == "div" and any(isinstance(s, Lanes) and s.value.dtype is not f32 for s in sides):
            raise TileError(
                "a division of 16-bit floats, which Triton computes in float32", cure="convert with .to(tl.float32)"
            )
        if any(isinstance(s, Number) and s.value is None and sum(map(s.text.count, "+-*/")) > 1 for s in sides):
            raise TileError("a number of several steps", cure="compute it on the host")
        x, y = (s.value if isinstance(s, Lanes) else s for s in sides)
        value = self.binary(name, x, y, line)
        tiles = [s for s in sides if isinstance(s, Lanes)]
        rows = [s for s in tiles if s.value.is_rows and not value.is_rows]
        outside = [None if s in rows else s.outside if isinstance(s, Lanes) else s.value for s in sides]
        repeated = any(s.repeated for s in tiles) or any(not s.whole for s in rows)
        return Lanes(value, outside_of(name, outside), all(s.whole for s in tiles), repeated)

    def comparison(self, name: str, a: Any, b: Any, line: int) -> Any:
        """A mask of offsets, a constant, or a comparison of lanes."""
        if all(x is None or isinstance(x, str | bool) for x in (a, b)):
            return (a == b) if name == "eq" else (a != b)
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
        if isinstance(node.func, ast.Name) and node.func.id not in self.env and node.func.id not in self.names:
            raise TileError(
                f"a call of {node.func.id} beside a product",
                cure="work on the sum in a kernel of its own, or write the operator in the tile language",
            )
        word = self.expression(node.func)
        args = [self.expression(a) for a in node.args]
        named = {str(k.arg): self.expression(k.value) for k in node.keywords}
        if word in (min, max) and all(isinstance(a, Tiles | Offsets) for a in args) and self.has_dot():
            return self.ordered(f"{word.__name__}({', '.join(self.order_text(self.offsets(a)) for a in args)})")
        if not isinstance(word, Word):
            raise TileError(
                f"a call of {ast.unparse(node.func)} beside a product",
                cure="work on the sum in a kernel of its own, or write the operator in the tile language",
            )
        if word.name in ("assume", "multiple_of", "max_contiguous", "static_assert", "debug_barrier"):
            return args[0] if args else None
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
        try:
            return found(node, *args, **named)
        except TypeError:
            raise TileError(f"these arguments of tl.{word.name}", cure="docs/triton.md lists what is read") from None

    def converted(self, x: Any, kind: Any, line: int) -> Any:
        if isinstance(x, Dot):
            return replace(x, kind=kind)
        lanes = self.lanes(x)
        if lanes.value.dtype is not i32 and kind is i32:
            raise TileError("a conversion to whole numbers", cure="Triton cuts fractions off; tiles round")
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

    def tl_load(self, node: ast.Call, place: Any, mask: Any = None, other: Any = None, **_: Any) -> Lanes:
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

    def tl_store(self, node: ast.Call, place: Any, value: Any, mask: Any = None, **_: Any) -> None:
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
        if isinstance(x, Tiles):
            return self.ordered(f"(-(-{x.extent.text()} // {x.size}))")
        if isinstance(x, Lanes) and x.value.op == "load" and x.value.dtype == i32 and not x.value.by_index:
            return self.atoms.new_entry(ByIndex(x.value.array, tuple(i for i in x.value.where if isinstance(i, Index))))
        raise TileError("a number or block that is no index is added to a pointer", cure="index with whole numbers")

    def whole_number(self, x: Any) -> int:
        if isinstance(x, Offsets) and x.constant is not None:
            return x.constant
        raise TileError("a size that is not constant", cure="pass it as tl.constexpr")


_KNOWN = (Offsets, Place, Lanes, Number, Filled, Tiles, Dot, Word, Dtype, tuple)


def _constant(value: Any) -> Any:
    if isinstance(value, int) and not isinstance(value, bool):
        return Offsets.number(value)
    return Number(repr(value), value) if isinstance(value, float) else value


def _is_integer(x: Any) -> bool:
    return isinstance(x, Offsets) or (isinstance(x, Lanes) and x.value.dtype is i32)
