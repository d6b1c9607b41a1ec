"""toprope tune: the fastest tile sizes of a kernel, found by prediction, verified, explained."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.table import Table

from toprope.commandline import Parser, document
from toprope.errors import BadInput
from toprope.kernel import DEFAULT_SOC
from toprope.tune.decision import Decision, decide, header, key
from toprope.tune.explain import sentences, shown
from toprope.tune.measure import Measure
from toprope.tune.page import tune_page
from toprope.tune.search import METHODS
from toprope.tune.space import Point
from toprope.tune.state import state_of
from toprope.tune.subject import Recipe
from toprope.tune.tuning import NothingRight, Tuned, across, tune
from toprope.tune.workers import Workers, workers


def main(argv: list[str]) -> int:
    """0 when a right point was found."""
    args = _parser().parse_args(argv)
    if args.workers < 1 or args.most < 0 or args.regions < 1:
        raise BadInput(
            "--workers, --most and --regions count something", cure="give 1 or more (--most 0: what the search needs)"
        )
    recipes = _recipes(args)
    if args.write and args.write.suffix not in (".json", ".h", ".hpp"):
        raise BadInput(f"--write {args.write}", cure="give a name that ends with .json or .h")
    with workers(args.on, args.workers) as pool, _shown(args.json or args.quiet) as progress:
        tuned = [tune(r, pool, method=args.search, most=args.most, progress=progress) for r in recipes]
        decision = _decision(tuned, pool, args.regions) if len(tuned) > 1 else None
    if args.write:
        _write(args.write, tuned, decision)
    if args.html:
        args.html.write_text(tune_page(tuned[0]), encoding="utf-8")
        print(f"wrote {args.html}" + (", for the first shape" if len(tuned) > 1 else ""), file=sys.stderr)
    if args.json:
        print(document("tune", _as_json(tuned, decision)))
    else:
        _print(Console(highlight=False, soft_wrap=True), tuned, decision)
    return 0


def _parser() -> argparse.ArgumentParser:
    p = Parser(
        prog="toprope tune",
        description="Find the fastest tile sizes by prediction, verify the winner on data, and say what bounds it.",
        epilog='examples: toprope tune kernels.py:softmax --shape M=1024 N=4096;  toprope tune PROJECT --input "float16[1024,4096]";  toprope tune add.cpp --parameter TILE=256:8192',
    )
    p.add_argument(
        "target",
        metavar="TARGET",
        help="file.py:tile_function, a project's folder (or FOLDER:Operator), or kernel.cpp[:entry] with its launch file",
    )
    p.add_argument(
        "--shape",
        nargs="+",
        action="append",
        default=[],
        metavar="DIM=N",
        help="dimensions of a tile function; several --shape: one tiling for each region of them",
    )
    p.add_argument(
        "--input",
        nargs="+",
        action="append",
        default=[],
        metavar="TYPE[N,N]",
        help="inputs of a project's operator in order; several --input as for --shape",
    )
    p.add_argument(
        "--parameter",
        action="append",
        default=[],
        metavar="NAME=VALUES",
        help="what may change: 8,16,32 or LOW:HIGH or LOW:HIGH:STEP (default: what the target declares, or what is found out)",
    )
    p.add_argument("--soc", default=DEFAULT_SOC, help=f"chip (default {DEFAULT_SOC})")
    p.add_argument(
        "--state",
        default="",
        metavar="WHAT=SHARE,…",
        help="what is left of the chip: clock=0.8,hbm=0.5,l2=0.5,cores=0.75 or temperature=95",
    )
    p.add_argument("--search", choices=list(METHODS), default="model", help="how to look (default model)")
    p.add_argument("--most", type=int, default=0, help="predictions at most (default: a dozen or 3 %% of the space)")
    p.add_argument(
        "--on",
        choices=["local", "ray"],
        default="local",
        help="where to predict: processes of this machine, or a Ray cluster ($RAY_ADDRESS)",
    )
    p.add_argument(
        "--workers", type=int, default=os.cpu_count() or 1, help="predictions side by side (default: one a processor)"
    )
    p.add_argument("--regions", type=int, default=8, help="regions at most for several shapes (default 8)")
    p.add_argument(
        "--write",
        type=Path,
        metavar="FILE",
        help="write the choice: FILE.json, or FILE.h for the host's tiling function",
    )
    p.add_argument(
        "--html", type=Path, metavar="FILE", help="write a page: the winner and why, the landscape, every point"
    )
    p.add_argument("--quiet", action="store_true", help="no progress")
    p.add_argument("--json", action="store_true", help="machine-readable output")
    return p


def _recipes(args: argparse.Namespace) -> list[Recipe]:
    state = tuple(sorted(state_of(args.state).items()))
    base = Recipe(args.target, args.soc.lower(), parameters=tuple(args.parameter), state=state)
    if args.shape and args.input:
        raise BadInput("--shape and --input", cure="--shape is for tile functions, --input for projects")
    if args.input:
        return [base.at(inputs=tuple(group)) for group in args.input]
    return [base.at(_dims(group)) for group in args.shape] or [base]


def _dims(group: Sequence[str]) -> dict[str, int]:
    found: dict[str, int] = {}
    for text in group:
        name, _, number = text.partition("=")
        if not number.isdigit() or int(number) < 1:
            raise BadInput(f"--shape {text!r} is not DIM=N", cure="write --shape M=1024 N=4096")
        found[name] = int(number)
    return found


class _shown:
    """A line that says how far the search is, on standard error."""

    def __init__(self, quiet: bool) -> None:
        self._quiet, self._count, self._best = quiet, 0, float("inf")
        self._bar = Progress(
            SpinnerColumn(),
            TextColumn("{task.description}"),
            TimeElapsedColumn(),
            console=Console(stderr=True),
            transient=True,
        )

    def __enter__(self) -> Any:
        if not self._quiet:
            self._bar.start()
            self._task = self._bar.add_task("predicting", total=None)
        return self._told

    def __exit__(self, *_: object) -> None:
        if not self._quiet:
            self._bar.stop()

    def _told(self, point: Point, measure: Measure) -> None:
        self._count += 1
        self._best = min(self._best, measure.us if measure.us is not None else self._best)
        if not self._quiet:
            self._bar.update(
                self._task,
                description=f"{self._count} predictions, best {self._best:.2f} µs; last {shown(dict(point))}",
            )


def _features(tuned: Tuned) -> dict[str, int]:
    """The dimensions that a host function can look at: those of a tile function, or each input's."""
    if tuned.recipe.shape:
        return dict(tuned.recipe.shape)
    found: dict[str, int] = {}
    for i, text in enumerate(tuned.recipe.inputs):
        sizes = text.partition("[")[2].rstrip("] ").split(",")
        found |= {f"x{i}_{axis}": int(n) for axis, n in enumerate(sizes) if n.strip()}
    return found


