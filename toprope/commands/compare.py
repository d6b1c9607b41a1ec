"""toprope compare: two reports side by side, what changed and where, and which numbers of their chips differ."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NotRequired, TypedDict

from rich.console import Console

from toprope import inputs, soc
from toprope.commandline import Parser, document
from toprope.errors import BadInput
from toprope.report.text import bar


def main(argv: list[str]) -> int:
    """Compare two JSON reports (of `toprope run --json` or `profile --json`): time, pipes, lines, findings."""
    p = Parser(prog="toprope compare", description="What changed from one report to another.")
    p.add_argument("before", type=Path, help="report of `toprope profile ... --json`")
    p.add_argument("after", type=Path, help="the other report")
    p.add_argument("--json", action="store_true", help="machine-readable output")
    options = p.parse_args(argv)
    before, after = _read(options.before), _read(options.after)
    changes = difference(before, after)
    if options.json:
        print(document("compare", changes))
    else:
        _show(before, after, changes)
    return 0


def difference(before: dict[str, Any], after: dict[str, Any]) -> dict[str, Any]:
    """Time ratio, pipe shares, source lines by change of cost, findings that came and went, numbers of the chips that differ."""
    pipes = sorted({*before["busy"], *after["busy"]})
    a, b = _lines(before), _lines(after)
    lines: list[dict[str, Any]] = [{"line": k, "before_us": a.get(k, 0.0), "after_us": b.get(k, 0.0)} for k in {*a, *b}]
    lines.sort(key=lambda r: (-abs(float(r["after_us"]) - float(r["before_us"])), str(r["line"])))
    codes = [{f["code"] for f in report["findings"]} for report in (before, after)]
    return {
        "before_us": before["microseconds"],
        "after_us": after["microseconds"],
        "speed_up": before["microseconds"] / after["microseconds"] if after["microseconds"] else None,
        "cycles": [before.get("cycles"), after.get("cycles")],
        "busy": {pipe: [before["busy"].get(pipe, 0.0), after["busy"].get(pipe, 0.0)] for pipe in pipes},
        "pipes_us": {pipe: _spent(before, after, pipe) for pipe in pipes},
        "lines": lines[:12],
        "new_findings": sorted(codes[1] - codes[0]),
        "gone_findings": sorted(codes[0] - codes[1]),
        "chip": [{"number": path, "before": a, "after": b} for path, a, b in _chips(before, after)],
    }


def _spent(before: dict[str, Any], after: dict[str, Any], pipe: str) -> dict[str, list[float]]:
    """What a pipe's time went to in both reports, in microseconds: "works", and what it waited for."""
    both = []
    for report in (before, after):
        shares = {"works": report["busy"].get(pipe, 0.0), **report.get("waits", {}).get(pipe, {})}
        both.append({what: share * report["microseconds"] for what, share in shares.items()})
    return {what: [both[0].get(what, 0.0), both[1].get(what, 0.0)] for what in dict.fromkeys([*both[0], *both[1]])}


def _chips(before: dict[str, Any], after: dict[str, Any]) -> list[list[str]]:
    names = [str(report.get("soc", "")) for report in (before, after)]
    return soc.differences(*names) if names[0] != names[1] and set(names) <= set(soc.names()) else []


def _read(path: Path) -> dict[str, Any]:
    cure = "make one with `toprope profile KERNEL --json > FILE`"
    found = inputs.json_of(path, cure)
    if not isinstance(found, dict):
        raise BadInput(f"{path} is not a report of toprope", cure=cure)
    known = {key: found[key] for key in _Report.__annotations__ if key in found}
    report = inputs.fitting(known, _Report, f"{path} is not a report of toprope", cure)
    inputs.numbers(report, str(path))
    return {**found, **report}


class _Line(TypedDict):
    file: str
    line: int
    pipe: str
    source: NotRequired[str | None]
    microseconds: float


class _Finding(TypedDict):
    code: str


class _Report(TypedDict):
    kernel: str
    soc: str
    blocks: int
    cycles: NotRequired[float | None]
    microseconds: float
    busy: dict[str, float]
    waits: NotRequired[dict[str, dict[str, float]]]
    lines: list[_Line]
    findings: list[_Finding]


def _show_chips(out: Console, rows: list[dict[str, str]]) -> None:
    """The machine first; cost rows as a count, `--json` has them all."""
    machine = [row for row in rows if not row["number"].startswith("costs.")]
    for row in machine:
        out.print(f"  chip  {row['number']:<36} {row['before']:>16} → {row['after']:>16}", markup=False)
    if len(rows) > len(machine):
        out.print(f"  chip  and {len(rows) - len(machine)} numbers of cost rows (--json lists them)", markup=False)
    if any("?" in row["before"] + row["after"] for row in machine):
        out.print("  a number with ? is assumed; `toprope socs NAME` shows where the others come from", markup=False)


def _lines(report: dict[str, Any]) -> dict[str, float]:
    """Cost by source text rather than number, so that an inserted line moves nothing."""
    out: dict[str, float] = {}
    for row in report["lines"]:
        key = f"{Path(row['file']).name}: {row.get('source') or row['line']} ({row['pipe']})"
        out[key] = out.get(key, 0.0) + row["microseconds"]
    return out


def _show_why(out: Console, changes: dict[str, Any]) -> None:
    """Where the time of the busiest pipes went, what changed by 2 % of the time or more."""
    least = 0.02 * max(changes["before_us"], changes["after_us"])
    busiest = {max(changes["busy"], key=lambda pipe: changes["busy"][pipe][side], default="") for side in (0, 1)}
    for pipe in sorted(busiest - {"", "S"}):
        moved = [
            f"{what if what == 'works' else f'waits for {what}'} {a:.2f} → {b:.2f}"
            for what, (a, b) in changes["pipes_us"][pipe].items()
            if abs(a - b) >= least
        ]
        if moved:
            out.print(f"  {pipe:<5} {'; '.join(moved)} µs", markup=False)


def _show(before: dict[str, Any], after: dict[str, Any], changes: dict[str, Any]) -> None:
    out = Console(highlight=False, soft_wrap=True)
    names = [
        f"{r['kernel']} on {r['soc']}, {r['blocks']} block{'s' if r['blocks'] != 1 else ''}" for r in (before, after)
    ]
    out.print(
        f"before  {names[0]}: {changes['before_us']:.2f} µs\nafter   {names[1]}: {changes['after_us']:.2f} µs",
        markup=False,
    )
    cycles = changes["cycles"]
    counted = f" ({cycles[0]:,.0f} → {cycles[1]:,.0f} cycles)" if all(cycles) else ""
    out.print(f"[bold]{changes['speed_up']:.2f}x[/] as fast{counted}" if changes["speed_up"] else "")
    for pipe, (a, b) in changes["busy"].items():
        out.print(f"  {pipe:<5} {bar(a, 16)} {a:>4.0%}  →  {bar(b, 16)} {b:>4.0%}")
    _show_why(out, changes)
    for row in changes["lines"][:6]:
        head = f"  {row['before_us']:>8.2f} → {row['after_us']:>8.2f} µs a core  "
        out.print(head + row["line"][: max(40, out.width - len(head))], markup=False)
    _show_chips(out, changes["chip"])
    for word, key in (("new", "new_findings"), ("gone", "gone_findings")):
        if changes[key]:
            out.print(f"  {word} findings: {', '.join(changes[key])}")
