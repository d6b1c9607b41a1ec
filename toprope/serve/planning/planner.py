"""Command line of the serving planner: traffic and targets in; settings, reasons and flags out."""

from __future__ import annotations

import argparse
import json
import math
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from toprope.commandline import form_of, guarded
from toprope.errors import BadInput
from toprope.serve.planning.capacity import concurrency
from toprope.serve.planning.card_links import CardLinks, cluster_of
from toprope.serve.planning.engine_flags import mindie_config, vllm_flags
from toprope.serve.planning.engine_time import Band, constants, engine_s
from toprope.serve.planning.kernel_cost import KernelCost
from toprope.serve.planning.model_shape import ModelShape
from toprope.serve.planning.plan_options import plan_parser
from toprope.serve.planning.plan_page import plan_page
from toprope.serve.planning.plan_sweep import Planner, PlanPoint, PlanSpace, Slo, frontier
from toprope.serve.planning.recommendation import Recommendation, recommend
from toprope.serve.planning.step_cost import ChipRates, RooflineCost
from toprope.serve.planning.traffic import (
    Arrival,
    Lengths,
    all_at_once,
    between,
    bursts,
    from_csv,
    with_shared_prefixes,
)
from toprope.soc import load


def main(argv: Sequence[str] | None = None) -> int:
    """Run the planner; 0 when the targets can be met, 1 when they cannot. Raises `TopropeError` for wrong input."""
    return _plan(plan_parser().parse_args(argv))


def _plan(args: argparse.Namespace) -> int:
    model = ModelShape.load(args.model)
    if args.weight_bytes:
        model = replace(model, weight_bytes_each=args.weight_bytes)
    if args.expert_parallel:
        if not model.experts:
            raise BadInput(f"{model.name} has no experts to spread", cure="leave out --expert-parallel")
        model = replace(model, copies=args.dp)
    chip = _chip(args, model)
    arrivals = _arrivals(args)
    slo = Slo(args.ttft, args.tpot)
    longest = max(a.prompt_tokens + a.output_tokens for a in arrivals)
    shortest = min(a.prompt_tokens + a.output_tokens for a in arrivals)
    if args.max_model_len and args.max_model_len < shortest:
        raise BadInput(
            f"--max-model-len {args.max_model_len} refuses every request: the shortest has {shortest} tokens",
            cure="give at least the length of the requests",
        )
    if args.html and not Path(args.html).absolute().parent.is_dir():
        raise BadInput(f"no folder {Path(args.html).parent} for the page", cure="make it first")
    max_model_len = args.max_model_len or min(model.max_model_len, _round_up(longest))
    cost = _cost(args, model, chip)
    planner = Planner(model, chip, arrivals, slo, max_model_len, args.kv_blocks, cost)
    space = PlanSpace(args.max_batch_size, args.max_tokens, args.block_size, args.policy)

    def show(point: PlanPoint) -> None:
        if not args.quiet:
            print(_row(point, slo), file=sys.stderr)

    points = planner.sweep(space, progress=show)
    chosen = recommend(points, slo)
    notes = _notes(args, planner, chosen, cost)
    if args.html:
        title = f"Serving {model.name} on {chip.name}"
        Path(args.html).write_text(plan_page(title, points, chosen, slo, notes), encoding="utf-8")
        print(f"wrote {args.html}", file=sys.stderr)
    if args.json:
        print(json.dumps(_as_json(args.engine, points, chosen, max_model_len, slo, notes), indent=2))
    else:
        _print_text(points, chosen, max_model_len, slo, notes, constants()[1][args.engine])
    return 0 if chosen.meets_slo else 1


