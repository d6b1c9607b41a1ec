"""From a placed program to readable Ascend C: one class per variant, its regions as CopyIn, Compute and CopyOut."""

from __future__ import annotations

from pathlib import Path

from toprope.tile.amounts import Amount
from toprope.tile.emit_operations import Operations, elements, literal, numpy_is_integer
from toprope.tile.emit_text import FILL_PITCH, GROUP_ROWS
from toprope.tile.language import Dim, f32, i32
from toprope.tile.plan import Plan, names_of, pitch_elements
from toprope.tile.program import ONE, Index, Loop, Number, Region, Value, arrays_of, clean

__all__ = ["ClassText", "entry_text", "head_text", "literal", "numbers_of", "variants"]

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


class ClassText(Operations):
    """Prints the class of one variant."""

    def __init__(
        self,
        plan: Plan,
        numbers: list[tuple[Number, bool]],
        functions: dict[str, str],
        *,
        told: tuple[str, ...],
        parts: tuple[int, ...],
        line_directives: bool,
    ) -> None:
        self.plan, self.program, self.numbers, self.directives = plan, plan.program, numbers, line_directives
        self.told = told  # what the host chose
        title = "".join(part.capitalize() for part in self.program.name.split("_"))
        self.name = f"Kernel{title}{'Resident' if self.program.resident else ''}"
        self.source = Path(self.program.file).name
        try:
            self.python = Path(self.program.file).read_text().splitlines()
        except OSError:
            self.python = []
        self.parts = parts  # numbers of the vector parts among all parts of a kernel with products
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
            f"class {self.name} {{\npublic:\n{self.init()}\n{self.part_texts() if self.parts else self.process()}\nprivate:\n{stages.rstrip()}\n"
            + self.members()
            + "};\n"
        )

    def init(self) -> str:
        """Init: sizes, global tensors, buffers."""
        dims = [d.name for d in self.dims()]
        arguments = [f"GM_ADDR {p}" for p in self.params] + [f"uint32_t {d}" for d in dims]
        arguments += [f"{'int32_t' if i else 'float'} number{n}" for n, (_, i) in enumerate(self.numbers)]
        arguments += [f"uint32_t {f}" for f in self.told]
        lines = [f"    __aicore__ inline void Init({', '.join(arguments)}) {{"]
        lines += [f"        this->{d} = {d};" for d in dims]
        lines += [f"        this->{f} = {f};" for f in [*(f"number{n}" for n in range(len(self.numbers))), *self.told]]
        lines += [self.step(i, "        ") for i in self.program.indices.values() if i.whole]
        lines += self.sizes()
        for name, p in self.params.items():
            size = " * ".join(["static_cast<uint64_t>(" + p.dims[0].name + ")", *(d.name for d in p.dims[1:])])
            lines.append(f"        {name}Gm.SetGlobalBuffer((__gm__ {p.dtype.cpp}*){name}, {size});")
        for ring in self.plan.inputs + self.plan.outputs:
            lines.append(f"        pipe.InitBuffer({ring.name}, {self.depth(ring.depth)}, {ring.bytes.text});")
        for home, room in self.homes():
            up = "({} + 31) / 32 * 32" if home == "scratch" and room.names else "{}"
            lines.append(f"        pipe.InitBuffer({home}, {up.format(room.text)});")
        if self.plan.steps_bytes:
            count = elements(self.plan.steps_bytes, i32)
            lines += [
                "        // Where the elements of a gather lie: one in each block of 32 bytes.",
                f"        CreateVecIndex(steps.Get<int32_t>(), 0, {count});",
                f"        Muls(steps.Get<int32_t>(), steps.Get<int32_t>(), 32, {count});",
            ]
        if self.plan.rows_bytes:
            lines.append(
                "        // Rows are handled eight at a time, also in a smaller last tile: no number may be undefined."
            )
            lines.append(f"        Duplicate(rows.Get<float>(), 0.0f, {elements(self.plan.rows_bytes, f32)});")
        return "\n".join([*lines, "    }\n"])

    def sizes(self) -> list[str]:
        """What amounts hang on beside the padded widths."""
        used = self.used_names()
        found: list[str] = []
        for i in self.program.indices.values():
            names = names_of(i)
            for name, text in (
                (names.mask, f"({names.width} + 255) / 256 * 32"),
                (names.rows, f"({i.chosen} + 15) / 16 * 16"),
                (names.group, f"{i.chosen} < {GROUP_ROWS} ? {i.chosen} : {GROUP_ROWS}"),
            ):
                if name in used:
                    found.append(f"        {name} = {text};")
        return found

    def used_names(self) -> set[str]:
        """The names that some buffer hangs on."""
        amounts = [r.bytes for r in self.plan.inputs + self.plan.outputs] + [room for _, room in self.homes()]
        return {n for a in amounts for n in a.names} | {n for p in self.plan.places.values() for n in p.offset.names}

    def depth(self, depth: int) -> str:
        """How many buffers a ring has: one where the host found no room for more."""
        chosen = depth > 1 and "buffers" in self.told and self.program.resident
        return f"buffers == 1 ? 1 : {depth}" if chosen else str(depth)

    def homes(self) -> list[tuple[str, Amount]]:
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
        lines.append(f"    uint32_t {', '.join(f'{d} = 0' for d in [*(d.name for d in self.dims()), *self.told])};")
        for k, (_, is_integer) in enumerate(self.numbers):
            lines.append(f"    {'int32_t' if is_integer else 'float'} number{k} = 0;")
        for i in self.program.indices.values():
            parts = ["Begin", "Count", *self.derived(i)]
            kept = {names_of(i).mask, names_of(i).rows, names_of(i).group} & self.used_names()
            members = [f"{n} = 0" for n in [*(f"{clean(i.name)}{part}" for part in parts), *sorted(kept)]]
            lines.append(f"    uint32_t {', '.join(members)};")
        return "\n".join(lines) + "\n"

    def derived(self, i: Index) -> dict[str, str]:
        """What is kept beside begin and count: the padded width of columns, the lanes of one number per row."""
        values = [v for r in self.regions for v in r.loads + r.ops]
        count, found = f"{clean(i.name)}Count", {}
        if any(v.axes[1] == i.name for v in values) or names_of(i).width in self.used_names():
            found["Width"] = f"({count} + {self.pitch - 1}) / {self.pitch} * {self.pitch}"
        if any(v.axes == (i.name, ONE) for v in values):
            found["Lanes"] = f"({count} + 15) / 16 * 16"
        return found

    # ---- loops -------------------------------------------------------------------------------------------------------

    def process(self) -> str:
        """Process: the outermost loop dealt out to the cores, inner loops as they were written; and At, the place of a task."""
        loop, begin = self.program.loop, ["    __aicore__ inline void Process() {"]
        counts = [
            f"        const uint32_t {clean(i.name)}Tiles = ({i.extent.text} + {less_one(i)}) / {i.step};"
            for i in loop.indices
        ]
        tasks = " * ".join(f"{clean(i.name)}Tiles" for i in loop.indices)
        begin += [*counts, f"        const uint32_t tasks = {tasks};"]
        each = "        for (uint32_t task = GetBlockIdx(); task < tasks; task += GetBlockNum()) {"
        calls = self.calls(loop.body, "            ")
        come = ["                At(task + GetBlockNum());", "                CopyIn1();", "            }"]
        if not self.ahead():
            body = [each, "            At(task);", *calls]
        else:
            may_be_one = self.depth(2) != "2"
            body = [
                "        if (GetBlockIdx() < tasks) {", "            At(GetBlockIdx());", "            CopyIn1();", "        }", each,
                f"            const bool more = task + GetBlockNum() < tasks{', early = buffers > 1' if may_be_one else ''};",
                f"            if (more{' && early' if may_be_one else ''}) {{  // the next tile comes in while this one is worked on",
                *come, "            At(task);", *calls[1:],
                *(["            if (more && !early) {", *come] if may_be_one else []),
            ]  # fmt: skip
        place = "\n".join(["    __aicore__ inline void At(uint32_t task) {", *(counts[1:]), *self.begins(), "    }\n"])
        return "\n".join([*begin, *body, "        }", "    }\n", place])

    def part_texts(self) -> str:
        """One function for each vector part: it works on some rows of a task's tile, whose place the entry knows."""
        loop, texts = self.program.loop, []
        rows, others = loop.indices[0], loop.indices[1:]
        arguments = ", ".join(["uint32_t begin", "uint32_t end", *(f"uint32_t {clean(i.name)}At" for i in others)])
        for n, number in enumerate(self.parts):
            r = clean(rows.name)
            lines = [
                f"    // Part {number}, on rows [begin, end).",
                f"    __aicore__ inline void Part{number}({arguments}) {{",
            ]
            for i in others:
                lines += [f"        {clean(i.name)}Begin = {clean(i.name)}At;", self.step(i, "        ")]
            lines += [
                f"        for ({r}Begin = begin; {r}Begin < end; {r}Begin += {rows.size}) {{",
                self.step(rows, "            ", "end"),
                *self.calls([node for node in loop.body if node.part == n], "            "),
                "        }", "    }\n",
            ]  # fmt: skip
            texts.append("\n".join(lines))
        return "\n".join(texts)

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
            lines += [f"        {clean(i.name)}Begin = {here} * {i.step};", self.step(i, "        ")]
            rest = f"{rest} / {clean(i.name)}Tiles"
        for i, leader in self.program.followers:
            lines.append(f"        {clean(i.name)}Begin = {clean(leader.name)}Begin / {leader.size} * {i.size};")
            lines.append(self.step(i, "        "))
        return lines

    def step(self, i: Index, indent: str, end: str = "") -> str:
        """Valid elements and padded width of one step."""
        n, end = clean(i.name), end or i.extent.text
        count = end if i.whole else f"{end} - {n}Begin < {i.step} ? {end} - {n}Begin : {i.step}"
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
                lines.append(f"{deeper}for ({c}Begin = 0; {c}Begin < {i.extent.text}; {c}Begin += {i.step}) {{")
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
            if 32 * 8 // v.dtype.bits != self.pitch and not v.spread and not v.is_rows:
                self.used_text["FillPitch"] = FILL_PITCH
                lines.append(f"FillPitch({name}, {self.extent(v.axes[0])}, {self.extent(v.axes[1])}, {self.width(v)});")
            if v.is_rows and v.dtype.bits == 32:  # instructions on numbers per row run over whole sixteens
                self.used_text["FillPitch"] = FILL_PITCH
                lines.append(f"FillPitch({name}, 1, {self.extent(v.axes[0])}, {self.lanes(v)});")
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
        count = spot.bytes.text if v.op == "compare" else elements(spot.bytes, v.dtype)
        return f"LocalTensor<{kind}> {self.naming(v)} = {spot.home}.GetWithOffset<{kind}>({count}, {spot.offset.text});"


