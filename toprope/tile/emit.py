"""From a placed program to readable Ascend C: one class per variant, its regions as CopyIn, Compute and CopyOut."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from toprope.dtypes import Dtype
from toprope.tile import rules
from toprope.tile.emit_copies import Copies, clean
from toprope.tile.emit_text import (
    COLUMN_FOLD,
    FILL_PITCH,
    FILL_REPEAT,
    PACK,
    PACK_BY_OFFSET,
    ROW_REDUCE,
    SPREAD,
    columns_operation,
    rows_operation,
)  # fmt: skip
from toprope.tile.language import Dim
from toprope.tile.plan import Plan, loops, pitch_elements
from toprope.tile.program import ONE, Index, Loop, Number, Region, Value, arrays_of

_FOLDS = {"sum": "+", "max": ">", "min": "<"}
_RESERVED = {
    "pipe",
    "arena",
    "rows",
    "scratch",
    "steps",
    "task",
    "int",
    "float",
    "half",
    "auto",
    "for",
    "if",
    "this",
    "new",
}


def literal(number: Number, kind: Dtype) -> str:
    """A constant in an element type, exactly the float32 (or integer) that level A uses."""
    assert number.value is not None
    if numpy_is_integer(kind):
        return f"static_cast<{kind.cpp}>({int(number.value)})"
    value = float(np.float32(number.value))
    if value in (float("inf"), float("-inf")):
        text = f"{'-' if value < 0 else ''}__builtin_inff()"
    else:
        text = str(np.float32(value))
        text += ("" if "." in text or "e" in text else ".0") + "f"
    return text if kind.cpp == "float" else f"static_cast<{kind.cpp}>({text})"


def numpy_is_integer(kind: Dtype) -> bool:
    """Whether numbers of this type are exact."""
    return kind.numpy is not None and kind.numpy.kind == "i"


class ClassText(Copies):
    """Prints the class of one variant."""

    def __init__(
        self,
        plan: Plan,
        numbers: list[tuple[Number, bool]],
        functions: dict[str, str],
        *,
        beside_cube: bool,
        line_directives: bool,
    ) -> None:
        self.plan, self.program, self.numbers, self.directives = plan, plan.program, numbers, line_directives
        title = "".join(part.capitalize() for part in self.program.name.split("_"))
        self.name = f"Kernel{title}{'Resident' if self.program.resident else ''}"
        self.source = Path(self.program.file).name
        try:
            self.python = Path(self.program.file).read_text().splitlines()
        except OSError:
            self.python = []
        # On an AI core with a cube the block count is that of the AI cores, each with two vector cores.
        self.stride = "GetBlockNum() * GetTaskRation()" if beside_cube else "GetBlockNum()"
        self.used_text = functions  # of the whole file, by name
        self.regions = self.program.regions()
        self.pitch = pitch_elements(self.program)
        used = arrays_of(self.regions)
        self.params = {n: p for n, p in self.program.params.items() if n in used}

    # ---- the class ---------------------------------------------------------------------------------------------------

    def text(self) -> str:
        """The class as C++ text."""
        stages = "".join(self.stages(n, r) for n, r in enumerate(self.regions, 1))
        return (
            f"class {self.name} {{\npublic:\n{self.init()}\n{self.process()}\nprivate:\n{stages.rstrip()}\n"
            + self.members()
            + "};\n"
        )

    def init(self) -> str:
        """Init: sizes, global tensors, buffers."""
        dims = [d.name for d in self.dims()]
        arguments = [f"GM_ADDR {p}" for p in self.params] + [f"uint32_t {d}" for d in dims]
        arguments += [f"{'int32_t' if i else 'float'} number{n}" for n, (_, i) in enumerate(self.numbers)]
        lines = [f"    __aicore__ inline void Init({', '.join(arguments)}) {{"]
        lines += [f"        this->{d} = {d};" for d in dims]
        lines += [f"        this->number{n} = number{n};" for n in range(len(self.numbers))]
        for name, p in self.params.items():
            size = " * ".join(["static_cast<uint64_t>(" + p.dims[0].name + ")", *(d.name for d in p.dims[1:])])
            lines.append(f"        {name}Gm.SetGlobalBuffer((__gm__ {p.dtype.cpp}*){name}, {size});")
        for ring in self.plan.inputs + self.plan.outputs:
            lines.append(f"        pipe.InitBuffer({ring.name}, {ring.depth}, {ring.bytes});")
        for home, room in self.homes():
            lines.append(f"        pipe.InitBuffer({home}, {room});")
        if self.plan.steps_bytes:
            lines += [
                "        // Where the elements of a gather lie: one in each block of 32 bytes.",
                f"        CreateVecIndex(steps.Get<int32_t>(), 0, {self.plan.steps_bytes // 4});",
                f"        Muls(steps.Get<int32_t>(), steps.Get<int32_t>(), 32, {self.plan.steps_bytes // 4});",
            ]
        if self.plan.rows_bytes:
            lines.append(
                "        // Rows are handled eight at a time, also in a smaller last tile: no number may be undefined."
            )
            lines.append(f"        Duplicate(rows.Get<float>(), 0.0f, {self.plan.rows_bytes // 4});")
        return "\n".join([*lines, "    }\n"])

    def homes(self) -> list[tuple[str, int]]:
        """The TBufs and their bytes."""
        found = [("arena", self.plan.arena_bytes), ("rows", self.plan.rows_bytes), ("scratch", self.plan.scratch_bytes)]
        found.append(("steps", self.plan.steps_bytes))
        return [(h, b) for h, b in found if b]

    def dims(self) -> list[Dim]:
        """The dimensions of the signature and other whole-number arguments, each once."""
        found = [d for p in self.params.values() for d in p.dims] + [Dim(s) for s in self.program.scalars]
        return list({d.name: d for d in found}.values())

    def members(self) -> str:
        """The data members."""
        lines = ["\n    TPipe pipe;"]
        for ring in self.plan.inputs:
            lines.append(f"    TQue<TPosition::VECIN, {ring.depth}> {ring.name};")
        for ring in self.plan.outputs:
            lines.append(f"    TQue<TPosition::VECOUT, {ring.depth}> {ring.name};")
        if self.homes():
            lines.append(f"    TBuf<TPosition::VECCALC> {', '.join(h for h, _ in self.homes())};")
        for name, p in self.params.items():
            lines.append(f"    GlobalTensor<{p.dtype.cpp}> {name}Gm;")
        lines.append(f"    uint32_t {', '.join(f'{d.name} = 0' for d in self.dims())};")
        for k, (_, is_integer) in enumerate(self.numbers):
            lines.append(f"    {'int32_t' if is_integer else 'float'} number{k} = 0;")
        for i in self.program.indices.values():
            members = [f"{clean(i.name)}{part} = 0" for part in ("Begin", "Count", *self.derived(i))]
            lines.append(f"    uint32_t {', '.join(members)};")
        return "\n".join(lines) + "\n"

    def derived(self, i: Index) -> dict[str, str]:
        """What is kept beside begin and count: the padded width of columns, the lanes of one number per row."""
        values = [v for r in self.regions for v in r.loads + r.ops]
        count, found = f"{clean(i.name)}Count", {}
        if any(v.axes[1] == i.name for v in values):
            found["Width"] = f"({count} + {self.pitch - 1}) / {self.pitch} * {self.pitch}"
        if any(v.axes == (i.name, ONE) for v in values):
            found["Lanes"] = f"({count} + 15) / 16 * 16"
        return found

    # ---- loops -------------------------------------------------------------------------------------------------------

    def process(self) -> str:
        """Process: the outermost loop dealt out to the cores, inner loops as they were written; and At, the place of a task."""
        loop, begin = self.program.loop, ["    __aicore__ inline void Process() {"]
        counts = [
            f"        const uint32_t {clean(i.name)}Tiles = ({i.extent.text} + {i.size - 1}) / {i.size};"
            for i in loop.indices
        ]
        tasks = " * ".join(f"{clean(i.name)}Tiles" for i in loop.indices)
        begin += [*counts, f"        const uint32_t tasks = {tasks};"]
        begin += [self.step(i, "        ") for i in self.program.indices.values() if i.whole]
        if self.ahead():
            body = [
                "        if (GetBlockIdx() < tasks) {", "            At(GetBlockIdx());", "            CopyIn1();", "        }",
                f"        for (uint32_t task = GetBlockIdx(); task < tasks; task += {self.stride}) {{",
                f"            if (task + {self.stride} < tasks) {{  // the next tile comes in while this one is worked on",
                f"                At(task + {self.stride});", "                CopyIn1();", "            }", "            At(task);",
                *self.calls(loop.body, "            ")[1:],
            ]  # fmt: skip
        else:
            body = [
                f"        for (uint32_t task = GetBlockIdx(); task < tasks; task += {self.stride}) {{",
                "            At(task);",
                *self.calls(loop.body, "            "),
            ]
        place = "\n".join(["    __aicore__ inline void At(uint32_t task) {", *(counts[1:]), *self.begins(), "    }\n"])
        return "\n".join([*begin, *body, "        }", "    }\n", place])

    def ahead(self) -> bool:
        """Whether the next task's tiles can come in early: one region that has two buffers for them."""
        only = self.program.loop.body[0]
        return isinstance(only, Region) and len(self.program.loop.body) == 1 and bool(only.loads) and all(
            ring.depth > 1 for ring in self.plan.inputs
        )  # fmt: skip

    def begins(self) -> list[str]:
        """Where a task's tile begins on every axis, and its extents."""
        lines, rest, indices = [], "task", self.program.loop.indices
        for n, i in reversed(list(enumerate(indices))):
            here = rest if n == 0 else f"{rest} % {clean(i.name)}Tiles"
            lines += [f"        {clean(i.name)}Begin = {here} * {i.size};", self.step(i, "        ")]
            rest = f"{rest} / {clean(i.name)}Tiles"
        for i, leader in self.program.followers:
            lines.append(f"        {clean(i.name)}Begin = {clean(leader.name)}Begin / {leader.size} * {i.size};")
            lines.append(self.step(i, "        "))
        return lines

    def step(self, i: Index, indent: str) -> str:
        """Valid elements and padded width of one step."""
        n = clean(i.name)
        count = (
            i.extent.text
            if i.whole
            else f"{i.extent.text} - {n}Begin < {i.size} ? {i.extent.text} - {n}Begin : {i.size}"
        )
        return "\n".join(
            [f"{indent}{n}Count = {count};", *(f"{indent}{n}{k} = {t};" for k, t in self.derived(i).items())]
        )

    def calls(self, body: list[Loop | Region], indent: str) -> list[str]:
        """The stages of a body, loops nested."""
        lines: list[str] = []
        for node in body:
            if isinstance(node, Region):
                n = self.regions.index(node) + 1
                lines += [f"{indent}CopyIn{n}();"] if node.loads else []
                lines += [f"{indent}Compute{n}();"]
                lines += [f"{indent}CopyOut{n}();"] if node.stores else []
                continue
            deeper = indent
            for i in node.indices:
                c = clean(i.name)
                lines.append(f"{deeper}for ({c}Begin = 0; {c}Begin < {i.extent.text}; {c}Begin += {i.size}) {{")
                deeper += "    "
                lines.append(self.step(i, deeper))
            lines += self.calls(node.body, deeper)
            for _ in node.indices:
                deeper = deeper[:-4]
                lines.append(f"{deeper}}}")
        return lines

    # ---- stages ------------------------------------------------------------------------------------------------------

    def stages(self, n: int, region: Region) -> str:
        """CopyIn, Compute and CopyOut of one region."""
        self.names: dict[Value, str] = {}
        for v in region.loads + region.ops:
            self.naming(v)
        text = ""
        if region.loads:
            body = [line for v in region.loads for line in self.load(v)]
            text += function(f"CopyIn{n}", body)
        text += function(f"Compute{n}", self.compute(region))
        if region.stores:
            body = [line for k, s in enumerate(region.stores) for line in self.store(k, s)]
            text += function(f"CopyOut{n}", body)
        return text

    def naming(self, v: Value) -> str:
        """A C++ name for a value: its Python name where that is free."""
        if v not in self.names:
            spot = self.plan.places.get(v)
            if spot is not None and spot.alias is not None and not v.label:
                return self.names.setdefault(v, self.naming(spot.alias))
            taken = set(self.names.values())
            base = clean(v.label or (f"{v.array}Tile" if v.op == "load" else f"t{len(self.names) + 1}"))
            if base in _RESERVED or base in {clean(d.name) for d in self.dims()}:
                base += "Tile"
            name, k = base, 2
            while name in taken:
                name, k = f"{base}{k}", k + 1
            self.names[v] = name
        return self.names[v]

    def mark(self, line: int) -> list[str]:
        """A comment with the Python line, and in the compiled text a #line that makes tools point there."""
        text = self.python[line - 1].strip() if 0 < line <= len(self.python) else ""
        return [f"// {self.source}:{line}  {text}"] + (
            [f'#line {line} "{self.program.file}"'] if self.directives else []
        )

    def compute(self, region: Region) -> list[str]:
        """All vector work of a region between taking its inputs and handing over its outputs."""
        lines: list[str] = []
        for v in region.loads:
            home, name = self.plan.places[v].home, self.names[v]
            lines.append(f"LocalTensor<{v.dtype.cpp}> {name} = {home}.DeQue<{v.dtype.cpp}>();")
            if 32 * 8 // v.dtype.bits != self.pitch and not v.spread:
                self.used_text["FillPitch"] = FILL_PITCH
                lines.append(f"FillPitch({name}, {self.extent(v.axes[0])}, {self.extent(v.axes[1])}, {self.width(v)});")
        outputs = {s.value: k for k, s in enumerate(region.stores)}
        declared = {self.naming(v) for v in region.loads}
        last = 0
        for v in region.ops:
            if v.line != last:
                lines += self.mark(v.line)
                last = v.line
            for needed in [*v.args, *([v.target] if v.target else [])]:
                if self.naming(needed) not in declared:
                    lines.append(self.declare(needed))
                    declared.add(self.naming(needed))
            if v.op != "assign" and self.naming(v) not in declared:
                lines.append(
                    f"LocalTensor<{v.dtype.cpp}> {self.naming(v)} = out{outputs[v]}.AllocTensor<{v.dtype.cpp}>();"
                    if v in outputs else self.declare(v)
                )  # fmt: skip
                declared.add(self.naming(v))
            lines += self.operation(v)
        lines += [f"out{k}.EnQue({self.names[v]});" for v, k in outputs.items()]
        lines += [f"{self.plan.places[v].home}.FreeTensor({self.names[v]});" for v in region.loads]
        return lines

    def declare(self, v: Value) -> str:
        """The tensor of a value that lives in the arena, in a loop variable, or in place of a dead operand."""
        kind = "uint8_t" if v.op == "compare" else v.dtype.cpp
        if v.target is not None:
            name = self.names.get(v.target) or self.naming(v.target)
            return f"LocalTensor<{kind}> {self.naming(v)} = {name};"
        spot = self.plan.places[v]
        if spot.alias is not None:
            return f"LocalTensor<{kind}> {self.naming(v)} = {self.naming(spot.alias)};  // in place"
        count = spot.bytes if v.op == "compare" else spot.bytes * 8 // v.dtype.bits
        return f"LocalTensor<{kind}> {self.naming(v)} = {spot.home}.GetWithOffset<{kind}>({count}, {spot.offset});"

    # ---- one operation -----------------------------------------------------------------------------------------------

    def operation(self, v: Value) -> list[str]:
        """The instruction of one value."""
        d = self.naming(v.target) if v.op == "assign" and v.target else self.naming(v)
        a = [self.naming(x) for x in v.args]
        n = self.lanes(v)
        match v.op:
            case "binary":
                return [self.binary(v, d, a)]
            case "scalar":
                return [f"{rules.BINARY[v.name].with_scalar}({d}, {a[0]}, {self.number(v)}, {n});"]
            case "unary":
                return [f"{rules.UNARY[v.name].call}({d}, {a[0]}, {n});"]
            case "cast":
                mode = rules.CASTS[(v.args[0].dtype, v.dtype)]
                return [f"Cast({d}, {a[0]}, RoundMode::{mode}, {self.lanes(v)});"]
            case "full":
                return [f"Duplicate({d}, {self.number(v)}, {n});"]
            case "copy" | "assign":
                return [f"DataCopy({d}, {a[0]}, {self.lanes(v)});"]
            case "spread":
                self.used_text["Spread"] = SPREAD
                return [f"Spread({d}, {a[0]}, {self.lanes(v)});"]
            case "pack" | "gather":
                return [self.gathered(v, d, a)]
            case "reduce" if v.args[0].axes[1] == v.axes[1]:
                self.used_text["ColumnFold"] = COLUMN_FOLD
                x = v.args[0]
                return [f"ColumnFold<'{_FOLDS[v.name]}'>({d}, {a[0]}, {self.extent(x.axes[0])}, {self.width(x)});"]
            case "reduce":
                self.used_text["RowReduce"] = ROW_REDUCE
                x = v.args[0]
                flag = f"'{_FOLDS[v.name]}'"
                room = self.scratch(v, 0, self.plan.partial_bytes)
                return [
                    f"RowReduce<{flag}>({d}, {a[0]}, {room}, {self.extent(x.axes[0])}, {self.extent(x.axes[1])}, {self.width(x)});"
                ]
            case "compare":
                return self.compare(v, d, a)
        other = a[2] if len(a) == 3 else self.number(v)
        mode = "VSEL_TENSOR_TENSOR_MODE" if len(a) == 3 else "VSEL_TENSOR_SCALAR_MODE"
        return [f"Select({d}, {a[0]}, {a[1]}, {other}, SELMODE::{mode}, {self.lanes(v)});"]

    def gathered(self, v: Value, d: str, a: list[str]) -> str:
        """Elements side by side: out of the blocks they were copied to, or out of a tile by a tile of offsets."""
        rows, columns = self.extent(v.axes[0]), self.extent(v.axes[1])
        width = "16" if v.is_rows else self.width(v)
        if v.op == "pack":
            self.used_text["Pack"] = PACK
            return f"Pack({d}, {a[0]}, steps.Get<uint32_t>(), {rows}, {columns}, {width});"
        self.used_text["PackByOffset"] = PACK_BY_OFFSET
        return f"PackByOffset({d}, {a[0]}, {a[1]}, {columns}, {width});"

    def binary(self, v: Value, d: str, a: list[str]) -> str:
        call = rules.BINARY[v.name].call
        x, y = v.args
        if x.axes == y.axes:
            return f"{call}({d}, {a[0]}, {a[1]}, {self.lanes(v)});"
        swapped = x.axes != v.axes
        small = x if swapped else y
        by_rows = small.is_rows
        suffix = ("Before" if swapped else "") + ("Rows" if by_rows else "Columns")
        self.used_text[call + suffix] = (rows_operation if by_rows else columns_operation)(call, swapped)
        full, one = (a[1], a[0]) if swapped else (a[0], a[1])
        room = f"{self.scratch(v, self.plan.partial_bytes, self.plan.blocks_bytes)}, " if by_rows else ""
        return f"{call}{suffix}({d}, {full}, {one}, {room}{self.extent(v.axes[0])}, {self.width(v)});"

    def scratch(self, v: Value, offset: int, size: int) -> str:
        return f"scratch.GetWithOffset<{v.dtype.cpp}>({size * 8 // v.dtype.bits}, {offset})"

    def compare(self, v: Value, d: str, a: list[str]) -> list[str]:
        self.used_text["FillRepeat"] = FILL_REPEAT
        count = f"{d}Lanes"
        lines = [f"const uint32_t {count} = FillRepeat({a[0]}, {self.lanes(v)});"]
        if len(a) == 2 and a[1] != a[0]:
            lines.append(f"FillRepeat({a[1]}, {self.lanes(v)});")
        mode = f"CMPMODE::{rules.COMPARE[v.name].call}"
        if len(a) == 2:
            return [*lines, f"Compare({d}, {a[0]}, {a[1]}, {mode}, {count});"]
        return [*lines, f"CompareScalar({d}, {a[0]}, {self.number(v)}, {mode}, {count});"]

    def number(self, v: Value) -> str:
        assert v.number is not None
        if v.number.value is not None:
            return literal(v.number, v.dtype)
        return f"static_cast<{v.dtype.cpp}>(number{self.numbers.index((v.number, numpy_is_integer(v.dtype)))})"

    def lanes(self, v: Value) -> str:
        """Elements that an instruction over the whole value runs through, padding included."""
        if v.is_rows:
            return "16" if v.axes[0] == ONE else f"{clean(v.axes[0])}Lanes"
        return self.width(v) if v.axes[0] == ONE else f"{clean(v.axes[0])}Count * {self.width(v)}"


