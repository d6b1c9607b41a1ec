"""A training plan as one HTML page: memory and step by part, the pipeline over time, the runners-up, every number's source."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from markupsafe import Markup

from toprope import pages
from toprope.hccl.cluster import Cluster
from toprope.train.explain import binding_limit, explain, why_it_loses
from toprope.train.plan_timeline import plan_timeline
from toprope.train.schedule import Pass, held_over_time
from toprope.train.search import Found, Point
from toprope.train.shape import TrainModel
from toprope.train.strategy import Batch

_GIB = 2**30
_WIDTH, _HELD_HEIGHT = 900, 220
_MOST_MICRO = 32  # more say nothing more, and the drawing grows
_KINDS = {"F": pages.SERIES[1], "B": pages.SERIES[2], "W": pages.SERIES[0]}
_STYLE = "main{max-width:70rem}svg{width:100%;height:auto}svg text{font-size:12px;fill:var(--fg)}"


def plan_page(cluster: Cluster, model: TrainModel, batch: Batch, found: Found) -> str:
    """The page as text; it loads nothing from anywhere. `found` holds at least one layout."""
    best = found.points[0]
    drawn = _pipeline(cluster, model, batch, best) if best.plan.pp > 1 else None
    title = f"Training {model.name} on {cluster.cards} cards"
    body = pages.fill(
        Path(__file__).with_name("page.html"),
        title=title,
        summary=f"{model.parameters / 1e9:.1f} G parameters, {cluster.title}, {batch.samples} x {batch.sequence} tokens a step; "
        f"{found.looked_at} layouts looked at, {found.too_large} do not fit {cluster.memory_gb:g} GB.",
        best=best,
        gib=_GIB,
        tokens=f"{batch.tokens / best.step.total:,.0f}",
        bound=binding_limit(cluster, best),
        memory=_bars(best.memory.parts(), best.memory.total, _GIB, "GiB"),
        step=_bars(best.step.parts(), best.step.total, 1.0, "s"),
        pipeline=drawn[0] if drawn else "",
        held=drawn[1] if drawn else "",
        pipeline_note=f"{min(best.plan.micro_batches(batch), _MOST_MICRO)} of {best.plan.micro_batches(batch)} micro-batches; "
        "blue forward, green backward, orange weight gradients.",
        rows=[
            (str(p.plan), f"{p.step.total:.2f}", f"{p.step.mfu:.1%}", f"{p.memory.total / _GIB:.1f}", _why(best, p))
            for p in found.points
        ],
        whys=explain(cluster, model, batch, best),
    )
    return pages.page(title, body, style=_STYLE)


def _why(best: Point, point: Point) -> str:
    return "best" if point is best else why_it_loses(best, point)


def _bars(parts: Mapping[str, float], total: float, unit: float, name: str) -> Markup:
    at, rows = 0.0, []
    for number, (part, value) in enumerate((p, v) for p, v in parts.items() if v):
        width = value / total * _WIDTH
        text = f"{value / unit:.2f} {name} ({value / total:.0%})"
        colour = pages.SERIES[number % len(pages.SERIES)]
        rows.append(
            {"x": f"{at:.1f}", "width": f"{width:.1f}", "colour": colour, "name": part.replace("_", " "), "text": text}
        )
        at += width
    return pages.fill(Path(__file__).with_name("bars.html"), width=_WIDTH, parts=rows, label=f"parts in {name}")


def _pipeline(cluster: Cluster, model: TrainModel, batch: Batch, best: Point) -> tuple[Markup, Markup]:
    """Passes of all stages, and what each holds meanwhile."""
    line = plan_timeline(cluster, model, batch, best, _MOST_MICRO)
    return _gantt(line.passes, line.stages, line.end_s), _held(line.passes, line.stages, line.end_s, line.each)


def _gantt(passes: Sequence[Pass], stages: int, end: float) -> Markup:
    rows: list[dict[str, Any]] = []
    for p in passes:
        text = f"stage {p.stage}, {p.kind} of micro-batch {p.micro}: {p.start_s:.3f} to {p.end_s:.3f} s"
        rows.append(
            {
                "x": f"{p.start_s / end * _WIDTH:.1f}",
                "y": 2 + 22 * p.stage,
                "width": f"{max(0.3, (p.end_s - p.start_s) / end * _WIDTH - 0.3):.1f}",
                "colour": _KINDS[p.kind],
                "text": text,
            }
        )
    return pages.fill(Path(__file__).with_name("pipeline.html"), width=_WIDTH, stages=stages, passes=rows)


def _held(passes: Sequence[Pass], stages: int, end: float, each: float) -> Markup:
    held = [held_over_time(list(passes), stage, each) for stage in range(stages)]
    top = max(value for line in held for _, value in line)
    lines = []
    for stage, line in enumerate(held):
        points, last = [], 0.0
        for when, value in line:  # steps, not slopes
            x, y = when / end * _WIDTH, _HELD_HEIGHT - 4 - value / top * (_HELD_HEIGHT - 24)
            points += [f"{x:.1f},{_HELD_HEIGHT - 4 - last / top * (_HELD_HEIGHT - 24):.1f}", f"{x:.1f},{y:.1f}"]
            last = value
        colour = pages.SERIES[stage % len(pages.SERIES)]
        lines.append({"points": " ".join(points), "colour": colour, "text": f"stage {stage}"})
    return pages.fill(
        Path(__file__).with_name("held.html"),
        width=_WIDTH,
        height=_HELD_HEIGHT,
        lines=lines,
        top=f"most: {top / _GIB:.1f} GiB",
    )
