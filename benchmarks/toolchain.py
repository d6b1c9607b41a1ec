"""How fast is the main job? Compile, run, record; each figure beside its bar and, where it is a ratio, measured in one run."""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import toprope
from toprope import launch
from toprope.soc import load as load_soc

ROOT = Path(__file__).parent.parent
EXAMPLES = ROOT / "examples"


def median_s(work: Callable[[], Any], times: int = 7) -> float:
    """Median wall time of `work` after one warm-up."""
    work()
    spent = []
    for _ in range(times):
        begin = time.perf_counter()
        work()
        spent.append(time.perf_counter() - begin)
    return statistics.median(spent)


def ratio(
    ours: Callable[[], Any],
    theirs: Callable[[], Any],
    times: int = 9,
    clock: Callable[[], float] = time.perf_counter,
) -> float:
    """Median of paired ratios, the two taken in turn so that a drift of the machine hits both.

    `clock`: wall time by default; `time.process_time` where both use one thread, so that other programs do not decide the figure.
    """
    ours(), theirs()
    pairs = []
    for _ in range(times):
        t0 = clock()
        ours()
        t1 = clock()
        theirs()
        pairs.append((t1 - t0) / (clock() - t1))
    return statistics.median(pairs)


def command_s(*words: str) -> float:
    """Wall time of a toprope command line, start-up included."""
    environment = dict(os.environ)
    return median_s(
        lambda: subprocess.run(
            [sys.executable, "-m", "toprope.cli", *words], check=True, capture_output=True, env=environment
        ),
        5,
    )


def cold_compile_s() -> float:
    """Compiling the Add kernel with an empty cache; the runtime, built once a machine, is there already."""
    soc = load_soc("ascend910b1")
    spent = []
    for _ in range(3):
        # A define that no build has had yet makes the cache miss without emptying it.
        fresh = toprope.load(EXAMPLES / "01_add" / "add_custom.cpp", defines=[f"TOPROPE_BENCH_ROUND={time.time_ns()}"])
        begin = time.perf_counter()
        fresh.add_custom.build(soc, "aiv")
        spent.append(time.perf_counter() - begin)
    return statistics.median(spent)


ADD_F32 = """
#include "kernel_operator.h"
using namespace AscendC;
constexpr int32_t kTile = 8192;
extern "C" __global__ __aicore__ void add_f32(GM_ADDR x, GM_ADDR y, GM_ADDR z, uint32_t total) {
    TPipe pipe;
    TQue<TPosition::VECIN, 1> inX, inY;
    TQue<TPosition::VECOUT, 1> outZ;
    pipe.InitBuffer(inX, 2, kTile * 4);
    pipe.InitBuffer(inY, 2, kTile * 4);
    pipe.InitBuffer(outZ, 2, kTile * 4);
    GlobalTensor<float> xg, yg, zg;
    const uint32_t each = total / GetBlockNum(), begin = each * GetBlockIdx();
    xg.SetGlobalBuffer((__gm__ float*)x + begin, each);
    yg.SetGlobalBuffer((__gm__ float*)y + begin, each);
    zg.SetGlobalBuffer((__gm__ float*)z + begin, each);
    for (uint32_t i = 0; i < each; i += kTile) {
        auto a = inX.AllocTensor<float>(), b = inY.AllocTensor<float>();
        DataCopy(a, xg[i], kTile);
        DataCopy(b, yg[i], kTile);
        inX.EnQue(a);
        inY.EnQue(b);
        a = inX.DeQue<float>();
        b = inY.DeQue<float>();
        auto c = outZ.AllocTensor<float>();
        Add(c, a, b, kTile);
        outZ.EnQue(c);
        inX.FreeTensor(a);
        inY.FreeTensor(b);
        c = outZ.DeQue<float>();
        DataCopy(zg[i], c, kTile);
        outZ.FreeTensor(c);
    }
}
"""


def add_ratio(folder: Path) -> dict[str, float]:
    """16M-element fp32 add in 8,192-element tiles, recording on, against numpy.add into a given array."""
    file = folder / "add_f32.cpp"
    file.write_text(ADD_F32)
    kernel = toprope.load(file).add_f32
    rng = np.random.default_rng(0)
    x, y = rng.standard_normal((2, 1 << 24), dtype=np.float32)
    z, gold = np.empty_like(x), np.empty_like(x)
    result = ratio(lambda: kernel[8](x, y, z, x.size), lambda: np.add(x, y, out=gold))
    assert np.array_equal(z, gold)
    run = kernel[8](x, y, z, x.size)
    return {
        "ratio_to_numpy_add": result,
        "bar": 1.5,
        "recorder_bytes_an_instruction": run.trace.bytes_per_instruction,
        "recorder_bar": 64,
    }


def example_ratio(name: str, theirs: Callable[..., Any], bar: float) -> dict[str, float]:
    """A bundled example against the same work in NumPy."""
    file = next((EXAMPLES / name).glob("*.cpp"))
    kernel = next(iter(toprope.load(file).kernels.values()))
    described = launch.read(file.with_suffix(".toml"), kernel.name)
    values = launch.arguments(kernel, described)
    arrays = [v for v in values.values() if isinstance(v, np.ndarray)]
    launcher = kernel[described.blocks]
    return {"ratio_to_numpy": ratio(lambda: launcher(*values.values()), lambda: theirs(*arrays)), "bar": bar}


def softmax_ratio() -> dict[str, float]:
    """The softmax example on 1024 x 1024 floats against the same work in NumPy."""
    kernel = toprope.load(EXAMPLES / "03_softmax" / "softmax.cpp").softmax
    x = np.random.default_rng(0).normal(0, 3, (1024, 1024)).astype(np.float32)
    y = np.empty_like(x)
    result = ratio(lambda: kernel[8](x, y, *x.shape), lambda: softmax(x), 25, time.process_time)
    assert np.allclose(y, softmax(x), rtol=1e-5, atol=1e-7)
    return {"ratio_to_numpy": result, "bar": 2.0}


def softmax(x: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    shifted = np.exp(x - x.max(axis=-1, keepdims=True))
    return shifted / shifted.sum(axis=-1, keepdims=True)


def main() -> None:
    add = str(EXAMPLES / "01_add" / "add_custom.cpp")
    with tempfile.TemporaryDirectory() as scratch:
        result: dict[str, Any] = {
            "cold_compile_add": {"seconds": cold_compile_s(), "bar": 1.5},
            "cached_run_1m_elements": {"seconds": command_s("run", add), "bar": 0.6},
            "help": {"seconds": command_s("--help"), "bar": 0.2},
            "add_16m_fp32": add_ratio(Path(scratch)),
        }
    a, b = (np.random.default_rng(1).standard_normal((1024, 1024)).astype(np.float32) for _ in range(2))
    result["matmul_1024"] = example_ratio("07_matmul", lambda *_: a @ b, 3.0)
    if (EXAMPLES / "03_softmax").is_dir():
        result["softmax_1024"] = softmax_ratio()
    print(json.dumps(result, indent=1))


if __name__ == "__main__":
    main()
