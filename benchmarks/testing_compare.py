"""How long does a full comparison of a large tensor take, against one bare NumPy allclose on the same arrays?

Writes one JSON object: seconds (best of the repeats) and the ratio to numpy.allclose in the same run.
"""

from __future__ import annotations

import argparse
import json
import time

import numpy as np

from toprope.testing import compare


def best(function, repeats: int) -> float:
    """Shortest of `repeats` runs in seconds."""
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        function()
        times.append(time.perf_counter() - start)
    return min(times)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--elements", type=int, default=1 << 24)
    parser.add_argument("--repeats", type=int, default=3)
    arguments = parser.parse_args()
    random = np.random.default_rng(0)
    golden = random.standard_normal(arguments.elements, dtype=np.float32)
    near = golden * np.float32(1 + 2e-6)
    far = golden * np.float32(1.01)
    half = golden.astype(np.float16)
    bare = best(lambda: np.allclose(near, golden, rtol=1e-3, atol=1e-5), arguments.repeats)
    rows = {"elements": arguments.elements, "numpy_allclose_s": round(bare, 3)}
    for name, actual, reference in [
        ("float32_passing", near, golden),
        ("float32_failing", far, golden),
        ("float32_float64_golden", near, golden.astype(np.float64)),
        ("float16", half, golden),
    ]:
        seconds = best(lambda a=actual, g=reference: compare(a, g), arguments.repeats)
        rows[f"{name}_s"] = round(seconds, 3)
        rows[f"{name}_per_allclose"] = round(seconds / bare, 2)
    tiny = golden[:256], near[:256]
    rows["256_elements_us"] = round(best(lambda: [compare(*tiny) for _ in range(100)], arguments.repeats) * 1e4, 1)
    print(json.dumps(rows, indent=2))


if __name__ == "__main__":
    main()
