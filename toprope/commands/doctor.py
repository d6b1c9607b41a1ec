"""toprope doctor: what is on this machine, what works with it, what is missing and the one command that fixes each."""

from __future__ import annotations

import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from importlib.metadata import PackageNotFoundError, requires, version
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.table import Table

from toprope.build import compiler
from toprope.cache import cache_dir
from toprope.commandline import Parser, document
from toprope.errors import NoCompiler, TopropeError
from toprope.kernel import load
from toprope.language import say
from toprope.toolkit.prefix import built, is_ours

# Package -> (extra that brings it, "" for the core; what works with it).
PACKAGES = {
    "numpy": ("", "everything"),
    "ml_dtypes": ("", "bfloat16 and float8"),
    "rich": ("", "reports in the terminal"),
    "pytest": ("testing", "toprope test"),
    "pytest-xdist": ("testing", "toprope test -n"),
    "torch": ("torch", "torch references, toprope serve"),
    "starlette": ("serve", "toprope serve"),
    "textual": ("tui", "toprope explore"),
    "ray": ("ray", "toprope test --on ray"),
}
CANN_HOMES = (
    "/usr/local/Ascend/cann",
    "/usr/local/Ascend/ascend-toolkit/latest",
    "~/Ascend/cann",
    "~/Ascend/ascend-toolkit/latest",
)
KERNEL = """
#include "kernel_operator.h"
extern "C" __global__ __aicore__ void toprope_doctor(GM_ADDR x) {
    AscendC::GlobalTensor<float> gm;
    gm.SetGlobalBuffer((__gm__ float*)x, 64);
    AscendC::TPipe pipe;
    AscendC::TQue<AscendC::TPosition::VECIN, 1> in;
    AscendC::TQue<AscendC::TPosition::VECOUT, 1> out;
    pipe.InitBuffer(in, 1, 256);
    pipe.InitBuffer(out, 1, 256);
    AscendC::LocalTensor<float> a = in.AllocTensor<float>();
    AscendC::DataCopy(a, gm, 64);
    in.EnQue(a);
    a = in.DeQue<float>();
    AscendC::LocalTensor<float> b = out.AllocTensor<float>();
    AscendC::Adds(b, a, 1.0f, 64);
    out.EnQue(b);
    in.FreeTensor(a);
    b = out.DeQue<float>();
    AscendC::DataCopy(gm, b, 64);
    out.FreeTensor(b);
}
"""


@dataclass(frozen=True)
class Check:
    """One line of the diagnosis: what was looked for, what was found, what works with it, and how to get it.

    `needed` says whether the main job (run, check, profile) depends on it.
    """

    what: str
    found: str
    ok: bool
    needed: bool
    fix: str
    gives: str = ""


def checks(*, run_a_kernel: bool = True) -> list[Check]:
    """Look at the machine; the last line compiles and runs a small kernel."""
    rows = [_python(), _compiler(), *map(_package, PACKAGES), _cache(), _debugger(), _cann(), _toolkit(), _npu()]
    if run_a_kernel and all(r.ok for r in rows if r.needed):
        rows.append(_kernel())
    return rows


def _python() -> Check:
    ok = sys.version_info >= (3, 11)
    return Check("Python", platform.python_version(), ok, True, _install("python3.12", "python@3.12"), "everything")


def _compiler() -> Check:
    gives = "toprope run, check, profile, new, test, compat"
    fix = (
        "xcode-select --install"
        if sys.platform == "darwin"
        else _install("g++", "gcc")
        if _may_install()
        else _pip("compiler")
    )
    try:
        found = compiler()
    except NoCompiler:
        return Check("C++ compiler", "none", False, True, fix, gives)
    text = f"{found.version}; version {found.least} is needed" if found.least else found.version
    return Check("C++ compiler", text, not found.least, True, fix, gives)


def _package(name: str) -> Check:
    extra, gives = PACKAGES[name]
    fix = _pip(extra) if extra else f"{Path(sys.executable).name} -m pip install --force-reinstall toprope"
    try:
        found = version(name)
    except PackageNotFoundError:
        return Check(name, "none", False, not extra, fix, gives)
    least = _least(name)
    ok = least is None or _numbers(found) >= _numbers(least)
    return Check(name, found if ok else f"{found}, {least} is needed", ok, not extra, fix, gives)


def _cache() -> Check:
    try:
        cache = cache_dir()
        free = shutil.disk_usage(cache).free / (1 << 30)
        ok = os.access(cache, os.W_OK) and free > 0.5
        found = f"{cache}, {free:.1f} GiB free"
    except OSError as error:
        ok, found = False, f"cannot be made: {error}"
    return Check(
        "compile cache",
        found,
        ok,
        True,
        "export TOPROPE_CACHE=/a/folder/you/may/write",
        "no second compile of the same source",
    )


def _debugger() -> Check:
    found = shutil.which("addr2line")
    return Check(
        "addr2line",
        found or "none",
        bool(found),
        False,
        _install("binutils", "binutils"),
        "the line where host code touches device memory",
    )


def _toolkit() -> Check:
    gives = "cmake, make and ./demo of programs made for CANN"
    place = built()
    if place is None:
        return Check("toprope toolkit", "not built yet", False, False, 'eval "$(toprope env)" builds it, once', gives)
    on = " (in this environment)" if os.environ.get("ASCEND_HOME_PATH") == str(place) else ""
    return Check("toprope toolkit", f"{place}{on}", True, False, "", gives)


