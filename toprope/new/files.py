"""`toprope new`: the files of an operator project, from a prototype; written to a folder at once or not at all."""

from __future__ import annotations

import os
import re
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from toprope.errors import BadInput
from toprope.new.cases import cases_toml, example_value
from toprope.new.prototype import Attribute, Prototype, Tensor

TEMPLATES = Path(__file__).parent / "templates"
DEFAULT_UNITS = ("ascend910b", "ascend910_93")
MOST_SOURCES = 64
# Element type -> (ge name, C++ type, bytes); addable ones have a vector Add on A2, bfloat16 after a cast.
GE_TYPES = {
    "float32": "DT_FLOAT", "float16": "DT_FLOAT16", "bfloat16": "DT_BF16", "int8": "DT_INT8", "uint8": "DT_UINT8", "int16": "DT_INT16",
    "uint16": "DT_UINT16", "int32": "DT_INT32", "uint32": "DT_UINT32", "int64": "DT_INT64", "uint64": "DT_UINT64",
    "float64": "DT_DOUBLE", "bool": "DT_BOOL",
}  # fmt: skip
BYTES = {name: int(bits) // 8 for name in GE_TYPES for bits in re.findall(r"\d+$", name)} | {"bool": 1}
ADDABLE = {"float32", "float16", "bfloat16", "int16", "int32"}
# The struct's type for an attribute that a kernel can use as a number.
FIELD_TYPES = {"int": "int64_t", "float": "float", "bool": "uint32_t"}


class Skeleton:
    """What the generated kernel computes for each output: a sum of inputs of its type, a copy of one, or zeros."""

    def __init__(self, prototype: Prototype, output: Tensor) -> None:
        alike = [t for t in prototype.inputs if t.dtypes == output.dtypes]
        self.output = output
        certain = [t for t in alike if t.kind != "optional"]
        if alike and set(output.dtypes) <= ADDABLE:
            self.mode, self.sources = "Sum", alike
        elif certain:
            self.mode, self.sources = "Copy", certain[:1]
        else:
            self.mode, self.sources = "Zeros", []

    @property
    def meaning(self) -> str:
        """In one line: "z = x + y + bias (where given)"."""
        words = {"required": "{}", "optional": "{} (where given)", "dynamic": "every tensor of {}"}
        if self.mode == "Copy":
            first = self.sources[0]
            return f"{self.output.name} = {'the first tensor of ' if first.kind == 'dynamic' else ''}{first.name}"
        terms = [words[t.kind].format(t.name) for t in self.sources]
        return f"{self.output.name} = {' + '.join(terms) or '0'}"

    @property
    def bytes_per_element(self) -> int:
        """UB that the buffers of this output take for one element, in the widest combination."""
        width = max(BYTES[d] for d in self.output.dtypes)
        return 4 * width + 4 + 4 if self.mode == "Sum" else 2 * width

    def golden(self, leader: Tensor) -> str:
        """The lines of golden.py."""
        name = self.output.name
        first = leader.name + ("[0]" if leader.kind == "dynamic" else "")
        if self.mode == "Zeros":
            return f"    {name}_out = np.zeros(np.shape({first}))\n"
        if self.mode == "Copy":
            source = self.sources[0]
            return f"    {name}_out = np.array({source.name}{'[0]' if source.kind == 'dynamic' else ''})\n"
        lines = [f"    {name}_out = np.zeros(np.shape({first}), np.asarray({first}).dtype)\n"]
        for t in self.sources:
            add = f"{name}_out = {name}_out + "
            if t.kind == "required":
                lines.append(f"    {add}{t.name}\n")
            elif t.kind == "optional":
                lines.append(f"    if {t.name} is not None:\n        {add}{t.name}\n")
            else:
                lines.append(f"    for each in {t.name}:\n        {add}each\n")
        return "".join(lines)


def kernel_argument(tensor: Tensor, inputs: tuple[Tensor, ...]) -> str:
    """The kernel's name of an output: one that shares an input's name ends in _ref, as msopgen writes it."""
    return tensor.name + ("_ref" if any(t.name == tensor.name for t in inputs) else "")


def project_files(p: Prototype, units: tuple[str, ...] = DEFAULT_UNITS) -> dict[str, str]:
    """Path in the project -> text, of a complete project whose kernel is a skeleton that runs."""
    skeletons = [Skeleton(p, o) for o in p.outputs]
    leader = next(t for t in p.inputs if t.kind == "required") if _has_required(p) else p.inputs[_first_dynamic(p)]
    meaning = "; ".join(s.meaning for s in skeletons)
    names = {"op": p.op, "name": p.name, "meaning": meaning, "most": str(MOST_SOURCES)}
    verify = " ".join(
        f"output/output_{o.name}.bin output/golden_{o.name}.bin" for o in sorted(p.outputs, key=lambda o: o.name)
    )
    wide = any(t.dtypes[0] == "bfloat16" for t in (*p.inputs, *p.outputs))
    imports = {"import_types": "import ml_dtypes  # noqa: F401  makes bfloat16 known to NumPy\n" if wide else ""}
    return {
        **build_files(p.op, p.name, units),
        f"op_host/{p.name}.cpp": _host(p, skeletons, leader, units, names),
        f"op_kernel/{p.name}.cpp": _kernel(p, skeletons, names),
        f"op_kernel/{p.name}_tiling.h": render("tiling", names | {"fields": _fields(p)}),
        "golden.py": render("golden", names | {"arguments": _golden_arguments(p), "returns": _golden_returns(skeletons, leader)}),
        "cases.toml": cases_toml(p),
        "scripts/gen_data.py": render("gen_data", names | imports | _data(p)),
        "scripts/verify_result.py": render("verify_result", names | imports | {"tolerances": _tolerances(p)}),
        "README.md": render("readme", names | {"signature": signature(p), "verify": verify}),
    }  # fmt: skip


def build_files(op: str, name: str, units: tuple[str, ...], others: Sequence[str] = ()) -> dict[str, str]:
    """What every project has, whatever its operator computes: the build with a toolkit, and the CI file.

    `others`: further operator types whose kernels are in the same file.
    """
    sources = "".join(render("cmake_source", {"op": each, "name": name}) for each in (op, *others))
    names = {"op": op, "name": name, "units": ";".join(units), "sources": sources}
    return {
        "CMakeLists.txt": render("cmake_top", names),
        "CMakePresets.json": render("presets", names),
        "build.sh": render("build", names),
        "op_host/CMakeLists.txt": render("cmake_host", names),
        "op_kernel/CMakeLists.txt": render("cmake_kernel", names),
        ".github/workflows/operator.yml": render("ci", names),
    }


def render(template: str, values: Mapping[str, str]) -> str:
    """A template with its @names@ replaced."""
    text = (TEMPLATES / f"{template}.in").read_text()
    return re.sub(r"@(\w+)@", lambda m: values[m[1]], text)


def write_project(files: Mapping[str, str], folder: Path) -> None:
    """Write all files beside `folder` and rename; nothing is left behind by a failure. Raises BadInput if the folder holds anything."""
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise BadInput(f"{folder} exists and is not empty (msopgen error 12)", cure="name another folder: --out FOLDER")
    parent = folder.absolute().parent
    try:
        parent.mkdir(parents=True, exist_ok=True)
        scratch = Path(tempfile.mkdtemp(prefix=f".{folder.name}-", dir=parent))
    except OSError as error:
        raise BadInput(
            f"{parent} cannot be written: {error.strerror} (msopgen error 12)", cure="name another folder: --out FOLDER"
        ) from error
    try:
        for name, text in files.items():
            path = scratch / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
            if name.endswith(".sh"):
                path.chmod(0o755)
        scratch.chmod(0o755)
        os.rename(scratch, folder)
    except OSError as error:
        raise BadInput(
            f"{folder} cannot be written: {error.strerror} (msopgen error 12)", cure="name another folder: --out FOLDER"
        ) from error
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def signature(p: Prototype) -> str:
    """The prototype in one line, as `toprope new` reads it."""
    marks = {"required": "", "optional": "?", "dynamic": "*"}
    words = (
        {"string": "str"}
        | {f"list_{k}": f"list[{k}]" for k in ("int", "float", "bool")}
        | {"list_list_int": "list[list[int]]"}
    )
    inputs = [f"{t.name}{marks[t.kind]}: {'|'.join(t.dtypes)}" for t in p.inputs]
    attributes = [
        f"{a.name}: {words.get(a.type, a.type)}" + ("" if a.required else f" = {_json(a.default)}")
        for a in p.attributes
    ]
    outputs = ", ".join(f"{o.name}: {'|'.join(o.dtypes)}" for o in p.outputs)
    return f"{p.name}({', '.join([*inputs, *attributes])}) -> {outputs}"


def _json(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else repr(value)


def _has_required(p: Prototype) -> bool:
    return any(t.kind == "required" for t in p.inputs)


def _first_dynamic(p: Prototype) -> int:
    return next(i for i, t in enumerate(p.inputs) if t.kind == "dynamic")


def _accessor(p: Prototype, tensor: Tensor, what: str) -> str:
    """The call on a context that gives shape or data type of an input, by its declared position where lists or gaps come before."""
    i = p.inputs.index(tensor)
    if tensor.kind == "dynamic":
        return f"GetDynamicInput{what}({i}, 0)"
    plain = all(t.kind == "required" for t in p.inputs[: i + 1])
    return f"GetInput{what}({i})" if plain else f"Get{tensor.kind.capitalize()}Input{what}({i})"


def _field(name: str, prefix: str) -> str:
    return prefix + "".join(part[:1].upper() + part[1:] for part in name.split("_"))


def _attribute_field(a: Attribute) -> str:
    return a.name + ("_" if a.name in ("length", "share", "tile") else "")


def _fields(p: Prototype) -> str:
    lines = []
    for t in p.inputs:
        if t.kind == "optional":
            lines.append(f"    uint32_t {_field(t.name, 'has')};  // 1 if {t.name} is given\n")
        elif t.kind == "dynamic":
            lines.append(f"    uint32_t {_field(t.name, 'count')};  // tensors in {t.name}\n")
    lines += [f"    {FIELD_TYPES[a.type]} {_attribute_field(a)};\n" for a in p.attributes if a.type in FIELD_TYPES]
    return "".join(lines)


def _kernel(p: Prototype, skeletons: list[Skeleton], names: dict[str, str]) -> str:
    parameters = [f"GM_ADDR {t.name}" for t in p.inputs] + [
        f"GM_ADDR {kernel_argument(o, p.inputs)}" for o in p.outputs
    ]
    body = "".join(
        f"    AscendC::ListTensorDesc {t.name}List(reinterpret_cast<__gm__ void*>({t.name}));\n"
        for t in p.inputs
        if t.kind == "dynamic" and any(t in s.sources for s in skeletons)
    )
    for k, s in enumerate(skeletons):
        dtype = f"DTYPE_{s.output.name.upper()}"
        body += f"    {p.op}{s.mode}<{dtype}> result{k}(&tpipe, tilingData);\n"
        for t in s.sources:
            if t.kind == "required":
                body += f"    result{k}.AddSource({t.name});\n"
            elif t.kind == "optional":
                body += f"    if (tilingData.{_field(t.name, 'has')} != 0) result{k}.AddSource({t.name});\n"
            elif s.mode == "Copy":
                body += f"    result{k}.AddSource({t.name}List.GetDataPtr<uint8_t>(0));\n"
            else:
                body += f"    for (uint32_t i = 0; i < tilingData.{_field(t.name, 'count')}; ++i) result{k}.AddSource({t.name}List.GetDataPtr<uint8_t>(i));\n"
        body += f"    result{k}.Process({kernel_argument(s.output, p.inputs)});\n"
    classes = "\n".join(render(mode.lower(), names) for mode in dict.fromkeys(s.mode for s in skeletons))
    arguments = ", ".join([*parameters, "GM_ADDR workspace", "GM_ADDR tiling"])
    includes = '#include "kernel_operator_list_tensor_intf.h"\n' if "ListTensorDesc" in body else ""
    return render("kernel", names | {"includes": includes, "classes": classes, "parameters": arguments, "body": body})


def _host(
    p: Prototype, skeletons: list[Skeleton], leader: Tensor, units: tuple[str, ...], names: dict[str, str]
) -> str:
    return render(
        "host",
        names
        | {
            "leader": _accessor(p, leader, "Shape"),
            "bytes": str(sum(s.bytes_per_element for s in skeletons) + 2),
            "outputs": str(len(p.outputs)),
            "fill": _fill(p, skeletons),
            "types": "".join(_inferred(p, k, o, leader) for k, o in enumerate(p.outputs)),
            "definition": "".join(_tensor("Input", t) for t in p.inputs) + "".join(_tensor("Output", t) for t in p.outputs) + "".join(map(_attribute, p.attributes)),
            "configs": "".join(f'        this->AICore().AddConfig("{u}");\n' for u in units),
        },
    )  # fmt: skip


def _fill(p: Prototype, skeletons: list[Skeleton]) -> str:
    """The rest of the tiling function: presence, counts, attributes, and that every source has the first input's size."""
    used = {t.name for s in skeletons for t in s.sources}
    out = []
    for i, t in enumerate(p.inputs):
        if t.kind == "dynamic":
            count = f"data->{_field(t.name, 'count')}"
            out.append(
                f"    {count} = static_cast<uint32_t>(context->GetIrInputInstanceInfo({i})->GetInstanceNum());\n"
            )
            out.append(f"    if ({count} == 0 || {count} > {MOST_SOURCES}) return ge::GRAPH_FAILED;\n")
            if t.name in used:
                out.append(
                    f"    for (uint32_t k = 0; k < {count}; ++k)\n"
                    f"        if (context->GetDynamicInputShape({i}, k)->GetStorageShape().GetShapeSize() != static_cast<int64_t>(length)) return ge::GRAPH_FAILED;\n"
                )
            continue
        if t.kind == "required" and t.name not in used:
            continue
        out.append(f"    const gert::StorageShape* {t.name}Shape = context->{_accessor(p, t, 'Shape')};\n")
        if t.kind == "optional":
            out.append(f"    data->{_field(t.name, 'has')} = {t.name}Shape != nullptr ? 1 : 0;\n")
        if t.name in used:
            gone = f"{t.name}Shape == nullptr || " if t.kind == "required" else f"{t.name}Shape != nullptr && "
            out.append(
                f"    if ({gone}{t.name}Shape->GetStorageShape().GetShapeSize() != static_cast<int64_t>(length)) return ge::GRAPH_FAILED;\n"
            )
    numbers = [(i, a) for i, a in enumerate(p.attributes) if a.type in FIELD_TYPES]
    if numbers:
        out.append("    const gert::RuntimeAttrs* attributes = context->GetAttrs();\n")
    for i, a in numbers:
        value = f"*attributes->Get{a.type.capitalize()}({i})"
        out.append(f"    data->{_attribute_field(a)} = {f'{value} ? 1 : 0' if a.type == 'bool' else value};\n")
    return "".join(out)


def _inferred(p: Prototype, k: int, output: Tensor, leader: Tensor) -> str:
    alike = [t for t in p.inputs if t.kind != "optional" and t.dtypes == output.dtypes]
    if alike:
        return f"    context->SetOutputDataType({k}, context->{_accessor(p, alike[0], 'DataType')});\n"
    if len(set(output.dtypes)) == 1:
        return f"    context->SetOutputDataType({k}, {GE_TYPES[output.dtypes[0]]});\n"
    table = dict(reversed(list(zip(leader.dtypes, output.dtypes, strict=True))))
    lines = [f"    switch (context->{_accessor(p, leader, 'DataType')}) {{\n"]
    lines += [
        f"        case {GE_TYPES[a]}: context->SetOutputDataType({k}, {GE_TYPES[b]}); break;\n"
        for a, b in table.items()
    ]
    return "".join([*lines, "        default: return GRAPH_FAILED;\n    }\n"])


def _tensor(role: str, t: Tensor) -> str:
    types = ", ".join(f"ge::{GE_TYPES[d]}" for d in t.dtypes)
    formats = ", ".join(f"ge::FORMAT_{f}" for f in t.formats)
    return (
        f'        this->{role}("{t.name}")\n            .ParamType({t.kind.upper()})\n            .DataType({{{types}}})\n'
        f"            .Format({{{formats}}})\n            .UnknownShapeFormat({{{formats}}});\n"
    )


def _attribute(a: Attribute) -> str:
    method = "".join(part.capitalize() for part in a.type.split("_"))
    value = "" if a.required else _cpp(a.default)
    return f'        this->Attr("{a.name}").AttrType({"REQUIRED" if a.required else "OPTIONAL"}).{method}({value});\n'


def _cpp(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return '"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"'
    if isinstance(value, list):
        return "{" + ", ".join(map(_cpp, value)) + "}"
    return repr(value)


def _golden_arguments(p: Prototype) -> str:
    attributes = [f"{a.name}={example_value(a)!r}" for a in p.attributes]
    return ", ".join([*(t.name for t in p.inputs), *(["*"] if attributes else []), *attributes])


def _golden_returns(skeletons: list[Skeleton], leader: Tensor) -> str:
    body = "".join(s.golden(leader) for s in skeletons)
    results = [f"{s.output.name}_out" for s in skeletons]
    return body + f"    return {results[0] if len(results) == 1 else '[' + ', '.join(results) + ']'}"


def _data(p: Prototype) -> dict[str, str]:
    inputs = [(t.name, t.dtypes[0], t.kind) for t in p.inputs]
    return {"inputs": repr(inputs), "output_types": repr([(o.name, o.dtypes[0]) for o in p.outputs])}


def _tolerances(p: Prototype) -> str:
    """Per output: element type, then the numbers of the samples' verify scripts, bfloat16 looser by its missing bits."""
    limits = {
        "float16": (1e-3, 1e-3, 1e-3),
        "bfloat16": (8e-3, 8e-3, 1e-3),
        "float32": (1e-6, 1e-6, 1e-4),
        "float64": (1e-9, 1e-12, 0.0),
    }
    return repr({o.name: (o.dtypes[0], *limits.get(o.dtypes[0], (0.0, 0.0, 0.0))) for o in p.outputs})
