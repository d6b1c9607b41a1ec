"""Kernel unit tests of an operator repository, run unchanged: gtest sources with ICPU_RUN_KF, their data and compare scripts.

Each test runs in its own process, so that a crash or an endless loop costs one verdict and nothing else.
"""

from __future__ import annotations

import ctypes as c
import faulthandler
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from toprope import runtime
from toprope.build import FLAGS, LINK_FLAGS, compiler, header_folders, host_folders
from toprope.check import check
from toprope.compat.compile import Problem, first_problem, precompiled, unit_of
from toprope.kernel import SYSTEM_WORKSPACE_BYTES
from toprope.project.checkout import Checkout
from toprope.project.operators import Operator
from toprope.soc import Soc
from toprope.testing.old_scripts import OLD_NUMPY, SCRIPT_MODULES
from toprope.trace import CoreRow
from toprope.unit import text_of
from toprope.vendor_paths import INCLUDE

OTHER_CHIP = re.compile(r"arch35|_apt|_950|_310p|_310b|regbase")
_MODE = re.compile(r"KernelMode::(\w+)")
MODES = ("MIX_MODE", "AIC_MODE", "AIV_MODE", "MIX_AIC_1_1")
TEST_LIMIT_S, BUILD_LIMIT_S = 60.0, 300


@dataclass(frozen=True)
class TestResult:
    """One test: verdict (passed, uncompared, findings, failed, compare-failed, no-data, crashed, time-limit, skipped, not-built), why, error findings."""

    name: str
    verdict: str
    message: str = ""
    findings: tuple[str, ...] = ()
    seconds: float = 0.0


class _Call(c.Structure):
    _fields_ = [
        ("entry", c.c_void_p),
        ("name", c.c_char_p),
        ("blocks", c.c_uint64),
        ("arguments", c.POINTER(c.c_void_p)),
        ("argument_count", c.c_uint64),
        ("tiling_key", c.c_uint64),
        ("mode", c.c_int),
        ("kernel", c.c_void_p),
        ("is_function", c.c_int),
    ]


class _Symbol(c.Structure):
    """What dladdr tells of an address."""

    _fields_ = [("file", c.c_char_p), ("base", c.c_void_p), ("name", c.c_char_p), ("address", c.c_void_p)]


_HOOK = c.CFUNCTYPE(None, c.POINTER(_Call))


def sources_of_tests(operator: Operator) -> list[Path]:
    """The unit test's own C++ files, those of other chips left out."""
    folder = operator.test_folder
    found = sorted(folder.rglob("*.cpp")) if folder.is_dir() else []
    return [
        f
        for f in found
        if not OTHER_CHIP.search(f.relative_to(folder).as_posix()) and "TEST" in f.read_text(errors="replace")
    ]


def run_tests(checkout: Checkout, operator: Operator, soc: Soc) -> list[TestResult]:
    """Build and run every kernel unit test of an operator; one "not-built" row if that fails. Empty if it has none."""
    sources = sources_of_tests(operator)
    kernels = operator.kernels(soc.name)
    if not sources or not kernels:
        return []
    results: list[TestResult] = []
    with tempfile.TemporaryDirectory(prefix="toprope-ut-") as scratch:
        for source in sources:
            results += _run_source(checkout, operator, kernels[0], source, soc, Path(scratch))
    return results


def _run_source(
    checkout: Checkout, operator: Operator, kernel: Path, source: Path, soc: Soc, scratch: Path
) -> list[TestResult]:
    built = _build(checkout, operator, kernel, source, soc, scratch)
    if isinstance(built, Problem):
        return [TestResult(source.stem, "not-built", f"{built.kind}: {built.text}")]
    here = _working_folder(checkout.root, scratch)
    modes = set(_MODE.findall(source.read_text(errors="replace")))
    mode = MODES.index(modes.pop()) if len(modes) == 1 else 0
    listed = in_child(lambda: _names(next(iter(built.values()))), here, TEST_LIMIT_S)
    if not isinstance(listed, list):
        if missing := re.search(r"undefined symbol: (\S+)", str(listed)):
            return [TestResult(source.stem, "not-built", f"no source defines {_readable_name(missing[1])}")]
        return [TestResult(source.stem, "crashed", "while loading the test")]
    out = []
    for number, name in enumerate(listed):
        begin = time.perf_counter()
        result = in_child(lambda n=number: _run_one(built, n, soc, mode), here, TEST_LIMIT_S)
        seconds = round(time.perf_counter() - begin, 2)
        if isinstance(result, dict):
            out.append(TestResult(name, result["verdict"], result["message"], tuple(result["findings"]), seconds))
        else:
            out.append(TestResult(name, "time-limit" if result == "time" else "crashed", str(result), (), seconds))
    return out