def _decision(tuned: Sequence[Tuned], pool: Workers, regions: int) -> Decision:
    """Every shape's winner is predicted and run for every other shape, then regions are cut. Raises BadInput, NothingRight."""
    features = [_features(t) for t in tuned]
    if any(f.keys() != features[0].keys() for f in features):
        raise BadInput("the shapes have different numbers of dimensions", cure="tune each kind of shape by itself")
    points, rows = across(tuned, pool)
    made = decide(features, rows, points, most=regions)
    for shape, share in zip(features, made.reached, strict=True):
        if not share:
            raise NothingRight(
                f"with {len(made.regions)} regions no tiling is right for every shape of one: "
                + ", ".join(f"{d} = {n}" for d, n in shape.items()),
                cure="allow more --regions, or tune that shape by itself",
            )
    return made


def _write(path: Path, tuned: Sequence[Tuned], decision: Decision | None) -> None:
    if path.suffix == ".json":
        path.write_text(document("tune", _as_json(tuned, decision)) + "\n", encoding="utf-8")
        return
    name = tuned[0].recipe.target.rpartition(":")[2].rstrip("/").rpartition("/")[2].partition(".")[0]
    made = decision or decide(
        [_features(tuned[0]) or {"any": 1}], [{key(tuned[0].winner): tuned[0].measure.us}], [tuned[0].winner]
    )
    path.write_text(header(name, made, [_features(t) for t in tuned]), encoding="utf-8")


def _as_json(tuned: Sequence[Tuned], decision: Decision | None) -> dict[str, Any]:
    def one(t: Tuned) -> dict[str, Any]:
        return {
            "target": t.recipe.target,
            "soc": t.recipe.soc,
            "shape": dict(t.recipe.shape),
            "inputs": list(t.recipe.inputs),
            "state": dict(t.recipe.state),
            "parameters": [
                {"name": p.name, "values": list(p.values), "default": p.default, "source": p.source}
                for p in t.space.parameters
            ],
            "winner": t.winner,
            "predicted_us": t.measure.us,
            "band_us": [t.measure.low_us, t.measure.high_us],
            "default_us": t.default.us,
            "gain": t.gain,
            "confidence": t.found.confidence,
            "points": t.space.size,
            "tried": [{"point": p, **m.as_row()} for p, m in t.found.tried],
            "rejected": [{"point": p, "why": why} for p, why in t.rejected],
            "predictions": t.asked,
            "from_store": t.kept,
            "explained": sentences(t),
        }

    body: dict[str, Any] = {"tuned": [one(t) for t in tuned]}
    if decision is not None:
        body["regions"] = [{"conditions": [list(c) for c in r.conditions], "point": r.point} for r in decision.regions]
        body["reached"] = list(decision.reached)
    return body


def _print(out: Console, tuned: Sequence[Tuned], decision: Decision | None) -> None:
    for t in tuned:
        what = ", ".join(f"{d} = {n}" for d, n in t.recipe.shape) or " ".join(t.recipe.inputs)
        state = f", {', '.join(f'{n} {v:g}' for n, v in t.recipe.state)}" if t.recipe.state else ""
        out.print(f"[bold]{t.recipe.target}[/] on {t.recipe.soc}{state} {what}", markup=True)
        gain = (
            f"{t.gain:.2f}x today's {t.default.us:.2f} µs ({shown(t.space.default)})"
            if t.default.us
            else f"today's sizes have no time: {t.default.reason}"
        )
        out.print(
            f"winner    [bold green]{shown(t.winner)}[/]: {t.measure.us:.2f} µs predicted, {t.measure.low_us:.1f}–{t.measure.high_us:.1f} on the device; {gain}; right on random data"
        )
        sure = (
            f", {t.found.confidence:.0%} sure that no other is more than 1 % faster"
            if t.found.confidence is not None
            else ""
        )
        out.print(
            f"search    {len(t.found.tried)} of {t.space.size} points{sure}; {t.asked} predicted now, {t.kept} kept from before"
        )
        for sentence in sentences(t):
            out.print(f"          {sentence}", markup=False)
    if decision is not None:
        table = Table("region", *decision.regions[0].point, box=None)
        for region in decision.regions:
            where = " and ".join(f"{d} {sign} {bound}" for d, sign, bound in region.conditions) or "all shapes"
            table.add_row(where, *(str(v) for v in region.point.values()))
        out.print(table)
        mean = sum(decision.reached) / len(decision.reached)
        out.print(
            f"{len(decision.regions)} regions reach {min(decision.reached):.1%} of the best tiling's speed on every shape, {mean:.1%} in the mean"
        )
