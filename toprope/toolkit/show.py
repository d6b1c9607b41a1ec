"""How a program's run is shown: launches with their times, copies, memory, findings and the verdict; JSON, SARIF and Perfetto."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from toprope.check.output import sarif
from toprope.commandline import document
from toprope.finding import Finding
from toprope.toolkit.clock import LINK_SOURCE, perfetto
from toprope.toolkit.session import NAMES, REAL, REFERENCE, CopyRow, Finished, LaunchRow, Session


def finish(finished: Finished, *, as_json_text: bool, verbose: bool = False, report: Path | None = None) -> None:
    """Show what a command left: of one program everything, of several each in turn."""
    sessions = finished.sessions or [Session()]
    if report is not None:
        for session in sessions:
            write(session, report)
    if as_json_text:
        rows = [as_json(s) for s in sessions]
        data = rows[0] if len(rows) == 1 else {"programs": rows}
        data |= {"exit_code": finished.code, "timed_out": finished.timed_out}
        print(document("program", data))
        return
    for session in sessions:
        ended = (
            "stopped: time limit"
            if finished.timed_out
            else f"exit code {finished.code if len(sessions) == 1 else session.code}"
        )
        show(session, ended=ended, verbose=verbose)


def at_exit(session: Session) -> None:
    """What a program that runs outside `toprope exec` leaves: findings on stderr, a report where TOPROPE_REPORT says."""
    report = os.environ.get("TOPROPE_REPORT", "")
    if report:
        try:
            write(session, Path(report))
        except OSError as error:
            print(f"toprope: the report {report} cannot be written: {error.strerror}", file=sys.stderr)
    findings = [f for f in session.findings if f.severity != "advice"]
    for finding in findings:
        print(f"toprope: {finding}", file=sys.stderr)
    if session.code is None:
        print(
            f"toprope: {Path(session.program).name} (process {session.pid}) ended without a word: killed, or a crash",
            file=sys.stderr,
        )
    if findings:
        print(
            f"toprope: {_counts(findings)} in {len(session.launches)} launches; toprope exec -- COMMAND shows all",
            file=sys.stderr,
        )


def write(session: Session, path: Path) -> None:
    """The report by the file's ending: .json all of it, .sarif the findings, .perfetto.json the timeline; a folder gets all three."""
    if path.is_dir() or not path.suffix:
        path.mkdir(parents=True, exist_ok=True)
        for name in ("report.json", "findings.sarif", "timeline.perfetto.json"):
            write(session, path / f"{session.pid}-{name}")
        return
    assert session.clock is not None
    if path.suffix == ".sarif":
        path.write_text(sarif(session.findings, None))
        return
    if path.name.endswith("perfetto.json"):
        data: Any = perfetto(session.clock.slices, session.streams)
    else:
        data = as_json(session)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(data, indent=1))


def as_json(session: Session) -> dict[str, Any]:
    """The run as JSON-ready data."""
    clock = session.clock
    return {
        "program": session.program,
        "soc": session.soc.name if session.soc else "",
        "exit_code": session.code,
        "launches": [asdict(row) for row in session.launches],
        "copies": [asdict(row) for row in session.copies],
        "copies_source": LINK_SOURCE,
        "operators": by_operator(session.launches),
        "shares": shares(session.launches),
        "why_reference": {
            k: v for k, v in session.why.items() if k in {r.kernel for r in session.launches if r.executor == REFERENCE}
        },
        "microseconds": sum(row.microseconds for row in session.launches),
        "device_microseconds": clock.end_us if clock else 0.0,
        "memory_peak_bytes": session.memory_bytes["peak"],
        "saved_copies": [asdict(f) for f in session.findings if f.code == "acl-copy-avoidable"],
        "findings": [asdict(f) for f in session.findings],
        "streams": {k: v for k, v in session.streams.items() if k >= 0},
    }


def show(session: Session, *, ended: str, verbose: bool = False, console: Console | None = None) -> None:
    """Print a run. Launches of one line with the same kernel and blocks share a row; advice only when `verbose`."""
    out = console or Console(highlight=False, soft_wrap=True)
    if session.launches:
        several = any(r.executor != REAL for r in session.launches)
        if several:
            out.print(_operators(session.launches))
            out.print(_shares(session.launches))
        if not several or verbose:
            out.print(_launches(session.launches))
        for line in _reasons(session, verbose=verbose):
            out.print(line, style="dim", markup=False)
    if session.copies and verbose:
        out.print(_copies(session.copies))
        out.print(f"copies: {LINK_SOURCE}", style="dim")
    if session.clock and session.clock.slices:
        peak = session.memory_bytes["peak"] / 2**20
        out.print(
            f"\ndevice: {session.clock.end_us:.1f} µs with copies, {len(session.streams)} streams, {peak:.1f} MiB at most",
            style="dim",
        )
    findings = [f for f in session.findings if verbose or f.severity != "advice"]
    for finding in findings:
        out.print()
        out.print(str(finding), markup=False)
    hidden = (
        " (--verbose shows advice)" if any(f.severity == "advice" for f in session.findings) and not verbose else ""
    )
    out.print(
        f"\nprogram: {ended}, {len(session.launches)} launches, {_counts(session.findings) or 'no findings'}{hidden}"
    )


