"""Compiling the kernels of a checkout: the unit that stands for the vendor's build, and the first thing that is wrong with it."""

from __future__ import annotations

import hashlib
import os
import re
import subprocess
import threading
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

from toprope.build import FLAGS, compiler, header_folders, host_folders, is_ours
from toprope.cache import cache_dir
from toprope.errors import BadKernel
from toprope.project.checkout import Checkout
from toprope.project.operators import Operator
from toprope.project.template_keys import first_arguments
from toprope.soc import Soc
from toprope.source import TASK_TYPES, Entry, entries
from toprope.unit import symbol_of, text_of
from toprope.vendor_paths import INCLUDE

_ERROR = re.compile(r"^(?P<file>[^\s:][^:]*):(?P<line>\d+):(?:\d+:)? (?:fatal )?error: (?P<text>.*)$", re.M)
_MARKER = re.compile(r'^# (\d+) "([^"]*)"')
# What the vendor's compiler takes and GCC does not: the attribute of device functions, constants without an initialiser, and a call
# operator specialised for each core type inside its class.
_DEVICE_ATTRIBUTE = re.compile(r"\[\s*(?:host\s*,\s*)?aicore\s*\]")
_UNINITIALISED = re.compile(r"(\bstatic\s+constexpr\s+\w[\w:]*(?:<[^<>;]*>)?\s+\w+)\s*;")
_CORE_TYPE_CALL = re.compile(
    r"template\s*<\s*int32_t\s+\w+\s*=\s*(?:AscendC::)?g_coreType\s*>[^;{}]*?\boperator\s*\(\)\s*\([^;{}]*?\)\s*;"
)
# A class template specialised inside a class: GCC takes only partial specialisations there, so both get one more parameter.
_INNER_SPECIAL = re.compile(r"^([ \t]+)template\s*<\s*>(\s*(?:struct|class)\s+(\w+)\s*)<([^{};]*)>(\s*\{)", re.M)
_CORE_TYPE_BODY = re.compile(r"template\s*<\s*>([^;{}]*?\boperator\s*\(\)\s*)<\s*([\w:]+)\s*>")
_NEEDS_KEY = re.compile(r"in preprocessor expressions|launch_info’ is not usable in a constant")
_NEEDS_TRANSLATION = re.compile(
    r"before ‘\[’ token|must have an initializer|compiler failed|structured binding|in non-namespace scope"
)
# What the vendor's build has in reach of every kernel, by the name that kernels use without an include of theirs.
_IN_REACH = {
    "name Hccl": '#include "lib/hccl.h"\n',
    "name ASC_DEVKIT_MAJOR": "#define ASC_DEVKIT_MAJOR 0\n#define ASC_DEVKIT_MINOR 0\n#define ASC_DEVKIT_PATCH 0\n",
    "name OP_LOGD": "#define OP_LOGD(...) static_cast<void>(0)\n",
}
TIME_LIMIT_S = 180
TYPE_TRIES = 6  # combinations of element types that are tried, besides the last


@dataclass(frozen=True)
class Unit:
    """What has to be compiled for one kernel: text, include folders, defines."""

    text: str
    include: tuple[Path, ...]
    defines: tuple[str, ...]
    core_types: tuple[str, ...]
    translated: bool = False  # compiled behind the preprocessor, with what only the vendor's compiler takes rewritten


@dataclass(frozen=True)
class Problem:
    """Why a kernel does not compile: the first error as the compiler says it, its place, and its kind for the ranking."""

    kind: str
    text: str
    place: str


def unit_of(
    checkout: Checkout, operator: Operator, kernel: Path, soc: Soc, combination: int = 0, more: tuple[Path, ...] = ()
) -> Unit:
    """The translation unit of a kernel; `more` are further include folders. Raises BadKernel when the source has no readable entry."""
    include = (*checkout.include_folders(operator), *host_folders(), *more)
    definition = operator.definition(soc.name)
    header = checkout.tiling_header(operator, kernel, list(include))
    found = _entries(checkout, kernel, include)
    defines = definition.defines(combination) if definition else ()
    unit = Unit(header + text_of(kernel, include), include, defines, ())
    if any(e.template for e in found):
        expanded = _preprocessed(unit, soc, "aiv" if soc.split else "coupled", ("-DTOPROPE_KEEP_TPL=1",))
        if expanded is not None:
            active = _active_lines(expanded, kernel)
            found = [e for e in found if e.line in active] or found
            keys = _outside_system(expanded)
        else:
            reached = checkout.reached(kernel, list(include))
            keys = "\n".join(checkout.text(f) for f in reached if "ASCENDC_TPL" in checkout.text(f))
    lines = []
    # Entries that the operator's own entry calls are instantiated by it, with the arguments that it has for them.
    for entry in [e for e in found if e.name == operator.name] or found:
        if entry.template:
            template = _parameters(keys, entry)
            arguments = first_arguments(keys, template, definition, combination, _dtype_names())
            lines.append(
                f"inline auto toprope_instance_of_{entry.name}() {{ return &{symbol_of(entry.name)}<{arguments}>; }}\n"
            )
    return replace(unit, text=unit.text + "".join(dict.fromkeys(lines)), core_types=_core_types(found, soc))


