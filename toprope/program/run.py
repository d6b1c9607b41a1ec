"""Compile a host program and run it in a child process; every kernel it launches runs on the software NPU, checked and timed."""

from __future__ import annotations

import ctypes as c
import faulthandler
import hashlib
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from toprope import runtime
from toprope.build import host_folders, shared_library
from toprope.cache import cache_dir
from toprope.errors import BadInput, CompileFailed
from toprope.finding import Finding, Place, codes
from toprope.kernel import SYSTEM_WORKSPACE_BYTES, Kernel, Run, load
from toprope.program import aclnn, source
from toprope.project.host import chip_numbers
from toprope.project.loaded import ProjectOperator
from toprope.soc import Soc
from toprope.source import TASK_TYPES, Entry
from toprope.trace import CoreRow
from toprope.unit import RENAMED

NAMED_KERNEL = re.compile(r"\bkernel = &?(.*?)[\];]*$")
_OTHERS = "block of "  # how a device block is called that no argument of the launch points to
DEBUG_LINES = ("-g1", "-fpermissive", "-fno-omit-frame-pointer")


@dataclass(frozen=True)
class LaunchRow:
    """One kernel launch of a program: name, blocks, predicted microseconds, the line that launched it."""

    kernel: str
    blocks: int
    microseconds: float
    file: str
    line: int


@dataclass
class ProgramRun:
    """What a run of a program gave. `code` is main's value, or minus the signal that ended it; `timed_out` says who sent that."""

    code: int = 0
    launches: list[LaunchRow] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)
    timed_out: bool = False

    @property
    def errors(self) -> int:
        """Findings of severity error."""
        return sum(f.severity == "error" for f in self.findings)


class _Memory(c.Structure):
    _fields_ = [("at", c.c_void_p), ("bytes", c.c_uint64), ("file", c.c_char_p), ("line", c.c_int), ("use", c.c_int)]


class _Launch(c.Structure):
    _fields_ = [
        ("name", c.c_char_p),
        ("entry", c.c_void_p),
        ("blocks", c.c_uint32),
        ("arguments", c.POINTER(c.c_void_p)),
        ("argument_bytes", c.POINTER(c.c_uint64)),
        ("argument_count", c.c_uint32),
        ("memory", c.POINTER(_Memory)),
        ("memory_count", c.c_uint64),
        ("file", c.c_char_p),
        ("line", c.c_int),
        ("us", c.c_double),
    ]


_HOOK = c.CFUNCTYPE(c.c_int, c.POINTER(_Launch))


@dataclass
class Built:
    """A compiled program. `others` are the kernels of other sources, `operators` what it calls through aclnn, by name."""

    program: source.Program
    include: tuple[Path, ...]
    soc: Soc
    library: Path
    others: dict[str, Kernel]
    operators: dict[str, ProjectOperator]
    defines: tuple[str, ...] = ()

    def twin(self, core_type: str) -> Path:
        """The same sources built for another core type: kernels that use cube and vector need both."""
        return _compiled(self.program, self.include, self.soc, core_type, self.defines)


def build(
    sources: Sequence[Path],
    soc: Soc,
    *,
    include: Sequence[Path] = (),
    defines: Sequence[str] = (),
    projects: Sequence[Path] = (),
) -> Built:
    """Compile a program; find the kernels that it launches by name and the projects it calls. Raises BadInput, BadKernel, CompileFailed."""
    host = [s for s in sources if source.is_program(s)]
    if not host:
        raise BadInput(f"none of {', '.join(map(str, sources))} has a main function", cure="name the host source first")
    program = source.read([s for s in sources if s in host or not _is_kernel_only(s)])
    others: dict[str, Kernel] = {}
    for name in program.launched:
        file = source.kernel_source(name, sources, program.folders)
        others[name] = load(file, include=include, defines=defines)[name]
    operators = aclnn.projects_for(aclnn.wanted([program.text, *program.headers]), projects, host)
    program = replace(program, text=aclnn.with_generated(program.text, operators))
    generated = _launch_headers([k.entry for k in others.values()]) + aclnn.header_folder(operators)
    folders = (*generated, *include, *_beside(program.folders))
    flags, core_type = tuple(defines), "aiv" if soc.split else "coupled"
    while True:
        try:
            library = _compiled(program, folders, soc, core_type, flags)
        except CompileFailed as error:
            added = _folder_of_missing(error, program.folders)
            if added is None or added in folders:
                raise
            folders = (*folders, added)
            continue
        return Built(program, folders, soc, library, others, operators, flags)


