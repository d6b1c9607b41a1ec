# ruff: noqa: F821, B008  (dimension names are strings that only the tile language reads)
"""Operators in the tile language. `python examples/09_tile/kernels.py` runs them on the software NPU and prints what it saw."""

import numpy as np

from toprope import tile
from toprope.tile import In, Out, f16, f32, i32


@tile.kernel
def add(x: In["N", f32], y: In["N", f32], z: Out["N", f32], *, T=tile.tune(8192, mult=64)):
    for i in tile.tiles(x.shape[0], T, depth=2):
        z[i] = x[i] + y[i]


@tile.kernel
def add_half(x: In["N", f16], y: In["N", f16], z: Out["N", f16], *, T=tile.tune(8192, mult=64)):
    for i in tile.tiles(x.shape[0], T, depth=2):
        z[i] = x[i] + y[i]


@tile.kernel
def softmax(x: In["M", "N", f32], y: Out["M", "N", f32], *, R=tile.tune(8), C=tile.tune(1024, mult=64)):
    M, N = x.shape
    for r in tile.tiles(M, R, depth=2):
        m, s = tile.full((r, 1), -tile.inf), tile.zeros((r, 1))
        for c in tile.tiles(N, C, depth=2):
            m2 = tile.maximum(m, tile.max(x[r, c], 1))
            s, m = s * tile.exp(m - m2) + tile.sum(tile.exp(x[r, c] - m2), 1), m2
        for c in tile.tiles(N, C, depth=2):
            y[r, c] = tile.exp(x[r, c] - m) * (1 / s)


@tile.kernel
def rms_norm(
    x: In["M", "N", f16],
    g: In["N", f16],
    y: Out["M", "N", f16],
    *,
    R=tile.tune(8),
    C=tile.tune(1024, mult=64),
    eps=1e-6,
):
    M, N = x.shape
    for r in tile.tiles(M, R, depth=2):
        q = tile.zeros((r, 1))
        for c in tile.tiles(N, C, depth=2):
            t = x[r, c].to(f32)
            q += tile.sum(t * t, 1)
        scale = tile.rsqrt(q / N + eps)
        for c in tile.tiles(N, C, depth=2):
            y[r, c] = (x[r, c].to(f32) * scale * g[c].to(f32)).to(f16)


@tile.kernel
def matmul(
    a: In["M", "K", f16],
    b: In["K", "N", f16],
    c: Out["M", "N", f32],
    *,
    BM=tile.tune(128),
    BN=tile.tune(256),
    BK=tile.tune(64),
):
    (M, K), N = a.shape, b.shape[1]
    for i, j in tile.tiles((M, BM), (N, BN)):
        acc = tile.acc((i, j))
        for k in tile.tiles(K, BK, depth=2):
            acc = acc + a[i, k] @ b[k, j]
        c[i, j] = acc


@tile.kernel
def matmul_half(
    a: In["M", "K", f16],
    b: In["K", "N", f16],
    c: Out["M", "N", f16],
    *,
    BM=tile.tune(128),
    BN=tile.tune(256),
    BK=tile.tune(64),
):
    (M, K), N = a.shape, b.shape[1]
    for i, j in tile.tiles((M, BM), (N, BN)):
        acc = tile.acc((i, j))
        for k in tile.tiles(K, BK, depth=2):
            acc = acc + a[i, k] @ b[k, j]
        c[i, j] = acc.to(f16)


@tile.kernel
def ln_gemm(
    x: In["M", "K", f16],
    g: In["K", f16],
    b: In["K", f16],
    w: In["K", "N", f16],
    y: Out["M", "N", f16],
    *,
    BM=tile.tune(64),
    BN=tile.tune(256),
    BK=tile.tune(64),
    eps=1e-5,
):
    (M, K), N = x.shape, w.shape[1]
    for i in tile.tiles(M, BM):
        s, q = tile.zeros((i, 1)), tile.zeros((i, 1))
        for k in tile.tiles(K, BK, depth=2):
            s += tile.sum(x[i, k].to(f32), 1)
        mean = s / K
        for k in tile.tiles(K, BK, depth=2):
            d = x[i, k].to(f32) - mean
            q += tile.sum(d * d, 1)
        scale = tile.rsqrt(q / K + eps)
        h = tile.stage((i, K), f16)
        for k in tile.tiles(K, BK, depth=2):
            h[:, k] = ((x[i, k].to(f32) - mean) * scale * g[k].to(f32) + b[k].to(f32)).to(f16)
        for j in tile.tiles(N, BN):
            acc = tile.acc((i, j))
            for k in tile.tiles(K, BK, depth=2):
                acc = acc + h[:, k] @ w[k, j]
            y[i, j] = acc.to(f16)


