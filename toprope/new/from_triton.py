"""`toprope new --from file.py:kernel --launch "..."`: the project of a Triton function, its own evaluation on NumPy as the reference."""

from __future__ import annotations

import ast
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from toprope.dtypes import Dtype, dtype
from toprope.errors import BadArgument, BadInput
from toprope.new.files import build_files
from toprope.new.prototype import camel
from toprope.tile import triton
from toprope.tile.from_triton.kernel import TritonKernel
from toprope.tile.from_triton.program import TritonProgram
from toprope.tile.front_triton.kernel import FormProgram
from toprope.tile.language import TileError

_GE_TYPES = {
    "float32": "DT_FLOAT", "float16": "DT_FLOAT16", "bfloat16": "DT_BF16", "int32": "DT_INT32", "int16": "DT_INT16", "int8": "DT_INT8",
    "int64": "DT_INT64", "uint8": "DT_UINT8",
}  # fmt: skip
_EXAMPLE = "x_ptr=float32[n], y_ptr=float32[n], n=n, BLOCK=1024, grid=cdiv(n, BLOCK)"
_GOLDEN = '''\
"""The reference of {op}: the Triton function itself, run program by program on NumPy."""

import pathlib

import ml_dtypes  # noqa: F401  makes bfloat16 known to NumPy
import numpy as np

from toprope import tile

_kernel = tile.triton(pathlib.Path(__file__).parent / "triton" / "{file}", "{name}")


def cdiv(a, b):
    return -(-a // b)


def {name}({inputs}):
    """Inputs in the kernel's order; one array for each output."""
    {given} = (np.array(a, t) for a, t in zip(({inputs},), {types}, strict=True))
    {dims} = {homes}
    {made}
    _kernel[{grid}]({arguments})
    return [{outputs}]
'''
_README = """\
# {op}

Made from the Triton function `{name}` in `triton/{file}`, launched as

    {launch}

| file | what |
|---|---|
| `op_kernel/{name}.cpp`, `op_kernel/{name}_tiling.h` | the kernel and what the host tells it |
| `op_host/{name}.cpp` | scalars, grid, output shapes, the prototype |
| `golden.py`, `cases.toml` | the reference (the Triton function) and the cases |

`toprope test .` runs the cases on the software NPU. `./build.sh` makes the operator package with a CANN toolkit.
"""


@dataclass
class TritonLaunch:
    """How a Triton function is launched: shapes and types of its arrays, what its scalars are, and the grid."""

    text: str
    arrays: dict[str, tuple[Dtype, list[str]]] = field(default_factory=dict)
    bounds: dict[str, str] = field(default_factory=dict)  # array of indices -> what its entries stay below
    scalars: dict[str, ast.expr] = field(default_factory=dict)
    grid: list[ast.expr] = field(default_factory=list)

    @staticmethod
    def of(text: str) -> TritonLaunch:
        """Read from NAME=type[dimensions], NAME=expression, grid=(...). Raises BadInput."""
        found = TritonLaunch(text)
        try:
            call = ast.parse(f"launch({text})", mode="eval").body
        except SyntaxError as e:
            raise BadInput(f"--launch {text!r}: {e.msg}", cure=f"write it like {_EXAMPLE!r}") from None
        assert isinstance(call, ast.Call)
        for k in call.keywords:
            found._argument(str(k.arg), k.value)
        if call.args or not found.arrays or not found.grid:
            raise BadInput(f"--launch {text!r} names no array, or no grid", cure=f"write it like {_EXAMPLE!r}")
        return found

    def _argument(self, name: str, value: ast.expr) -> None:
        if isinstance(value, ast.Compare) and isinstance(value.ops[0], ast.Lt):
            self.bounds[name] = ast.unparse(value.comparators[0])
            value = value.left
        if isinstance(value, ast.Subscript):
            sizes = value.slice.elts if isinstance(value.slice, ast.Tuple) else [value.slice]
            try:
                self.arrays[name] = (dtype(ast.unparse(value.value)), [ast.unparse(s) for s in sizes])
            except BadArgument as e:
                raise BadInput(f"--launch: {name}: {e.message}", cure=e.cure) from None
        elif name == "grid":
            self.grid = list(value.elts) if isinstance(value, ast.Tuple) else [value]
        else:
            self.scalars[name] = value

    def home_of(self, dim: str, inputs: list[str]) -> tuple[int, int]:
        """The input and axis that a dimension is read from. Raises BadInput."""
        for position, name in enumerate(inputs):
            if dim in self.arrays[name][1]:
                return position, self.arrays[name][1].index(dim)
        raise BadInput(f"dimension {dim} is in no input", cure="name it in an array that the kernel only reads")

    def dims(self) -> list[str]:
        """The names of dimensions, in order."""
        return list(dict.fromkeys(d for _, sizes in self.arrays.values() for d in sizes if d.isidentifier()))


