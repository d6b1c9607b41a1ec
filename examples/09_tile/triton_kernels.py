"""Triton functions as their users have them; `tile.triton(file, name)` reads them, and triton need not be installed for that."""

import triton
import triton.language as tl


@triton.jit
def gather_kernel(ids_ptr, table_ptr, out_ptr, count, width, stride, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    """out[i, :] = table[ids[i], :]"""
    rows = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    columns = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)
    ids = tl.load(ids_ptr + rows, mask=rows < count, other=0)
    mask = (rows[:, None] < count) & (columns[None, :] < width)
    values = tl.load(table_ptr + ids[:, None] * stride + columns[None, :], mask=mask)
    tl.store(out_ptr + rows[:, None] * width + columns[None, :], values, mask=mask)


@triton.jit
def softmax_kernel(out_ptr, in_ptr, in_stride, out_stride, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    lanes = tl.arange(0, BLOCK)
    x = tl.load(in_ptr + row * in_stride + lanes, mask=lanes < columns, other=-float("inf"))
    e = tl.exp(x - tl.max(x, axis=0))
    tl.store(out_ptr + row * out_stride + lanes, e / tl.sum(e, axis=0), mask=lanes < columns)


@triton.jit
def matmul_kernel(
    a_ptr, b_ptr, c_ptr, M, N, K, stride_am, stride_ak, stride_bk, stride_bn, stride_cm, stride_cn,
    BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr,
):  # fmt: skip
    rows = tl.program_id(0) * BM + tl.arange(0, BM)
    columns = tl.program_id(1) * BN + tl.arange(0, BN)
    depth = tl.arange(0, BK)
    a_ptrs = a_ptr + rows[:, None] * stride_am + depth[None, :] * stride_ak
    b_ptrs = b_ptr + depth[:, None] * stride_bk + columns[None, :] * stride_bn
    acc = tl.zeros((BM, BN), dtype=tl.float32)
    for k in range(0, tl.cdiv(K, BK)):
        a = tl.load(a_ptrs, mask=(rows[:, None] < M) & (depth[None, :] < K - k * BK), other=0.0)
        b = tl.load(b_ptrs, mask=(depth[:, None] < K - k * BK) & (columns[None, :] < N), other=0.0)
        acc += tl.dot(a, b)
        a_ptrs += BK * stride_ak
        b_ptrs += BK * stride_bk
    mask = (rows[:, None] < M) & (columns[None, :] < N)
    tl.store(c_ptr + rows[:, None] * stride_cm + columns[None, :] * stride_cn, acc.to(tl.float16), mask=mask)
