"""Command line of the serving planner: traffic and targets in; settings, reasons and flags out."""

from __future__ import annotations

import argparse
import json
import math
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeVar

from toprope.errors import BadInput, TopropeError
from toprope.serve.planning.capacity import concurrency
from toprope.serve.planning.engine_flags import mindie_config, vllm_flags
from toprope.serve.planning.kernel_cost import KernelCost
from toprope.serve.planning.model_shape import PRESETS, ModelShape
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

_Item = TypeVar("_Item")


def main(argv: Sequence[str] | None = None) -> int:
    """Run the planner; 0 when the targets can be met, 1 when they cannot, 2 for wrong input."""
    args = _parser().parse_args(argv)
    try:
        return _plan(args)
    except TopropeError as error:
        print(error, file=sys.stderr)
        return 2


def _plan(args: argparse.Namespace) -> int:
    model, chip = ModelShape.load(args.model), _chip(args)
    arrivals = _arrivals(args)
    slo = Slo(args.ttft, args.tpot)
    longest = max(a.prompt_tokens + a.output_tokens for a in arrivals)
    max_model_len = args.max_model_len or min(model.max_model_len, _round_up(longest))
    cost = _cost(args, model, chip)
    planner = Planner(model, chip, arrivals, slo, max_model_len, args.kv_blocks, cost)
    space = PlanSpace(args.max_batch_size, args.max_tokens, args.block_size, args.policy)

    def show(point: PlanPoint) -> None:
        if not args.quiet:
            print(_row(point, slo), file=sys.stderr)

    points = planner.sweep(space, progress=show)
    chosen = recommend(points, slo)
    notes = _notes(planner, chosen, cost.basis)
    if args.html:
        title = f"Serving {model.name} on {chip.name}"
        Path(args.html).write_text(plan_page(title, points, chosen, slo, notes), encoding="utf-8")
        print(f"wrote {args.html}", file=sys.stderr)
    if args.json:
        print(json.dumps(_as_json(points, chosen, max_model_len, slo, notes), indent=2))
    else:
        _print_text(points, chosen, max_model_len, slo, notes)
    return 0 if chosen.meets_slo else 1


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="toprope plan-serve",
        description="Try serving settings on a virtual clock with the real scheduler, and recommend some.",
        epilog="example: toprope plan-serve --model qwen3-8b --rate 8 --prompt 200:2000 --output 50:500 --html p.html",
    )
    add = parser.add_argument
    add("--model", default="llama3-8b", help="preset (" + ", ".join(sorted(PRESETS)) + ") or a config.json")
    traffic = parser.add_argument_group("traffic")
    traffic.add_argument("--rate", type=float, default=4.0, help="requests per second; 0: all at once (default 4)")
    traffic.add_argument("--burst", type=int, default=1, help="requests that arrive together (default 1)")
    traffic.add_argument("--requests", type=int, default=200, help="how many to simulate (default 200)")
    traffic.add_argument("--prompt", type=_lengths, default="128:1024", help="prompt tokens, N or LOW:HIGH")
    traffic.add_argument("--output", type=_lengths, default="64:512", help="output tokens, N or LOW:HIGH")
    traffic.add_argument("--shared-prefix", type=int, default=0, help="tokens of a common system prompt")
    traffic.add_argument("--trace", help="CSV file: arrival_s,prompt_tokens,output_tokens; replaces all of the above")
    traffic.add_argument("--seed", type=int, default=0)
    slo = parser.add_argument_group("targets, for 99 %% of the requests")
    slo.add_argument("--ttft", type=float, default=1.0, help="seconds to the first token (default 1)")
    slo.add_argument("--tpot", type=float, default=0.05, help="seconds per further token (default 0.05)")
    space = parser.add_argument_group("what to try")
    default = PlanSpace()
    space.add_argument("--max-batch-size", type=_several(int), default=default.batch_sizes, help="N,N,…")
    space.add_argument("--max-tokens", type=_several(int), default=default.max_tokens, help="tokens per step, N,N,…")
    space.add_argument("--block-size", type=_several(int), default=default.block_sizes, help="N,N,…")
    space.add_argument("--policy", type=_several(str), default=default.policies, help="name,name,…")
    space.add_argument("--max-model-len", type=int, help="default: the longest request, rounded up")
    space.add_argument("--kv-blocks", type=int, help="KV blocks, when known from the engine's log")
    chip = parser.add_argument_group("chip")
    chip.add_argument("--chip", default="ascend910b2", help="a name from `toprope socs` (default ascend910b2)")
    chip.add_argument("--tflops", type=float, help="attained matrix rate, instead of the chip's")
    chip.add_argument("--bandwidth-gbps", type=float, help="attained memory bandwidth, 1e9 bytes per second")
    chip.add_argument("--memory-gb", type=float, help="device memory, 1e9 bytes")
    chip.add_argument("--overhead-ms", type=float, help="time of a step that computes nothing")
    chip.add_argument(
        "--cost",
        choices=("kernels", "roofline"),
        help="step times: predicted matmul kernels (default where they run, at the chip's own rates), or a roofline",
    )
    add("--html", metavar="FILE", help="write a page with the frontier")
    add("--json", action="store_true", help="print JSON")
    add("--quiet", action="store_true", help="no progress")
    return parser


