"""Compiling C++ to shared libraries, cached by content."""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from pathlib import Path

from toprope.errors import CompileFailed, NoCompiler

INCLUDE = Path(__file__).parent / "ascendc"
# -ffp-contract=off: a fused multiply-add would round once where the NPU rounds twice.
# -fno-gnu-unique: otherwise two loaded kernels would share their inline variables.
FLAGS = (
    "-std=c++17",
    "-O2",
    "-fPIC",
    "-shared",
    "-march=native",
    "-ffp-contract=off",
    "-fno-math-errno",
    "-fno-trapping-math",
    "-w",
)
# -Bsymbolic: a kernel called "bind" or "select" must not be taken for the C library's function. Other linkers bind like this anyway.
LINK_FLAGS = () if sys.platform == "darwin" else ("-Wl,-Bsymbolic",)
GCC_FLAGS = ("-fvect-cost-model=dynamic", "-fno-gnu-unique", "-fno-var-tracking")


@dataclass(frozen=True)
class Compiler:
    """A C++ compiler: the command to run and what it calls itself."""

    command: tuple[str, ...]
    version: str
    is_gcc: bool


@cache
def compiler() -> Compiler:
    """The C++ compiler of this machine: $TOPROPE_CXX, $CXX, g++, clang++ or the `ziglang` package. Raises NoCompiler."""
    wanted = [os.environ.get("TOPROPE_CXX"), os.environ.get("CXX"), "g++", "clang++"]
    commands: list[tuple[str, ...]] = [tuple(w.split()) for w in wanted if w]
    if find_spec("ziglang"):
        commands.append((sys.executable, "-m", "ziglang", "c++"))
    for command in commands:
        if len(command) == 1 and shutil.which(command[0]) is None:
            continue
        try:
            done = subprocess.run([*command, "--version"], capture_output=True, text=True, check=True)
        except (OSError, subprocess.CalledProcessError):
            continue
        first = done.stdout.splitlines()[0] if done.stdout else " ".join(command)
        return Compiler(command, first, "Free Software Foundation" in done.stdout)
    raise NoCompiler(
        "this machine has no C++ compiler, and kernels are C++",
        cure="install one (Debian: apt-get install g++; macOS: xcode-select --install) or run: pip install 'toprope[compiler]'",
    )


def cache_dir() -> Path:
    """Where compiled libraries are kept: $TOPROPE_CACHE or the user's cache folder."""
    root = os.environ.get("TOPROPE_CACHE")
    path = Path(root) if root else Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "toprope"
    path.mkdir(parents=True, exist_ok=True)
    return path


def _digest_of(path: str) -> str:
    try:
        return hashlib.sha256(Path(path).read_bytes()).hexdigest()
    except OSError:
        return "missing"


def shared_library(
    source: str | Path,
    *,
    include: Sequence[Path] = (),
    defines: Sequence[str] = (),
    extra: Sequence[str] = (),
    link: Sequence[Path] = (),
    ahead: str = "",
) -> Path:
    """Compile C++ text (str) or a file (Path) into a shared library and return its path.

    The result is cached: the key is the text, the flags and the compiler; a list of the files that were included or linked,
    with their digests, is kept beside it. `ahead` names a header of the library that the text includes before anything else: the
    compiler may then begin with a copy that it has read before. Raises NoCompiler, CompileFailed.
    """
    # The header library compiles as a system folder would: its own warnings never reach the user.
    arguments = [
        *FLAGS,
        *LINK_FLAGS,
        f"-I{INCLUDE}",
        *(f"-I{p}" for p in include),
        *(f"-D{d}" for d in defines),
        *extra,
    ]
    text = source if isinstance(source, str) else f'#include "{source.resolve()}"\n'
    key_text = json.dumps([text, arguments, {"link": [str(p) for p in link]}, _compiler_stamp()])
    key = hashlib.sha256(key_text.encode()).hexdigest()[:24]
    library, manifest = cache_dir() / f"{key}.so", cache_dir() / f"{key}.json"
    if library.exists() and manifest.exists():
        included: dict[str, str] = json.loads(manifest.read_text())
        if all(_digest_of(path) == digest for path, digest in included.items()):
            return library
    cxx, begin = compiler(), time.time_ns()
    with tempfile.TemporaryDirectory(dir=cache_dir()) as scratch:
        unit, out, deps = Path(scratch) / "unit.cpp", Path(scratch) / "out.so", Path(scratch) / "out.d"
        unit.write_text(text)
        begun, read = _precompiled(ahead, defines, extra) if ahead and cxx.is_gcc else ((), {})
        command = [
            *cxx.command,
            *arguments,
            *(GCC_FLAGS if cxx.is_gcc else ()),
            *begun,
            "-MMD",
            "-MF",
            str(deps),
            str(unit),
            "-o",
            str(out),
            *map(str, link),
        ]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode != 0:
            raise CompileFailed(
                _readable(done.stderr, str(unit)),
                cure="correct the lines above; `toprope api NAME` shows what a function accepts",
            )
        listed = deps.read_text().replace("\\\n", " ").split(":", 1)[1].split()
        ours = str(INCLUDE)  # may itself be installed below /usr
        files = {p: _digest_of(p) for p in listed if p.startswith(ours) or not p.startswith(("/usr/", scratch))}
        files = {p: digest for p, digest in files.items() if p not in begun} | read
        files |= {str(p): _digest_of(str(p)) for p in link}  # an object keeps its path when its source changes
        partial = Path(scratch) / "manifest.json"
        partial.write_text(json.dumps(files))
        os.replace(out, library)
        # A file that was saved while the compiler ran may have been read before: such a library is built again next time.
        if all(os.stat(p).st_mtime_ns < begin for p in files if os.path.exists(p)):
            os.replace(partial, manifest)
    return library


