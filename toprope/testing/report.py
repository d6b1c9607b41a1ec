"""Reports of a test run: JSON for machines, one self-contained HTML page for people."""

from __future__ import annotations

import html
import json
import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from toprope.testing.execution import PASSED, SKIPPED, Result
from toprope.testing.store import Drop

History = Callable[[str, str], list[tuple[str, str, float | None, float | None]]]

_STYLE = """
body { font: 15px/1.45 system-ui, sans-serif; margin: 2rem auto; max-width: 70rem; padding: 0 1rem; color: #1c2430; }
h1 { font-size: 1.4rem } h2 { font-size: 1.1rem; margin-top: 2rem }
table { border-collapse: collapse } td, th { padding: .15rem .7rem; text-align: left; border-bottom: 1px solid #e3e7ec }
td.n { text-align: right; font-variant-numeric: tabular-nums }
.passed { color: #13753a } .failed, .error { color: #b3261e; font-weight: 600 } .skipped { color: #6b7480 }
details { border: 1px solid #d9dee5; border-radius: 6px; margin: .5rem 0; padding: .4rem .8rem }
summary { cursor: pointer } pre { overflow-x: auto; background: #f6f7f9; padding: .6rem; font-size: 13px }
.heat { display: grid; gap: 1px; width: max-content; margin: .4rem 0 } .heat i { width: 11px; height: 11px }
svg text { font: 10px system-ui, sans-serif; fill: #4a5361 }
"""


def write_json(path: Path, results: Sequence[Result], drops: Sequence[Drop] = ()) -> None:
    """All results and totals as one JSON object: {"totals": .., "results": [..], "drops": [..]}."""
    data = {
        "totals": totals(results),
        "results": [result.as_dict() for result in results],
        "drops": [vars(drop) for drop in drops],
    }
    path.write_text(json.dumps(data, indent=1, ensure_ascii=False))


def totals(results: Sequence[Result]) -> dict[str, int]:
    """Number of results per status."""
    return {s: sum(r.status == s for r in results) for s in ("passed", "failed", "error", "skipped")}


def write_html(
    path: Path, results: Sequence[Result], drops: Sequence[Drop] = (), history: History | None = None
) -> None:
    """One page: totals, what got worse, and every case; failing ones open with histogram, heat map and history."""
    counts = totals(results)
    parts = [
        "<!doctype html><meta charset=utf-8><title>operator tests</title>",
        f"<style>{_STYLE}</style><h1>Operator tests</h1><p>",
        " · ".join(f"<span class={name}>{number} {name}</span>" for name, number in counts.items() if number),
        "</p>",
    ]
    if drops:
        parts.append("<h2>Worse than the reference</h2><table><tr><th>case<th>figure<th>before<th>now")
        parts += [f"<tr><td>{html.escape(d.key)}<td>{d.figure}<td class=n>{d.before}<td class=n>{d.now}" for d in drops]
        parts.append("</table>")
    bad = [r for r in results if r.status not in (PASSED, SKIPPED)]
    if bad:
        parts.append(f"<h2>Failing ({len(bad)})</h2>")
        parts += [_details(result, history, opened=number < 3) for number, result in enumerate(bad)]
    parts.append("<h2>All cases</h2><table><tr><th>case<th>class<th>status<th>mere<th>max ulp<th>predicted µs<th>s")
    parts += [_row(result) for result in results]
    parts.append("</table>")
    path.write_text("\n".join(parts))


def _row(result: Result) -> str:
    figures = [result.metrics.get("mere"), result.metrics.get("max_ulp"), result.predicted_us]
    cells = "".join(f"<td class=n>{'' if v is None else f'{v:.3g}'}" for v in figures)
    status = f"<td class={result.status}>{result.status}"
    return f"<tr><td>{html.escape(result.key)}<td>{result.kind}{status}{cells}<td class=n>{result.seconds:.2f}"


def _details(result: Result, history: History | None, opened: bool) -> str:
    title = f"<span class={result.status}>{result.status}</span> {html.escape(result.key)}"
    body = [f"<p>{html.escape(result.inputs)}</p><p>{html.escape(result.message)}</p>"]
    if result.determinism:
        body.append(f"<p>{html.escape(', '.join(f'{k}: {v}' for k, v in result.determinism.items()))}</p>")
    if result.histogram:
        body.append("<p>relative error</p>" + bars(result.histogram))
    if result.heat:
        body.append("<p>where the error sits (last axis to the right, other axes down; darker is worse)</p>")
        body.append(heat_map(result.heat))
    past = history(result.suite, result.case) if history else []
    if len(past) > 1:
        rows = "".join(
            f"<tr><td>{html.escape(label)}<td class={status}>{status}<td class=n>{_figure(mere)}<td class=n>{_figure(us)}"
            for label, status, mere, us in past[-10:]
        )
        body.append(f"<table><tr><th>run<th>status<th>mere<th>predicted µs{rows}</table>")
    if result.explanation:
        body.append(f"<pre>{html.escape(result.explanation)}</pre>")
    return f"<details{' open' if opened else ''}><summary>{title}</summary>{''.join(body)}</details>"


def _figure(value: float | None) -> str:
    return "" if value is None else f"{value:.3g}"


def bars(histogram: Mapping[str, int]) -> str:
    """An SVG bar chart, one bar per power of two of the relative error, on a logarithmic count axis."""
    top = math.log1p(max(histogram.values(), default=1))
    width, height, drawn = 26, 90, []
    for position, (label, count) in enumerate(histogram.items()):
        tall = max(2.0, height * math.log1p(count) / top)
        x = position * width
        drawn.append(f"<rect x={x} y={height - tall + 4:.1f} width={width - 4} height={tall:.1f} fill='#5b7fb5'>")
        drawn.append(f"<title>{html.escape(label)}: {count}</title></rect>")
        drawn.append(f"<text x={x} y={height + 18}>{html.escape(label.removeprefix('2^')[:7])}</text>")
    return f"<svg width={len(histogram) * width + 20} height={height + 24} role=img>{''.join(drawn)}</svg>"


def heat_map(heat: Sequence[Sequence[float]]) -> str:
    """A grid of cells coloured by the logarithm of the largest relative error in each; misplaced NaN or infinity is black."""
    finite = [v for row in heat for v in row if math.isfinite(v) and v > 0]
    low, high = (math.log10(min(finite)), math.log10(max(finite))) if finite else (0.0, 1.0)
    cells = []
    for row in heat:
        for value in row:
            shown = "NaN or infinity misplaced" if not math.isfinite(value) else f"{value:.3g}"
            cells.append(f"<i style='background:{_colour(value, low, high)}' title='{shown}'></i>")
    columns = len(heat[0]) if heat else 1
    return f"<div class=heat style='grid-template-columns:repeat({columns},11px)'>{''.join(cells)}</div>"


def _colour(value: float, low: float, high: float) -> str:
    if not math.isfinite(value):
        return "#000"
    if value == 0:
        return "#eef1f4"
    share = (math.log10(value) - low) / (high - low) if high > low else 1.0
    return f"hsl({50 - 50 * share:.0f} 85% {82 - 40 * share:.0f}%)"