def _readable_name(symbol: str) -> str:
    """A C++ name as people write it, if binutils are there."""
    try:
        return subprocess.run(["c++filt", symbol], capture_output=True, text=True, check=True).stdout.strip() or symbol
    except (OSError, subprocess.CalledProcessError):
        return symbol


@dataclass
class _Sources:
    """What has to be compiled for one test source; folders are added while headers are missing.

    `source` is the test, `besides` what is compiled beside it: sources of the headers that it includes.
    """

    folder: Path
    files: tuple[str, ...]
    include: list[Path]
    defines: tuple[str, ...]
    source: Path
    besides: tuple[Path, ...] = ()


def _build(
    checkout: Checkout, operator: Operator, kernel: Path, source: Path, soc: Soc, scratch: Path
) -> dict[str, Path] | Problem:
    """The test as shared libraries by core type: one for kernels of vector cores, two for those that use the cube as well."""
    unit = unit_of(checkout, operator, kernel, soc)
    own = [h for h in sorted(source.parent.glob("*.h")) if "tiling" in h.name.lower()]
    # What the host's macros generate, and after it the folder's own, which may define more or the same.
    header = unit.text.split(text_of(kernel, unit.include))[0] + "".join(f'#include "{h}"\n' for h in own)
    includes_kernel = any(kernel.name in line for line in re.findall(r"#\s*include[^\n]*", checkout.text(source)))
    texts = {"test.cpp": header + text_of(source, unit.include)}
    if not includes_kernel:
        # The host's headers, which such tests may include, have enumerators of the names that kernels have as macros.
        texts["test.cpp"] = _numbers_undefined() + texts["test.cpp"]
        texts["kernel.cpp"] = header + text_of(kernel, unit.include)
    folder = Path(tempfile.mkdtemp(dir=scratch))
    for name, content in texts.items():
        (folder / name).write_text(content)
    include = [*host_folders(), source.parent, *unit.include]
    sources = _Sources(folder, tuple(texts), include, (*unit.defines, *_cmake_defines(source.parent)), source)
    built: dict[str, Path] = {}
    for core_type in (
        ("aiv", "aic") if soc.split and "aic" in unit.core_types else ("aiv",) if soc.split else ("coupled",)
    ):
        done = _compile(checkout, operator, sources, soc, core_type)
        if isinstance(done, Problem):
            return done
        built[core_type] = done
    return built


def _compile(checkout: Checkout, operator: Operator, sources: _Sources, soc: Soc, core_type: str) -> Path | Problem:
    flags = [*(f for f in FLAGS if f not in ("-O2", "-shared")), "-O1", "-fpermissive", "-fno-gnu-unique"]
    flags += [f"-D__NPU_ARCH__={soc.npu_arch}", f"-DTOPROPE_{core_type.upper()}=1"]
    flags += [f"-I{folder}" for folder in header_folders()]
    ahead = precompiled(soc.npu_arch, core_type, tuple(flags))
    out = sources.folder / f"tests_{core_type}.so"
    debug = ["-D__CCE_KT_TEST__=1", "-D__CCE_UT_TEST__=1", "-DASCENDC_CPU_DEBUG=1", "-fmax-errors=3", "-shared"]
    problem = Problem("compiler failed", "", "")
    for _ in range(16):
        command = [*compiler().command, *flags, "-include", str(ahead), *(f"-I{p}" for p in sources.include)]
        command += [*(f"-D{d}" for d in sources.defines), *debug, *LINK_FLAGS]
        command += [*(str(sources.folder / n) for n in sources.files), *map(str, sources.besides)]
        command += ["-o", str(out), str(runtime.library_path())]
        try:
            done = subprocess.run(
                command, capture_output=True, text=True, timeout=BUILD_LIMIT_S, errors="replace", check=False
            )
        except subprocess.TimeoutExpired:
            return Problem("compiler time limit", f"the compiler did not end within {BUILD_LIMIT_S} s", "")
        if done.returncode == 0:
            besides = _sources_beside(checkout, sources)
            if besides == sources.besides:
                return out
            sources.besides = besides
            continue
        problem = first_problem(done.stderr)
        if not _mended(checkout, operator, sources, problem):
            return problem
    return problem


def _sources_beside(checkout: Checkout, sources: _Sources) -> tuple[Path, ...]:
    """Sources of the test folders' headers that the test reaches: a header's namesake beside it, which the vendor's build links."""
    found = []
    for header in checkout.reached(sources.source, sources.include):
        namesake = header.with_suffix(".cpp")
        if header.suffix in (".h", ".hpp") and "tests" in header.parts and namesake.is_file():
            found.append(namesake)
    return tuple(dict.fromkeys(found))


