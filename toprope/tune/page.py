"""A tuning as one HTML page: the winner and why, the landscape over each pair of parameters, every point."""

from __future__ import annotations

from itertools import combinations
from pathlib import Path
from typing import Any

from toprope import pages
from toprope.tune.explain import sentences, shown
from toprope.tune.space import Parameter
from toprope.tune.tuning import Tuned

_SHADES = 5
_STYLE = (
    "main{max-width:72rem}.map td,.map th{padding:.2rem .5rem;text-align:right}.map a{color:inherit}"
    + "".join(f".s{i}{{background:rgba(43,121,201,{0.62 - 0.13 * i:.2f})}}" for i in range(_SHADES))
    + ".best{outline:2px solid var(--fg)}tr:target{outline:2px solid var(--fg)}"
)


def tune_page(tuned: Tuned) -> str:
    """The page as text; it loads nothing from anywhere."""
    title = f"Tuning {tuned.recipe.target.rpartition('/')[2]} on {tuned.recipe.soc}"
    parameters = tuned.space.parameters
    body = pages.fill(
        Path(__file__).with_name("page.html"),
        title=title,
        winner=shown(tuned.winner),
        us=tuned.measure.us,
        low=tuned.measure.low_us,
        high=tuned.measure.high_us,
        gain=f"{tuned.gain:.2f}x today's {shown(tuned.space.default)}" if tuned.default.us else "",
        tried=len(tuned.found.tried),
        points=tuned.space.size,
        why=sentences(tuned),
        maps=[_map(tuned, a, b) for a, b in combinations(parameters, 2)],
        names=[p.name for p in parameters],
        rows=_rows(tuned),
    )
    return pages.page(title, body, style=_STYLE)


def _rows(tuned: Tuned) -> list[dict[str, Any]]:
    wrong = {tuple(p.items()): why for p, why in tuned.rejected}
    out = []
    for at, (point, m) in sorted(
        enumerate(tuned.found.tried), key=lambda row: (row[1][1].us is None, row[1][1].us or 0.0)
    ):
        note = m.reason or wrong.get(tuple(point.items()), "") or ("the winner" if point == tuned.winner else "")
        out.append(
            {
                "id": f"p{at}",
                "values": list(point.values()),
                "us": f"{m.us:.2f}" if m.us is not None else "–",
                "pipe": f"{m.bound} {m.busy[m.bound]:.0%}" if m.busy else "",
                "memory": ", ".join(f"{s.upper()} {b:.0%}" for s, b in m.buffers.items()),
                "note": note,
            }
        )
    return out


def _map(tuned: Tuned, down: Parameter, across: Parameter) -> dict[str, Any]:
    """The fastest time of each pair of values, as shaded cells that lead to their point."""
    best: dict[tuple[int, int], tuple[float, int]] = {}
    for at, (point, m) in enumerate(tuned.found.tried):
        pair = point[down.name], point[across.name]
        best[pair] = min(best.get(pair, (float("inf"), at)), (m.us if m.us is not None else float("inf"), at))
    times = [us for us, _ in best.values() if us < float("inf")]
    low, high = (min(times), max(times)) if times else (0.0, 0.0)

    def cell(pair: tuple[int, int]) -> dict[str, Any]:
        if pair not in best:
            return {"text": "", "shade": "", "link": ""}
        us, at = best[pair]
        if us == float("inf"):
            return {"text": "–", "shade": "", "link": f"p{at}"}
        step = min(_SHADES - 1, int(_SHADES * (us - low) / (high - low))) if high > low else 0
        chosen = pair == (tuned.winner[down.name], tuned.winner[across.name])
        return {"text": f"{us:.2f}", "shade": f"s{step}" + (" best" if chosen else ""), "link": f"p{at}"}

    rows = [{"value": d, "cells": [cell((d, a)) for a in across.values]} for d in down.values]
    return {"down": down.name, "across": across.name, "columns": across.values, "rows": rows}