def function(name: str, body: list[str]) -> str:
    """A private member function."""
    lines = [line if line.startswith("#line") else f"        {line}" for line in body]
    return "\n".join([f"    __aicore__ inline void {name}() {{", *lines, "    }\n\n"])


def numbers_of(plans: list[Plan]) -> list[tuple[Number, bool]]:
    """Numbers that the host computes from the dimensions, in order of first use; True for integers."""
    found: dict[tuple[Number, bool], None] = {}
    for plan in plans:
        for region in plan.program.regions():
            for v in region.ops:
                if v.number is not None and v.number.value is None:
                    found[(v.number, numpy_is_integer(v.dtype))] = None
    return list(found)


def variants(plans: list[Plan], *, beside_cube: bool, line_directives: bool) -> tuple[str, str]:
    """The classes of all variants with the functions they share, and the statements that choose and run one."""
    numbers = numbers_of(plans)
    functions: dict[str, str] = {}
    classes = [
        ClassText(p, numbers, functions, beside_cube=beside_cube, line_directives=line_directives) for p in plans
    ]
    extra = [f"number{k}" for k in range(len(numbers))]

    def launch(c: ClassText, indent: str) -> str:
        call = ", ".join([*c.params, *(d.name for d in c.dims()), *extra])
        return f"{indent}{c.name} op;\n{indent}op.Init({call});\n{indent}op.Process();\n"

    if len(classes) == 2:
        inner = [i for lo in loops(classes[1].program)[1:] for i in lo.indices]
        fits = " && ".join(dict.fromkeys(f"{i.extent.text} <= {i.size}" for i in inner))
        small, large = launch(classes[0], "        "), launch(classes[1], "        ")
        body = f"    if ({fits}) {{  // every inner loop makes one trip\n{small}    }} else {{\n{large}    }}\n"
    else:
        body = launch(classes[0], "    ")
    texts = "\n".join(c.text() for c in classes)
    return "".join(f"{t.strip()}\n\n" for t in functions.values()) + texts, body


