"""The kernel behind a tiling: which source, which branch or template of it, built with the defines and structs of the host's answer."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from toprope import brackets, runtime
from toprope.build import shared_library
from toprope.cpp import read
from toprope.errors import BadKernel
from toprope.kernel import Kernel, header_ahead
from toprope.project.checkout import Checkout
from toprope.project.definition import builds_for
from toprope.project.errors import KeyNotCompiled, MissingHostSource
from toprope.project.ge_types import GE_TYPES, GeType, format_name
from toprope.project.host import OperatorDef, TilingClass
from toprope.project.operators import Operator
from toprope.project.template_keys import Choice, declared, selections
from toprope.soc import Soc
from toprope.source import Entry, Parameter, entries
from toprope.unit import symbol_of, text_of


@dataclass(frozen=True)
class ProjectKernel(Kernel):
    """An entry, or a call of it with one GM pointer for each array, so that the members of tensor lists are known as GM."""

    header: str = ""
    call: str = ""  # empty: the entry is what is launched, and one build serves all entries of its file

    def _compile(self, soc: Soc, core_type: str, names: tuple[str, ...], extra: tuple[str, ...]) -> Path:
        unit = f'{self.header}{text_of(self.path, self.include)}#include "machine/entry.h"\n'
        if self.call:
            parameters = ", ".join(f"GM_ADDR {p.name}" for p in self.entry.parameters)
            unit += f"static void toprope_project_entry({parameters}) {{ {self.call}; }}\n"
            unit += f"TOPROPE_ENTRY({self.name}, toprope_project_entry)\n"
        else:
            unit += "".join(f"TOPROPE_ENTRY({name}, {symbol_of(name)})\n" for name in names)
        return shared_library(
            unit,
            include=(self.path.parent, *self.include),
            defines=(f"__NPU_ARCH__={soc.npu_arch}", f"TOPROPE_{core_type.upper()}=1", *self.defines),
            extra=("-fpermissive", *extra),
            link=(runtime.library_path(),),
            # What the host generates comes before everything else, and kernel_operator.h looks at it.
            ahead="" if self.header else header_ahead(self.path, self.include),
        )


def snake(name: str) -> str:
    """The file name of an operator type: AbcDef -> abc_def, AbcAAc -> abc_a_ac."""
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", name).lower()


def kernel_source(operator: Operator, of: OperatorDef, soc: Soc) -> Path:
    """The kernel source of an operator type. Raises MissingHostSource when op_kernel has none."""
    named = next((f for family, f in of.kernel_files.items() if builds_for(family, soc.name)), "")
    candidates = operator.kernels(soc.name)  # those of this generation of chips
    for stem in (named, snake(of.type), of.type.lower()):
        direct = operator.kernel_folder / f"{stem}.cpp"
        if stem and (found := [f for f in (direct, *candidates) if f.stem == stem and f.is_file()]):
            return found[0]
    if len(candidates) == 1:
        return candidates[0]
    raise MissingHostSource(
        f"{of.type} has no kernel: {operator.kernel_folder}/{snake(of.type)}.cpp does not exist",
        cure="name the kernel's file after the operator in snake case",
    )


def tiling_header(classes: Iterable[TilingClass], of: OperatorDef, key: int, taken: set[str]) -> str:
    """The header that the vendor's build generates from tiling macros: plain structs, and which of them the operator uses by default."""
    lines, default, done = [], "", set(taken)
    for each in classes:
        if each.key == f"{of.type}_{key}" or (each.key == of.type and not default):
            default = each.name
        if each.name in done or not each.fields:
            continue
        done.add(each.name)
        members = (f"{f.type} {f.name}{f'[{f.count}]' if f.count > 1 else ''}{{}};" for f in each.fields)
        lines.append(f"struct alignas(8) {each.name} {{ {' '.join(members)} }};\n")
    if not lines and not default:
        return ""
    define = f"#define TOPROPE_DEFAULT_TILING {default}\n" if default else ""
    return '#include "kernel_tiling/kernel_tiling.h"\n' + "".join(lines) + define


def type_defines(of: OperatorDef, types: Mapping[str, GeType], formats: Mapping[str, int]) -> tuple[str, ...]:
    """The defines that the vendor's build passes for the element types and formats of one call."""
    out = []
    for tensor in (*of.inputs, *of.outputs):
        name = tensor.name.upper()
        dtype = types.get(tensor.name) or tensor.dtype(0) or GE_TYPES[0]
        out += [f"DTYPE_{name}={dtype.cpp}", f"ORIG_DTYPE_{name}=DT_{dtype.name}"]
        out.append(f"FORMAT_{name}=FORMAT_{format_name(formats.get(tensor.name, tensor.format(0)))}")
    return tuple(dict.fromkeys(out))