def _outside_system(expanded: str) -> str:
    """What the preprocessor left of files that are neither the system's nor this library's, without its line markers."""
    kept, foreign = [], False
    for line in expanded.splitlines():
        if found := _MARKER.match(line):
            foreign = found.group(2).startswith("/usr/") or is_ours(found.group(2))
        elif not foreign and not line.startswith("#"):
            kept.append(line)
    return "\n".join(kept)


def _parameters(text: str, entry: Entry) -> str:
    """The template parameters of an entry with its macros expanded, if `text` is the source behind the preprocessor."""
    # A kernel returns nothing: `void` keeps methods and functions of its name out.
    found = re.search(rf"\btemplate\s*<([^<>{{}};]*)>[^;{{}}<>]{{0,300}}?\bvoid\s+{symbol_of(entry.name)}\s*\(", text)
    return found.group(1) if found else entry.template


def _entries(checkout: Checkout, kernel: Path, include: tuple[Path, ...]) -> list[Entry]:
    """The entries of a kernel source, or of the first file that it includes which has any."""
    try:
        return entries(kernel)
    except BadKernel:
        for file in checkout.reached(kernel, list(include)):
            if "__global__" in checkout.text(file):
                return entries(file)
        raise


@cache
def _dtype_names() -> dict[str, str]:
    """The number of a dtype, as the preprocessor leaves it, to its name."""
    text = (INCLUDE / "api" / "kernel_macros.h").read_text()
    return {number: name for name, number in re.findall(r"#define DT_(\w+) (\d+)", text)}


def _preprocessed(unit: Unit, soc: Soc, core_type: str, more: tuple[str, ...] = ()) -> str | None:
    """The unit's text behind the preprocessor, with line markers; None if that fails."""
    command = [*compiler().command, *_flags(soc, core_type), *more, "-include", "kernel_operator.h", "-E", "-x", "c++"]
    command += [*(f"-I{p}" for p in unit.include), *(f"-D{d}" for d in unit.defines), "-"]
    done = subprocess.run(
        command, input=unit.text, capture_output=True, text=True, timeout=TIME_LIMIT_S, errors="replace", check=False
    )
    return done.stdout if done.returncode == 0 else None


def _active_lines(expanded: str, file: Path) -> set[int]:
    """The lines of a file that the preprocessor kept (text, not blanks)."""
    active: set[int] = set()
    here, line = False, 0
    for text in expanded.splitlines():
        if found := _MARKER.match(text):
            here, line = found.group(2) == str(file), int(found.group(1))
            continue
        if here and text.strip():
            active.add(line)
        line += 1
    return active


def syntax_problem(unit: Unit, soc: Soc) -> Problem | None:
    """Compile (without code generation) for every core type that the kernel runs on; the first problem, or None."""
    for core_type in unit.core_types:
        done = _run_compiler(unit, soc, core_type)
        if done is not None:
            return done
    return None


def first_problem(stderr: str) -> Problem:
    """The first error of a compiler's output, with names and numbers taken out for its kind."""
    found = _ERROR.search(stderr)
    if found is None:
        return Problem("compiler failed", stderr.strip()[-300:], "")
    text = found["text"].replace("static assertion failed: ", "")
    place = found["file"]
    if is_ours(place) or place.startswith("/usr"):
        callers = re.findall(r"^(\S+?):(\d+):\d+:   required from", stderr[: found.start()], re.M)
        outside = [f"{f}:{n}" for f, n in callers if not (is_ours(f) or f.startswith("/usr"))]
        place = outside[0] if outside else f"{place}:{found['line']}"
    else:
        place = f"{place}:{found['line']}"
    return Problem(_kind(text), text, place)


