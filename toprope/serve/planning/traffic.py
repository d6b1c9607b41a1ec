"""Made-up or recorded request traffic."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from toprope import inputs
from toprope.errors import BadInput

Lengths = Callable[[random.Random], int]


class Arrival(NamedTuple):
    """One request from outside; prompts with the same `prefix` begin with the same `prefix_tokens`."""

    arrival_s: float
    prompt_tokens: int
    output_tokens: int
    prefix: int = 0
    prefix_tokens: int = 0


def between(low: int, high: int) -> Lengths:
    """Uniform lengths, both ends included; `between(n, n)` is a constant."""
    if not 1 <= low <= high:
        raise BadInput(f"lengths go from at least 1 upwards, got {low}..{high}", cure="give low <= high")
    return lambda rng: rng.randint(low, high)


def poisson(rate_per_s: float, count: int, prompt: Lengths, output: Lengths, *, seed: int = 0) -> list[Arrival]:
    """`count` requests that arrive independently, `rate_per_s` on average."""
    return bursts(rate_per_s, count, 1, prompt, output, seed=seed)


def bursts(
    rate_per_s: float, count: int, burst_size: int, prompt: Lengths, output: Lengths, *, seed: int = 0
) -> list[Arrival]:
    """As `poisson`, but requests arrive `burst_size` at a time, at the same average rate."""
    if rate_per_s <= 0 or count < 1 or burst_size < 1:
        raise BadInput(
            f"traffic needs a positive rate and counts, got {rate_per_s}/s, {count} requests in bursts of {burst_size}",
            cure="give positive numbers",
        )
    rng = random.Random(seed)
    arrivals: list[Arrival] = []
    now = 0.0
    while len(arrivals) < count:
        now += rng.expovariate(rate_per_s / burst_size)
        for _ in range(min(burst_size, count - len(arrivals))):
            arrivals.append(Arrival(now, prompt(rng), output(rng)))
    return arrivals


def all_at_once(count: int, prompt: Lengths, output: Lengths, *, seed: int = 0) -> list[Arrival]:
    """`count` requests at time 0: the offline case, and the hardest one for memory."""
    rng = random.Random(seed)
    return [Arrival(0.0, prompt(rng), output(rng)) for _ in range(count)]


def with_shared_prefixes(arrivals: list[Arrival], prefix_tokens: int, groups: int, *, seed: int = 0) -> list[Arrival]:
    """Put one of `groups` common beginnings (system prompts) before each prompt."""
    rng = random.Random(seed)
    return [
        Arrival(at_s, prefix_tokens + prompt, output, rng.randrange(groups), prefix_tokens)
        for at_s, prompt, output, _, _ in arrivals
    ]


MOST_TOKENS = 1 << 24
"""Of a prompt or an answer in a trace: more than any model takes, and few enough to be simulated one by one."""


def from_csv(path: str | Path) -> list[Arrival]:
    """A recorded trace: columns `arrival_s, prompt_tokens, output_tokens`; `BadInput` names a bad line."""
    arrivals: list[Arrival] = []
    for line, row in inputs.rows(Path(path)):
        try:
            arrival = Arrival(float(row["arrival_s"]), int(row["prompt_tokens"]), int(row["output_tokens"]))
        except (KeyError, TypeError, ValueError) as error:
            raise BadInput(
                f"{path}:{line}: not a trace row ({error})",
                cure="columns: arrival_s,prompt_tokens,output_tokens",
            ) from error
        inputs.numbers([arrival.arrival_s], f"{path}:{line}: arrival_s")
        inputs.numbers([arrival.prompt_tokens, arrival.output_tokens], f"{path}:{line}: tokens", 1)
        if max(arrival.prompt_tokens, arrival.output_tokens) > MOST_TOKENS:
            raise BadInput(
                f"{path}:{line}: a request of {max(arrival.prompt_tokens, arrival.output_tokens)} tokens",
                cure=f"give at most {MOST_TOKENS} tokens",
            )
        arrivals.append(arrival)
    if not arrivals:
        raise BadInput(f"the trace {path} has no requests", cure="columns: arrival_s,prompt_tokens,output_tokens")
    return sorted(arrivals)
