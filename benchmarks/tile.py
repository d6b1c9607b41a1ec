"""The tile language: time to emit, level A beside NumPy and the Triton interpreter, predicted times beside hand-written kernels.

`python -m benchmarks.tile` prints JSON; ratios within one run are the figures that count. The interpreter's figures appear where triton
and torch are installed (`pip install triton`): the same Triton functions, one program at a time, ours through tile.triton.
"""

from __future__ import annotations

import importlib.util
import json
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import toprope
from toprope import ops, soc, tile
from toprope.kernel import DEFAULT_SOC
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


def against_library(k: Any) -> dict[str, dict[str, float]]:
    """Predicted microseconds beside the optimised operators of the library, all cores, default parameters."""
    chip, zeros = soc.load(DEFAULT_SOC), np.zeros
    calls: list[tuple[str, tuple[Any, ...], TileKernel, tuple[Any, ...]]] = []
    for kind, kernel in ((np.float16, k.add_half), (np.float32, k.add)):
        x = zeros(1 << 24, kind)
        calls.append(("add", (x, x), kernel, (x, x, x)))
    for shape in ((4096, 1024), (1001, 1003), (32768, 256), (32768, 64), (1024, 8192), (100, 20000)):
        x = zeros(shape, np.float32)
        calls.append(("softmax", (x,), k.softmax, (x, x)))
    for m, depth, n in (
        (1024, 1024, 1024),
        (2048, 2048, 2048),
        (4096, 1024, 4096),
        (512, 4096, 512),
        (1000, 1001, 1002),
    ):
        a, b = zeros((m, depth), np.float16), zeros((depth, n), np.float16)
        calls.append(("matmul", (a, b), k.matmul_half, (a, b, zeros((m, n), np.float16))))
    found: dict[str, dict[str, float]] = {}
    for name, inputs, kernel, arrays in calls:
        theirs = ops.operator(name).run(*inputs, soc=chip, options={"time_only": True}).time_us
        mine = kernel.run(*arrays, time_only=True).timeline.microseconds
        label = f"{name} {inputs[0].dtype} " + " and ".join(" x ".join(map(str, i.shape)) for i in inputs)
        found[label] = {"emitted_us": round(mine, 2), "library_us": round(theirs, 2), "ratio": round(mine / theirs, 3)}
    return found


def beside_triton() -> dict[str, dict[str, float]]:
    """The Triton functions of the examples under Triton's own interpreter and under ours, one program after the other."""
    if importlib.util.find_spec("triton") is None or importlib.util.find_spec("torch") is None:
        return {}
    os.environ["TRITON_INTERPRET"] = "1"
    import torch  # heavy and optional

    path = EXAMPLES / "09_tile" / "triton_kernels.py"
    spec = importlib.util.spec_from_file_location("triton_kernels", path)
    assert spec and spec.loader
    theirs = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(theirs)
    rng = np.random.default_rng(0)
    x, ids = rng.standard_normal((1024, 1024), dtype=np.float32), rng.integers(0, 1024, 1024).astype(np.int32)
    a = rng.standard_normal((512, 512)).astype(np.float16)
    out, half = np.empty_like(x), np.empty_like(a)
    calls: dict[str, tuple[Any, tuple[Any, ...], dict[str, int]]] = {
        "softmax_kernel": ((1024,), (out, x, 1024, 1024, 1024), {"BLOCK": 1024}),
        "gather_kernel": ((64, 4), (ids, x, out, 1024, 1024, 1024), {"ROWS": 16, "COLUMNS": 256}),
        "matmul_kernel": (
            (4, 4),
            (a, a, half, 512, 512, 512, 512, 1, 512, 1, 512, 1),
            {"BM": 128, "BN": 128, "BK": 128},
        ),
    }
    found = {}
    for name, (grid, arguments, constants) in calls.items():
        mine = tile.triton(path, name)
        tensors = [torch.from_numpy(v) if isinstance(v, np.ndarray) else v for v in arguments]
        ours_ms = best_ms(lambda m=mine, g=grid, v=arguments, c=constants: m[g](*v, **c), 3)
        theirs_ms = best_ms(lambda n=name, g=grid, v=tensors, c=constants: getattr(theirs, n)[g](*v, **c), 3)
        found[name] = {"level_a_ms": ours_ms, "triton_ms": theirs_ms, "ratio": round(ours_ms / theirs_ms, 3)}
    return found


def main() -> None:
    """Print all figures as JSON."""
    k = kernels()
    emit = {
        name: emit_ms(getattr(k, name)) for name in ("add", "softmax", "rms_norm", "matmul", "ln_gemm", "linear_gelu")
    }
    figures = {
        "emit_ms": emit,
        "level_a": level_a(k),
        "beside_triton": beside_triton(),
        "predicted": against_hand_written(k),
        "predicted_library": against_library(k),
    }
    print(json.dumps(figures, indent=2))


if __name__ == "__main__":
    main()
