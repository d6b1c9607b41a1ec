"""Compiling C++ to shared libraries, cached by content."""

from __future__ import annotations

import errno
import hashlib
import json
import os
import platform
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from toprope.cache import cache_dir, dependencies, full_or_unwritable, keep, kept, scratch, search_of, state
from toprope.commandline import nearest
from toprope.errors import BadInput, CompileFailed, NoCompiler
from toprope.vendor_paths import INCLUDE, search_folder, vendor_folders


def _processor_flags() -> tuple[str, ...]:
    """Which processor everything is compiled for: $TOPROPE_MARCH, or the one of this machine. The only place that decides it."""
    named = os.environ.get("TOPROPE_MARCH")
    if named:
        return (f"-march={named}",)
    machine = platform.machine().lower()
    if machine in ("x86_64", "amd64"):
        return ("-march=native",)
    return ("-mcpu=native",) if machine in ("aarch64", "arm64") else ()  # clang knows no -march=native for arm64


# -ffp-contract=off: a fused multiply-add would round once where the NPU rounds twice.
# -fsigned-char: what a char is must not depend on whether this machine is an x86 or an ARM.
# -fno-gnu-unique: otherwise two loaded kernels would share their inline variables.
FLAGS = (
    "-std=c++17",
    "-O2",
    "-fPIC",
    "-shared",
    *_processor_flags(),
    "-ffp-contract=off",
    "-fsigned-char",
    "-fno-math-errno",
    "-fno-trapping-math",
    "-w",
)
# -Bsymbolic: a kernel called "bind" or "select" must not be taken for the C library's function. macOS binds like this anyway; there a
# library would look for what it links to under the path that that had while it was made, so symbols are looked up when it is loaded.
LINK_FLAGS = ("-Wl,-undefined,dynamic_lookup",) if sys.platform == "darwin" else ("-Wl,-Bsymbolic",)
GCC_FLAGS = ("-fvect-cost-model=dynamic", "-fno-gnu-unique", "-fno-var-tracking")


@dataclass(frozen=True)
class Compiler:
    """A C++ compiler: the command to run and what it calls itself."""

    command: tuple[str, ...]
    version: str
    is_gcc: bool

    @property
    def least(self) -> str:
        """The oldest version that kernels compile with; empty for a compiler of this version or a newer one, or of another make."""
        oldest = 11 if self.is_gcc else 14
        found = re.search(
            r"(\d+)\.\d+",
            self.version.partition("(")[0] if "clang" in self.version else self.version.partition(")")[2],
        )
        known = self.is_gcc or "clang version" in self.version
        return str(oldest) if known and found and int(found[1]) < oldest else ""


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


def header_folders() -> tuple[Path, ...]:
    """Where every compile looks for headers: the header library, and the vendor's paths to it."""
    return INCLUDE, search_folder("any")


def host_folders() -> tuple[Path, ...]:
    """Where host code looks as well: the headers of the host API, and the vendor's paths to them."""
    return INCLUDE / "host", search_folder("host")


def is_ours(path: str) -> bool:
    """Whether a file that a compiler names belongs to the header library."""
    return path.startswith((str(INCLUDE), str(vendor_folders())))


