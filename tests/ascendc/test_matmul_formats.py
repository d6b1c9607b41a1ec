"""Matmul objects with matrices in NZ, in L1 and as one value, constant tilings, atomic results, two masters."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from tests.ascendc.cube_tiling import cube_tiling
from tests.ascendc.test_cube_fixpipe import nd_of
from tests.ascendc.test_matmul_mixed import HEAD, build
from tests.ascendc.test_matmul_object import clean, close

ORACLES: dict[str, Callable[..., object]] = {}

FORMATS = (
    HEAD
    + """
#define CUBE KERNEL_TASK_TYPE_DEFAULT(KERNEL_TYPE_AIC_ONLY)
using Nz = MatmulType<TPosition::GM, CubeFormat::NZ, half>;
using NzT = MatmulType<TPosition::GM, CubeFormat::NZ, half, true>;
using NzF = MatmulType<TPosition::GM, CubeFormat::NZ, float>;
ENTRY(all_nz) {
    CUBE;
    TENSORS;
    MatmulImpl<Nz, NzT, NzF, GmF, CFG_MDL> mm;
    mm.Init(&t, &pipe);
    mm.SetTensorA(ag);
    mm.SetTensorB(bg, true);
    mm.IterateAll(cg);
    mm.End();
}
ENTRY(one_value) {
    CUBE;
    TENSORS;
    MatmulImpl<MatmulType<TPosition::GM, CubeFormat::SCALAR, half>, Gm, GmF, GmF> mm;
    mm.Init(&t, &pipe);
    mm.SetTensorA((half)0.5);
    mm.SetTensorB(bg);
    mm.IterateAll(cg);
    mm.IterateAll(cg, 1);
    mm.End();
}
constexpr MatmulConfig kShapes = GetMMConfig<MatmulConfigMode::CONFIG_NORM>(MatmulShapeParams{64, 80, 96, 32, 48, 32});
constexpr MatmulApiStaticTiling kConstant = GetMatmulApiTiling<Gm, Gm, GmF, GmF>(kShapes);
ENTRY(constant) {
    CUBE;
    TENSORS;
    MatmulImpl<Gm, Gm, GmF, GmF, kConstant> mm;
    mm.Init((TCubeTiling*)nullptr, &pipe);
    mm.SetOrgShape(t.M, t.N, t.Ka);
    mm.SetTensorA(ag);
    mm.SetTensorB(bg);
    while (mm.Iterate()) mm.GetTensorC(cg);
    mm.End();
}
"""
)


@pytest.fixture(scope="module")
def formats() -> object:
    # The task type stands in the text; the reader does not expand macros.
    return build(FORMATS.replace("CUBE;", "KERNEL_TASK_TYPE_DEFAULT(KERNEL_TYPE_AIC_ONLY);"), "matmul_formats")


def nz(x: np.ndarray) -> np.ndarray:
    """A stored matrix as columns of 16: fractals column by column."""
    rows, columns = (-(-s // 16) * 16 for s in x.shape)
    wide = np.zeros((rows, columns), x.dtype)
    wide[: x.shape[0], : x.shape[1]] = x
    return np.ascontiguousarray(wide.reshape(rows, columns // 16, 16).transpose(1, 0, 2)).ravel()


def test_all_matrices_in_nz(formats: object) -> None:
    m, k, n = 64, 96, 80
    rng = np.random.default_rng(1)
    a, b = rng.standard_normal((m, k)).astype(np.float16), rng.standard_normal((k, n)).astype(np.float16)
    c = np.zeros(m * n, np.float32)
    run = formats.all_nz[1](nz(a), nz(b.T), c, np.zeros(1, np.float32), cube_tiling(m, n, k, dbL0C=2))  # type: ignore[attr-defined]
    clean(run)
    close(nd_of(c, m, n, 16), a, b, None)


def test_one_value_for_a_and_atomic_addition(formats: object) -> None:
    m, k, n = 40, 64, 50
    b = np.random.default_rng(2).standard_normal((k, n)).astype(np.float16)
    c = np.zeros((m, n), np.float32)
    run = formats.one_value[1](np.zeros(1, np.float16), b, c, np.zeros(1, np.float32), cube_tiling(m, n, k))  # type: ignore[attr-defined]
    clean(run)
    close(c / 2, np.full((m, k), 0.5, np.float16), b, None)


def test_constants_instead_of_a_tiling(formats: object) -> None:
    m, k, n = 64, 96, 80
    rng = np.random.default_rng(3)
    a, b = rng.standard_normal((m, k)).astype(np.float16), rng.standard_normal((k, n)).astype(np.float16)
    c = np.zeros((m, n), np.float32)
    run = formats.constant[1](a, b, c, np.zeros(1, np.float32), cube_tiling(m, n, k))  # type: ignore[attr-defined]
    clean(run)
    close(c, a, b, None)


MASTERS = (
    HEAD
    + """
constexpr MatmulConfig kDual = GetNormalConfig(false, false, false, BatchMode::BATCH_LESS_THAN_L1, true, IterateOrder::UNDEF, ScheduleType::INNER_PRODUCT, true, true);
ENTRY(two_masters) {
    KERNEL_TASK_TYPE_DEFAULT(KERNEL_TYPE_MIX_AIC_1_1);
    TENSORS;
    Matmul<Gm, Gm, GmF, GmF, kDual> mm;
    REGIST_MATMUL_OBJ(&pipe, GetSysWorkSpacePtr(), mm, &t);
    mm.SetTensorA(ag);
    mm.SetTensorB(bg);
    mm.IterateAll(wg);
    mm.End();
    if ASCEND_IS_AIV {
        TBuf<TPosition::VECCALC> buffer;
        pipe.InitBuffer(buffer, t.M * t.N * 4);
        LocalTensor<float> x = buffer.Get<float>();
        DataCopy(x, wg, t.M * t.N);
        SetFlag<HardEvent::MTE2_V>(0);
        WaitFlag<HardEvent::MTE2_V>(0);
        Muls(x, x, 3.0f, t.M * t.N);
        SetFlag<HardEvent::V_MTE3>(0);
        WaitFlag<HardEvent::V_MTE3>(0);
        DataCopy(cg, x, t.M * t.N);
    }
}
"""
)


@pytest.mark.slow
def test_both_cores_run_the_same_call() -> None:
    m, k, n = 64, 64, 64
    rng = np.random.default_rng(4)
    a, b = rng.standard_normal((m, k)).astype(np.float16), rng.standard_normal((k, n)).astype(np.float16)
    c, w = np.zeros((m, n), np.float32), np.zeros((m, n), np.float32)
    run = build(MASTERS, "matmul_masters").two_masters[1](a, b, c, w, cube_tiling(m, n, k))
    clean(run)
    close(c / 3, a, b, None)