def _lengths(text: str) -> tuple[int, int]:
    low, _, high = text.partition(":")
    return int(low), int(high or low)


def _several(kind: Callable[[str], _Item]) -> Callable[[str], tuple[_Item, ...]]:
    def parse(text: str) -> tuple[_Item, ...]:
        return tuple(kind(part) for part in text.split(","))

    parse.__name__ = f"list of {kind.__name__}"
    return parse


def _chip(args: argparse.Namespace) -> ChipRates:
    given = {
        "flops_per_s": args.tflops and args.tflops * 1e12,
        "bytes_per_s": args.bandwidth_gbps and args.bandwidth_gbps * 1e9,
        "memory_bytes": args.memory_gb and args.memory_gb * 1e9,
        "overhead_s": args.overhead_ms and args.overhead_ms / 1e3,
    }
    try:
        return ChipRates.of(load(args.chip), **{name: value for name, value in given.items() if value is not None})
    except ValueError as error:
        raise BadInput(str(error), cure="give positive rates") from error


def _cost(args: argparse.Namespace, model: ModelShape, chip: ChipRates) -> RooflineCost:
    soc = load(args.chip)
    changed = args.tflops is not None or args.bandwidth_gbps is not None
    if args.cost == "kernels" and changed:
        raise BadInput("--cost kernels with other rates than the chip's", cure="leave out one of the two")
    if args.cost == "kernels" or (args.cost is None and not changed and KernelCost.runs_on(soc)):
        return KernelCost(model, chip, soc)
    return RooflineCost(model, chip)


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


def _notes(planner: Planner, chosen: Recommendation, basis: str) -> list[str]:
    prompt = sum(a.prompt_tokens for a in planner.arrivals) // len(planner.arrivals)
    output = sum(a.output_tokens for a in planner.arrivals) // len(planner.arrivals)
    fits = concurrency(chosen.point.kv_blocks, chosen.point.settings.block_size, prompt, output)
    notes = []
    span_s = planner.arrivals[-1].arrival_s - planner.arrivals[0].arrival_s
    offered = sum(a.output_tokens for a in planner.arrivals) / span_s if span_s else 0.0
    if not chosen.meets_slo and offered > 1.1 * chosen.point.tokens_per_s:
        notes.append(
            f"the traffic asks for {offered:.0f} tokens/s and one device makes {chosen.point.tokens_per_s:.0f}: "
            f"spread it over {math.ceil(offered / chosen.point.tokens_per_s)} devices, or plan again at a lower rate"
        )
    return [
        *notes,
        f"{chosen.point.kv_blocks} blocks hold {fits.staggered} requests of the mean lengths ({prompt} in, {output} "
        f"out) in steady state, {fits.worst} at full length, {fits.halfway} by the rule (in + out) / 2",
        f"times: {basis} of {planner.chip.name}: {planner.chip.flops_per_s / 1e12:g} TFLOPS, "
        f"{planner.chip.bytes_per_s / 1e9:g} GB/s, {planner.chip.overhead_s * 1e3:g} ms a step. {planner.chip.sources}",
    ]


def _row(point: PlanPoint, slo: Slo) -> str:
    return (
        f"{'ok ' if point.meets(slo) else '   '} {point.settings!s:<52} {point.tokens_per_s:7.0f} tok/s  "
        f"TTFT {point.ttft_s:7.2f} s  TPOT {point.tpot_s * 1e3:6.1f} ms  KV {point.peak_kv_use:4.0%}"
        + (f"  {point.preemptions} preempted" if point.preemptions else "")
    )


def _print_text(
    points: Sequence[PlanPoint], chosen: Recommendation, max_model_len: int, slo: Slo, notes: Sequence[str]
) -> None:
    print("frontier (tokens/s against p99 time per token):")
    for point in frontier(points):
        print("  " + _row(point, slo))
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
    points: Sequence[PlanPoint], chosen: Recommendation, max_model_len: int, slo: Slo, notes: Sequence[str]
) -> dict[str, object]:
    def row(point: PlanPoint) -> dict[str, object]:
        fields = {**vars(point.settings), **{k: v for k, v in vars(point).items() if k != "settings"}}
        return {**fields, "meets_targets": point.meets(slo)}

    settings = chosen.point.settings
    return {
        "recommended": row(chosen.point),
        "reasons": list(chosen.reasons),
        "vllm": vllm_flags(settings, max_model_len, ascend=False, ttft_s=slo.ttft_s, tpot_s=slo.tpot_s),
        "vllm_ascend": vllm_flags(settings, max_model_len, ascend=True, ttft_s=slo.ttft_s, tpot_s=slo.tpot_s),
        "mindie": mindie_config(settings, max_model_len, ttft_s=slo.ttft_s, tpot_s=slo.tpot_s),
        "frontier": [row(point) for point in frontier(points)],
        "points": [row(point) for point in points],
        "notes": list(notes),
    }


if __name__ == "__main__":
    raise SystemExit(main())