def is_triton(file: Path) -> bool:
    """Whether a Python file holds Triton functions."""
    try:
        tree = ast.parse(file.read_text())
    except (OSError, SyntaxError, ValueError, RecursionError, MemoryError):
        return False
    return any(
        isinstance(n, ast.Import) and any(a.name.split(".")[0] == "triton" for a in n.names) for n in ast.walk(tree)
    )


def triton_project_files(text: str, launch_text: str, units: tuple[str, ...]) -> tuple[str, dict[str, str]]:
    """The kernel's name, and path in the project -> text. Raises BadInput, and TileError for what is not read."""
    path, _, name = text.rpartition(":")
    file = Path(path)
    if not launch_text:
        raise BadInput(f"{text} is a Triton function: its launch is not known", cure=f"add --launch {_EXAMPLE!r}")
    kernel, launch = triton(file, name), TritonLaunch.of(launch_text)
    program, inputs, outputs = _program(kernel, launch)
    host = _Host(kernel.name, launch, program, inputs, outputs)
    return kernel.name, {
        f"op_kernel/{name}_tiling.h": host.tiling_header(),
        f"op_kernel/{name}.cpp": program.text(line_directives=False, tiling_struct=f"{host.op}TilingData"),
        f"op_host/{name}.cpp": host.text(),
        **build_files(host.op, name, units),
        f"triton/{file.name}": file.read_text(),
        "golden.py": host.golden(kernel, file.name),
        "cases.toml": host.cases(),
        "README.md": _README.format(op=host.op, name=name, file=file.name, launch=launch_text),
    }


def _program(kernel: TritonKernel, launch: TritonLaunch) -> tuple[TritonProgram | FormProgram, list[str], list[str]]:
    """The function for the launch's types and constants, its inputs and its outputs; what is updated in place is both."""
    described: dict[str, Any] = {n: kind for n, (kind, _) in launch.arrays.items()}
    for n, value in launch.scalars.items():
        constant = value.value if isinstance(value, ast.Constant) else None
        described[n] = constant if n in kernel.constexprs else float if isinstance(constant, float) else int
    missing = [p for p in kernel.parameters if p not in described and p not in kernel.written.defaults]
    unknown = [p for p in described if p not in kernel.parameters]
    if missing or unknown:
        what = f"has no argument {unknown[0]}" if unknown else f"needs {missing[0]}"
        raise BadInput(f"{kernel.name} {what}", cure=f"its arguments are {', '.join(kernel.parameters)}")
    try:
        program = kernel.as_program(**described)
        stored = [n for n in launch.arrays if n in program.printer.stored]
        order = [n for n in program.params if n not in stored] + stored
        if order == list(program.params) and not any(
            f"LoadRows({n}Gm" in program.text(line_directives=False) for n in stored
        ):
            form = kernel.in_form(**described).form
            if not set(form.loaded) & set(stored):
                return program, [n for n in launch.arrays if n not in stored], stored
    except TileError:
        pass
    found = kernel.in_form(**described)
    form = found.form
    inputs = [n for n in launch.arrays if n in form.loaded or n not in form.stored]
    return found, inputs, [n for n in launch.arrays if n in form.stored]


