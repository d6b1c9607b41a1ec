"""Synchronisation between cores: every mode of the flags, SyncAll in hardware and through GM, ordered blocks, and deadlocks that say why."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tests.ascendc.harness import GM, kernels
from toprope.errors import CompileFailed
from toprope.kernel import Run

VECTOR = (
    GM
    + r"""
// Every core writes its number, waits for all, and sums what all have written.
template <typename Wait> void exchange(GM_ADDR work, GM_ADDR out, Wait wait) {
    auto w = gm<int32_t>(work), o = gm<int32_t>(out);
    const int32_t me = GetBlockIdx(), all = GetBlockNum() * GetTaskRation();
    for (int32_t round = 1; round <= 3; ++round) {
        w.SetValue(me * 16, (me + 1) * round);
        wait();
        int32_t sum = 0;
        for (int32_t i = 0; i < all; ++i) sum += w.GetValue(i * 16);
        o.SetValue(me * 4 + round - 1, sum);
        wait();
    }
}
extern "C" __global__ __aicore__ void hard(GM_ADDR work, GM_ADDR out) {
    exchange(work, out, [] { SyncAll(); });
}
extern "C" __global__ __aicore__ void flags(GM_ADDR work, GM_ADDR out) {
    exchange(work, out, [] {
        CrossCoreSetFlag<0, PIPE_MTE3>(3);
        CrossCoreWaitFlag(3);
    });
}
extern "C" __global__ __aicore__ void soft(GM_ADDR work, GM_ADDR out, GM_ADDR sync) {
    TPipe pipe;
    TBuf<> buffer;
    pipe.InitBuffer(buffer, 2048);
    auto ub = buffer.Get<int32_t>();
    exchange(work, out, [&] { SyncAll(gm<int32_t>(sync), ub); });
}
extern "C" __global__ __aicore__ void soft_some(GM_ADDR out, GM_ADDR sync, int32_t used) {
    LocalTensor<int32_t> ub(TPosition::VECCALC, 0, 512);
    if (GetBlockIdx() >= used) return;
    SyncAll(gm<int32_t>(sync), ub, used);
    gm<int32_t>(out).SetValue(GetBlockIdx(), 1);
}
extern "C" __global__ __aicore__ void chain(GM_ADDR out, GM_ADDR sync) {
    LocalTensor<int32_t> ub(TPosition::VECCALC, 0, 8);
    auto o = gm<int32_t>(out), s = gm<int32_t>(sync);
    const int32_t me = GetBlockIdx(), last = GetBlockNum() - 1;
    // The chain runs from the last core to the first, against the order in which cores are started.
    if (me != last) IBWait(s, ub, me + 1, 0);
    o.SetValue(me, me == last ? 1 : o.GetValue(me + 1) * 2);
    if (me != 0) IBSet(s, ub, me, 0);
}
extern "C" __global__ __aicore__ void ordered(GM_ADDR out, GM_ADDR sync) {
    LocalTensor<int32_t> ub(TPosition::VECCALC, 0, 512);
    auto o = gm<int32_t>(out), s = gm<int32_t>(sync);
    InitDetermineComputeWorkspace(s, ub);
    for (int32_t i = 0; i < 3; ++i) {
        WaitPreBlock(s, ub);
        const int32_t at = o.GetValue(0) + 1;
        o.SetValue(0, at);
        o.SetValue(at, GetBlockIdx());
        NotifyNextBlock(s, ub);
    }
}
extern "C" __global__ __aicore__ void one_missing(GM_ADDR out) {
    if (GetBlockIdx() == 2) return;
    SyncAll();
}
extern "C" __global__ __aicore__ void never_set(GM_ADDR out) { CrossCoreWaitFlag(5); }
extern "C" __global__ __aicore__ void wrong_id(GM_ADDR out) {
    CrossCoreSetFlag<0, PIPE_MTE3>(17);
    CrossCoreWaitFlag(1);
}
extern "C" __global__ __aicore__ void wrong_pipe(GM_ADDR out) {
    CrossCoreSetFlag<0, PIPE_S>(1);
    CrossCoreWaitFlag(1);
}
extern "C" __global__ __aicore__ void polls(GM_ADDR out) {
    auto o = gm<int32_t>(out);
    if (GetBlockIdx() == 1) {
        WriteGmByPassDCache<int32_t>((__gm__ int32_t*)out, 7);
        return;
    }
    while (ReadGmByPassDCache<int32_t>((__gm__ int32_t*)out) != 7) {}
    o.SetValue(16, 1);
}
"""
)

MIXED = (
    GM
    + r"""