def shared_library(
    source: str | Path,
    *,
    include: Sequence[Path] = (),
    defines: Sequence[str] = (),
    extra: Sequence[str] = (),
    link: Sequence[Path] = (),
    ahead: str = "",
    object_only: bool = False,
) -> Path:
    """Compile C++ text (str) or a file (Path) into a shared library, or an object to link later, and return its path.

    The result is cached: the key is the text, the flags and the compiler; a list of the files that were included or linked,
    with their digests, is kept beside it. `ahead` names a header of the library that the text includes before anything else: the
    compiler may then begin with a copy that it has read before. Raises NoCompiler, CompileFailed.
    """
    # The header library compiles as a system folder would: its own warnings never reach the user.
    arguments = [
        *(("-c", *(f for f in FLAGS if f != "-shared")) if object_only else (*FLAGS, *LINK_FLAGS)),
        *(f"-I{Path(p).absolute()}" for p in (*header_folders(), *include)),
        *(f"-D{d}" for d in defines),
        *extra,
    ]
    text = source if isinstance(source, str) else f"#include {quoted(source.resolve())}\n"
    # A new row in the table of vendor paths makes a new folder of them; what was compiled before stays as it was read.
    keyed = [a for a in arguments if not a.startswith(f"-I{vendor_folders()}")]
    key_text = json.dumps([text, keyed, {"link": [str(p) for p in link]}, _compiler_stamp()])
    key = hashlib.sha256(key_text.encode("utf-8", "surrogateescape")).hexdigest()[:24]
    if (found := kept(key)) is not None:
        return found
    cxx, begin = compiler(), time.time_ns()
    _tell_of_zig(cxx)
    with scratch() as folder:
        unit, out, deps = folder / "unit.cpp", folder / ("out.o" if object_only else "out.so"), folder / "out.d"
        try:
            unit.write_bytes(os.fsencode(text))
        except OSError as error:
            raise full_or_unwritable(error) from None
        begun, read = _precompiled(ahead, defines, extra) if ahead and cxx.is_gcc else ((), {})
        first = [*cxx.command, *arguments, *(GCC_FLAGS if cxx.is_gcc else ())]
        linked = [str(p) for p in link if not _is_mac_library(p)]
        last = ["-MD", "-MF", str(deps), str(unit), "-o", str(out), *linked]
        try:
            compiled([*first, *begun, *last], str(unit))
        except CompileFailed as error:
            if not begun or "PCH" not in error.message:
                raise
            shutil.rmtree(Path(begun[1]).parent, ignore_errors=True)  # the copy is damaged
            begun, read = (), {}
            compiled([*first, *last], str(unit))
        return keep(key, out, *_made_of(deps, source, link, arguments, str(folder), begun, read, begin))


def _is_mac_library(path: Path) -> bool:
    """Whether a file is a 64-bit Mach-O dynamic library (not an object); see LINK_FLAGS."""
    with path.open("rb") as file:
        head = file.read(16)
    return head[:4] == b"\xcf\xfa\xed\xfe" and head[12:] == b"\x06\x00\x00\x00"


def _tell_of_zig(cxx: Compiler) -> None:
    # Its first compile builds the C++ library, for minutes and without a word.
    if "ziglang" in cxx.command and _first(cache_dir() / "zig-has-begun"):
        print("the first compile with zig also builds its C++ library: that takes a few minutes, once", file=sys.stderr)


def quoted(path: str | Path) -> str:
    """A path between quotes as #include takes it. Raises BadInput for a path that C++ has no way to write."""
    if any(c in str(path) for c in '"\n\r'):
        raise BadInput(f"C++ cannot include a path with a quote or a line break: {str(path)!r}", cure="rename it")
    return f'"{path}"'


def compiled(command: Sequence[str], unit: str = "") -> None:
    """Run a compiler. Raises CompileFailed with the user's own lines, or for a compiler that does not end."""
    limit_s = compile_limit_s()
    # A process group of its own: the compiler's own children end with it.
    with subprocess.Popen(
        command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, errors="replace", start_new_session=True
    ) as process:
        try:
            _, complaint = process.communicate(timeout=limit_s)
        except BaseException as error:
            os.killpg(process.pid, signal.SIGKILL)
            if not isinstance(error, subprocess.TimeoutExpired):
                raise
            raise CompileFailed(
                f"the compiler did not end within {limit_s:g} s",
                cure="a slow machine: raise TOPROPE_COMPILE_LIMIT (seconds); else look for a template or constexpr without an end",
                code="compile-time-limit",
            ) from None
    if process.returncode == 0:
        return
    if "No space left on device" in complaint:
        raise full_or_unwritable(OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)))
    raise CompileFailed(_readable(complaint, unit), cure=_cure(complaint))


