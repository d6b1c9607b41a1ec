"""Triton functions in the shapes that public kernels have: loops, branches, helpers, mixed element types. Read as text; triton is not needed."""

import triton
import triton.language as tl
from triton.language.extra.libdevice import tanh

IGNORED = tl.constexpr(-100)


@triton.jit
def logistic(x):
    return x * tl.sigmoid(x)


@triton.jit
def standardise(x, mean, rstd, USE_MEAN: tl.constexpr = True):
    if USE_MEAN:
        x = x - mean
    return x * rstd


@triton.jit
def norm_rows(x_ptr, w_ptr, skip_ptr, y_ptr, rstd_ptr, rows, n, eps, BLOCK: tl.constexpr, LANES: tl.constexpr = 4):
    """Rows dealt out with a stride; long rows in blocks; a row whose entry in skip_ptr is IGNORED becomes zero."""
    first, step = tl.program_id(0), tl.num_programs(0)
    for row in tl.range(first, rows, step):
        start = row * n
        if tl.load(skip_ptr + row) == IGNORED:
            for at in range(0, n, BLOCK):
                cols = at + tl.arange(0, BLOCK)
                tl.store(y_ptr + start + cols, 0.0, mask=cols < n)
            tl.store(rstd_ptr + row, 0.0)
        else:
            total = 0.0
            squares = tl.zeros([BLOCK], dtype=tl.float32)
            for at in range(0, tl.cdiv(n, BLOCK)):
                cols = at * BLOCK + tl.arange(0, BLOCK)
                x = tl.load(x_ptr + start + cols, mask=cols < n, other=0.0, eviction_policy="evict_last").to(tl.float32)
                total += tl.sum(x, axis=0)
                squares += x * x
            mean = total / n
            rstd = tl.rsqrt(tl.sum(squares) / n - mean * mean + eps)
            tl.store(rstd_ptr + row, rstd)
            for at in range(0, n, BLOCK):
                cols = at + tl.arange(0, BLOCK)
                mask = cols < n
                x = tl.load(x_ptr + start + cols, mask=mask, other=0.0).to(tl.float32)
                w = tl.load(w_ptr + cols, mask=mask, other=0.0)
                tl.store(y_ptr + start + cols, logistic(standardise(x, mean, rstd) * w), mask=mask)


@triton.jit
def cross_entropy(x_ptr, label_ptr, loss_ptr, n, scale, BLOCK: tl.constexpr):
    """Loss of each row, and the gradient in place of the row: online softmax over blocks."""
    row = tl.program_id(0)
    x_ptr += row * n
    label = tl.load(label_ptr + row)
    if label == IGNORED:
        for at in range(0, n, BLOCK):
            cols = at + tl.arange(0, BLOCK)
            tl.store(x_ptr + cols, 0.0, mask=cols < n)
        tl.store(loss_ptr + row, 0.0)
        return
    high, total = float("-inf"), 0.0
    chosen = tl.load(x_ptr + label).to(tl.float32)
    for at in range(0, n, BLOCK):
        cols = at + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + cols, mask=cols < n, other=float("-inf")).to(tl.float32)
        higher = tl.maximum(high, tl.max(x))
        total = total * tl.exp(high - higher) + tl.sum(tl.exp(x - higher))
        high = higher
    for at in range(0, n, BLOCK):
        cols = at + tl.arange(0, BLOCK)
        x = tl.load(x_ptr + cols, mask=cols < n, other=float("-inf")).to(tl.float32)
        p = tl.exp(x - high) / total
        tl.store(x_ptr + cols, tl.where(cols == label, p - 1.0, p) * scale, mask=cols < n)
    tl.debug_barrier()
    tl.store(loss_ptr + row, high + tl.log(total) - chosen)