def _mended(checkout: Checkout, operator: Operator, sources: _Sources, problem: Problem) -> bool:
    """Whether something can be done about a problem: a folder with the missing header, a struct that the test brings itself."""
    if missing := re.match(r"header (\S+)", problem.kind):
        added = checkout.folder_of_header(missing.group(1), operator)
        if added is None or added in sources.include:
            return False
        sources.include.append(added)
        return True
    if twice := re.search(r"redefinition of ‘(?:struct|class) (?:\w+::)*(\w+)’", problem.text):
        # The header that brings it stands in for the generated struct, because what is generated goes on to name it.
        file = problem.place.rpartition(":")[0]
        instead = f'#include "{file}"\n' if file.endswith((".h", ".hpp")) else ""
        generated = re.compile(rf"^struct alignas\(8\) {twice[1]} \{{[^\n]*\}};\n", re.M)
        texts = {f: f.read_text() for f in (sources.folder / n for n in sources.files)}
        changed = {f: new for f, text in texts.items() if (new := generated.sub(lambda _: instead, text)) != text}
        for f, text in changed.items():
            f.write_text(text)
        return bool(changed)
    return False


@cache
def _numbers_undefined() -> str:
    names = re.findall(r"#define ((?:DT|FORMAT)_\w+) ", (INCLUDE / "api" / "kernel_macros.h").read_text())
    return "".join(f"#undef {name}\n" for name in names)


def _cmake_defines(folder: Path) -> list[str]:
    """Defines that the test's CMake file gives for this generation, such as -DDTYPE_X=float."""
    file = folder / "CMakeLists.txt"
    text = re.sub(r"#[^\n]*", "", file.read_text(errors="replace")) if file.is_file() else ""
    for call in re.findall(r"Add\w*TestCase\s*\(([^)]*)\)", text):
        if re.search(r"910[bB]", call):
            return re.findall(r"-D(\w+(?:=[^\s\"]+)?)", call)
    return []


def _working_folder(root: Path, scratch: Path) -> Path:
    """A folder from which the relative paths of the tests (../../../../<area>/...) lead into the checkout, without writing to it."""
    top = scratch / "tree"
    here = top / "build" / "tests" / "ut" / "op_kernel"
    if not here.is_dir():
        here.mkdir(parents=True)
        for entry in root.iterdir():
            if entry.name not in ("build", ".git"):
                (top / entry.name).symlink_to(entry)
    return here


def _names(library: Path) -> list[str]:
    loaded = runtime.load_kernel_library(library)
    loaded.toprope_test_name.restype = c.c_char_p
    return [loaded.toprope_test_name(i).decode() for i in range(loaded.toprope_test_count())]


def _run_one(libraries: dict[str, Path], number: int, soc: Soc, mode: int) -> dict[str, Any]:
    builds = {core_type: runtime.load_kernel_library(path) for core_type, path in libraries.items()}
    loaded = next(iter(builds.values()))
    findings: list[str] = []
    hook = _HOOK(lambda call: findings.extend(_launch(builds, call.contents, soc)))
    loaded.toprope_set_hook(hook)
    loaded.toprope_set_mode(mode)
    code = loaded.toprope_test_run(number)
    said = (c.c_int * 3)()
    loaded.toprope_scripts(said)
    compared, compare_failed, generate_failed = said
    checked = compared or loaded.toprope_test_expectations()
    verdict, message = ("passed", "") if checked else ("uncompared", "nothing was compared")
    if findings:
        verdict, message = "findings", ", ".join(sorted(set(findings)))
    if unfinished := next((f for f in findings if f in ("kernel-crash", "kernel-time-limit", "deadlock")), None):
        verdict, message = "crashed", unfinished
    elif code == 2:
        verdict, message = "skipped", ""
    elif generate_failed:
        verdict, message = "no-data", "the data script failed"
    elif compare_failed:
        verdict, message = "compare-failed", f"{compare_failed} of {compared} comparisons failed"
    elif code == 1:
        loaded.toprope_test_message.restype = c.c_char_p
        verdict, message = "failed", (loaded.toprope_test_message() or b"").decode(errors="replace")[:300]
    return {"verdict": verdict, "message": message, "findings": sorted(set(findings))}


