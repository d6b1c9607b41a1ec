"""Softmax beyond its cases: the chosen tiling fits UB for every width, and the strategies meet at their borders."""

from __future__ import annotations

import numpy as np
import pytest

from toprope import ops, soc

CHIP = soc.load("ascend910b1")


@pytest.mark.parametrize("dtype", [np.float32, pytest.param(np.float16, marks=pytest.mark.slow)])
@pytest.mark.parametrize("columns", [1, 8, 56, 63, 64, 65, 128, 200, 1000, 1350, 2041, 8192, 16000])
def test_the_tiling_of_every_width_fits(columns: int, dtype: type) -> None:
    x = np.zeros((48 * (1 + 20000 // columns), columns), dtype)
    run = ops.host("softmax").plan("optimised", CHIP, x).launch("softmax", soc=CHIP, time_only=True)
    assert run.timeline.microseconds > 0
    assert not [f for f in run.findings if f.severity == "error"]


def test_few_elements_do_not_wake_every_core() -> None:
    blocks = [ops.host("softmax").choose(rows, 64, 4, CHIP)[2] for rows in (48, 480, 4800, 48000)]
    assert blocks == sorted(blocks)
    assert blocks[0] < 12 < blocks[-1] == CHIP.aiv
