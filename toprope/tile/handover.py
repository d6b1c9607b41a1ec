"""The entry of a kernel on vector and cube cores: which part runs when, and the flags between a cube core and its two vector cores.

A task is a tile of rows (or a tile of the result). A kind of core that has several parts works on the next task's first one before it
waits for the last task's results, so both kinds have something to do all the time.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from toprope.tile.cube import Product
from toprope.tile.cube_text import order_text

AHEAD = 8  # tasks that cores which wait for nothing may be ahead: a flag counts to 15
_PIPES = {"cube": "PIPE_FIX", "vector": "PIPE_MTE3"}


@dataclass(frozen=True)
class Handover:
    """The order of parts, and the tiles that they share."""

    order: tuple[str, ...]
    products: tuple[Product, ...]
    tiled: bool  # tasks are tiles of the result, not of rows alone
    halves: bool  # the two vector cores share a task's rows

    def body(self, kind: str, declare: str, calls: Mapping[int, str]) -> str:
        """The statements of one kind of core; `calls` run a part, by its number, on rows [row, row + height) of a task."""
        p, places = self.products[0], [n for n, k in enumerate(self.order) if k == kind]
        tasks = "tilesM * tilesN" if self.tiled else "tilesM"
        m, n = p.rows, p.columns
        core = "GetBlockIdx()" if kind == "cube" else "GetBlockIdx() / GetTaskRation()"
        lines = [
            *declare.splitlines(),
            f"const uint32_t tilesM = ({m.extent.text} + {m.size - 1}) / {m.size}, first = {core};",
            *([f"const uint32_t tilesN = ({n.extent.text} + {n.size - 1}) / {n.size};"] if self.tiled else []),
            f"const uint32_t mine = first < {tasks} ? ({tasks} - first + GetBlockNum() - 1) / GetBlockNum() : 0;",
            f"for (uint32_t turn = 0; turn < mine{f' + {len(places) - 1}' if len(places) > 1 else ''}; turn++) {{",
        ]
        for late, number in enumerate(places):
            guard = f"turn >= {late} && turn - {late} < mine" if late else "turn < mine" if len(places) > 1 else ""
            inner = self.task(kind, late, number, calls[number])
            lines += (
                [f"    if ({guard}) {{", *(f"        {line}" for line in inner), "    }"]
                if guard
                else [f"    {line}" for line in inner]
            )
        return "\n".join([*lines, "}"])

    def task(self, kind: str, late: int, number: int, call: str) -> list[str]:
        """One part of one task, between its flags."""
        p, last = self.products[0], len(self.order) - 1
        lines = [f"const uint32_t task = first + {f'(turn - {late})' if late else 'turn'} * GetBlockNum();"]
        if self.tiled:
            lines += ["uint32_t row, column;", *order_text(p.swizzle, p.rows.step, p.columns.step)]
        else:
            lines.append(f"const uint32_t row = task * {p.rows.size};")
        extent = p.rows.extent.text
        if kind == "vector":
            lines.append(f"const uint32_t height = {extent} - row < {p.rows.size} ? {extent} - row : {p.rows.size};")
        if last == 1 and number == 0:
            lines.append(f"if (turn >= {AHEAD}) CrossCoreWaitFlag({last});  // not too far ahead")
        if number > 0:
            lines.append(f"CrossCoreWaitFlag({number - 1});")
        lines += call.replace("@n@", str(number)).splitlines()
        if number < last:
            lines.append(f"CrossCoreSetFlag<2, {_PIPES[kind]}>({number});")
        if last == 1 and number == 1:
            lines.append(f"if (turn + {AHEAD} < mine) CrossCoreSetFlag<2, {_PIPES[kind]}>({last});")
        return lines

    def vector_part(self) -> str:
        """The call of a vector part: one half of the rows for each of the two vector cores."""
        column = ", column" if self.tiled else ""
        if not self.halves:
            return f"if (GetSubBlockIdx() == 0) op.Part@n@(row, row + height{column});"
        return (
            "const uint32_t half = (height + 1) / 2, begin = GetSubBlockIdx() == 0 ? row : row + half;\n"
            f"op.Part@n@(begin, GetSubBlockIdx() == 0 ? row + half : row + height{column});"
        )

    def cube_bodies(self, names: Sequence[str]) -> dict[int, str]:
        """Part number -> the call of its product."""
        numbers = [n for n, k in enumerate(self.order) if k == "cube"]
        found: dict[int, str] = {}
        for number, name, p in zip(numbers, names, self.products, strict=True):
            extent, size = p.columns.extent.text, p.columns.size
            found[number] = (
                f"{name}.Tile(row, column);"
                if self.tiled
                else f"for (uint32_t column = 0; column < {extent}; column += {size}) {name}.Tile(row, column);"
            )
        return found
