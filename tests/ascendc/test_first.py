"""The shortest way through the whole machine."""

from __future__ import annotations

import numpy as np

from tests.ascendc.harness import kernels

ADD = """
extern "C" __global__ __aicore__ void add(GM_ADDR x, GM_ADDR y, GM_ADDR z, int32_t n) {
    TPipe pipe;
    TBuf<TPosition::VECCALC> buf;
    pipe.InitBuffer(buf, 3 * 1024);
    auto a = buf.GetWithOffset<float>(256, 0), b = buf.GetWithOffset<float>(256, 1024), c = buf.GetWithOffset<float>(256, 2048);
    GlobalTensor<float> xg, yg, zg;
    xg.SetGlobalBuffer((__gm__ float*)x); yg.SetGlobalBuffer((__gm__ float*)y); zg.SetGlobalBuffer((__gm__ float*)z);
    DataCopy(a, xg, n);
    DataCopy(b, yg, n);
    SetFlag<HardEvent::MTE2_V>(0);
    WaitFlag<HardEvent::MTE2_V>(0);
    Add(c, a, b, n);
    SetFlag<HardEvent::V_MTE3>(0);
    WaitFlag<HardEvent::V_MTE3>(0);
    DataCopy(zg, c, n);
}
"""


def test_a_kernel_runs_and_leaves_a_trace() -> None:
    rng = np.random.default_rng(0)
    x, y = rng.standard_normal((2, 256), dtype=np.float32)
    z = np.zeros_like(x)
    run = kernels(ADD).add[1](x, y, z, 256)
    np.testing.assert_array_equal(z, x + y)
    assert [
        run.trace.ops[i["op"]].name for i in run.trace.instrs if run.trace.ops[i["op"]].kind in ("copy", "compute")
    ] == ["DataCopy", "DataCopy", "Add", "DataCopy"]
    assert list(run.outputs) == ["z"]