@triton.jit
def rotate(q_ptr, cos_ptr, sin_ptr, length, HEADS: tl.constexpr, WIDTH: tl.constexpr):
    """Rotary embedding in place: heads by halves of a head, positions by %."""
    token = tl.program_id(0)
    position = token % length
    half = tl.arange(0, WIDTH // 2)
    offsets = tl.arange(0, HEADS)[:, None] * WIDTH + half[None, :]
    cos = tl.load(cos_ptr + position * (WIDTH // 2) + half)
    sin = tl.load(sin_ptr + position * (WIDTH // 2) + half)
    q_ptr += token * HEADS * WIDTH
    a = tl.load(q_ptr + offsets)
    b = tl.load(q_ptr + offsets + WIDTH // 2)
    tl.store(q_ptr + offsets, a * cos - b * sin)
    tl.store(q_ptr + offsets + WIDTH // 2, b * cos + a * sin)


@triton.jit
def rotate_pairs(x_ptr, cos_ptr, sin_ptr, y_ptr, half, BLOCK: tl.constexpr):
    """Rotary embedding of neighbours: elements that lie two apart."""
    row, k = tl.program_id(0), tl.arange(0, BLOCK)
    mask = k < half
    a = tl.load(x_ptr + row * 2 * half + 2 * k, mask=mask, other=0.0)
    b = tl.load(x_ptr + row * 2 * half + 2 * k + 1, mask=mask, other=0.0)
    cos = tl.load(cos_ptr + row * half + k, mask=mask, other=0.0)
    sin = tl.load(sin_ptr + row * half + k, mask=mask, other=0.0)
    tl.store(y_ptr + row * 2 * half + 2 * k, a * cos - b * sin, mask=mask)
    tl.store(y_ptr + row * 2 * half + 2 * k + 1, a * sin + b * cos, mask=mask)


@triton.jit
def quantise(x_ptr, q_ptr, scale_ptr, top_ptr, n, BLOCK: tl.constexpr):
    """int8 with one scale for each row, and where the row's largest element stands."""
    row, cols = tl.program_id(0), tl.arange(0, BLOCK)
    mask = cols < n
    x = tl.load(x_ptr + row * n + cols, mask=mask, other=0.0).to(tl.float32)
    scale = tl.maximum(tl.max(tl.abs(x), axis=0), 1e-8) / 127.0
    q = tl.clamp(tl.math.floor(x / scale + 0.5), -128.0, 127.0)
    tl.store(q_ptr + row * n + cols, q.to(tl.int8), mask=mask)
    tl.store(scale_ptr + row, scale)
    tl.store(top_ptr + row, tl.argmax(tl.where(mask, x, float("-inf")), axis=0))


@triton.jit
def mixed(h_ptr, b_ptr, f_ptr, i_ptr, y_ptr, n, s, BLOCK: tl.constexpr):
    """Every pair of element types that Triton lets meet."""
    offs = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offs < n
    h = tl.load(h_ptr + offs, mask=mask, other=0)
    b = tl.load(b_ptr + offs, mask=mask, other=0)
    f = tl.load(f_ptr + offs, mask=mask, other=0)
    i = tl.load(i_ptr + offs, mask=mask, other=0)
    y = h * f + i * h + b * 2 + h * b + i * 0.5 + i * s + h / 3 + i / n + tanh(f)
    y += tl.where(i == 2, h, f) + (i > 3).to(tl.float32) + tl.minimum(i, 4)
    y = tl.where((offs >= 7) & (i != 1), y, -y)
    tl.store(y_ptr + offs, y, mask=mask)


@triton.jit
def causal_softmax(x_ptr, y_ptr, rows, n, scale, R: tl.constexpr, BLOCK: tl.constexpr):
    """Rows of scores up to the diagonal."""
    r = tl.program_id(0) * R + tl.arange(0, R)
    c = tl.arange(0, BLOCK)
    mask = (r[:, None] < rows) & (c[None, :] < n)
    x = tl.load(x_ptr + r[:, None] * n + c[None, :], mask=mask, other=float("-inf"))
    x = tl.where(r[:, None] >= c[None, :], x * scale, float("-inf"))
    e = tl.exp(x - tl.max(x, 1)[:, None])
    tl.store(y_ptr + r[:, None] * n + c[None, :], e / tl.sum(e, 1)[:, None], mask=mask)


@triton.jit
def column_sums(x_ptr, y_ptr, rows, n, R: tl.constexpr, C: tl.constexpr):
    """Sums over rows: a block of rows and columns carried over a loop."""
    c = tl.program_id(0) * C + tl.arange(0, C)
    total = tl.zeros((R, C), dtype=tl.float32)
    for at in range(0, rows, R):
        r = at + tl.arange(0, R)
        mask = (r[:, None] < rows) & (c[None, :] < n)
        total += tl.load(x_ptr + r[:, None] * n + c[None, :], mask=mask, other=0.0)
    tl.store(y_ptr + c, tl.sum(total, axis=0), mask=c < n)


@triton.autotune(
    configs=[triton.Config({"BM": m, "BN": 64, "BK": 32, "GROUP": 2}, num_warps=4) for m in (32, 64, 8192)],
    key=["M", "N", "K"],
)
@triton.jit
def grouped_matmul(
    a_ptr, b_ptr, c_ptr, M, N, K, stride_am, stride_ak, stride_bk, stride_bn, stride_cm, stride_cn,
    BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, GROUP: tl.constexpr,
):  # fmt: skip
    """Programs numbered anew in groups of rows, operands kept inside by %."""
    program = tl.program_id(0)
    down, across = tl.cdiv(M, BM), tl.cdiv(N, BN)
    in_group = GROUP * across
    first = program // in_group * GROUP
    height = min(down - first, GROUP)
    m = first + (program % in_group) % height
    n = (program % in_group) // height
    rows = (m * BM + tl.arange(0, BM)) % M
    columns = (n * BN + tl.arange(0, BN)) % N
    k = tl.arange(0, BK)
    a_ptrs = a_ptr + rows[:, None] * stride_am + k[None, :] * stride_ak
    b_ptrs = b_ptr + k[:, None] * stride_bk + columns[None, :] * stride_bn
    acc = tl.zeros((BM, BN), dtype=tl.float32)
    for step in range(0, tl.cdiv(K, BK)):
        a = tl.load(a_ptrs, mask=k[None, :] < K - step * BK, other=0.0)
        b = tl.load(b_ptrs, mask=k[:, None] < K - step * BK, other=0.0)
        acc = tl.dot(a, b, acc)
        a_ptrs += BK * stride_ak
        b_ptrs += BK * stride_bk
    out_rows, out_columns = m * BM + tl.arange(0, BM), n * BN + tl.arange(0, BN)
    mask = (out_rows[:, None] < M) & (out_columns[None, :] < N)
    tl.store(c_ptr + out_rows[:, None] * stride_cm + out_columns[None, :] * stride_cn, acc.to(tl.float16), mask=mask)
