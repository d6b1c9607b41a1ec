"""Numbers at their edges: whole divisions of negatives, conversions of ties, the most rows of a copy."""
# ruff: noqa: F821, B008, UP037  (dimension names are strings that only the tile language reads)

from __future__ import annotations

import re
from types import SimpleNamespace

import numpy as np
import pytest

from toprope import tile
from toprope.tile import In, Out, TileError, choice, emit_copies, f32, i32
from toprope.tile.from_triton import memory
from toprope.vendor_paths import INCLUDE


@pytest.mark.parametrize("d", [1, 2, 3, 7, -1, -2, -3])
def test_whole_division_of_triton_goes_toward_zero(d: int) -> None:
    """Numbers that the device computes divide as in C, whatever their signs; level A and the emitted kernel alike."""
    kernel = tile.triton(
        "import triton.language as tl\n"
        "def k(y, d, B: tl.constexpr):\n"
        "    n = tl.program_id(0) - 7\n"
        "    o = tl.arange(0, B)\n"
        "    tl.store(y + tl.program_id(0) * 2 * B + o, tl.full((B,), 0.0, tl.float32) + n // d)\n"
        "    tl.store(y + tl.program_id(0) * 2 * B + B + o, tl.full((B,), 0.0, tl.float32) + n % d)\n"
    )
    level_a, emitted = np.zeros((15, 2, 16), np.float32), np.zeros((15, 2, 16), np.float32)
    kernel[(15,)](level_a, d, B=16)
    run = kernel.run((15,), emitted, d, B=16)
    assert not run.findings
    numbers = np.arange(-7, 8)
    quotient = np.trunc(numbers / d)
    expected = np.stack([quotient, numbers - quotient * d], axis=1)[:, :, None] + np.zeros(16)
    assert np.array_equal(level_a, expected) and np.array_equal(emitted, expected)


TIES = np.array(
    [
        0.5,
        1.5,
        2.5,
        3.5,
        -0.5,
        -1.5,
        -2.5,
        0.49999997,
        0.50000006,
        -0.50000006,
        2.4999998,
        2.5000002,
        0.0,
        -0.0,
        7.0,
        -8.0,
    ],
    np.float32,
)


@tile.kernel
def to_whole(x: In["N", f32], y: Out["N", i32], *, T=tile.tune(64)):
    for i in tile.tiles(x.shape[0], T):
        y[i] = x[i].to(i32)


def test_conversion_of_ties_rounds_to_even_in_the_tile_language() -> None:
    level_a, emitted = np.zeros(16, np.int32), np.zeros(16, np.int32)
    to_whole(TIES, level_a)
    assert not to_whole.run(TIES, emitted).findings
    expected = [0, 2, 2, 4, 0, -2, -2, 0, 1, -1, 2, 3, 0, 0, 7, -8]
    assert level_a.tolist() == expected and emitted.tolist() == expected


def test_conversion_of_triton_drops_the_fraction() -> None:
    kernel = tile.triton(
        "import triton.language as tl\n"
        "def k(x, y, B: tl.constexpr):\n"
        "    o = tl.arange(0, B)\n"
        "    tl.store(y + o, tl.load(x + o).to(tl.int32))\n"
    )
    level_a, emitted = np.zeros(16, np.int32), np.zeros(16, np.int32)
    kernel[(1,)](TIES, level_a, B=16)
    assert not kernel.run((1,), TIES, emitted, B=16).findings
    expected = [0, 1, 2, 3, 0, -1, -2, 0, 0, 0, 2, 2, 0, 0, 7, -8]
    assert level_a.tolist() == expected and emitted.tolist() == expected


def test_a_copy_moves_at_most_4095_rows() -> None:
    """The manual's blockCount of DataCopyPad: [1, 4095]. Four places know it; the one that prints copies refuses one row more."""
    limit = re.search(r"kMaxBlockCount = (\d+)", (INCLUDE / "api" / "copy_params.h").read_text())
    assert limit and {int(limit[1]), choice.MOST_ROWS, emit_copies.MOST_ROWS, memory.MOST_ROWS} == {4095}

    def printed(rows: int) -> None:
        program = SimpleNamespace(file="k.py", indices={"r": SimpleNamespace(size=rows)})
        emit_copies.Copies.limit_rows(SimpleNamespace(program=program), SimpleNamespace(axes=("r", "c"), line=7))  # type: ignore[arg-type]

    printed(4095)
    with pytest.raises(TileError, match=r"k\.py:7: a tile of 4096 rows; one copy moves at most 4095"):
        printed(4096)
