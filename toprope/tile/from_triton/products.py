"""Matrix products in Triton functions: acc += tl.dot(a, b) over K, with programs in any order that takes every tile once."""

from __future__ import annotations

import ast
from dataclasses import replace
from typing import Any

from toprope.tile import rules
from toprope.tile.cube import RESULTS, Operand, Product
from toprope.tile.from_triton.offsets import Offsets, Place
from toprope.tile.from_triton.places import Places
from toprope.tile.from_triton.values import Dot, Filled, Tiles
from toprope.tile.language import Dim, Param, TileError
from toprope.tile.program import Index, Store, Value


class Products(Places):
    """Reads the loop over K and what stands around it."""

    exit: tuple[Store | None, Dot] | None = None

    def lanes(self, x: Any) -> Any:
        """A block of data; the reader says what it may be."""
        raise NotImplementedError

    def offsets(self, x: Any) -> Offsets:
        """An integer expression; the reader says what it may be."""
        raise NotImplementedError

    def ordered(self, text: str) -> Offsets:
        """A number that hangs on program ids and sizes in another way than as a sum: the launch checks what it amounts to."""
        return self.atoms.new_order(text)

    def order_text(self, x: Offsets) -> str:
        """Python text of a number made of program ids and sizes."""
        parts = []
        for (atom, names), c in sorted(x.terms.items()):
            if atom and not atom.startswith("pid"):
                raise TileError("// or % of lanes", cure="divide program ids and sizes, and add tl.arange afterwards")
            parts.append("*".join([str(c), *names, *([self.atoms.order_of(atom)] if atom else [])]))
        return f"({' + '.join(parts) or '0'})"

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

    def tl_dot(self, node: ast.Call, a: Any, b: Any, acc: Any = None, **_: Any) -> Dot:
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
