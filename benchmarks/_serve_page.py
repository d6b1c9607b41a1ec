"""The table of figures in docs/serve.md, from the results of serve_scheduler and serve_merging that are kept in figures/."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

KEPT = Path(__file__).parent / "figures"
PAGE = Path(__file__).parent.parent / "docs" / "serve.md"
BEGIN, END = "<!-- figures of ./dev bench serve_scheduler serve_merging --write -->\n", "<!-- /figures -->"


def write(results: Path) -> None:
    """Keep the results that are there and set the table of the page anew."""
    for name in ("serve_scheduler", "serve_merging"):
        if (results / f"{name}.json").exists():
            shutil.copyfile(results / f"{name}.json", KEPT / f"{name}.json")
    text = PAGE.read_text()
    before, _, rest = text.partition(BEGIN)
    _, _, after = rest.partition(END)
    PAGE.write_text(before + BEGIN + table() + END + after)


def table() -> str:
    """What was wanted beside what was measured, in Markdown."""
    scheduler, merging = (
        json.loads((KEPT / f"{name}.json").read_text()) for name in ("serve_scheduler", "serve_merging")
    )
    policies = [row for row in scheduler["step"].values() if isinstance(row, dict)]
    memory = scheduler["memory"]
    blocks = {name: row for name, row in memory.items() if name.startswith("block ")}
    saving = ", ".join(f"−{100 * row['saving_against_contiguous']:.0f} % at {name}" for name, row in blocks.items())
    waste = ", ".join(f"{100 * row['waste_inside_blocks']:.1f} % at {name}" for name, row in blocks.items())
    bars = memory["bars"]
    rows = [
        (
            "scheduler step, 256 running, 10,000 waiting (processor time, median)",
            f"{scheduler['step']['bar_ms']:g} ms",
            f"{_range(policies, 'step_median_ms')} ms by policy, {_range(policies, 'step_and_update_median_ms')} ms with `update`",
        ),
        (
            "KV memory against slots of 2,048, log-uniform lengths",
            f"−{100 * bars['saving_against_contiguous']:.0f} %",
            saving,
        ),
        (
            "held block space without a token",
            f"{100 * bars['waste_inside_blocks at block 16']:.0f} % at block 16",
            waste,
        ),
        (
            f"merged over one-by-one, {merging['model']}, one thread",
            f"{merging['bar']:g}x",
            f"{merging['ratio']:.1f}x (p99 {merging['merged_paced']['p99_ms']:.0f} ms at four times the one-by-one rate, "
            f"{merging['merged_saturated']['p99_ms']:.0f} ms with {merging['clients']} clients at full speed)",
        ),
    ]
    return "".join(f"| {a} | {b} | {c} |\n" for a, b, c in [("what", "bar", "here"), ("---", "---", "---"), *rows])


def _range(rows: list[dict[str, Any]], figure: str) -> str:
    values = [row[figure] for row in rows]
    return f"{min(values):.2f}–{max(values):.2f}"
