"""Hand-over between vector and cube cores: task by task, several stages, and nothing else may cross a product."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import numpy as np
import pytest

from tests.tile import staged
from tests.tile.test_kernels import KERNELS, both
from toprope.tile import TileError

CROSSING = """from toprope import tile
from toprope.tile import In, Out, f16, f32

@tile.kernel
def k(x: In["M", "K", f16], w: In["K", "N", f16], y: Out["M", "N", f32], *, BM=tile.tune(32)):
    (M, K), N = x.shape, w.shape[1]
    for i in tile.tiles(M, BM):
        h = tile.stage((i, K), f16)
        z = tile.stage((i, N), f32)
        big = tile.zeros((i, 1))
        for k in tile.tiles(K, 64):
            big = tile.maximum(big, tile.max(x[i, k].to(f32), 1))
            h[:, k] = x[i, k] * 2
        for j in tile.tiles(N, 64):
            acc = tile.acc((i, j))
            for k in tile.tiles(K, 64):
                acc += h[:, k] @ w[k, j]
            z[:, j] = acc
        for n in tile.tiles(N, 64):
            y[i, n] = z[:, n] * big
"""


def halves(*shape: int) -> np.ndarray:
    return np.random.default_rng(sum(shape)).standard_normal(shape).astype(np.float16)


def test_product_softmax_product() -> None:
    q, k, v = halves(150, 48), halves(300, 48), halves(300, 48)
    got = both(KERNELS.attention, [q, k, v], np.zeros((150, 48), np.float16))
    z = q.astype(np.float64) @ k.T.astype(np.float64) * 0.125
    e = np.exp(z - z.max(1, keepdims=True))
    assert np.allclose(got, e / e.sum(1, keepdims=True) @ v, atol=2e-3)


@pytest.mark.slow
@pytest.mark.parametrize("shape", [(1, 1, 1), (700, 200, 150)])
def test_vector_work_on_both_sides_of_a_product(shape: tuple[int, int, int]) -> None:
    m, k, n = shape
    x, w = halves(m, k), halves(k, n)
    got = both(staged.norm_gemm_gelu, [x, w], np.zeros((m, n), np.float16))
    h = x / np.sqrt((x.astype(np.float64) ** 2).mean(1, keepdims=True) + 1e-5)
    z = h @ w.astype(np.float64)
    assert np.allclose(got, z / (1 + np.exp(-1.702 * z)), rtol=2e-2, atol=2e-2)


@pytest.mark.slow
def test_cores_that_wait_for_nothing_stay_a_few_tasks_ahead() -> None:
    m, k, n = 24 * 64, 64, 64  # a block has many tasks: a flag would count past 15
    run = KERNELS.ln_gemm.run(halves(m, k), halves(k), halves(k), halves(k, n), np.zeros((m, n), np.float16), blocks=1)
    assert [f.code for f in run.findings if f.severity == "error"] == []


def test_order_between_the_cores_comes_from_flags_of_a_task() -> None:
    for kernel in (KERNELS.attention, KERNELS.ln_gemm, KERNELS.linear_gelu, staged.norm_gemm_gelu):
        text = kernel.source()
        assert "SyncAll" not in text
        assert text.count("CrossCoreSetFlag<2, PIPE_FIX>(") > 0 and text.count("CrossCoreSetFlag<2, PIPE_MTE3>(") > 0
    ahead = KERNELS.attention.source().split("ASCEND_IS_AIC")[1].split("ASCEND_IS_AIV")[0]
    assert "turn < mine + 1" in ahead and "(turn - 1) * GetBlockNum()" in ahead, (
        "the next task's scores before this one's sum"
    )


def test_a_tile_from_before_a_product_needs_a_stage(tmp_path: Path) -> None:
    path = tmp_path / "user.py"
    path.write_text(CROSSING)
    spec = importlib.util.spec_from_file_location("user", path)
    assert spec and spec.loader
    with pytest.raises(TileError, match=r"user\.py:20: big from before a product is used behind it") as refusal:
        spec.loader.exec_module(importlib.util.module_from_spec(spec))
    assert "leave it in a stage" in refusal.value.cure
