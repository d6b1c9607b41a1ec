"""Advice about the way work is cut keeps its word: larger tiles, rows copied at once."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import toprope
from tests.ascendc.harness import kernels
from tests.profile.test_diagnosis import run as variant
from toprope.finding import Finding
from toprope.kernel import Run
from toprope.profile import diagnose
from toprope.profile.tiles import joined_copies, larger_tiles, rounds, shared_out
from toprope.timing import predict
from toprope.validation import experiment

SOURCE = """
template <int tile, int buffers> __aicore__ inline void Scale(GM_ADDR x, GM_ADDR z, int32_t total) {
    TPipe pipe;
    TQue<TPosition::VECIN, 1> in;
    TQue<TPosition::VECOUT, 1> out;
    pipe.InitBuffer(in, buffers, tile * 2);
    pipe.InitBuffer(out, buffers, tile * 2);
    GlobalTensor<half> xg, zg;
    const int32_t each = total / GetBlockNum(), begin = each * GetBlockIdx();
    xg.SetGlobalBuffer((__gm__ half*)x + begin, each);
    zg.SetGlobalBuffer((__gm__ half*)z + begin, each);
    for (int32_t i = 0; i < each; i += tile) {
        auto a = in.AllocTensor<half>();
        DataCopy(a, xg[i], tile);
        in.EnQue(a);
        a = in.DeQue<half>();
        auto b = out.AllocTensor<half>();
        Muls(b, a, (half)2, tile);
        Adds(b, b, (half)1, tile);
        out.EnQue(b);
        in.FreeTensor(a);
        b = out.DeQue<half>();
        DataCopy(zg[i], b, tile);
        out.FreeTensor(b);
    }
}
template <bool joined> __aicore__ inline void Rows(GM_ADDR x, GM_ADDR z, int32_t rows) {
    constexpr int32_t width = 128, stride = 512, tile = 32;
    TPipe pipe;
    TQue<TPosition::VECIN, 1> in;
    pipe.InitBuffer(in, 2, tile * width * 2);
    GlobalTensor<half> xg, zg;
    xg.SetGlobalBuffer((__gm__ half*)x + GetBlockIdx() * rows * stride, rows * stride);
    zg.SetGlobalBuffer((__gm__ half*)z + GetBlockIdx() * rows * width, rows * width);
    for (int32_t r = 0; r < rows; r += tile) {
        auto a = in.AllocTensor<half>();
        if (joined) DataCopy(a, xg[r * stride], DataCopyParams{tile, width * 2 / 32, (stride - width) * 2 / 32, 0});
        else for (int32_t k = 0; k < tile; k++) DataCopy(a[k * width], xg[(r + k) * stride], width);
        in.EnQue(a);
        a = in.DeQue<half>();
        DataCopy(zg[r * width], a, tile * width);
        in.FreeTensor(a);
    }
}
template <bool even> __aicore__ inline void Share(GM_ADDR x, GM_ADDR z, int32_t tiles) {
    constexpr int32_t tile = 4096;
    TPipe pipe;
    TQue<TPosition::VECIN, 1> in;
    TQue<TPosition::VECOUT, 1> out;
    pipe.InitBuffer(in, 2, tile * 2);
    pipe.InitBuffer(out, 2, tile * 2);
    GlobalTensor<half> xg, zg;
    const int32_t blocks = GetBlockNum(), me = GetBlockIdx();
    // Uneven: every fourth block has five times as much as the others.
    int32_t begin = tiles * me / blocks, end = tiles * (me + 1) / blocks;
    if (!even) {
        const int32_t unit = tiles / (blocks * 2), before = me / 4 * 8 + (me % 4 ? me % 4 + 4 : 0);
        begin = before * unit;
        end = begin + (me % 4 ? 1 : 5) * unit;
    }
    xg.SetGlobalBuffer((__gm__ half*)x, tiles * tile);
    zg.SetGlobalBuffer((__gm__ half*)z, tiles * tile);
    for (int32_t t = begin; t < end; t++) {
        auto a = in.AllocTensor<half>();
        DataCopy(a, xg[t * tile], tile);
        in.EnQue(a);
        a = in.DeQue<half>();
        auto b = out.AllocTensor<half>();
        for (int i = 0; i < 20; i++) Muls(b, a, (half)1, tile);
        out.EnQue(b);
        in.FreeTensor(a);
        b = out.DeQue<half>();
        DataCopy(zg[t * tile], b, tile);
        out.FreeTensor(b);
    }
}
"""
TILES = (256, 512, 1024, 2048, 4096, 8192, 16384)
SOURCE += "\n".join(
    f'extern "C" __global__ __aicore__ void scale{t}_{b}(GM_ADDR x, GM_ADDR z, int32_t total) {{ Scale<{t}, {b}>(x, z, total); }}'
    for t in TILES
    for b in (1, 2)
)
SOURCE += "\n".join(
    f'extern "C" __global__ __aicore__ void rows_{word}(GM_ADDR x, GM_ADDR z, int32_t rows) {{ Rows<{word}>(x, z, rows); }}'
    for word in ("true", "false")
)


SOURCE += "\n".join(
    f'extern "C" __global__ __aicore__ void share_{word}(GM_ADDR x, GM_ADDR z, int32_t tiles) {{ Share<{word}>(x, z, tiles); }}'
    for word in ("true", "false")
)


def scale(tile: int, blocks: int, rounds_a_core: int, smallest: int, buffers: int = 2) -> Run:
    total = blocks * rounds_a_core * smallest
    x, z = np.zeros(total, np.float16), np.zeros(total, np.float16)
    return kernels(SOURCE, "tiles")[f"scale{tile}_{buffers}"][blocks](x, z, total, time_only=True)


def rows_of(joined: bool, blocks: int) -> Run:
    x, z = np.zeros(blocks * 512 * 512, np.float16), np.zeros(blocks * 512 * 128, np.float16)
    return kernels(SOURCE, "tiles")["rows_true" if joined else "rows_false"][blocks](x, z, 512, time_only=True)


def share(even: bool, blocks: int, tiles: int) -> Run:
    x, z = np.zeros(tiles * 4096, np.float16), np.zeros(tiles * 4096, np.float16)
    return kernels(SOURCE, "tiles")[f"share_{str(even).lower()}"][blocks](x, z, tiles, time_only=True)


def advice(found: Run, code: str) -> Finding:
    by_code = {f.code: f for f in diagnose(found)}
    assert code in by_code, f"{code} is not among {list(by_code)}"
    return by_code[code]


@pytest.mark.parametrize("tile, blocks, buffers", [(256, 1, 2), (256, 48, 2), (512, 8, 2), (1024, 1, 2), (256, 4, 1)])
def test_larger_tiles_gain_what_is_promised(tile: int, blocks: int, buffers: int) -> None:
    found = scale(tile, blocks, 128, tile, buffers)
    told = advice(found, "advice-larger-tiles")
    larger = tile * told.data["factor"]
    after = scale(larger, blocks, 128, tile, buffers).timeline.cycles
    assert after < found.timeline.cycles
    assert after == pytest.approx(found.timeline.cycles - told.cycles_at_stake, rel=0.1)


@pytest.mark.parametrize("factor", [2, 4, 8])
def test_a_larger_tile_moves_the_same_bytes_with_fewer_instructions(factor: int) -> None:
    trace = scale(512, 2, 32, 512).trace
    changed = larger_tiles(trace, factor)
    assert changed is not None
    real = scale(512 * factor, 2, 32, 512).trace
    assert len(changed.instrs) == len(real.instrs)
    for which in (trace, real):
        assert changed.decoded().sizes().sum() == which.decoded().sizes().sum()
    gm, real_gm = (
        (r.address[r.space == 0] - t.gm[0].address).tolist() for t in (changed, real) for r in (t.decoded(),)
    )
    assert [a - b for a, b in zip(gm, real_gm, strict=True)] == [0] * len(gm)
    for column in ("op", "pipe", "accesses"):
        assert np.array_equal(changed.instrs[column], real.instrs[column])
    vector = [t.instrs["work"][t.instrs["pipe"] == 1] for t in (changed, real)]
    assert np.array_equal(*vector)


def test_rounds_that_differ_are_left_alone() -> None:
    trace = variant("good", blocks=2, tiles_a_core=2).trace
    assert rounds(trace, 0) is not None
    odd = scale(512, 1, 31, 512).trace
    assert larger_tiles(odd, 2) is None and larger_tiles(odd, 31) is None


@pytest.mark.parametrize("blocks", [1, 16])
def test_rows_copied_at_once_gain_what_is_promised(blocks: int) -> None:
    found = rows_of(False, blocks)
    told = advice(found, "advice-join-copies")
    after = rows_of(True, blocks)
    assert after.timeline.cycles == pytest.approx(found.timeline.cycles - told.cycles_at_stake, rel=0.1)
    assert "DataCopy(a[k * width]" in told.places[0].text()
    joined, gone = joined_copies(found.trace)
    assert gone.sum() == blocks * 16 * 31 and len(joined.instrs) == len(after.trace.instrs)
    for trace in (joined, after.trace):
        assert trace.decoded().sizes().sum() == found.trace.decoded().sizes().sum()
    copies = [t.accesses[t.decoded().rows > 1] for t in (joined, after.trace)]
    assert len(copies[0]) == blocks * 16 * 2 or len(copies[0]) == blocks * 16
    assert "advice-join-copies" not in {f.code for f in diagnose(after)}


@pytest.mark.parametrize("blocks", [4, 48])
def test_even_blocks_gain_what_is_promised(blocks: int) -> None:
    found = share(False, blocks, blocks * 8)
    told = advice(found, "advice-even-blocks")
    after = share(True, blocks, blocks * 8)
    assert after.timeline.cycles == pytest.approx(found.timeline.cycles - told.cycles_at_stake, rel=0.1)
    assert after.timeline.cycles < 0.7 * found.timeline.cycles
    assert "advice-even-blocks" not in {f.code for f in diagnose(after)}


def test_a_last_wave_that_is_not_full_is_told() -> None:
    found = share(True, 60, 480)
    told = advice(found, "advice-even-blocks")
    after = share(True, told.data["blocks"], 480)
    assert told.data["blocks"] == 48 and "60 blocks run in waves on 48 cores" in told.message
    assert after.timeline.cycles == pytest.approx(found.timeline.cycles - told.cycles_at_stake, rel=0.1)


def test_dealing_out_keeps_every_byte() -> None:
    trace = share(False, 8, 64).trace
    dealt = shared_out(trace, 8)
    assert dealt is not None and np.array_equal(np.diff(dealt.core_begin) > 0, np.ones(8, bool))
    assert dealt.decoded().sizes().sum() == trace.decoded().sizes().sum()
    assert shared_out(trace, 9) is None


def test_whole_tiles_are_not_called_rows() -> None:
    _, gone = joined_copies(scale(512, 2, 32, 512).trace)
    assert not gone.any()


def product(unit_flag: int) -> Run:
    """The product that validation uses: several tiles a core, few steps, so that stores weigh."""
    tiling = {
        "BASE_M": 128,
        "BASE_N": 256,
        "BASE_K": 64,
        "STEP_KA": 4,
        "STEP_KB": 4,
        "CORES_M": 2,
        "SINGLE_M": 128,
        "SINGLE_N": 512,
        "L1_BUFFERS": 2,
    }
    defines = tuple(f"{name}={value}" for name, value in {**tiling, "UNIT_FLAG": unit_flag}.items())
    kernel = toprope.load(Path(experiment.HERE) / "kernels" / "matmul.cpp", defines=defines).matmul
    a, b, c = np.zeros((512, 256), np.float16), np.zeros((256, 1024), np.float16), np.zeros((512, 1024), np.float16)
    return kernel[4](a, b, c, 512, 1024, 256, time_only=True)


def test_the_unit_flag_gains_what_is_promised() -> None:
    found, after = product(0), product(1)
    told = advice(found, "advice-unit-flag")
    assert after.timeline.cycles == pytest.approx(found.timeline.cycles - told.cycles_at_stake, rel=0.1)
    # Most of the difference, not just within a tenth of the whole.
    assert told.cycles_at_stake == pytest.approx(found.timeline.cycles - after.timeline.cycles, rel=0.2)
    assert {p.text().split("(")[0] for p in told.places} == {"Fixpipe", "Mmad"}
    assert "advice-unit-flag" not in {f.code for f in diagnose(after)}


WALKED = """
#include "kernel_operator.h"
using namespace AscendC;
extern "C" __global__ __aicore__ void walked(GM_ADDR x, GM_ADDR y) {
    TPipe pipe;
    TQue<QuePosition::VECIN, 1> in;
    TQue<QuePosition::VECOUT, 1> out;
    pipe.InitBuffer(in, 2, TILE * 4);
    pipe.InitBuffer(out, 2, TILE * 4);
    GlobalTensor<float> from, to;
    from.SetGlobalBuffer((__gm__ float*)x, 16384);
    to.SetGlobalBuffer((__gm__ float*)y, 16384);
    for (int i = 0; i < 16384 / TILE; ++i) {
        auto a = in.AllocTensor<float>();
        DataCopy(a, from[i * TILE], TILE);
        in.EnQue(a);
        a = in.DeQue<float>();
        auto b = out.AllocTensor<float>();
        Muls(b, a, 2.0f, TILE);
        SetFlag<HardEvent::V_S>(2);
        WaitFlag<HardEvent::V_S>(2);
        for (int k = 0; k < TILE; k += 4) b.SetValue(k, 0.0f);
        SetFlag<HardEvent::S_MTE3>(2);
        WaitFlag<HardEvent::S_MTE3>(2);
        in.FreeTensor(a);
        out.EnQue(b);
        b = out.DeQue<float>();
        DataCopy(to[i * TILE], b, TILE);
        out.FreeTensor(b);
    }
}
"""


def test_elements_that_the_scalar_unit_walks_over_do_not_become_fewer(tmp_path: Path) -> None:
    file = tmp_path / "walked.cpp"
    file.write_text(WALKED)
    x = np.zeros(16384, np.float32)
    small, large = (
        toprope.load(file, defines=(f"TILE={tile}",)).walked[1](x, x.copy(), time_only=True) for tile in (256, 2048)
    )
    promised = larger_tiles(small.trace, 8)
    assert promised is not None
    assert predict(promised, small.soc).cycles == pytest.approx(large.timeline.cycles, rel=0.03)
