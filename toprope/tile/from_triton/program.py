"""A Triton function as a program that runs once for every step of the grid: placed, printed, and with its ledger."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from toprope.dtypes import Dtype
from toprope.soc import Soc
from toprope.tile.emit import entry_text, head_text
from toprope.tile.from_triton.memory import MemoryPrinter
from toprope.tile.from_triton.text import BITS, FILL_LANES, KEEP_LANES
from toprope.tile.from_triton.types import Scalar
from toprope.tile.from_triton.walk import Walker
from toprope.tile.from_triton.words import Words
from toprope.tile.language import Param, f32

RESERVED = {
    "pipe", "arena", "numbers", "partial", "blocks", "steps", "program", "int", "float", "half", "auto", "for", "if", "this", "new",
    "void", "bool", "true", "false", "return", "const", "class", "template", "Valid", "Sync", "Bits", "r", "k", "v", "id", "pid0", "pid1", "pid2",
    "grid0", "grid1", "grid2", "union", "register", "default", "switch", "case", "double", "char", "short", "long", "signed", "min", "max",
}  # fmt: skip


@dataclass(frozen=True)
class TritonProgram:
    """An emitted Triton function: for every program of the grid, its statements in order."""

    name: str
    file: str
    params: dict[str, Param]
    scalars: dict[str, type]
    sizes: dict[str, int]
    printer: MemoryPrinter

    @property
    def dims(self) -> list[str]:
        """Arguments behind the arrays, the grid last."""
        return [*self.scalars, "grid0", "grid1", "grid2"]

    @property
    def notes(self) -> list[str]:
        """What was read and has no effect here, with its line."""
        return [f"{self.file}:{line}: {text}" for text, line in self.printer.notes.items()]

    def values(self, dims: Mapping[str, Any]) -> list[float]:
        """Numbers of the host: none, the program computes with its arguments."""
        return []

    def blocks(self, dims: Mapping[str, Any], chip: Soc) -> int:
        """min(programs, cores)."""
        programs = int(dims["grid0"]) * int(dims["grid1"]) * int(dims["grid2"])
        return max(1, min(programs, int(chip.number("cores.aiv"))))

    # ---- bytes -------------------------------------------------------------------------------------------------------

    def buffers(self, depth: int) -> list[tuple[str, str, int]]:
        """(name, what, bytes) of everything in the unified buffer."""
        p = self.printer
        found = [(n, f"{depth} x {size}, {position}", depth * size) for n, position, size in p.out.rings()]
        found += [
            ("arena", "values between", p.out.bytes_of("arena")), ("numbers", "single numbers", p.out.bytes_of("numbers")),
            ("partial", "of reductions", -(-p.partial_bytes // 256) * 256), ("blocks", "of repeated numbers", p.blocks_bytes),
            ("steps", "places of spaced elements", -(-p.steps_lanes // 64) * 256),
        ]  # fmt: skip
        return [row for row in found if row[2]]

    def depth(self, chip: Soc) -> int:
        """Two buffers in every ring, or one where two do not fit."""
        capacity = int(chip.number("spaces.ub_bytes"))
        return 2 if sum(size for *_, size in self.buffers(2)) <= capacity else 1

    def over(self, chip: Soc) -> str:
        """What does not fit, or nothing."""
        total, capacity = sum(size for *_, size in self.buffers(1)), int(chip.number("spaces.ub_bytes"))
        return f"ub needs {total} of {capacity}" if total > capacity else ""

    def ledger(self, chip: Soc) -> str:
        """The bytes of every buffer, as a table with a bar."""
        capacity, rows = int(chip.number("spaces.ub_bytes")), self.buffers(self.depth(chip))
        lines = [f"{self.name}: unified buffer of {capacity} bytes"]
        lines += [
            f"  {n:<10}{what:<26}{size:>8}  {'#' * max(1, round(size * 40 / capacity))}" for n, what, size in rows
        ]
        total = sum(size for *_, size in rows)
        lines.append(f"  {'total':<36}{total:>8}  {100 * total / capacity:.0f} %")
        for s in self.printer.out.slots:
            if s.label and s.alias is None and s.first >= 0:
                where = f"{s.home}{s.ring}" if s.home in ("in", "out") else f"{s.home}+{s.offset}"
                lines.append(f"    {s.label:<12}line {s.line:<5}{s.dtype.name:<10}{where:<14}{s.bytes}")
        return "\n".join(lines)

    # ---- text --------------------------------------------------------------------------------------------------------

    def text(self, *, line_directives: bool, tiling_struct: str = "", chip: Soc | None = None) -> str:
        """The source file; with `tiling_struct` its entry takes workspace and tiling as an operator project's does."""
        depth = self.depth(chip) if chip is not None else 2
        functions = dict(self.printer.functions)
        if KEEP_LANES in functions:
            functions = {BITS: BITS, **functions}
        if FILL_LANES in functions:
            functions = {FILL_LANES: FILL_LANES, **functions}
        call = ", ".join([*self.params, *self.dims])
        body = f"    {self.class_name} op;\n    op.Init({call});\n    op.Process();\n"
        entry = entry_text(self.name, list(self.params), {}, self.fields(), body, "AIV_ONLY", tiling_struct)
        pieces = "".join(f"{t.strip()}\n\n" for t in functions.values())
        return (
            head_text(self.name, self.file, self.sizes, tiling_struct)
            + pieces
            + self.class_text(depth, line_directives)
            + "\n"
            + entry
        )

    @property
    def class_name(self) -> str:
        """The name of the kernel's class."""
        return "Kernel" + "".join(part.capitalize() for part in self.name.split("_"))

    def fields(self) -> list[tuple[str, str]]:
        """(C++ type, name) of the arguments behind the arrays."""
        scalars = [("float" if t is float else "int64_t", n) for n, t in self.scalars.items()]
        return [*scalars, *(("int64_t", f"grid{n}") for n in range(3))]

    def class_text(self, depth: int, directives: bool) -> str:
        """The class: Init, Process, and the program."""
        p, fields = self.printer, self.fields()
        homes = [(n, size) for n, _, size in self.buffers(depth) if not n.startswith(("in", "out"))]
        rings = p.out.rings()
        arguments = [f"GM_ADDR {n}" for n in self.params] + [f"{kind} {n}" for kind, n in fields]
        init = [f"        this->{n} = {n};" for _, n in fields]
        init += [f"        {n}Gm.SetGlobalBuffer((__gm__ {q.dtype.cpp}*){n});" for n, q in self.params.items()]
        init += [f"        pipe.InitBuffer({n}, {depth}, {size});" for n, _, size in rings]
        init += [f"        pipe.InitBuffer({n}, {size});" for n, size in homes]
        for n, size in homes:
            if n == "numbers":
                init.append("        // Eight numbers are repeated at once: none may be undefined.")
                init.append(f"        Duplicate(numbers.Get<float>(), 0.0f, {size // 4});")
            if n == "steps":
                init.append("        // Where spaced elements lie: one in each block of 32 bytes.")
                init.append(f"        CreateVecIndex(steps.Get<int32_t>(), 0, {size // 4});")
                init.append(f"        Muls(steps.Get<int32_t>(), steps.Get<int32_t>(), 32, {size // 4});")
        members = ["    TPipe pipe;"] + [f"    TQue<TPosition::{position}, {depth}> {n};" for n, position, _ in rings]
        members += [f"    TBuf<TPosition::VECCALC> {', '.join(n for n, _ in homes)};"] if homes else []
        members += [f"    GlobalTensor<{q.dtype.cpp}> {n}Gm;" for n, q in self.params.items()]
        members += [f"    {kind} {n} = 0;" for kind, n in fields]
        lines = p.out.text("        ", p.taken | RESERVED, lambda line: self.comment(line, directives))
        return "\n".join([
            f"class {self.class_name} {{", "public:", f"    __aicore__ inline void Init({', '.join(arguments)}) {{", *init, "    }", "",
            "    __aicore__ inline void Process() {",
            "        const int64_t programs = grid0 * grid1 * grid2;",
            "        for (int64_t n = GetBlockIdx(); n < programs; n += GetBlockNum()) Program(n % grid0, n / grid0 % grid1, n / (grid0 * grid1));",
            "    }", "", "private:", "    __aicore__ inline void Program(int64_t pid0, int64_t pid1, int64_t pid2) {", *lines, "    }", "",
            *members, "};", "",
        ])  # fmt: skip

    def comment(self, line: int, directives: bool) -> list[str]:
        """The source line, and in the compiled text a #line that makes tools point there."""
        try:
            python = Path(self.file).read_text().splitlines()
        except OSError:
            python = []
        text = python[line - 1].strip() if 0 < line <= len(python) else ""
        text = text.rstrip("\\")
        return [f"// {Path(self.file).name}:{line}  {text}"] + ([f'#line {line} "{self.file}"'] if directives else [])


def written_down(
    node: ast.FunctionDef, file: str, names: Any, arrays: dict[str, Dtype], scalars: dict[str, type], constants: dict[str, Any],
    ones: frozenset[str],
) -> TritonProgram:  # fmt: skip
    """Read a function for element types and constants. `names` gives the function's globals for given words. Raises TileError."""
    printer = MemoryPrinter()
    if any(kind.bits == 8 for kind in arrays.values()):
        printer.row_lanes = 32
    words = Words(printer)
    arguments: dict[str, Any] = {n: printer.pointer(n, kind) for n, kind in arrays.items()}
    for n, kind in scalars.items():
        arguments[n] = Scalar(words, f32, n) if kind is float else printer.whole("1" if n in ones else n)
    arguments |= constants
    printer.taken = {*arguments, *RESERVED}
    Walker(node, file, names(words), printer).walk(arguments)
    printer.out.place()
    sizes = {k: v for k, v in constants.items() if isinstance(v, int)}
    params = {n: Param((), kind, written=True) for n, kind in arrays.items()}
    return TritonProgram(node.name, file, params, scalars, sizes, printer)