def _counts(findings: Sequence[Finding]) -> str:
    counts = {s: sum(f.severity == s for f in findings) for s in ("error", "warning", "advice")}
    return ", ".join(f"{n} {'advice' if s == 'advice' else s + 's' * (n > 1)}" for s, n in counts.items() if n)


def by_operator(launches: Sequence[LaunchRow]) -> list[dict[str, Any]]:
    """Operators by predicted time: name, who answered, launches, microseconds and their share of all."""
    rows: dict[tuple[str, str], list[LaunchRow]] = {}
    for launch in launches:
        rows.setdefault((launch.kernel.split(" (")[0], launch.executor), []).append(launch)
    total = max(1e-9, sum(r.microseconds for r in launches))
    return [
        {"operator": name, "executor": executor, "launches": len(made), "microseconds": us, "share": us / total}
        for (name, executor), made in rows.items()
        for us in [sum(r.microseconds for r in made)]
    ]


def shares(launches: Sequence[LaunchRow]) -> dict[str, float]:
    """The share of the predicted time by who answered."""
    rows = by_operator(launches)
    return {
        e: sum(r["share"] for r in rows if r["executor"] == e) for e in NAMES if any(r["executor"] == e for r in rows)
    }


def _operators(launches: Sequence[LaunchRow]) -> Table:
    table = Table(box=None, header_style="dim", padding=(0, 2, 0, 0))
    for name in ("operator", "answered by", "launches", "predicted µs", "share"):
        table.add_column(name, justify="left" if name in ("operator", "answered by") else "right", overflow="fold")
    for row in sorted(by_operator(launches), key=lambda r: -r["microseconds"]):
        table.add_row(
            row["operator"], row["executor"], str(row["launches"]), f"{row['microseconds']:.2f}", f"{row['share']:.1%}"
        )
    return table


def _shares(launches: Sequence[LaunchRow]) -> str:
    """How much of the time rests on what, so that nobody takes a reference's time for a kernel's."""
    told = ", ".join(f"{NAMES[e]} {share:.1%}" for e, share in shares(launches).items())
    made = [r for r in launches if r.executor == REFERENCE]
    if made:
        functions = len({r.kernel for r in made})
        told += (
            f"; {len(made)} of {len(launches)} launches were answered by references of {functions} functions: "
            "no kernel, nothing checked, times from launching, bytes moved and multiplications"
        )
    return f"predicted time: {told}"


def _reasons(session: Session, *, verbose: bool) -> list[str]:
    """Why references answered, unless there simply is no kernel for the function."""
    made = {r.kernel for r in session.launches if r.executor == REFERENCE}
    reasons: dict[str, list[str]] = {}
    for name, why in session.why.items():
        if name in made and (verbose or not why.startswith(("no operator", "no definition"))):
            reasons.setdefault(why, []).append(name.removeprefix("aclnn"))
    lines = [
        f"  {why}: {', '.join(names[:8])}{f' and {len(names) - 8} more' * (len(names) > 8)}"
        for why, names in reasons.items()
    ]
    return ["why not by a kernel:", *lines] if lines else []


def _launches(launches: Sequence[LaunchRow]) -> Table:
    rows: dict[tuple[str, int, str, int], list[LaunchRow]] = {}
    for launch in launches:
        rows.setdefault((launch.kernel, launch.blocks, launch.file, launch.line), []).append(launch)
    table = Table(box=None, header_style="dim", padding=(0, 2, 0, 0))
    for name in ("kernel", "launched at", "blocks", "launches", "predicted µs", "80 % band"):
        table.add_column(name, justify="left" if name in ("kernel", "launched at") else "right", overflow="fold")
    for (kernel, blocks, file, line), made in sorted(
        rows.items(), key=lambda row: -sum(r.microseconds for r in row[1])
    ):
        total = sum(launch.microseconds for launch in made)
        ends = [(launch.low_us, launch.high_us) for launch in made if launch.low_us and launch.high_us]
        band = (
            f"{sum(low for low, _ in ends):.2f}–{sum(high for _, high in ends):.2f}" if len(ends) == len(made) else "–"
        )
        table.add_row(kernel, f"{Path(file).name}:{line}", str(blocks), str(len(made)), f"{total:.2f}", band)
    return table


def _copies(copies: Sequence[CopyRow]) -> Table:
    rows: dict[tuple[str, str, str, int], list[CopyRow]] = {}
    for copy in copies:
        rows.setdefault((copy.call, copy.way, copy.file, copy.line), []).append(copy)
    table = Table(box=None, header_style="dim", padding=(0, 2, 0, 0))
    for name in ("copy", "at", "way", "times", "bytes", "predicted µs"):
        table.add_column(name, justify="left" if name in ("copy", "at", "way") else "right")
    for (call, way, file, line), each in rows.items():
        total = sum(c.bytes for c in each)
        table.add_row(
            call,
            f"{Path(file).name}:{line}",
            way,
            str(len(each)),
            str(total),
            f"{sum(c.microseconds for c in each):.1f}",
        )
    return table
