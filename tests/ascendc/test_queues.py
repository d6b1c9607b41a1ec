"""TPipe, TQue, TQueBind, TBuf, pools: what a buffer may do in which state, each rule beside a near twin that keeps it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tests.ascendc.harness import GM, kernels

# name: (body that breaks the rule, its finding, body that keeps the rule)
RULES = {
    "no_free_buffer": ("in.AllocTensor<half>(); in.AllocTensor<half>();", "queue-no-free-buffer", "auto t = in.AllocTensor<half>(); in.FreeTensor(t); t = in.AllocTensor<half>(); in.FreeTensor(t);"),
    "deque_empty": ("in.DeQue<half>();", "deque-from-empty-queue", "auto t = in.AllocTensor<half>(); in.EnQue(t); t = in.DeQue<half>(); in.FreeTensor(t);"),
    "enque_twice": ("auto t = in.AllocTensor<half>(); in.EnQue(t); in.EnQue(t); t = in.DeQue<half>(); in.FreeTensor(t);", "enque-in-wrong-state", "auto t = in.AllocTensor<half>(); in.EnQue(t); t = in.DeQue<half>(); in.EnQue(t); t = in.DeQue<half>(); in.FreeTensor(t);"),
    "free_twice": ("auto t = in.AllocTensor<half>(); in.FreeTensor(t); in.FreeTensor(t);", "tensor-freed-twice", "auto t = in.AllocTensor<half>(); in.FreeTensor(t);"),
    "never_freed": ("in.AllocTensor<half>();", "tensor-never-freed", "auto t = in.AllocTensor<half>(); in.FreeTensor(t);"),
    "other_queue": ("auto t = in.AllocTensor<half>(); out.FreeTensor(t); in.FreeTensor(t);", "tensor-of-another-queue", "auto t = in.AllocTensor<half>(); in.FreeTensor(t); auto u = out.AllocTensor<half>(); out.FreeTensor(u);"),
    "after_free": ("auto t = in.AllocTensor<half>(); in.FreeTensor(t); DataCopy(t, g, 64);", "use-after-free", "auto t = in.AllocTensor<half>(); DataCopy(t, g, 64); in.FreeTensor(t);"),
    "size_zero": ("TBuf<> b; pipe.InitBuffer(b, 0);", "buffer-of-size-zero", "TBuf<> b; pipe.InitBuffer(b, 1);"),
    "not_initialised": ("TBuf<> b; b.Get<half>(8);", "buffer-not-initialised", "TBuf<> b; pipe.InitBuffer(b, 32); b.Get<half>(8);"),
    "queue_without_buffer": ("TQue<TPosition::VECIN, 1> q; q.AllocTensor<half>();", "queue-without-buffer", "TQue<TPosition::VECIN, 1> q; pipe.InitBuffer(q, 1, 32); q.FreeTensor(q.AllocTensor<half>());"),
    "larger_than_buffer": ("TBuf<> b; pipe.InitBuffer(b, 64); b.Get<half>(33);", "tensor-larger-than-buffer", "TBuf<> b; pipe.InitBuffer(b, 64); b.Get<half>(32);"),
    "over_capacity": ("TBuf<> b; pipe.InitBuffer(b, 196608 - 2047);", "buffer-over-capacity", "TBuf<> b; pipe.InitBuffer(b, 196608 - 2048);"),
    "too_many": ("TQue<TPosition::VECIN, 1> a, b; pipe.InitBuffer(a, 31, 32); pipe.InitBuffer(b, 32, 32);", "too-many-buffers", "TQue<TPosition::VECIN, 1> a, b; pipe.InitBuffer(a, 31, 32); pipe.InitBuffer(b, 31, 32);"),
    "event_range": ("SetFlag<HardEvent::MTE2_V>(8);", "event-id-out-of-range", "SetFlag<HardEvent::MTE2_V>(7); WaitFlag<HardEvent::MTE2_V>(7);"),
    "set_twice": ("SetFlag<HardEvent::MTE2_V>(1); SetFlag<HardEvent::MTE2_V>(1); WaitFlag<HardEvent::MTE2_V>(1);", "flag-set-twice", "SetFlag<HardEvent::MTE2_V>(1); WaitFlag<HardEvent::MTE2_V>(1); SetFlag<HardEvent::MTE2_V>(1); WaitFlag<HardEvent::MTE2_V>(1);"),
    "wait_without_set": ("WaitFlag<HardEvent::MTE2_V>(1);", "flag-wait-without-set", "SetFlag<HardEvent::MTE2_V>(1); WaitFlag<HardEvent::MTE2_V>(1);"),
    "ids_exhausted": ("for (int i = 0; i < 9; ++i) pipe.AllocEventID<HardEvent::MTE2_V>();", "event-ids-exhausted", "for (int i = 0; i < 9; ++i) { auto id = pipe.AllocEventID<HardEvent::MTE2_V>(); pipe.ReleaseEventID<HardEvent::MTE2_V>(id); }"),
    "pool_overrun": ("TBufPool<TPosition::VECCALC> p; pipe.InitBufPool(p, 1024); TBuf<> b; p.InitBuffer(b, 1025);", "buffer-over-capacity", "TBufPool<TPosition::VECCALC> p; pipe.InitBufPool(p, 1024); TBuf<> b; p.InitBuffer(b, 1024);"),
    "shared_pool": ("TBufPool<TPosition::VECCALC> p, q; pipe.InitBufPool(p, 1024); pipe.InitBufPool(q, 1056, p);", "buffer-over-capacity", "TBufPool<TPosition::VECCALC> p, q; pipe.InitBufPool(p, 1024); pipe.InitBufPool(q, 1024, p);"),
    "inner_pool": ("TBufPool<TPosition::VECCALC> p, q; pipe.InitBufPool(p, 1024); p.InitBufPool(q, 1056);", "buffer-over-capacity", "TBufPool<TPosition::VECCALC> p, q; pipe.InitBufPool(p, 1024); p.InitBufPool(q, 1024);"),
    "spill": ("auto t = in.AllocTensor<half>(); pipe.InitSpmBuffer(g, 64); pipe.WriteSpmBuffer(t, 64); in.FreeTensor(t);", "buffer-over-capacity", "auto t = in.AllocTensor<half>(); pipe.InitSpmBuffer(g, 128); pipe.WriteSpmBuffer(t, 64); in.FreeTensor(t);"),
    "allocator": ("LocalMemAllocator<> a; a.Alloc<half>(98305);", "buffer-over-capacity", "LocalMemAllocator<> a; a.Alloc<half>(98304);"),
}  # fmt: skip

RULE = """
extern "C" __global__ __aicore__ void {name}(GM_ADDR x) {{
    TPipe pipe;
    TQue<TPosition::VECIN, 1> in;
    TQue<TPosition::VECOUT, 1> out;
    pipe.InitBuffer(in, 1, 1024);
    pipe.InitBuffer(out, 1, 1024);
    GlobalTensor<half> g;
    g.SetGlobalBuffer((__gm__ half*)x);
    {body}
}}
"""

DEPTH = r"""
extern "C" __global__ __aicore__ void too_deep(GM_ADDR x) {
    TPipe pipe;
    TQue<TPosition::VECIN, 1> in;
    pipe.InitBuffer(in, 2, 1024);
    auto a = in.AllocTensor<half>(), b = in.AllocTensor<half>();
    in.EnQue(a);
    in.EnQue(b);
}
"""

FLOWS = (
    GM
    + r"""
