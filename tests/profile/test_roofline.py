"""The roofline at its limits, and the operations that it counts."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest

from toprope.dtypes import DTYPES
from toprope.profile.roofline import bound_of, operations
from toprope.trace import INSTR, PIPES, OpRow, Trace

OPS = [
    OpRow("Add", "V", "compute", "vadd"),
    OpRow("Mmad", "M", "compute", "mmad"),
    OpRow("DataCopy", "MTE2", "copy", "gm_to_ub"),
]


@pytest.mark.parametrize(
    ("compute", "memory", "parallelism", "bound"),
    [
        (0.7, 0.2, 1.0, "compute"),
        (0.2, 0.7, 0.1, "memory"),
        (0.69, 0.69, 0.69, "parallelism"),
        (0.69, 0.2, 0.7, "latency"),
        (0.71, 0.72, 0.1, "memory"),
        (0.72, 0.71, 0.1, "compute"),
        (0.8, 0.8, 0.1, "compute"),
    ],
)
def test_the_bound_at_seventy_percent(compute: float, memory: float, parallelism: float, bound: str) -> None:
    assert bound_of(compute, memory, parallelism) == bound


def trace_of(*rows: tuple[int, int, int]) -> Trace:
    """A trace of (op, dtype code, work)."""
    instrs = np.zeros(len(rows), INSTR)
    for i, (op, code, work) in enumerate(rows):
        instrs[i] = (op, PIPES.index(OPS[op].pipe), 0, 0, work, code | 0x700)  # higher bits of arg say other things
    return cast(Trace, SimpleNamespace(ops=OPS, instrs=instrs))


@pytest.mark.parametrize("kind", DTYPES, ids=lambda d: d.name)
def test_operations_of_every_element_type(kind: Any) -> None:
    """A vector repeat is 256 bytes; a cube step is 16 x 32 bytes by 32 bytes x 16, two operations a product."""
    lanes = 256 * 8 // (32 if kind.name == "none" else kind.bits)
    assert operations(trace_of((0, kind.code, 3))) == 3 * lanes
    assert operations(trace_of((1, kind.code, 5))) == 5 * 2 * 16 * 16 * (lanes // 8)
    assert operations(trace_of((2, kind.code, 1000))) == 0  # copies compute nothing
    assert operations(trace_of((0, kind.code, 3), (1, kind.code, 5))) == 3 * lanes + 5 * 64 * lanes


def test_the_product_of_a_matrix_is_two_operations_an_element_pair() -> None:
    m, k, n = 64, 128, 32  # float16: steps of 16 x 16 x 16
    assert operations(trace_of((1, 1, (m // 16) * (k // 16) * (n // 16)))) == 2 * m * k * n
