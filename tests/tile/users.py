"""Kernels as users write them: norms with a residual, backward passes, losses, rotation, quantisation, the place of the largest."""
# ruff: noqa: F821, B008  (dimension names are strings that only the tile language reads)

from toprope import tile
from toprope.tile import In, Out, f16, f32, i8, i32


@tile.kernel
def rms_residual(
    x: In["M", "N", f16],
    r: In["M", "N", f16],
    g: In["N", f16],
    y: Out["M", "N", f16],
    h: Out["M", "N", f16],
    *,
    R=tile.tune(8),
    C=tile.tune(1024),
    eps=1e-6,
):
    M, N = x.shape
    for m in tile.tiles(M, R, depth=2):
        q = tile.zeros((m, 1))
        for c in tile.tiles(N, C, depth=2):
            t = x[m, c].to(f32) + r[m, c].to(f32)
            h[m, c] = t.to(f16)
            q += tile.sum(t * t, 1)
        s = tile.rsqrt(q / N + eps)
        for c in tile.tiles(N, C, depth=2):
            t = x[m, c].to(f32) + r[m, c].to(f32)
            y[m, c] = (t * s * g[c].to(f32)).to(f16)


@tile.kernel
def swiglu(x: In["M", "N", f16], g: In["M", "N", f16], y: Out["M", "N", f16], *, T=tile.tune(2048)):
    M, N = x.shape
    for r, c in tile.tiles((M, 1), (N, T), depth=2):
        a = x[r, c].to(f32)
        y[r, c] = (a / (1 + tile.exp(-a)) * g[r, c].to(f32)).to(f16)


@tile.kernel
def ln_backward(
    dy: In["M", "N", f32],
    x: In["M", "N", f32],
    mean: In["M", f32],
    rstd: In["M", f32],
    g: In["N", f32],
    dx: Out["M", "N", f32],
    dg: Out["N", f32],
    db: Out["N", f32],
    *,
    R=tile.tune(8),
    C=tile.tune(512),
):
    M, N = x.shape
    for r in tile.tiles(M, R, depth=2):
        a, b = tile.zeros((r, 1)), tile.zeros((r, 1))
        for c in tile.tiles(N, C, depth=2):
            xh = (x[r, c] - mean[r, None]) * rstd[r, None]
            d = dy[r, c] * g[c]
            a += tile.sum(d, 1)
            b += tile.sum(d * xh, 1)
            dg.add[c] = tile.sum(dy[r, c] * xh, 0)
            db.add[c] = tile.sum(dy[r, c], 0)
        for c in tile.tiles(N, C, depth=2):
            xh = (x[r, c] - mean[r, None]) * rstd[r, None]
            dx[r, c] = (dy[r, c] * g[c] - a / N - xh * (b / N)) * rstd[r, None]


@tile.kernel
def cross_entropy(x: In["M", "N", f32], t: In["M", i32], loss: Out["M", f32], *, R=tile.tune(8), C=tile.tune(1024)):
    M, N = x.shape
    for r in tile.tiles(M, R, depth=2):
        m, s, picked = tile.full((r, 1), -tile.inf), tile.zeros((r, 1)), tile.zeros((r, 1))
        for c in tile.tiles(N, C, depth=2):
            m2 = tile.maximum(m, tile.max(x[r, c], 1))
            s, m = s * tile.exp(m - m2) + tile.sum(tile.exp(x[r, c] - m2), 1), m2
            picked += tile.sum(tile.where(tile.arange(c) == t[r, None].to(f32), x[r, c], 0), 1)
        loss[r] = tile.log(s) + m - picked


@tile.kernel
def rotary(
    x: In["M", "H", "two", "D", f32],
    c: In["M", "D", f32],
    s: In["M", "D", f32],
    y: Out["M", "H", "two", "D", f32],
    *,
    HH=tile.tune(8),
    DD=tile.tune(64),
):
    M, H, _, D = x.shape
    for m, h, d in tile.tiles((M, 1), (H, HH), (D, DD), depth=2):
        a, b = x[m, h, 0, d], x[m, h, 1, d]
        y[m, h, 0, d] = a * c[m, d] - b * s[m, d]
        y[m, h, 1, d] = b * c[m, d] + a * s[m, d]


@tile.kernel
def quantise(x: In["M", "N", f32], y: Out["M", "N", i8], scale: Out["M", f32], *, R=tile.tune(8), C=tile.tune(1024)):
    M, N = x.shape
    for r in tile.tiles(M, R, depth=2):
        big = tile.zeros((r, 1))
        for c in tile.tiles(N, C, depth=2):
            big = tile.maximum(big, tile.max(tile.abs(x[r, c]), 1))
        scale[r] = big / 127
        for c in tile.tiles(N, C, depth=2):
            y[r, c] = (x[r, c] * (127 / big)).to(f16).to(i8)


@tile.kernel
def top1(x: In["M", "N", f32], y: Out["M", i32], *, R=tile.tune(8), C=tile.tune(1024)):
    M, N = x.shape
    for r in tile.tiles(M, R, depth=2):
        best = tile.full((r, 1), -tile.inf)
        for c in tile.tiles(N, C, depth=2):
            best = tile.maximum(best, tile.max(x[r, c], 1))
        at = tile.full((r, 1), tile.inf)
        for c in tile.tiles(N, C, depth=2):
            at = tile.minimum(at, tile.min(tile.where(x[r, c] >= best, tile.arange(c), tile.inf), 1))
        y[r] = at.to(i32)


@tile.kernel
def mean_of_tanh(x: In["M", "N", f32], y: Out["M", f32], *, R=tile.tune(8), C=tile.tune(1024)):
    M, N = x.shape
    for r in tile.tiles(M, R):
        s = tile.zeros((r, 1))
        for c in tile.tiles(N, C, depth=2):
            s = s + tile.sum(tile.tanh(x[r, c]), 1)
        y[r] = s / N


@tile.kernel
def rows_by_long(
    ids: In["M", tile.i64], t: In["V", "D", f16], y: Out["M", "D", f16], *, R=tile.tune(16), C=tile.tune(512)
):
    M, D = y.shape
    for r, c in tile.tiles((M, R), (D, C), depth=2):
        y[r, c] = t[ids[r], c]


@tile.kernel
def rows_shifted(ids: In["M", i32], t: In["V", "D", f16], y: Out["M", "D", f16], *, R=tile.tune(16), C=tile.tune(512)):
    M, D = y.shape
    for r, c in tile.tiles((M, R), (D, C), depth=2):
        y[r, c] = t[ids[r] * 2 + 1, c]


@tile.kernel
def squared_leaky(x: In["N", f32], y: Out["N", f32], *, T=tile.tune(2048), slope=0.1):
    for i in tile.tiles(x.shape[0], T, depth=2):
        y[i] = tile.where(x[i] > 0, x[i], x[i] * slope) ** 2


@tile.kernel
def pairs(
    x: tile.In["M", 2, "D", tile.f32], y: tile.Out["M", "D", tile.f32], *, R=tile.tune(8), C=tile.tune(64, mult=64)
):
    M, _, D = x.shape
    for r, c in tile.tiles((M, R), (D, C)):
        y[r, c] = x[r, 0, c] - x[r, 1, c]
