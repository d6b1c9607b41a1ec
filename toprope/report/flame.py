"""A flame graph as one SVG file: kernel, function, line, operation; widths are the cycles a pipe spent, summed over cores."""

from __future__ import annotations

from dataclasses import dataclass, field
from html import escape
from pathlib import Path

import numpy as np

from toprope.finding import Place
from toprope.kernel import Run
from toprope.pages import PIPES as PIPE_COLOURS
from toprope.profile.functions import enclosing
from toprope.report.summary import working_cycles
from toprope.trace import PIPES

_WIDTH, _ROW, _TOP = 1200, 19, 26
_LETTER = 6.3  # average width of a character at 11 px
# Click a box to give it the whole width; click the kernel to see all again.
_ZOOM = """
(s=>{const boxes=[...s.querySelectorAll("g[data-x]")],W=%d,L=%s,of=g=>[+g.dataset.x,+g.dataset.w];
const show=(x,w)=>boxes.forEach(g=>{const [a,b]=of(g),l=Math.max(0,(a-x)/w*W),r=Math.min(W,(a+b-x)/w*W),[c,t]=[g.children[1],g.children[2]];
 g.style.display=r-l<.2?"none":"";c.setAttribute("x",l);c.setAttribute("width",Math.max(0,r-l-.6));t.setAttribute("x",l+4);
 const n=Math.floor((r-l-6)/L);t.textContent=n<3?"":g.dataset.t.length>n?g.dataset.t.slice(0,n-1)+"…":g.dataset.t});
boxes.forEach(g=>g.addEventListener("click",()=>show(...of(g))));
})(document.currentScript.closest("svg"))
"""


SCRIPT = _ZOOM % (_WIDTH, _LETTER)
STYLE = "text{font:11px ui-monospace,Menlo,Consolas,monospace;fill:#fff;pointer-events:none}text.h{font:12px system-ui,sans-serif;fill:#555}g{cursor:pointer}g:hover rect{opacity:.8}@media(prefers-color-scheme:dark){text.h{fill:#aaa}}"


@dataclass
class Frame:
    """A box: label, cycles of everything below it, cycles by pipe, and its children by label."""

    label: str
    cycles: float = 0.0
    count: int = 0
    pipes: dict[str, float] = field(default_factory=dict)
    children: dict[str, Frame] = field(default_factory=dict)

    def add(self, path: list[str], pipe: str, cycles: float, count: int) -> None:
        """Add cycles at a path of labels below this frame."""
        self.cycles += cycles
        self.count += count
        self.pipes[pipe] = self.pipes.get(pipe, 0.0) + cycles
        if path:
            child = self.children.setdefault(path[0], Frame(path[0]))
            child.add(path[1:], pipe, cycles, count)


def frames(run: Run) -> Frame:
    """The tree of a run: kernel, function, line, operation and pipe."""
    trace = run.trace
    root = Frame(run.kernel)
    spent = working_cycles(run)
    key = (trace.instrs["site"].astype(np.int64) * max(1, len(trace.ops)) + trace.instrs["op"]) * 8 + trace.instrs[
        "pipe"
    ]
    key[spent <= 0] = -1
    unique, inverse, counts = np.unique(key, return_inverse=True, return_counts=True)
    totals = np.bincount(inverse, weights=spent, minlength=len(unique))
    for k, count, cycles in zip(unique.tolist(), counts.tolist(), totals.tolist(), strict=True):
        if k < 0:
            continue
        site, op, pipe = trace.sites[k // 8 // len(trace.ops)], trace.ops[k // 8 % len(trace.ops)], PIPES[k % 8]
        function = enclosing(site.file, site.line) or Path(site.file).name
        line = f"{site.line}  {Place(site.file, site.line).text()}".strip()
        root.add([function, line, f"{op.name} ({pipe})"], pipe, cycles, count)
    return root


def svg(run: Run) -> str:
    """The graph as an SVG element, complete in itself; it follows the reader's colour scheme."""
    root = frames(run)
    boxes: list[str] = []
    _draw(root, 0.0, 0, root.cycles or 1.0, boxes)
    height = _TOP + 4 * _ROW + 4
    title = f"{run.kernel} on {run.soc.name}: {root.cycles:,.0f} cycles of pipe time on {len(run.trace.cores)} cores; click a box to zoom, the top one to zoom out"
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {height}" width="100%" role="img">\n<style>{STYLE}</style>\n'
        f'<text class="h" x="2" y="16">{escape(title)}</text>\n'
        + "\n".join(boxes)
        + f"\n<script><![CDATA[{SCRIPT}]]></script>\n</svg>\n"
    )


def write(run: Run, path: Path) -> None:
    """Write the SVG file."""
    path.write_text(svg(run))


def _draw(frame: Frame, x: float, depth: int, total: float, boxes: list[str]) -> None:
    width = frame.cycles / total * _WIDTH
    room = int((width - 6) / _LETTER)
    text = "" if room < 3 else frame.label if len(frame.label) <= room else frame.label[: room - 1] + "…"
    pipe = max(frame.pipes, key=lambda p: frame.pipes[p], default="ALL")
    split = ", ".join(f"{p} {c / frame.cycles:.0%}" for p, c in sorted(frame.pipes.items(), key=lambda item: -item[1]))
    about = (
        f"{frame.label}\n{frame.cycles:,.0f} cycles ({frame.cycles / total:.1%}), {frame.count:,} instructions\n{split}"
    )
    label, y = escape(frame.label, quote=True), _TOP + depth * _ROW
    fill = "#5b6673" if depth == 0 else PIPE_COLOURS[pipe]
    boxes.append(
        f'<g data-x="{x:.3f}" data-w="{width:.3f}" data-t="{label}"><title>{escape(about)}</title>'
        f'<rect x="{x:.3f}" y="{y}" width="{max(0.0, width - 0.6):.3f}" height="{_ROW - 1}" rx="2" fill="{fill}"/>'
        f'<text x="{x + 4:.3f}" y="{y + 13}">{escape(text)}</text></g>'
    )
    for child in sorted(frame.children.values(), key=lambda f: -f.cycles):
        _draw(child, x, depth + 1, total, boxes)
        x += child.cycles / total * _WIDTH
