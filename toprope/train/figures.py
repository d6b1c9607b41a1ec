"""The page of the planner's figures: published beside predicted, row by row."""

from __future__ import annotations

from collections.abc import Iterable
from statistics import mean

from toprope.hccl.closed_forms import Link, flat_s, hierarchical_s, pipeline_s
from toprope.hccl.cluster import Cluster
from toprope.hccl.network import Network, finish_s, hierarchical, hierarchical_finish_s, ring
from toprope.train.claims import readings
from toprope.train.published import TimeRow, memory_rows, sources, time_rows

_KINDS = {
    "step times (Megatron, selective recomputation, MT-NLG)": ("megatron-sc21", "korthikanti", "mt-nlg"),
    "bound by communication (ZeRO-3, ZeRO++)": ("zeropp", "azure"),
    "weak scaling, 128 to 7,936 NPUs": ("mindspeed-scaling",),
}


def page() -> str:
    """Markdown of docs/training_figures.md."""
    rows, memories = list(time_rows()), list(memory_rows())
    lines = [
        "# Training planner: published beside predicted",
        "",
        "Written by `python -m toprope.train page`; constants by `python -m toprope.train fit` from the rows marked fit, all",
        "others are tests. Errors are signed, of the time: positive means predicted too slow. Sources:",
        "",
        *(f"* **{name}**: {text}" for name, text in sources().items()),
        "",
        "| kind | test rows | mean error | worst | rows that constants were solved from | their mean error |",
        "|---|---|---|---|---|---|",
    ]
    for kind, names in _KINDS.items():
        tests = [abs(r.error()) for r in rows if r.source in names and not r.fitted]
        fits = [abs(r.error()) for r in rows if r.source in names and r.fitted]
        lines.append(
            f"| {kind} | {len(tests)} | {mean(tests):.1%} | {max(tests):.1%} | {len(fits)} of {len(tests) + len(fits)} "
            f"| {mean(fits):.1%} |"
        )
    errors = [abs(m.error()) for m in memories]
    lines += [f"| memory of a card | {len(errors)} | {mean(errors):.1%} | {max(errors):.1%} | 0 | |", ""]
    for kind, names in _KINDS.items():
        lines += [f"## {kind}", "", *_times(r for r in rows if r.source in names), ""]
    lines += ["## Memory of a card", "", "| source | what | published | predicted | error |", "|---|---|---|---|---|"]
    lines += [
        f"| {m.source} | {m} | {m.value:.2f} {m.unit} | {m.predicted():.2f} | {m.error():+.1%} |" for m in memories
    ]
    lines += ["", "Assumed for these rows:", ""]
    assumed = [(r.source, r.assumed) for r in rows] + [(m.source, m.assumed) for m in memories]
    lines += sorted({f"* {source}: {what}" for source, what in assumed if what})
    lines += [
        "",
        "## The claims about 110 billion parameters",
        "",
        "| claim | read as | computed | holds |",
        "|---|---|---|---|",
    ]
    lines += [f"| {r.claim} | {r.meaning} | {r.value} | {'yes' if r.holds else 'no'} |" for r in readings()]
    lines += ["", "## Collectives: closed form and simulation", "", *_collectives(), ""]
    return "\n".join(lines)


def _times(rows: Iterable[TimeRow]) -> list[str]:
    lines = ["| source | run | published | predicted | error | |", "|---|---|---|---|---|---|"]
    units = {"seconds": "s", "tflops": "TFLOP/s", "mfu": "% MFU"}
    for r in rows:
        ports = ", 1 port a node" if "far_gbps" in r.changes else ""
        lines.append(
            f"| {r.source} | {r}{ports} | {r.value:g} {units[r.metric]} | {r.predicted():.2f} | {r.error():+.1%} "
            f"| {'fit' if r.fitted else ''} |"
        )
    return lines


def _collectives() -> list[str]:
    cluster = Cluster.load("atlas-a2", 64)
    network = Network(cluster.levels)
    near, far = Link.of(cluster.levels[0], 8), Link.of(cluster.levels[1], 8)
    lines = [
        "AllReduce on 8 nodes of 8 cards (Atlas A2, line rates x the cluster file's efficiency), milliseconds.",
        "",
        "| size | one flat ring | simulated | hierarchical (mesh, ring) | simulated | best hierarchical | pipeline |",
        "|---|---|---|---|---|---|---|",
    ]
    for size in (1e9, 16e6, 1e6):
        flat = flat_s("ring", "all_reduce", 64, size, far)
        flat_run = finish_s(network.run(ring(list(range(64)), size, "all_reduce")))
        inner = 2 * flat_s("mesh", "reduce_scatter", 8, size, near)
        serial = inner + flat_s("ring", "all_reduce", 8, size / 8, far)
        serial_run = hierarchical_finish_s(network, hierarchical(8, 8, size, "mesh", "ring"))
        best, _ = hierarchical_s("all_reduce", cluster.group(64, 1), size)
        pipe = pipeline_s("all_reduce", (8, near), (8, far), size)
        cells = (flat, flat_run, serial, serial_run, best, pipe)
        lines.append(f"| {size / 1e6:g} MB | " + " | ".join(f"{c * 1e3:.3f}" for c in cells) + " |")
    return lines
