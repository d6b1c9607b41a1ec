"""Triton functions that only the form carries: products with vector work, transpositions, scans, any index, any mask, loops on conditions."""

import triton
import triton.language as tl


@triton.jit
def flash(q, k, v, o, S, T, scale, D: tl.constexpr, BM: tl.constexpr, BN: tl.constexpr, CAUSAL: tl.constexpr):
    i = tl.program_id(0)
    h = tl.program_id(1).to(tl.int64)
    om = i * BM + tl.arange(0, BM)
    od = tl.arange(0, D)
    on = tl.arange(0, BN)
    qt = tl.load(q + h * S * D + om[:, None] * D + od[None, :], mask=om[:, None] < S, other=0.0)
    m = tl.full([BM], float("-inf"), tl.float32)
    total = tl.zeros([BM], tl.float32)
    acc = tl.zeros([BM, D], tl.float32)
    kp = k + h * T * D + on[None, :] * D + od[:, None]
    vp = v + h * T * D + on[:, None] * D + od[None, :]
    hi = tl.minimum((i + 1) * BM, T) if CAUSAL else T
    for j in range(0, hi, BN):
        kt = tl.load(kp + j * D, mask=(j + on)[None, :] < T, other=0.0)
        s = tl.dot(qt, kt) * scale
        if CAUSAL:
            s = tl.where(om[:, None] >= (j + on)[None, :], s, float("-inf"))
        s = tl.where((j + on)[None, :] < T, s, float("-inf"))
        mn = tl.maximum(m, tl.max(s, 1))
        p = tl.exp(s - mn[:, None])
        a = tl.exp(m - mn)
        total = total * a + tl.sum(p, 1)
        vt = tl.load(vp + j * D, mask=(j + on)[:, None] < T, other=0.0)
        acc = acc * a[:, None] + tl.dot(p.to(tl.float16), vt)
        m = mn
    acc = acc / total[:, None]
    tl.store(o + h * S * D + om[:, None] * D + od[None, :], acc.to(tl.float16), mask=om[:, None] < S)


@triton.jit
def grouped(
    a,
    b,
    c,
    M,
    N,
    K,
    sam,
    sak,
    sbk,
    sbn,
    scm,
    scn,
    BM: tl.constexpr,
    BN: tl.constexpr,
    BK: tl.constexpr,
    G: tl.constexpr,
    ACT: tl.constexpr,
):
    pid = tl.program_id(0)
    nm = tl.cdiv(M, BM)
    nn = tl.cdiv(N, BN)
    ng = G * nn
    g = pid // ng
    f = g * G
    gs = min(nm - f, G)
    pm = f + (pid % ng) % gs
    pn = (pid % ng) // gs
    am = (pm * BM + tl.arange(0, BM)) % M
    bn = (pn * BN + tl.arange(0, BN)) % N
    ok = tl.arange(0, BK)
    ap = a + (am[:, None] * sam + ok[None, :] * sak)
    bp = b + (ok[:, None] * sbk + bn[None, :] * sbn)
    acc = tl.zeros((BM, BN), dtype=tl.float32)
    for k in range(0, tl.cdiv(K, BK)):
        x = tl.load(ap, mask=ok[None, :] < K - k * BK, other=0.0)
        y = tl.load(bp, mask=ok[:, None] < K - k * BK, other=0.0)
        acc = tl.dot(x, y, acc)
        ap += BK * sak
        bp += BK * sbk
    if ACT == "leaky":
        acc = tl.where(acc >= 0, acc, 0.01 * acc)
    cm = pm * BM + tl.arange(0, BM)
    cn = pn * BN + tl.arange(0, BN)
    tl.store(c + scm * cm[:, None] + scn * cn[None, :], acc.to(tl.float16), mask=(cm[:, None] < M) & (cn[None, :] < N))


