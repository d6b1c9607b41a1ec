"""How a program's run is shown: launches with their times, findings, and the verdict."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from toprope.program.run import ProgramRun


def show(run: ProgramRun, *, verbose: bool = False, console: Console | None = None) -> None:
    """Print a run. Launches of one line with the same kernel and blocks share a row; advice only when `verbose`."""
    out = console or Console(highlight=False, soft_wrap=True)
    if run.launches:
        out.print(_launches(run))
    findings = [f for f in run.findings if verbose or f.severity != "advice"]
    for finding in findings:
        out.print()
        out.print(str(finding), markup=False)
    counts = {s: sum(f.severity == s for f in run.findings) for s in ("error", "warning", "advice")}
    said = ", ".join(f"{n} {'advice' if s == 'advice' else s + 's' * (n > 1)}" for s, n in counts.items() if n)
    hidden = " (--verbose shows advice)" if counts["advice"] and not verbose else ""
    how = "stopped: time limit" if run.timed_out else f"exit code {run.code}"
    out.print(f"\nprogram: {how}, {len(run.launches)} launches, {said or 'no findings'}{hidden}")


def _launches(run: ProgramRun) -> Table:
    rows: dict[tuple[str, int, str, int], list[float]] = {}
    for launch in run.launches:
        rows.setdefault((launch.kernel, launch.blocks, launch.file, launch.line), []).append(launch.microseconds)
    table = Table(box=None, header_style="dim", padding=(0, 2, 0, 0))
    for name in ("kernel", "launched at", "blocks", "launches", "predicted µs"):
        table.add_column(name, justify="left" if name in ("kernel", "launched at") else "right", overflow="fold")
    for (kernel, blocks, file, line), times in rows.items():
        table.add_row(kernel, f"{Path(file).name}:{line}", str(blocks), str(len(times)), f"{sum(times):.2f}")
    return table


def as_json(run: ProgramRun) -> dict[str, Any]:
    """The run as JSON-ready data."""
    return {
        "exit_code": run.code,
        "timed_out": run.timed_out,
        "launches": [asdict(launch) for launch in run.launches],
        "microseconds": sum(launch.microseconds for launch in run.launches),
        "findings": [asdict(f) for f in run.findings],
    }