def compile_limit_s() -> float:
    """Seconds that one run of the compiler may take: $TOPROPE_COMPILE_LIMIT or 600. Raises BadInput."""
    text = os.environ.get("TOPROPE_COMPILE_LIMIT") or "600"
    try:
        limit_s = float(text)
    except ValueError:
        limit_s = 0.0
    if not 0 < limit_s < float("inf"):
        raise BadInput(f"TOPROPE_COMPILE_LIMIT={text} is no number of seconds", cure="for example 600")
    return limit_s


def _made_of(
    deps: Path,
    source: str | Path,
    link: Sequence[Path],
    arguments: Sequence[str],
    folder: str,
    begun: Sequence[str],
    read: dict[str, str],
    begin: int,
) -> tuple[dict[str, str], dict[str, Any]]:
    """What a finished compile was made of, for the cache; nothing if that is not known for certain."""
    ours, files = str(INCLUDE), dict(read)
    listed = [p for p in dependencies(deps.read_text(errors="surrogateescape")) if not p.startswith(folder)]
    if isinstance(source, Path):
        listed.append(str(source.resolve()))
    listed += [str(p) for p in link]  # an object keeps its path when its source changes
    try:
        for path in dict.fromkeys(listed):
            if path in begun:
                continue
            library = path.startswith((ours + os.sep, "/usr/include/", "/usr/lib/"))
            files[path] = state(path, trust_dates=library)
            # A file that was saved while the compiler ran may have been read before: such a library is built again next time.
            if not library and os.stat(path).st_ctime_ns >= begin and path not in map(str, link):
                return {}, {}
    except OSError:  # a name that was read wrongly, or a file that is gone again
        return {}, {}
    folders = [os.path.abspath(a[2:]) for a in arguments if a.startswith("-I")]
    return files, search_of([*files], folders, ours)


def _precompiled(header: str, defines: Sequence[str], extra: Sequence[str]) -> tuple[tuple[str, ...], dict[str, str]]:
    """Flags that begin a compile with `header` read already, and the digests of the files that it read; nothing if there is no copy.

    A copy is some 40 MB and takes as long as three compiles save, so it is made when the same header is wanted with the same
    flags for the second time. The compiler itself leaves a copy aside that other defines would have changed.
    """
    chosen = [d for d in defines if d.startswith(("__NPU_ARCH__=", "TOPROPE_"))]
    flags = [*(f for f in FLAGS if f != "-shared"), *GCC_FLAGS, f"-I{INCLUDE}", *(f"-D{d}" for d in chosen), *extra]
    use = hashlib.sha256(json.dumps([header, flags, _compiler_stamp()]).encode()).hexdigest()[:12]
    dated = [(str(p), s.st_size, s.st_mtime_ns) for p in sorted(INCLUDE.rglob("*.h")) if (s := p.stat())]
    version = hashlib.sha256(json.dumps(dated).encode()).hexdigest()[:12]
    folder = cache_dir() / "precompiled" / f"{use}-{version}"
    copy, files = folder / "ahead.h", folder / "files.json"
    try:
        if not files.exists():
            folder.mkdir(parents=True, exist_ok=True)
            if _first(folder / "wanted") or not _first(folder / "made"):
                return (), {}
            copy.write_text(f'#include "{header}"\n')
            partial, deps = folder / "partial", folder / "ahead.d"
            compiled(
                [
                    *compiler().command,
                    *flags,
                    "-MD",
                    "-MF",
                    str(deps),
                    "-x",
                    "c++-header",
                    str(copy),
                    "-o",
                    str(partial),
                ]
            )
            for old in folder.parent.glob(f"{use}-*/ahead.h.gch"):
                old.unlink(missing_ok=True)
            os.replace(partial, folder / "ahead.h.gch")
            listed = [p for p in dependencies(deps.read_text(errors="surrogateescape")) if p != str(copy)]
            deps.write_text(json.dumps({p: state(p, trust_dates=True) for p in listed}))
            os.replace(deps, files)
        return ("-include", str(copy)), dict(json.loads(files.read_text()))
    except (OSError, ValueError, CompileFailed):  # a disk that is full, a torn file: compile without a copy
        return (), {}


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


