"""Options of the serving planner: each number says what it may be, so that a wrong one is one line and nothing runs."""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable
from typing import TypeVar

from toprope.commandline import Parser
from toprope.serve.batching.policies import POLICY_NAMES
from toprope.serve.planning.engine_time import MODES
from toprope.serve.planning.model_shape import PRESETS
from toprope.serve.planning.plan_sweep import PlanSpace

_Item = TypeVar("_Item")
_Number = TypeVar("_Number", int, float)


def plan_parser() -> argparse.ArgumentParser:
    """The command's parser; raises `BadOption` for anything that cannot be planned with."""
    parser = Parser(
        prog="toprope plan-serve",
        description="Try serving settings on a virtual clock with the real scheduler, and recommend some.",
        epilog="example: toprope plan-serve --model qwen3-8b --rate 8 --prompt 200:2000 --output 50:500 --html p.html",
    )
    add = parser.add_argument
    add("--model", default="llama3-8b", help="preset (" + ", ".join(sorted(PRESETS)) + ") or a config.json")
    traffic = parser.add_argument_group("traffic")
    traffic.add_argument("--rate", type=number(0), default=4.0, help="requests per second; 0: all at once (default 4)")
    traffic.add_argument("--burst", type=count(), default=1, help="requests that arrive together (default 1)")
    traffic.add_argument("--requests", type=count(), default=200, help="how many to simulate (default 200)")
    traffic.add_argument("--prompt", type=lengths, default="128:1024", help="prompt tokens, N or LOW:HIGH")
    traffic.add_argument("--output", type=lengths, default="64:512", help="output tokens, N or LOW:HIGH")
    traffic.add_argument("--shared-prefix", type=count(0), default=0, help="tokens of a common system prompt")
    traffic.add_argument("--trace", help="CSV file: arrival_s,prompt_tokens,output_tokens; replaces all of the above")
    traffic.add_argument("--seed", type=int, default=0)
    slo = parser.add_argument_group("targets, for 99 %% of the requests")
    slo.add_argument("--ttft", type=number(above=0), default=1.0, help="seconds to the first token (default 1)")
    slo.add_argument("--tpot", type=number(above=0), default=0.05, help="seconds per further token (default 0.05)")
    space = parser.add_argument_group("what to try")
    default = PlanSpace()
    space.add_argument("--max-batch-size", type=several(count()), default=default.batch_sizes, help="N,N,…")
    space.add_argument("--max-tokens", type=several(count()), default=default.max_tokens, help="tokens per step, N,N,…")
    space.add_argument("--block-size", type=several(count()), default=default.block_sizes, help="N,N,…")
    space.add_argument("--policy", type=several(_policy), default=default.policies, help="name,name,…")
    space.add_argument("--max-model-len", type=count(), help="default: the longest request, rounded up")
    space.add_argument("--kv-blocks", type=count(), help="KV blocks, when known from the engine's log")
    chip = parser.add_argument_group("chip")
    chip.add_argument("--chip", default="ascend910b2", help="a name from `toprope socs` (default ascend910b2)")
    chip.add_argument("--tp", type=count(), default=1, help="cards that share every layer and the KV cache (default 1)")
    chip.add_argument(
        "--dp", type=count(), default=1, help="copies of the model beside each other; the traffic is that of one"
    )
    chip.add_argument(
        "--expert-parallel", action="store_true", help="the cards of all copies hold the experts together"
    )
    chip.add_argument(
        "--engine",
        choices=MODES,
        default="graph",
        help="how steps are launched: replayed graphs (default) or operator by operator; decides the overhead",
    )
    chip.add_argument("--weight-bytes", type=number(above=0), help="bytes of a weight: 2 (default), 1 for W8A8, 0.5")
    chip.add_argument("--tflops", type=number(above=0), help="attained matrix rate, instead of the chip's")
    chip.add_argument("--bandwidth-gbps", type=number(above=0), help="attained memory bandwidth, 1e9 bytes per second")
    chip.add_argument("--memory-gb", type=number(above=0), help="device memory, 1e9 bytes")
    chip.add_argument(
        "--overhead-ms", type=number(0), help="time of a step that computes nothing, instead of the engine's"
    )
    chip.add_argument(
        "--cost",
        choices=("kernels", "roofline"),
        help="step times: predicted matmul kernels (default where they run, at the chip's own rates), or a roofline",
    )
    add("--html", metavar="FILE", help="write a page with the frontier")
    add("--json", action="store_true", help="print JSON")
    add("--quiet", action="store_true", help="no progress")
    return parser


def number(low: float | None = None, *, above: float | None = None) -> Callable[[str], float]:
    """A finite number of at least `low`, or greater than `above`."""

    def parse(text: str) -> float:
        value = _read(float, text, "a number")
        if not math.isfinite(value):
            raise argparse.ArgumentTypeError(f"{text!r} is not a finite number")
        if (low is not None and value < low) or (above is not None and value <= above):
            wanted = f"at least {low:g}" if low is not None else f"greater than {above:g}"
            raise argparse.ArgumentTypeError(f"must be {wanted}, got {text}")
        return value

    return parse


def count(low: int = 1) -> Callable[[str], int]:
    """A whole number of at least `low`."""

    def parse(text: str) -> int:
        value = _read(int, text, "a whole number")
        if value < low:
            raise argparse.ArgumentTypeError(f"must be at least {low}, got {text}")
        return value

    return parse


def lengths(text: str) -> tuple[int, int]:
    """`N` or `LOW:HIGH`, both at least 1."""
    low, colon, high = text.partition(":")
    one = count()
    bounds = one(low), one(high) if colon else one(low)
    if bounds[0] > bounds[1]:
        raise argparse.ArgumentTypeError(f"lengths go upwards, give low <= high, got {text}")
    return bounds


def several(item: Callable[[str], _Item]) -> Callable[[str], tuple[_Item, ...]]:
    """A list with commas."""
    return lambda text: tuple(item(part) for part in text.split(","))


def _policy(text: str) -> str:
    if text not in POLICY_NAMES:
        raise argparse.ArgumentTypeError(f"no policy is called {text!r}; known: {', '.join(POLICY_NAMES)}")
    return text


def _read(kind: Callable[[str], _Number], text: str, what: str) -> _Number:
    try:
        return kind(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"{text!r} is not {what}") from error