@dataclass
class _Host:
    """The host side of one kernel."""

    name: str
    launch: TritonLaunch
    program: TritonProgram | FormProgram
    inputs: list[str]
    outputs: list[str]

    @property
    def op(self) -> str:
        """The operator's type."""
        return camel(self.name)

    def tiling_header(self) -> str:
        """The struct that the host fills."""
        body = "".join(f"    {kind} {n};\n" for kind, n in self.program.fields())
        return (
            "// What the host tells the kernel: the function's scalars and its grid.\n#pragma once\n\n#include <cstdint>\n\n"
            f"struct {self.op}TilingData {{\n{body}}};\n"
        )

    def values(self) -> dict[str, ast.expr]:
        """What every field of the struct is."""
        grid = [*self.launch.grid, ast.Constant(1), ast.Constant(1)][:3]
        end = "Arg" if isinstance(self.program, FormProgram) else ""
        given = {f"{n}{end}": self.launch.scalars.get(n, ast.Constant(0)) for n in self.program.scalars}
        return given | {f"grid{k}": g for k, g in enumerate(grid)}

    def text(self) -> str:
        """Tiling, shapes and definition."""
        launch = self.launch
        read = {n.id for v in self.values().values() for n in ast.walk(v) if isinstance(n, ast.Name)}
        dims = "".join(
            f"    const int64_t {d} = context->GetInputShape({p})->GetStorageShape().GetDim({axis});\n"
            for d in launch.dims() if d in read for p, axis in [launch.home_of(d, self.inputs)]
        )  # fmt: skip
        constants = "".join(
            f"    const int64_t {n} = {ast.unparse(v)};\n"
            for n, v in launch.scalars.items()
            if n not in self.program.scalars
            and isinstance(v, ast.Constant)
            and isinstance(v.value, int)
            and n not in launch.dims()
            and n in read
        )
        fields = "".join(f"    tiling->{n} = {_cpp(v)};\n" for n, v in self.values().items())
        used = f"{dims}{constants}"
        return (
            f"// Host side of {self.op}: scalars and grid of a launch, which shapes come out, what the operator is.\n"
            f'#include <algorithm>\n\n#include "../op_kernel/{self.name}_tiling.h"\n#include "register/op_def_registry.h"\n'
            '#include "tiling/platform/platform_ascendc.h"\n\nnamespace optiling {\n'
            "static ge::graphStatus TilingFunc(gert::TilingContext* context) {\n"
            f"    auto* tiling = context->GetTilingData<{self.op}TilingData>();\n{used}{fields}"
            "    const int64_t programs = tiling->grid0 * tiling->grid1 * tiling->grid2;\n"
            "    const auto platform = platform_ascendc::PlatformAscendC(context->GetPlatformInfo());\n"
            + self.cores()
            + "    return ge::GRAPH_SUCCESS;\n}\n}  // namespace optiling\n\n"
            f"namespace ge {{\n{self.shapes()}}}  // namespace ge\n\nnamespace ops {{\n{self.definition()}}}  // namespace ops\n"
        )

    def cores(self) -> str:
        """How many cores take part, and the workspace of their Matmul objects."""
        steps, count, workspace = "programs", "platform.GetCoreNumAiv()", "0"
        if isinstance(self.program, FormProgram):
            if self.program.emitted.mixed:
                steps, count, workspace = (
                    "(programs + 1) / 2",
                    "platform.GetCoreNumAic()",
                    "platform.GetLibApiWorkSpaceSize()",
                )
            if self.program.form.serial:
                count = "1"
        return (
            f"    context->SetBlockDim(std::max<int64_t>(1, std::min<int64_t>({steps}, {count})));\n"
            f"    context->GetWorkspaceSizes(1)[0] = {workspace};\n"
        )

    def shapes(self) -> str:
        """InferShape and InferDataType."""
        lines = ["static ge::graphStatus InferShape(gert::InferShapeContext* context) {"]
        for k, n in enumerate(self.outputs):
            sizes = self.launch.arrays[n][1]
            lines += [f"    auto* out{k} = context->GetOutputShape({k});", f"    out{k}->SetDimNum({len(sizes)});"]
            for axis, d in enumerate(sizes):
                value = d
                if d.isidentifier():
                    position, at = self.launch.home_of(d, self.inputs)
                    value = f"context->GetInputShape({position})->GetDim({at})"
                lines.append(f"    out{k}->SetDim({axis}, {value});")
        lines += ["    return ge::GRAPH_SUCCESS;", "}", ""]
        lines += ["static ge::graphStatus InferDataType(gert::InferDataTypeContext* context) {"]
        lines += [f"    context->SetOutputDataType({k}, ge::{self.ge_type(n)});" for k, n in enumerate(self.outputs)]
        return "\n".join([*lines, "    return ge::GRAPH_SUCCESS;", "}", ""])

    def ge_type(self, array: str) -> str:
        """An array's element type in the graph engine."""
        return _GE_TYPES[self.launch.arrays[array][0].name]

    def definition(self) -> str:
        """OpDef."""
        lines = [
            f"class {self.op} : public OpDef {{",
            "public:",
            f"    explicit {self.op}(const char* name) : OpDef(name) {{",
        ]
        lines += [
            f'        this->{role}("{n}").ParamType(REQUIRED).DataType({{ge::{self.ge_type(n)}}}).Format({{ge::FORMAT_ND}});'
            for role, names in (("Input", self.inputs), ("Output", self.outputs)) for n in names
        ]  # fmt: skip
        lines += [
            "        this->SetInferShape(ge::InferShape);", "        this->SetInferDataType(ge::InferDataType);",
            "        this->AICore().SetTiling(optiling::TilingFunc);", '        this->AICore().AddConfig("ascend910b");',
            '        this->AICore().AddConfig("ascend910_93");', "    }", "};", f"OP_ADD({self.op});", "",
        ]  # fmt: skip
        return "\n".join(lines)

    def golden(self, kernel: TritonKernel, file: str) -> str:
        """The reference: the Triton function on NumPy."""
        launch, dims = self.launch, self.launch.dims()
        homes = [f"{self.inputs[p]}.shape[{axis}]" for p, axis in (launch.home_of(d, self.inputs) for d in dims)]
        made = [
            f"np.zeros(({', '.join(launch.arrays[n][1])},), np.dtype({launch.arrays[n][0].name!r}))"
            for n in self.outputs
            if n not in self.inputs
        ]
        fresh = [n for n in self.outputs if n not in self.inputs]
        scalars = {n: ast.unparse(v) for n, v in launch.scalars.items()}
        names = dict(launch.scalars)
        grid = [ast.unparse(_with_constants(g, names)) for g in launch.grid]
        arguments = [f"{p}={scalars.get(p, p)}" for p in kernel.parameters if p in scalars or p in launch.arrays]
        return _GOLDEN.format(
            op=self.op, file=file, name=self.name, inputs=", ".join(self.inputs), given=", ".join(self.inputs) + ",",
            types=[launch.arrays[n][0].name for n in self.inputs], dims=", ".join(dims) + ",", homes=", ".join(homes) + ",",
            outputs=", ".join(self.outputs), made=f"{', '.join(fresh)}, = {', '.join(made)}," if fresh else "# every output is an input that is updated in place", grid=f"({', '.join(grid)},)", arguments=", ".join(arguments),
        )  # fmt: skip

    def cases(self) -> str:
        """Two sizes for each dimension: a small odd one, and one that needs several programs and a tail."""
        blocks = [
            f'# Test cases: toprope test .\n[operator]\nname = "{self.name}"\ngolden = "golden.py:{self.name}"\nrun = "project"\n'
        ]
        for label, wanted in (("small", (5, 77, 33)), ("several_programs", (50, 111, 130))):
            sizes = {d: wanted[k % 3] for k, d in enumerate(self.launch.dims())}
            inputs = ",\n  ".join(self.case_input(n, sizes) for n in self.inputs)
            outputs = ", ".join(f'{{ name = "{n}", dtype = "{self.launch.arrays[n][0].name}" }}' for n in self.outputs)
            blocks.append(
                f'[[cases]]\nname = "{label}"\nkind = "general"\ninputs = [\n  {inputs},\n]\noutputs = [{outputs}]\n'
            )
        return "\n".join(blocks)

    def case_input(self, name: str, sizes: dict[str, int]) -> str:
        """One input of a case; indices stay below their bound."""
        kind, dims = self.launch.arrays[name]
        shape = [sizes[d] if d in sizes else int(d) for d in dims]
        bound = self.launch.bounds.get(name, "")
        high = sizes[bound] if bound in sizes else int(bound) if bound else 0
        fill = f', fill = {{ kind = "uniform", low = 0, high = {high - 1} }}' if high else ""
        return f'{{ name = "{name}", dtype = "{kind.name}", shape = {shape}{fill} }}'


