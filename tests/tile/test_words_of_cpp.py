"""Names that C++ keeps for itself, and numbers as dimensions, in both front ends."""

from __future__ import annotations

import keyword
from typing import Any

import numpy as np
import pytest

from tests.tile.users import pairs
from toprope import tile
from toprope.tile.language import Dim, TileError
from toprope.tile.names import KEYWORDS

WORDS = sorted(w for w in KEYWORDS if not keyword.iskeyword(w) and w.isidentifier() and w not in ("tl", "B"))


def test_triton_parameters_may_have_any_name_of_cpp() -> None:
    text = f"""
import triton
import triton.language as tl
@triton.jit
def named({", ".join(WORDS)}, end, B: tl.constexpr):
    o = tl.arange(0, B)
    total = tl.load({WORDS[0]} + o)
{chr(10).join(f"    total += tl.load({w} + o)" for w in WORDS[1:])}
    tl.store(end + o, total)
"""
    kernel = tile.triton(text, "named")
    given = [np.full(64, i, np.float32) for i in range(len(WORDS))]
    for run in (lambda *a: kernel[(1,)](*a), lambda *a: kernel.run((1,), *a)):
        out = np.zeros(64, np.float32)
        run(*given, out, 64)
        assert np.array_equal(out, np.full(64, len(WORDS) * (len(WORDS) - 1) / 2, np.float32))


@pytest.mark.parametrize("emitted", [False, True])
def test_a_number_is_a_dimension(emitted: bool) -> None:
    x = np.random.default_rng(3).normal(size=(5, 2, 100)).astype(np.float32)
    y = np.zeros((5, 100), np.float32)
    (pairs.run if emitted else pairs)(x, y)
    assert np.array_equal(y, x[:, 0] - x[:, 1])
    with pytest.raises(TileError, match="dimension fixed2 is 3"):
        (pairs.run if emitted else pairs)(np.zeros((5, 3, 100), np.float32), y)


@pytest.mark.parametrize("given", [0, -1, True, 2.5, "two words", None, 1 << 31])
def test_what_is_no_dimension(given: Any) -> None:
    with pytest.raises(TileError, match="is no dimension"):
        tile.In["M", given, tile.f32]
    assert tile.In["M", 3, tile.f32].dims == (Dim("M"), Dim("fixed3", 3, 3, 3))