#define SLOT(core) ((core) * 16)
extern "C" __global__ __aicore__ void modes(GM_ADDR out) {
    KERNEL_TASK_TYPE_DEFAULT(KERNEL_TYPE_MIX_AIC_1_2);
    auto o = gm<int32_t>(out);
    const int32_t block = GetBlockNum() == 0 ? 0 : (g_coreType == AscendC::AIC ? GetBlockIdx() : GetBlockIdx() / GetTaskRation());
    if ASCEND_IS_AIC {
        o.SetValue(SLOT(block * 3), 100 + block);
        CrossCoreSetFlag<2, PIPE_FIX>(1);   // AIC to both AIVs
        CrossCoreWaitFlag(2);               // both AIVs to the AIC
        o.SetValue(SLOT(block * 3) + 1, o.GetValue(SLOT(block * 3 + 1)) + o.GetValue(SLOT(block * 3 + 2)));
    }
    if ASCEND_IS_AIV {
        const int32_t mine = block * 3 + 1 + GetSubBlockIdx();
        CrossCoreWaitFlag(1);
        o.SetValue(SLOT(mine), o.GetValue(SLOT(block * 3)) * 2);
        CrossCoreSetFlag<1, PIPE_MTE3>(4);  // the two AIVs with each other
        CrossCoreWaitFlag(4);
        const int32_t other = block * 3 + 2 - GetSubBlockIdx();
        o.SetValue(SLOT(mine) + 1, o.GetValue(SLOT(other)));
        CrossCoreSetFlag<2, PIPE_MTE3>(2);
    }
}
extern "C" __global__ __aicore__ void everybody(GM_ADDR out) {
    KERNEL_TASK_TYPE_DEFAULT(KERNEL_TYPE_MIX_AIC_1_2);
    auto o = gm<int32_t>(out);
    const int32_t mine = g_coreType == AscendC::AIC ? GetBlockIdx() : GetBlockNum() + GetBlockIdx();
    o.SetValue(SLOT(mine), mine + 1);
    SyncAll<false>();
    int32_t sum = 0;
    for (int32_t i = 0; i < GetBlockNum() * 3; ++i) sum += o.GetValue(SLOT(i));
    o.SetValue(SLOT(mine) + 1, sum);
}
extern "C" __global__ __aicore__ void first_block_only(GM_ADDR out, int32_t mode) {
    KERNEL_TASK_TYPE_DEFAULT(KERNEL_TYPE_MIX_AIC_1_2);
    auto o = gm<int32_t>(out);
    const bool first = (g_coreType == AscendC::AIC ? GetBlockIdx() : GetBlockIdx() / 2) == 0;
    if ASCEND_IS_AIC {
        if (mode == 2 && first) CrossCoreSetFlag<2, PIPE_FIX>(1);
    }
    if ASCEND_IS_AIV {
        if (mode == 1 && (first || GetSubBlockIdx() == 0)) CrossCoreSetFlag<1, PIPE_MTE3>(1);
        CrossCoreWaitFlag(1);
        o.SetValue(SLOT(GetBlockIdx()), 1);
    }
}
extern "C" __global__ __aicore__ void half_set(GM_ADDR out) {
    KERNEL_TASK_TYPE_DEFAULT(KERNEL_TYPE_MIX_AIC_1_2);
    if ASCEND_IS_AIC { CrossCoreWaitFlag(6); }
    if ASCEND_IS_AIV {
        if (GetSubBlockIdx() == 0) CrossCoreSetFlag<2, PIPE_MTE3>(6);
    }
}
"""
)


def vector() -> Any:
    return kernels(VECTOR, "cross_core")


def mixed() -> Any:
    return kernels(MIXED, "cross_core_mixed")


def codes(run: Run) -> list[str]:
    return [r.code for r in run.trace.reports]


def sums(cores: int) -> np.ndarray:
    """What every core of `exchange` must read in its three rounds."""
    return np.array([cores * (cores + 1) // 2 * r for r in (1, 2, 3)], np.int32)


ORACLES: dict[str, Callable[..., Any]] = {
    name: sums
    for name in (
        "SyncAll", "CrossCoreSetFlag", "CrossCoreWaitFlag", "IBSet", "IBWait",
        "InitDetermineComputeWorkspace", "WaitPreBlock", "NotifyNextBlock", "ReadGmByPassDCache", "WriteGmByPassDCache",
    )
}  # fmt: skip


@pytest.mark.parametrize("blocks", [1, 2, 7, 48])
@pytest.mark.parametrize("entry", ["hard", "flags", "soft"])
def test_all_cores_wait_for_all(entry: str, blocks: int) -> None:
    work, out = np.zeros(blocks * 16, np.int32), np.zeros(blocks * 4, np.int32)
    extra = [np.zeros(blocks * 8, np.int32)] if entry == "soft" else []
    run = vector()[entry][blocks](work, out, *extra)
    assert not codes(run)
    np.testing.assert_array_equal(out.reshape(blocks, 4)[:, :3], np.tile(sums(blocks), (blocks, 1)))


def test_hardware_sync_leaves_its_flags_in_the_trace() -> None:
    run = vector().hard[3](np.zeros(48, np.int32), np.zeros(12, np.int32))
    flags = [
        (run.trace.ops[i["op"]].kind, int(i["work"]))
        for i in run.trace.instrs
        if run.trace.ops[i["op"]].kind.startswith("cross")
    ]
    assert set(flags) == {("cross_set", 14), ("cross_wait", 14)} and len(flags) == 3 * 6 * 2


def test_some_cores_sync_among_themselves() -> None:
    out = np.zeros(6, np.int32)
    run = vector().soft_some[6](out, np.zeros(48, np.int32), 4)
    assert not codes(run) and out.tolist() == [1, 1, 1, 1, 0, 0]
    assert codes(vector().soft_some[6](out, np.zeros(56, np.int32), 7))[0] == "too-many-cores"


def test_a_dirty_workspace_is_reported_and_a_short_one_is_not_overrun() -> None:
    work, out = np.zeros(32, np.int32), np.zeros(8, np.int32)
    dirty = np.zeros(16, np.int32)
    dirty[8] = 3
    assert "sync-workspace-not-zero" in codes(vector().soft[2](work, out, dirty))
    assert codes(vector().soft[2](work, out, np.zeros(15, np.int32)))[0] == "gm-out-of-bounds"


def test_marks_order_cores_against_their_start_order() -> None:
    out = np.zeros(5, np.int32)
    run = vector().chain[5](out, np.zeros(5 * 8, np.int32))
    assert not codes(run) and out.tolist() == [16, 8, 4, 2, 1]


def test_ordered_blocks_take_turns_whatever_the_workspace_held() -> None:
    out = np.zeros(16, np.int32)
    run = vector().ordered[4](out, np.full(32, 77, np.int32))
    assert not codes(run) and out[1:13].tolist() == [0, 1, 2, 3] * 3


def test_polling_lets_the_other_core_run() -> None:
    out = np.zeros(32, np.int32)
    vector().polls[2](out, time_limit_s=20)
    assert out[16] == 1


def test_deadlocks_say_who_is_missing() -> None:
    reports = [r for r in vector().one_missing[4](np.zeros(8, np.int32)).trace.reports if r.code == "deadlock"]
    assert reports and "flag 14" in reports[0].text and "not by AIV 2" in reports[0].text
    (report,) = vector().never_set[1](np.zeros(8, np.int32)).trace.reports
    assert (
        report.code == "deadlock"
        and "flag 5" in report.text
        and "no core that could release it has set it" in report.text
    )
    (report,) = mixed().half_set[1](np.zeros(8, np.int32)).trace.reports
    assert report.code == "deadlock" and "on AIC 0" in report.text and "not by AIV 1" in report.text


@pytest.mark.parametrize("mode", [1, 2])
def test_flags_of_one_ai_core_release_nobody_in_another(mode: int) -> None:
    out = np.zeros(4 * 16, np.int32)
    (report,) = mixed().first_block_only[2](out, mode).trace.reports
    assert report.code == "deadlock" and "on AIV 2" in report.text and report.count == 2
    assert out.reshape(4, 16)[:, 0].tolist() == [1, 1, 0, 0]


def test_wrong_flags_are_reported() -> None:
    assert codes(vector().wrong_id[1](np.zeros(8, np.int32))) == ["cross-flag-id-out-of-range"]
    assert codes(vector().wrong_pipe[1](np.zeros(8, np.int32))) == ["cross-flag-pipe"]


@pytest.mark.parametrize("blocks", [1, 3])
def test_modes_1_and_2_of_a_mixed_kernel(blocks: int) -> None:
    out = np.zeros(blocks * 3 * 16, np.int32)
    run = mixed().modes[blocks](out)
    assert not codes(run)
    cells = out.reshape(blocks, 3, 16)
    for b in range(blocks):
        assert cells[b, 0, :2].tolist() == [100 + b, 4 * (100 + b)]
        assert cells[b, 1, :2].tolist() == cells[b, 2, :2].tolist() == [2 * (100 + b)] * 2


def test_sync_all_of_a_mixed_kernel() -> None:
    blocks = 3
    out = np.zeros(blocks * 3 * 16, np.int32)
    run = mixed().everybody[blocks](out)
    assert not codes(run)
    assert out.reshape(-1, 16)[:, 1].tolist() == [45] * 9


def test_modes_of_other_chips_do_not_compile() -> None:
    file = kernels('extern "C" __global__ __aicore__ void k(GM_ADDR x) { CrossCoreSetFlag<4, PIPE_MTE3>(0); }')
    with pytest.raises(CompileFailed, match="this chip has modes 0, 1 and 2"):
        file.k[1](np.zeros(8, np.int32))
