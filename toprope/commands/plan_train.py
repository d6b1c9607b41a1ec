"""toprope plan-train: which layout trains a model on a cluster, what it needs and where its step goes."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from toprope.commandline import Parser
from toprope.errors import BadInput
from toprope.hccl.cluster import Cluster
from toprope.train.balance import MOST_TILES, Lengths, gain
from toprope.train.comparison import Comparison, Difference, compare
from toprope.train.explain import binding_limit, explain, why_it_loses
from toprope.train.export import deepspeed_config, megatron_flags
from toprope.train.plan_timeline import perfetto, plan_timeline
from toprope.train.search import Found, Point, Space, search
from toprope.train.shape import TrainModel
from toprope.train.strategy import Batch

_GIB = 2**30


def main(argv: list[str]) -> int:
    """0 when a layout fits, 1 when none does."""
    args = _parser().parse_args(argv)
    model = TrainModel.load(args.model)
    cluster = Cluster.load(args.cluster, args.cards, args.stack)
    if args.kernels == "exact":
        if not cluster.soc:
            raise BadInput(f"{cluster.name} names no chip of toprope", cure="use --kernels rates")
        from toprope.train.kernels import KernelRates  # loads the operator library

        cluster = replace(cluster, rates=KernelRates.of(cluster))
    batch = Batch(args.batch, args.sequence, args.images)
    if args.images and not model.image_tokens:
        raise BadInput(f"{model.name} has no image encoder", cure="leave out --images")
    if args.freeze:
        model = _frozen(model, args.freeze)
    if args.compare:
        return _compare(compare(cluster, model, batch, _space(args), *args.compare), as_json=args.json)
    found = search(cluster, model, batch, _space(args), keep=args.show)
    gained = _gain(args, model, batch, found) if args.lengths else None
    if args.timeline and found.points:
        drawn = perfetto(plan_timeline(cluster, model, batch, found.points[0]), f"{model.name}: {found.points[0].plan}")
        Path(args.timeline).write_text(json.dumps(drawn), encoding="utf-8")
        print(f"wrote {args.timeline}: open it in ui.perfetto.dev", file=sys.stderr)
    if args.json:
        out = _as_json(cluster, model, batch, found, explained=args.explain)
        print(json.dumps(out | ({"lengths": gained} if gained else {}), indent=2))
    else:
        _print(Console(), cluster, model, batch, found, explained=args.explain)
        if gained:
            _print_gain(Console(), gained)
    if args.html and found.points:
        from toprope.train.page import plan_page  # templates load only when asked for

        Path(args.html).write_text(plan_page(cluster, model, batch, found), encoding="utf-8")
        print(f"wrote {args.html}", file=sys.stderr)
    if args.write and found.points:
        _write(args.write, model, batch, found.points[0])
    return 0 if found.points else 1


def _parser() -> argparse.ArgumentParser:
    parser = Parser(
        prog="toprope plan-train",
        description="Search parallel layouts of a training run: memory of a card, step time by part, the best and why.",
        epilog="example: toprope plan-train internvl-110b --cluster atlas-a2 --cards 64 --batch 64 --images 4",
    )
    add = parser.add_argument
    add("model", help="a preset (see toprope/train/models.toml), a TOML file, or a Hugging Face config.json")
    add("--cluster", default="atlas-a2", help="atlas-a2, atlas-a3, dgx-a100, dgx2-v100 or a TOML file")
    add("--cards", type=_positive, default=64, help="cards to plan for (default 64)")
    add("--stack", default="", help="constants fitted for a software stack, see toprope/hccl/fitted.toml")
    add("--batch", type=_positive, default=64, help="samples of a step (default 64)")
    add("--sequence", type=_positive, default=4096, help="decoder tokens of a sample (default 4096)")
    add("--images", type=float, default=0.0, help="images of a sample, on average; a half is a shorter encoder batch")
    add("--freeze", action="append", default=[], metavar="PART", help="encoder, projector or decoder: not trained")
    space = parser.add_argument_group("what may be chosen (default: everything that fits the model and the cluster)")
    for name in ("tp", "pp", "cp", "ep"):
        space.add_argument(f"--{name}", type=_several(int), metavar="N,N", help=f"degrees of {name}")
    default = Space()
    space.add_argument("--zero", type=_several(int), default=default.zero, metavar="N,N", help="ZeRO stages")
    space.add_argument("--micro-batch", type=_several(int), default=default.micro_batch, metavar="N,N")
    space.add_argument("--recompute", type=_several(str), default=default.recompute, help="none,selective,full")
    space.add_argument("--schedule", type=_several(str), default=default.schedule, help="1f1b,zero-bubble")
    space.add_argument("--offload", action="store_true", help="also try optimiser states on the host")
    space.add_argument("--quantised", action="store_true", help="also try int8 gathers and int4 gradients (ZeRO++)")
    add(
        "--kernels", choices=("rates", "exact"), default="rates", help="exact: each product predicted on the chip, slow"
    )
    add("--show", type=_positive, default=5, help="layouts to show (default 5)")
    add("--explain", action="store_true", help="formula, inputs and source of each number of the best layout")
    add(
        "--write", metavar="FORM", choices=("megatron", "mindspeed", "deepspeed"), help="print the best as its settings"
    )
    add("--html", metavar="FILE", help="write a page: memory and step by part, the pipeline over time")
    add("--timeline", metavar="FILE", help="write the best plan over time for ui.perfetto.dev")
    add(
        "--compare",
        nargs=2,
        metavar=("A", "B"),
        help="the best layouts with the settings of each, such as tp=8,zero=1, part by part",
    )
    add(
        "--lengths",
        metavar="NAME",
        help="what packing and balance gain for samples of such lengths: txt360, recipes or a TOML file",
    )
    add("--json", action="store_true", help="print JSON")
    return parser


def _positive(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"{text} is not positive")
    return number


def _several(kind: Callable[[str], Any]) -> Callable[[str], tuple[Any, ...]]:
    def parse(text: str) -> tuple[Any, ...]:
        return tuple(kind(part) for part in text.split(","))

    parse.__name__ = f"list of {kind.__name__}"
    return parse


def _space(args: argparse.Namespace) -> Space:
    return Space(
        tp=args.tp,
        pp=args.pp,
        cp=args.cp,
        ep=args.ep,
        zero=args.zero,
        micro_batch=args.micro_batch,
        recompute=args.recompute,
        schedule=args.schedule,
        offload=(False, True) if args.offload else (False,),
        quantised=(False, True) if args.quantised else (False,),
    )


def _frozen(model: TrainModel, parts: Sequence[str]) -> TrainModel:
    known = {s.name for s in model.stacks} | {"projector"}
    for part in parts:
        if part not in known:
            raise BadInput(f"{model.name} has no part {part!r}", cure=f"its parts: {', '.join(sorted(known))}")
    stacks = tuple(replace(s, trained=s.name not in parts) for s in model.stacks)
    return replace(model, stacks=stacks, projector_trained="projector" not in parts)


def _print(
    console: Console, cluster: Cluster, model: TrainModel, batch: Batch, found: Found, *, explained: bool
) -> None:
    console.print(
        f"{model.name}: {model.parameters / 1e9:.1f} G parameters on {cluster.cards} cards ({cluster.title}), "
        f"{batch.samples} x {batch.sequence} tokens a step"
    )
    console.print(
        f"{found.looked_at} layouts looked at, {found.too_large} do not fit {cluster.memory_gb:g} GB", highlight=False
    )
    if not found.points:
        assert found.smallest is not None
        need = found.smallest.memory.total / _GIB
        console.print(f"[bold red]none fits[/]: the smallest needs {need:.1f} GiB a card: {found.smallest.plan}")
        for part, size in found.smallest.memory.parts().items():
            console.print(f"  {part:<12} {size / _GIB:8.2f} GiB", highlight=False)
        console.print("cure: more cards, --offload, a shorter --sequence, or --recompute full")
        return
    best = found.points[0]
    table = Table("layout", "step s", "tokens/s", "MFU", "GiB a card", "why not", box=None, pad_edge=False)
    for point in found.points:
        table.add_row(
            str(point.plan),
            f"{point.step.total:.2f}",
            f"{batch.tokens / point.step.total:,.0f}",
            f"{point.step.mfu:.1%}",
            f"{point.memory.total / _GIB:.1f}",
            "best" if point is best else why_it_loses(best, point),
        )
    console.print(table)
    console.print(f"\nbound by {binding_limit(cluster, best)}")
    parts = Table("memory of a card", "GiB", "", "step", "s", "", box=None, pad_edge=False)
    memory = [(n, v) for n, v in best.memory.parts().items() if v]
    step = [(n, v) for n, v in best.step.parts().items() if v]
    for at in range(max(len(memory), len(step))):
        left = _cells(memory, at, best.memory.total, _GIB)
        right = _cells(step, at, best.step.total, 1.0)
        parts.add_row(*left, *right)
    console.print(parts)
    console.print(
        f"{best.step.hidden_data:.2f} s of gradient and weight traffic run beside computation. "
        "3 GiB a card are kept free for framework and fragmentation (assumed)."
    )
    for what, source in cluster.source.items():
        console.print(f"source of {what}: {source}", style="dim", highlight=False)
    if explained:
        why = Table("number", "value", "formula", "source", box=None, pad_edge=False)
        for row in explain(cluster, model, batch, best):
            why.add_row(row.name, row.value, row.formula, row.source)
        console.print(why)


def _compare(found: Comparison, *, as_json: bool) -> int:
    sides = (found.first, found.second)
    if as_json:
        rows = {name: {d.part: [d.first, d.second] for d in getattr(found, name)} for name in ("step", "memory")}
        totals: dict[str, Any] = {
            "step_s": [p.step.total for p in sides],
            "memory_bytes": [p.memory.total for p in sides],
            "mfu": [p.step.mfu for p in sides],
        }
        document = {"schema": "toprope-plan-train-comparison", "version": 1, "layouts": [str(p.plan) for p in sides],
                    "settings": {k: list(v) for k, v in found.settings.items()}, **totals, **rows}  # fmt: skip
        print(json.dumps(document, indent=2, default=str))
        return 0
    console = Console()
    table = Table("", "A", "B", "B less A", box=None, pad_edge=False)
    table.add_row("layout", str(found.first.plan), str(found.second.plan), "")
    for name, (a, b) in found.settings.items():
        table.add_row(name.replace("_", " "), str(a), str(b), "")
    for title, unit, scale, parts, whole_of in (
        ("step", "s", 1.0, found.step, [p.step.total for p in sides]),
        ("memory of a card", "GiB", _GIB, found.memory, [p.memory.total for p in sides]),
    ):
        whole = Difference(title, whole_of[0], whole_of[1])
        for row in (whole, *parts):
            a, b = row.first / scale, row.second / scale
            name = f"[bold]{title}, {unit}[/]" if row is whole else "  " + row.part.replace("_", " ")
            table.add_row(name, f"{a:.2f}", f"{b:.2f}", f"{b - a:+.2f} ({(b - a) * scale / whole_of[0]:+.1%})")
    console.print(table)
    console.print("Shares are of A's total.", style="dim")
    return 0


def _gain(args: argparse.Namespace, model: TrainModel, batch: Batch, found: Found) -> dict[str, Any] | None:
    lengths = Lengths.load(args.lengths)
    if not found.points:
        return None
    ranks = found.points[0].plan.dp
    result = gain(lengths, model, batch.sequence, batch.samples, ranks, images=bool(batch.images))
    return {"name": lengths.name, "title": lengths.title, "source": lengths.source, "ranks": ranks,
            "images": f"1 to {MOST_TILES} tiles a sample, equally often (assumed)" if batch.images else "none", **asdict(result)}  # fmt: skip


def _print_gain(console: Console, found: dict[str, Any]) -> None:
    table = Table(
        "samples of unequal length",
        "slowest card",
        "against padded",
        "tokens that are samples",
        box=None,
        pad_edge=False,
    )
    for name, label, filled in (
        ("padded", "each padded to a sequence", "filled_padded"),
        ("packed", "packed, dealt out in turn", "filled_packed"),
        ("balanced", "balanced, then packed", "filled_balanced"),
    ):
        table.add_row(
            label,
            f"{found[name] / found['even']:.2f} x even",
            f"{found['padded'] / found[name]:.2f}x",
            f"{found[filled]:.0%}",
        )
    console.print(table)
    console.print(
        f"{found['title']}; images: {found['images']}; {found['ranks']} data-parallel cards. Source: {found['source']}",
        style="dim",
    )


def _cells(rows: list[tuple[str, float]], at: int, total: float, unit: float) -> tuple[str, str, str]:
    if at >= len(rows):
        return "", "", ""
    name, value = rows[at]
    return name.replace("_", " "), f"{value / unit:.2f}", "█" * max(1, round(20 * value / total))


def _as_json(cluster: Cluster, model: TrainModel, batch: Batch, found: Found, *, explained: bool) -> dict[str, Any]:
    def point(p: Point) -> dict[str, Any]:
        return {
            "layout": str(p.plan),
            "strategy": asdict(p.plan),
            "step_s": p.step.total,
            "tokens_per_s": batch.tokens / p.step.total,
            "mfu": p.step.mfu,
            "step": p.step.parts(),
            "hidden_data_s": p.step.hidden_data,
            "memory_bytes": p.memory.total,
            "memory": p.memory.parts(),
        }

    out: dict[str, Any] = {
        "schema": "toprope-plan-train",
        "version": 1,
        "model": {"name": model.name, "parameters": model.parameters, "trained": model.trained_parameters},
        "cluster": {"name": cluster.name, "cards": cluster.cards, "source": dict(cluster.source)},
        "batch": asdict(batch),
        "looked_at": found.looked_at,
        "too_large": found.too_large,
        "points": [point(p) for p in found.points],
        "smallest": point(found.smallest) if found.smallest else None,
    }
    if found.points:
        out["bound_by"] = binding_limit(cluster, found.points[0])
        if explained:
            out["explain"] = [asdict(why) for why in explain(cluster, model, batch, found.points[0])]
    return out


def _write(form: str, model: TrainModel, batch: Batch, best: Point) -> None:
    if form == "deepspeed":
        print(json.dumps(deepspeed_config(model, batch, best.plan), indent=2))
        return
    flags = megatron_flags(model, batch, best.plan, mindspeed=form == "mindspeed")
    print(" \\\n".join(flags))
