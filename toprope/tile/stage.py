"""Hand-over between vector and cube: one part fills a stage in workspace, the other one reads it; between them all cores wait.

Vector to cube and cube to vector are written with tile.stage; vector work on a finished sum needs no stage of its own. (Chips with a
direct way between UB and the cube's memories could keep the stage there.)
"""

from __future__ import annotations

import ast
import copy
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from toprope.dtypes import Dtype
from toprope.tile.language import Builtin, Dim, Param, TileError, f32
from toprope.tile.program import Number
from toprope.tile.reader import Reader, Source


@dataclass(frozen=True)
class Parts:
    """The two halves of a staged kernel, as sources of their own, and what lies between them."""

    vector: Callable[[int], Source]  # of the rows that it takes at once
    product: Source
    name: str
    param: Param
    cube_first: bool
    rows: int


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

    def __init__(self, stage: str, rows: ast.Name) -> None:
        self.stage, self.rows = stage, rows

    def visit_Subscript(self, node: ast.Subscript) -> ast.AST:
        self.generic_visit(node)
        if isinstance(node.value, ast.Name) and node.value.id == self.stage and isinstance(node.slice, ast.Tuple):
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
    if len(targets) != 1 or len(stages) != 1 or not isinstance(stages[0].targets[0], ast.Name):
        raise _form(reader, outer)
    name, param = stages[0].targets[0].id, _param(reader, stages[0], pairs[0][0])
    rename = _RowsByIndex(name, targets[0])
    # The tree is this kernel's own, and renaming twice changes nothing: no need for (slow) copies of it.
    body = [rename.visit(s) for s in outer.body if s is not stages[0]]
    loops = [s for s in body if _multiplies(s)]
    at = body.index(loops[0]) if len(loops) == 1 else -1
    if at not in (0, len(body) - 1) or len(body) < 2 or not isinstance(body[at], ast.For):
        raise _form(reader, outer)
    product = _product_of(source, outer, body[at])
    rest = body[1:] if at == 0 else body[:-1]
    return Parts(
        lambda rows: _vector_of(source, outer, rest, rows), product, name, param, cube_first=at == 0, rows=pairs[0][1]
    )


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
    source, extents = reader.source, [extent.text for extent, _ in pairs]
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
    product = copy.copy(source)
    product.node = _function(source.node, f"{source.node.name}_product", [*source.node.body[:-1], loop])
    rest = [ast.fix_missing_locations(back), *outer.body[2:]]
    param = Param((Dim(extents[0]), Dim(extents[1])), f32, written=True)
    return Parts(
        lambda rows: _vector_of(source, outer, rest, rows), product, ws, param, cube_first=True, rows=pairs[0][1]
    )


def _vector_of(source: Source, outer: ast.For, body: list[ast.stmt], rows: int) -> Source:
    """The vector part as a kernel of its own, its outermost loop in pieces of `rows` rows."""
    assert isinstance(outer.iter, ast.Call)
    arguments = list(outer.iter.args)
    if isinstance(arguments[0], ast.Tuple):
        arguments[0] = ast.Tuple([arguments[0].elts[0], ast.Constant(rows)], ast.Load())
    else:
        arguments[1] = ast.Constant(rows)
    keywords = [k for k in outer.iter.keywords if k.arg != "swizzle"]  # the order of the product's tiles
    loop = copy.copy(outer)
    loop.body = body
    loop.iter = ast.fix_missing_locations(ast.copy_location(ast.Call(outer.iter.func, arguments, keywords), outer.iter))
    vector = copy.copy(source)
    vector.node = _function(source.node, f"{source.node.name}_rows", [*source.node.body[:-1], loop])
    return vector


def _product_of(source: Source, outer: ast.For, inner: ast.For) -> Source:
    """for i: for j: the product, as the loop over i and j that the cube has."""
    assert isinstance(outer.iter, ast.Call) and isinstance(inner.iter, ast.Call)
    pairs: list[ast.expr] = [ast.Tuple(list(outer.iter.args), ast.Load()), ast.Tuple(list(inner.iter.args), ast.Load())]
    target = ast.Tuple([outer.target, inner.target], ast.Store())
    loop = ast.For(target, ast.Call(outer.iter.func, pairs, inner.iter.keywords), inner.body, [])
    product = copy.copy(source)
    product.node = _function(
        source.node,
        f"{source.node.name}_product",
        [*source.node.body[:-1], ast.fix_missing_locations(ast.copy_location(loop, inner))],
    )
    return product


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


def _function(node: ast.FunctionDef, name: str, body: list[ast.stmt]) -> ast.FunctionDef:
    made = copy.copy(node)
    made.name, made.body = name, body
    return made


def _form(reader: Reader, node: ast.AST) -> TileError:
    return reader.error(
        node, "a kernel with stage has another form than vector work and a product, one after the other",
        "write: for i in tiles(M, BM): ...; h = tile.stage((i, K), type); for k in ...: h[:, k] = ...; for j in tiles(N, BN): the product (or the product first and vector work on h[:, c] behind it)",
    )  # fmt: skip
