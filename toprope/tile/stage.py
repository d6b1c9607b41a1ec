"""Hand-over between vector and cube: a kernel's parts in order, the stages in workspace between them, and where each part's tiles lie.

A part is a product or the vector work before, between or behind products. Stages are written with tile.stage; vector work on a finished
sum needs none of its own. (Chips with a direct way between UB and the cube's memories could keep stages there.)
"""

from __future__ import annotations

import ast
import copy
from dataclasses import dataclass, field
from typing import Any

from toprope.dtypes import Dtype
from toprope.tile.language import Builtin, Dim, Param, TileError, f32
from toprope.tile.program import Number
from toprope.tile.reader import Cut, Reader, Source


@dataclass
class Parts:
    """A staged kernel taken apart: `order` names the kind of each part, and products come in the order of their "cube"."""

    source: Source
    outer: ast.For
    rows: int
    order: list[str] = field(default_factory=list)
    products: list[Source] = field(default_factory=list)
    vector_body: list[ast.stmt] = field(default_factory=list)
    stages: dict[str, Param] = field(default_factory=dict)

    def vector(self, rows: int) -> Source:
        """All vector parts as one kernel, cut where a product lies between, its outermost loop in pieces of `rows` rows."""
        call = self.outer.iter
        assert isinstance(call, ast.Call)
        arguments = list(call.args)
        if isinstance(arguments[0], ast.Tuple):
            arguments[0] = ast.Tuple([arguments[0].elts[0], ast.Constant(rows)], ast.Load())
        else:
            arguments[1] = ast.Constant(rows)
        keywords = [k for k in call.keywords if k.arg != "swizzle"]  # the order of the product's tiles
        loop = copy.copy(self.outer)
        loop.body = self.vector_body
        loop.iter = ast.fix_missing_locations(ast.copy_location(ast.Call(call.func, arguments, keywords), call))
        return self.kernel("rows", loop)

    def kernel(self, suffix: str, loop: ast.For) -> Source:
        """A kernel of its own with another loop."""
        made = copy.copy(self.source)
        made.node = copy.copy(self.source.node)
        made.node.name, made.node.body = f"{self.source.node.name}_{suffix}", [*self.source.node.body[:-1], loop]
        return made

    def add_product(self, loop: ast.For) -> None:
        """A product as the next part."""
        if self.order[-1:] == ["cube"]:
            self.vector_body.append(ast.copy_location(Cut(), loop))
        self.order.append("cube")
        number = str(len(self.products) + 1) if self.products else ""
        self.products.append(self.kernel(f"product{number}", loop))

    def add_vector(self, statement: ast.stmt) -> None:
        """A statement of vector work; the first one behind a product begins a part."""
        if self.order[-1:] != ["vector"]:
            if self.vector_body:
                self.vector_body.append(ast.copy_location(Cut(), statement))
            self.order.append("vector")
        self.vector_body.append(statement)


def is_staged(source: Source) -> bool:
    """Whether a kernel hands tiles over with tile.stage."""
    return any(isinstance(n, ast.Assign) and _is_stage(n.value) for n in ast.walk(source.node))


def _is_stage(node: ast.expr) -> bool:
    name = node.func.attr if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) else ""
    return isinstance(node, ast.Call) and (
        name == "stage" or (isinstance(node.func, ast.Name) and node.func.id == "stage")
    )


class _RowsByIndex(ast.NodeTransformer):
    """h[:, k] -> h[i, k]."""

    def __init__(self, stages: set[str], rows: ast.Name) -> None:
        self.stages, self.rows = stages, rows

    def visit_Subscript(self, node: ast.Subscript) -> ast.AST:
        self.generic_visit(node)
        if isinstance(node.value, ast.Name) and node.value.id in self.stages and isinstance(node.slice, ast.Tuple):
            first = node.slice.elts[0]
            if isinstance(first, ast.Slice) and first.lower is first.upper is first.step is None:
                node.slice.elts[0] = ast.copy_location(ast.Name(self.rows.id, ast.Load()), node)
        return node


def split(source: Source, params: dict[str, Param], constants: dict[str, Any]) -> Parts:
    """Cut a kernel where it changes from vector to cube or back. Raises TileError when it has another form."""
    reader = Reader(source, params, constants, resident=False)
    outer = source.node.body[-1]
    for statement in source.node.body[:-1]:
        reader.statement(statement)
    if not isinstance(outer, ast.For) or not isinstance(outer.iter, ast.Call):
        raise _form(reader, outer)
    reader.takes_swizzle = True
    targets, pairs, _ = reader.loop_header(outer)
    reader.takes_swizzle = False
    for target, (extent, size) in zip(targets, pairs, strict=True):
        reader.env[target.id] = reader.new_index(target.id, extent, size)
    if has_epilogue(source):
        return _after_sum(reader, outer, targets, pairs)
    stages = [s for s in outer.body if isinstance(s, ast.Assign) and _is_stage(s.value)]
    if len(targets) != 1 or not all(isinstance(s.targets[0], ast.Name) for s in stages):
        raise _form(reader, outer)
    parts = Parts(source, outer, pairs[0][1])
    parts.stages = {str(getattr(s.targets[0], "id", "")): _param(reader, s, pairs[0][0]) for s in stages}
    rename = _RowsByIndex(set(parts.stages), targets[0])
    # The tree is this kernel's own, and renaming twice changes nothing: no need for (slow) copies of it.
    for statement in [rename.visit(s) for s in outer.body if s not in stages]:
        if not _multiplies(statement):
            parts.add_vector(statement)
        elif isinstance(statement, ast.For):
            parts.add_product(_product_loop(outer, statement))
        else:
            raise _form(reader, statement)
    if len(parts.order) < 2 or "cube" not in parts.order or "vector" not in parts.order:
        raise _form(reader, outer)
    return parts


