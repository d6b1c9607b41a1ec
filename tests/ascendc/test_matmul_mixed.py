"""Matmul objects that vector cores drive: base blocks into UB, operands from UB, asynchronous passes, batches, callbacks, shared L1."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tests.ascendc.cube_tiling import cube_tiling
from tests.ascendc.harness import kernels
from tests.ascendc.test_matmul_object import clean, close
from toprope.kernel import KernelFile

ORACLES: dict[str, Callable[..., object]] = {}

HEAD = """
#include "lib/matmul_intf.h"
#define TENSORS                                                                             \\
    GET_TILING_DATA_WITH_STRUCT(TCubeTiling, t, tilingGm);                                  \\
    TPipe pipe;                                                                             \\
    GlobalTensor<half> ag, bg;                                                              \\
    GlobalTensor<float> cg, wg;                                                             \\
    ag.SetGlobalBuffer((__gm__ half*)a);                                                    \\
    bg.SetGlobalBuffer((__gm__ half*)b);                                                    \\
    cg.SetGlobalBuffer((__gm__ float*)c);                                                   \\
    wg.SetGlobalBuffer((__gm__ float*)w);
using Gm = MatmulType<TPosition::GM, CubeFormat::ND, half>;
using GmT = MatmulType<TPosition::GM, CubeFormat::ND, half, true>;
using GmF = MatmulType<TPosition::GM, CubeFormat::ND, float>;
"""


def build(text: str, name: str) -> KernelFile:
    """The kernels of a text in which ENTRY(name) stands for a kernel's signature and MIXED for its task type."""
    signature = (
        r'extern "C" __global__ __aicore__ void \1(GM_ADDR a, GM_ADDR b, GM_ADDR c, GM_ADDR w, GM_ADDR tilingGm)'
    )
    text = re.sub(r"ENTRY\((\w+)\)", signature, text)
    return kernels(text.replace("MIXED", "KERNEL_TASK_TYPE_DEFAULT(KERNEL_TYPE_MIX_AIC_1_2)"), name)


# Blocks through UB, doubled by the vector core; tails of rows and columns (ND_ALIGN in UB).
BLOCKS = (
    HEAD
    + """
ENTRY(blocks) {
    MIXED;
    TENSORS;
    Matmul<Gm, GmT, MatmulType<TPosition::VECIN, CubeFormat::ND_ALIGN, float>, GmF> mm;
    REGIST_MATMUL_OBJ(&pipe, GetSysWorkSpacePtr(), mm);
    mm.Init(&t, &pipe);
    TQue<TPosition::VECOUT, 2> out;
    pipe.InitBuffer(out, 2, t.baseM * t.baseN * 4);
    const bool ahead = t.shareMode == 1;
    const int32_t half_m = t.singleCoreM, m0 = GetBlockIdx() * half_m;
    if (m0 >= t.M) return;
    mm.SetTensorA(ag[m0 * t.Ka]);
    mm.SetTensorB(bg, true);
    mm.SetTail(t.M - m0 < half_m ? t.M - m0 : half_m, t.N, t.Ka);
    GlobalTensor<float> mine = wg[GetBlockIdx() * 65536];
    mm.SetWorkspace(mine);
    if (ahead) mm.template Iterate<false>();
    const int32_t acrossM = ((t.M - m0 < half_m ? t.M - m0 : half_m) + t.baseM - 1) / t.baseM, acrossN = (t.N + t.baseN - 1) / t.baseN;
    for (int32_t i = 0; ahead ? i < acrossM * acrossN : mm.template Iterate<true>(); i++) {
        const int32_t row = i % acrossM * t.baseM, column = i / acrossM * t.baseN;
        const int32_t limit = t.M - m0 < half_m ? t.M - m0 : half_m;
        const uint32_t rows = limit - row < t.baseM ? limit - row : t.baseM, columns = t.N - column < t.baseN ? t.N - column : t.baseN;
        if (!ahead) {
            MatrixOffset at = mm.GetOffsetC();
            if (at.row != row || at.col != column || at.height != rows || at.width != columns) return;
        }
        LocalTensor<float> block = out.AllocTensor<float>();
        if (ahead) mm.template GetTensorC<false>(block, 0, true);
        else mm.template GetTensorC<true>(block, 0, true);
        Muls(block, block, 2.0f, (rows - 1) * t.baseN + columns);
        out.EnQue(block);
        block = out.DeQue<float>();
        DataCopyExtParams p(rows, columns * 4, (t.baseN - (columns + 7) / 8 * 8) / 8, (t.N - columns) * 4, 0);
        DataCopyPad(cg[(m0 + row) * t.N + column], block, p);
        out.FreeTensor(block);
    }
    mm.End();
}
"""
)