def _precompiled(header: str, defines: Sequence[str], extra: Sequence[str]) -> tuple[tuple[str, ...], dict[str, str]]:
    """Flags that begin a compile with `header` read already, and the digests of the files that it read; nothing if there is no copy.

    A copy is some 40 MB and takes as long as three compiles save, so it is made when the same header is wanted with the same
    flags for the second time. The compiler itself leaves a copy aside that other defines would have changed.
    """
    chosen = [d for d in defines if d.startswith(("__NPU_ARCH__=", "TOPROPE_"))]
    flags = [*(f for f in FLAGS if f != "-shared"), *GCC_FLAGS, f"-I{INCLUDE}", *(f"-D{d}" for d in chosen), *extra]
    use = hashlib.sha256(json.dumps([header, flags, _compiler_stamp()]).encode()).hexdigest()[:12]
    state = [(str(p), s.st_size, s.st_mtime_ns) for p in sorted(INCLUDE.rglob("*.h")) if (s := p.stat())]
    version = hashlib.sha256(json.dumps(state).encode()).hexdigest()[:12]
    folder = cache_dir() / "precompiled" / f"{use}-{version}"
    copy, files = folder / "ahead.h", folder / "files.json"
    if not files.exists():
        folder.mkdir(parents=True, exist_ok=True)
        if _first(folder / "wanted") or not _first(folder / "made"):
            return (), {}
        copy.write_text(f'#include "{header}"\n')
        partial, deps = folder / "partial", folder / "ahead.d"
        command = [*compiler().command, *flags, "-MMD", "-MF", str(deps), "-x", "c++-header", str(copy), "-o"]
        if subprocess.run([*command, str(partial)], capture_output=True).returncode != 0:
            return (), {}
        for old in folder.parent.glob(f"{use}-*/ahead.h.gch"):
            old.unlink(missing_ok=True)
        os.replace(partial, folder / "ahead.h.gch")
        listed = deps.read_text().replace("\\\n", " ").split(":", 1)[1].split()
        deps.write_text(json.dumps({p: _digest_of(p) for p in listed if p.startswith(str(INCLUDE))}))
        os.replace(deps, files)
    return ("-include", str(copy)), json.loads(files.read_text())


def _first(mark: Path) -> bool:
    # Of all processes that ask, one is told yes, once.
    try:
        mark.open("x").close()
    except FileExistsError:
        return False
    return True


@cache
def _compiler_stamp() -> str:
    # Asking the compiler for its version takes longer than a cached run; its file's date and size tell as much.
    found = shutil.which(os.environ.get("TOPROPE_CXX") or os.environ.get("CXX") or "g++")
    if found is None:
        return compiler().version
    status = os.stat(found)
    return f"{found}:{status.st_size}:{status.st_mtime_ns}:{_cpu()}"


@cache
def _cpu() -> str:
    # -march=native binds a library to the processor's features.
    try:
        flags = re.search(r"^(?:flags|Features)\s*:(.*)$", Path("/proc/cpuinfo").read_text(), re.M)
    except OSError:
        flags = None
    return hashlib.sha256((flags.group(1) if flags else "").encode()).hexdigest()[:8]


_REQUIRED = re.compile(r"^(?P<file>[^\s:][^:]*):(?P<line>\d+):(?:\d+:)?\s+required from")


def _readable(stderr: str, unit: str, limit: int = 8) -> str:
    """A compiler's complaint in terms of the user's own lines: errors inside the header library name the call that led there."""
    ours = str(INCLUDE)
    out: list[str] = []
    call_site = ""
    lines = stderr.splitlines()
    for i, line in enumerate(lines):
        if (required := _REQUIRED.match(line)) and not required["file"].startswith(ours):
            call_site = f"{required['file']}:{required['line']}"
        found = re.match(r"^([^\s:][^:]*):(\d+):(?:\d+:)? (fatal error|error): (.*)$", line)
        if not found:
            if re.search(r"undefined (reference|symbol)", line):
                out.append(line.split(":", 1)[-1].strip())
            continue
        file, number, _, text = found.groups()
        text = text.replace("static assertion failed: ", "")
        if file.startswith(ours) or file == unit:
            out.append(f"{call_site or 'kernel'}: {text}")
        else:
            excerpt = [x for x in lines[i + 1 : i + 3] if re.match(r"^\s*\d*\s*\|", x)]
            out.append("\n".join([f"{file}:{number}: {text}", *excerpt]))
        call_site = ""
    unique = list(dict.fromkeys(out)) or [stderr.strip()[-2000:]]
    more = f"\n... and {len(unique) - limit} more errors" if len(unique) > limit else ""
    return "the source does not compile\n" + "\n".join(unique[:limit]) + more
