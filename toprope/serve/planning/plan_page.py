"""A plan as one HTML page: the frontier as SVG, the recommendation, all points in a table."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from html import escape
from pathlib import Path

from markupsafe import Markup

from toprope import pages
from toprope.serve.planning.plan_sweep import PlanPoint, Slo, frontier
from toprope.serve.planning.recommendation import Recommendation

_COLOURS = dict(
    zip(("prefill-first", "decode-first", "throughput", "least-laxity", "adaptive"), pages.SERIES, strict=False)
)
_HEAD = [
    "policy",
    "batch",
    "tokens",
    "block",
    "KV blocks",
    "tokens/s",
    "TTFT p99 s",
    "TPOT p99 ms",
    "latency p99 s",
    "within",
    "preempted",
    "KV peak",
]
_STYLE = "main{max-width:60rem}tr.chosen{background:var(--fill)}svg{width:100%;height:auto}svg text{font-size:12px;fill:var(--dim)}"
_WIDTH, _HEIGHT, _LEFT, _BOTTOM, _TOP, _RIGHT = 860, 460, 70, 50, 20, 20


def plan_page(title: str, points: Sequence[PlanPoint], chosen: Recommendation, slo: Slo, notes: Sequence[str]) -> str:
    """The page as text; it loads nothing from anywhere."""
    verdict = "Recommended" if chosen.meets_slo else "Nearest to the targets"
    body = pages.fill(
        Path(__file__).with_name("plan_page.html"),
        title=title,
        verdict=verdict,
        chosen=chosen,
        chart=Markup(plan_chart(points, chosen.point, slo)),
        head=_HEAD,
        rows=[_row(p, chosen.point, slo) for p in points],
        notes=notes,
    )
    return pages.page(title, body, style=_STYLE)


def plan_chart(points: Sequence[PlanPoint], chosen: PlanPoint, slo: Slo) -> str:
    """Throughput against p99 time per token as an SVG element; hover a point for its settings."""
    longest_ms = 1.08 * max([p.tpot_s for p in points if p.tpot_s < float("inf")] + [slo.tpot_s]) * 1e3
    fastest = 1.08 * max(p.tokens_per_s for p in points)

    def x(tpot_s: float) -> float:
        return _LEFT + tpot_s * 1e3 / longest_ms * (_WIDTH - _LEFT - _RIGHT)

    def y(tokens_per_s: float) -> float:
        return _HEIGHT - _BOTTOM - tokens_per_s / fastest * (_HEIGHT - _BOTTOM - _TOP)

    parts = [f'<svg viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img" aria-label="throughput against time per token">']
    parts += _axes(longest_ms, fastest, x, y)
    parts.append(
        _line(x(slo.tpot_s), _TOP, x(slo.tpot_s), _HEIGHT - _BOTTOM, 'stroke="var(--bad)" stroke-dasharray="5 4"')
        + f'<text x="{x(slo.tpot_s) - 5:.1f}" y="{_TOP + 12}" text-anchor="end">target {slo.tpot_s * 1e3:g} ms</text>'
    )
    line = " ".join(f"{x(p.tpot_s):.1f},{y(p.tokens_per_s):.1f}" for p in frontier(points))
    parts.append(f'<polyline points="{line}" fill="none" stroke="var(--dim)" stroke-width="1.5"/>')
    for point in points:
        if point.tpot_s == float("inf"):
            continue
        ring = ' stroke="var(--fg)" stroke-width="3"' if point is chosen else ""
        fill = _COLOURS.get(point.settings.policy, "#555")
        opacity = 1.0 if point.meets(slo) else 0.35
        hint = (
            f"{point.settings}: {point.tokens_per_s:.0f} tokens/s, p99 {point.tpot_s * 1e3:.1f} ms per token, "
            f"first token {point.ttft_s:.2f} s"
        )
        parts.append(
            f'<circle cx="{x(point.tpot_s):.1f}" cy="{y(point.tokens_per_s):.1f}" r="{7 if ring else 5}" fill="{fill}" '
            f'fill-opacity="{opacity}"{ring}><title>{escape(hint)}</title></circle>'
        )
    for column, policy in enumerate(dict.fromkeys(p.settings.policy for p in points)):
        left, top = _LEFT + 15 + 120 * column, _HEIGHT - _BOTTOM - 18
        parts.append(
            f'<circle cx="{left}" cy="{top}" r="5" fill="{_COLOURS.get(policy, "#555")}"/>'
            f'<text x="{left + 10}" y="{top + 4}">{escape(policy)}</text>'
        )
    return "".join([*parts, "</svg>"])


def _axes(longest_ms: float, fastest: float, x: Callable[[float], float], y: Callable[[float], float]) -> list[str]:
    bottom = _HEIGHT - _BOTTOM
    parts = []
    for tick in _ticks(longest_ms):
        at = x(tick / 1e3)
        parts.append(_line(at, _TOP, at, bottom, 'class="rule"'))
        parts.append(f'<text x="{at:.1f}" y="{bottom + 18}" text-anchor="middle">{tick:g}</text>')
    for tick in _ticks(fastest):
        at = y(tick)
        parts.append(_line(_LEFT, at, _WIDTH - _RIGHT, at, 'class="rule"'))
        parts.append(f'<text x="{_LEFT - 8}" y="{at + 4:.1f}" text-anchor="end">{tick:g}</text>')
    middle = _HEIGHT / 2
    parts.append(f'<text x="{_WIDTH / 2}" y="{_HEIGHT - 8}" text-anchor="middle">p99 time per output token, ms</text>')
    parts.append(f'<text x="16" y="{middle}" transform="rotate(-90 16 {middle})" text-anchor="middle">tokens/s</text>')
    return parts


def _line(x1: float, y1: float, x2: float, y2: float, style: str) -> str:
    return f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" {style}/>'


def _ticks(top: float) -> list[float]:
    """Round numbers from 0 to `top`, about six of them."""
    raw = top / 6
    unit = 10.0 ** len(str(int(raw))) / 10 if raw >= 1 else 0.1
    step = next(unit * factor for factor in (1, 2, 5, 10) if unit * factor >= raw)
    return [step * i for i in range(int(top / step) + 1)]


def _row(p: PlanPoint, chosen: PlanPoint, slo: Slo) -> tuple[str, list[object]]:
    """The class and the cells of a point's row."""
    s = p.settings
    cells = [
        *(s.policy, s.max_batch_size, s.max_tokens, s.block_size, p.kv_blocks, f"{p.tokens_per_s:.0f}"),
        *(f"{p.ttft_s:.2f}", f"{p.tpot_s * 1e3:.1f}", f"{p.latency_s:.1f}", f"{p.share_within:.0%}"),
        *(p.preemptions, f"{p.peak_kv_use:.0%}"),
    ]
    return "chosen" if p is chosen else "" if p.meets(slo) else "skipped", cells
