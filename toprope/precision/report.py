"""The report of `toprope bisect-precision`: the cause in the first lines, then the chain, then the table of source lines."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from toprope.precision.causes import CAUSES, Diagnosis, Link, ulp
from toprope.precision.shadow import Replay
from toprope.trace import SiteRow

SHOWN_LINKS, SHOWN_LINES = 12, 12
_SHORT = {"float16": "f16", "bfloat16": "bf16", "float32": "f32"}


def _columns(title: str, left: tuple[str, ...], right: tuple[str, ...]) -> Table:
    table = Table(title=title, title_justify="left", title_style="bold", box=None, padding=(0, 1))
    for name in left:
        table.add_column(name, no_wrap=True)
    for name in right:
        table.add_column(name, justify="right", no_wrap=True)
    return table


def _named(op: str, element: str) -> str:
    return f"{op} {_SHORT.get(element, element)}"


def place(site: SiteRow) -> str:
    """file:line, without folders."""
    return f"{Path(site.file).name}:{site.line}"


def excerpt(site: SiteRow) -> str:
    """The source line itself; empty if the file is gone."""
    try:
        return Path(site.file).read_text(errors="replace").splitlines()[site.line - 1].strip()
    except (OSError, IndexError):
        return ""


def explained(d: Diagnosis) -> tuple[str, str]:
    """Meaning and cure of the cause, with the numbers of this run."""
    words = {
        "element": d.born.step.element if d.born else "its format",
        "mode": d.born.step.mode or "its mode" if d.born else "",
    }
    meaning, cure = CAUSES[d.cause]
    return meaning.format(**words), cure.format(**words)


def show(
    d: Diagnosis,
    replayed: Replay,
    against: dict[str, float],
    *,
    everything: bool = False,
    console: Console | None = None,
) -> None:
    """Print the report. `against`: error of the float64 shadow itself against the references, by output name.

    `everything`: the whole chain and every line of the kernel, not only those that matter.
    """
    out = console or Console(highlight=False, soft_wrap=True)
    if not out.is_terminal:
        out.width = max(out.width, 110)
    sites = replayed.trace.sites
    meaning, cure = explained(d)
    colour = "green" if d.clean else "red"
    out.print(f"[bold]{replayed.trace.kernel}[/]: [bold {colour}]{d.cause}[/] – {escape(meaning)}")
    if d.clean and replayed.unknown:
        out.print("  [yellow]as far as it was followed:[/] see the last line for the operations that were not")
    if d.born is not None:
        site = sites[d.born.step.site]
        times = f", {d.times} times" if d.times > 1 else ""
        share = d.shares.get(d.born.step.site, 1.0)
        out.print(f"  born at   [bold]{place(site)}[/]  {escape(excerpt(site))}")
        out.print(
            f"            {d.born.step.op} in {d.born.step.element}{times}: {share:.0%} of the error of the worst element"
        )
    if d.grown is not None and not d.clean:
        site = sites[d.grown.step.site]
        out.print(f"  grown at  [bold]{place(site)}[/]  {escape(excerpt(site))}")
        out.print(f"            {d.grown.step.op} makes the relative error {d.growth:,.3g} times larger")
    out.print(f"  change    {escape(cure)}")
    for o in d.outputs:
        special = f", {o.specials} infinite or NaN by mistake" if o.specials else ""
        index = ", ".join(map(str, o.index))
        out.print(
            f"  output {o.name} ({o.element}): worst element [[{index}] is {o.stored:.9g}, exactly {o.exact:.9g} "
            f"(relative error {o.worst_relative:.2g} = {o.worst_ulps:,.1f} ulp); whole tensor {o.norm_relative:.2g}{special}".replace(
                "[[", r"\["
            )
        )
    for name, error in against.items():
        verdict = (
            "the error is rounding, not the algorithm"
            if error < 1e-3
            else "[red]the algorithm itself differs from the reference[/]"
        )
        out.print(f"  the float64 shadow of {name} is within {error:.2g} of the reference: {verdict}")
    if d.chain and d.cause != "clean":
        _chain(out, d, replayed, everything)
    _lines(out, d, replayed, everything)
    _notes(out, replayed)


def _chain(out: Console, d: Diagnosis, replayed: Replay, everything: bool) -> None:
    right = ("stored", "exact", "rel. error", "adds (ulp)")
    table = _columns("from the worst element back", ("line", "operation"), right)
    from_blame = _collapsed(d.chain)
    shown = len(from_blame) if everything else SHOWN_LINKS
    for link, count in from_blame[:shown]:
        added = _own_ulps(link)
        name = _named(link.step.op, link.step.element) + (f" ×{count}" if count > 1 else "")
        mark = "[red]" if link is d.born or link is d.grown else ""
        cells = (
            place(replayed.trace.sites[link.step.site]),
            name,
            f"{link.stored:.7g}",
            f"{link.exact:.7g}",
            f"{link.relative:.2g}",
            f"{added:.3g}",
        )
        table.add_row(*(mark + c for c in cells))
    out.print(table)
    if len(from_blame) > shown:
        out.print(f"  … {len(from_blame) - shown} more steps (--all shows them)")


def _collapsed(chain: list[Link]) -> list[tuple[Link, int]]:
    rows: list[tuple[Link, int]] = []
    for link in chain:
        if rows and rows[-1][0].step.site == link.step.site and rows[-1][0].step.op == link.step.op:
            rows[-1] = rows[-1][0], rows[-1][1] + 1
        else:
            rows.append((link, 1))
    return rows


def _own_ulps(link: Link) -> float:
    return abs(link.own) / ulp(link.computed, link.step.element)


def _lines(out: Console, d: Diagnosis, replayed: Replay, everything: bool) -> None:
    right = ("runs", "error in", "adds", "error out", "worst", "share")
    table = _columns("the lines, in source order", ("line", "operation"), right)
    lines = list(replayed.lines.values())
    if not everything:  # the lines of the chain, or, of a clean kernel, those that round most
        chain = {link.step.site for link in d.chain} if d.cause != "clean" else set()
        lines = [e for e in lines if e.site in chain] or [e for e in lines if e.relative(1) > 0]
        lines = sorted(lines, key=lambda e: (-d.shares.get(e.site, 0.0), -e.relative(1)))[:SHOWN_LINES]
    sites = replayed.trace.sites
    ordered = sorted(lines, key=lambda e: (sites[e.site].file, sites[e.site].line, e.op))
    for e in ordered:
        share = d.shares.get(e.site, 0.0)
        special = f" ×{e.born_special}" if e.born_special else ""
        table.add_row(
            place(replayed.trace.sites[e.site]),
            _named(e.op, e.element),
            f"{e.instructions:,}",
            *(f"{e.relative(k):.2g}" for k in range(3)),
            f"{e.worst:.2g}{special}",
            f"{share:.0%}" if share >= 0.005 else "",
        )
    if ordered:
        out.print(table)
    if len(lines) < len(replayed.lines):
        out.print(f"  {len(replayed.lines) - len(lines)} other lines matter less (--all shows them)")


def _notes(out: Console, replayed: Replay) -> None:
    if replayed.unknown:
        names = ", ".join(f"{name} ×{count}" for name, count in sorted(replayed.unknown.items()))
        out.print(f"  [yellow]not followed:[/] {names}; what they wrote counts as exact")
    assert replayed.trace.values is not None
    if not replayed.trace.values.complete:
        out.print("  [yellow]the run kept more values than fit:[/] what came later is missing; use smaller shapes")


def _number(x: Any) -> Any:
    """JSON has no infinity and no NaN: they become words."""
    return str(x) if isinstance(x, float) and not math.isfinite(x) else x


def as_json(d: Diagnosis, replayed: Replay, against: dict[str, float]) -> dict[str, Any]:
    """The same facts for programs."""
    sites = replayed.trace.sites
    meaning, cure = explained(d)

    def link(x: Link | None) -> dict[str, Any] | None:
        if x is None:
            return None
        site = sites[x.step.site]
        return {
            "file": site.file, "line": site.line, "source": excerpt(site), "operation": x.step.op, "element": x.step.element,
            "stored": _number(x.stored), "exact": _number(x.exact), "relative_error": _number(x.relative),
            "added_ulps": _number(_own_ulps(x)),
        }  # fmt: skip

    return {
        "kernel": replayed.trace.kernel,
        "cause": d.cause,
        "clean": d.clean,
        "meaning": meaning,
        "change": cure,
        "born": link(d.born),
        "times": d.times,
        "grown": link(d.grown),
        "growth": d.growth,
        "outputs": [{k: _number(v) for k, v in vars(o).items()} for o in d.outputs],
        "shadow_against_reference": against,
        "chain": [link(x) for x in d.chain],
        "lines": [
            {
                "file": sites[e.site].file, "line": sites[e.site].line, "operation": e.op, "element": e.element,
                "instructions": e.instructions, "elements": e.elements, "error_in": e.relative(0), "added": e.relative(1),
                "error_out": e.relative(2), "worst": _number(e.worst), "specials_born": e.born_special, "share": d.shares.get(e.site, 0.0),
            }
            for e in replayed.lines.values()
        ],
        "not_followed": dict(replayed.unknown),
    }  # fmt: skip
