"""Paths of Matmul objects beside the common ones: results taken later, series of batches, A kept in L1, HF32, 4:2 sparse B, triangles, and what the chip has not."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from tests.ascendc.cube_tiling import cube_tiling
from tests.ascendc.harness import sparse_right
from tests.ascendc.test_matmul_mixed import HEAD, build
from tests.ascendc.test_matmul_object import clean, close
from toprope.errors import CompileFailed

ORACLES: dict[str, Callable[..., object]] = dict.fromkeys(
    [
        "SparseMatmulType",
        "MatmulPolicy",
        "TrianUpperMatmulPolicy",
        "TrianLowerMatmulPolicy",
        "NBuffer33MatmulPolicy",
    ],
    np.matmul,
)
CUBE = "KERNEL_TASK_TYPE_DEFAULT(KERNEL_TYPE_AIC_ONLY);"

# The block of one Iterate comes into UB while the vector core doubles the block before.
LATER = (
    HEAD
    + """
ENTRY(later) {
    MIXED;
    TENSORS;
    Matmul<Gm, Gm, MatmulType<TPosition::VECIN, CubeFormat::ND, float>, GmF> mm;
    REGIST_MATMUL_OBJ(&pipe, GetSysWorkSpacePtr(), mm, &t);
    if (GetSubBlockIdx() != 0) return;
    TQue<TPosition::VECOUT, 2> out;
    pipe.InitBuffer(out, 2, t.baseM * t.baseN * 4);
    mm.SetTensorA(ag);
    mm.SetTensorB(bg);
    while (mm.Iterate()) {
        const MatrixOffset at = mm.GetOffsetC();
        LocalTensor<float> block = out.AllocTensor<float>();
        mm.AsyncGetTensorC(block);
        mm.WaitGetTensorC();
        Muls(block, block, 2.0f, t.baseM * t.baseN);
        out.EnQue(block);
        block = out.DeQue<float>();
        DataCopy(cg[at.offset], block, DataCopyParams(t.baseM, t.baseN / 8, 0, (t.N - t.baseN) / 8));
        out.FreeTensor(block);
    }
    mm.End();
}
"""
)


def test_result_fetched_later() -> None:
    rng = np.random.default_rng(1)
    a, b = rng.standard_normal((64, 96)).astype(np.float16), rng.standard_normal((96, 64)).astype(np.float16)
    c, w = np.zeros((64, 64), np.float32), np.zeros(1, np.float32)
    run = build(LATER, "matmul_later").later[1](a, b, c, w, cube_tiling(64, 64, 96))
    clean(run)
    close(c / 2, a, b, None)
    assert w[0] == 0, "the workspace is not needed"


SERIES = (
    HEAD
    + """
ENTRY(series) {
    MIXED;
    TENSORS;
    using In = MatmulType<TPosition::GM, CubeFormat::ND, half, false, LayoutMode::NORMAL>;
    using Out = MatmulType<TPosition::GM, CubeFormat::ND, float, false, LayoutMode::NORMAL>;
    constexpr static MatmulConfig kSeries = GetNormalConfig(false, true);
    Matmul<In, In, Out, Out, kSeries> mm;
    REGIST_MATMUL_OBJ(&pipe, GetSysWorkSpacePtr(), mm, &t);
    if (GetSubBlockIdx() != 0) return;
    mm.SetTensorA(ag);
    mm.SetTensorB(bg);
    mm.SetWorkspace(wg);
    mm.IterateNBatch(3, 2, 2, false);
    TBuf<TPosition::VECCALC> room;
    pipe.InitBuffer(room, t.M * t.N * 8);
    LocalTensor<float> two = room.Get<float>();
    for (int32_t loop = 0; loop < 3; ++loop) {
        GlobalTensor<float> from = mm.GetBatchTensorC(2, 2);
        DataCopy(two, from, t.M * t.N * 2);
        SetFlag<HardEvent::MTE2_MTE3>(EVENT_ID0);
        WaitFlag<HardEvent::MTE2_MTE3>(EVENT_ID0);
        DataCopy(cg[loop * t.M * t.N * 2], two, t.M * t.N * 2);
        SetFlag<HardEvent::MTE3_MTE2>(EVENT_ID0);
        WaitFlag<HardEvent::MTE3_MTE2>(EVENT_ID0);
    }
    mm.End();
}
"""
)


@pytest.mark.slow
def test_series_of_batches() -> None:
    rng = np.random.default_rng(2)
    a, b = (rng.standard_normal((6, 32, 48)).astype(np.float16), rng.standard_normal((6, 48, 32)).astype(np.float16))
    c, w = np.zeros((6, 32, 32), np.float32), np.zeros((6, 32, 32), np.float32)
    run = build(SERIES, "matmul_series").series[1](a, b, c, w, cube_tiling(32, 32, 48, batchM=2, batchN=2))
    clean(run)
    for i in range(6):
        close(c[i], a[i], b[i], None)
    assert np.array_equal(w, c), "the batches come through the workspace"


# A in L1 for as long as the kernel wants it (TSCM), in NZ.
RESIDENT = (
    HEAD
    + """
