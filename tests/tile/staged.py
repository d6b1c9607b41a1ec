"""Kernels for the tests: vector work before and behind a product, and what may not cross it."""
# ruff: noqa: F821, B008  (dimension names are strings that only the tile language reads)

from toprope import tile
from toprope.tile import In, Out, f16, f32


@tile.kernel
def norm_gemm_gelu(
    x: In["M", "K", f16],
    w: In["K", "N", f16],
    y: Out["M", "N", f16],
    *,
    BM=tile.tune(32),
    BN=tile.tune(128),
    BK=tile.tune(64),
    C=tile.tune(512),
    eps=1e-5,
):
    (M, K), N = x.shape, w.shape[1]
    for i in tile.tiles(M, BM):
        h = tile.stage((i, K), f16)
        z = tile.stage((i, N), f32)
        q = tile.zeros((i, 1))
        for k in tile.tiles(K, C, depth=2):
            t = x[i, k].to(f32)
            q += tile.sum(t * t, 1)
        scale = tile.rsqrt(q / K + eps)
        for k in tile.tiles(K, C, depth=2):
            h[:, k] = (x[i, k].to(f32) * scale).to(f16)
        for j in tile.tiles(N, BN):
            acc = tile.acc((i, j))
            for k in tile.tiles(K, BK, depth=2):
                acc += h[:, k] @ w[k, j]
            z[:, j] = acc
        for n in tile.tiles(N, C, depth=2):
            y[i, n] = (z[:, n] / (tile.exp(z[:, n] * -1.702) + 1)).to(f16)
