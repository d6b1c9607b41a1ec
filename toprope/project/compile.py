"""Compiling the kernels of a checkout: the unit that stands for the vendor's build, and the first thing that is wrong with it."""

from __future__ import annotations

import hashlib
import os
import re
import subprocess
import threading
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

from toprope.build import FLAGS, INCLUDE, cache_dir, compiler
from toprope.errors import BadKernel
from toprope.project.checkout import Checkout
from toprope.project.operators import Operator
from toprope.project.template_keys import first_arguments
from toprope.soc import Soc
from toprope.source import TASK_TYPES, Entry, entries

_ERROR = re.compile(r"^(?P<file>[^\s:][^:]*):(?P<line>\d+):(?:\d+:)? (?:fatal )?error: (?P<text>.*)$", re.M)
TIME_LIMIT_S = 180


@dataclass(frozen=True)
class Unit:
    """What has to be compiled for one kernel: text, include folders, defines."""

    text: str
    include: tuple[Path, ...]
    defines: tuple[str, ...]
    core_types: tuple[str, ...]


@dataclass(frozen=True)
class Problem:
    """Why a kernel does not compile: the first error as the compiler says it, its place, and its kind for the ranking."""

    kind: str
    text: str
    place: str


def unit_of(checkout: Checkout, operator: Operator, kernel: Path, soc: Soc, combination: int = 0) -> Unit:
    """The translation unit of a kernel. Raises BadKernel when the source has no readable entry."""
    include = checkout.include_folders(operator)
    definition = operator.definition(soc.name)
    header = checkout.tiling_header(operator, kernel, include)
    found = [e for e in entries(kernel)]
    keys = "\n".join(checkout.text(f) for f in checkout.reached(kernel, include) if "ASCENDC_TPL" in checkout.text(f))
    lines = []
    for entry in found:
        if entry.template:
            arguments = first_arguments(keys, entry.template, definition, combination)
            lines.append(f"inline auto toprope_instance_of_{entry.name}() {{ return &{entry.name}<{arguments}>; }}\n")
    text = f'{header}#include "{kernel}"\n{"".join(lines)}'
    defines = definition.defines(combination) if definition else ()
    return Unit(text, tuple(include), defines, _core_types(found, soc))


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
    ours = place.startswith(str(INCLUDE))
    if ours or place.startswith("/usr"):
        callers = re.findall(r"^(\S+?):(\d+):\d+:   required from", stderr[: found.start()], re.M)
        outside = [f"{f}:{n}" for f, n in callers if not f.startswith((str(INCLUDE), "/usr"))]
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
        f"-I{INCLUDE}",
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
    header = precompiled(soc.npu_arch, core_type, tuple(flags))
    command = [
        *compiler().command,
        *flags,
        "-include",
        str(header),
        *(f"-I{p}" for p in unit.include),
        *(f"-D{d}" for d in unit.defines),
        "-fsyntax-only",
        "-x",
        "c++",
        "-",
    ]
    try:
        done = subprocess.run(
            command, input=unit.text, capture_output=True, text=True, timeout=TIME_LIMIT_S, errors="replace"
        )
    except subprocess.TimeoutExpired:
        return Problem("compiler time limit", f"the compiler did not end within {TIME_LIMIT_S} s", "")
    return None if done.returncode == 0 else first_problem(done.stderr)


def problem_of(checkout: Checkout, operator: Operator, kernel: Path, soc: Soc) -> Problem | None:
    """Compile a kernel with the first declared combination of types that it accepts; the problem of the first combination otherwise."""
    definition = operator.definition(soc.name)
    tries = sorted({0, (definition.combinations if definition else 1) - 1})
    first: Problem | None = None
    for combination in tries:
        try:
            unit = unit_of(checkout, operator, kernel, soc, combination)
        except BadKernel as error:
            return Problem("no readable entry", error.message, "")
        found = _settled_problem(checkout, operator, kernel, unit, soc)
        if found is None:
            return None
        first = first or found
        if found.kind.startswith(("header", "member")) and combination == 0:
            break  # another type would not bring a missing header
    return first


def _settled_problem(checkout: Checkout, operator: Operator, kernel: Path, unit: Unit, soc: Soc) -> Problem | None:
    """The problem that is left after what the vendor's build would add: include folders, the CPU build's defines, a fixed tiling key."""
    found = syntax_problem(unit, soc)
    for _ in range(12):
        if found is None:
            return None
        if missing := re.match(r"header (\S+)", found.kind):
            folder = checkout.folder_of_header(missing.group(1), operator)
            if folder is None or folder in unit.include:
                return found
            unit = replace(unit, include=(*unit.include, folder))
        elif ("‘<’ token" in found.text or "address_’" in found.text) and "ASCENDC_CPU_DEBUG=1" not in unit.defines:
            # Host code with <<<>>> that the vendor's CPU build leaves out.
            unit = replace(unit, defines=(*unit.defines, "__CCE_KT_TEST__=1", "ASCENDC_CPU_DEBUG=1"))
        elif "in preprocessor expressions" in found.text and "TILING_KEY_VAR" not in unit.text:
            # The vendor compiles once per key, so that the key may stand in #if.
            key = re.search(
                r"#\s*(?:el)?if[^\n]*TILING_KEY_\w+\W+(\d+)",
                "\n".join(checkout.text(f) for f in checkout.reached(kernel, list(unit.include))),
            )
            unit = replace(
                unit,
                text=f"#undef TILING_KEY_VAR\n#define TILING_KEY_VAR {key.group(1) if key else 0}ULL\n#undef TILING_KEY_IS\n#define TILING_KEY_IS(key) (TILING_KEY_VAR == (key))\n{unit.text}",
            )
        else:
            return found
        found = syntax_problem(unit, soc)
    return found