def has_epilogue(source: Source) -> bool:
    """Whether vector work follows a sum in the loop over tiles of the result: more than Fixpipe does on the way out."""
    outer = source.node.body[-1]
    if not isinstance(outer, ast.For) or not isinstance(outer.target, ast.Tuple) or len(outer.body) < 3:
        return False
    name, rest = outer.body[0], outer.body[2:]
    if not isinstance(name, ast.Assign) or not isinstance(name.targets[0], ast.Name) or not _multiplies(outer.body[1]):
        return False
    value = rest[0].value if len(rest) == 1 and isinstance(rest[0], ast.Assign) else None
    if isinstance(value, ast.Call) and isinstance(value.func, ast.Attribute) and value.func.attr == "to":
        value = value.func.value
    if isinstance(value, ast.Call) and ast.unparse(value.func).split(".")[-1] == "relu" and len(value.args) == 1:
        value = value.args[0]
    return not (isinstance(value, ast.Name) and value.id == name.targets[0].id)


def _multiplies(node: ast.AST) -> bool:
    return any(isinstance(n, ast.BinOp) and isinstance(n.op, ast.MatMult) for n in ast.walk(node))


def _after_sum(reader: Reader, outer: ast.For, targets: list[ast.Name], pairs: list[tuple[Number, int]]) -> Parts:
    """for i, j: the sum, then vector work on it: the sum goes through workspace as it is."""
    extents = [extent.text for extent, _ in pairs]
    if len(targets) != 2 or not all(e.isidentifier() for e in extents):
        raise _form(reader, outer)
    first = outer.body[0]
    assert isinstance(first, ast.Assign) and isinstance(first.targets[0], ast.Name)
    name = first.targets[0].id
    ws = f"{name}_sums"

    def place(context: ast.expr_context) -> ast.Subscript:
        index = ast.Tuple([ast.Name(t.id, ast.Load()) for t in targets], ast.Load())
        return ast.Subscript(ast.Name(ws, ast.Load()), index, context)

    out = ast.copy_location(ast.Assign([place(ast.Store())], ast.Name(name, ast.Load())), outer.body[2])
    back = ast.copy_location(ast.Assign([ast.Name(name, ast.Store())], place(ast.Load())), outer.body[2])
    loop = copy.copy(outer)
    loop.body = [*outer.body[:2], ast.fix_missing_locations(out)]
    parts = Parts(reader.source, outer, pairs[0][1])
    parts.stages = {ws: Param((Dim(extents[0]), Dim(extents[1])), f32, written=True)}
    parts.add_product(loop)
    for statement in (ast.fix_missing_locations(back), *outer.body[2:]):
        parts.add_vector(statement)
    return parts


def _product_loop(outer: ast.For, inner: ast.For) -> ast.For:
    """for i: for j: the product, as the loop over i and j that the cube has."""
    assert isinstance(outer.iter, ast.Call) and isinstance(inner.iter, ast.Call)
    pairs: list[ast.expr] = [ast.Tuple(list(outer.iter.args), ast.Load()), ast.Tuple(list(inner.iter.args), ast.Load())]
    target = ast.Tuple([outer.target, inner.target], ast.Store())
    loop = ast.For(target, ast.Call(outer.iter.func, pairs, inner.iter.keywords), inner.body, [])
    return ast.fix_missing_locations(ast.copy_location(loop, inner))


def _param(reader: Reader, node: ast.Assign, extent: Number) -> Param:
    """The workspace array behind stage((i, K), type)."""
    call = node.value
    assert isinstance(call, ast.Call)
    function = reader.expression(call.func)
    shape, kind = (reader.expression(a) for a in call.args[:2]) if len(call.args) == 2 else (None, None)
    if (
        not isinstance(function, Builtin)
        or not isinstance(shape, tuple)
        or len(shape) != 2
        or not isinstance(kind, Dtype)
    ):
        raise reader.error(node, "stage takes a shape and an element type", "write h = tile.stage((i, K), tile.f16)")
    if not isinstance(shape[1], Number) or not shape[1].text.isidentifier() or not extent.text.isidentifier():
        raise reader.error(
            node, "a stage has other extents than dimensions", "write h = tile.stage((i, K), tile.f16), K a dimension"
        )
    return Param((Dim(extent.text), Dim(shape[1].text)), kind, written=True)


def _form(reader: Reader, node: ast.AST) -> TileError:
    return reader.error(
        node, "a kernel with stage has another form than vector work and products, one after the other",
        "write: for i in tiles(M, BM): h = tile.stage((i, K), type); then vector loops that fill h[:, k] or read it, and products for j in tiles(N, BN): acc; for k: acc += h[:, k] @ w[k, j]; out[i, j] = acc",
    )  # fmt: skip