def _folder_of_missing(error: CompileFailed, around: Sequence[Path]) -> Path | None:
    """The include folder that a missing header asks for, if the header lies in one of the folders above the sources."""
    missing = re.search(r"(\S+\.h\w*): No such file", error.message)
    if not missing:
        return None
    wanted = Path(missing[1])
    for folder in around:
        for above in list(folder.parents)[:3]:
            for found in sorted(above.glob(f"*/{wanted}")) + sorted(above.glob(f"*/*/{wanted}")):
                return found.parents[len(wanted.parts) - 1]
    return None


def _is_kernel_only(file: Path) -> bool:
    return file.is_file() and "__global__" in file.read_text(errors="replace")


def _beside(folders: Sequence[Path]) -> list[Path]:
    """The sources' folders, and the inc and include folders beside them that samples keep their headers in."""
    found = []
    for folder in folders:
        around = (folder, folder / "inc", folder / "include", folder.parent / "inc", folder.parent / "include")
        found += [f for f in around if f.is_dir()]
    return list(dict.fromkeys(found))


def _launch_headers(found: Sequence[Entry]) -> list[Path]:
    if not found:
        return []
    texts = {f"aclrtlaunch_{e.name}.h": source.launch_header(e) for e in found}
    folder = cache_dir() / ("launch-" + hashlib.sha256(json.dumps(texts).encode()).hexdigest()[:16])
    folder.mkdir(exist_ok=True)
    for name, text in texts.items():
        if not (folder / name).exists():
            (folder / name).write_text(text)
    return [folder]


_ASKS_FOR_CHIP = re.compile(r"#\s*include[^\n]*(platform_ascendc|tiling_api|platform_info)")
_CHIP = """#include "host/state.h"
extern "C" __attribute__((used)) void toprope_program_set_chip(const toprope::host::Chip* chip) { toprope::host::chip = *chip; }
"""


def _compiled(
    program: source.Program, folders: Sequence[Path], soc: Soc, core_type: str, defines: Sequence[str] = ()
) -> Path:
    chip = _CHIP if any(_ASKS_FOR_CHIP.search(t) for t in (program.text, *program.headers)) else ""
    return shared_library(
        f'#include "acl/launch.h"\n{chip}{program.text}',
        include=(*folders, *host_folders()),
        defines=(f"__NPU_ARCH__={soc.npu_arch}", f"TOPROPE_{core_type.upper()}=1", "TOPROPE_HOST_PROGRAM=1", *defines),
        extra=DEBUG_LINES,
        link=(runtime.library_path(),),
    )


def run_program(
    sources: Sequence[Path],
    soc: Soc,
    *,
    arguments: Sequence[str] = (),
    include: Sequence[Path] = (),
    defines: Sequence[str] = (),
    projects: Sequence[Path] = (),
    time_limit_s: float = 60.0,
    host_limit_s: float = 600.0,
) -> ProgramRun:
    """Compile and run a program in the current folder; its output goes to this process's. Limits: of one launch, and of the whole.

    `projects` are operator projects whose aclnn functions it calls; those in folders around it are found. Raises BadInput, CompileFailed.
    """
    built = build(sources, soc, include=include, defines=defines, projects=projects)
    sys.stdout.flush()
    read_end, write_end = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(read_end)
        _child(built, [str(sources[0]), *arguments], write_end, time_limit_s)
    os.close(write_end)
    lines, timed_out = _lines(child, read_end, host_limit_s)
    _, status = os.waitpid(child, 0)
    result = _result(lines, built.library)
    result.code = os.waitstatus_to_exitcode(status)
    result.timed_out = timed_out
    if timed_out:
        message = f"the program did not end within {host_limit_s:g} s"
        result.findings.append(Finding("program-time-limit", "error", message, (), codes()["program-time-limit"].cure))
    if result.code < 0 and not timed_out:
        name = signal.Signals(-result.code).name
        message = f"the host program died of {name}"
        if result.code == -signal.SIGABRT:
            message += ", as abort() and an exception that nobody catches do"
        result.findings.append(Finding("program-crash", "error", message, (), codes()["program-crash"].cure))
    return result


def _child(built: Built, argv: list[str], report: int, time_limit_s: float) -> None:
    """Everything that happens in the child; does not return."""
    code = 3
    faulthandler.disable()  # a crash is reported by the parent
    try:
        os.environ["TOPROPE_PROGRAM_SOC"] = "Ascend" + built.soc.name.removeprefix("ascend").upper()
        library = runtime.load_kernel_library(built.library)
        launcher = _Launcher(built, library, report, time_limit_s)
        hook = _HOOK(launcher)
        library.toprope_program_set(hook, report, c.c_int64(built.soc.aic), c.c_int64(built.soc.aiv))
        if hasattr(library, "toprope_program_set_chip"):
            library.toprope_program_set_chip(c.byref(chip_numbers(built.soc)))
        calls = aclnn.HOOK(aclnn.Calls(built.operators, built.soc, partial(_say, report)))
        if built.operators:
            library.toprope_program_set_aclnn(calls)
        values = (c.c_char_p * (len(argv) + 1))(*[a.encode() for a in argv], None)
        code = library.main(len(argv), values)
        library.toprope_program_end()
    except OSError as error:  # the library does not load: a function is declared and nowhere defined
        missing = re.search(r"undefined symbol: (\S+)", str(error))
        _say(report, {"broken": f"it calls {missing[1]}, which no source given defines" if missing else str(error)})
    except BaseException as error:
        _say(report, {"broken": f"{type(error).__name__}: {error}"})
    finally:
        sys.stdout.flush()
        os._exit(code & 0xFF)


