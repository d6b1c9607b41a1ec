"""Kernels for the tests: every operation of the language at least once."""
# ruff: noqa: F821, B008  (dimension names are strings that only the tile language reads)

from toprope import tile
from toprope.tile import In, Out, bf16, f16, f32, i32


def gelu(x, scale=1.702):
    """A macro: x * sigmoid(1.702 x)."""
    y = tile.exp(x * -scale)
    return x / (y + 1)


@tile.kernel
def unary(x: In["N", f32], y: Out["N", f32], *, T=tile.tune(512)):
    for i in tile.tiles(x.shape[0], T, depth=2):
        t = tile.abs(x[i]) + 0.1
        y[i] = tile.log(t) + tile.sqrt(t) * tile.rsqrt(t + 1) - tile.reciprocal(t) + tile.relu(x[i]) + gelu(x[i])


@tile.kernel
def numbers(x: In["N", f16], y: Out["N", f16], *, T=tile.tune(500)):
    N = x.shape[0]
    for i in tile.tiles(N, T):
        t = x[i]
        print(t)
        y[i] = (
            1.5 - t * 0.3 + N / (tile.abs(t) + 2) - t / N + tile.maximum(t, 0.25) - tile.minimum(t, -0.7) + t / 3 - (-t)
        )


@tile.kernel
def choose(x: In["N", f32], y: In["N", f32], z: Out["N", f32], *, T=tile.tune(300)):
    for i in tile.tiles(x.shape[0], T, depth=2):
        a, b = x[i], y[i]
        z[i] = tile.where(a < b, a * 2, b) + tile.where(a >= 0, b, -1) + tile.where(a != b, a, tile.full((i,), 7.0))


@tile.kernel
def convert(x: In["N", f32], y: In["N", bf16], a: Out["N", i32], b: Out["N", bf16], *, T=tile.tune(257)):
    for i in tile.tiles(x.shape[0], T):
        a[i] = (x[i] * 1000).to(i32) * 3
        b[i] = (y[i].to(f32) + x[i].to(f16).to(f32)).to(bf16)


@tile.kernel
def rows(
    x: In["B", "M", "N", f32],
    g: In["N", f32],
    s: Out["M", f32],
    y: Out["B", "M", "N", f32],
    *,
    R=tile.tune(5),
    C=tile.tune(100),
):
    B, M, N = x.shape
    for b, r in tile.tiles((B, 1), (M, R), depth=2):
        big, total, before = tile.full((r, 1), -3.0), tile.zeros((r, 1)), tile.zeros((r, 1))
        for c in tile.tiles(N, C):
            t = x[b, r, c] * g[c]
            big, before = tile.maximum(big, tile.max(t, 1)), big
            total += tile.sum(t, 1)
        s.add[r] = total
        for c in tile.tiles(N, C):
            y[b, r, c] = g[c] - (big - x[b, r, c]) / (before + total * total + 1)


@tile.kernel
def scale_rows(x: In["M", "N", f32], y: Out["M", "N", f32], *, R=tile.tune(4), C=tile.tune(64)):
    M, N = x.shape
    for r, c in tile.tiles((M, R), (N, C), depth=2):
        t = x[r, c]
        y[r, c] = t / tile.max(tile.abs(t), 1)


@tile.kernel
def linear(
    a: In["M", "K", bf16],
    w: In["N", "K", bf16],
    c: Out["M", "N", f16],
    *,
    BM=tile.tune(48),
    BN=tile.tune(80),
    BK=tile.tune(32),
):
    (M, K), N = a.shape, w.shape[0]
    for i, j in tile.tiles((M, BM), (N, BN), swizzle=2):
        acc = tile.acc((i, j))
        for k in tile.tiles(K, BK, depth=2):
            acc += a[i, k] @ w[j, k].T
        c[i, j] = tile.relu(acc).to(f16)