@pytest.mark.parametrize("ahead", [False, True])
@pytest.mark.parametrize("m,k,n", [(128, 64, 96), (100, 70, 90)])
def test_blocks_through_ub(ahead: bool, m: int, k: int, n: int) -> None:
    rng = np.random.default_rng(3)
    a, b = rng.standard_normal((m, k)).astype(np.float16), rng.standard_normal((n, k)).astype(np.float16)
    c, w = np.zeros((m, n), np.float32), np.zeros(4 * 65536, np.float32)
    tiling = cube_tiling(m, n, k, singleCoreM=-(-m // 4 // 16) * 16, dbL0C=2, shareMode=int(ahead))
    run = build(BLOCKS, "matmul_blocks").blocks[2](a, b, c, w, tiling)
    clean(run)
    close(c / 2, a, b.T, None)


def test_buffers_are_set_aside_once_for_both_vector_cores() -> None:
    m, k, n = 128, 64, 96
    rng = np.random.default_rng(5)
    a, b = rng.standard_normal((m, k)).astype(np.float16), rng.standard_normal((n, k)).astype(np.float16)
    c, w = np.zeros((m, n), np.float32), np.zeros(4 * 65536, np.float32)
    tiling = cube_tiling(m, n, k, singleCoreM=32, depthA1=1, depthB1=1)
    tile = 32 * 1024 // 8  # well below one tile
    tiling = cube_tiling(m, n, k, singleCoreM=32, depthA1=300 * 1024 // tile, depthB1=1)  # more than half of L1
    clean(build(BLOCKS, "matmul_blocks").blocks[2](a, b, c, w, tiling))
    close(c / 2, a, b.T, None)


# (A doubled by the vector core in UB) x B, whole results in UB; then a second product with the sum kept in GM by atomic addition.
FROM_UB = (
    HEAD
    + """
ENTRY(from_ub) {
    MIXED;
    TENSORS;
    using Ub = MatmulType<TPosition::VECOUT, CubeFormat::ND, half>;
    Matmul<Ub, Gm, MatmulType<TPosition::VECIN, CubeFormat::ND, float>, GmF, CFG_MDL> mm;
    REGIST_MATMUL_OBJ(&pipe, GetSysWorkSpacePtr(), mm, &t);
    TQue<TPosition::VECIN, 1> in;
    TQue<TPosition::VECOUT, 1> out, result;
    pipe.InitBuffer(in, 1, t.M * t.Ka * 2);
    pipe.InitBuffer(out, 1, t.M * t.Ka * 2);
    pipe.InitBuffer(result, 1, t.M * t.N * 4);
    if (GetBlockIdx() != 0) return;
    LocalTensor<half> x = in.AllocTensor<half>();
    DataCopy(x, ag, t.M * t.Ka);
    in.EnQue(x);
    x = in.DeQue<half>();
    LocalTensor<half> y = out.AllocTensor<half>();
    Muls(y, x, (half)2, t.M * t.Ka);
    out.EnQue(y);
    y = out.DeQue<half>();
    mm.SetTensorA(y);
    mm.SetTensorB(bg);
    LocalTensor<float> z = result.AllocTensor<float>();
    mm.IterateAll(z);
    Adds(z, z, 1.0f, t.M * t.N);
    result.EnQue(z);
    z = result.DeQue<float>();
    DataCopy(cg, z, t.M * t.N);
    PipeBarrier<PIPE_ALL>();
    mm.IterateAll(cg, 1);
    mm.End();
    result.FreeTensor(z);
    out.FreeTensor(y);
    in.FreeTensor(x);
}
"""
)


def test_operands_and_results_in_ub() -> None:
    m, k, n = 64, 48, 80
    rng = np.random.default_rng(4)
    a, b = rng.standard_normal((m, k)).astype(np.float16), rng.standard_normal((k, n)).astype(np.float16)
    c, w = np.zeros((m, n), np.float32), np.zeros(1, np.float32)
    run = build(FROM_UB, "matmul_from_ub").from_ub[1](a, b, c, w, cube_tiling(m, n, k))
    clean(run)
    close((c - 1) / 2, a * np.float16(2), b, None)


BATCHES = (
    HEAD
    + """
template <LayoutMode L, LayoutMode LC> __aicore__ inline void Batches(GM_ADDR a, GM_ADDR b, GM_ADDR c, GM_ADDR w, GM_ADDR tilingGm) {
    TENSORS;
    Matmul<MatmulType<TPosition::GM, CubeFormat::ND, half, false, L>, MatmulType<TPosition::GM, CubeFormat::ND, half, true, L>,
           MatmulType<TPosition::GM, CubeFormat::ND, float, false, LC>, GmF> mm;
    REGIST_MATMUL_OBJ(&pipe, GetSysWorkSpacePtr(), mm, &t);
    if (GetBlockIdx() != 0) return;
    mm.SetTensorA(ag);
    mm.SetTensorB(bg, true);
    mm.IterateBatch(cg, t.batchM, t.batchN, false);
    mm.End();
}
"""
)
NORMAL = "ENTRY(normal) { MIXED; Batches<LayoutMode::NORMAL, LayoutMode::NORMAL>(a, b, c, w, tilingGm); }"
HEADS = "ENTRY(heads) { MIXED; Batches<LayoutMode::BSNGD, LayoutMode::BNGS1S2>(a, b, c, w, tilingGm); }"


@pytest.mark.parametrize("batch_b", [4, 2, 1])
def test_batches_with_broadcast(batch_b: int) -> None:
    m, k, n, batch = 33, 48, 20, 4
    rng = np.random.default_rng(5)
    a, b = (
        rng.standard_normal((batch, m, k)).astype(np.float16),
        rng.standard_normal((batch_b, n, k)).astype(np.float16),
    )
    c, w = np.zeros((batch, m, n), np.float32), np.zeros(1, np.float32)
    tiling = cube_tiling(m, n, k, batchM=batch, batchN=batch_b)
    run = build(BATCHES + NORMAL, "matmul_batches").normal[1](a, b, c, w, tiling)
    clean(run)
    for i in range(batch):
        close(c[i], a[i], b[i * batch_b // batch].T, None)


@pytest.mark.slow
def test_batches_of_heads() -> None:
    s1, s2, d, heads = 32, 48, 64, 3
    rng = np.random.default_rng(6)
    a, b = (
        rng.standard_normal((s1, heads, d)).astype(np.float16),
        rng.standard_normal((s2, heads, d)).astype(np.float16),
    )
    c, w = np.zeros((heads, s1, s2), np.float32), np.zeros(1, np.float32)
    layout: dict[str, Any] = {
        "ALayoutInfoB": 1, "ALayoutInfoS": s1, "ALayoutInfoN": heads, "ALayoutInfoG": 1, "ALayoutInfoD": d,
        "BLayoutInfoB": 1, "BLayoutInfoS": s2, "BLayoutInfoN": heads, "BLayoutInfoG": 1, "BLayoutInfoD": d,
    }  # fmt: skip
    tiling = cube_tiling(s1, s2, d, batchM=heads, batchN=heads, **layout)
    run = build(BATCHES + HEADS, "matmul_heads").heads[1](a, b, c, w, tiling)
    clean(run)
    for h in range(heads):
        close(c[h], a[:, h], b[:, h].T, None)


# IBShare: both vector cores multiply the same B, which lies in L1 as a whole.
SHARED = (
    HEAD
    + """
template <bool share> __aicore__ inline void Shared(GM_ADDR a, GM_ADDR b, GM_ADDR c, GM_ADDR w, GM_ADDR tilingGm) {
    TENSORS;
    Matmul<Gm, MatmulType<TPosition::GM, CubeFormat::ND, half, false, LayoutMode::NONE, share>, GmF, GmF, CFG_IBSHARE_NORM> mm;
    REGIST_MATMUL_OBJ(&pipe, GetSysWorkSpacePtr(), mm, &t);
    const int32_t m0 = GetBlockIdx() * t.singleCoreM;
    mm.SetTensorA(ag[m0 * t.Ka]);
    mm.SetTensorB(bg);
    mm.IterateAll(cg[m0 * t.N]);
    mm.End();
}
ENTRY(alone) { MIXED; Shared<false>(a, b, c, w, tilingGm); }
ENTRY(shared) { MIXED; Shared<true>(a, b, c, w, tilingGm); }
"""
)


def test_shared_operand_is_loaded_once() -> None:
    m, k, n = 64, 64, 64
    rng = np.random.default_rng(7)
    a, b = rng.standard_normal((m, k)).astype(np.float16), rng.standard_normal((k, n)).astype(np.float16)
    tiling = cube_tiling(m, n, k, singleCoreM=32, depthB1=4)
    loaded = {}
    for name in ("alone", "shared"):
        c, w = np.zeros((m, n), np.float32), np.zeros(1, np.float32)
        run = build(SHARED, "matmul_shared")[name][1](a, b, c, w, tiling)
        clean(run)
        close(c, a, b, None)
        names = [run.trace.ops[i].name for i in run.trace.instrs["op"]]
        loaded[name] = names.count("DataCopy(ND2NZ)")
    assert loaded["shared"] == loaded["alone"] - 4  # the four tiles of B


# The user's own copy into L1: A begins at the address that the tiling info carries.
CALLBACK = (
    HEAD
    + """
__aicore__ inline void CopyA(const LocalTensor<int8_t>& to, const __gm__ void* gm, int row, int col, int useM, int useK, const uint64_t tilingPtr, const uint64_t) {
    GlobalTensor<half> from;
    from.SetGlobalBuffer((__gm__ half*)gm);
    const int32_t step = (int32_t)tilingPtr;  // every other row of a matrix with rows of `step`
    DataCopy(to.ReinterpretCast<half>(), from[row * 32 * 2 * step + col * 32], Nd2NzParams(1, useM, useK, 0, 2 * step, (useM + 15) / 16 * 16, 1, 0));
}
ENTRY(every_other_row) {
    MIXED;
    TENSORS;
    Matmul<Gm, Gm, GmF, GmF, CFG_NORM, MatmulCallBackFunc<nullptr, CopyA, nullptr>> mm;
    REGIST_MATMUL_OBJ(&pipe, GetSysWorkSpacePtr(), mm, &t);
    if (GetBlockIdx() != 0) return;
    mm.SetUserDefInfo(t.Ka);
    mm.SetTensorA(ag);
    mm.SetTensorB(bg);
    mm.IterateAll(cg);
    mm.End();
}
"""
)


@pytest.mark.slow
def test_callback_brings_in_a() -> None:
    m, k, n = 48, 80, 32
    rng = np.random.default_rng(8)
    a, b = rng.standard_normal((2 * m, k)).astype(np.float16), rng.standard_normal((k, n)).astype(np.float16)
    c, w = np.zeros((m, n), np.float32), np.zeros(1, np.float32)
    run = build(CALLBACK, "matmul_callback").every_other_row[1](a, b, c, w, cube_tiling(m, n, k))
    clean(run)
    close(c, a[::2], b, None)


def test_vector_cores_alone_are_told() -> None:
    text = SHARED.replace("MIXED", "KERNEL_TASK_TYPE_DEFAULT(KERNEL_TYPE_AIV_ONLY)")
    c, w = np.zeros((64, 64), np.float32), np.zeros(1, np.float32)
    a = np.zeros((64, 64), np.float16)
    run = build(text, "matmul_alone").alone[1](a, a, c, w, cube_tiling(64, 64, 64))
    assert [r.code for r in run.trace.reports] == ["matmul-without-cube-core"]
