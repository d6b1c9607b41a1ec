"""Reports of a test run: JSON for machines, one self-contained HTML page for people."""

from __future__ import annotations

import html
import json
import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from markupsafe import Markup

from toprope import pages
from toprope.testing.execution import PASSED, SKIPPED, Result
from toprope.testing.store import Drop

History = Callable[[str, str], list[tuple[str, str, float | None, float | None]]]

_STYLE = """
main{max-width:70rem}
details{border:1px solid var(--line);border-radius:6px;margin:.5rem 0;padding:.4rem .8rem;background:var(--card)}
summary{cursor:pointer}
.heat{display:grid;gap:1px;width:max-content;margin:.4rem 0}.heat i{width:11px;height:11px}
svg text{font-size:10px;fill:var(--dim)}
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
    bad = [r for r in results if r.status not in (PASSED, SKIPPED)]
    body = pages.fill(
        Path(__file__).with_name("report.html"),
        totals=totals(results),
        drops=drops,
        failing=[_details(result, history) for result in bad],
        rows=[
            (r, [_figure(v) for v in (r.metrics.get("mere"), r.metrics.get("max_ulp"), r.predicted_us)])
            for r in results
        ],
    )
    path.write_text(pages.page("operator tests", body, style=_STYLE))


def _details(result: Result, history: History | None) -> dict[str, Any]:
    """What the page shows of a failing case."""
    past = history(result.suite, result.case) if history else []
    return {
        "result": result,
        "determinism": ", ".join(f"{k}: {v}" for k, v in (result.determinism or {}).items()),
        "bars": Markup(bars(result.histogram)) if result.histogram else "",
        "heat": Markup(heat_map(result.heat)) if result.heat else "",
        "past": [(label, status, _figure(mere), _figure(us)) for label, status, mere, us in past[-10:]]
        if len(past) > 1
        else [],
    }


def _figure(value: float | None) -> str:
    return "" if value is None else f"{value:.3g}"


def bars(histogram: Mapping[str, int]) -> str:
    """An SVG bar chart, one bar per power of two of the relative error, on a logarithmic count axis."""
    top = math.log1p(max(histogram.values(), default=1))
    width, height, drawn = 26, 90, []
    for position, (label, count) in enumerate(histogram.items()):
        tall = max(2.0, height * math.log1p(count) / top)
        x = position * width
        drawn.append(
            f"<rect x='{x}' y='{height - tall + 4:.1f}' width='{width - 4}' height='{tall:.1f}' fill='var(--accent)'>"
        )
        drawn.append(f"<title>{html.escape(label)}: {count}</title></rect>")
        drawn.append(f"<text x='{x}' y='{height + 18}'>{html.escape(label.removeprefix('2^')[:7])}</text>")
    return f"<svg width='{len(histogram) * width + 20}' height='{height + 24}' role='img'>{''.join(drawn)}</svg>"


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
    return f"<div class='heat' style='grid-template-columns:repeat({columns},11px)'>{''.join(cells)}</div>"


def _colour(value: float, low: float, high: float) -> str:
    if not math.isfinite(value):
        return "#000"
    if value == 0:
        return "#eef1f4"
    share = (math.log10(value) - low) / (high - low) if high > low else 1.0
    return f"hsl({50 - 50 * share:.0f} 85% {82 - 40 * share:.0f}%)"
