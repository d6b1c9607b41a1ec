"""The terminal report: read in ten seconds."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from rich.cells import cell_len
from rich.console import Console
from rich.markup import escape

from toprope.finding import Finding, Place
from toprope.language import say
from toprope.report.summary import Summary
from toprope.testing.compare import Verdict

_COLOUR = {"error": "bold red", "warning": "yellow", "advice": "cyan"}
_BAR = " ▏▎▍▌▋▊▉█"


def _label(word: str) -> str:
    """A heading in the user's language, as wide as the others."""
    text = say(word)
    return text + " " * max(1, 10 - cell_len(text))


def bar(share: float, width: int = 24) -> str:
    """A horizontal bar of `share` (0..1) in eighths of a character."""
    eighths = round(max(0.0, min(1.0, share)) * width * 8)
    full, rest = divmod(eighths, 8)
    return ("█" * full + (_BAR[rest] if rest else "")).ljust(width)


def waiting(reasons: Mapping[str, float], least: float = 0.05) -> str:
    """What a pipe waits for, in a few words: the three largest shares of the time from `least` on."""
    told = [f"{reason} {share:.0%}" for reason, share in list(reasons.items())[:3] if share >= least]
    return f"waits: {', '.join(told)}" if told else ""


def show(
    summary: Summary, *, verbose: bool = False, console: Console | None = None, complaint: Exception | None = None
) -> None:
    """Result against reference (or the `complaint` why there is none), findings, time, pipes, bottleneck: in this order."""
    out = console or Console(highlight=False, soft_wrap=True)
    run = summary.run
    out.print(
        f"[bold]{run.kernel}[/] on {run.soc.name}, {run.blocks} block{'s' if run.blocks > 1 else ''}, {len(run.trace.instrs):,} instructions, ran in {run.wall_s:.3f} s"
    )
    _result(out, summary, complaint)
    _findings(out, summary.run.findings, verbose)
    _time(out, summary)
    _advice(out, summary.advice)


def _result(out: Console, summary: Summary, complaint: Exception | None) -> None:
    if not summary.verdicts:
        names = ", ".join(summary.run.outputs) or "nothing"
        if complaint is not None:
            why = str(complaint).splitlines()[0]
            out.print(
                f"[bold]{_label('result')}[/]wrote {names}; [bold red]not compared[/], for want of a reference: {escape(why)}"
            )
            return
        out.print(
            f"[bold]{_label('result')}[/]wrote {names}; not compared (--reference {next(iter(summary.run.outputs), 'z')}=EXPRESSION)"
        )
    for name, verdict in summary.verdicts.items():
        colour, word = ("green", "agrees") if verdict.passed else ("bold red", "differs")
        mark = f"[{colour}]{say(word)}[/]"
        told = f"{name} {mark} {say('with the reference')}: {escape(verdict_line(verdict))}"
        out.print(f"[bold]{_label('result')}[/]{told}")


def verdict_line(verdict: Verdict) -> str:
    """A verdict in one line: the figures that decide, and the first element that is wrong."""
    m = verdict.metrics
    # Units of the last place say nothing about elements near zero; a huge distance is left out.
    ulp = f", {m['max_ulp']:.3g} ulp" if m.get("max_ulp", 1e9) <= 1000 else ""
    figures = f"max error {m['max_abs']:.3g}{ulp}, SNR {m['snr_db']:.0f} dB" if "max_abs" in m else ""
    if verdict.passed:
        return f"{figures} ({verdict.standard} standard, {verdict.dtype}{list(verdict.shape)})"
    if verdict.complaint:
        return verdict.complaint
    first = verdict.bad[0] if verdict.bad else None
    where = f"; first at {list(first.index)}: expected {first.expected:.6g}, got {first.actual:.6g}" if first else ""
    failed = next((str(c) for c in verdict.checks if not c.passed), "")
    bare = (
        f"{verdict.never_written()}: compare blocks x tiles x tile length with its length; "
        if verdict.unwritten
        else ""
    )
    return f"{bare}{figures}; {failed}{where} ({verdict.standard} standard)"


def _findings(out: Console, findings: list[Finding], verbose: bool) -> None:
    shown = [f for f in findings if verbose or f.severity != "advice"]
    hidden = len(findings) - len(shown)
    if not shown:
        out.print(
            f"[bold]{_label('findings')}[/][green]{say('none')}[/]"
            + (f" ({hidden} pieces of advice: --verbose or `toprope profile`)" if hidden else "")
        )
        return
    counts = ", ".join(
        f"{sum(f.severity == s for f in findings)} {s}{'s' if sum(f.severity == s for f in findings) != 1 and s != 'advice' else ''}"
        for s in _COLOUR
        if any(f.severity == s for f in findings)
    )
    out.print(f"[bold]{_label('findings')}[/]{counts}")
    limit = len(shown) if verbose else 6
    for f in shown[:limit]:
        first, *rest = str(f).splitlines()
        out.print(f"  [{_COLOUR[f.severity]}]{say(f.severity)}[/] {escape(first)}")
        for line in rest:
            out.print(f"    {escape(line)}")
    if len(shown) > limit:
        out.print(f"  ... and {len(shown) - limit} more: toprope check")


def _time(out: Console, summary: Summary) -> None:
    timeline = summary.run.timeline
    if summary.run.trace.signal:
        out.print("[bold]time[/]      the run did not come to its end; this is the time of what was recorded of it")
    out.print(
        f"[bold]{_label('time')}[/]{summary.microseconds:.2f} µs predicted, {timeline.band} µs on the device; {timeline.cycles:,.0f} cycles, {timeline.assumed_share:.0%} of them rest on assumed numbers"
    )
    out.print(f"  [dim]{timeline.band.sentence()}[/]")
    for pipe, share in sorted(summary.busy.items(), key=lambda item: -item[1]):
        out.print(f"  {pipe:<5} {bar(share)} {share:>4.0%}  [dim]{waiting(summary.waits.get(pipe, {}))}[/]")
    out.print(f"  {summary.bottleneck}")
    dearest = [row for row in summary.lines[:5] if row.microseconds > 0]
    places = [f"{Path(row.file).name}:{row.line}" for row in dearest]
    width = max(map(len, places), default=0)
    if dearest:
        out.print(f"[dim]{'µs a core':>9}  {'line':<{width}}  pipe    times  source[/]")
    for row, place in zip(dearest, places, strict=True):
        head = f"{row.microseconds:>9.2f}  {place:<{width}}  {row.pipe:<5} {row.count:>7,}  "
        out.print(head + escape((Place(row.file, row.line).text() or row.op)[: max(20, out.width - len(head))]))


def _advice(out: Console, advice: list[Finding]) -> None:
    for i, f in enumerate(advice):
        head = f"[bold]{_label('advice')}[/]" if i == 0 else " " * 10
        out.print(f"{head}{escape(f.message)}")
        for p in f.places:
            out.print(f"            {escape(f'{Path(p.file).name}:{p.line}  {p.text()}  {p.action}'.rstrip())}")