def head_text(name: str, file: str, sizes: dict[str, int], tiling_struct: str) -> str:
    """The first lines of an emitted file."""
    settings = "; " + ", ".join(f"{k} = {v}" for k, v in sizes.items()) if sizes else ""
    struct = f'#include "{name}_tiling.h"\n' if tiling_struct else ""
    return (
        f"// {name}: emitted from {Path(file).name} by toprope.tile{settings}.\n{struct}"
        '#include "kernel_operator.h"\n\nusing namespace AscendC;\n\n'
    )


def entry_text(
    name: str, arrays: list[str], between: list[str], fields: list[tuple[str, str]], body: str, cores: str, tiling_struct: str,
) -> str:  # fmt: skip
    """The entry: its scalars are arguments, or (in a project) come from the tiling struct, and what lies `between` from workspace."""
    parameters = [f"GM_ADDR {a}" for a in arrays]
    lines = [f"    KERNEL_TASK_TYPE_DEFAULT(KERNEL_TYPE_{cores});"]
    if tiling_struct:
        parameters += ["GM_ADDR workspace", "GM_ADDR tiling"]
        lines += [f"    REGISTER_TILING_DEFAULT({tiling_struct});", "    GET_TILING_DATA(tilingData, tiling);"]
        lines += [f"    const {kind} {field} = tilingData.{field};" for kind, field in fields]
        lines += [f"    GM_ADDR {array} = GetUserWorkspace(workspace);" for array in between]
    else:
        parameters += [f"GM_ADDR {array}" for array in between]
        parameters += [f"{kind} {field}" for kind, field in fields]
    text = "\n".join(lines)
    return f'extern "C" __global__ __aicore__ void {name}({", ".join(parameters)}) {{\n{text}\n{body}}}\n'
