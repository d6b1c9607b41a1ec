"""Matrix products: the accumulator form of a kernel, read and printed for the cube.

The form is one loop over tiles of the result, an accumulator, one loop over K that adds a product, and one store; cast and relu at the
exit are done by Fixpipe on the way out. Placement: operands L1 rings (ND to NZ on the way in), halves of L0A and L0B, sum in L0C.
"""

from __future__ import annotations

import ast
from dataclasses import dataclass
from typing import Any

from toprope.dtypes import Dtype
from toprope.soc import Soc
from toprope.tile import rules
from toprope.tile.language import Builtin, Param, bf16, f16, f32
from toprope.tile.program import Index
from toprope.tile.reader import Reader, Source

RESULTS = (f32, f16, bf16)
L1_BYTES = 524288  # of every chip with cube and vector cores side by side


@dataclass(frozen=True)
class Operand:
    """a[i, k], or b[j, k].T."""

    array: str
    where: tuple[Index, ...]
    transposed: bool


@dataclass(frozen=True)
class Product:
    """A matrix-product kernel for fixed tile sizes. `swizzle`: rows of tiles in a band, 0 where the host chooses."""

    name: str
    file: str
    params: dict[str, Param]
    rows: Index
    columns: Index
    steps: Index
    left: Operand
    right: Operand
    result: str
    relu: bool
    swizzle: int
    lines: dict[str, int]
    sizes: dict[str, int]
    bias: str = ""
    most_steps: int = 4  # of K that one copy may bring into L1

    @property
    def kind(self) -> Dtype:
        """The operands' element type."""
        return self.params[self.left.array].dtype

    def ledger_bytes(self) -> dict[str, int]:
        """Bytes of each memory: two buffers of every operand tile, one sum."""
        m, n, k = (-(-i.size // 16) * 16 for i in (self.rows, self.columns, self.steps))
        bias, l1 = n * 4 if self.bias else 0, 2 * (m + n) * k * 2 * self.packet
        found = {"l1": l1 + bias, "l0a": 2 * m * k * 2, "l0b": 2 * n * k * 2, "l0c": m * n * 4}
        return {**found, "bias": bias} if bias else found

    @property
    def packet(self) -> int:
        """Steps of K that one copy brings into L1: fewer, longer copies, as far as two buffers fit. Whole fractals only."""
        m, n = (-(-i.size // 16) * 16 for i in (self.rows, self.columns))
        room = (L1_BYTES - n * 4) // (2 * (m + n) * self.steps.size * 2)
        return max(1, min(self.most_steps, room)) if self.steps.size % 16 == 0 else 1

    def over(self, soc: Soc) -> list[str]:
        """Memories that are too small on this chip."""
        return [
            f"{m} needs {b} of {int(soc.number(f'spaces.{m}_bytes'))}"
            for m, b in self.ledger_bytes().items()
            if b > soc.number(f"spaces.{m}_bytes")
        ]

    def ledger(self, soc: Soc) -> str:
        """The bytes as a table with bars."""
        lines = [f"{self.name}: sums {self.rows.size} x {self.columns.size} in L0C, K in steps of {self.steps.size}"]
        for memory, used in self.ledger_bytes().items():
            have = int(soc.number(f"spaces.{memory}_bytes"))
            lines.append(f"  {memory:<5}{used:>8} of {have:>8}  {'#' * round(40 * used / have)}")
        return "\n".join(lines)


def is_product(source: Source) -> bool:
    """Whether a kernel works on the cube: it multiplies with @."""
    return any(isinstance(n, ast.BinOp) and isinstance(n.op, ast.MatMult) for n in ast.walk(source.node))


class ProductReader(Reader):
    """Reads the accumulator form; anything else that contains @ is refused at its line."""

    def product(self) -> Product:
        """The kernel as a Product. Raises TileError."""
        body = [s for s in self.source.node.body if not (isinstance(s, ast.Expr) and isinstance(s.value, ast.Constant))]
        for statement in body[:-1]:
            self.statement(statement)
        outer = body[-1]
        if not isinstance(outer, ast.For):
            raise self.form(outer)
        self.takes_swizzle = True
        targets, pairs, options = self.loop_header(outer)
        self.takes_swizzle = False
        statements = outer.body
        if len(targets) != 2 or len(statements) != 3 or not isinstance(statements[1], ast.For):
            raise self.form(outer)
        # Sums are the same in tiles of any rows and columns: where both sizes are open, the host chooses them.
        is_open = all(self.open_size(e) for e in self.size_nodes(outer)) and all(size % 16 == 0 for _, size in pairs)
        rows, columns = (
            self.new_index(t.id, e, s, chosen=f"{t.id}Tile" if is_open else "")
            for t, (e, s) in zip(targets, pairs, strict=True)
        )
        self.env |= {targets[0].id: rows, targets[1].id: columns}
        name, bias = self.accumulator(statements[0], columns)
        inner = statements[1]
        (target,), ((extent, size),), _ = self.loop_header(inner)
        steps = self.new_index(target.id, extent, size)
        self.env[target.id] = steps
        left, right = self.sum(inner.body, name)
        result, relu = self.exit(statements[2], name, (rows, columns))
        self.check(inner, left, right, (rows, columns, steps))
        lines = {
            "loop": outer.lineno,
            "acc": statements[0].lineno,
            "sum": inner.body[0].lineno,
            "store": statements[2].lineno,
        }
        return Product(
            self.source.node.name, self.source.file, self.params, rows, columns, steps, left, right, result, relu,
            options.get("swizzle", 0), lines, self.sizes, bias,
        )  # fmt: skip

    def form(self, node: ast.AST) -> Exception:
        return self.error(
            node, "a kernel with @ has another form than the cube's",
            "write: for i, j in tiles((M, BM), (N, BN)): acc = tile.acc((i, j)); for k in tiles(K, BK): acc = acc + a[i, k] @ b[k, j]; c[i, j] = acc.to(type)",
        )  # fmt: skip

    def accumulator(self, node: ast.stmt, columns: Index) -> tuple[str, str]:
        """The name of acc((i, j)), and the array of acc((i, j), bias=b[j]) or nothing."""
        match node:
            case ast.Assign(targets=[ast.Name(id=name)], value=ast.Call(func=f, keywords=k)) if self.is_builtin(
                f, "acc"
            ):
                return name, self.bias(k[0], columns) if k else ""
        raise self.form(node)

    def bias(self, node: ast.keyword, columns: Index) -> str:
        """The float32 array that sums start with, through the bias table."""
        if node.arg == "bias" and isinstance(node.value, ast.Subscript):
            array: Any = self.expression(node.value.value)
            if self.index(node.value, array) == (columns,) and array.param.dtype == f32:
                return str(array.name)
        raise self.error(
            node.value, "an accumulator starts with something else than a row of float32",
            'write tile.acc((i, j), bias=b[j]) with b: In["N", tile.f32]',
        )  # fmt: skip

    def is_builtin(self, node: ast.expr, name: str) -> bool:
        found = self.expression(node) if isinstance(node, ast.Attribute | ast.Name) else None
        return isinstance(found, Builtin) and found.name == name

    def sum(self, body: list[ast.stmt], name: str) -> tuple[Operand, Operand]:
        """The operands of acc = acc + a @ b (or acc += a @ b)."""
        match body:
            case [
                ast.Assign(targets=[ast.Name(id=t)], value=ast.BinOp(left=ast.Name(id=s), op=ast.Add(), right=product))
            ] if t == s == name:
                pass
            case [ast.AugAssign(target=ast.Name(id=t), op=ast.Add(), value=product)] if t == name:
                pass
            case _:
                raise self.form(body[0])
        if not isinstance(product, ast.BinOp) or not isinstance(product.op, ast.MatMult):
            raise self.form(product)
        return self.operand(product.left), self.operand(product.right)

    def operand(self, node: ast.expr) -> Operand:
        transposed = isinstance(node, ast.Attribute) and node.attr == "T"
        load = node.value if isinstance(node, ast.Attribute) and transposed else node
        if not isinstance(load, ast.Subscript):
            raise self.error(
                node, "an operand of @ is not a loaded tile", "multiply tiles of In arrays: a[i, k] @ b[k, j]"
            )
        array: Any = self.expression(load.value)
        found = self.index(load, array)
        where = tuple(i for i in found if isinstance(i, Index))
        if len(where) < len(found):
            raise self.error(node, "an operand of @ by index", "gather its rows into an array of their own first")
        with self.at(node):
            rules.require("@", rules.PRODUCTS, array.param.dtype)
        return Operand(array.name, where, transposed)

    def exit(self, node: ast.stmt, name: str, where: tuple[Index, Index]) -> tuple[str, bool]:
        """The array that receives the sum, and whether relu is applied."""
        if not (isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Subscript)):
            raise self.form(node)
        target, value, kind, relu = node.targets[0], node.value, f32, False
        array: Any = self.expression(target.value)
        if isinstance(value, ast.Call) and isinstance(value.func, ast.Attribute) and value.func.attr == "to":
            kind, value = self.expression(value.args[0]), value.func.value
        if isinstance(value, ast.Call) and self.is_builtin(value.func, "relu"):
            relu, value = True, value.args[0]
        if not isinstance(value, ast.Name) or value.id != name or self.index(target, array) != where:
            raise self.error(
                node,
                "the sum leaves by another way than Fixpipe offers",
                "store acc, acc.to(type) or tile.relu(acc).to(type) at [i, j]",
            )
        if kind != array.param.dtype or kind not in RESULTS or not array.param.written:
            raise self.error(
                node,
                f"a {kind.name} sum is stored into a {array.param.dtype.name} array",
                "add .to(type of the Out array)",
            )
        return array.name, relu

    def check(self, node: ast.AST, left: Operand, right: Operand, axes: tuple[Index, Index, Index]) -> None:
        rows, columns, steps = axes
        wanted = (steps, columns) if not right.transposed else (columns, steps)
        if left.where != ((steps, rows) if left.transposed else (rows, steps)) or right.where != wanted:
            raise self.error(
                node,
                "the operands' indices do not form a product",
                "write a[i, k] @ b[k, j], with a[k, i].T or b[j, k].T for operands that lie transposed",
            )
        if self.params[left.array].dtype != self.params[right.array].dtype:
            raise self.error(node, "the operands have two element types", "give both the same In[...] type")
