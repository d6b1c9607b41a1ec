"""The command that stands in for the vendor's compiler (bisheng, ccec): kernels go through this machine's compiler with our headers."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import cache
from hashlib import sha256
from pathlib import Path

from toprope import cpp
from toprope.build import compiler, host_folders, is_ours, shared_library
from toprope.cache import manifest_files
from toprope.errors import BadInput, BadKernel, TopropeError
from toprope.source import TASK_TYPES, Entry, entries
from toprope.toolkit.prefix import check_current, prefix
from toprope.unit import RENAMED, expanded, symbol_of

KERNEL_SUFFIXES = (".asc", ".cce")
SOURCE_SUFFIXES = (".c", ".cc", ".cpp", ".cxx", ".C", *KERNEL_SUFFIXES)
# Of options that take the next word.
_PAIRED = {"-o", "-x", "-I", "-D", "-U", "-L", "-l", "-isystem", "-iquote", "-idirafter", "-include", "-MF", "-MT", "-MQ", "-mllvm", "-Xclang", "-Xlinker", "-T", "-u", "-z", "-target", "--sysroot", "-rpath"}  # fmt: skip
# What only the vendor's compiler takes, and what changes nothing here.
_DROPPED = re.compile(
    r"--(npu-arch|cce-|run-mode|enable-simt|gcc-toolchain|target|offload|enable-|disable-|sanitizer)|-fcce-|-dc$|--device-only$|--save-temps|-O[0-3sgz]?(fast)?$|-g\d?$|-ggdb\d?$|-march=|-mcpu=|-mllvm|-Xclang|-std=|-fPI[CE]$|-pie$|-fvisibility|-W[^l]|-w$|-rdc|-fgpu"
)
_ARCH = re.compile(r"dav-(?:c|m)?(\d+)")
_ARCH_OF = {"220": 2201, "200": 2002, "100": 1001, "310": 3510, "300": 3002, "2201": 2201, "2002": 2002, "3510": 3510, "3002": 3002, "1001": 1001}  # fmt: skip
COUPLED = (1001, 2002, 3002)
_CUBE = re.compile(
    r"\b__cube__|\b__mix__|KERNEL_TYPE_(MIX_AIC|AIC)|\bMatmul|\bMmad\b|REGIST_MATMUL_OBJ|ASCENDC_CUBE_ONLY"
)
_VENDOR_ONLY = re.compile(r"--(npu-arch|cce-|run-mode|enable-|gcc-toolchain|offload|target)|-dc$|-fcce-")
DEBUG_LINES = ("-g1", "-fpermissive", "-fno-omit-frame-pointer")


@dataclass
class Command:
    """One call of the compiler, read."""

    sources: list[tuple[Path, bool]] = field(default_factory=list)  # and whether it holds kernels
    include: list[Path] = field(default_factory=list)
    defines: list[str] = field(default_factory=list)
    rest: list[str] = field(
        default_factory=list
    )  # as given, without sources, -o and what only the vendor's compiler takes
    output: Path | None = None
    stop: str = ""  # -c, -E, -S, -M or -MM
    arch: int = 2201
    dependencies: dict[str, str] = field(default_factory=dict)
    asked: str = ""  # --version and the like


def read(arguments: Sequence[str]) -> Command:
    """Take a command line apart. Raises BadInput."""
    out, words, language = Command(), [*_expanded(arguments)], ""
    kernels = any(w.startswith(("--npu-arch", "--cce-aicore", "--cce-soc", "--run-mode")) for w in words)
    while words:
        word = words.pop(0)
        value = ""
        if word in _PAIRED:
            if not words:
                raise BadInput(f"{word} stands at the end of the command", cure="give its value")
            value = words.pop(0)
        if word in ("--version", "-v", "--help", "-dumpversion", "-dumpmachine") or word.startswith("-print-"):
            out.asked = word
        elif word == "-o":
            out.output = Path(value)
        elif word == "-x":
            language = value
        elif word in ("-c", "-E", "-S", "-M", "-MM"):
            out.stop = word
        elif word in ("-MD", "-MMD", "-MP", "-MG"):
            out.dependencies.setdefault("-MD", "")
        elif word in ("-MF", "-MT", "-MQ"):
            out.dependencies[word] = value
        elif word.startswith(("-I", "-isystem", "-iquote")):
            out.include.append(Path(value or re.sub(r"^-(I|isystem|iquote)", "", word)))
        elif word.startswith("-D"):
            out.defines.append(value or word[2:])
        elif word.startswith(("--npu-arch", "--cce-aicore-arch", "--cce-soc-version", "--cce-soc")):
            out.arch = _arch(word.partition("=")[2] or (words.pop(0) if words else ""))
        elif not word.startswith("-") and Path(word).suffix in SOURCE_SUFFIXES:
            kernel = language in ("asc", "cce") or (not language and (kernels or Path(word).suffix in KERNEL_SUFFIXES))
            out.sources.append((Path(word), kernel or Path(word).suffix in KERNEL_SUFFIXES))
        elif word in ("-mllvm", "-Xclang", "-target"):
            continue
        else:
            out.rest += [word, value] if value else [word]
    return out


def _expanded(arguments: Sequence[str]) -> Iterator[str]:
    """The words, those of response files (@file) in place."""
    import shlex

    for word in arguments:
        if word.startswith("@") and Path(word[1:]).is_file():
            yield from shlex.split(Path(word[1:]).read_text())
        else:
            yield word


def _arch(text: str) -> int:
    if (found := _ARCH.search(text)) and found[1] in _ARCH_OF:
        return _ARCH_OF[found[1]]
    lowered = text.lower()
    for name, number in (
        ("910b", 2201),
        ("910_93", 2201),
        ("310p", 2002),
        ("310b", 3002),
        ("950", 3510),
        ("910_95", 3510),
        ("910", 1001),
    ):
        if name in lowered:
            return number
    raise BadInput(
        f"{text!r} is no architecture known here",
        cure="for example --npu-arch=dav-2201 (A2, A3), dav-2002 (310P), dav-3510 (950)",
    )


def main(argv: list[str]) -> int:
    """As a compiler: 0, or 1 with the errors on stderr."""
    try:
        return _main(read(argv))
    except TopropeError as error:
        print(error, file=sys.stderr)
        return 1


def _main(command: Command) -> int:
    if command.asked or (not command.sources and not command.rest):
        print("toprope: stands in for the vendor's compiler; clang version 15.0.5 compatible (bisheng)")
        return subprocess.run([*compiler().command, command.asked or "--version"]).returncode
    if command.stop == "-c" and len(command.sources) > 1 and command.output:
        raise BadInput("-c with -o and several sources", cure="compile one source at a time")
    if command.stop and command.stop != "-c":
        return _host(command, [str(s) for s, _ in command.sources], command.stop)
    if not any(kernel for _, kernel in command.sources):
        if command.stop or not command.rest:
            return _host(command, [str(s) for s, _ in command.sources], command.stop)
        return _link(command, [str(s) for s, _ in command.sources])
    with tempfile.TemporaryDirectory() as folder:
        made = []
        for i, (source, kernel) in enumerate(command.sources):
            target = (
                command.output
                if command.stop and command.output
                else Path(f"{source.stem}.o")
                if command.stop
                else Path(folder) / f"{i}.o"
            )
            if kernel:
                compile_kernels(command, source, target)
            elif _host(command, [str(source)], "-c", target):
                return 1
            made.append(str(target))
        return 0 if command.stop else _link(command, made)


def _kept(rest: Sequence[str]) -> list[str]:
    return [w for w in rest if not _DROPPED.match(w)]


def _host(command: Command, sources: Sequence[str], stop: str, output: Path | None = None) -> int:
    """Host code: this machine's compiler, with the toolkit's headers behind the user's own."""
    rest = [w for w in command.rest if not _VENDOR_ONLY.match(w)]
    deps: list[str] = []
    if "-MD" in command.dependencies:
        deps = [
            "-MD",
            *(x for k in ("-MF", "-MT", "-MQ") if k in command.dependencies for x in (k, command.dependencies[k])),
        ]
    target = output or command.output
    words = [
        *compiler().command, *([stop] if stop else []), *rest, *(f"-D{d}" for d in command.defines), *(f"-I{p}" for p in command.include),
        f"-I{toolkit()}/include", *deps, *sources, *(["-o", str(target)] if target else []),
    ]  # fmt: skip
    return subprocess.run(words).returncode


