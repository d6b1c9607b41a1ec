"""How tiles come in from global memory and go out again: by the steps of loops, or row by row and element by element where an array says."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from toprope.tile.language import TileError
from toprope.tile.plan import Plan
from toprope.tile.program import ONE, ByIndex, Index, Program, Store, Value, clean

MOST_ROWS = 4095  # DataCopyPad's blockCount


class Copies:
    """Prints CopyIn and CopyOut for the class of one variant."""

    plan: Plan
    program: Program
    names: dict[Value, str]
    pitch: int

    def mark(self, line: int) -> list[str]:
        """A comment with the Python line."""
        raise NotImplementedError

    def extent(self, axis: str) -> str:
        """Valid elements of this step on an axis."""
        return "1" if axis == ONE else f"{clean(axis)}Count"

    def width(self, v: Value) -> str:
        """Elements from one row of a tile to the next."""
        return f"{clean(v.axes[1])}Width"

    # ---- in ----------------------------------------------------------------------------------------------------------

    def load(self, v: Value) -> list[str]:
        """One tile from global memory into its input ring."""
        name, ring, kind = self.names[v], self.plan.places[v].home, v.dtype.cpp
        return [
            *self.mark(v.line),
            f"LocalTensor<{kind}> {name} = {ring}.AllocTensor<{kind}>();",
            *self.copy_in(name, v),
            f"{ring}.EnQue({name});",
        ]

    def copy_in(self, name: str, v: Value) -> list[str]:
        columns, size = self.extent(v.axes[1]), v.dtype.bits // 8
        per_block = 32 // size
        up = f"({columns} + {per_block - 1}) / {per_block} * {per_block}"
        pad = "DataCopyPadExtParams<{0}>{{true, 0, static_cast<uint8_t>({1}), static_cast<{0}>(0)}}"
        if v.spread:
            one = f"DataCopyExtParams{{1, {size}, 0, 0, 0}}, {pad.format(v.dtype.cpp, per_block - 1)}"
            return self.each(
                v.array, v.where, v, f"DataCopyPad({name}[{{at}} * {per_block}], {v.array}Gm[{{place}}], {one});"
            )
        if v.by_index:
            one = f"DataCopyExtParams{{1, {columns} * {size}, 0, 0, 0}}, {pad.format(v.dtype.cpp, f'{up} - {columns}')}"
            return self.each(v.array, v.where, v, f"DataCopyPad({name}[{{at}}], {v.array}Gm[{{place}}], {one});")
        gap = "0"
        if v.is_rows:  # one number per row, side by side
            return [
                f"DataCopyPad({name}, {v.array}Gm[{self.offset(v.where, v.array)}],",
                f"            DataCopyExtParams{{1, {self.extent(v.axes[0])} * {size}, 0, 0, 0}},",
                f"            {pad.format(v.dtype.cpp, f'({self.extent(v.axes[0])} + {per_block - 1}) / {per_block} * {per_block} - ' + self.extent(v.axes[0]))});",
            ]
        if v.axes[0] != ONE:
            self.limit_rows(v)
            gap = f"({self.row_stride(v.where, v.array)} - {columns}) * {size}"
        skip = "0" if per_block == self.pitch or v.axes[0] == ONE else f"({self.width(v)} - {up}) / {per_block}"
        return [
            f"DataCopyPad({name}, {v.array}Gm[{self.offset(v.where, v.array)}],",
            f"            DataCopyExtParams{{{self.row_count(v)}, {columns} * {size}, {gap}, {skip}, 0}},",
            f"            {pad.format(v.dtype.cpp, f'{up} - {columns}')});",
        ]

    def row_count(self, v: Value) -> str:
        return "1" if v.axes[0] == ONE else f"static_cast<uint16_t>({clean(v.axes[0])}Count)"

    def limit_rows(self, v: Value) -> None:
        if self.program.indices[v.axes[0]].size > MOST_ROWS:
            raise TileError(
                f"{self.program.file}:{v.line}: a tile of {self.program.indices[v.axes[0]].size} rows; one copy moves at most {MOST_ROWS}",
                cure="use smaller row tiles",
            )

    # ---- out ---------------------------------------------------------------------------------------------------------

    def store(self, k: int, s: Store) -> list[str]:
        """One tile out of its ring into global memory."""
        ring, kind, name = f"out{k}", s.value.dtype.cpp, f"{s.array}Tile{k}"
        lines = [*self.mark(s.line), f"LocalTensor<{kind}> {name} = {ring}.DeQue<{kind}>();"]
        lines += [f"SetAtomicAdd<{kind}>();"] if s.atomic else []
        lines += self.copy_out(name, s)
        lines += ["SetAtomicNone();"] if s.atomic else []
        return [*lines, f"{ring}.FreeTensor({name});"]

    def copy_out(self, name: str, s: Store) -> list[str]:
        v = s.value
        size, per_block = v.dtype.bits // 8, 32 // (v.dtype.bits // 8)
        rows, columns, gap, skip = self.row_count(v), self.extent(v.axes[1]), "0", "0"
        if v.op == "spread":
            one = f"DataCopyExtParams{{1, {size}, 0, 0, 0}}"
            return self.each(
                s.array, s.where, v, f"DataCopyPad({s.array}Gm[{{place}}], {name}[{{at}} * {per_block}], {one});"
            )
        if any(isinstance(i, ByIndex) for i in s.where):
            one = f"DataCopyExtParams{{1, {columns} * {size}, 0, 0, 0}}"
            return self.each(s.array, s.where, v, f"DataCopyPad({s.array}Gm[{{place}}], {name}[{{at}}], {one});")
        if v.is_rows:  # one number per row, side by side
            rows, columns = "1", self.extent(v.axes[0])
        elif v.axes[0] != ONE:
            self.limit_rows(v)
            gap = f"({self.row_stride(s.where, s.array)} - {columns}) * {size}"
            if per_block != self.pitch:
                skip = f"({self.width(v)} - ({columns} + {per_block - 1}) / {per_block} * {per_block}) / {per_block}"
        return [
            f"DataCopyPad({s.array}Gm[{self.offset(s.where, s.array)}], {name},",
            f"            DataCopyExtParams{{{rows}, {columns} * {size}, {skip}, {gap}, 0}});",
        ]

    # ---- places ------------------------------------------------------------------------------------------------------

    def each(self, array: str, where: Sequence[Index | ByIndex], v: Value, copy: str) -> list[str]:
        """A copy for each entry of the index tile; `at` and `place` in its text become the entry's lanes and its elements."""
        found = next(i for i in where if isinstance(i, ByIndex))
        steps = [i for i in found.where if not i.unit]
        lines, indent = [], ""
        for i in steps:
            lines.append(
                f"{indent}for (uint32_t {clean(i.name)}At = 0; {clean(i.name)}At < {clean(i.name)}Count; {clean(i.name)}At++) {{"
            )
            indent += "    "
        position = self.offset(
            found.where, found.array, {i: f"({clean(i.name)}Begin + {clean(i.name)}At)" for i in steps}
        )
        entry = f"{found.array}Gm.GetValue({position})"
        if (found.scale, found.shift) != (1, 0):
            entry = f"static_cast<int64_t>({entry})" + (f" * {found.scale}" if found.scale != 1 else "")
            entry += f" {'-' if found.shift < 0 else '+'} {abs(found.shift)}" if found.shift else ""
        lines.append(f"{indent}const uint64_t entry = static_cast<uint64_t>({entry});")
        at = " + ".join(f"{clean(i.name)}At" for i in steps) or "0"
        if len(steps) == 2:
            at = f"({clean(steps[0].name)}At * {self.width(v)} + {clean(steps[1].name)}At)"
        elif not isinstance(where[-1], ByIndex) and steps and not where[-1].unit:
            at = f"{at} * {self.width(v)}"
        place = self.offset(where, array, {found: "entry"})
        lines.append(indent + copy.replace("{at}", at).replace("{place}", place))
        for _ in steps:
            indent = indent[:-4]
            lines.append(f"{indent}}}")
        return lines

    def offset(
        self, where: Sequence[Index | ByIndex], array: str, begins: Mapping[Any, str] | None = None
    ) -> str:  # fmt: skip
        """The first element of a tile in its array."""
        begin = [(begins or {}).get(i) or self.begin_of(i) for i in where]
        strides = self.program.strides.get((array, tuple(where)))
        if strides is not None:
            wide = [f"static_cast<uint64_t>({b})" for b in begin]
            terms = [b if s == "1" else f"{b} * {s}" for b, s in zip(wide, strides, strict=False) if s != "0"]
            return " + ".join([*terms, strides[-1]] if strides[-1] != "0" or not terms else terms)
        text = f"static_cast<uint64_t>({begin[0]})"
        for b, d in zip(begin[1:], self.program.params[array].dims[1:], strict=True):
            text = f"({text} * {d.name} + {b})"
        return text

    def begin_of(self, i: Index | ByIndex) -> str:
        """Where a step begins, or the place that was written as a number."""
        return str(i.at) if isinstance(i, Index) and i.at is not None else f"{clean(i.name)}Begin"

    def row_stride(self, where: Sequence[Index | ByIndex], array: str) -> str:
        """Elements between two rows of a tile in its array."""
        at = next(n for n, i in enumerate(where) if not i.unit)
        if strides := self.program.strides.get((array, tuple(where))):
            return strides[at]
        return " * ".join(d.name for d in self.program.params[array].dims[at + 1 :])
