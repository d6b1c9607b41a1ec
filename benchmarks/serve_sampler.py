"""One step's sampling for a batch, beside torch's softmax alone over the same logits; prints one JSON object.

Milliseconds of processor time, all threads together, best of nine. `normal`: logits of a normal distribution with a few likely tokens
above, of which the tail holds half the weight; `peaked`: the tail holds a thousandth, as most steps of a model look. Bar: batch 64,
vocabulary 151,936: at most 5 ms on two cores, which are 10 ms of processor time.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable

import numpy as np
import torch

from toprope.serve.batching.request import Request, SamplingParams
from toprope.serve.engine.sampler import Sampler

BATCH, VOCABULARY = 64, 151_936
PARAMS = {
    "greedy": SamplingParams(temperature=0),
    "temperature 1": SamplingParams(),
    "top_k 50": SamplingParams(top_k=50),
    "top_p 0.95": SamplingParams(top_p=0.95),
    "min_p 0.05": SamplingParams(min_p=0.05),
    "temperature 0.7, top_k 20, top_p 0.8": SamplingParams(temperature=0.7, top_k=20, top_p=0.8),
}


def best_ms(call: Callable[[], object], before: Callable[[], object] = lambda: None) -> float:
    """Processor time of `call`, the least of nine."""
    spent = []
    for _ in range(9):
        before()
        began = time.process_time()
        call()
        spent.append(time.process_time() - began)
    return round(1e3 * min(spent), 2)


def main() -> None:
    """See the module's first lines."""
    rng = np.random.default_rng(0)
    found: dict[str, dict[str, float]] = {}
    for name, above in (("normal", 8.0), ("peaked", 15.0)):
        logits = rng.normal(0, 2, (BATCH, VOCABULARY)).astype(np.float32)
        logits[:, :50] += above
        work = logits.copy()
        same = torch.from_numpy(logits)
        found[name] = {"torch softmax": best_ms(lambda x=same: x.softmax(1))}  # type: ignore[misc]
        for label, params in PARAMS.items():
            requests = [Request(f"r{i}", [1], 2, params) for i in range(BATCH)]
            found[name][label] = best_ms(
                lambda r=requests, w=work: Sampler().sample(w, r),  # type: ignore[misc]
                lambda w=work, x=logits: np.copyto(w, x),  # type: ignore[misc]
            )
    print(json.dumps({"batch": BATCH, "vocabulary": VOCABULARY, "processor_ms": found}, indent=2))


if __name__ == "__main__":
    main()