def _link(command: Command, objects: Sequence[str]) -> int:
    complaint = link(command, objects)
    sys.stderr.write(complaint)
    return 1 if complaint and not (command.output or Path("a.out")).exists() else 0


def link(command: Command, objects: Sequence[str]) -> str:
    """Link objects with the device library into the command's output; what the linker complains about, "" if all is well."""
    lib = toolkit() / "lib64"
    output = command.output or Path("a.out")
    output.unlink(missing_ok=True)
    words = [
        *compiler().command, *objects, *(w for w in command.rest if not _VENDOR_ONLY.match(w)),
        *(["-Wl,-Bsymbolic"] if "-shared" in command.rest else []), f"-L{lib}", f"-Wl,-rpath,{lib}", "-Wl,--no-as-needed", "-lascendcl",
        "-ltoprope_machine", "-Wl,--as-needed", "-ldl", "-lpthread", "-lm", "-o", str(output),
    ]  # fmt: skip
    done = subprocess.run(words, stderr=subprocess.PIPE, text=True, errors="replace")
    return done.stderr.replace(SUFFIX, "") or ("" if done.returncode == 0 else "the linker failed")


@cache
def toolkit() -> Path:
    """The toolkit's folder, of which this command is part. Raises BadInput if it is older than the modules that run now."""
    named = os.environ.get("TOPROPE_TOOLKIT")
    if named and (Path(named) / "complete").exists():
        check_current(Path(named))
        return Path(named)
    return prefix()


