"""What must hold for any kernel on any chip: no faster than the chip, longer for more work, not longer for better tilings."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest

from tests.ascendc.harness import kernels
from toprope import soc
from toprope.kernel import Run
from toprope.timing import predict

pytestmark = pytest.mark.compiler

TEXT = """
template <int buffers>
struct Tiles {
    TPipe pipe;
    TQue<TPosition::VECIN, buffers> in;
    TQue<TPosition::VECOUT, buffers> out;
    TBuf<> ones;
    __aicore__ inline void Run(GM_ADDR x, GM_ADDR y, uint32_t n, uint32_t tile) {
        const uint32_t share = (n / GetBlockNum() + 127) / 128 * 128, first = share * GetBlockIdx();
        if (first >= n) return;
        const uint32_t last = first + share < n ? first + share : n;
        GlobalTensor<half> from, to;
        from.SetGlobalBuffer((__gm__ half*)x);
        to.SetGlobalBuffer((__gm__ half*)y);
        pipe.InitBuffer(in, buffers, tile * sizeof(half));
        pipe.InitBuffer(out, buffers, tile * sizeof(half));
        pipe.InitBuffer(ones, tile * sizeof(half));
        const LocalTensor<half> one = ones.Get<half>();
        Duplicate(one, (half)1, tile);
        for (uint32_t at = first; at < last; at += tile) {
            const uint32_t length = last - at < tile ? last - at : tile;
            LocalTensor<half> a = in.template AllocTensor<half>(), b = out.template AllocTensor<half>();
            DataCopy(a, from[at], length);
            in.EnQue(a);
            a = in.template DeQue<half>();
            Muls(b, a, (half)-1, length);
            Exp(b, b, length);
            Adds(b, b, (half)1, length);
            Div(b, one, b, length);
            out.EnQue(b);
            in.FreeTensor(a);
            b = out.template DeQue<half>();
            DataCopy(to[at], b, length);
            out.FreeTensor(b);
        }
    }
};
extern "C" __global__ __aicore__ void one_buffer(GM_ADDR x, GM_ADDR y, uint32_t n, uint32_t tile) {
    Tiles<1> op;
    op.Run(x, y, n, tile);
}
extern "C" __global__ __aicore__ void two_buffers(GM_ADDR x, GM_ADDR y, uint32_t n, uint32_t tile) {
    Tiles<2> op;
    op.Run(x, y, n, tile);
}
// 256 rows of `bytes` each, all cores the same ones (shared) or each its own.
extern "C" __global__ __aicore__ void rows(GM_ADDR x, uint32_t bytes, uint32_t shared) {
    GlobalTensor<half> gm;
    gm.SetGlobalBuffer((__gm__ half*)x + (shared ? 0 : GetBlockIdx() * 256 * 1024));
    const LocalTensor<half> ub(TPosition::VECIN, 0, 256 * bytes / sizeof(half));
    for (uint32_t i = 0; i < 8; ++i) DataCopyPad(ub, gm, {256, bytes, 2048 - bytes, 0, 0}, {false, 0, 0, 0});
}
"""
RATED_TBPS = 1.8  # HBM of 910B1
SIZES = (128, 4096, 65536, 1 << 20, 1 << 22)


@cache
def sigmoid(n: int, cores: int = 48, tile: int = 4096, buffers: int = 2) -> Run:
    file = kernels(TEXT, "timing_sanity")
    kernel = file.two_buffers if buffers == 2 else file.one_buffer
    x = np.zeros(n, np.float16)
    return kernel[cores](x, x.copy(), n, tile, soc="ascend910b1", time_only=True)


def microseconds(n: int, cores: int = 48, tile: int = 4096, buffers: int = 2) -> float:
    return sigmoid(n, cores, tile, buffers).timeline.microseconds


@pytest.mark.parametrize("n", SIZES)
def test_nothing_is_faster_than_memory_and_vector_unit(n: int) -> None:
    timeline = sigmoid(n).timeline
    read_us = n * 2 / (RATED_TBPS * 1e6)
    vector_us = n / 128 / 48 * (1 + 3.9 + 1 + 4.26) / 1850
    assert timeline.microseconds > max(read_us, vector_us) + 0.46
    assert timeline.microseconds < 4 * (read_us + vector_us) + 8


def test_more_work_takes_longer() -> None:
    times = [microseconds(n) for n in SIZES]
    assert times == sorted(times)


def test_more_cores_help_but_for_launching_them() -> None:
    cores = (1, 2, 4, 8, 16, 48)
    launch_us = soc.load("ascend910b1").number("launch_blocks.block_us")
    for n in (4096, 1 << 20):
        times = [microseconds(n, c) for c in cores]
        for i in range(1, len(cores)):
            assert times[i] <= times[i - 1] + launch_us * (cores[i] - cores[i - 1]) + 0.1, (
                n,
                dict(zip(cores, times, strict=True)),
            )
    assert microseconds(1 << 22, 1) / microseconds(1 << 22, 8) > 6


def test_larger_tiles_and_two_buffers_do_not_hurt() -> None:
    times = [microseconds(1 << 20, 8, tile) for tile in (256, 1024, 4096)]
    assert times == sorted(times, reverse=True)
    assert microseconds(1 << 20, 8) < microseconds(1 << 20, 8, buffers=1)


def test_chips_are_ordered_by_clock_and_bandwidth() -> None:
    trace = sigmoid(1 << 22).trace
    times = [predict(trace, soc.load(f"ascend910b{i}")).microseconds for i in (1, 2, 3, 4)]
    assert times == sorted(times) and times[3] > 1.3 * times[0]
    assert predict(trace, soc.load("ascend310p3")).microseconds > 4 * times[0]


@pytest.mark.parametrize("name", soc.names())
def test_every_chip_prices_a_kernel_and_a_warm_cache_is_no_slower(name: str) -> None:
    trace, chip = sigmoid(65536).trace, soc.load(name)
    cold, warm = (predict(trace, chip, l2=l2).microseconds for l2 in ("cold", "warm"))
    assert 1 < warm <= cold < 400


def test_short_rows_cost_as_much_as_long_ones_only_where_memory_says_so() -> None:
    file = kernels(TEXT, "timing_sanity")
    x = np.zeros(48 * 256 * 1024, np.float16)

    def read(count: int, shared: int, cores: int) -> float:
        return file.rows[cores](x, count, shared, soc="ascend910b1", time_only=True).timeline.microseconds

    own = [read(count, 0, 48) for count in (32, 128, 512)]
    assert own == sorted(own)
    assert read(128, 1, 48) > read(128, 1, 8), "reading one range is not free for more readers"
