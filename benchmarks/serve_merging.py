"""Does merging requests pay? A small NumPy model served one by one and merged, in one run; JSON on stdout.

    python benchmarks/serve_merging.py [--requests N] [--rounds N] [--clients N] [--max-size N] [--max-delay-ms X] [--engine torch]

The model is three dense layers in float32, in NumPy or torch. `saturated`: so many clients each send their next request when the last
one is answered. `paced`: requests arrive at random (Poisson) at four times what one-by-one service can do, a load
under which an unmerged server's queue grows without end. Answers are compared with one-by-one answers.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import threading
import time
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # before NumPy is loaded: one device is one thread here

import numpy as np
from numpy.typing import NDArray

from toprope.serve.merging.merger import RequestMerger

Vector = NDArray[np.float32]


class SmallModel:
    """Input `[width]` → output `[classes]`; a batch is one matrix product a layer."""

    def __init__(self, engine: str, width: int = 2048, classes: int = 64) -> None:
        rng = np.random.default_rng(0)
        sizes = [width, width, width, classes]
        self.width = width
        self.layers = [rng.standard_normal((a, b), dtype=np.float32) / np.float32(a**0.5) for a, b in pairwise(sizes)]
        self.run = self._torch() if engine == "torch" else self._numpy

    def __call__(self, inputs: Sequence[Vector]) -> list[Vector]:
        return list(self.run(np.stack(inputs)))

    def _torch(self) -> Callable[[Vector], Vector]:
        import torch  # optional: only where it is the model under test

        torch.set_num_threads(1)
        steps: list[torch.nn.Module] = []
        for layer in self.layers:
            linear = torch.nn.Linear(*layer.shape, bias=False)
            linear.weight.data = torch.from_numpy(np.ascontiguousarray(layer.T))
            steps += [linear, torch.nn.ReLU()]
        network = torch.nn.Sequential(*steps[:-1])

        def run(x: Vector) -> Vector:
            with torch.inference_mode():
                output: Vector = network(torch.from_numpy(x)).numpy()
            return output

        return run

    def _numpy(self, x: Vector) -> Vector:
        for layer in self.layers[:-1]:
            x = np.maximum(x @ layer, 0)
        return x @ self.layers[-1]


def one_by_one(model: SmallModel, inputs: list[Vector]) -> tuple[float, list[float], list[Vector]]:
    """Requests per second, latencies in seconds, outputs."""
    latencies, outputs = [], []
    start = time.perf_counter()
    for value in inputs:
        began = time.perf_counter()
        outputs.append(model([value])[0])
        latencies.append(time.perf_counter() - began)
    return len(inputs) / (time.perf_counter() - start), latencies, outputs


def saturated(
    merger: RequestMerger[Vector, Vector], inputs: list[Vector], clients: int
) -> tuple[float, list[float], list[Vector]]:
    """As `one_by_one`, with `clients` requests under way at any time."""
    free = threading.Semaphore(clients)
    latencies = [0.0] * len(inputs)
    futures = []
    start = time.perf_counter()
    for number, value in enumerate(inputs):
        free.acquire()
        began = time.perf_counter()

        def done(_: Any, number: int = number, began: float = began) -> None:
            latencies[number] = time.perf_counter() - began
            free.release()

        future = merger.submit(value)
        future.add_done_callback(done)
        futures.append(future)
    outputs = [future.result() for future in futures]
    return len(inputs) / (time.perf_counter() - start), latencies, outputs


def paced(merger: RequestMerger[Vector, Vector], inputs: list[Vector], rate_per_s: float) -> list[float]:
    """Latencies in seconds, counted from when each request was due to arrive."""
    rng = random.Random(1)
    latencies = [0.0] * len(inputs)
    futures = []
    due = time.perf_counter()
    for number, value in enumerate(inputs):
        due += rng.expovariate(rate_per_s)
        pause = due - time.perf_counter()
        if pause > 0:
            time.sleep(pause)

        def done(_: Any, number: int = number, due: float = due) -> None:
            latencies[number] = time.perf_counter() - due

        future = merger.submit(value)
        future.add_done_callback(done)
        futures.append(future)
    for future in futures:
        future.result()
    return latencies


def p99_ms(latencies: list[float]) -> float:
    return round(float(np.quantile(latencies, 0.99)) * 1e3, 2)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--requests", type=int, default=1000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--clients", type=int, default=256)
    parser.add_argument("--max-size", type=int, default=128)
    parser.add_argument("--max-delay-ms", type=float, default=2.0)
    parser.add_argument("--engine", choices=["numpy", "torch"], default="numpy")
    args = parser.parse_args()

    model = SmallModel(args.engine)
    rng = np.random.default_rng(1)
    inputs = [rng.standard_normal(model.width, dtype=np.float32) for _ in range(args.requests)]
    some = inputs[: args.requests // 10]
    one_by_one(model, inputs[:50])
    singles, merges = [], []
    with RequestMerger(model, max_size=args.max_size, max_delay_s=args.max_delay_ms / 1e3) as merger:
        saturated(merger, inputs[:200], args.clients)
        for _ in range(args.rounds):  # in turns, so that whatever else the machine does meets both alike
            singles.append(one_by_one(model, some))
            merges.append(saturated(merger, inputs, args.clients))
    single_per_s = float(np.median([per_s for per_s, _, _ in singles]))
    merged_per_s = float(np.median([per_s for per_s, _, _ in merges]))
    ratio = float(np.median([merged[0] / single[0] for merged, single in zip(merges, singles, strict=True)]))
    single_latencies = [latency for _, latencies, _ in singles for latency in latencies]
    merged_latencies = [latency for _, latencies, _ in merges for latency in latencies]
    expected, outputs = singles[-1][2], merges[-1][2]
    with RequestMerger(model, max_size=args.max_size, max_delay_s=args.max_delay_ms / 1e3) as paced_merger:
        rate = 4 * single_per_s
        paced_latencies = paced(paced_merger, inputs, rate)

    error = max(float(np.abs(a - b).max()) for a, b in zip(expected, outputs, strict=False))
    print(
        json.dumps(
            {
                "question": "throughput of merged requests over one-by-one",
                "model": f"3 dense layers, width {model.width}, float32, {args.engine}",
                "max_size": args.max_size,
                "max_delay_ms": args.max_delay_ms,
                "clients": args.clients,
                "one_by_one": {"requests_per_s": round(single_per_s), "p99_ms": p99_ms(single_latencies)},
                "merged_saturated": {"requests_per_s": round(merged_per_s), "p99_ms": p99_ms(merged_latencies)},
                "merged_paced": {"requests_per_s": round(rate), "p99_ms": p99_ms(paced_latencies)},
                "mean_batch": {
                    "saturated": round(merger.stats().mean_size, 1),
                    "paced": round(paced_merger.stats().mean_size, 1),
                },
                "largest_difference": error,
                "rounds": args.rounds,
                "ratio": round(ratio, 2),
                "bar": 8.0,
            },
            indent=2,
        )
    )


if __name__ == "__main__":
    main()