def _say(report: int, value: dict[str, Any]) -> None:
    data = ("J\t" + json.dumps(value) + "\n").encode()
    while data:
        data = data[os.write(report, data) :]


class _Launcher:
    """The hook: runs one launch of the program."""

    def __init__(self, built: Built, library: c.CDLL, report: int, time_limit_s: float) -> None:
        self.built, self.library, self.report, self.time_limit_s = built, library, report, time_limit_s
        self.twins: dict[str, c.CDLL] = {}

    def __call__(self, pointer: Any) -> int:
        call = pointer.contents
        try:
            self._launch(call)
        except Exception as error:  # nothing may fly into the C++ caller
            _say(self.report, {"refused": str(error), "file": (call.file or b"").decode(), "line": call.line})
            return 507000  # a failed launch
        return 0

    def _launch(self, call: _Launch) -> None:
        given = (call.name or b"").decode()
        shown = given
        if match := NAMED_KERNEL.search(given):
            shown = match[1]
        simple = re.sub(r"<.*", "", shown).split("::")[-1].strip().removeprefix(RENAMED)
        other = self.built.others.get(simple) if not call.entry else None
        entry = other.entry if other else self.built.program.entries.get(simple)
        cores, ratio, mixed = _cores(entry, call.blocks, self.built.soc)
        if call.blocks < 1:
            raise BadInput("a launch of 0 blocks", cure="give at least one block")
        entries = {t: self._address(t, call, given, other) for t in {core.type for core in cores}}
        memory = call.memory[: call.memory_count]
        names = [p.name for p in entry.parameters] if entry else []
        gm = _arguments(call, memory, names)
        trace = runtime.run(
            runtime.Launch(
                kernel=shown,
                entries=entries,
                arguments=[call.arguments[i] or 0 for i in range(call.argument_count)],
                gm=gm,
                cores=cores,
                blocks=call.blocks,
                ratio=ratio,
                mixed=mixed,
                time_limit_s=self.time_limit_s,
                system_workspace=np.zeros(SYSTEM_WORKSPACE_BYTES, np.uint8) if mixed else None,
            ),
            self.built.soc,
        )
        run = Run(shown, self.built.soc, call.blocks, {}, trace)
        _note_use(run, memory)
        call.us = float(run.timeline.microseconds)
        # Every device block is GM to the launch; that it leaves others' blocks alone is no news.
        findings = [asdict(f) | {"data": {}} for f in run.findings if f"the argument {_OTHERS}" not in f.message]
        row = LaunchRow(shown, call.blocks, call.us, (call.file or b"").decode(), call.line)
        _say(self.report, {"launch": asdict(row), "findings": findings})

    def _address(self, core_type: str, call: _Launch, name: str, other: Kernel | None) -> int:
        if other is not None:
            library = other.library(self.built.soc, core_type)
            _check_sizes(other, library, call)
            return c.cast(getattr(library, f"toprope_call_{other.name}"), c.c_void_p).value or 0
        if core_type != "aic":
            return int(call.entry)
        if core_type not in self.twins:
            self.twins[core_type] = runtime.load_kernel_library(self.built.twin(core_type))
        self.twins[core_type].toprope_program_kernel.restype = c.c_void_p
        return int(self.twins[core_type].toprope_program_kernel(name.encode()) or 0)


def _cores(entry: Entry | None, blocks: int, soc: Soc) -> tuple[list[CoreRow], int, bool]:
    """The cores of a launch, AIVs per AI core, and whether both core types run."""
    if not soc.split:
        return [CoreRow(b, 0, "coupled") for b in range(blocks)], 1, False
    aic, aiv = TASK_TYPES[entry.task_type if entry else "KERNEL_TYPE_AIV_ONLY"]
    cores = [CoreRow(b, s, kind) for b in range(blocks) for kind, n in (("aic", aic), ("aiv", aiv)) for s in range(n)]
    return cores, max(1, aiv), bool(aic and aiv)


