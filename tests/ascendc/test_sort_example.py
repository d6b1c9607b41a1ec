"""The example that sorts 1,024 elements on many cores: each sorts its part, four-way merges through GM, also with counts that do not divide."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import toprope

EXAMPLE = Path(__file__).parents[2] / "examples" / "20_sort_merge" / "sort_merge.cpp"


@pytest.mark.parametrize(("blocks", "total"), [(8, 1024), (16, 1024), (32, 1024), (1, 128), (5, 480), (9, 1152)])
def test_many_cores_sort_and_merge(blocks: int, total: int) -> None:
    x = np.random.default_rng(blocks).permutation(total).astype(np.float32) - 100
    values, indices = np.zeros(total, np.float32), np.zeros(total, np.uint32)
    run = toprope.load(EXAMPLE).sort_merge[blocks](x, values, indices, np.zeros(total * 16, np.uint8), total)
    assert not [f for f in run.findings if f.severity == "error"]
    np.testing.assert_array_equal(values, -np.sort(-x))
    np.testing.assert_array_equal(indices, np.argsort(-x))