SUFFIX = ".toprope_aic"


def compile_kernels(
    command: Command, source: Path, target: Path, change: Callable[[str], str] = lambda text: text
) -> None:
    """A source with kernels into one object: for each type of core that they use once. Raises CompileFailed, BadInput.

    `change` may put in other words what the compiler is to read.
    """
    if not source.is_file():
        raise BadInput(f"there is no file {source}", cure="check the path")
    found = _entries(source, command.include)
    texts = [text for _, text in reached(source, command.include)]
    both = (
        command.arch not in COUPLED
        and any("__global__" in t or "__aicore__" in t for t in texts)
        and (any(TASK_TYPES[e.task_type][0] for e, _ in found) or any(map(_CUBE.search, texts)))
    )
    kinds = ["COUPLED"] if command.arch in COUPLED else ["AIV", "AIC"] if both else ["AIV"]
    text = change(_unit(command, source, found))
    with ThreadPoolExecutor(len(kinds)) as pool:
        made = list(pool.map(lambda kind: _object(command, source, text, kind), kinds))
    target.parent.mkdir(parents=True, exist_ok=True)
    if len(made) == 1:
        target.write_bytes(made[0].read_bytes())
    else:
        _join(made[0], made[1], target, [e.name for e, _ in found] + _declared(texts))
    _write_dependencies(command, made, source, target)


def reached(source: Path, include: Sequence[Path]) -> list[tuple[Path, str]]:
    """The source and the user's files that it includes, from its folder or the include folders, comments removed."""
    queue, out = [source.resolve()], {}
    while queue:
        file = queue.pop(0)
        if file in out or is_ours(str(file)) or file.is_relative_to(toolkit()):
            continue
        out[file] = cpp.strip_comments(file.read_text(errors="replace"))
        for name in re.findall(r'^\s*#\s*include\s*["<]([^">]+)[">]', out[file], re.M):
            places = (folder / name for folder in (file.parent, *include))
            queue += [p.resolve() for p in places if p.is_file()][:1]
    return list(out.items())


def _entries(source: Path, include: Sequence[Path]) -> list[tuple[Entry, bool]]:
    """The kernels in a source and in what it includes; whether each can be named from the end of the source."""
    out: dict[str, tuple[Entry, bool]] = {}
    for file, text in reached(source, include):
        if "__global__" not in text:
            continue
        try:
            for entry in entries(file):
                out.setdefault(entry.name, (entry, not entry.template and _is_outside(text, entry.line)))
        except BadKernel:  # only declarations
            continue
    return [*out.values()]