def _check_sizes(kernel: Kernel, library: c.CDLL, call: _Launch) -> None:
    sizes = (c.c_uint32 * 64)()
    count = getattr(library, f"toprope_sizes_{kernel.name}")(sizes)
    given = list(call.argument_bytes[: call.argument_count])
    if list(sizes[:count]) != given:
        raise BadInput(
            f"{kernel.name} takes arguments of {list(sizes[:count])} bytes, {given} were given",
            cure=f"its signature is {kernel.entry.signature}",
        )


def _arguments(call: _Launch, memory: Sequence[_Memory], names: Sequence[str]) -> list[runtime.GmArgument]:
    """All device blocks as GM; a block that an argument points to has that argument's name."""
    called: dict[int, str] = {}
    for i in range(call.argument_count):
        if call.argument_bytes[i] == 8 and i < len(names):
            value = c.cast(call.arguments[i], c.POINTER(c.c_uint64))[0]
            called |= {m.at: names[i] for m in memory if m.at <= value < m.at + m.bytes and m.at not in called}
    out = []
    for m in memory:
        name = called.get(m.at) or f"{_OTHERS}{Path((m.file or b'').decode()).name}:{m.line}"
        array = np.ctypeslib.as_array(c.cast(m.at, c.POINTER(c.c_uint8)), (m.bytes,))
        out.append(runtime.GmArgument(name, array))
    return out


def _note_use(run: Run, memory: Sequence[_Memory]) -> None:
    """Which blocks the launch read and wrote, for the checks of what the host does next."""
    ranges = run.trace.decoded()
    gm = ranges.space == 0
    address, mode = ranges.address[gm], ranges.mode[gm]
    for row, block in zip(run.trace.gm, memory, strict=False):
        inside = (address >= row.address) & (address < row.address + row.bytes)
        block.use = int(np.bitwise_or.reduce(mode[inside] & 3)) if inside.any() else 0


def _lines(child: int, read_end: int, limit_s: float) -> tuple[list[str], bool]:
    """What the child reports, until it closes the pipe; kills it when the time is over."""
    deadline, data, timed_out = time.monotonic() + limit_s, bytearray(), False
    os.set_blocking(read_end, False)
    pause = 0.001
    while True:
        try:
            piece = os.read(read_end, 1 << 16)
        except BlockingIOError:
            if time.monotonic() > deadline and not timed_out:
                os.kill(child, signal.SIGKILL)
                timed_out = True
            time.sleep(pause)
            pause = min(pause * 1.5, 0.02)
            continue
        if not piece:
            break
        data += piece
    os.close(read_end)
    return data.decode(errors="replace").splitlines(), timed_out


def _result(lines: Sequence[str], library: Path) -> ProgramRun:
    result = ProgramRun()
    merged: dict[tuple[Any, ...], Finding] = {}

    def add(finding: Finding) -> None:
        key = (finding.code, tuple((p.file, p.line) for p in finding.places), "" if finding.places else finding.message)
        known = merged.get(key)
        count = finding.count + (known.count if known else 0)
        merged[key] = Finding(**{**finding.__dict__, "count": count})

    for line in lines:
        kind, _, rest = line.partition("\t")
        if kind == "F":
            add(_host_finding(rest.split("\t"), library))
        elif kind == "J":
            value = json.loads(rest)
            if "launch" in value:
                result.launches.append(LaunchRow(**value["launch"]))
                for row in value["findings"]:
                    places = tuple(Place(**p) for p in row.pop("places"))
                    add(Finding(**{**row, "places": places, "cores": tuple(row["cores"])}))
            elif "refused" in value:
                place = Place(value["file"], value["line"], action="launches")
                add(Finding("launch-refused", "error", value["refused"], (place,), codes()["launch-refused"].cure))
            else:
                raise BadInput(
                    f"the program could not be run: {value['broken']}",
                    cure="name the sources that belong to it: toprope run main.cpp more.cpp",
                )
    result.findings = list(merged.values())
    return result


def _host_finding(fields: Sequence[str], library: Path) -> Finding:
    code, file, line, action, other, other_line, other_action, text = (*fields, *[""] * 8)[:8]
    number = int(line or 0)
    if file.startswith("@"):  # an address in the program: which line is it?
        where = _line_at(library, file[1:])
        file, number, action = (*where, "touches it") if where else (action, number, "the last ACL call before it")
    places = [Place(file, number, action=action)]
    if other:
        places.append(Place(other, int(other_line or 0), action=other_action))
    row = codes()[code]
    return Finding(code, row.severity, text, tuple(places), row.cure)


def _line_at(library: Path, offset: str) -> tuple[str, int] | None:
    """Source line of an address, if binutils are there."""
    try:
        done = subprocess.run(["addr2line", "-e", str(library), f"0x{offset}"], capture_output=True, text=True)
    except OSError:
        return None
    file, _, line = done.stdout.strip().rpartition(":")
    digits = re.match(r"\d+", line)
    return (file, int(digits[0])) if digits and int(digits[0]) and not file.startswith("?") else None
