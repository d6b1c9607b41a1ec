"""Indices of arrays and shapes of tiles: steps of loops, places, and entries of index arrays."""

from __future__ import annotations

import ast
from typing import Any

from toprope.tile import rules
from toprope.tile.language import Param, TileError, i32
from toprope.tile.program import ONE, ByIndex, Index, Number, Value


class ArrayName:
    """A parameter's name inside the kernel."""

    def __init__(self, name: str, param: Param, atomic: bool = False) -> None:
        self.name, self.param, self.atomic = name, param, atomic


class Indexing:
    """What an index or a shape means. Expressions are read by the class that builds on this one."""

    def expression(self, node: ast.expr) -> Any:
        """A tile value, a Number, a tuple, an array, or a Python object."""
        raise NotImplementedError

    def error(self, node: ast.AST, message: str, cure: str) -> TileError:
        """An error at the user's line."""
        raise NotImplementedError

    def is_down(self, node: ast.Subscript) -> bool:
        """x[r, None]: the numbers of one axis as a column, one for each row."""
        parts = node.slice.elts if isinstance(node.slice, ast.Tuple) else []
        if not any(isinstance(p, ast.Constant) and p.value is None for p in parts):
            return False
        where = [self.expression(p) for p in parts[:-1]]
        last = parts[-1]
        steps = [i for i in where if isinstance(i, Index) and not i.unit]
        if isinstance(last, ast.Constant) and last.value is None and len(steps) == 1 and steps == where[-1:]:
            return True
        raise self.error(
            node, "None stands elsewhere than behind the one step of rows", "write x[r, None]: one number for each row"
        )

    def index(self, node: ast.Subscript, array: ArrayName) -> tuple[Index | ByIndex, ...]:
        """Where a tile lies: steps of loops, at most one of them replaced by the entries of an index array."""
        found = self.expression(node.slice)
        if isinstance(found, tuple) and found and found[-1] is None:  # x[r, None]
            found = found[:-1]
        where = tuple(map(self.entries, found if isinstance(found, tuple) else (found,)))
        if len(where) == len(array.param.dims) > 1:
            where = tuple(self.fixed(i, d.name) for i, d in zip(where, array.param.dims, strict=False))
        if not all(isinstance(i, Index | ByIndex) for i in where):
            raise self.error(
                node, f"{ast.unparse(node)}: an index is not a step of a tiles loop",
                "index with loop names, numbers beside them, or a tile of an int32 or int64 array as it was loaded (or times and plus constants)",
            )  # fmt: skip
        if len(where) != len(array.param.dims):
            raise self.error(
                node,
                f"{len(where)} indices for {len(array.param.dims)} dimensions of {array.name}",
                "one per dimension",
            )
        return where

    def entries(self, index: Any) -> Any:
        """A loaded tile of whole numbers used as an index stands for the entries of its array; constants may scale and shift them."""
        scale, shift = 1, 0
        while isinstance(index, Value) and index.op == "scalar" and index.number is not None and index.dtype == i32:
            if index.number.value is None or index.name not in ("add", "sub", "mul"):
                break
            constant = int(index.number.value)  # of a difference it is the negative
            scale, shift = (scale * constant, shift) if index.name == "mul" else (scale, shift + scale * constant)
            index = index.args[0]
        is_tile = (
            isinstance(index, Value) and index.op == "load" and index.dtype in rules.INDICES and not index.by_index
        )
        where = tuple(i for i in index.where if isinstance(i, Index)) if is_tile else ()
        return ByIndex(index.array, where, scale, shift) if is_tile else index

    def fixed(self, index: Any, extent: str) -> Any:
        """A whole number beside other indices is a place on its axis."""
        if isinstance(index, Number) and isinstance(index.value, int) and index.value >= 0:
            return Index(f"at{index.value}", Number(extent), 1, at=index.value)
        return index

    def axes_of(self, where: tuple[Index | ByIndex, ...]) -> tuple[str, str]:
        by = [i for i in where if isinstance(i, ByIndex)]
        if by:
            return self.axes_by_index(where, by)
        names = [i.name for i in where if not i.unit]
        if len(names) > 2:
            raise TileError(
                f"a tile of {len(names)} dimensions", cure="loop over the leading axes with tiles of size 1"
            )
        rows, columns = [ONE] * (2 - len(names)) + names
        return rows, columns

    def axes_by_index(self, where: tuple[Index | ByIndex, ...], by: list[ByIndex]) -> tuple[str, str]:
        """Elements have the axes of their index tile, rows its one axis and the columns they are cut to."""
        names = [i.name for i in by[0].where if not i.unit]
        steps = [i for i in where if isinstance(i, Index) and not i.unit]
        in_rows = steps == [where[-1]] and len(names) < 2
        if len(by) > 1 or len(names) > 2 or (steps and not in_rows):
            raise TileError(
                "more axes by index than a copy can follow",
                cure="write x[..., index] for elements or x[index, c] for pieces of rows; loop over the other axes with tiles of size 1",
            )
        names += [i.name for i in steps]
        rows, columns = [ONE] * (2 - len(names)) + names
        return rows, columns

    def shape(self, items: Any) -> tuple[str, str]:
        parts = items if isinstance(items, tuple) else (items,)
        axes = [
            ONE if isinstance(p, Number) and p.value == 1 else p.name if isinstance(p, Index) else "" for p in parts
        ]
        if "" in axes or len(axes) > 2:
            raise TileError(
                "a shape holds something else than loop names and 1",
                cure="write tile.zeros((r, 1)) or tile.full((i,), v)",
            )
        rows, columns = [ONE] * (2 - len(axes)) + axes
        return rows, columns


def show_axes(axes: tuple[str, str]) -> str:
    return f"({axes[0]}, {axes[1]})"