def _chip(args: argparse.Namespace, model: ModelShape) -> ChipRates:
    given = {
        "flops_per_s": args.tflops and args.tflops * 1e12,
        "bytes_per_s": args.bandwidth_gbps and args.bandwidth_gbps * 1e9,
        "memory_bytes": args.memory_gb and args.memory_gb * 1e9,
        "overhead_s": args.overhead_ms and args.overhead_ms / 1e3,
    }
    step_s, sequence_s = engine_s(model, args.engine, args.tp * args.dp if args.expert_parallel else args.tp)
    given = {"overhead_s": step_s, "sequence_s": sequence_s, **{k: v for k, v in given.items() if v is not None}}
    try:
        one = ChipRates.of(load(args.chip), overlapped=args.engine == "eager", **given)
    except ValueError as error:
        raise BadInput(str(error), cure="give positive rates") from error
    named = ", ".join(name for name in given if name not in ("overhead_s", "sequence_s"))
    overhead = "given" if args.overhead_ms is not None else f"of the {args.engine} engine, solved from published rows"
    sources = one.sources.replace(f"given: {', '.join(given)}", f"given: {named}" if named else "").removeprefix("; ")
    return replace(
        one,
        sources=f"{sources}; overhead {overhead}",
        flops_per_s=one.flops_per_s * args.tp,
        bytes_per_s=one.bytes_per_s * args.tp,
        memory_bytes=one.memory_bytes * args.tp,
        host_bytes_per_s=one.host_bytes_per_s * args.tp,
    )


def _cost(args: argparse.Namespace, model: ModelShape, chip: ChipRates) -> RooflineCost:
    soc = load(args.chip)
    changed = args.tflops is not None or args.bandwidth_gbps is not None or args.weight_bytes is not None
    if args.cost == "kernels" and changed:
        raise BadInput("--cost kernels with other rates than the chip's", cure="leave out one of the two")
    plain = not (model.experts or model.latent) and args.tp == 1 and args.engine == "graph"
    if args.cost == "kernels" and args.tp > 1:
        raise BadInput("--cost kernels predicts one card, not --tp", cure="leave out one of the two")
    if args.cost == "kernels" or (args.cost is None and plain and not changed and KernelCost.runs_on(soc)):
        return KernelCost(model, chip, soc)
    copies = args.dp if args.expert_parallel else 1
    links = CardLinks(cluster_of(args.chip, args.tp * args.dp) if args.tp * copies > 1 else None, args.tp, copies)
    return RooflineCost(model, chip, links)


def _arrivals(args: argparse.Namespace) -> list[Arrival]:
    if args.trace:
        return from_csv(args.trace)
    prompt: Lengths = between(*args.prompt)
    output: Lengths = between(*args.output)
    if args.rate == 0:
        arrivals = all_at_once(args.requests, prompt, output, seed=args.seed)
    else:
        arrivals = bursts(args.rate, args.requests, args.burst, prompt, output, seed=args.seed)
    return with_shared_prefixes(arrivals, args.shared_prefix, 1) if args.shared_prefix else arrivals