def _kind(text: str) -> str:
    for pattern, words in (
        (r"(\S+): No such file", "header {}"),
        (
            r"‘([^’]+)’ (?:was not declared|has not been declared|does not name|is not a member|is not a template)",
            "name {}",
        ),
        (r"‘([^’]+)’ in namespace ‘([^’]+)’ does not name", "name {}"),
        (r"no member named ‘([^’]+)’", "member {}"),
        (r"has no member named ‘([^’]+)’", "member {}"),
        (r"no matching function for call to ‘(?:[\w:]*::)?(\w+)", "overload {}"),
    ):
        if found := re.search(pattern, text):
            return words.format(re.sub(r"<.*", "", found.group(1)).removeprefix("AscendC::"))
    return re.sub(r"‘[^’]*’", "‘…’", text)[:100]


def _core_types(found: list[Entry], soc: Soc) -> tuple[str, ...]:
    if not soc.split:
        return ("coupled",)
    counts = [TASK_TYPES.get(e.task_type, (0, 1)) for e in found]
    aic, aiv = any(a for a, _ in counts), any(v for _, v in counts)
    return (("aiv",) if aiv else ()) + (("aic",) if aic else ()) or ("aiv",)


def _flags(soc: Soc, core_type: str) -> list[str]:
    plain = [f for f in FLAGS if f not in ("-O2", "-shared")]
    return [
        *plain,
        f"-D__NPU_ARCH__={soc.npu_arch}",
        f"-DTOPROPE_{core_type.upper()}=1",
        *(f"-I{folder}" for folder in header_folders()),
        "-fmax-errors=4",
        "-fpermissive",
    ]


@cache
def precompiled(arch: int, core_type: str, flags: tuple[str, ...]) -> Path:
    """kernel_operator.h, compiled ahead: reading it is most of the time of a syntax check."""
    digest = hashlib.sha256(f"{arch}{core_type}{flags}".encode())
    for file in sorted(INCLUDE.rglob("*")):
        if file.is_file():
            digest.update(file.read_bytes())
    folder = cache_dir() / "precompiled" / digest.hexdigest()[:16]
    header = folder / "kernel_header.h"
    with _lock:
        if not (folder / "kernel_header.h.gch").exists():
            folder.mkdir(parents=True, exist_ok=True)
            header.write_text('#include "kernel_operator.h"\n')
            partial = folder / f"{os.getpid()}.gch"
            command = [*compiler().command, *flags, "-x", "c++-header", str(header), "-o", str(partial)]
            subprocess.run(command, capture_output=True, check=False)
            if partial.exists():
                os.replace(partial, folder / "kernel_header.h.gch")
    return header


_lock = threading.Lock()


def _run_compiler(unit: Unit, soc: Soc, core_type: str) -> Problem | None:
    flags = _flags(soc, core_type)
    text = unit.text
    if unit.translated:
        expanded = _preprocessed(unit, soc, core_type)
        if expanded is None:
            return Problem("compiler failed", "the preprocessor ended with an error", "")
        text = _translated(expanded)
        command = [*compiler().command, *flags, "-fsyntax-only", "-x", "c++-cpp-output", "-"]
    else:
        header = precompiled(soc.npu_arch, core_type, tuple(flags))
        command = [*compiler().command, *flags, "-include", str(header), *(f"-I{p}" for p in unit.include)]
        command += [*(f"-D{d}" for d in unit.defines), "-fsyntax-only", "-x", "c++", "-"]
    try:
        done = subprocess.run(
            command, input=text, capture_output=True, text=True, timeout=TIME_LIMIT_S, errors="replace", check=False
        )
    except subprocess.TimeoutExpired:
        return Problem("compiler time limit", f"the compiler did not end within {TIME_LIMIT_S} s", "")
    return None if done.returncode == 0 else first_problem(done.stderr)


def _translated(expanded: str) -> str:
    """The text behind the preprocessor in the C++ that GCC takes."""
    expanded = "".join(_partial(part) for part in _parts_by_owner(expanded))
    text = _UNINITIALISED.sub(r"\1{};", _DEVICE_ATTRIBUTE.sub("", expanded))
    text = _CORE_TYPE_CALL.sub("", text)
    chosen = r"template <int32_t TopropeCore = g_coreType, std::enable_if_t<TopropeCore == (\2), int> = 0>\1"
    return _CORE_TYPE_BODY.sub(chosen, text)


