"""Hand-over from vector to cube: a kernel with tile.stage becomes a vector part that fills the stage and a product that reads it.

The stage lies in workspace; between the parts all cores wait for each other. (Chips with a direct way from UB to L1 could keep it there.)
"""

from __future__ import annotations

import ast
import copy
from dataclasses import dataclass
from typing import Any

from toprope.dtypes import Dtype
from toprope.tile.language import Builtin, Dim, Param, TileError
from toprope.tile.program import Number
from toprope.tile.reader import Reader, Source


@dataclass(frozen=True)
class Parts:
    """The two halves of a staged kernel, as sources of their own, and what lies between them."""

    vector: Source
    product: Source
    name: str
    param: Param


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
    """Cut a staged kernel at its last loop. Raises TileError when it has another form."""
    reader = Reader(source, params, constants, resident=False)
    outer = source.node.body[-1]
    for statement in source.node.body[:-1]:
        reader.statement(statement)
    if (
        not isinstance(outer, ast.For)
        or not isinstance(outer.target, ast.Name)
        or not isinstance(outer.body[-1], ast.For)
    ):
        raise _form(reader, outer)
    last = outer.body[-1]
    assert isinstance(last, ast.For)
    (rows,), ((extent, size),), _ = reader.loop_header(outer)
    reader.env[rows.id] = reader.new_index(rows.id, extent, size)
    stages = [s for s in outer.body if isinstance(s, ast.Assign) and _is_stage(s.value)]
    if (
        len(stages) != 1
        or not isinstance(stages[0].targets[0], ast.Name)
        or not isinstance(last.iter, ast.Call)
        or not isinstance(outer.iter, ast.Call)
    ):
        raise _form(reader, outer)
    name = stages[0].targets[0].id
    param = _param(reader, stages[0], extent)
    rename = _RowsByIndex(name, rows)
    vector, product = copy.copy(source), copy.copy(source)
    prelude = source.node.body[:-1]
    first = copy.copy(outer)
    # The tree is this kernel's own, and renaming twice changes nothing: no need for (slow) copies of it.
    first.body = [rename.visit(s) for s in outer.body[:-1] if s is not stages[0]]
    vector.node = _function(source.node, f"{source.node.name}_rows", [*prelude, first])
    pairs: list[ast.expr] = [ast.Tuple(list(outer.iter.args), ast.Load()), ast.Tuple(list(last.iter.args), ast.Load())]
    target = ast.Tuple([outer.target, last.target], ast.Store())
    second = ast.For(
        target,
        ast.Call(outer.iter.func, pairs, last.iter.keywords),
        [rename.visit(s) for s in last.body],
        [],
    )
    product.node = _function(
        source.node,
        f"{source.node.name}_product",
        [*prelude, ast.fix_missing_locations(ast.copy_location(second, last))],
    )
    return Parts(vector, product, name, param)


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
        node, "a kernel with stage has another form than vector work followed by a product",
        "write: for i in tiles(M, BM): ...; h = tile.stage((i, K), type); for k in ...: h[:, k] = ...; for j in tiles(N, BN): the product",
    )  # fmt: skip
