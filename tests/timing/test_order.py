"""The timeline waits for what the vendor's compiler orders, as long as for the same events written by hand."""

from __future__ import annotations

import numpy as np
import pytest

import toprope
from toprope.order import inserted
from toprope.timing import predict
from toprope.trace import PIPES

SOURCE = """#include "kernel_operator.h"
using namespace AscendC;
#define EVENT(e) if (flagged) { SetFlag<HardEvent::e>(1); WaitFlag<HardEvent::e>(1); }
template <bool flagged, typename F> __aicore__ inline void body(GM_ADDR x, GM_ADDR y, F work) {
    TPipe pipe; TBuf<TPosition::VECCALC> b; pipe.InitBuffer(b, 65536);
    GlobalTensor<float> xg, yg; xg.SetGlobalBuffer((__gm__ float*)x, 8192); yg.SetGlobalBuffer((__gm__ float*)y, 8192);
    LocalTensor<float> a = b.Get<float>(), r = a[8192];
    DataCopy(a, xg, 8192);
    SetFlag<HardEvent::MTE2_V>(0); WaitFlag<HardEvent::MTE2_V>(0);
    SetFlag<HardEvent::MTE2_S>(0); WaitFlag<HardEvent::MTE2_S>(0);
    for (int i = 0; i < 4; ++i) work(a, r, xg, yg, i);
    PipeBarrier<PIPE_ALL>();
    DataCopy(yg, a, 8);
}
template <bool chained> __aicore__ inline void additions(GM_ADDR x, GM_ADDR y) {
    TPipe pipe; TBuf<TPosition::VECCALC> b; pipe.InitBuffer(b, 65536);
    GlobalTensor<float> xg, yg; xg.SetGlobalBuffer((__gm__ float*)x, 8192); yg.SetGlobalBuffer((__gm__ float*)y, 8192);
    LocalTensor<float> a = b.Get<float>();
    DataCopy(a, xg, 8192);
    SetFlag<HardEvent::MTE2_V>(0); WaitFlag<HardEvent::MTE2_V>(0);
    for (int i = 0; i < 32; ++i) Adds(a[chained ? 0 : i * 64], a[chained ? 0 : i * 64], 1.0f, 64);
    SetFlag<HardEvent::V_MTE3>(0); WaitFlag<HardEvent::V_MTE3>(0);
    DataCopy(yg, a, 8192);
}
extern "C" __global__ __aicore__ void chain(GM_ADDR x, GM_ADDR y) { additions<true>(x, y); }
extern "C" __global__ __aicore__ void apart(GM_ADDR x, GM_ADDR y) { additions<false>(x, y); }
"""
PAIRS = {  # two instructions in turn, each behind the event that it needs; the first turn needs only one
    "v_s": ("Muls(a, a, 1.0f, 8192);", "(void)a.GetValue(i);"),
    "v_s_twice": ("Muls(a, a, 1.0f, 8192);", "a.SetValue(i, a.GetValue(i));"),
    "mte2_s": ("DataCopy(a, xg, 8192);", "(void)a.GetValue(i);"),
    "mte3_s": ("DataCopy(yg, a, 8192);", "a.SetValue(i, 1.0f);"),
    "mte2_s_gm": ("DataCopy(a, yg, 8192);", "yg.SetValue(i, 1.0f);"),
}
ENTRY = """
template <bool flagged> __aicore__ inline void NAME_body(GM_ADDR x, GM_ADDR y) {
    body<flagged>(x, y, [](LocalTensor<float>& a, LocalTensor<float>& r, GlobalTensor<float>& xg, GlobalTensor<float>& yg, int i) { WORK });
}
extern "C" __global__ __aicore__ void NAME_by_hand(GM_ADDR x, GM_ADDR y) { NAME_body<true>(x, y); }
extern "C" __global__ __aicore__ void NAME_by_compiler(GM_ADDR x, GM_ADDR y) { NAME_body<false>(x, y); }
"""


TEXTS = {
    name: f"if (i) {{ EVENT({'_'.join(reversed(name.upper().split('_')[:2]))}) }} {one} EVENT({'_'.join(name.upper().split('_')[:2])}) {two}"
    for name, (one, two) in PAIRS.items()
}


@pytest.fixture(scope="module")
def kernels(tmp_path_factory: pytest.TempPathFactory) -> toprope.kernel.KernelFile:
    file = tmp_path_factory.mktemp("order") / "pairs.cpp"
    file.write_text(SOURCE + "".join(ENTRY.replace("NAME", name).replace("WORK", work) for name, work in TEXTS.items()))
    return toprope.load(file)


@pytest.mark.parametrize("pair", PAIRS)
def test_an_event_takes_as_long_inserted_as_written(kernels: toprope.kernel.KernelFile, pair: str) -> None:
    def run(name: str) -> toprope.Run:
        return kernels[f"{pair}_{name}"][1](np.ones(8192, np.float32), np.zeros(8192, np.float32))

    hand, compiler = run("by_hand"), run("by_compiler")
    first, second = pair.upper().split("_")[:2]
    made = inserted(compiler.trace)
    across = [(PIPES[f], PIPES[t]) for f, t in zip(made["from"], made["to"], strict=True) if f != t]
    assert across == [(first, second), *[(second, first), (first, second)] * 3]
    written = inserted(hand.trace)
    assert not np.any(written["from"] != written["to"])
    assert compiler.timeline.cycles == pytest.approx(hand.timeline.cycles, abs=1e-6)
    assert predict(compiler.trace, compiler.soc, sync="manual").cycles < compiler.timeline.cycles


def test_a_value_is_read_after_the_vector_instruction_that_makes_it(kernels: toprope.kernel.KernelFile) -> None:
    run = kernels["v_s_by_compiler"][1](np.ones(8192, np.float32), np.zeros(8192, np.float32))
    names = [run.trace.ops[op].name for op in run.trace.instrs["op"]]
    pairs = [(i, names.index("LocalTensor.GetValue", i)) for i, name in enumerate(names) if name == "Muls"]
    assert pairs and all(run.timeline.start[read] >= run.timeline.end[made] for made, read in pairs)
    assert all(run.timeline.blocker[read] == made for made, read in pairs)


def test_a_vector_instruction_waits_for_the_one_it_needs(kernels: toprope.kernel.KernelFile) -> None:
    """Two additions in one place and two beside each other: the compiler puts a barrier between the first two."""
    chain, apart = (
        kernels[name][1](np.ones(8192, np.float32), np.zeros(8192, np.float32)) for name in ("chain", "apart")
    )
    assert [len(inserted(run.trace)) for run in (chain, apart)] == [31, 0]
    assert chain.timeline.cycles > apart.timeline.cycles + 31 * 10
    assert predict(chain.trace, chain.soc, sync="manual").cycles == pytest.approx(apart.timeline.cycles)
