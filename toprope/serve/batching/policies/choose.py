"""Policies by name, for command lines and configuration files."""

from __future__ import annotations

from collections.abc import Callable

from toprope.errors import BadInput
from toprope.serve.batching.policies.adaptive_batch_size import AdaptiveBatchSize
from toprope.serve.batching.policies.decode_first import DecodeFirst
from toprope.serve.batching.policies.least_laxity import LeastLaxity
from toprope.serve.batching.policies.policy import Policy
from toprope.serve.batching.policies.prefill_first import PrefillFirst
from toprope.serve.batching.policies.throughput import Throughput

POLICY_NAMES = ("prefill-first", "decode-first", "throughput", "least-laxity", "adaptive")


def make_policy(name: str, *, ttft_s: float = 1.0, tpot_s: float = 0.05) -> Policy:
    """A new policy; `adaptive` is decode-first with an adaptive batch size. Targets go to those that have any."""
    makers: dict[str, Callable[[], Policy]] = {
        "prefill-first": PrefillFirst,
        "decode-first": DecodeFirst,
        "throughput": Throughput,
        "least-laxity": lambda: LeastLaxity(ttft_s=ttft_s, tpot_s=tpot_s),
        "adaptive": lambda: AdaptiveBatchSize(DecodeFirst(), target_tpot_s=tpot_s, dead_band_s=tpot_s / 10),
    }
    if name not in makers:
        raise BadInput(f"no policy is called {name!r}", cure="known: " + ", ".join(POLICY_NAMES))
    return makers[name]()
