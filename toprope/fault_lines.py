"""Which line of the source an address in a compiled module comes from."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path

from toprope.errors import CompileFailed
from toprope.trace import SiteRow, Trace
from toprope.vendor_paths import INCLUDE

_DIVISOR = re.compile(r"(?:/|%)=?\s*([A-Za-z_][\w.]*(?:->\w+)*)")


@cache
def frames(module: str | Path, offset: int) -> tuple[tuple[str, int], ...]:
    """File and line of an address and of the calls that were inlined around it, innermost first; none without debug lines or binutils."""
    command = ["addr2line", "-i", "-e", str(module), hex(offset)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=20)
    except (OSError, subprocess.TimeoutExpired):
        return ()
    told = (line.rpartition(":") for line in done.stdout.splitlines())
    found = ((file, re.match(r"\d+", number)) for file, _, number in told if not file.startswith("?"))
    return tuple((file, int(n[0])) for file, n in found if n and int(n[0]))


def with_fault_line(trace: Trace, module_with_lines: Callable[[str], Path]) -> Trace:
    """The trace with the report of a crash at the line that crashed, instead of the last instruction before it.

    `module_with_lines` compiles the kernel for a core type once more, with debug lines: the code is the same. Unchanged where the line
    cannot be told.
    """
    at = next((i for i, r in enumerate(trace.reports) if r.code in ("division-by-zero", "kernel-crash")), None)
    if trace.crash is None or at is None:
        return trace
    core_type, offset = trace.crash
    try:
        lines = frames(module_with_lines(core_type), offset)
    except CompileFailed:
        return trace
    own = next(((f, n) for f, n in lines if Path(f).is_file() and INCLUDE not in Path(f).resolve().parents), None)
    if own is None:
        return trace
    file, number = own
    report = trace.reports[at]
    text = report.text.replace(" at or after this instruction", " here")
    if report.code == "division-by-zero" and (names := divisors(Path(file), number)):
        text += f": {' or '.join(names)} is 0"
    reports = list(trace.reports)
    reports[at] = replace(report, site=len(trace.sites), text=text)
    return replace(trace, sites=(*trace.sites, SiteRow(file, number)), reports=tuple(reports))


def divisors(file: Path, line: int) -> list[str]:
    """What a line of source divides by, as far as it has names."""
    lines = file.read_text(errors="replace").splitlines()
    text = re.sub(r"//.*", "", lines[line - 1]) if 0 < line <= len(lines) else ""
    return list(dict.fromkeys(_DIVISOR.findall(text)))
