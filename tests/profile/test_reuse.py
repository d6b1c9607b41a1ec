"""Advice about on-chip memory: buffers that are live in turns, and tiles that come back from GM."""

from __future__ import annotations

import numpy as np
import pytest

from tests.ascendc.harness import kernels
from toprope.kernel import Run
from toprope.profile import diagnose
from toprope.profile.reuse import read_back, shareable_buffers

SOURCE = """
template <bool together> __aicore__ inline void Turns(GM_ADDR x, GM_ADDR z, int32_t turns) {
    TPipe pipe;
    TBuf<TPosition::VECCALC> in, first, second;
    pipe.InitBuffer(in, 1024);
    pipe.InitBuffer(first, 2048);
    pipe.InitBuffer(second, 1024);
    LocalTensor<float> a = in.Get<float>(), f = first.Get<float>(), s = second.Get<float>();
    GlobalTensor<float> xg, zg;
    xg.SetGlobalBuffer((__gm__ float*)x);
    zg.SetGlobalBuffer((__gm__ float*)z);
    for (int32_t i = 0; i < turns; i++) {
        DataCopy(a, xg[i * 256], 256);
        PipeBarrier<PIPE_ALL>();
        Muls(f, a, 2.0f, 256);
        if (together) Muls(s, a, 3.0f, 256);
        Add(a, a, f, 256);
        if (!together) Muls(s, a, 3.0f, 256);
        Add(a, a, s, 256);
        PipeBarrier<PIPE_ALL>();
        DataCopy(zg[i * 256], a, 256);
        PipeBarrier<PIPE_ALL>();
    }
}
extern "C" __global__ __aicore__ void in_turns(GM_ADDR x, GM_ADDR z, int32_t n) { Turns<false>(x, z, n); }
extern "C" __global__ __aicore__ void together(GM_ADDR x, GM_ADDR z, int32_t n) { Turns<true>(x, z, n); }
extern "C" __global__ __aicore__ void there_and_back(GM_ADDR x, GM_ADDR z, int32_t n) {
    Turns<true>(x, z, n);
    Turns<true>(z, x, n);
}
"""


def run(name: str, turns: int = 4) -> Run:
    x = np.ones(256 * turns, np.float32)
    return kernels(SOURCE, "reuse")[name][1](x, np.zeros_like(x), turns)


def test_buffers_that_are_live_in_turns_could_be_one() -> None:
    (advice,) = shareable_buffers(run("in_turns").trace)
    assert advice.code == "advice-share-buffers" and advice.bytes_at_stake == 1024
    assert [p.text() for p in advice.places] == ["pipe.InitBuffer(first, 2048);", "pipe.InitBuffer(second, 1024);"]
    assert "one of 2048 bytes would do and free 1024 bytes of UB" in advice.message
    assert advice in diagnose(run("in_turns"))


def test_buffers_that_are_needed_together_could_not() -> None:
    assert shareable_buffers(run("together").trace) == []


def test_what_comes_back_from_gm_could_stay() -> None:
    once, twice = run("together"), run("there_and_back")
    assert read_back(once.trace)[1] == 0
    back, size = read_back(twice.trace)
    assert size == 4 * 1024 and back.sum() == 4
    told = [f for f in diagnose(twice) if f.code == "advice-keep-on-chip"]
    assert len(told) == 1 and told[0].cycles_at_stake > 0 and "bring back 4,096 bytes" in told[0].message
    assert told[0].places[0].text() == "DataCopy(a, xg[i * 256], 256);"


@pytest.mark.parametrize("turns", [1, 2])
def test_one_round_tells_as_much_as_two(turns: int) -> None:
    assert [f.bytes_at_stake for f in shareable_buffers(run("in_turns", turns).trace)] == [1024]
