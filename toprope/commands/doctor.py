"""toprope doctor: what is on this machine, what works, what is missing and the one command that fixes each."""

from __future__ import annotations

import argparse
import json
import os
import shutil
import sys
from dataclasses import asdict, dataclass
from importlib.util import find_spec
from pathlib import Path

from rich.console import Console
from rich.table import Table

from toprope.build import cache_dir, compiler
from toprope.errors import NoCompiler


@dataclass(frozen=True)
class Check:
    """One line of the diagnosis. `needed` says whether the main job depends on it."""

    what: str
    found: str
    ok: bool
    needed: bool
    fix: str


def checks() -> list[Check]:
    """Look at the machine."""
    rows = [Check("Python", sys.version.split()[0], sys.version_info >= (3, 11), True, "install Python 3.11 or newer")]
    try:
        cxx = compiler()
        rows.append(Check("C++ compiler", cxx.version, True, True, ""))
    except NoCompiler as e:
        rows.append(Check("C++ compiler", "none", False, True, e.cure))
    for package, extra, why in (
        ("numpy", "", "arrays"),
        ("ml_dtypes", "", "bfloat16"),
        ("torch", "torch", "serving engine, torch references"),
        ("textual", "tui", "toprope explore"),
        ("ray", "ray", "sweeps on many machines"),
    ):
        present = find_spec(package) is not None
        rows.append(
            Check(
                f"{package} ({why})",
                "installed" if present else "none",
                present,
                not extra,
                f"pip install 'toprope[{extra}]'" if extra else f"pip install {package}",
            )
        )
    cache = cache_dir()
    rows.append(
        Check(
            "compile cache", str(cache), os.access(cache, os.W_OK), True, "set TOPROPE_CACHE to a folder you may write"
        )
    )
    cann = os.environ.get("ASCEND_HOME_PATH") or next(
        (str(p) for p in (Path("/usr/local/Ascend/ascend-toolkit/latest"),) if p.exists()), ""
    )
    rows.append(
        Check(
            "CANN toolkit (only to ship to a real NPU)",
            cann or "none",
            bool(cann),
            False,
            "install it from the vendor; nothing here needs it",
        )
    )
    npu = shutil.which("npu-smi") or ("/dev/davinci0" if Path("/dev/davinci0").exists() else "")
    rows.append(
        Check("Ascend NPU (only to compare)", npu or "none", bool(npu), False, "none needed: this is a software NPU")
    )
    return rows


def main(argv: list[str]) -> int:
    """Exit code 1 if something that the main job needs is missing."""
    p = argparse.ArgumentParser(
        prog="toprope doctor", description="What is on this machine, and how to fix what is missing."
    )
    p.add_argument("--json", action="store_true", help="machine-readable output")
    options = p.parse_args(argv)
    rows = checks()
    if options.json:
        print(json.dumps([asdict(r) for r in rows], indent=1))
    else:
        table = Table(box=None, header_style="dim", padding=(0, 2, 0, 0))
        for column in ("", "what", "found", "fix"):
            table.add_column(column, overflow="fold")
        for r in rows:
            table.add_row(
                "[green]ok[/]" if r.ok else ("[red]missing[/]" if r.needed else "[dim]optional[/]"),
                r.what,
                r.found,
                "" if r.ok else r.fix,
            )
        Console(highlight=False).print(table)
    return 1 if any(r.needed and not r.ok for r in rows) else 0
