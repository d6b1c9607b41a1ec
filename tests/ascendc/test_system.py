"""Where a core is, what it may print, how it stops, and the caches."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tests.ascendc.harness import GM, kernels
from toprope.errors import CompileFailed

MIXED = (
    GM
    + r"""
extern "C" __global__ __aicore__ void where(GM_ADDR out) {
    KERNEL_TASK_TYPE_DEFAULT(KERNEL_TYPE_MIX_AIC_1_2);
    auto o = gm<int64_t>(out);
    const int64_t row = g_coreType == AscendC::AIC ? GetBlockIdx() : GetBlockNum() + GetBlockIdx();
    const int64_t values[] = {GetBlockIdx(), GetBlockNum(), GetSubBlockIdx(), GetSubBlockNum(), GetTaskRation(), g_coreType, get_block_idx(), GetSysWorkSpacePtr() != nullptr};
    for (int i = 0; i < 8; ++i) o.SetValue(row * 8 + i, values[i]);
}
"""
)

VECTOR = (
    GM
    + r"""
extern "C" __global__ __aicore__ void sizes(GM_ADDR out, GM_ADDR workspace) {
    auto o = gm<int64_t>(out);
    uint32_t version = 0;
    GetArchVersion(version);
    SetSysWorkspace(workspace);
    const int64_t values[] = {GetUBSizeInBytes(), GetRuntimeUBSize(), GetDataBlockSizeInBytes(), GetVecLen(), version, GetTaskRatio(),
                              GetUserWorkspace(workspace) == workspace, GetSysWorkSpacePtr() == workspace};
    for (int i = 0; i < 8; ++i) o.SetValue(i, values[i]);
}
extern "C" __global__ __aicore__ void counters(GM_ADDR out) {
    auto o = gm<int64_t>(out);
    const int64_t a = GetSystemCycle();
    Nop();
    const int64_t b = GetSystemCycle(), c = GetProgramCounter();
    o.SetValue(0, a); o.SetValue(1, b); o.SetValue(2, c);
}
extern "C" __global__ __aicore__ void prints(GM_ADDR x) {
    AscendC::printf("plain 100%%\n");
    AscendC::printf("%d %s %.2f %u\n", -3, "word", half(1.5), static_cast<uint32_t>(7));
    LocalTensor<half> t(TPosition::VECCALC, 0, 16);
    DataCopy(t, gm<half>(x), 16);
    PipeBarrier<PIPE_ALL>();
    DumpTensor(t, 5, 4);
    uint32_t shape[] = {2, 3};
    DumpTensor(gm<half>(x), 6, 6, ShapeInfo(2, shape));
    DumpAccChkPoint(gm<half>(x), 7, 8, 2);
    PRINTF("end %d\n", static_cast<int>(GetBlockIdx()));
}
extern "C" __global__ __aicore__ void asserts(GM_ADDR out, int32_t n) {
    assert(n < 10, "n is %d", n);
    ascendc_assert(n != 5);
    gm<int32_t>(out).SetValue(0, 1);
}
extern "C" __global__ __aicore__ void traps(GM_ADDR out) {
    if (GetBlockIdx() == 1) Trap();
    gm<int32_t>(out).SetValue(GetBlockIdx() * 16, 1);
}
extern "C" __global__ __aicore__ void caches(GM_ADDR out) {
    auto o = gm<uint64_t>(out);
    o.SetValue(9, 4);
    DataCacheCleanAndInvalid<uint64_t, CacheLine::SINGLE_CACHE_LINE, DcciDst::CACHELINE_OUT>(o[9]);
    DataCacheCleanAndInvalid<uint64_t, CacheLine::ENTIRE_DATA_CACHE>(o);
    DataCachePreload(o, static_cast<int64_t>(64));
    ICachePreLoad(2);
    ICachePreLoad(8);
    if (GetICachePreloadStatus() == 0) o.SetValue(1, 1);
    DataSyncBarrier<MemDsbT::DDR>();
    WaitPreTaskEnd();
    SetNextTaskStart();
}
extern "C" __global__ __aicore__ void queue_sync(GM_ADDR x) {
    TQueSync<PIPE_MTE2, PIPE_V> sync;
    sync.SetFlag(0);
    sync.WaitFlag(0);
    set_flag(PIPE_V, PIPE_MTE3, EVENT_ID1);
    wait_flag(PIPE_V, PIPE_MTE3, EVENT_ID1);
    pipe_barrier(PIPE_ALL);
}
extern "C" __global__ __aicore__ void fills(GM_ADDR a, GM_ADDR b, GM_ADDR c, int32_t n) {
    TPipe pipe;
    TBuf<> most;
    pipe.InitBuffer(most, 190 * 1024);  // leaves 2 KiB: several pieces
    auto ag = gm<float>(a);
    auto cg = gm<int64_t>(c);
    InitGlobalMemory(ag, n, 1.5f);
    InitOutput<int8_t>(gm<int8_t>(b), n, -3);
    InitGlobalMemory(cg, n, int64_t(0));
}
extern "C" __global__ __aicore__ void fills_wrong(GM_ADDR c) {
    TPipe pipe;
    auto cg = gm<int64_t>(c);
    InitGlobalMemory(cg, 4, int64_t(1));
}
extern "C" __global__ __aicore__ void initial(GM_ADDR x) {
    SetAtomicAdd<half>();
    SetPadValue(half(3));
    InitSocState();
    LocalTensor<half> t(TPosition::VECCALC, 0, 16);
    DataCopy(t, gm<half>(x), 16);
    PipeBarrier<PIPE_ALL>();
    DataCopy(gm<half>(x), t, 16);
}
"""
)


def vector() -> Any:
    return kernels(VECTOR, "system")


def place(block: int, sub: int, ratio: int) -> int:
    """GetBlockIdx of a vector core."""
    return block * ratio + sub


def unchanged(state: Any) -> Any:
    """What a call that only reports, prints or marks does to memory: nothing."""
    return state


ORACLES: dict[str, Callable[..., Any]] = {
    **dict.fromkeys(("GetBlockIdx", "GetBlockNum", "GetSubBlockIdx", "GetSubBlockNum", "GetTaskRation", "GetTaskRatio"), place),
    **dict.fromkeys(("InitGlobalMemory", "InitOutput"), np.full),
    **dict.fromkeys(("printf", "PRINTF", "DumpTensor", "DumpAccChkPoint", "PrintTimeStamp", "Trap", "assert", "ascendc_assert"), unchanged),
    **dict.fromkeys(("DataCacheCleanAndInvalid", "DataCachePreload", "ICachePreLoad", "PRELOAD", "GetICachePreloadStatus"), unchanged),
    **dict.fromkeys(("SetFlag", "WaitFlag", "PipeBarrier", "DataSyncBarrier", "TQueSync", "SetNextTaskStart", "WaitPreTaskEnd", "Nop"), unchanged),
    **dict.fromkeys(("GetArchVersion", "GetDataBlockSizeInBytes", "GetVecLen", "GetUBSizeInBytes", "GetRuntimeUBSize"), int),
    **dict.fromkeys(("GetProgramCounter", "GetSystemCycle", "InitSocState", "IsSameType"), unchanged),
    **dict.fromkeys(("GetUserWorkspace", "SetSysWorkspace", "SetSysWorkspaceForce", "GetSysWorkSpacePtr", "GetSysWorkSpaceSize"), unchanged),
}  # fmt: skip


def test_every_core_of_a_mixed_kernel_knows_its_place() -> None:
    blocks = 3
    out = np.zeros((blocks * 3, 8), np.int64)
    kernels(MIXED, "system_mixed").where[blocks](out)
    cubes = [[b, blocks, 0, 1, 1, 1, b, 1] for b in range(blocks)]
    vectors = [[place(b, s, 2), blocks, s, 2, 2, 2, b, 1] for b in range(blocks) for s in range(2)]
    assert out.tolist() == cubes + vectors


def test_sizes_and_workspace() -> None:
    out = np.zeros(8, np.int64)
    vector().sizes[1](out, np.zeros(8, np.uint8))
    assert out.tolist() == [196608, 196608, 32, 256, 0x2201, 1, 1, 1]


def test_counters_go_up_and_are_the_same_in_every_run() -> None:
    first, second = np.zeros(3, np.int64), np.zeros(3, np.int64)
    vector().counters[1](first)
    vector().counters[1](second)
    assert first[0] < first[1] <= first[2]
    np.testing.assert_array_equal(first, second)


def test_output_names_the_core(capfd: pytest.CaptureFixture[str]) -> None:
    x = np.arange(16).astype(np.float16)
    vector().prints[2](x)
    lines = capfd.readouterr().out.splitlines()
    core = [
        "[AIV 0] plain 100%", "[AIV 0] -3 word 1.50 7", "[AIV 0] DumpTensor 5: 4 x half in UB", "  0 1 2 3",
        "[AIV 0] DumpTensor 6: 6 x half in GM, shape 2 3", "  0 1 2", "  3 4 5", "[AIV 0] DumpTensor 7: 2 x half in GM", "  8 9", "[AIV 0] end 0",
    ]  # fmt: skip
    assert lines[:10] == core
    assert lines[10:] == [line.replace("AIV 0", "AIV 1").replace("end 0", "end 1") for line in core]


def test_a_failed_assertion_ends_the_core_and_says_why() -> None:
    out = np.zeros(1, np.int32)
    assert not vector().asserts[1](out, 3).trace.reports and out[0] == 1
    out[0] = 0
    (report,) = vector().asserts[1](out, 12).trace.reports
    assert report.code == "kernel-assert" and "assert(n < 10) failed on core 0: n is 12" in report.text and out[0] == 0
    (report,) = vector().asserts[1](out, 5).trace.reports
    assert "n != 5" in report.text


def test_a_trap_ends_its_core_only() -> None:
    out = np.zeros(48, np.int32)
    run = vector().traps[3](out)
    assert [r.code for r in run.trace.reports] == ["kernel-trap"]
    assert out[::16].tolist() == [1, 0, 1]


def test_cache_calls_mark_their_line() -> None:
    out = np.zeros(32, np.uint64)
    run = vector().caches[1](out)
    assert [r.code for r in run.trace.reports] == ["field-overflow"]  # ICachePreLoad(8) on a 16 KiB cache
    ranges = run.trace.decoded()
    rows = [i for i, r in enumerate(run.trace.instrs) if run.trace.ops[r["op"]].name == "DataCacheCleanAndInvalid"]
    gm = run.trace.gm[0].address
    line = [
        (int(a) - gm, int(b))
        for a, b, i in zip(ranges.address, ranges.row_bytes, ranges.instr, strict=True)
        if i == rows[0]
    ]
    assert line == [(72, 56)] and run.trace.instrs[rows[1]]["work"] == 0 and run.trace.instrs[rows[1]]["accesses"] == 0


def test_the_other_spellings_of_flags_pair_up() -> None:
    run = vector().queue_sync[1](np.zeros(8, np.float16))
    assert not run.trace.reports
    assert [run.trace.ops[i["op"]].kind for i in run.trace.instrs] == [
        "set_flag",
        "wait_flag",
        "set_flag",
        "wait_flag",
        "barrier",
    ]


def test_gm_is_filled_to_the_element() -> None:
    a, b, c = np.zeros(2001, np.float32), np.zeros(2001, np.int8), np.ones(2001, np.int64)
    run = vector().fills[1](a, b, c, 2000)
    assert not run.trace.reports
    for array, value, rest in ((a, 1.5, 0), (b, -3, 0), (c, 0, 1)):
        assert (array[:2000] == value).all() and array[2000] == rest
    assert [r.code for r in vector().fills_wrong[1](np.zeros(8, np.int64)).trace.reports] == ["fill-value-64-bit"]


def test_initial_state_has_no_atomics() -> None:
    x = np.ones(16, np.float16)
    vector().initial[1](x)
    assert (x == 1).all()


def test_what_is_missing_is_named_at_compile_time() -> None:
    file = kernels('extern "C" __global__ __aicore__ void k(GM_ADDR x) { AllocMutexID(); }')
    with pytest.raises(CompileFailed, match=r"AllocMutexID: Ascend 950 only; `toprope api` lists what is supported"):
        file.k[1](np.zeros(8, np.int32))
