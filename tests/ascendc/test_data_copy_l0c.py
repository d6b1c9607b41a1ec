"""DataCopy out of L0C on A2: the same bytes as Fixpipe, with the parameters that Fixpipe takes in registers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tests.ascendc.harness import kernels

KERNEL = r"""
extern "C" __global__ __aicore__ void leave(GM_ADDR x, GM_ADDR scales, GM_ADDR nd, GM_ADDR nz, GM_ADDR narrow, GM_ADDR by_column, int32_t m, int32_t n) {
    KERNEL_TASK_TYPE_DEFAULT(KERNEL_TYPE_AIC_ONLY);
    LocalTensor<float> l0c(TPosition::CO1, 0, 1024);
    GlobalTensor<float> xg, ndg, nzg;
    GlobalTensor<int8_t> narrowg, columng;
    GlobalTensor<uint64_t> scaleg;
    xg.SetGlobalBuffer((__gm__ float*)x); ndg.SetGlobalBuffer((__gm__ float*)nd); nzg.SetGlobalBuffer((__gm__ float*)nz);
    narrowg.SetGlobalBuffer((__gm__ int8_t*)narrow); columng.SetGlobalBuffer((__gm__ int8_t*)by_column); scaleg.SetGlobalBuffer((__gm__ uint64_t*)scales);
    for (int i = 0; i < 1024; ++i) l0c.SetValue(i, xg.GetValue(i));  // L0C by hand: this is about the way out
    const uint16_t rows = (m + 15) / 16 * 16;
    DataCopyCO12DstParams p(n, m, n, rows, QuantMode_t::NoQuant, 1, false, true);
    SetFixpipeNz2ndFlag(1, 1, 1);
    DataCopy(ndg, l0c, p);
    DataCopy(nzg, l0c, DataCopyCO12DstParams(n, m, rows * 2, rows, QuantMode_t::NoQuant, 0, false, false));
    float scale = 0.5f;
    SetFixpipePreQuantFlag(static_cast<uint64_t>(*reinterpret_cast<int32_t*>(&scale)) | 1ull << 46);
    p.quantPre = QuantMode_t::QF322B8_PRE;
    p.reluPre = 0;
    DataCopy(narrowg, l0c, p);
    LocalTensor<uint64_t> l1(TPosition::C1, 0, 64), fix(TPosition::C2PIPE2GM, 0, 64);
    DataCopy(l1, scaleg, 64);
    PipeBarrier<PIPE_ALL>();
    DataCopy(fix, l1, DataCopyParams(1, 4, 0, 0));
    PipeBarrier<PIPE_ALL>();
    SetFixPipeConfig(fix);
    p.quantPre = QuantMode_t::VQF322B8_PRE;
    DataCopy(columng, l0c, p);
}
"""


def matrix(l0c: np.ndarray, m: int, n: int) -> np.ndarray:
    """L0C holds columns of 16, each with whole groups of 16 rows."""
    rows = -(-m // 16) * 16
    return l0c[: rows * n].reshape(n // 16, rows, 16).transpose(1, 0, 2).reshape(rows, n)[:m]


ORACLES: dict[str, Callable[..., Any]] = dict.fromkeys(
    ("SetFixpipeNz2ndFlag", "SetFixpipePreQuantFlag", "SetFixPipeConfig"), matrix
)


def test_l0c_leaves_as_nd_as_nz_and_scaled() -> None:
    m, n = 20, 32
    x = np.random.default_rng(0).normal(0, 50, 1024).astype(np.float32)
    column = np.linspace(0.25, 2, n).astype(np.float32)
    column = (column.view(np.uint32) & 0xFFFFE000).view(np.float32)  # the unit keeps ten bits of the mantissa
    scales = np.zeros(64, np.uint64)
    scales[:n] = column.view(np.uint32) | np.uint64(1 << 46)
    nd, nz = np.zeros((m, n), np.float32), np.zeros(1024, np.float32)
    narrow, by_column = np.zeros((m, n), np.int8), np.zeros((m, n), np.int8)
    run = kernels(KERNEL, "data_copy_l0c").leave[1](x, scales, nd, nz, narrow, by_column, m, n)
    assert not run.trace.reports
    whole = matrix(x, m, n)
    np.testing.assert_array_equal(nd, np.maximum(whole, 0))
    np.testing.assert_array_equal(matrix(nz, m, n), whole)
    np.testing.assert_array_equal(narrow, np.clip(np.rint(whole * np.float32(0.5)), -128, 127))
    np.testing.assert_array_equal(by_column, np.clip(np.rint(whole * column), -128, 127))