@triton.jit
def trig(x, y, n, W: tl.constexpr, B: tl.constexpr):
    o = tl.program_id(0) * B + tl.arange(0, B)
    v = tl.load(x + o, mask=o < n)
    if W == 0:
        r = tl.sin(v)
    elif W == 1:
        r = tl.cos(v)
    elif W == 2:
        r = tl.math.tanh(v)
    elif W == 3:
        r = tl.erf(v)
    elif W == 4:
        r = tl.math.pow(tl.abs(v) + 0.5, 1.5)
    elif W == 5:
        r = tl.math.atan(v)
    elif W == 6:
        r = tl.math.log1p(tl.abs(v))
    elif W == 7:
        r = tl.math.expm1(v)
    elif W == 8:
        r = tl.cumsum(v, 0)
    elif W == 9:
        r = tl.sort(v)
    elif W == 10:
        r = tl.flip(v)
    elif W == 11:
        r = tl.rand(5, o)
    elif W == 12:
        r = (o // 3 * 2 + o % 5).to(tl.float32)
    elif W == 13:
        r = tl.load(x + (o * 7) % n)
    elif W == 14:
        r = tl.trans(tl.reshape(v, (8, B // 8))).reshape((B,))
    elif W == 15:
        r = tl.math.tan(v)
    elif W == 16:
        r = tl.math.asin(tl.clamp(v, -1.0, 1.0))
    elif W == 17:
        r = tl.math.acos(tl.clamp(v, -1.0, 1.0))
    tl.store(y + o, r, mask=o < n)


@triton.jit
def welford_combine(m1, s1, n1, m2, s2, n2):
    d = m2 - m1
    n = n1 + n2
    r = tl.where(n == 0, 0.0, n2 / n)
    return m1 + d * r, s1 + s2 + d * d * n1 * r, n


@triton.jit
def welford(x, y, N, B: tl.constexpr):
    r = tl.program_id(0)
    o = tl.arange(0, B)
    v = tl.load(x + r * N + o, mask=o < N, other=0.0)
    c = (o < N).to(tl.float32)
    _m, s, n = tl.reduce((v, tl.zeros_like(v), c), 0, welford_combine)
    tl.store(y + r, s / n)


@triton.jit
def scatter(x, i, y, n, B: tl.constexpr):
    o = tl.program_id(0) * B + tl.arange(0, B)
    m = o < n
    k = tl.load(i + o, mask=m, other=0)
    tl.store(y + k, tl.load(x + o, mask=m), mask=m)


@triton.jit
def hist(x, h, n, B: tl.constexpr):
    o = tl.program_id(0) * B + tl.arange(0, B)
    m = o < n
    k = tl.load(x + o, mask=m, other=0)
    tl.atomic_add(h + k, 1, mask=m)


@triton.jit
def slots(x, c, y, n, B: tl.constexpr):
    o = tl.program_id(0) * B + tl.arange(0, B)
    v = tl.load(x + o, mask=o < n, other=0.0)
    t = tl.sum((v > 0).to(tl.int32))
    at = tl.atomic_add(c, t)
    tl.store(y + tl.program_id(0), at)


@triton.jit
def collatz(x, y, B: tl.constexpr):
    p = tl.program_id(0)
    v = tl.load(x + p)
    k = 0
    while v != 1:
        v = v // 2 if v % 2 == 0 else 3 * v + 1
        k += 1
    tl.store(y + p, k)


@triton.jit
def blockptr(x, y, M, N, BM: tl.constexpr, BN: tl.constexpr):
    p = tl.make_block_ptr(x, (M, N), (N, 1), (tl.program_id(0) * BM, 0), (BM, BN), (1, 0))
    q = tl.make_block_ptr(y, (N, M), (M, 1), (0, tl.program_id(0) * BM), (BN, BM), (1, 0))
    for _ in range(0, N, BN):
        v = tl.load(p, boundary_check=(0, 1))
        tl.store(q, tl.trans(v) * 2, boundary_check=(0, 1))
        p = tl.advance(p, (0, BN))
        q = tl.advance(q, (BN, 0))


@triton.jit
def embed(ids, t, y, D, BD: tl.constexpr, R: tl.constexpr, n):
    r = tl.program_id(0) * R + tl.arange(0, R)
    i = tl.load(ids + r, mask=r < n, other=0)
    c = tl.arange(0, BD)
    v = tl.load(t + i[:, None] * D + c[None, :], mask=(r[:, None] < n) & (c[None, :] < D), other=0.0)
    tl.store(y + r[:, None] * D + c[None, :], v, mask=(r[:, None] < n) & (c[None, :] < D))


@triton.jit
def argm(x, y, z, N, B: tl.constexpr):
    r = tl.program_id(0)
    o = tl.arange(0, B)
    v = tl.load(x + r * N + o, mask=o < N, other=float("-inf"))
    m, i = tl.max(v, 0, return_indices=True)
    tl.store(y + r, i)
    tl.store(z + r, m)


@triton.jit
def col(x, y, M, N, BM: tl.constexpr, BN: tl.constexpr):
    c = tl.program_id(0) * BN + tl.arange(0, BN)
    s = tl.zeros([BN], tl.float32)
    for i in range(0, M, BM):
        r = i + tl.arange(0, BM)
        v = tl.load(x + r[:, None] * N + c[None, :], mask=(r[:, None] < M) & (c[None, :] < N), other=0.0)
        s += tl.sum(v.to(tl.float32), 0)
    tl.store(y + c, s, mask=c < N)


@triton.jit
def flags(x, y, n, B: tl.constexpr):
    o = tl.program_id(0) * B + tl.arange(0, B)
    v = tl.load(x + o, mask=(o >= 3) & (o < n), other=7)
    w = tl.where((v > 2) & (v != 5) | (o % 2 == 0), v * 3, v - 1)
    tl.store(y + o, w.to(tl.int64) * w, mask=o < n)