ENTRY(resident) {
    CUBE
    TENSORS;
    MatmulImpl<MatmulType<TPosition::TSCM, CubeFormat::NZ, half>, Gm, GmF, GmF> mm;
    TSCM<TPosition::GM, 1> kept;
    pipe.InitBuffer(kept, 1, t.M * t.Ka * 2);
    mm.Init(&t, &pipe);
    LocalTensor<half> in = kept.AllocTensor<half>();
    DataCopy(in, ag, Nd2NzParams(1, t.M, t.Ka, 0, t.Ka, t.M, 1, 0));
    kept.EnQue(in);
    LocalTensor<half> left = kept.DeQue<half>();
    mm.SetTensorA(left);
    for (int32_t n = 0; n < 2; ++n) {
        mm.SetTensorB(bg[n * t.Kb * t.N]);
        mm.IterateAll(cg[n * t.M * t.N]);
    }
    mm.End();
    kept.FreeTensor(left);
}
"""
)


@pytest.mark.slow
def test_left_matrix_kept_in_l1() -> None:
    rng = np.random.default_rng(3)
    a, b = rng.standard_normal((64, 96)).astype(np.float16), rng.standard_normal((2, 96, 64)).astype(np.float16)
    c, w = np.zeros((2, 64, 64), np.float32), np.zeros(1, np.float32)
    run = build(RESIDENT.replace("CUBE\n", CUBE), "matmul_resident").resident[1](a, b, c, w, cube_tiling(64, 64, 96))
    clean(run)
    for i in range(2):
        close(c[i], a, b[i], None)
    names = [run.trace.ops[i].name for i in run.trace.instrs["op"]]
    assert names.count("DataCopy(ND2NZ)") == 1 + names.count("Matmul load"), "pieces of B, and A once"


# Element types of their own: HF32 of float operands, and the two triangles.
ROUNDED = (
    HEAD.replace("half", "float")
    + """
ENTRY(rounded) {
    CUBE
    TENSORS;
    MatmulImpl<Gm, Gm, GmF, GmF> mm;
    mm.Init(&t, &pipe);
    mm.SetHF32(t.shareMode != 0, t.shareMode - 1);
    mm.SetTensorA(ag);
    mm.SetTensorB(bg);
    mm.IterateAll(cg);
    mm.End();
}
"""
)


def hf32(x: np.ndarray, ties_to_zero: bool) -> np.ndarray:
    """Eleven bits of mantissa and one hidden, nearest; ties to the even neighbour or to zero."""
    bits = x.view(np.uint32).astype(np.uint64)
    up = 0x7FF if ties_to_zero else 0x7FF + (bits >> np.uint64(12) & np.uint64(1))
    return ((bits + np.uint64(1) * up) & np.uint64(0xFFFFF000)).astype(np.uint32).view(np.float32)


@pytest.mark.parametrize("mode", [0, 1, 2])
def test_hf32(mode: int) -> None:
    rng = np.random.default_rng(4)
    a, b = rng.standard_normal((32, 32)).astype(np.float32), np.eye(32, dtype=np.float32)
    a.view(np.uint32)[0] = (a.view(np.uint32)[0] & 0xFFFFF000) | 0x800  # ties
    c, w = np.zeros((32, 32), np.float32), np.zeros(1, np.float32)
    kernel = build(ROUNDED.replace("CUBE\n", CUBE), "matmul_rounded").rounded
    clean(kernel[1](a, b, c, w, cube_tiling(32, 32, 32, shareMode=mode)))
    assert np.array_equal(c, a if mode == 0 else hf32(a, mode == 2))


TRIANGLES = (
    HEAD
    + """
