"""toprope run of a host program: its sources through the compiler stand-in, linked with the device library, run under the recorder."""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import tempfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from toprope.cache import cache_dir
from toprope.errors import BadInput, CompileFailed
from toprope.project.loaded import ProjectOperator
from toprope.soc import Soc
from toprope.source import Entry, entries
from toprope.toolkit import aclnn, source
from toprope.toolkit.compiler import Command, compile_kernels, link, toolkit
from toprope.toolkit.execute import run
from toprope.toolkit.session import Finished


@dataclass(frozen=True)
class Program:
    """What belongs to a program: its sources, the folders it includes from, and the operators it calls through aclnn, by file name."""

    sources: tuple[Path, ...]
    include: tuple[Path, ...]
    operators: dict[str, ProjectOperator]


def gather(sources: Sequence[Path], *, include: Sequence[Path] = (), projects: Sequence[Path] = ()) -> Program:
    """Find the kernels that a program launches by name and the projects it calls. Raises BadInput, BadKernel, CompileFailed."""
    host = [s for s in sources if source.is_program(s)]
    if not host:
        raise BadInput(f"none of {', '.join(map(str, sources))} has a main function", cure="name the host source first")
    program = source.read(sources)
    others: dict[Path, None] = {}
    named: list[Entry] = []
    for name in program.launched:
        file = source.kernel_source(name, sources, program.folders)
        others[file] = None
        named += [e for e in entries(file) if e.name == name]
    for file in dict.fromkeys(s.resolve() for s in sources):
        if file not in others and any(e.name in program.launched for e in source.kernels(file)):
            others[file] = None
    named += [
        e for e in program.entries.values() if e.name in program.by_name and e.name not in {n.name for n in named}
    ]
    operators = aclnn.projects_for(aclnn.wanted(program.headers), projects, host)
    generated = _launch_headers(named) + aclnn.header_folder(operators)
    given = [s for s in sources if s.resolve() not in others]
    return Program((*given, *others), (*generated, *include, *_beside(program.folders)), operators)


def build(program: Program, soc: Soc, *, defines: Sequence[str] = ()) -> Path:
    """Compile and link a program; cached by what it is linked from. Raises CompileFailed, BadInput."""
    with tempfile.TemporaryDirectory(prefix="toprope-") as folder:
        objects = _objects(program, soc, Path(folder), defines)
        digest = hashlib.sha256(str(toolkit()).encode())
        for file in objects:
            digest.update(Path(file).read_bytes())
        place = cache_dir() / "programs" / digest.hexdigest()[:24] / program.sources[0].stem
        if place.exists():
            return place
        command = Command(output=Path(folder) / "program", arch=soc.npu_arch)
        if complaint := link(command, objects):
            missing = re.search(r"undefined (?:reference to|symbol:?) [`']?([^`'\n]+)", complaint)
            what = f"it calls {missing[1]}, which no source given defines" if missing else complaint.strip()
            raise BadInput(
                f"the program could not be built: {what}",
                cure="name the sources that belong to it: toprope run main.cpp more.cpp",
            )
        place.parent.mkdir(parents=True, exist_ok=True)
        partial = place.with_name(f"partial-{os.getpid()}")
        shutil.copy(Path(folder) / "program", partial)
        os.replace(partial, place)
        return place


def _objects(program: Program, soc: Soc, target: Path, defines: Sequence[str]) -> list[str]:
    folders = program.include
    while True:
        command = Command(include=list(folders), defines=list(defines), arch=soc.npu_arch)

        def compiled(file: Path, command: Command = command) -> str:
            place = target / f"{hashlib.sha256(str(file).encode()).hexdigest()[:12]}.o"
            compile_kernels(command, file, place, lambda text: aclnn.with_generated(text, program.operators))
            return str(place)

        try:
            with ThreadPoolExecutor(2) as pool:
                return list(pool.map(compiled, program.sources))
        except CompileFailed as error:
            added = _folder_of_missing(error, [s.resolve().parent for s in program.sources])
            if added is None or added in folders:
                raise
            folders = (*folders, added)


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
    quiet: bool = False,
) -> Finished:
    """Compile and run a program in the current folder; its output goes to this process's, if `quiet` to standard error. Limits: of one launch, and of the whole.

    `projects` are operator projects whose aclnn functions it calls; those in folders around it are found. Raises BadInput, CompileFailed.
    """
    program = gather(sources, include=include, projects=projects)
    return run(
        [str(build(program, soc, defines=defines)), *arguments],
        soc=soc.name,
        limit_s=host_limit_s,
        environment={"TOPROPE_TIME_LIMIT": f"{time_limit_s:g}"},
        operators=dict(program.operators),
        quiet=quiet,
    )


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