def project_kernel(
    checkout: Checkout,
    operator: Operator,
    of: OperatorDef,
    source: Path,
    soc: Soc,
    *,
    key: int,
    classes: Sequence[TilingClass],
    types: Mapping[str, GeType],
    formats: Mapping[str, int],
    pointers: Sequence[tuple[str, int]],
) -> ProjectKernel:
    """The kernel for one tiling key. `pointers` are the GM arguments in order, each with its number of list members (0: no list).

    Raises KeyNotCompiled, BadKernel.
    """
    include = checkout.include_folders(operator)
    texts = {f: checkout.text(f) for f in checkout.reached(source, include)}
    found = entries(source)
    named = (next((n for f, n in of.kernel_entries.items() if builds_for(f, soc.name)), ""), snake(of.type))
    entry = next((e for name in named for e in found if e.name == name), found[0])
    if len(entry.parameters) != len(pointers):
        raise BadKernel(
            f"{source.name}:{entry.line}: {entry.signature} takes {len(entry.parameters)} arguments, {of.type} has {len(pointers)}: "
            + ", ".join(name for name, _ in pointers),
            cure="a kernel takes all inputs, all outputs, workspace and tiling, in the order of the definition",
        )
    arguments, whole = "", "\n".join(texts.values())
    if entry.template:
        arguments = _template_arguments(whole, entry.template, key, of, types, source)
    elif len(found) == 1:
        _check_branches(whole, whole, key, of, source)
    else:
        own = next((f.body for f in read(texts[source.resolve()]).functions if f.name == entry.name), None)
        _check_branches(own or whole, whole, key, of, source)
    defined = {r.name for text in texts.values() for r in read(text).records}
    defines, header = type_defines(of, types, formats), tiling_header(classes, of, key, defined)
    if _plain(entry) and not any(members for _, members in pointers):
        siblings = tuple(e.name for e in found if _plain(e) and e.name != entry.name)
        return ProjectKernel(source, entry, tuple(include), defines, siblings=siblings, header=header)
    names = [p.name or f"argument{i}" for i, p in enumerate(entry.parameters)]
    parameters = []
    for name, (_, members) in zip(names, pointers, strict=True):
        parameters.append(Parameter(name, "GM_ADDR"))
        parameters += [Parameter(f"{name}_{i}", "GM_ADDR") for i in range(members)]
    function = f"{symbol_of(entry.name)}<{arguments}>" if entry.template else symbol_of(entry.name)
    passed = ", ".join(f"({p.type}){n}" if p.is_pointer else n for p, n in zip(entry.parameters, names, strict=True))
    task_type = entry.task_type
    return ProjectKernel(
        source,
        replace(entry, parameters=tuple(parameters), template="", task_type=task_type),
        tuple(include),
        defines,
        header=header,
        call=f"{function}({passed})",
    )


def _plain(entry: Entry) -> bool:
    """Whether an entry can be launched as it is: no template, and every parameter is a GM pointer."""
    return not entry.template and all(p.type == "GM_ADDR" and p.name for p in entry.parameters)


def _check_branches(text: str, whole: str, key: int, of: OperatorDef, source: Path) -> None:
    """A kernel that branches on tiling keys must have the host's key among them, as far as their values can be read from the whole text."""
    known: set[int] = set()
    for call in read(text).calls("TILING_KEY_(?:IS|LIST)"):
        for part in call.arguments:
            value = read(whole).number(part)
            if value is None:
                return  # an expression that only the compiler can evaluate
            known.add(value)
    if known and key not in known and "TILING_KEY_VAR" not in text:
        raise KeyNotCompiled(
            f"the tiling function of {of.type} chose key {key}; {source.name} has branches for {', '.join(map(str, sorted(known)))}",
            cure="add the branch TILING_KEY_IS(...) to the kernel, or set one of these keys with SetTilingKey",
        )


def _template_arguments(
    text: str, template: str, key: int, of: OperatorDef, types: Mapping[str, GeType], source: Path
) -> str:
    """The template arguments that a key stands for. Raises KeyNotCompiled when the lists have no such combination."""
    parameters, allowed = declared(text), selections(text)
    values: dict[str, str] = {}
    at = 0
    for parameter in parameters:
        bits = {"UINT": parameter.bits, "BOOL": 1}.get(parameter.kind, 8)
        number = (key >> at) & ((1 << bits) - 1)
        at += bits
        value = _value_of(parameter, number)
        if value is None:
            raise KeyNotCompiled(
                f"tiling key {key} of {of.type}: {parameter.name} has number {number}, of {len(parameter.values)} declared values",
                cure="compute the key with GET_TPL_TILING_KEY from values that ASCENDC_TPL_ARGS_DECL lists",
            )
        values[parameter.name] = value
    if allowed and not any(_allows(chosen, values, text) for chosen in allowed):
        given = ", ".join(f"{n} = {v}" for n, v in values.items())
        raise KeyNotCompiled(
            f"tiling key {key} of {of.type} stands for {given}, which no ASCENDC_TPL_ARGS_SEL of {source.name} allows",
            cure="add the combination to ASCENDC_TPL_SEL, or choose another in the tiling function",
        )
    out = []
    for part, parameter in zip(brackets.split(template), parameters, strict=False):
        value = values[parameter.name]
        if re.match(r"\s*(typename|class)\b", part):
            value = next((t.cpp for t in GE_TYPES.values() if f"C_DT_{t.name}" == value), value)
        out.append(value)
    return ", ".join(out)


def _value_of(parameter: Choice, number: int) -> str | None:
    """The declared value, as C++ text, behind a number in a key."""
    if parameter.kind == "UINT":
        return parameter.values[number] if number < len(parameter.values) else None
    if parameter.kind == "BOOL":
        return str(number)
    if parameter.kind in ("DTYPE", "DATATYPE") and number in GE_TYPES:
        name = f"C_DT_{GE_TYPES[number].name}"
        if name in parameter.values or any("ASCENDC_TPL_" in v for v in parameter.values):
            return name
    return str(number)


def _allows(chosen: Sequence[Choice], values: Mapping[str, str], text: str) -> bool:
    """Whether a selection lists the values, each by its name or number; a value that cannot be evaluated counts as listed."""
    for choice in chosen:
        given = values.get(choice.name)
        if (
            given is None
            or not choice.values
            or given in choice.values
            or any("ASCENDC_TPL_" in v for v in choice.values)
        ):
            continue
        numbers = [read(text).number(v) for v in choice.values]
        wanted = read(text).number(given)
        if given.startswith("C_") or (wanted is not None and None not in numbers and wanted not in numbers):
            return False
    return True
