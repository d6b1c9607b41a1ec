"""Matmul of the library: every rung of the ladder computes the product, whatever its blocks, bands and kept parts; and each gains."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from toprope import ops, soc

RUNGS = ("naive", "buffered", "packets", "blocks", "kept", "optimised")
# Tails of every size; several columns of tiles and several bands in a core; narrow tiles, whose copies bring more of K.
SHAPES = [(333, 777, 555), (700, 1100, 300), (1000, 320, 130), (70, 600, 33)]


@pytest.mark.parametrize(("m", "k", "n"), SHAPES)
def test_every_rung_computes_the_product(m: int, k: int, n: int) -> None:
    random = np.random.default_rng(8)
    a, b = (random.standard_normal(shape).astype(np.float16) for shape in ((m, k), (k, n)))
    exact = a.astype(np.float64) @ b.astype(np.float64)
    for rung in RUNGS:
        run = ops.operator("matmul", rung).run(a, b)
        assert not run.findings, rung
        assert np.abs(run.outputs["c"] - exact).max() <= 1e-3 * np.abs(exact).max(), rung


def test_a_core_may_have_several_columns_of_tiles_in_several_bands() -> None:
    m, k, n = 700, 600, 700
    random = np.random.default_rng(9)
    a, b = (random.standard_normal(shape).astype(np.float16) for shape in ((m, k), (k, n)))
    exact = a.astype(np.float64) @ b.astype(np.float64)
    operator = ops.operator("matmul")
    chosen = operator.tiling(shapes=[a.shape, b.shape])
    tiling = operator.changed(
        chosen, block_dim=3, partsM=2, partsN=1, bandTiles=2, keepEvery=2
    )  # the third core has nothing to do
    run = operator.run(a, b, tiling=tiling)
    assert not run.findings
    assert np.abs(run.outputs["c"] - exact).max() <= 1e-3 * np.abs(exact).max()


def test_every_rung_gains_over_the_one_before() -> None:
    # The shape of the operator's page: on small ones the steps of B that stay in L1 are too few to pay.
    a, b = np.zeros((4096, 4096), np.float16), np.zeros((4096, 4096), np.float16)
    chip = soc.load("ascend910b1")
    times = [ops.operator("matmul", rung).run(a, b, soc=chip, options={"time_only": True}).time_us for rung in RUNGS]
    assert all(later < earlier for earlier, later in itertools.pairwise(times)), times