@tile.kernel
def embedding(
    ids: In["M", i32], table: In["V", "D", f16], y: Out["M", "D", f16], *, R=tile.tune(16), C=tile.tune(1024, mult=64)
):
    M, D = y.shape
    for r, c in tile.tiles((M, R), (D, C), depth=2):
        y[r, c] = table[ids[r], c]


@tile.kernel
def linear_gelu(
    a: In["M", "K", f16],
    w: In["K", "N", f16],
    b: In["N", f32],
    c: Out["M", "N", f16],
    *,
    BM=tile.tune(128),
    BN=tile.tune(256),
    BK=tile.tune(64),
):
    (M, K), N = a.shape, w.shape[1]
    for i, j in tile.tiles((M, BM), (N, BN), swizzle=2):
        acc = tile.acc((i, j), bias=b[j])
        for k in tile.tiles(K, BK, depth=2):
            acc += a[i, k] @ w[k, j]
        c[i, j] = (acc / (tile.exp(acc * -1.702) + 1)).to(f16)


@tile.kernel
def linear_softmax(
    a: In["M", "K", f16],
    w: In["K", "N", f16],
    y: Out["M", "N", f32],
    *,
    BM=tile.tune(64),
    BN=tile.tune(128),
    BK=tile.tune(64),
    C=tile.tune(256),
):
    (M, K), N = a.shape, w.shape[1]
    for i in tile.tiles(M, BM):
        p = tile.stage((i, N), f32)
        for j in tile.tiles(N, BN):
            acc = tile.acc((i, j))
            for k in tile.tiles(K, BK, depth=2):
                acc += a[i, k] @ w[k, j]
            p[:, j] = acc
        m, s = tile.full((i, 1), -tile.inf), tile.zeros((i, 1))
        for c in tile.tiles(N, C, depth=2):
            m2 = tile.maximum(m, tile.max(p[:, c], 1))
            s, m = s * tile.exp(m - m2) + tile.sum(tile.exp(p[:, c] - m2), 1), m2
        for c in tile.tiles(N, C, depth=2):
            y[i, c] = tile.exp(p[:, c] - m) / s


@tile.kernel
def attention(
    q: In["S", "D", f16],
    k: In["T", "D", f16],
    v: In["T", "D", f16],
    o: Out["S", "D", f16],
    *,
    BM=tile.tune(64),
    BN=tile.tune(128),
    BK=tile.tune(64),
    C=tile.tune(512),
    scale=0.125,
):
    (S, D), T = q.shape, k.shape[0]
    for i in tile.tiles(S, BM):
        s = tile.stage((i, T), f32)
        p = tile.stage((i, T), f16)
        for j in tile.tiles(T, BN):
            acc = tile.acc((i, j))
            for d in tile.tiles(D, BK, depth=2):
                acc += q[i, d] @ k[j, d].T
            s[:, j] = acc
        m, n = tile.full((i, 1), -tile.inf), tile.zeros((i, 1))
        for c in tile.tiles(T, C, depth=2):
            m2 = tile.maximum(m, tile.max(s[:, c] * scale, 1))
            n, m = n * tile.exp(m - m2) + tile.sum(tile.exp(s[:, c] * scale - m2), 1), m2
        for c in tile.tiles(T, C, depth=2):
            p[:, c] = (tile.exp(s[:, c] * scale - m) / n).to(f16)
        for j in tile.tiles(D, BN):
            acc = tile.acc((i, j))
            for t in tile.tiles(T, BK, depth=2):
                acc += p[:, t] @ v[t, j]
            o[i, j] = acc.to(f16)


if __name__ == "__main__":
    rng = np.random.default_rng(0)
    x = rng.standard_normal((101, 1003), dtype=np.float32)
    y = np.empty_like(x)
    print(softmax.source())
    print(softmax.plan())
    run = softmax.run(x, y)
    print(run.timeline, run.findings or "no finding")