def _round_up(tokens: int) -> int:
    return -(-tokens // 256) * 256


def _notes(args: argparse.Namespace, planner: Planner, chosen: Recommendation, cost: RooflineCost) -> list[str]:
    prompt = sum(a.prompt_tokens for a in planner.arrivals) // len(planner.arrivals)
    output = sum(a.output_tokens for a in planner.arrivals) // len(planner.arrivals)
    fits = concurrency(chosen.point.kv_blocks, chosen.point.settings.block_size, prompt, output)
    notes = []
    span_s = planner.arrivals[-1].arrival_s - planner.arrivals[0].arrival_s
    offered = sum(a.output_tokens for a in planner.arrivals) / span_s if span_s else 0.0
    if not chosen.meets_slo and offered > 1.1 * chosen.point.tokens_per_s > 0:
        notes.append(
            f"the traffic asks for {offered:.0f} tokens/s and one device makes {chosen.point.tokens_per_s:.0f}: "
            f"spread it over {math.ceil(offered / chosen.point.tokens_per_s)} devices, or plan again at a lower rate"
        )
    return [
        *notes,
        f"{chosen.point.kv_blocks} blocks hold {fits.staggered} requests of the mean lengths ({prompt} in, {output} "
        f"out) in steady state, {fits.worst} at full length, {fits.halfway} by the rule (in + out) / 2",
        f"times: {cost.basis} of {planner.chip.name}: {planner.chip.flops_per_s / 1e12:g} TFLOPS, "
        f"{planner.chip.bytes_per_s / 1e9:g} GB/s, {planner.chip.overhead_s * 1e3:.3g} ms a step and "
        f"{planner.chip.sequence_s * 1e3:.3g} ms a sequence. {planner.chip.sources}",
        _error_note(args.engine, chosen.point.tpot_s),
    ]


def _error_note(mode: str, tpot_s: float) -> str:
    band = constants()[1][mode]
    return (
        f"times per token of {mode} engines were {band.mean:.0%} off on average on published rows that nothing was solved from, eight of "
        f"ten between {band.low:.2f} and {band.high:.2f} times the plan: expect {tpot_s * 1e3 * band.low:.1f} to "
        f"{tpot_s * 1e3 * band.high:.1f} ms at p99 where {tpot_s * 1e3:.1f} is planned (docs/serving_figures.md)"
    )


def _row(point: PlanPoint, slo: Slo, band: Band | None = None) -> str:
    between = f" ({point.tpot_s * 1e3 * band.low:.0f}-{point.tpot_s * 1e3 * band.high:.0f})" if band else ""
    return (
        f"{'ok ' if point.meets(slo) else '   '} {point.settings!s:<52} {point.tokens_per_s:7.0f} tok/s  "
        f"TTFT {point.ttft_s:7.2f} s  TPOT {point.tpot_s * 1e3:6.1f} ms{between}  KV {point.peak_kv_use:4.0%}"
        + (f"  {point.preemptions} preempted" if point.preemptions else "")
    )


def _print_text(
    points: Sequence[PlanPoint], chosen: Recommendation, max_model_len: int, slo: Slo, notes: Sequence[str], band: Band
) -> None:
    print("frontier (tokens/s against p99 time per token; in brackets where eight of ten published rows would lie):")
    for point in frontier(points):
        print("  " + _row(point, slo, band))
    print(f"\n{'recommended' if chosen.meets_slo else 'nearest to the targets'}: {chosen.point.settings}")
    for reason in chosen.reasons:
        print(f"  - {reason}")
    settings = chosen.point.settings
    for engine, ascend in (("vLLM", False), ("vLLM-Ascend", True)):
        flags = vllm_flags(settings, max_model_len, ascend=ascend, ttft_s=slo.ttft_s, tpot_s=slo.tpot_s)
        print(f"\n{engine}:\n  " + " \\\n  ".join(flags))
    config = mindie_config(settings, max_model_len, ttft_s=slo.ttft_s, tpot_s=slo.tpot_s)
    print("\nMindIE, config.json under BackendConfig:\n  " + json.dumps(config, indent=2).replace("\n", "\n  "))
    print()
    for note in notes:
        print(f"note: {note}")


def _as_json(
    mode: str, points: Sequence[PlanPoint], chosen: Recommendation, max_model_len: int, slo: Slo, notes: Sequence[str]
) -> dict[str, object]:
    band = constants()[1][mode]

    def row(point: PlanPoint) -> dict[str, object]:
        fields = {**vars(point.settings), **{k: v for k, v in vars(point).items() if k != "settings"}}
        between = [point.tpot_s * band.low, point.tpot_s * band.high]
        return {**fields, "meets_targets": point.meets(slo), "tpot_band_s": between}

    settings = chosen.point.settings
    return {
        "recommended": row(chosen.point),
        "reasons": list(chosen.reasons),
        "vllm": vllm_flags(settings, max_model_len, ascend=False, ttft_s=slo.ttft_s, tpot_s=slo.tpot_s),
        "vllm_ascend": vllm_flags(settings, max_model_len, ascend=True, ttft_s=slo.ttft_s, tpot_s=slo.tpot_s),
        "mindie": mindie_config(settings, max_model_len, ttft_s=slo.ttft_s, tpot_s=slo.tpot_s),
        "frontier": [row(point) for point in frontier(points)],
        "points": [row(point) for point in points],
        "tpot_error": band.mean,
        "notes": list(notes),
    }


if __name__ == "__main__":
    raise SystemExit(guarded(main, sys.argv[1:], form_of(sys.argv[1:])))