// Straight through: what was loaded is stored from the same buffer, two tiles in flight.
extern "C" __global__ __aicore__ void bind(GM_ADDR x, GM_ADDR out, int32_t tiles) {
    TPipe pipe;
    TQueBind<TPosition::VECIN, TPosition::VECOUT, 2> q;
    pipe.InitBuffer(q, 2, 128);
    auto store = [&](int i) {
        auto t = q.DeQue<half>();
        DataCopy(gm<half>(out)[i * 64], t, 64);
        q.FreeTensor(t);
    };
    for (int i = 0; i < tiles; ++i) {
        auto t = q.AllocTensor<half>();
        DataCopy(t, gm<half>(x)[i * 64], 64);
        q.EnQue(t);
        if (i > 0) store(i - 1);
    }
    store(tiles - 1);
}
extern "C" __global__ __aicore__ void order(GM_ADDR out) {
    TPipe pipe;
    TQue<TPosition::VECIN, 3> q;
    pipe.InitBuffer(q, 3, 32);
    auto o = gm<int32_t>(out);
    for (int i = 0; i < 3; ++i) {
        auto t = q.AllocTensor<int32_t>();
        t.SetValue(0, 10 + i);
        q.EnQue(t);
    }
    o.SetValue(0, q.GetTensorCountInQue()); o.SetValue(1, q.HasIdleBuffer()); o.SetValue(2, q.VacantInQue()); o.SetValue(3, q.HasTensorInQue());
    for (int i = 0; i < 3; ++i) {
        auto t = q.DeQue<int32_t>();
        o.SetValue(4 + i, t.GetValue(0));
        q.FreeTensor(t);
    }
    o.SetValue(7, q.GetTensorCountInQue()); o.SetValue(8, q.HasIdleBuffer());
}
// Two pools share one range: the second one's buffers lie on the first one's.
extern "C" __global__ __aicore__ void pools(GM_ADDR out) {
    TPipe pipe;
    TBuf<> before, a, b, c;
    TBufPool<TPosition::VECCALC> first, second;
    pipe.InitBuffer(before, 64);
    pipe.InitBufPool(first, 512);
    pipe.InitBufPool(second, 512, first);
    first.InitBuffer(a, 100);
    first.InitBuffer(b, 32);
    second.InitBuffer(c, 64);
    auto o = gm<int32_t>(out);
    o.SetValue(0, a.Get<int32_t>().address()); o.SetValue(1, b.Get<int32_t>().address()); o.SetValue(2, c.Get<int32_t>().address());
    TBuf<> after;
    pipe.InitBuffer(after, 32);
    o.SetValue(3, after.Get<int32_t>().address());
    LocalTensor<int32_t> rest;
    PopStackBuffer<int32_t, TPosition::VECCALC>(rest);
    o.SetValue(4, rest.address()); o.SetValue(5, rest.GetLength());
    first.Reset();
    TBuf<> again;
    first.InitBuffer(again, 32);
    o.SetValue(6, again.Get<int32_t>().address());
}
// A pool of the user's own, with a gap of 32 bytes between the buffers of a queue.
class GapPool {
public:
    __aicore__ inline GapPool() { Init(); }
    template <class T> __aicore__ inline bool InitBuffer(T& que, uint8_t num, uint32_t len) {
        auto handle = this->GetBufHandle(this->GetCurBufSize());
        que.InitStartBufHandle(handle, num, len);
        for (uint8_t i = 0; i < num; ++i) {
            que.InitBufHandle(this, i, handle, this->GetCurAddr(), len);
            this->SetCurAddr(this->GetCurAddr() + len + 32);
        }
        this->SetCurBufSize(this->GetCurBufSize() + num);
        return true;
    }
    template <TPosition pos> __aicore__ inline bool InitBuffer(TBuf<pos>& buf, uint32_t len) {
        auto handle = this->GetBufHandle(this->GetCurBufSize());
        buf.InitStartBufHandle(handle, 1, len);
        buf.InitBufHandle(this, 0, handle, this->GetCurAddr(), len);
        this->SetCurAddr(this->GetCurAddr() + len);
        this->SetCurBufSize(this->GetCurBufSize() + 1);
        return true;
    }
    EXTERN_IMPL_BUFPOOL(GapPool, TPosition::VECCALC, 16);
};
extern "C" __global__ __aicore__ void own_pool(GM_ADDR x, GM_ADDR out) {
    TPipe pipe;
    GapPool pool;
    pipe.InitBufPool(pool, 1024);
    TQue<TPosition::VECIN, 2> q;
    TBuf<TPosition::VECCALC> b;
    pool.InitBuffer(q, 2, 64);
    pool.InitBuffer(b, 64);
    auto o = gm<int32_t>(out);
    auto t = q.AllocTensor<int32_t>(), u = q.AllocTensor<int32_t>();
    o.SetValue(0, t.address()); o.SetValue(1, u.address()); o.SetValue(2, b.Get<int32_t>().address());
    DataCopy(t, gm<int32_t>(x), 16);
    q.EnQue(t);
    t = q.DeQue<int32_t>();
    SetFlag<HardEvent::V_S>(0);
    WaitFlag<HardEvent::V_S>(0);
    o.SetValue(3, t.GetValue(15));
    q.FreeTensor(t);
    q.FreeTensor(u);
}
extern "C" __global__ __aicore__ void spill(GM_ADDR x, GM_ADDR room, GM_ADDR out) {
    TPipe pipe;
    TBuf<> b;
    pipe.InitBuffer(b, 256);
    auto t = b.Get<half>();
    DataCopy(t, gm<half>(x), 64);
    pipe.InitSpmBuffer(gm<half>(room), 512);
    PipeBarrier<PIPE_ALL>();
    pipe.WriteSpmBuffer(t, 64, 32);
    PipeBarrier<PIPE_ALL>();
    pipe.ReadSpmBuffer(t[64], DataCopyParams(1, 4, 0, 0), 32);
    PipeBarrier<PIPE_ALL>();
    DataCopy(gm<half>(out), t, 128);
    pipe.DestroyWithoutPipeAll();
}
extern "C" __global__ __aicore__ void allocator(GM_ADDR out) {
    LocalMemAllocator<Hardware::UB> ub;
    auto a = ub.Alloc<half, 20>();
    auto b = ub.Alloc<TPosition::VECIN, float>(8);
    auto o = gm<int32_t>(out);
    o.SetValue(0, a.address()); o.SetValue(1, b.address()); o.SetValue(2, ub.GetCurAddr()); o.SetValue(3, a.GetSize());
}
"""
)


def broken() -> Any:
    return kernels("".join(RULE.format(name=n, body=bad) for n, (bad, _, _) in RULES.items()) + DEPTH, "queues_broken")


def kept() -> Any:
    return kernels("".join(RULE.format(name=n, body=good) for n, (_, _, good) in RULES.items()), "queues_kept")


def flows() -> Any:
    return kernels(FLOWS, "queue_flows")


def rounded(size: int) -> int:
    """Buffers are whole 32-byte blocks."""
    return -(-size // 32) * 32


ORACLES: dict[str, Callable[..., Any]] = dict.fromkeys(("LocalMemAllocator", "PopStackBuffer", "TSCM"), rounded)


@pytest.mark.parametrize("name", RULES)
def test_a_broken_rule_is_reported(name: str) -> None:
    codes = [r.code for r in broken()[name][1](np.zeros(512, np.float16)).trace.reports]
    assert RULES[name][1] in codes, codes
    assert set(codes) <= {RULES[name][1], "tensor-never-freed"}


@pytest.mark.parametrize("name", RULES)
def test_its_twin_is_not(name: str) -> None:
    assert [r.code for r in kept()[name][1](np.zeros(512, np.float16)).trace.reports] == []


def test_depth_1_holds_one_tensor_however_many_buffers_there_are() -> None:
    assert "queue-depth-exceeded" in [r.code for r in broken().too_deep[1](np.zeros(8, np.float16)).trace.reports]


def test_a_bound_queue_hands_its_buffer_from_load_to_store() -> None:
    x, out = np.arange(640).astype(np.float16), np.zeros(640, np.float16)
    run = flows().bind[1](x, out, 10)
    assert not run.trace.reports
    np.testing.assert_array_equal(out, x)


def test_tensors_leave_in_the_order_they_came() -> None:
    out = np.zeros(9, np.int32)
    flows().order[1](out)
    assert out.tolist() == [3, 0, 0, 1, 10, 11, 12, 0, 1]


def test_pools_share_and_reset_their_memory() -> None:
    out = np.zeros(8, np.int32)
    run = flows().pools[1](out)
    assert not run.trace.reports
    begin = 64
    assert out.tolist()[:4] == [begin, begin + rounded(100), begin, begin + 512]
    assert out.tolist()[4:7] == [begin + 512 + 32, 196608 - begin - 544, begin]


def test_a_pool_of_the_users_own_places_its_buffers() -> None:
    x, out = np.arange(16, dtype=np.int32), np.zeros(4, np.int32)
    run = flows().own_pool[1](x, out)
    assert not run.trace.reports
    assert out.tolist() == [0, 96, 192, 15]


def test_buffers_can_be_spilled_to_gm() -> None:
    x, room, out = np.arange(64).astype(np.float16), np.zeros(256, np.float16), np.zeros(128, np.float16)
    run = flows().spill[1](x, room, out)
    assert not run.trace.reports
    np.testing.assert_array_equal(room[16:80], x)
    np.testing.assert_array_equal(out, np.concatenate([x, x]))


def test_the_static_allocator_counts_in_whole_blocks() -> None:
    out = np.zeros(4, np.int32)
    flows().allocator[1](out)
    assert out.tolist() == [0, rounded(40), rounded(40) + 32, 20]