def _cann() -> Check:
    named = os.environ.get("ASCEND_HOME_PATH", "")
    homes = [*([] if is_ours(Path(named)) else [named]), *CANN_HOMES]
    home = next((h for p in homes if p and (h := Path(p).expanduser()).is_dir()), None)
    if home is None:
        return Check(
            "CANN toolkit",
            "none",
            False,
            False,
            "nothing here needs it; from hiascend.com to build for an NPU",
            "./build.sh of a project: packages for a real NPU",
        )
    text = "".join(f.read_text(errors="replace") for f in (home / "version.cfg", home / "version.info") if f.is_file())
    number = re.search(r"(\d+\.\d[\w.]*)", text)
    return Check(
        "CANN toolkit",
        f"{home}" + (f", {number[1]}" if number else ""),
        True,
        False,
        "",
        "./build.sh of a project: packages for a real NPU",
    )


def _npu() -> Check:
    gives = "comparison with measured times"
    tool = shutil.which("npu-smi")
    devices = sorted(Path("/dev").glob("davinci[0-9]*"))
    if tool is None and not devices:
        return Check("Ascend NPU", "none", False, False, "none needed: this is a software NPU", gives)
    name = ""
    if tool is not None:
        try:
            listed = subprocess.run([tool, "info"], capture_output=True, text=True, timeout=20).stdout
            name = ", ".join(dict.fromkeys(re.findall(r"\b(?:910|310|950)\w*\b", listed)))
        except (OSError, subprocess.TimeoutExpired):
            name = "npu-smi does not answer"
    return Check("Ascend NPU", f"{len(devices)} devices {name}".strip(), True, False, "", gives)


def _kernel() -> Check:
    """The whole way once: compile, run, check, time."""
    fix = "toprope run examples/01_add/add_custom.cpp shows more; please report it"
    begin = time.perf_counter()
    try:
        with tempfile.TemporaryDirectory(prefix="toprope-doctor-") as folder:
            source = Path(folder) / "doctor.cpp"
            source.write_text(KERNEL)
            x = np.zeros(64, np.float32)
            run = load(source).toprope_doctor[1](x)
            errors = [f.code for f in run.findings if f.severity == "error"]
            right = bool((x == 1).all()) and not errors and run.timeline.microseconds > 0
    except (TopropeError, OSError, AssertionError) as error:
        return Check(
            "a small kernel", f"{error}".splitlines()[0], False, True, fix, "proof that all of this fits together"
        )
    found = (
        f"right, in {time.perf_counter() - begin:.1f} s" if right else "wrong: " + (", ".join(errors) or "the numbers")
    )
    return Check("a small kernel", found, right, True, fix, "proof that all of this fits together")


def _may_install() -> bool:
    return hasattr(os, "geteuid") and (os.geteuid() == 0 or shutil.which("sudo") is not None)


def _install(debian: str, brew: str) -> str:
    """The command of this machine's package manager."""
    sudo = "" if hasattr(os, "geteuid") and os.geteuid() == 0 else "sudo "
    if sys.platform == "darwin":
        return f"brew install {brew}"
    for tool, command in (
        ("apt-get", f"apt-get install -y {debian}"),
        ("dnf", f"dnf install -y {'gcc-c++' if debian == 'g++' else debian}"),
        ("apk", f"apk add {debian}"),
    ):
        if shutil.which(tool):
            return sudo + command
    return f"install {debian}"


def _pip(extra: str) -> str:
    return f"pip install 'toprope[{extra}]'"


def _least(name: str) -> str | None:
    """The version of a package that toprope's own metadata asks for."""
    try:
        rows = requires("toprope") or []
    except PackageNotFoundError:
        return None
    wanted = re.compile(rf"^{re.escape(name).replace('_', '[-_]')}\s*(?:>=|==)\s*([\d.]+)", re.I)
    return next((m[1] for row in rows if (m := wanted.match(row))), None)


def _numbers(text: str) -> tuple[int, ...]:
    return tuple(int(n) for n in re.findall(r"\d+", text.split("+")[0])[:3])


def main(argv: list[str]) -> int:
    """Exit code 1 if something that the main job needs is missing."""
    p = Parser(
        prog="toprope doctor",
        description="What is on this machine, what works with it, and how to fix what is missing.",
    )
    p.add_argument("--json", action="store_true", help="machine-readable output")
    p.add_argument("--quick", action="store_true", help="do not compile and run the small kernel")
    options = p.parse_args(argv)
    rows = checks(run_a_kernel=not options.quick)
    if options.json:
        print(document("doctor", {"checks": [asdict(r) for r in rows]}))
    else:
        _show(rows)
    return 1 if any(r.needed and not r.ok for r in rows) else 0


def _show(rows: Sequence[Check]) -> None:
    table = Table(box=None, header_style="dim", padding=(0, 2, 0, 0))
    for column in ("", "what", "found", "used for", "to get it"):
        table.add_column(say(column), overflow="fold")
    for r in rows:
        colour, word = ("green", "ok") if r.ok else ("red", "missing") if r.needed else ("dim", "optional")
        state = f"[{colour}]{say(word)}[/]"
        table.add_row(state, say(r.what), say(r.found), say(r.gives), "" if r.ok else say(r.fix))
    out = Console(highlight=False)
    out.print(table)
    missing = [r for r in rows if r.needed and not r.ok]
    if missing:
        out.print(f"\n{say('first')}:  {missing[0].fix}")
    else:
        then = say("toprope run kernel.cpp, or toprope new --help for an operator project")
        out.print(f"\n{say('ready')}:  {then}", markup=False)
