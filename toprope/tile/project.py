"""The files of an operator project made from a tile kernel: kernel, tiling struct, and the host's tiling, shapes and definition."""

from __future__ import annotations

import re
from typing import Any

from toprope.kernel import DEFAULT_SOC
from toprope.tile.choice import CPP_FUNCTIONS, CPP_TILES
from toprope.tile.kernel import TileKernel
from toprope.tile.language import Param, TileError
from toprope.tile.lowering import Lowered, workspace_bytes
from toprope.tile.program import ByIndex

_GE_TYPES = {
    "float32": "DT_FLOAT",
    "float16": "DT_FLOAT16",
    "bfloat16": "DT_BF16",
    "int32": "DT_INT32",
    "int16": "DT_INT16",
    "int8": "DT_INT8",
    "int64": "DT_INT64",
}


def project_files(kernel: TileKernel, soc: str = DEFAULT_SOC, **options: Any) -> dict[str, str]:
    """Path in the project -> text. Raises TileError when a dimension stands in no input (the host could not know it)."""
    lowered = kernel.emit(soc, **options).lowered
    host = _Host(kernel, lowered)
    return {
        f"op_kernel/{kernel.name}_tiling.h": _tiling_header(host.type, lowered.fields),
        f"op_kernel/{kernel.name}.cpp": lowered.text(line_directives=False, tiling_struct=f"{host.type}TilingData"),
        f"op_host/{kernel.name}.cpp": host.text(),
    }


def index_bounds(kernel: TileKernel) -> dict[str, str]:
    """Arrays whose entries are indices -> the dimension that they index."""
    found: dict[str, str] = {}
    own = {text: name for name, text in kernel.renamed.names.items()}
    for plan in kernel.lowered().plans:
        for region in plan.program.regions():
            for array, where in [(v.array, v.where) for v in region.loads] + [
                (s.array, s.where) for s in region.stores
            ]:
                dims = plan.program.params[array].dims
                found |= {
                    own.get(i.array, i.array): own.get(d.name, d.name) for i, d in zip(where, dims, strict=True) if isinstance(i, ByIndex)
                }  # fmt: skip
    return found


def _tiling_header(type_name: str, fields: list[tuple[str, str]]) -> str:
    body = "".join(f"    {kind} {name};\n" for kind, name in fields)
    return f"// What the host tells the kernel: the extents, the numbers that hang on them, and the sizes that it chooses.\n#pragma once\n\n#include <cstdint>\n\nstruct {type_name}TilingData {{\n{body}}};\n"