def less_one(i: Index) -> str:
    """A step's size less one, for rounding up."""
    return f"{i.chosen} - 1" if i.chosen else str(i.size - 1)


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


def variants(
    plans: list[Plan],
    *,
    told: tuple[str, ...] = (),
    parts: tuple[int, ...] = (),
    work: str = "op.Process();",
    line_directives: bool,
) -> tuple[str, str]:
    """The classes of all variants with the functions they share, and the statements that choose one and do its `work`."""
    numbers = numbers_of(plans)
    functions: dict[str, str] = {}
    classes = [ClassText(p, numbers, functions, told=told, parts=parts, line_directives=line_directives) for p in plans]
    extra = [*(f"number{k}" for k in range(len(numbers))), *told]

    def launch(c: ClassText, indent: str) -> str:
        call = ", ".join([*c.params, *(d.name for d in c.dims()), *extra])
        lines = [f"{c.name} op;", f"op.Init({call});", *work.splitlines()]
        return "".join(f"{indent}{line}\n" for line in lines)

    if len(classes) == 2:
        small, large = launch(classes[0], "        "), launch(classes[1], "        ")
        body = f"    if (buffers > 0) {{  // whole rows fit: every inner loop makes one trip\n{small}    }} else {{\n{large}    }}\n"
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
    name: str, arrays: list[str], between: dict[str, str], fields: list[tuple[str, str]], body: str, cores: str, tiling_struct: str,
) -> str:  # fmt: skip
    """The entry: its scalars are arguments, or (in a project) come from the tiling struct, and what lies `between` from its place in workspace."""
    parameters = [f"GM_ADDR {a}" for a in arrays]
    lines = [f"    KERNEL_TASK_TYPE_DEFAULT(KERNEL_TYPE_{cores});"]
    if tiling_struct:
        parameters += ["GM_ADDR workspace", "GM_ADDR tiling"]
        lines += [f"    REGISTER_TILING_DEFAULT({tiling_struct});", "    GET_TILING_DATA(tilingData, tiling);"]
        lines += [f"    const {kind} {field} = tilingData.{field};" for kind, field in fields]
        lines += [f"    GM_ADDR {array} = GetUserWorkspace(workspace){offset};" for array, offset in between.items()]
    else:
        parameters += [f"GM_ADDR {array}" for array in between]
        parameters += [f"{kind} {field}" for kind, field in fields]
    text = "\n".join(lines)
    return f'extern "C" __global__ __aicore__ void {name}({", ".join(parameters)}) {{\n{text}\n{body}}}\n'
