"""The source file of a kernel: fixed functions, a class with Init and Process, the entry."""

from __future__ import annotations

from pathlib import Path

from toprope.tile.emit import entry_text, head_text
from toprope.tile.form.nodes import Form
from toprope.tile.passes.instructions import Buffer, Declare, Instruction, Node, Program, Scope

_PRODUCT = """
// A product of operands and with a result in the unified buffer; the Matmul object carries them to the cube and back.
template <typename MM, typename TO, typename T>
__aicore__ inline void Multiply(MM& mm, const LocalTensor<TO>& to, const LocalTensor<T>& left, const LocalTensor<T>& right) {
    mm.SetTensorA(left);
    mm.SetTensorB(right);
    mm.IterateAll(to);
}
"""


def argument_type(name: str) -> str:
    """How the entry takes a scalar."""
    return "float" if name in ("float32", "float16", "bfloat16") else "int64_t"


def kernel_text(
    form: Form, program: Program, arena: int, room: int, stage: int, *, line_directives: bool, tiling_struct: str = ""
) -> str:
    """The file."""
    writer = _Writer(form, program, arena, room, stage, line_directives)
    return writer.file(tiling_struct)


class _Writer:
    def __init__(self, form: Form, program: Program, arena: int, room: int, stage: int, directives: bool) -> None:
        self.form, self.program, self.arena, self.room, self.stage, self.directives = (
            form,
            program,
            arena,
            room,
            stage,
            directives,
        )
        try:
            self.python = Path(form.file).read_text(errors="replace").splitlines()
        except OSError:
            self.python = []
        self.last = 0
        self.class_name = "Kernel" + "".join(p.capitalize() for p in form.name.split("_"))

    def file(self, tiling_struct: str) -> str:
        """All of it."""
        form, program = self.form, self.program
        if program.products:
            program.pieces[_PRODUCT] = _PRODUCT
        arrays = [a.name for a in form.arguments if a.is_array]
        scalars = [(argument_type(a.dtype.name), a.name) for a in form.arguments if not a.is_array]
        fields = [*((k, f"{n}Arg") for k, n in scalars), *(("int64_t", f"grid{n}") for n in range(3))]
        given = ", ".join(["&pipe", *(f"{n}Gm_" for n in arrays), *(n for _, n in fields)])
        body = f"    TPipe pipe;\n    {self.class_name} op;\n"
        for key, name in program.products.items():
            body += self.tiling(key, name)
        if program.products:
            objects = ", ".join(f"op.{n}, &{n}Tiling" for n in program.products.values())
            body += f"    REGIST_MATMUL_OBJ(&pipe, GetSysWorkSpacePtr(), {objects});\n"
        body += f"    op.Init({given});\n    op.Process();\n"
        if program.products:
            body += "".join(f"    op.{n}.End();\n" for n in program.products.values())
        cores = "MIX_AIC_1_2" if program.products else "AIV_ONLY"
        order = [f"{n}Gm_" for n in arrays]
        if tiling_struct:  # inputs before outputs; what is updated in place comes as both, which are one array
            inputs = [n for n in arrays if n in form.loaded or n not in form.stored]
            order = [f"{n}Before" if n in form.stored else f"{n}Gm_" for n in inputs] + [f"{n}Gm_" for n in form.stored]
        entry = entry_text(form.name, order, {}, fields, body, cores, tiling_struct)
        head = head_text(
            form.name, form.file, {k: v for k, v in form.constants.items() if isinstance(v, int)}, tiling_struct
        )
        if program.products:
            head = head.replace(
                '#include "kernel_operator.h"\n', '#include "kernel_operator.h"\n#include "lib/matmul_intf.h"\n'
            ).replace("using namespace AscendC;\n", "using namespace AscendC;\nusing namespace matmul;\n")
        pieces = "".join(f"{t.strip()}\n\n" for t in program.pieces)
        return head + pieces + self.class_text(arrays, fields) + "\n" + entry

    def tiling(self, key: tuple[object, ...], name: str) -> str:
        """The tiling struct of one product."""
        m, k, n, kind, _ = key
        bits = kind.bits  # type: ignore[attr-defined]
        base_m, base_n, base_k = base_blocks(int(m), int(k), int(n), bits)  # type: ignore[call-overload]
        values = {
            "usedCoreNum": 1,
            "M": m,
            "N": n,
            "Ka": k,
            "Kb": k,
            "singleCoreM": m,
            "singleCoreN": n,
            "singleCoreK": k,
            "baseM": base_m,
            "baseN": base_n,
            "baseK": base_k,
        }
        values |= dict.fromkeys(
            ("stepM", "stepN", "stepKa", "stepKb", "dbL0A", "dbL0B", "dbL0C", "depthA1", "depthB1"), 1
        )
        lines = "".join(f"    {name}Tiling.{f} = {v};\n" for f, v in values.items())
        return f"    TCubeTiling {name}Tiling;\n{lines}"

    def class_text(self, arrays: list[str], fields: list[tuple[str, str]]) -> str:
        """The class."""
        p = self.program
        parameters = ["TPipe* pipe", *(f"GM_ADDR {n}Address" for n in arrays), *(f"{k} {n}" for k, n in fields)]
        init = [f"        this->{n} = {n};" for _, n in fields]
        init += [
            f"        {view}.SetGlobalBuffer((__gm__ {kind.cpp}*){array}Address);"
            for (array, kind), view in p.views.items()
        ]
        homes = [("arena", self.arena), ("room", self.room), ("stage", self.stage)]
        homes = [(n, size) for n, size in homes if size and (n != "stage" or self.mentions("stage"))]
        init += [f"        pipe->InitBuffer({n}, {size});" for n, size in homes]
        if self.arena:
            init.append(
                "        // Whole repeats are compared, also where a tile ends before: no lane may be undefined."
            )
            init.append(f"        Duplicate(arena.Get<float>(), 0.0f, {self.arena // 4});")
        for b, text in p.fixed:
            init.append(f"        pipe->InitBuffer({b}Bytes, {b.bytes});")
            init.append(f"        {b} = {b}Bytes.Get<{b.dtype.cpp}>();")
            init += [
                f"        {line}" for line in text.replace("{0}", str(b)).replace("{1}", str(b.count)).splitlines()
            ]
        members = (
            [f"    TBuf<TPosition::VECCALC> {', '.join([*(n for n, _ in homes), *(f'{b}Bytes' for b, _ in p.fixed)])};"]
            if homes or p.fixed
            else []
        )
        members += [f"    LocalTensor<{b.dtype.cpp}> {b};" for b, _ in p.fixed]
        members += [f"    GlobalTensor<{kind.cpp}> {view};" for (_, kind), view in p.views.items()]
        members += [f"    {kind} {n} = 0;" for kind, n in fields]
        serial = self.form.serial
        share = [
            "        const int64_t steps = grid0 * grid1 * grid2, cores = GetBlockNum()" + (" * GetTaskRation()" if p.products else "") + ";",
            "        const int64_t each = (steps + cores - 1) / cores, begin = GetBlockIdx() * each;",
            "        const int64_t end = begin + each < steps ? begin + each : steps;",
            "        for (int64_t n = begin; n < end; n++) {",
        ] if not serial else [
            "        // Steps read what others' atomics left: they run in turn on one core.",
            "        if (GetBlockIdx() != 0) return;",
            "        for (int64_t n = 0; n < grid0 * grid1 * grid2; n++) {",
        ]  # fmt: skip
        lines = self.lines(p.body, "        ")
        return "\n".join([
            f"class {self.class_name} {{", "public:", f"    __aicore__ inline void Init({', '.join(parameters)}) {{", *init, "    }", "",
            "    __aicore__ inline void Process() {", *share, "            Step(n % grid0, n / grid0 % grid1, n / (grid0 * grid1));",
            "        }", "    }", "", *self.products(),
            "private:", "    __aicore__ inline void Step(int64_t pid0, int64_t pid1, int64_t pid2) {", *lines, "    }", "", *members, "};", "",
        ])  # fmt: skip

    def products(self) -> list[str]:
        """The Matmul objects."""
        found = []
        for (_, _, _, kind, result), name in self.program.products.items():
            a = f"MatmulType<TPosition::VECOUT, CubeFormat::ND, {kind.cpp}>"  # type: ignore[attr-defined]
            c = f"MatmulType<TPosition::VECIN, CubeFormat::ND, {result.cpp}>"  # type: ignore[attr-defined]
            found.append(f"    Matmul<{a}, {a}, {c}> {name};")
        return [*found, ""] if found else []

    def mentions(self, word: str) -> bool:
        """Whether some instruction has a word."""

        def go(block: list[Node]) -> bool:
            return any(
                f"{word}." in n.text
                if isinstance(n, Instruction)
                else go(n.body) or go(n.orelse or [])
                if isinstance(n, Scope)
                else False
                for n in block
            )

        return go(self.program.body)

    def lines(self, block: list[Node], indent: str) -> list[str]:
        """Instructions under the lines that they come from."""
        found: list[str] = []
        for n in block:
            line = n.buffer.line if isinstance(n, Declare) else n.line
            if line and line != self.last:
                self.last = line
                text = self.python[line - 1].strip().rstrip("\\") if 0 < line <= len(self.python) else ""
                found.append(f"{indent}// {Path(self.form.file).name}:{line}  {text}")
                if self.directives:
                    found.append(f'#line {line} "{self.form.file}"')
            if isinstance(n, Declare):
                b = n.buffer
                found.append(
                    f"{indent}LocalTensor<{b.dtype.cpp}> {b} = arena.GetWithOffset<{b.dtype.cpp}>({b.bytes * 8 // b.dtype.bits}, {b.offset});"
                )
            elif isinstance(n, Instruction):
                found += [indent + x for x in n.text.splitlines()]
            else:
                found.append(indent + n.head)
                found += self.lines(n.body, indent + "    ")
                if n.orelse:
                    found.append(f"{indent}}} else {{")
                    found += self.lines(n.orelse, indent + "    ")
                found.append(indent + "}")
        return found


def base_blocks(m: int, k: int, n: int, bits: int) -> tuple[int, int, int]:
    """Blocks that fit L0A and L0B (64 KiB) and L0C (128 KiB)."""

    def up(x: int, by: int) -> int:
        return -(-x // by) * by

    base_m, base_n, base_k = min(up(m, 16), 128), min(up(n, 16), 128), min(up(k, 32), 256)
    while base_m * base_k * bits // 8 > 32768 or base_n * base_k * bits // 8 > 32768:
        base_k //= 2
    return base_m, base_n, max(base_k, 16)


__all__ = ["Buffer", "kernel_text"]