class _Host:
    """The host file of one kernel."""

    def __init__(self, kernel: TileKernel, lowered: Lowered) -> None:
        self.dims = [kernel.renamed.here(d) for d in kernel.dims]
        self.kernel, self.indices, self.cube = kernel, lowered.task_indices, lowered.product is not None
        self.choice = lowered.choice
        self.numbers, self.between = [n.text for n, _ in lowered.numbers], list((lowered.workspace or {}).values())
        stores = [s for plan in lowered.plans for r in plan.program.regions() for s in r.stores]
        self.added = {s.array for s in stores if s.atomic}
        self.type = "".join(part.capitalize() for part in kernel.name.split("_"))
        self.inputs = {n: p for n, p in kernel.renamed.params.items() if not p.written}
        self.outputs = {n: p for n, p in kernel.renamed.params.items() if p.written}

    def home_of(self, dim: str) -> tuple[int, int]:
        """The input and axis that a dimension is read from."""
        for position, p in enumerate(self.inputs.values()):
            for axis, d in enumerate(p.dims):
                if d.name == dim:
                    return position, axis
        raise TileError(
            f"dimension {dim} of {self.kernel.name} is in no input",
            cure="give an In array that dimension; the host reads shapes of inputs",
        )

    def extent(self, expression: str) -> str:
        """A dimension expression over the tiling struct."""
        return re.sub(r"\b[A-Za-z_]\w*\b", lambda m: f"tiling->{m[0]}" if m[0] in self.dims else m[0], expression)

    def number(self, expression: str) -> str:
        """A number over dimensions, in double as Python computes it."""
        text = re.sub(
            r"\b\w+\b",
            lambda m: f"static_cast<double>(tiling->{m[0]})" if m[0] in self.dims else m[0],
            expression,
        )
        return text.replace("reciprocal(", "1.0f / static_cast<float>(")

    def text(self) -> str:
        """The file."""
        dims = "".join(
            f"    tiling->{d} = static_cast<uint32_t>(context->GetInputShape({self.home_of(d)[0]})->GetStorageShape().GetDim({self.home_of(d)[1]}));\n"
            for d in self.dims
        )
        numbers = "".join(f"    tiling->number{k} = {self.number(n)};\n" for k, n in enumerate(self.numbers))
        told = self.choice.fields if self.choice else ()
        step = {i.name: f"tiling->{i.chosen}" if i.chosen in told else str(i.size) for i in self.indices}
        tasks = " * ".join(
            f"(({self.extent(i.extent.text)} + {step[i.name]} - 1) / {step[i.name]})"
            if i.chosen in told
            else f"(({self.extent(i.extent.text)} + {i.size - 1}) / {i.size})"
            for i in self.indices
        )
        rooms = [workspace_bytes(p, "tiling->") for p in self.between]
        room = " + ".join(["platform.GetLibApiWorkSpaceSize()", *rooms]) if rooms else "0"
        core = "Aic" if self.cube else "Aiv"
        return (
            f"// Host side of {self.type}: how a launch is cut, which shapes come out, what the operator is.\n"
            f'#include <algorithm>\n\n#include "../op_kernel/{self.kernel.name}_tiling.h"\n#include "register/op_def_registry.h"\n'
            '#include "tiling/platform/platform_ascendc.h"\n\nnamespace optiling {\n'
            f"{CPP_FUNCTIONS if self.choice else ''}{CPP_TILES if self.mentions('tileRows') else ''}"
            "static ge::graphStatus TilingFunc(gert::TilingContext* context) {\n"
            "    const auto platform = platform_ascendc::PlatformAscendC(context->GetPlatformInfo());\n"
            f"    auto* tiling = context->GetTilingData<{self.type}TilingData>();\n{dims}{numbers}{self.chosen()}"
            f"    const uint32_t tasks = {tasks};\n"
            f"    context->SetBlockDim(std::max(1u, std::min(tasks, platform.GetCoreNum{core}())));\n"
            f"    context->GetWorkspaceSizes(1)[0] = {room};\n    return ge::GRAPH_SUCCESS;\n}}\n}}  // namespace optiling\n\n"
            f"namespace ge {{\n{self.shapes()}}}  // namespace ge\n\nnamespace ops {{\n{self.definition()}}}  // namespace ops\n"
        )

    def chosen(self) -> str:
        """The sizes that the host chooses: the capacity rule, as the Python side evaluates it."""
        if self.choice is None:
            return ""
        lines = [
            "    // Sizes for this shape: as many rows as fit the unified buffer; even shares of a product, bands of its tiles that share operands."
        ]
        if self.mentions("cores"):
            lines.append("    const int64_t cores = platform.GetCoreNumAiv();")
        if self.mentions("cubes"):
            lines.append("    const int64_t cubes = platform.GetCoreNumAic();")
        lines += [f"    const int64_t {d} = tiling->{d};" for d in self.dims if self.mentions(d)]
        lines += [f"    const int64_t {name} = {text};" for name, text in self.choice.statements]
        lines += [f"    tiling->{f} = static_cast<uint32_t>({f});" for f in self.choice.fields]
        return "\n".join(lines) + "\n"

    def mentions(self, name: str) -> bool:
        """Whether a statement of the choice has the name."""
        return self.choice is not None and any(re.search(rf"\b{name}\b", text) for _, text in self.choice.statements)

    def shapes(self) -> str:
        """InferShape and InferDataType."""
        lines = ["static ge::graphStatus InferShape(gert::InferShapeContext* context) {"]
        for k, p in enumerate(self.outputs.values()):
            lines += [f"    auto* out{k} = context->GetOutputShape({k});", f"    out{k}->SetDimNum({len(p.dims)});"]
            for axis, d in enumerate(p.dims):
                position, at = self.home_of(d.name)
                lines.append(f"    out{k}->SetDim({axis}, context->GetInputShape({position})->GetDim({at}));")
        lines += ["    return ge::GRAPH_SUCCESS;", "}", ""]
        lines += ["static ge::graphStatus InferDataType(gert::InferDataTypeContext* context) {"]
        for k, p in enumerate(self.outputs.values()):
            lines.append(f"    context->SetOutputDataType({k}, ge::{_GE_TYPES[p.dtype.name]});")
        return "\n".join([*lines, "    return ge::GRAPH_SUCCESS;", "}", ""])

    def definition(self) -> str:
        """OpDef."""
        lines = [
            f"class {self.type} : public OpDef {{",
            "public:",
            f"    explicit {self.type}(const char* name) : OpDef(name) {{",
        ]
        lines += [self.tensor("Input", n, p) for n, p in self.inputs.items()] + [
            self.tensor("Output", n, p) for n, p in self.outputs.items()
        ]
        lines += [
            "        this->SetInferShape(ge::InferShape);",
            "        this->SetInferDataType(ge::InferDataType);",
            "        this->AICore().SetTiling(optiling::TilingFunc);",
            '        this->AICore().AddConfig("ascend910b");',
            '        this->AICore().AddConfig("ascend910_93");',
            "    }", "};", f"OP_ADD({self.type});", "",
        ]  # fmt: skip
        return "\n".join(lines)

    def tensor(self, role: str, name: str, p: Param) -> str:
        """One input or output."""
        start = ".InitValue(0)" if name in self.added else ""  # what atomics add to
        return f'        this->{role}("{name}").ParamType(REQUIRED).DataType({{ge::{_GE_TYPES[p.dtype.name]}}}).Format({{ge::FORMAT_ND}}){start};'
