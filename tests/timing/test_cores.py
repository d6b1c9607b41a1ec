"""Cube and vector cores of one launch: flags between them, and blocks that share an AI core."""

from __future__ import annotations

import numpy as np
import pytest

from tests.ascendc.harness import kernels
from toprope.kernel import Run

pytestmark = pytest.mark.compiler

TEXT = """
// The cube core loads twice and tells its vector cores; they work and tell it; it loads once more.
extern "C" __global__ __aicore__ void hand_over(GM_ADDR x) {
    KERNEL_TASK_TYPE_DEFAULT(KERNEL_TYPE_MIX_AIC_1_2);
    GlobalTensor<half> gm;
    gm.SetGlobalBuffer((__gm__ half*)x);
    if ASCEND_IS_AIC {
        const LocalTensor<half> l1(TPosition::A1, 0, 8192);
        DataCopy(l1, gm, 8192);
        DataCopy(l1, gm[8192], 8192);
        CrossCoreSetFlag<2, PIPE_MTE2>(3);
        CrossCoreWaitFlag(4);
        DataCopy(l1, gm, 16);
    } else {
        const LocalTensor<half> ub(TPosition::VECIN, 0, 16384);
        CrossCoreWaitFlag(3);
        Duplicate(ub, (half)1, GetSubBlockIdx() == 0 ? 128 : 16384);
        CrossCoreSetFlag<2, PIPE_V>(4);
    }
}
"""


@pytest.fixture(scope="module")
def run() -> Run:
    return kernels(TEXT, "timing_cores").hand_over[2](np.zeros(2 * 8192, np.float16))


def at(run: Run, op: str, block: int, kind: str) -> tuple[float, float]:
    """First start and last end of an operation on the cores of one type of a block."""
    t, found = run.timeline, []
    for c, core in enumerate(run.trace.cores):
        begin, end = run.trace.core_begin[c : c + 2]
        if core.block == block and core.type == kind:
            found += [i for i in range(begin, end) if run.trace.ops[run.trace.instrs["op"][i]].name == op]
    return float(t.start[found].min()), float(t.end[found].max())


@pytest.mark.parametrize("block", [0, 1])
def test_vector_cores_wait_for_the_cube_core_and_it_for_both_of_them(run: Run, block: int) -> None:
    t = run.timeline
    assert t.released_waits == 0 and len(run.trace.cores) == 6
    first_work, last_work = at(run, "Duplicate", block, "aiv")
    copies = at(run, "DataCopy", block, "aic")
    told = at(run, "CrossCoreSetFlag", block, "aic")[1]
    latency = run.soc.number("flags.cross_core_cycles")
    assert first_work >= told + latency
    assert copies[1] >= last_work + latency, "the third load waits for the slower vector core"


def test_pipe_times_can_be_asked_for_one_core_type(run: Run) -> None:
    t = run.timeline
    assert t.pipe_us("MTE2", "aic") > 0 and t.pipe_us("MTE2", "aiv") == 0
    assert t.pipe_us("V") == t.pipe_us("V", "aiv") > 0
    assert 0 < t.busy("V", "aiv") < 1
