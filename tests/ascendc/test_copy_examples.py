"""The two examples about tails and about all cores: any length, any number of blocks, no finding that is an error."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import toprope

EXAMPLES = Path(__file__).parents[2] / "examples"


@settings(max_examples=12, deadline=None)
@given(st.integers(1, 5000), st.integers(1, 9), st.sampled_from([32, 96, 1024]))
def test_addition_of_any_length(length: int, blocks: int, tile: int) -> None:
    x, y = np.random.default_rng(length).normal(0, 1, (2, length)).astype(np.float16)
    z = np.full(length, 9, np.float16)
    core = (length + 16 * blocks - 1) // (16 * blocks) * 16
    kernel = toprope.load(EXAMPLES / "02_add_tiling" / "add_tiling.cpp").add_tiling
    run = kernel[blocks](x, y, z, None, {"totalLength": length, "coreLength": core, "tileLength": tile})
    np.testing.assert_array_equal(z, x + y)
    assert not [f for f in run.findings if f.severity == "error"]


@pytest.mark.parametrize(("length", "blocks"), [(1, 1), (3, 8), (100001, 7)])
def test_sum_over_all_cores(length: int, blocks: int) -> None:
    x = np.random.default_rng(length).normal(0, 1, length).astype(np.float32)
    out = np.zeros(1, np.float32)
    run = toprope.load(EXAMPLES / "06_reduce_syncall" / "reduce_sum.cpp").reduce_sum[blocks](
        x, out, np.zeros(blocks * 32, np.uint8), length
    )
    np.testing.assert_allclose(out[0], x.sum(dtype=np.float64), rtol=1e-5, atol=1e-3)
    assert not [f for f in run.findings if f.severity == "error"]