template <template <const auto&, typename...> class Policy> __aicore__ inline void Triangle(GM_ADDR a, GM_ADDR b, GM_ADDR c, GM_ADDR w, GM_ADDR tilingGm) {
    TENSORS;
    MatmulImpl<Gm, Gm, GmF, GmF, CFG_NORM, MatmulCallBackFunc<nullptr, nullptr, nullptr>, Policy> mm;
    mm.Init(&t, &pipe);
    mm.SetTensorA(ag);
    mm.SetTensorB(bg);
    mm.IterateAll(cg);
    mm.End();
}
ENTRY(upper) { CUBE Triangle<AscendC::Impl::Detail::TrianUpperMatmulPolicy>(a, b, c, w, tilingGm); }
ENTRY(lower) { CUBE Triangle<AscendC::Impl::Detail::TrianLowerMatmulPolicy>(a, b, c, w, tilingGm); }
"""
)


@pytest.mark.slow
@pytest.mark.parametrize("which", ["upper", "lower"])
def test_triangle_policies(which: str) -> None:
    rng = np.random.default_rng(5)
    a, b = rng.standard_normal((96, 32)).astype(np.float16), rng.standard_normal((32, 96)).astype(np.float16)
    c, w = np.full((96, 96), -7, np.float32), np.zeros(1, np.float32)
    run = build(TRIANGLES.replace("CUBE ", CUBE), "matmul_triangles")[which][1](a, b, c, w, cube_tiling(96, 96, 32))
    clean(run)
    gold = a.astype(np.float64) @ b.astype(np.float64)
    for i in range(0, 96, 32):
        for j in range(0, 96, 32):
            block = c[i : i + 32, j : j + 32]
            if (j >= i) if which == "upper" else (i >= j):
                assert np.allclose(block, gold[i : i + 32, j : j + 32], atol=1e-4)
            else:
                assert np.all(block == -7)  # neither computed nor stored


# B without the two zeros of every four, stored transposed; the index has two bits for each element that is left.
SPARSE = (
    HEAD
    + """
ENTRY(sparse) {
    CUBE
    GET_TILING_DATA_WITH_STRUCT(TCubeTiling, t, tilingGm);
    TPipe pipe;
    GlobalTensor<int8_t> ag, bg;
    GlobalTensor<int32_t> cg, biasg;
    GlobalTensor<uint8_t> ig;
    ag.SetGlobalBuffer((__gm__ int8_t*)a);
    bg.SetGlobalBuffer((__gm__ int8_t*)b);
    cg.SetGlobalBuffer((__gm__ int32_t*)c);
    ig.SetGlobalBuffer((__gm__ uint8_t*)w);
    biasg.SetGlobalBuffer((__gm__ int32_t*)(w + t.shareMode));
    using AT = MatmulType<TPosition::GM, CubeFormat::ND, int8_t>;
    using BT = SparseMatmulType<TPosition::GM, TPosition::GM, CubeFormat::ND, int8_t, true>;
    using CT = MatmulType<TPosition::GM, CubeFormat::ND, int32_t>;
    MatmulImpl<AT, BT, CT, CT, CFG_MDL> mm;
    mm.Init(&t, &pipe);
    mm.SetTensorA(ag);
    mm.SetTensorB(bg, true);
    mm.SetSparseIndex(ig);
    mm.SetBias(biasg);
    mm.IterateAll(cg);
    mm.End();
}
"""
)


@pytest.mark.parametrize("m,k,n", [(32, 64, 32), (70, 192, 80)])
def test_sparse_right_matrix(m: int, k: int, n: int) -> None:
    rng = np.random.default_rng(k)
    a, bias = rng.integers(-128, 128, (m, k)).astype(np.int8), rng.integers(-999, 999, n).astype(np.int32)
    full, dense, bits = sparse_right(rng, k, n)
    c = np.zeros((m, n), np.int32)
    tiling = cube_tiling(
        m, n, k, baseK=64, stepKa=2, stepKb=2, stepN=2, depthA1=4, depthB1=8, isBias=1, shareMode=bits.size
    )
    kernel = build(SPARSE.replace("CUBE\n", CUBE), "matmul_sparse").sparse
    clean(kernel[1](a, np.ascontiguousarray(dense.T), c, np.concatenate([bits, bias.view(np.uint8)]), tiling))
    assert np.array_equal(c, a.astype(np.int64) @ full.astype(np.int64) + bias)


REFUSED = (
    HEAD
    + """
ENTRY(refused) {
    CUBE
    TENSORS;
    MatmulImpl<Gm, Gm, GmF, GmF> mm;
    mm.Init(&t, &pipe);
    CALL
    mm.IterateAll(cg);
}
"""
)


@pytest.mark.parametrize(
    "call,soc,words",
    [
        ("mm.SetAntiQuantScalar((half)1, (half)2);", "ascend910b1", "half by int8_t on 310P only"),
        ("mm.SetSparseIndex(GlobalTensor<uint8_t>());", "ascend910b1", "must be a SparseMatmulType"),
        ("", "ascend310p3", "objects on this chip are not supported yet"),
    ],
)
def test_refused_with_a_reason(call: str, soc: str, words: str) -> None:
    kernel = build(REFUSED.replace("CUBE\n", CUBE).replace("CALL", call), "matmul_refused").refused
    x = np.zeros((32, 32), np.float16)
    with pytest.raises(CompileFailed, match=words):
        kernel[1](x, x, x.astype(np.float32), x, cube_tiling(32, 32, 32), soc=soc)
