"""TCubeTiling as an array, for tests that state it by hand."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

FIELDS = [
    "usedCoreNum",
    "M",
    "N",
    "Ka",
    "Kb",
    "singleCoreM",
    "singleCoreN",
    "singleCoreK",
    "baseM",
    "baseN",
    "baseK",
    "depthA1",
    "depthB1",
    "stepM",
    "stepN",
    "isBias",
    "transLength",
    "iterateOrder",
    "shareMode",
    "shareL1Size",
    "shareL0CSize",
    "shareUbSize",
    "batchM",
    "batchN",
    "singleBatchM",
    "singleBatchN",
    "stepKa",
    "stepKb",
    "depthAL1CacheUB",
    "depthBL1CacheUB",
    "dbL0A",
    "dbL0B",
    "dbL0C",
    "ALayoutInfoB",
    "ALayoutInfoS",
    "ALayoutInfoN",
    "ALayoutInfoG",
    "ALayoutInfoD",
    "BLayoutInfoB",
    "BLayoutInfoS",
    "BLayoutInfoN",
    "BLayoutInfoG",
    "BLayoutInfoD",
    "CLayoutInfoB",
    "CLayoutInfoS1",
    "CLayoutInfoN",
    "CLayoutInfoG",
    "CLayoutInfoS2",
    "BatchNum",
    "mxTypePara",
]


def cube_tiling(m: int, n: int, k: int, **fields: int) -> npt.NDArray[np.int32]:
    """The struct for C[m, n] = A[m, k] x B[k, n] on one core, base blocks of 32 x 32 x 32; `fields` override."""
    values: dict[str, Any] = dict.fromkeys(FIELDS, 0)
    values.update(M=m, N=n, Ka=k, Kb=k, singleCoreM=m, singleCoreN=n, singleCoreK=k, baseM=32, baseN=32, baseK=32)
    values.update(usedCoreNum=1, stepM=1, stepN=1, stepKa=1, stepKb=1, depthA1=2, depthB1=2, dbL0A=2, dbL0B=2, dbL0C=1)
    values.update(fields)
    return np.array([values[f] for f in FIELDS], np.int32)
