"""Paged decode attention against torch's attention over contiguous keys and values, interleaved in one run.

Prints one JSON object. Bar: batch 16, 8 heads of 64, context 1,024: at most 1.1 times the contiguous one.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import time
from typing import Any

os.environ.setdefault("OMP_WAIT_POLICY", "passive")  # see docs/serve_engine.md; the same for both sides

import numpy as np
import torch
import torch.nn.functional as F

from toprope.serve.batching.batch import BatchEntry
from toprope.serve.batching.request import Request
from toprope.serve.kernels.attention import AttentionPlan
from toprope.serve.kernels.choose_kernels import load_kernels
from toprope.serve.kernels.kv_memory import KvMemory

BATCH, HEADS, HEAD, CONTEXT, BLOCK = 16, 8, 64, 1024, 16


class Case:
    """The same keys and values twice: contiguous, and scattered over the blocks of a cache."""

    def __init__(self, dtype: torch.dtype, kv_heads: int) -> None:
        generator = torch.Generator().manual_seed(0)

        def normal(*shape: int) -> torch.Tensor:
            return torch.randn(shape, generator=generator).to(dtype)

        blocks = CONTEXT // BLOCK
        self.query, self.kv_heads = normal(BATCH, HEADS, 1, HEAD), kv_heads
        self.keys, self.values = normal(BATCH, kv_heads, CONTEXT, HEAD), normal(BATCH, kv_heads, CONTEXT, HEAD)
        self.memory = KvMemory(
            blocks=BATCH * blocks, block_tokens=BLOCK, layers=1, kv_heads=kv_heads, head=HEAD, dtype=dtype
        )
        tables = torch.randperm(BATCH * blocks, generator=generator).reshape(BATCH, blocks)
        for request in range(BATCH):
            cut = (kv_heads, blocks, BLOCK, HEAD)
            self.memory.keys(0)[tables[request]] = self.keys[request].reshape(cut).permute(1, 0, 3, 2)
            self.memory.values(0)[tables[request]] = self.values[request].reshape(cut).permute(1, 0, 2, 3)
        one = Request("one", [0], 1)
        self.plan = AttentionPlan.of(
            [BatchEntry(one, CONTEXT - 1, [0], t.numpy().astype(np.int32), True) for t in tables], BLOCK
        )
        self.qkv = torch.zeros((BATCH, (HEADS + 2 * kv_heads) * HEAD), dtype=dtype)
        self.qkv[:, : HEADS * HEAD] = self.query.reshape(BATCH, -1)
        self.out = torch.empty((BATCH, HEADS * HEAD), dtype=dtype)
        self.kernels = load_kernels(dtype, "compiled")

    def paged(self) -> torch.Tensor:
        self.kernels.attend(self.qkv, HEADS, self.plan, self.memory, 0, self.out)
        return self.out

    def contiguous(self) -> torch.Tensor:
        grouped = self.kv_heads != HEADS
        return F.scaled_dot_product_attention(self.query, self.keys, self.values, enable_gqa=grouped).reshape(BATCH, -1)


def measure(case: Case, rounds: int) -> dict[str, Any]:
    """Milliseconds of both, taken in turn so that a busy machine disturbs both alike."""
    times: dict[str, list[float]] = {"paged": [], "contiguous": []}
    for _ in range(rounds):
        for name, run in (("paged", case.paged), ("contiguous", case.contiguous)):
            began = time.perf_counter()
            run()
            times[name].append(1e3 * (time.perf_counter() - began))
    result: dict[str, Any] = {f"{name}_ms_median": statistics.median(taken) for name, taken in times.items()}
    result |= {f"{name}_ms_least": min(taken) for name, taken in times.items()}
    result["ratio_median"] = result["paged_ms_median"] / result["contiguous_ms_median"]
    result["ratio_least"] = result["paged_ms_least"] / result["contiguous_ms_least"]
    result["largest_difference"] = float((case.paged().float() - case.contiguous().float()).abs().max())
    return result


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=200)
    options = parser.parse_args()
    results: dict[str, Any] = {"threads": torch.get_num_threads(), "load_average": os.getloadavg()[0]}
    for dtype in (torch.float32, torch.bfloat16):
        for kv_heads in (HEADS, 2):
            name = f"{str(dtype).removeprefix('torch.')}_{HEADS}_heads_on_{kv_heads}"
            results[name] = measure(Case(dtype, kv_heads), options.rounds)
    print(json.dumps(results, indent=1))


if __name__ == "__main__":
    main()
