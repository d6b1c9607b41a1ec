"""A kernel may have more parameters than any table of ours has rows."""

from __future__ import annotations

import numpy as np
import pytest

from tests.ascendc.harness import GM, kernels
from toprope.errors import BadArgument

COUNT = 200


@pytest.fixture(scope="module")
def many() -> object:
    parameters = ", ".join(f"uint32_t p{i}" for i in range(COUNT))
    total = " + ".join(f"p{i}" for i in range(COUNT))
    text = (
        GM
        + f'extern "C" __global__ __aicore__ void many(GM_ADDR z, {parameters}) {{ gm<uint32_t>(z).SetValue(0, {total}); }}'
    )
    return kernels(text, "many")["many"]


@pytest.mark.parametrize("in_process", [False, True])
def test_two_hundred_numbers(many, in_process: bool) -> None:
    z = np.zeros(8, np.uint32)
    many(z, *range(COUNT), blocks=1, in_process=in_process)
    assert z[0] == COUNT * (COUNT - 1) // 2


def test_a_wrong_number_among_many_is_named(many) -> None:
    with pytest.raises(BadArgument, match="p150"):
        many(np.zeros(8, np.uint32), *range(150), -1, *range(COUNT - 151), blocks=1)
