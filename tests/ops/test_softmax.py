"""Softmax beyond its cases: the chosen tiling fits UB for every width, and a row may be asked to give the same bits in every batch."""

from __future__ import annotations

import numpy as np
import pytest

from toprope import ops, soc

CHIP = soc.load("ascend910b1")


@pytest.mark.parametrize("dtype", [np.float32, pytest.param(np.float16, marks=pytest.mark.slow)])
@pytest.mark.parametrize("columns", [1, 8, 56, 63, 64, 65, 128, 200, 1000, 1350, 2041, 8192, 16000])
def test_the_tiling_of_every_width_fits(columns: int, dtype: type) -> None:
    x = np.zeros((48 * (1 + 20000 // columns), columns), dtype)
    run = ops.operator("softmax").run(x, soc=CHIP, options={"time_only": True})
    assert run.time_us > 0
    assert not [f for f in run.findings if f.severity == "error"]


def test_few_elements_do_not_wake_every_core() -> None:
    softmax = ops.operator("softmax")
    blocks = [softmax.tiling(shapes=[(rows, 64)], dtypes="float32").block_dim for rows in (48, 480, 4800, 48000)]
    assert blocks == sorted(blocks)
    assert blocks[0] < 12 < blocks[-1] == CHIP.aiv


@pytest.mark.parametrize(("rows", "columns"), [(3001, 7), (480, 1100), (97, 1361), (64, 2000), (3, 70003), (50, 33000)])
def test_a_row_gives_the_same_bits_in_every_batch_when_asked(rows: int, columns: int) -> None:
    softmax = ops.operator("softmax")
    x = np.random.default_rng(columns).normal(0, 3, (rows, columns)).astype(np.float32)
    whole = np.asarray(softmax(x, batch_invariant=True))
    for few in (1, 2, 40):
        part = np.asarray(softmax(x[-few:], batch_invariant=True))
        assert np.array_equal(part, whole[-few:][: len(part)])


def test_without_asking_the_batch_decides_who_shares_a_row() -> None:
    softmax = ops.operator("softmax")
    x = np.random.default_rng(0).normal(0, 3, (3, 70003)).astype(np.float32)
    assert not np.array_equal(softmax(x), softmax(x, batch_invariant=True))
