"""toprope deps: what depends on what in a run, what keeps it in order, and which synchronisation orders nothing."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

from markupsafe import Markup

from toprope import pages
from toprope.commandline import document
from toprope.commands.launching import parser, prepare
from toprope.commands.prepared import Prepared, ended_early
from toprope.deps import Graph, dependences, path_by_line
from toprope.errors import BadInput

FORMATS = ("text", "dot", "html")
SHOWN = 12  # lines of the critical path


def main(argv: list[str]) -> int:
    """Exit code 0 done, 1 a dependence that nothing orders, 2 bad input, 3 the kernel crashed or hung."""
    p = parser("deps", "Show the dependence graph of a run: by source line, or with --tensors by tensor.")
    p.add_argument("--core", type=int, default=0, help="core to look at (default 0)")
    p.add_argument("--tensors", action="store_true", help="the graph of tensors instead of the graph of source lines")
    p.add_argument("--format", choices=FORMATS, default="text", help="text, dot (for Graphviz) or html")
    p.add_argument("-o", "--output", type=Path, metavar="FILE", help="write there instead of to the screen")
    options = p.parse_intermixed_args(argv)
    return _deps(prepare(options))


def _deps(prepared: Prepared) -> int:
    options = prepared.options
    run, _ = prepared.run()
    if not 0 <= options.core < len(run.trace.cores):
        raise BadInput(f"--core {options.core}: the run has {len(run.trace.cores)} cores", cure="count from 0")
    graph = dependences(run, options.core)
    form = {"text": text, "dot": dot, "html": page}[options.format]
    shown = document("deps", as_json(graph)) if options.json else form(graph, options.tensors)
    if options.output:
        options.output.write_text(shown + "\n")
        print(f"wrote {options.output}")
    else:
        print(shown)
    if run.trace.signal:
        raise ended_early(run)
    return 1 if any(not d.by for d in graph.dependences) else 0


def text(graph: Graph, tensors: bool) -> str:
    """The graph as lines."""
    run = graph.run
    core = run.trace.cores[graph.core]
    out = [f"{run.kernel} on {run.soc.name}, core {graph.core} ({core.type} of block {core.block})"]
    if tensors:
        rows = sorted(graph.tensors().items(), key=lambda row: row[0])
        out += ["", "tensors: from -> to, by, how often"]
        out += [f"  {a:<24} -> {b:<24} {op:<16} {n:>7,}" for (a, b, op), n in rows]
        return "\n".join(out)
    kinds = Counter(d.kind for d in graph.dependences)
    out.append(", ".join(f"{kinds[k]:,} {k}" for k in ("flow", "anti", "output")) + " dependences; what orders them:")
    orders = Counter(d.by or "NOTHING" for d in graph.dependences)
    out += [f"  {by:<10} {n:>9,}" for by, n in orders.most_common()]
    out += ["", "by source line: kind, earlier -> later, through, ordered by, how often"]
    for (kind, a, b, space, by), n in sorted(graph.by_line().items(), key=lambda row: (row[0][4] != "", row[0])):
        out.append(f"  {kind:<6} {a:<34} -> {b:<34} {space:<4} {by or 'NOTHING':<9} {n:>7,}")
    idle = Counter(graph.line(s) for s in graph.idle_syncs)
    out += [
        "",
        f"{len(graph.syncs):,} waits and barriers, {len(graph.idle_syncs):,} of them order nothing that is not in order already:",
    ]
    out += [f"  {line:<50} {n:>7,}" for line, n in idle.most_common()] or ["  none"]
    out += ["", "critical path (all cores), dearest lines first: µs, instructions"]
    out += [f"  {line:<50} {us:>9.2f} {n:>7,}" for line, n, us in path_by_line(graph)[:SHOWN]]
    return "\n".join(out)


def dot(graph: Graph, tensors: bool) -> str:
    """The graph for Graphviz: one node per source line or tensor, edge labels with counts."""
    style = {"flow": "solid", "anti": "dashed", "output": "dotted"}
    out = [f'digraph "{graph.run.kernel}" {{', '  rankdir=LR; node [shape=box, fontname="sans-serif"];']
    if tensors:
        out += [f'  "{a}" -> "{b}" [label="{op} x{n}"];' for (a, b, op), n in sorted(graph.tensors().items())]
    else:
        for (kind, a, b, space, by), n in sorted(graph.by_line().items()):
            colour = "black" if by else "red"
            out.append(
                f'  "{a}" -> "{b}" [label="{kind} {space}: {by or "NOTHING"} x{n}", style={style[kind]}, color={colour}];'
            )
    return "\n".join([*out, "}"])


def page(graph: Graph, tensors: bool) -> str:
    """One self-contained page: the text above a picture, nodes by layer of the flow."""
    edges = (
        [(a, b, f"{op} x{n}", "var(--dim)", "") for (a, b, op), n in sorted(graph.tensors().items())]
        if tensors
        else [
            (
                a,
                b,
                f"{kind} {space}: {by or 'NOTHING'} x{n}",
                "var(--dim)" if by else "var(--bad)",
                {"flow": "", "anti": "6 3", "output": "2 3"}[kind],
            )
            for (kind, a, b, space, by), n in sorted(graph.by_line().items())
        ]
    )
    title = f"{graph.run.kernel}: dependences"
    body = Markup("<h1>{}</h1>\n{}\n<pre>{}</pre>").format(title, _picture(edges), text(graph, tensors))
    return pages.page(title, body, style="svg text{font-size:11px;fill:var(--fg)}svg rect{fill:var(--fill)}")


def _picture(edges: list[tuple[str, str, str, str, str]]) -> Markup:
    """SVG: nodes in rows by order of first use, edges as arcs to their left (back) and right (forward)."""
    nodes = list(dict.fromkeys(name for a, b, *_ in edges for name in (a, b)))
    at = {name: 30 + 44 * i for i, name in enumerate(nodes)}
    parts = []
    for a, b, label, colour, dash in edges:
        forward = at[b] > at[a]
        x, bend = (620, 40 + abs(at[b] - at[a]) // 2) if forward else (300, -40 - abs(at[b] - at[a]) // 2)
        parts.append(
            Markup('<path d="{}" fill="none" stroke="{}" stroke-dasharray="{}"><title>{}</title></path>').format(
                f"M{x} {at[a]} C{x + bend} {at[a]} {x + bend} {at[b]} {x} {at[b]}", colour, dash, f"{a} -> {b}: {label}"
            )
        )
    for name, y in at.items():
        box = Markup('<rect x="300" y="{}" width="320" height="28" rx="4"/><text x="310" y="{}">{}</text>')
        parts.append(box.format(y - 14, y + 4, name))
    picture = Markup('<svg viewBox="-200 0 1400 {}" width="1200">{}</svg>')
    return picture.format(60 + 44 * len(nodes), Markup("").join(parts))


def as_json(graph: Graph) -> dict[str, Any]:
    """Everything as data; nodes are source lines."""
    return {
        "kernel": graph.run.kernel,
        "ended_early": bool(graph.run.trace.signal),
        "core": graph.core,
        "lines": [
            {"kind": k, "earlier": a, "later": b, "space": space, "ordered_by": by, "count": n}
            for (k, a, b, space, by), n in sorted(graph.by_line().items())
        ],
        "tensors": [{"from": a, "to": b, "by": op, "count": n} for (a, b, op), n in sorted(graph.tensors().items())],
        "idle_syncs": [
            {"line": line, "count": n} for line, n in Counter(map(graph.line, graph.idle_syncs)).most_common()
        ],
        "critical_path": [{"line": line, "count": n, "us": us} for line, n, us in path_by_line(graph)],
    }
