"""What the scheduler costs and what paging saves; JSON on stdout.

    python benchmarks/serve_scheduler.py

`step`: processor time of one `Scheduler.step` (and of `step` with `update`) with 256 running and 10,000 waiting
requests, per policy; processor time, so that other programs on the machine do not count. `memory`: the same mixed requests under a paged cache and under slots of the maximum length, which is how much
memory a cache without paging must set aside; and the share of held blocks that holds no token.
"""

from __future__ import annotations

import argparse
import json
import logging
import random
import time

import numpy as np

from toprope.serve.batching.batch import Batch
from toprope.serve.batching.kv_cache import KvCache
from toprope.serve.batching.policies import POLICY_NAMES, Policy, make_policy
from toprope.serve.batching.request import Request
from toprope.serve.batching.scheduler import Scheduler, SchedulerLimits


def step_times(policy: Policy, *, running: int = 256, waiting: int = 10_000, steps: int = 300) -> dict[str, float]:
    """Milliseconds; only full steps (all running requests decode) count."""
    rng = random.Random(0)
    cache = KvCache(60_000, 16)
    scheduler = Scheduler(cache, SchedulerLimits(running, 8192, max_queued=waiting + running), policy)
    for number in range(running + waiting):
        prompt = [rng.randrange(1000) for _ in range(rng.randrange(16, 256))]
        # Some requests end in every few steps, so admission is part of what is timed.
        scheduler.add(Request(f"r{number}", prompt, rng.randrange(100, 1000)))
    step_s, both_s = [], []
    now = 0.0
    while len(step_s) < steps:
        began = time.thread_time()
        batch = scheduler.step(now)
        stepped = time.thread_time()
        sampled = {entry.request.id: 7 for entry in batch.entries if entry.samples}
        answered = time.thread_time()
        now += 0.02
        scheduler.update(batch, sampled, now)
        ended = time.thread_time()
        if len(batch.entries) >= 0.95 * running:
            step_s.append(stepped - began)
            both_s.append(stepped - began + ended - answered)
        if not scheduler.stats().waiting:
            raise SystemExit("the queue ran empty before enough steps were timed")
    return {
        "step_median_ms": round(1e3 * float(np.median(step_s)), 3),
        "step_p99_ms": round(1e3 * float(np.quantile(step_s, 0.99)), 3),
        "step_and_update_median_ms": round(1e3 * float(np.median(both_s)), 3),
        "timed_steps": len(step_s),
    }


def memory(block_size: int, *, max_model_len: int = 2048, batch_size: int = 64, count: int = 512) -> dict[str, float]:
    """Tokens of memory held by paging against `running × max_model_len`, averaged over the steps of a mixed load."""
    rng = random.Random(3)
    cache = KvCache(batch_size * max_model_len // block_size, block_size, prefix_caching=False)
    scheduler = Scheduler(cache, SchedulerLimits(batch_size, 4096, max_model_len))
    for number in range(count):
        # Log-uniform lengths, as in chat traffic: many short requests and a few that use the whole context.
        prompt = int(2 ** rng.uniform(5, 10))
        output = min(int(2 ** rng.uniform(5, 10)), max_model_len - prompt)
        scheduler.add(Request(f"r{number}", [0] * prompt, output))
    held = used = contiguous = 0
    while scheduler.has_work:
        batch: Batch = scheduler.step(0.0)
        held += (cache.device.block_count - cache.device.free_count) * block_size
        used += sum(len(request.tokens) for request in scheduler.live_requests if len(request.block_table))
        contiguous += scheduler.stats().running * max_model_len
        scheduler.update(batch, {entry.request.id: 7 for entry in batch.entries if entry.samples}, 0.0)
    return {
        "saving_against_contiguous": round(1 - held / contiguous, 4),
        "waste_inside_blocks": round(1 - used / held, 4),
        "waste_of_contiguous": round(1 - used / contiguous, 4),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=300)
    args = parser.parse_args()
    logging.getLogger("toprope.serve").setLevel(logging.ERROR)
    # With a target it never reaches, the adaptive policy keeps the batch full as the others do.
    policies = {name: make_policy(name, tpot_s=10.0) for name in POLICY_NAMES}
    result = {
        "step": {
            "question": "time of a scheduler step at 256 running, 10,000 waiting",
            "bar_ms": 1.0,
            **{name: step_times(policy, steps=args.steps) for name, policy in policies.items()},
        },
        "memory": {
            "question": "KV memory of paging against slots of the maximum length, mixed lengths",
            "bars": {"saving_against_contiguous": 0.41, "waste_inside_blocks at block 16": 0.04},
            **{f"block {size}": memory(size) for size in (16, 128)},
        },
    }
    print(json.dumps(result, indent=2))


if __name__ == "__main__":
    main()