def _declared(texts: Sequence[str]) -> list[str]:
    """Names of kernels that the texts declare or define."""
    return [f.name for t in texts if "__global__" in t for f in cpp.read(t).kernels]


def _is_outside(text: str, line: int) -> bool:
    """Whether a line is in no namespace, class or preprocessor branch, as far as brackets tell."""
    before = "\n".join(text.split("\n")[: line - 1])
    before = re.sub(r'extern\s*"C"\s*\{', "", before)
    conditions = re.findall(r"^\s*#\s*(if|endif)", before, re.M)
    return before.count("{") <= before.count("}") and conditions.count("if") <= conditions.count("endif")


def _unit(command: Command, source: Path, found: Sequence[tuple[Entry, bool]]) -> str:
    unit = sha256(str(source.resolve()).encode()).hexdigest()[:12]
    text = f'#define TOPROPE_UNIT "{unit}"\n#include "acl/launch.h"\n' + expanded(
        source.resolve(), set(), tuple(command.include)
    )
    for entry, nameable in found:
        aic, aiv = TASK_TYPES[entry.task_type]
        names = ",".join(p.name for p in entry.parameters)
        text += f'TOPROPE_REGISTER({entry.name}, {aic}, {aiv}, {command.arch}, "{names}")\n'
        if nameable:
            text += f"TOPROPE_REGISTER_ENTRY({entry.name}, {symbol_of(entry.name)})\n"
    return text


def _object(command: Command, source: Path, text: str, kind: str) -> Path:
    rest = [
        w
        for w in _kept(command.rest)
        if not w.startswith(("-l", "-L", "-Wl,", "-shared")) and not w.endswith((".o", ".a", ".so"))
    ]
    return shared_library(
        text,
        include=(source.resolve().parent, *_users(command.include), *host_folders(), toolkit() / "generated"),
        defines=(f"__NPU_ARCH__={command.arch}", f"TOPROPE_{kind}=1", "TOPROPE_HOST_PROGRAM=1", *command.defines),
        extra=(*DEBUG_LINES, *rest),
        object_only=True,
    )


def _users(include: Sequence[Path]) -> list[Path]:
    """The include folders without the toolkit's own: a compile of kernels reads the headers that those are copies of."""
    own = toolkit().resolve()
    return [p for p in include if not p.resolve().is_relative_to(own)]


def _join(first: Path, second: Path, target: Path, kernels: Sequence[str]) -> None:
    """One object of the builds for vector and cube cores. All names that the second defines, and the kernels that it calls, get a suffix."""
    listed = subprocess.run(["nm", str(second)], capture_output=True, text=True, check=True).stdout
    marks = {f"{len(n)}{n}" for k in kernels for n in (k, RENAMED + k)} | {n for k in kernels for n in (k, RENAMED + k)}
    renamed, weak = [], []
    for line in listed.splitlines():
        kind, name = line.split()[-2:]
        if kind not in "Uwv":
            if kind.isupper() or kind in "uvw":
                renamed.append(name)
        elif name in marks or (name.startswith("_Z") and any(m in name for m in marks if m[0].isdigit())):
            renamed.append(name)
            weak.append(name)
    with tempfile.TemporaryDirectory() as folder:
        names, other = Path(folder) / "names", Path(folder) / "aic.o"
        names.write_text("".join(f"{n} {n}{SUFFIX}\n" for n in dict.fromkeys(renamed)))
        subprocess.run(
            ["objcopy", *(f"--weaken-symbol={n}" for n in weak), f"--redefine-syms={names}", str(second), str(other)],
            check=True,
        )
        subprocess.run(["ld", "-r", str(first), str(other), "-o", str(target)], check=True)


def _write_dependencies(command: Command, made: Sequence[Path], source: Path, target: Path) -> None:
    if "-MD" not in command.dependencies:
        return
    files = [f for m in made for f in manifest_files(m)] or [str(source.resolve())]
    name = command.dependencies.get("-MT") or command.dependencies.get("-MQ") or str(target)
    listed = " \\\n  ".join(f.replace(" ", "\\ ") for f in dict.fromkeys([str(source.resolve()), *files]))
    Path(command.dependencies.get("-MF") or target.with_suffix(".d")).write_text(f"{name}: {listed}\n")
