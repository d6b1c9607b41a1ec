"""The least time of a reference: what is counted of a call, and which of bytes and multiplications bounds it."""

from __future__ import annotations

import numpy as np
import pytest

from toprope.soc import load
from toprope.toolkit.least_time import least_us, multiplications

F = np.float32
PRODUCTS = {
    "two matrices": ("aclnnMatmul", [np.zeros((4, 8), F), np.zeros((8, 6), F), np.zeros((4, 6), F), 0], 4 * 8 * 6),
    "a stack by a matrix": ("aclnnMatmul", [np.zeros((3, 4, 8), F), np.zeros((8, 6), F), np.zeros((3, 4, 6), F), 0], 3 * 4 * 8 * 6),
    "stacks": ("aclnnBatchMatMul", [np.zeros((3, 4, 8), F), np.zeros((3, 8, 6), F), np.zeros((3, 4, 6), F), 0], 3 * 4 * 8 * 6),
    "with a bias": ("aclnnAddmm", [np.zeros(6, F), np.zeros((4, 8), F), np.zeros((8, 6), F), 1, 1, np.zeros((4, 6), F), 0], 4 * 8 * 6),
    "a convolution": (
        "aclnnConvolution",
        [np.zeros((2, 4, 9, 9), F), np.zeros((6, 2, 3, 3), F), None, [1, 1], [0, 0], [1, 1], False, [0, 0], 2, np.zeros((2, 6, 7, 7), F), 0],
        2 * 6 * 49 * 2 * 9,
    ),
    "no product": ("aclnnAdd", [np.zeros((4, 8), F), np.zeros((4, 8), F), 1, np.zeros((4, 8), F)], 0),
}  # fmt: skip


@pytest.mark.parametrize("case", PRODUCTS)
def test_multiplications(case: str) -> None:
    function, values, count = PRODUCTS[case]
    assert multiplications(function, values) == count


def test_large_products_are_bound_by_the_cube_and_others_by_bytes() -> None:
    soc = load("ascend910b1")
    square = [np.broadcast_to(np.float16(0), (8192, 8192))] * 3
    least = least_us(soc, "aclnnMatmul", [*square, 0])
    assert least == pytest.approx(2 + 8192**3 / (4096 * soc.aic * soc.ghz * 1e3), rel=0.05)
    wide = [np.broadcast_to(np.float32(0), (8192, 8192))] * 3
    assert least_us(soc, "aclnnMatmul", [*wide, 0]) == pytest.approx(4 * least, rel=0.05)
    moved = 3 * 8192**2 * 2 / (soc.number("hbm.read_tbps") * 1e6)
    assert least_us(soc, "aclnnAdd", [*square[:2], 1, square[2]]) == pytest.approx(2 + moved, rel=0.05)
