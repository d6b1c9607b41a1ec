# mypy: ignore-errors
# ruff: noqa: F821, B008  (dimension names are strings that only the tile language reads)
"""What a Llama's layer needs and the operator library does not have, in the tile language: float16 in and out, float32 inside."""

from toprope import tile
from toprope.tile import In, Out, f16, f32, i32


@tile.kernel
def swiglu(x: In["M", "P", "N", f16], y: Out["M", "N", f16], *, R=tile.tune(8), C=tile.tune(1024, mult=16)):
    """y = silu(x[:, 0]) * x[:, 1]."""
    M, _, N = x.shape
    for m, n in tile.tiles((M, R), (N, C), depth=2):
        y[m, n] = (tile.silu(x[m, 0, n].to(f32)) * x[m, 1, n].to(f32)).to(f16)


@tile.kernel
def rope(
    x: In["M", "H", "P", "D", f16],
    cosines: In["M", "D", f32],
    sines: In["M", "D", f32],
    y: Out["M", "H", "P", "D", f16],
    *,
    R=tile.tune(16),
):
    """Rotary embedding of H heads of M tokens; a head is two halves of D elements."""
    M, H, _, D = x.shape
    for m, h, d in tile.tiles((M, R), (H, 1), (D, 64)):
        a = x[m, h, 0, d].to(f32)
        b = x[m, h, 1, d].to(f32)
        y[m, h, 0, d] = (a * cosines[m, d] - b * sines[m, d]).to(f16)
        y[m, h, 1, d] = (b * cosines[m, d] + a * sines[m, d]).to(f16)


@tile.kernel
def cache_write(
    x: In["M", "N", f16], slots: In["M", i32], cache: Out["S", "N", f16], *, R=tile.tune(16), C=tile.tune(1024, mult=16)
):
    """cache[slots] = x: keys or values of M tokens into their places."""
    M, N = x.shape
    for m, n in tile.tiles((M, R), (N, C), depth=2):
        cache[slots[m], n] = x[m, n]


@tile.kernel
def add_bias(
    x: In["M", "N", f16], bias: In["N", f16], y: Out["M", "N", f16], *, R=tile.tune(8), C=tile.tune(1024, mult=16)
):
    """y = x + bias."""
    M, N = x.shape
    for m, n in tile.tiles((M, R), (N, C), depth=2):
        y[m, n] = x[m, n] + bias[n]


@tile.kernel
def head(
    x: In["M", "K", f16],
    weight: In["K", "N", f16],
    y: Out["M", "N", f32],
    *,
    BM=tile.tune(128),
    BN=tile.tune(256),
    BK=tile.tune(64),
):
    """y = x @ weight with float32 results: near logits stay apart, which the library's matmul would round to float16."""
    (M, K), N = x.shape, weight.shape[1]
    for i, j in tile.tiles((M, BM), (N, BN)):
        acc = tile.acc((i, j))
        for k in tile.tiles(K, BK, depth=2):
            acc = acc + x[i, k] @ weight[k, j]
        y[i, j] = acc
