"""Kernels for the tests: rows and elements by an index array, column reductions, bias and transposed operands."""
# ruff: noqa: F821, B008  (dimension names are strings that only the tile language reads)

from toprope import tile
from toprope.tile import In, Out, f16, f32, i32


@tile.kernel
def lookup(
    ids: In["B", "M", i32],
    table: In["V", "D", f16],
    weights: In["B", "V", f32],
    y: Out["B", "M", "D", f32],
    w: Out["B", "M", f32],
    *,
    R=tile.tune(8),
    C=tile.tune(50),
):
    B, M, D = y.shape
    for b, r in tile.tiles((B, 1), (M, R), depth=2):
        entry = ids[b, r]
        w[b, r] = weights[b, entry] * 0.5
        for c in tile.tiles(D, C, depth=2):
            y[b, r, c] = table[entry, c].to(f32) + 1


@tile.kernel
def collect(
    ids: In["M", i32], x: In["M", "D", f32], sums: Out["V", "D", f32], counts: Out["V", f32], *, R=tile.tune(8), C=tile.tune(50)
):  # fmt: skip
    M, D = x.shape
    for r in tile.tiles(M, R):
        counts.add[ids[r]] = tile.full((r,), 1.0)
        for c in tile.tiles(D, C, depth=2):
            sums.add[ids[r], c] = x[r, c] * 2


@tile.kernel
def through_table(ids: In["M", i32], x: In["V", f16], y: Out["M", f16], *, T=tile.tune(100), V=tile.tune(512)):
    for i in tile.tiles(ids.shape[0], T, depth=2):
        for v in tile.tiles(x.shape[0], V):
            y[i] = tile.gather(x[v], ids[i] * 2 + 1)


@tile.kernel
def columns(
    x: In["M", "N", f32], total: Out["N", f32], least: Out["N", f32], y: Out["M", "N", f32], *, R=tile.tune(8), C=tile.tune(100)
):  # fmt: skip
    M, N = x.shape
    for c in tile.tiles(N, C):
        t, low = tile.zeros((c,)), tile.full((c,), tile.inf)
        for r in tile.tiles(M, R, depth=2):
            t = t + tile.sum(x[r, c], 0)
            low = tile.minimum(low, tile.min(x[r, c], 0))
        total[c] = t
        least[c] = low
        for r in tile.tiles(M, R, depth=2):
            y[r, c] = x[r, c] - tile.max(x[r, c], 0) - tile.min(x[r, c], 1)


@tile.kernel
def dense(
    a: In["K", "M", f16],
    w: In["K", "N", f16],
    b: In["N", f32],
    c: Out["M", "N", f16],
    *,
    BM=tile.tune(48),
    BN=tile.tune(80),
    BK=tile.tune(32),
):
    (K, M), N = a.shape, w.shape[1]
    for i, j in tile.tiles((M, BM), (N, BN)):
        acc = tile.acc((i, j), bias=b[j])
        for k in tile.tiles(K, BK, depth=2):
            acc += a[k, i].T @ w[k, j]
        c[i, j] = tile.relu(acc).to(f16)


@tile.kernel
def both_transposed(
    a: In["K", "M", f16], w: In["N", "K", f16], c: Out["M", "N", f32], *, BM=tile.tune(48), BN=tile.tune(80), BK=tile.tune(32)
):  # fmt: skip
    (K, M), N = a.shape, w.shape[0]
    for i, j in tile.tiles((M, BM), (N, BN)):
        acc = tile.acc((i, j))
        for k in tile.tiles(K, BK, depth=2):
            acc += a[k, i].T @ w[j, k].T
        c[i, j] = acc
