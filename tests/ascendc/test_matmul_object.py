"""The Matmul object on the cube core itself: element types, formats, transposes, bias, quantisation, tails, splits, batches."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import numpy.typing as npt
import pytest

from tests.ascendc.cube_tiling import cube_tiling
from tests.ascendc.harness import kernels
from toprope.kernel import KernelFile, Run

NAMES = [
    "Matmul",
    "MatmulImpl",
    "MatmulType",
    "REGIST_MATMUL_OBJ",
    "GetNormalConfig",
    "GetMDLConfig",
    "GetSpecialMDLConfig",
    "GetIBShareNormConfig",
    "GetBasicConfig",
    "GetSpecialBasicConfig",
    "GetMMConfig",
    "GetMatmulApiTiling",
    "MatmulCallBackFunc",
]
ORACLES: dict[str, Callable[..., object]] = dict.fromkeys(NAMES, np.matmul)

HEAD = """
#include "lib/matmul_intf.h"
template <typename A, typename C, typename Bias, bool ta, bool tb, CubeFormat AF, CubeFormat BF, CubeFormat CF, const auto& CFG>
__aicore__ inline void Product(GM_ADDR a, GM_ADDR b, GM_ADDR bias, GM_ADDR quant, GM_ADDR c, GM_ADDR tilingGm, int32_t order) {
    GET_TILING_DATA_WITH_STRUCT(TCubeTiling, t, tilingGm);
    TPipe pipe;
    using AT = MatmulType<TPosition::GM, AF, A, ta>;
    using BT = MatmulType<TPosition::GM, BF, A, tb>;
    using CT = MatmulType<TPosition::GM, CF, C>;
    Matmul<AT, BT, CT, MatmulType<TPosition::GM, CubeFormat::ND, Bias>, CFG> mm;
    REGIST_MATMUL_OBJ(&pipe, GetSysWorkSpacePtr(), mm, &t);
    GlobalTensor<A> ag, bg;
    GlobalTensor<C> cg;
    GlobalTensor<Bias> biasg;
    GlobalTensor<uint64_t> qg;
    ag.SetGlobalBuffer((__gm__ A*)a);
    bg.SetGlobalBuffer((__gm__ A*)b);
    cg.SetGlobalBuffer((__gm__ C*)c);
    biasg.SetGlobalBuffer((__gm__ Bias*)bias);
    qg.SetGlobalBuffer((__gm__ uint64_t*)quant);
    const int32_t perM = (t.M + t.singleCoreM - 1) / t.singleCoreM, perN = (t.N + t.singleCoreN - 1) / t.singleCoreN;
    if (GetBlockIdx() >= perM * perN) return;
    const int64_t m0 = GetBlockIdx() % perM * t.singleCoreM, n0 = GetBlockIdx() / perM * t.singleCoreN;
    mm.SetTensorA(ag[ta ? m0 : m0 * t.Ka], ta);
    mm.SetTensorB(bg[tb ? n0 * t.Kb : n0], tb);
    if (t.isBias) mm.SetBias(biasg[n0]);
    if (order == 1) mm.SetQuantScalar(*(__gm__ uint64_t*)quant);
    if (order == 2) mm.SetQuantVector(qg[n0]);
    const int32_t tailM = t.M - m0, tailN = t.N - n0;
    mm.SetTail(tailM < t.singleCoreM ? tailM : t.singleCoreM, tailN < t.singleCoreN ? tailN : t.singleCoreN, t.Ka);
    mm.IterateAll(cg[m0 * t.N + n0]);
    mm.End();
}
"""
FORMATS = "ND, ND, ND"
BF16 = ml_dtypes.bfloat16
# name: element types of A, C, bias; transposes; template
CASES: dict[str, tuple[str, str, str, bool, bool, str]] = {
    "h_f_nn": ("half", "float", "float", False, False, "CFG_NORM"),
    "h_f_nt": ("half", "float", "float", False, True, "CFG_MDL"),
    "h_f_tn": ("half", "float", "half", True, False, "CFG_MDL"),
    "h_h_tt": ("half", "half", "float", True, True, "CFG_NORM"),
    "b_b_nn": ("bfloat16_t", "bfloat16_t", "float", False, False, "CFG_MDL"),
    "b_f_nt": ("bfloat16_t", "float", "float", False, True, "CFG_NORM"),
    "f_f_nn": ("float", "float", "float", False, False, "CFG_NORM"),
    "f_f_tt": ("float", "float", "float", True, True, "CFG_MDL"),
    "i_i_nn": ("int8_t", "int32_t", "int32_t", False, False, "CFG_NORM"),
    "i_i_nt": ("int8_t", "int32_t", "int32_t", False, True, "CFG_MDL"),
    "i_i_tn": ("int8_t", "int32_t", "int32_t", True, False, "CFG_MDL"),
    "i_h_nt": ("int8_t", "half", "int32_t", False, True, "CFG_NORM"),
    "i_i8_nt": ("int8_t", "int8_t", "int32_t", False, True, "CFG_NORM"),
}
NUMPY: dict[str, Any] = {
    "half": np.float16, "bfloat16_t": BF16, "float": np.float32, "int8_t": np.int8, "int32_t": np.int32,
}  # fmt: skip


def entry(name: str) -> str:
    a, c, bias, ta, tb, config = CASES[name]
    head = 'extern "C" __global__ __aicore__ void ' + name
    return (
        f"{head}(GM_ADDR a, GM_ADDR b, GM_ADDR bias, GM_ADDR q, GM_ADDR c, GM_ADDR t, int32_t o) {{\n"
        f"    KERNEL_TASK_TYPE_DEFAULT(KERNEL_TYPE_AIC_ONLY);\n"
        f"    Product<{a}, {c}, {bias}, {str(ta).lower()}, {str(tb).lower()}, CubeFormat::ND, CubeFormat::ND, CubeFormat::ND, {config}>"
        f"(a, b, bias, q, c, t, o);\n}}\n"
    )


def build(name: str) -> KernelFile:
    """One kernel a file: each object compiles for about two seconds."""
    return kernels(HEAD + entry(name), f"matmul_{name}")


def clean(run: Run) -> None:
    assert not [r for r in run.trace.reports], run.trace.reports
    found = [(f.code, f.message) for f in run.findings if f.severity != "advice"]
    assert not found, found[:4]


def operands(kind: str, m: int, k: int, n: int, seed: int) -> tuple[Any, Any, Any]:
    rng = np.random.default_rng(seed)
    dtype = NUMPY[kind]
    if dtype is np.int8:
        return (
            rng.integers(-128, 128, (m, k)).astype(np.int8),
            rng.integers(-128, 128, (k, n)).astype(np.int8),
            rng.integers(-9999, 9999, n).astype(np.int32),
        )
    return rng.standard_normal((m, k)).astype(dtype), rng.standard_normal((k, n)).astype(dtype), rng.standard_normal(n)


def close(c: npt.NDArray[Any], a: npt.NDArray[Any], b: npt.NDArray[Any], bias: Any) -> None:
    gold = a.astype(np.float64) @ b.astype(np.float64) + (0 if bias is None else bias.astype(np.float64))
    if c.dtype == np.int32:
        assert np.array_equal(c, gold.astype(np.int64))
        return
    scale = np.abs(a.astype(np.float64)) @ np.abs(b.astype(np.float64)) + 1
    step = {np.dtype(np.float32): 3e-7, np.dtype(np.float16): 5e-4, np.dtype(BF16): 4e-3}[c.dtype]
    assert np.all(np.abs(c.astype(np.float64) - gold) <= step * scale), np.abs(c.astype(np.float64) - gold).max()


SHAPES = [
    (64, 64, 64, {}),
    (100, 70, 90, {"singleCoreM": 48, "singleCoreN": 64, "iterateOrder": 1}),
    (
        33,
        200,
        47,
        {"baseM": 48, "baseN": 64, "baseK": 64, "dbL0C": 2, "stepKa": 2, "stepKb": 1, "depthA1": 4, "depthB1": 3},
    ),
    (1, 96, 130, {"baseM": 16, "baseN": 128, "baseK": 32, "dbL0A": 1}),
    (130, 31, 40, {"baseM": 64, "stepM": 2, "depthA1": 4, "dbL0C": 2}),
]


SLOW = {"h_h_tt", "b_f_nt", "f_f_tt", "i_i_nt", "i_i_tn", "i_h_nt"}
PLAIN = [pytest.param(n, marks=pytest.mark.slow) if n in SLOW else n for n in CASES if n not in {"i_h_nt", "i_i8_nt"}]


@pytest.mark.parametrize("name", PLAIN)
@pytest.mark.parametrize("m,k,n,fields", SHAPES)
@pytest.mark.parametrize("with_bias", [False, True])
def test_against_float64(name: str, m: int, k: int, n: int, fields: dict[str, int], with_bias: bool) -> None:
    a_type, c_type, bias_type, ta, tb, _ = CASES[name]
    a, b, bias = operands(a_type, m, k, n, m + k + n)
    bias = bias.astype(NUMPY[bias_type])
    tiling = cube_tiling(m, n, k, isBias=int(with_bias), **fields)
    c = np.zeros((m, n), NUMPY[c_type])
    blocks = -(-m // fields.get("singleCoreM", m)) * -(-n // fields.get("singleCoreN", n))
    stored = [np.ascontiguousarray(x.T) if turned else x for x, turned in ((a, ta), (b, tb))]
    run = build(name)[name][blocks](*stored, bias, np.zeros(1, np.uint64), c, tiling, 0)
    clean(run)
    close(c, a, b, bias if with_bias else None)


def factor(values: npt.NDArray[np.float32]) -> npt.NDArray[np.uint64]:
    """Quantisation factors as the hardware holds them: 10 bits of mantissa."""
    return (values.astype(np.float32).view(np.uint32) & np.uint32(0xFFFFE000)).astype(np.uint64)


@pytest.mark.parametrize("vector", [False, True])
@pytest.mark.parametrize("name", [pytest.param("i_h_nt", marks=pytest.mark.slow), "i_i8_nt"])
def test_quantised_results(name: str, vector: bool) -> None:
    m, k, n = 40, 96, 70
    a, b, _ = operands("int8_t", m, k, n, 5)
    rng = np.random.default_rng(1)
    quant = factor(rng.uniform(1e-4, 3e-3, n if vector else 1).astype(np.float32))
    if name == "i_i8_nt":
        quant |= np.uint64(1) << np.uint64(46)  # signed
    c = np.zeros((m, n), NUMPY[CASES[name][1]])
    run = build(name)[name][1](
        a, np.ascontiguousarray(b.T), np.zeros(1, np.int32), quant, c, cube_tiling(m, n, k), 2 if vector else 1
    )
    clean(run)
    scaled = (a.astype(np.int64) @ b.astype(np.int64)).astype(np.float32) * quant.astype(np.uint32).view(np.float32)
    gold = scaled.astype(np.float16) if name == "i_h_nt" else np.clip(np.rint(scaled), -128, 127).astype(np.int8)
    assert np.array_equal(c, gold)
