"""The tile language: time to emit, level A beside plain NumPy, and the predicted time of emitted kernels beside the hand-written examples.

`python -m benchmarks.tile` prints JSON; ratios within one run are the figures that count.
"""

from __future__ import annotations

import importlib.util
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import toprope
from toprope.tile import TileKernel
from toprope.tile.kernel import kernel as tile_kernel

EXAMPLES = Path(__file__).parents[1] / "examples"


def best_ms(work: Callable[[], Any], repeats: int = 5) -> float:
    """The shortest of some runs, in milliseconds."""
    times = []
    for _ in range(repeats):
        begin = time.perf_counter()
        work()
        times.append(time.perf_counter() - begin)
    return round(min(times) * 1e3, 2)


def kernels() -> Any:
    """The bundled tile kernels."""
    spec = importlib.util.spec_from_file_location("tile_kernels", EXAMPLES / "09_tile" / "kernels.py")
    assert spec and spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def emit_ms(kernel: TileKernel) -> float:
    """From the Python function to the text, anew each time."""
    return best_ms(lambda: tile_kernel(kernel.function).source())


def level_a(k: Any) -> dict[str, dict[str, float]]:
    """Level A and NumPy on the sizes of the project's figures."""
    rng = np.random.default_rng(0)
    x, y = rng.standard_normal((2, 16 << 20), dtype=np.float32)
    z = np.empty_like(x)
    s, t = rng.standard_normal((1024, 1024), dtype=np.float32), np.empty((1024, 1024), np.float32)
    a, b, c = (
        rng.standard_normal((512, 512)).astype(np.float16),
        rng.standard_normal((512, 512)).astype(np.float16),
        np.empty((512, 512), np.float32),
    )

    def numpy_softmax() -> Any:
        e = np.exp(s - s.max(1, keepdims=True))
        return e / e.sum(1, keepdims=True)

    pairs = {
        "add 16M": (lambda: k.add(x, y, z), lambda: np.add(x, y, out=z)),
        "softmax 1024^2": (lambda: k.softmax(s, t), numpy_softmax),
        "matmul 512^3": (lambda: k.matmul(a, b, c), lambda: a.astype(np.float32) @ b.astype(np.float32)),
    }
    found = {}
    for name, (ours, plain) in pairs.items():
        ours()
        mine, theirs = best_ms(ours), best_ms(plain)
        found[name] = {"level_a_ms": mine, "numpy_ms": theirs, "ratio": round(mine / theirs, 2)}
    return found


def against_hand_written(k: Any) -> dict[str, dict[str, float]]:
    """Predicted microseconds of the emitted kernels and of the examples written by hand, same shapes, same cores."""
    rng = np.random.default_rng(0)
    half, x = np.float16, rng.standard_normal((1001, 1003), dtype=np.float32)
    n = 8 * 2048 * 16
    h, g = rng.standard_normal((2, n)).astype(half)
    a, b = rng.standard_normal((2, 1024, 1024)).astype(half)
    hand = {
        "add": toprope.load(EXAMPLES / "01_add/add_custom.cpp").add_custom[8](h, g, np.zeros(n, half), n),
        "softmax": toprope.load(EXAMPLES / "03_softmax/softmax.cpp").softmax[8](x, np.zeros_like(x), *x.shape),
        "matmul": toprope.load(EXAMPLES / "07_matmul/matmul_custom.cpp").matmul_custom[8](
            a, b, np.zeros((1024, 1024), np.float32), 1024, 1024, 1024
        ),
    }
    ours = {
        "add": k.add_half.run(h, g, np.zeros(n, half), blocks=8),
        "softmax": k.softmax.run(x, np.zeros_like(x), blocks=8),
        "matmul": k.matmul.run(a, b, np.zeros((1024, 1024), np.float32), blocks=8),
    }
    found = {}
    for name, run in ours.items():
        mine, theirs = run.timeline.microseconds, hand[name].timeline.microseconds
        found[name] = {"emitted_us": round(mine, 2), "hand_us": round(theirs, 2), "ratio": round(mine / theirs, 3)}
    return found


def main() -> None:
    """Print all figures as JSON."""
    k = kernels()
    emit = {name: emit_ms(getattr(k, name)) for name in ("add", "softmax", "rms_norm", "matmul")}
    print(json.dumps({"emit_ms": emit, "level_a": level_a(k), "predicted": against_hand_written(k)}, indent=2))


if __name__ == "__main__":
    main()
