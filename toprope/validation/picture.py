"""Predicted against published as an SVG, one picture a kind of work, with the 15 % band."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

import numpy as np

from toprope.validation.experiment import Outcome

SIDE, MARGIN, BAND = 320, 44, 0.15
COLOURS = ("#3366cc", "#dc3912", "#109618", "#990099", "#ff9900", "#0099c6", "#dd4477", "#66aa00")


def scatter(kind: str, outcomes: Sequence[Outcome]) -> str:
    """One dot a row, a colour a publisher; axes in microseconds, logarithmic."""
    values = [v for o in outcomes for v in (o.row.us, o.us)]
    low, high = np.floor(np.log10(min(values)) - 0.05), np.ceil(np.log10(max(values)) + 0.05)

    def at(us: float) -> float:
        return float((np.log10(us) - low) / (high - low) * SIDE)

    lines = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{SIDE + 2 * MARGIN + 110}" height="{SIDE + 2 * MARGIN}" font-family="sans-serif" font-size="11">',
        f"<title>{escape(kind)}: predicted against published</title>",
        '<rect width="100%" height="100%" fill="white"/>',
        f'<text x="{MARGIN}" y="20" font-size="13">{escape(kind)}</text>',
        f'<g transform="translate({MARGIN},{MARGIN + SIDE}) scale(1,-1)">',
        f'<clipPath id="plot"><rect width="{SIDE}" height="{SIDE}"/></clipPath>',
        f'<rect width="{SIDE}" height="{SIDE}" fill="none" stroke="#888"/>',
    ]
    shift = float(np.log10(1 + BAND) / (high - low) * SIDE)
    corners = f"0,{-shift:.1f} {SIDE},{SIDE - shift:.1f} {SIDE},{SIDE + shift:.1f} 0,{shift:.1f}"
    lines += [
        f'<polygon clip-path="url(#plot)" points="{corners}" fill="#ddd"/>',
        f'<line x2="{SIDE}" y2="{SIDE}" stroke="#888"/>',
    ]
    publishers = list(dict.fromkeys(o.row.publisher for o in outcomes))
    for o in outcomes:
        colour = COLOURS[publishers.index(o.row.publisher) % len(COLOURS)]
        label = f"{o.row.id}: {o.row.us:,.2f} published, {o.us:,.2f} predicted ({o.error:+.0%})"
        lines.append(
            f'<circle cx="{at(o.row.us):.1f}" cy="{at(o.us):.1f}" r="3" fill="{colour}" fill-opacity="0.7"><title>{escape(label)}</title></circle>'
        )
    lines.append("</g>")
    for power in range(int(low), int(high) + 1):
        place = (power - low) / (high - low) * SIDE
        text = f"{10.0**power:g}"
        lines.append(f'<text x="{MARGIN + place:.0f}" y="{MARGIN + SIDE + 14}" text-anchor="middle">{text}</text>')
        lines.append(f'<text x="{MARGIN - 4}" y="{MARGIN + SIDE - place + 4:.0f}" text-anchor="end">{text}</text>')
    lines.append(f'<text x="{MARGIN + SIDE / 2}" y="{MARGIN + SIDE + 30}" text-anchor="middle">published, µs</text>')
    for i, name in enumerate(publishers):
        y = MARGIN + 14 * i + 8
        lines.append(f'<circle cx="{MARGIN + SIDE + 14}" cy="{y - 4}" r="3" fill="{COLOURS[i % len(COLOURS)]}"/>')
        lines.append(f'<text x="{MARGIN + SIDE + 22}" y="{y}">{escape(name)}</text>')
    return "\n".join([*lines, "</svg>", ""])