def _with_constants(node: ast.expr, scalars: dict[str, ast.expr]) -> ast.expr:
    """An expression with the launch's constants in the place of their names."""

    class Names(ast.NodeTransformer):
        def visit_Name(self, n: ast.Name) -> ast.AST:
            value = scalars.get(n.id)
            return value if isinstance(value, ast.Constant) else n

    found: ast.expr = Names().visit(ast.parse(ast.unparse(node), mode="eval").body)
    return found


def _cpp(node: ast.expr) -> str:
    """A launch's expression in C++. Raises BadInput."""
    match node:
        case ast.Constant(value=float() as value):
            return f"{value!r}f" if "." in repr(value) or "e" in repr(value) else f"{value!r}.0f"
        case ast.Constant(value=int() as value):
            return str(int(value))
        case ast.Name(id=name):
            return name
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return f"-{_cpp(operand)}"
        case ast.BinOp(op=op) if type(op) in _SIGNS:
            return f"({_cpp(node.left)} {_SIGNS[type(op)]} {_cpp(node.right)})"
        case ast.Call(func=ast.Name(id="cdiv"), args=[a, b]):
            return f"(({_cpp(a)} + {_cpp(b)} - 1) / {_cpp(b)})"
        case ast.Call(func=ast.Name(id=("min" | "max") as word), args=[a, b]):
            return f"std::{word}<int64_t>({_cpp(a)}, {_cpp(b)})"
    raise BadInput(
        f"--launch: {ast.unparse(node)} is no expression of dimensions",
        cure="use + - * // %, cdiv, min and max of dimensions and constants",
    )


_SIGNS: dict[type, str] = {ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.FloorDiv: "/", ast.Mod: "%", ast.Div: "/"}