def _parts_by_owner(expanded: str) -> Iterator[str]:
    """The text in runs of lines, cut where it changes between the system's headers, which begin with their marker, and others."""
    part: list[str] = []
    foreign = False
    for line in expanded.splitlines(keepends=True):
        if (found := _MARKER.match(line)) and found.group(2).startswith("/usr/") != foreign:
            yield "".join(part)
            part, foreign = [], not foreign
        part.append(line)
    yield "".join(part)


def _partial(text: str) -> str:
    """Full specialisations inside classes as partial ones, which GCC takes: template and specialisation get one more parameter."""
    first = _MARKER.match(text)
    if first and first.group(2).startswith("/usr/"):
        return text
    for name in dict.fromkeys(found.group(3) for found in _INNER_SPECIAL.finditer(text)):
        general = rf"(template\s*<[^<>{{}}]*[^<>{{}}\s][^<>{{}}]*)>(\s*(?:struct|class)\s+{name}\s*\{{)"
        text = re.sub(general, r"\1, typename = void>\2", text)
    return _INNER_SPECIAL.sub(r"\1template <typename TopropeAny>\2<\4, TopropeAny>\5", text)


def problem_of(checkout: Checkout, operator: Operator, kernel: Path, soc: Soc) -> Problem | None:
    """Compile a kernel with the first declared combination of types that it accepts; the problem of the first combination otherwise."""
    definition = operator.definition(soc.name)
    count = definition.combinations if definition else 1
    tries = dict.fromkeys([0, count - 1, *range(1, min(count, TYPE_TRIES))])
    first: Problem | None = None
    for combination in tries:
        try:
            found = _settled_problem(checkout, operator, kernel, soc, combination)
        except BadKernel as error:
            return Problem("no readable entry", error.message, "")
        if found is None:
            return None
        first = first or found
        if found.kind.startswith(("header", "member", "name", "compiler")) and combination == 0:
            break  # another type would not bring a missing header or name
    return first


def _settled_problem(
    checkout: Checkout, operator: Operator, kernel: Path, soc: Soc, combination: int
) -> Problem | None:
    """The problem that is left after what the vendor's build would add: include folders, the CPU build's defines, a fixed tiling key."""
    more: tuple[Path, ...] = ()
    unit = unit_of(checkout, operator, kernel, soc, combination)
    found = syntax_problem(unit, soc)
    for _ in range(12):
        if found is None:
            return None
        if missing := re.match(r"header (\S+)", found.kind):
            folder = checkout.folder_of_header(missing.group(1), operator)
            if folder is None or folder in unit.include:
                return found
            more = (*more, folder)
            unit = unit_of(checkout, operator, kernel, soc, combination, more)
        elif ("‘<’ token" in found.text or "address_’" in found.text) and "ASCENDC_CPU_DEBUG=1" not in unit.defines:
            # Host code with <<<>>> that the vendor's CPU build leaves out.
            unit = replace(unit, defines=(*unit.defines, "__CCE_KT_TEST__=1", "ASCENDC_CPU_DEBUG=1"))
        elif _NEEDS_KEY.search(found.text) and "TILING_KEY_VAR" not in unit.text:
            unit = replace(unit, text=_with_fixed_key(checkout, kernel, unit))
        elif missing := re.match(r"name ((?:ORIG_)?DTYPE_\w+)", found.kind):
            # Declared by code that a reader does not follow; float is what such lists nearly always begin with.
            value = "DT_FLOAT" if missing.group(1).startswith("ORIG") else "float"
            unit = replace(unit, defines=(*unit.defines, f"{missing.group(1)}={value}"))
        elif (line := _IN_REACH.get(found.kind)) and line not in unit.text:
            unit = replace(unit, text=line + unit.text)
        elif _NEEDS_TRANSLATION.search(found.text + found.kind) and not unit.translated:
            unit = replace(unit, translated=True)
        else:
            return found
        found = syntax_problem(unit, soc)
    return found


def _with_fixed_key(checkout: Checkout, kernel: Path, unit: Unit) -> str:
    """The unit for one tiling key: the vendor compiles once per key, so that the key may stand in #if and in if constexpr."""
    whole = "\n".join(checkout.text(f) for f in checkout.reached(kernel, list(unit.include)))
    key = re.search(r"(?:#\s*(?:el)?if|if\s+constexpr)[^\n]*TILING_KEY_\w+\W+(\d+)", whole)
    return (
        f"#undef TILING_KEY_VAR\n#define TILING_KEY_VAR {key.group(1) if key else 0}ULL\n"
        f"#undef TILING_KEY_IS\n#define TILING_KEY_IS(key) (TILING_KEY_VAR == (key))\n{unit.text}"
    )
