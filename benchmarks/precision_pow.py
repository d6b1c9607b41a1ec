"""How much more exact is the compensated power of examples/10_pow than exp(y ln x) in half, on one named range?

Prints one JSON object: largest and mean relative error of both kernels against float64, and the factor between the largest ones.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

import toprope

EXAMPLE = Path(__file__).parent.parent / "examples" / "10_pow"
NAMED_RANGE = "x uniform in [1/8, 8], y uniform in [-5, 5], both exact in half"
BAR = 5_700


def named_range(count: int) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any]]:
    """Bases and exponents of NAMED_RANGE: exact in half, so that the naive kernel loses nothing by narrowing them."""
    rng = np.random.default_rng(0)
    x, y = rng.uniform(0.125, 8, count), rng.uniform(-5, 5, count)
    return x.astype(np.float16).astype(np.float32), y.astype(np.float16).astype(np.float32)


def errors(x: np.ndarray[Any, Any], y: np.ndarray[Any, Any]) -> dict[str, float]:
    """Relative errors of both kernels against float64; the length is a multiple of 1024."""
    golden = np.power(x.astype(np.float64), y.astype(np.float64))
    found: dict[str, float] = {}
    for name, file, entry in (("naive", "pow_naive.cpp", "pow_naive"), ("compensated", "pow.cpp", "pow_compensated")):
        z = np.zeros_like(x)
        toprope.load(EXAMPLE / file)[entry][4](x.copy(), y.copy(), z, len(x))
        relative = np.abs(z - golden) / golden
        found[f"{name}_max_relative"], found[f"{name}_mean_relative"] = float(relative.max()), float(relative.mean())
    found["improvement"] = found["naive_max_relative"] / found["compensated_max_relative"]
    return found


def main() -> None:
    print(json.dumps({"range": NAMED_RANGE, "elements": 65536, **errors(*named_range(65536)), "bar": BAR}, indent=1))


if __name__ == "__main__":
    main()