def _launch(builds: dict[str, c.CDLL], call: _Call, soc: Soc) -> list[str]:
    """Run one ICPU_RUN_KF on the software machine; codes of its error findings."""
    room = 256
    at, sizes = (c.POINTER(c.c_uint8) * room)(), (c.c_uint64 * room)()
    first = next(iter(builds))
    builds[first].toprope_gm_blocks.restype = c.c_uint64
    count = builds[first].toprope_gm_blocks(at, sizes, c.c_uint64(room))
    gm = [runtime.GmArgument(f"gm{i}", np.ctypeslib.as_array(at[i], (sizes[i],))) for i in range(count)]
    mode = MODES[call.mode]
    per_block = 1 if mode in ("AIV_MODE", "MIX_AIC_1_1") or not soc.split else 2
    entries = {first: call.entry}
    function = c.c_void_p(0)  # lives until the launch is over
    if "aic" in builds and mode != "AIV_MODE":
        entries["aic"] = _cube_entry(builds, call, function)
    if mode == "AIC_MODE" and "aic" in entries:
        del entries[first]
    cores = [CoreRow(b, s, first) for b in range(call.blocks) for s in range(per_block) if first in entries]
    cores += [CoreRow(b, 0, "aic") for b in range(call.blocks) if "aic" in entries]
    mixed = len(entries) > 1
    launch = runtime.Launch(
        kernel=(call.name or b"kernel").decode(),
        entries=entries,
        arguments=[call.arguments[i] or 0 for i in range(call.argument_count)],
        gm=gm,
        cores=sorted(cores, key=lambda core: (core.block, core.type, core.sub)),
        blocks=call.blocks,
        ratio=per_block,
        mixed=mixed,
        tiling_key=call.tiling_key,
        time_limit_s=TEST_LIMIT_S / 2,
        before=runtime.small_arguments(gm),
        system_workspace=np.zeros(SYSTEM_WORKSPACE_BYTES, np.uint8) if mixed else None,
    )
    trace = runtime.run(launch, soc)
    return [f.code for f in check(trace, soc, launch=launch) if f.severity == "error"]


def _cube_entry(builds: dict[str, c.CDLL], call: _Call, function: c.c_void_p) -> int:
    """The launcher of the build for cube cores that stands for a launch of the other build; `function` gets that build's kernel.

    A closure is the same object for both builds; of a function, the other build's namesake is called.
    """
    first, cube = builds[next(iter(builds))], builds["aic"]
    place, at = first.toprope_launcher_place, cube.toprope_launcher_at
    place.restype, at.restype = c.c_uint64, c.c_void_p
    kernel = call.kernel
    if call.is_function:
        symbol = _Symbol()
        address = c.cast(call.kernel, c.POINTER(c.c_void_p))[0]
        c.CDLL(None).dladdr(c.c_void_p(address), c.byref(symbol))
        namesake = getattr(cube, (symbol.name or b"").decode(), None)
        function.value = c.cast(namesake, c.c_void_p).value if namesake is not None else None
        kernel = c.addressof(function) if function.value else call.kernel
    return int(at(c.c_uint64(place(c.c_void_p(call.entry))), c.c_void_p(kernel)) or call.entry)


@contextmanager
def _quiet() -> Iterator[None]:
    sink = os.open(os.devnull, os.O_WRONLY)
    os.dup2(sink, 1)
    os.dup2(sink, 2)
    yield


def in_child(work: Any, folder: Path, limit_s: float) -> Any:
    """The JSON value of `work()` run in a child in `folder`; "time" or a signal's name if the child does not come back with one."""
    read_end, write_end = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.setsid()
            faulthandler.disable()  # a crash of the test is its verdict, not a trace of this program
            os.close(read_end)
            os.chdir(folder)
            os.environ["PATH"] = f"{Path(sys.executable).parent}:{os.environ.get('PATH', '')}"
            os.environ["PYTHONPATH"] = os.pathsep.join([str(SCRIPT_MODULES), str(OLD_NUMPY)])
            with _quiet():
                value = json.dumps(work())
            os.write(write_end, value.encode())
            os._exit(0)
        except BaseException as error:
            os.write(write_end, json.dumps(f"{type(error).__name__}: {error}").encode())
        finally:
            os._exit(1)
    os.close(write_end)
    return _collected(child, read_end, limit_s)


def _collected(child: int, read_end: int, limit_s: float) -> Any:
    deadline, pieces = time.monotonic() + limit_s, []
    os.set_blocking(read_end, False)
    ended = False
    while True:
        try:
            piece = os.read(read_end, 1 << 16)
        except BlockingIOError:
            piece = None
        if piece:
            pieces.append(piece)
            continue
        if ended:
            break
        ended = os.waitpid(child, os.WNOHANG)[0] != 0
        if not ended and time.monotonic() > deadline:
            os.killpg(child, signal.SIGKILL)
            os.waitpid(child, 0)
            os.close(read_end)
            return "time"
        if not ended:
            time.sleep(0.01)
    os.close(read_end)
    try:
        return json.loads(b"".join(pieces))
    except json.JSONDecodeError:
        return "the process died"


def totals(results: Sequence[TestResult]) -> dict[str, int]:
    """How many tests have each verdict."""
    out: dict[str, int] = {}
    for result in results:
        out[result.verdict] = out.get(result.verdict, 0) + 1
    return out
