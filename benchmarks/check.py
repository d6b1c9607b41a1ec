"""How long does check() take on a trace of about a million instructions, and how much memory, against recording that trace?

Three shapes of trace: queues (the tutorial Add, small tiles, 8 cores), strided (vector operands with gaps, one core) and scalar
(GetValue/SetValue loops, one core). Writes one JSON object; times are CPU times, ratios are taken within one run. `slowdown` is a run with
every check against one that only records: the checks while running are in both, the replay with its byte-exact shadow in the first.
"""

from __future__ import annotations

import argparse
import json
import resource
import tempfile
import time
from pathlib import Path

import numpy as np

import toprope

SOURCE = """
#include "kernel_operator.h"
using namespace AscendC;

extern "C" __global__ __aicore__ void queues(GM_ADDR x, GM_ADDR z, int32_t tiles) {
    TPipe pipe;
    TQue<TPosition::VECIN, 2> in;
    TQue<TPosition::VECOUT, 2> out;
    pipe.InitBuffer(in, 2, 256);
    pipe.InitBuffer(out, 2, 256);
    GlobalTensor<float> xg, zg;
    xg.SetGlobalBuffer((__gm__ float*)x + GetBlockIdx() * tiles * 64);
    zg.SetGlobalBuffer((__gm__ float*)z + GetBlockIdx() * tiles * 64);
    for (int32_t i = 0; i < tiles; i++) {
        LocalTensor<float> a = in.AllocTensor<float>();
        DataCopy(a, xg[i * 64], 64);
        in.EnQue(a);
        a = in.DeQue<float>();
        LocalTensor<float> b = out.AllocTensor<float>();
        Add(b, a, a, 64);
        for (int32_t k = 0; k < 8; k++) Add(b, b, a, 64);
        out.EnQue(b);
        in.FreeTensor(a);
        b = out.DeQue<float>();
        DataCopy(zg[i * 64], b, 64);
        out.FreeTensor(b);
    }
}

extern "C" __global__ __aicore__ void strided(GM_ADDR x, GM_ADDR z, int32_t tiles) {
    TPipe pipe;
    TBuf<TPosition::VECCALC> buf;
    pipe.InitBuffer(buf, 128 * 1024);
    LocalTensor<float> a = buf.Get<float>();
    GlobalTensor<float> xg, zg;
    xg.SetGlobalBuffer((__gm__ float*)x);
    zg.SetGlobalBuffer((__gm__ float*)z);
    DataCopy(a, xg, 32 * 1024);
    SetFlag<HardEvent::MTE2_V>(0);
    WaitFlag<HardEvent::MTE2_V>(0);
    for (int32_t i = 0; i < tiles; i++) Add(a[16384 + i % 4 * 64], a[i % 8 * 32], a, 32, 32, {1, 1, 1, 16, 16, 16});
    SetFlag<HardEvent::V_MTE3>(0);
    WaitFlag<HardEvent::V_MTE3>(0);
    DataCopy(zg, a, 32 * 1024);
}

extern "C" __global__ __aicore__ void scalar(GM_ADDR x, GM_ADDR z, int32_t tiles) {
    TPipe pipe;
    TBuf<TPosition::VECCALC> buf;
    pipe.InitBuffer(buf, 4096);
    LocalTensor<float> a = buf.Get<float>();
    for (int32_t i = 0; i < 1024; i++) a.SetValue(i, 0.0f);
    for (int32_t i = 0; i < tiles; i++) {
        a.SetValue(i % 1024, a.GetValue((i + 1) % 1024));
        if (i % 64 == 0) Add(a, a, a, 1024);
    }
    GlobalTensor<float> zg;
    zg.SetGlobalBuffer((__gm__ float*)z);
    DataCopy(zg, a, 1024);
}
"""


def peak_mib() -> float:
    """Largest resident size of this process so far."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--instructions", type=int, default=1_000_000)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "bench_check.cpp"
        file.write_text(SOURCE)
        kernels = toprope.load(file)
        small = np.zeros(64 * 1024, np.float32)
        _ = kernels.queues[1](small, small.copy(), 1).findings  # compile everything first
        rows = {}
        for name, blocks, per_tile in (("queues", 8, 27), ("strided", 1, 1), ("scalar", 1, 2.02)):
            tiles = int(arguments.instructions / blocks / per_tile)
            x = np.zeros(max(64 * tiles * blocks if name == "queues" else 0, 64 * 1024), np.float32)
            start = time.process_time()
            run = kernels[name][blocks](x, x.copy(), tiles)
            recorded = time.process_time()
            before = peak_mib()
            findings = run.findings
            checked = time.process_time()
            rows[name] = {
                "instructions": len(run.trace.instrs),
                "findings": len(findings),
                "run_s": round(recorded - start, 3),
                "check_s": round(checked - recorded, 3),
                "slowdown": round((checked - start) / (recorded - start), 2),
                "trace_mib": round((run.trace.instrs.nbytes + run.trace.accesses.nbytes) / 2**20, 1),
                "peak_growth_mib": round(peak_mib() - before, 1),
            }
    print(json.dumps(rows, indent=2))


if __name__ == "__main__":
    main()