def _cure(complaint: str) -> str:
    """What to do about a compiler's first complaint, for the mistakes that beginners make."""
    if missing := re.search(r"error: '?([\w./]+\.h)'?(?: file not found|: No such file)", complaint):
        known = [*(f.name for f in INCLUDE.glob("*.h")), *(f.name for f in vendor_folders().rglob("*.h"))]
        near = nearest(Path(missing[1]).name, known)
        return f"correct the #include{near}" if near else "check the #include; -I FOLDER adds a folder to look in"
    first = re.search(r"^([^\s:][^:]*):(\d+):(?:\d+:)? (?:fatal )?error: ", complaint, re.M)
    file = Path(first[1]) if first else None
    text = file.read_text(errors="replace") if file and file.is_file() and not is_ours(str(file)) else ""
    if re.search(
        r"‘?'?(?:__aicore__|GM_ADDR|__gm__|__global__|AscendC)\b.*(?:name a type|declared|undeclared|unknown type)",
        complaint,
    ) and not re.search(r"#\s*include[^\n]*(?:kernel_operator|asc|tiling)", text):
        return 'begin the file with #include "kernel_operator.h"'
    plain = re.sub(r"//[^\n]*|/\*.*?\*/", lambda m: re.sub(r"[^\n]", " ", m[0]), text, flags=re.S)
    plain = re.sub(r'"(?:\\.|[^"\\\n])*"|(?<!\d)\'(?:\\.|[^\'\\\n])+\'', '""', plain)
    if wide := re.search(r"[；，（）。：“”【】｛｝＜＞＝＋－×＊]", plain):
        line = plain[: wide.start()].count("\n") + 1
        return f"line {line} has the wide character {wide[0]}: type it on an English keyboard"
    if text and (more := plain.count("{") - plain.count("}")):
        return f"{file.name if file else ''} has {abs(more)} {'{' if more > 0 else '}'} too many: look for the bracket that is not closed"
    if called := re.search(r"no matching (?:member )?function for call to ['‘](?:[\w:]+::)?(\w+)", complaint):
        return f"correct the line above: `toprope api {called[1]}` shows what {called[1]} accepts (the element types of all tensors, the count)"
    return "correct the lines above; `toprope api NAME` shows what a function accepts"


def _readable(stderr: str, unit: str, limit: int = 8) -> str:
    """A compiler's complaint in terms of the user's own lines: errors inside the header library name the call that led there."""
    out: list[str] = []
    call_site = ""
    lines = stderr.splitlines()
    for i, line in enumerate(lines):
        if (required := _REQUIRED.match(line)) and not is_ours(required["file"]):
            call_site = f"{required['file']}:{required['line']}"
        found = re.match(r"^([^\s:][^:]*):(\d+):(?:\d+:)? (fatal error|error): (.*)$", line)
        if not found:
            if re.search(r"undefined (reference|symbol)", line):
                out.append(line.split(":", 1)[-1].strip())
            continue
        file, number, _, text = found.groups()
        text = text.replace("static assertion failed: ", "")
        if is_ours(file) or file == unit:
            out.append(f"{call_site or 'kernel'}: {text}")
        else:
            excerpt = [x for x in lines[i + 1 : i + 3] if re.match(r"^\s*\d*\s*\|", x)]
            out.append("\n".join([f"{file}:{number}: {text}", *excerpt]))
        call_site = ""
    unique = list(dict.fromkeys(out)) or [stderr.strip()[-2000:]]
    more = f"\n... and {len(unique) - limit} more errors" if len(unique) > limit else ""
    return "the source does not compile\n" + "\n".join(unique[:limit]) + more
