"""Collectives of a group with one rank: copies at Commit, seen by every core after Wait; what needs other ranks is an error."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tests.ascendc.harness import kernels
from toprope.kernel import Run

TEXT = r"""
#include "lib/hccl/hccl.h"
struct Tiling { Mc2InitTiling init; Mc2CcTiling task; };
template <typename F> void with_group(F f) {
    Hccl<HcclServerType::HCCL_SERVER_TYPE_AICPU> hccl;
    Tiling tiling;
    hccl.InitV2(GetHcclContext<0>(), &tiling);
    if (hccl.SetCcTilingV2(offsetof(Tiling, task)) != HCCL_SUCCESS) return;
    f(hccl);
    hccl.Finalize();
}
// Two rounds of n elements; after each, every core copies what it received to its own row of `seen`.
template <typename F> void rounds(GM_ADDR y, GM_ADDR seen, int32_t n, F prepare) {
    with_group([&](auto& hccl) {
        const HcclHandle handle = prepare(hccl);
        for (int32_t round = 0; round < 2; ++round) {
            hccl.Commit(handle);
            if (hccl.Wait(handle) != 0) return;
            GlobalTensor<int32_t> from, into;
            from.SetGlobalBuffer(reinterpret_cast<__gm__ int32_t*>(y) + round * n);
            into.SetGlobalBuffer(reinterpret_cast<__gm__ int32_t*>(seen) + GetBlockIdx() * 2 * n + round * n);
            for (int32_t i = 0; i < n; ++i) into.SetValue(i, from.GetValue(i));
            DataCacheCleanAndInvalid<int32_t, CacheLine::ENTIRE_DATA_CACHE, DcciDst::CACHELINE_OUT>(into);
        }
    });
}
extern "C" __global__ __aicore__ void gather(GM_ADDR x, GM_ADDR y, GM_ADDR seen, int32_t n) {
    rounds(y, seen, n, [&](auto& hccl) { return hccl.template AllGather<false>(x, y, n, HCCL_DATA_TYPE_INT32, 0, 2); });
}
extern "C" __global__ __aicore__ void reduce(GM_ADDR x, GM_ADDR y, GM_ADDR seen, int32_t n) {
    rounds(y, seen, n, [&](auto& hccl) {
        return hccl.AllReduce(x, y, n, HcclDataType::HCCL_DATA_TYPE_INT32, HcclReduceOp::HCCL_REDUCE_SUM, 2);
    });
}
extern "C" __global__ __aicore__ void scatter(GM_ADDR x, GM_ADDR y, GM_ADDR seen, int32_t n) {
    rounds(y, seen, n, [&](auto& hccl) { return hccl.ReduceScatter(x, y, n, HCCL_DATA_TYPE_INT32, HCCL_REDUCE_MAX, 0, 2); });
}
extern "C" __global__ __aicore__ void all_to_all(GM_ADDR x, GM_ADDR y, GM_ADDR seen, int32_t n) {
    rounds(y, seen, n, [&](auto& hccl) { return hccl.AlltoAll(x, y, n, HCCL_DATA_TYPE_INT32, 0, 2); });
}
extern "C" __global__ __aicore__ void all_to_all_v(GM_ADDR x, GM_ADDR y, int32_t n) {
    with_group([&](auto& hccl) {
        uint64_t counts[1] = {static_cast<uint64_t>(n)}, from[1] = {2}, to[1] = {1};
        hccl.InterHcclGroupSync(0, 0);
        const auto handle = hccl.template AlltoAllV<true>(x, counts, from, HCCL_DATA_TYPE_FP32, y, counts, to, HCCL_DATA_TYPE_FP32);
        hccl.Wait(handle);
    });
}
extern "C" __global__ __aicore__ void numbers(GM_ADDR x, GM_ADDR out) {
    SetHcclContext<1>(x);
    GlobalTensor<int32_t> o;
    o.SetGlobalBuffer((__gm__ int32_t*)out);
    with_group([&](auto& hccl) {
        const auto handle = hccl.template AllGather<false>(x, x, 1, HCCL_DATA_TYPE_INT8, 0, 2);
        hccl.Commit(handle);
        o.SetValue(0, hccl.Query(handle));
        hccl.Commit(handle);
        hccl.QueueBarrier(0);
        o.SetValue(1, hccl.Query(handle));
        o.SetValue(2, hccl.GetRankId() + 10 * hccl.GetRankDim() + 100 * hccl.GetQueueNum());
        o.SetValue(3, GetHcclContext<1>() == x);
        DataCacheCleanAndInvalid<int32_t, CacheLine::ENTIRE_DATA_CACHE, DcciDst::CACHELINE_OUT>(o);
    });
}
extern "C" __global__ __aicore__ void wrong(GM_ADDR x, int32_t how) {
    with_group([&](auto& hccl) {
        if (how == 0) hccl.template AllReduce<true>(x, x, 1, HCCL_DATA_TYPE_INT64, HCCL_REDUCE_SUM);
        if (how == 1) hccl.Commit(3);
        if (how == 2) hccl.template AllGather<false>(x, x, 1, HCCL_DATA_TYPE_INT8, 0);
        if (how == 3) hccl.Commit(hccl.template AllGather<true>(x, x, 1, HCCL_DATA_TYPE_INT8, 0));
        if (how == 4) hccl.GetWindowsInAddr(1);
        if (how == 5) hccl.GetWindowsOutAddr(0);
        if (how == 6) hccl.template BatchWrite<true>(x, 1);
        if (how == 7) hccl.template AlltoAllvWrite<true>(x, x, x, 0, 0);
    });
}
"""


def same(x: np.ndarray) -> np.ndarray:
    """What a collective over one rank leaves in its receive buffer."""
    return x


ORACLES: dict[str, Callable[..., Any]] = {
    name: same
    for name in (
        "Hccl", "GetHcclContext", "SetHcclContext", ".AllGather", ".AllReduce", ".ReduceScatter", ".AlltoAll", ".AlltoAllV",
        ".AlltoAllvWrite", ".BatchWrite", ".Commit", ".Wait", ".Query", ".Finalize", ".InterHcclGroupSync", ".QueueBarrier",
        ".GetWindowsInAddr", ".GetWindowsOutAddr", ".GetRankId", ".GetRankDim", ".GetQueueNum",
    )
}  # fmt: skip


def codes(run: Run) -> list[str]:
    return [f.code for f in run.findings if f.severity == "error"]


@pytest.mark.parametrize("cores", [1, 5])
@pytest.mark.parametrize("entry", ["gather", "reduce", "scatter", "all_to_all"])
def test_every_core_sees_each_round_after_its_wait(entry: str, cores: int) -> None:
    n = 16
    x = np.arange(1, 2 * n + 1, dtype=np.int32)
    y, seen = np.zeros_like(x), np.zeros((cores, 2 * n), np.int32)
    run = kernels(TEXT, "hccl")[entry][cores](x, y, seen, n)
    assert not codes(run)
    np.testing.assert_array_equal(y, same(x))
    np.testing.assert_array_equal(seen, np.tile(same(x), (cores, 1)))


def test_all_to_all_v_takes_offsets() -> None:
    x, y = np.arange(8, dtype=np.float32), np.zeros(8, np.float32)
    run = kernels(TEXT, "hccl").all_to_all_v[1](x, y, 5)
    assert not codes(run)
    np.testing.assert_array_equal(y, [0, 2, 3, 4, 5, 6, 0, 0])


def test_the_group_has_one_rank() -> None:
    out = np.zeros(4, np.int32)
    run = kernels(TEXT, "hccl").numbers[1](np.zeros(32, np.uint8), out)
    assert not codes(run)
    assert out.tolist() == [1, 2, 110, 1]


@pytest.mark.parametrize(
    ("how", "code"),
    [
        (0, "hccl-argument"),
        (1, "hccl-argument"),
        (2, "hccl-commit-count"),
        (3, "hccl-commit-count"),
        *((i, "hccl-one-rank") for i in (4, 5, 6, 7)),
    ],
)
def test_what_no_server_would_take_is_named(how: int, code: str) -> None:
    run = kernels(TEXT, "hccl").wrong[1](np.zeros(32, np.uint8), how)
    assert code in codes(run)
