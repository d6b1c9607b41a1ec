"""Sort32, MrgSort and GetMrgSortResult against NumPy's stable sort."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.ascendc.harness import kernels
from tests.ascendc.ub_kernel import FRAME, Oracle, call, mistakes, random_of, ub_kernel
from toprope.kernel import KernelFile

CPP = {np.float16: "half", np.float32: "float"}
DTYPES = list(CPP)


def descending(score: np.ndarray) -> np.ndarray:
    """Stable order, largest first, NaN before everything."""
    return np.lexsort(
        (np.arange(score.size), -np.where(np.isnan(score), np.inf, score.astype(np.float64)), ~np.isnan(score))
    )


def entries(score: np.ndarray, index: np.ndarray) -> np.ndarray:
    """(score, index) in 8 bytes each: score in the low bytes, index in the high four."""
    out = np.zeros((score.size, 8), np.uint8)
    out[:, : score.itemsize] = score.view(np.uint8).reshape(score.size, -1)
    out[:, 4:] = index.astype(np.uint32).view(np.uint8).reshape(score.size, 4)
    return out


def sorted_groups(score: np.ndarray, index: np.ndarray, group: int = 32) -> np.ndarray:
    parts = []
    for begin in range(0, score.size, group):
        s, i = score[begin : begin + group], index[begin : begin + group]
        order = descending(s)
        parts.append(entries(s[order], i[order]))
    return np.concatenate(parts)


ORACLES: dict[str, Oracle] = {
    "Sort32": sorted_groups,
    "MrgSort": lambda score, index: sorted_groups(score, index, score.size),
    "GetMrgSortResult": lambda queues: [len(q) for q in queues],
}


def text() -> str:
    out = FRAME
    for c in CPP.values():
        out += ub_kernel(f"Sort32_{c}", {"x": c, "i": "uint32_t", "y": c}, "Sort32(y, x, i, repeats);", ["repeats"])
        body = f"""MrgSort4Info info; const int32_t lengths[4] = {{l0, l1, l2, l3}};
    for (int q = 0; q < 4; ++q) info.elementLengths[q] = lengths[q];
    info.validBit = valid; info.ifExhaustedSuspension = stop != 0; info.repeatTimes = repeats;
    constexpr int32_t per = 8 / sizeof({c});
    MrgSortSrcList<{c}> list(x, x[l0 * per], x[(l0 + l1) * per], x[(l0 + l1 + l2) * per]);
    MrgSort(y, list, info);
    uint16_t a, b, d, e; GetMrgSortResult(a, b, d, e);
    c.SetValue(0, a); c.SetValue(1, b); c.SetValue(2, d); c.SetValue(3, e);"""
        out += ub_kernel(
            f"MrgSort_{c}",
            {"x": c, "y": c, "c": "uint32_t"},
            body,
            ["l0", "l1", "l2", "l3", "valid", "stop", "repeats"],
        )
    return out


@pytest.fixture(scope="module")
def compiled() -> KernelFile:
    return kernels(text(), "vector_sort")


def as_tensor(pairs: np.ndarray, dtype: Any) -> np.ndarray:
    return np.ascontiguousarray(pairs).reshape(-1).view(dtype)


@pytest.mark.parametrize("dtype", DTYPES)
def test_sorts_groups_of_32(compiled: KernelFile, dtype: Any) -> None:
    for repeats in (1, 5):
        x = random_of(dtype, 32 * repeats, repeats)
        x[3] = x[17] = np.nan
        index = np.random.default_rng(0).integers(0, 2**32, x.size, dtype=np.uint32)
        y = np.zeros(x.size * 8 // x.itemsize, dtype)
        run = call(compiled, f"Sort32_{CPP[dtype]}", x, index, y, repeats)
        assert not mistakes(run)
        np.testing.assert_array_equal(y.view(np.uint8).reshape(-1, 8), sorted_groups(x, index))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("lengths", [(32, 32, 32, 32), (5, 64, 1, 40), (9, 100, 0, 0), (3, 3, 90, 0)])
def test_merges_queues(compiled: KernelFile, dtype: Any, lengths: tuple[int, ...]) -> None:
    valid = 15 if lengths[3] else 7 if lengths[2] else 3
    total = sum(lengths)
    score, index = random_of(dtype, total, total), np.arange(total, dtype=np.uint32)
    queues, begin = [], 0
    for length in lengths:
        if length:
            queues.append(sorted_groups(score[begin : begin + length], index[begin : begin + length], length))
        begin += length
    x = np.resize(as_tensor(np.concatenate(queues), dtype), -(-total // 4) * 4 * 8 // np.dtype(dtype).itemsize)
    y, c = np.zeros_like(x), np.zeros(8, np.uint32)
    run = call(compiled, f"MrgSort_{CPP[dtype]}", x, y, c, *lengths, valid, 0, 1)
    assert not mistakes(run)
    np.testing.assert_array_equal(y.view(np.uint8).reshape(-1, 8)[:total], ORACLES["MrgSort"](score, index))
    assert list(c[:4]) == list(lengths)


@pytest.mark.parametrize("dtype", DTYPES)
def test_merge_stops_when_a_queue_ends(compiled: KernelFile, dtype: Any) -> None:
    score, index = random_of(dtype, 128, 2), np.arange(128, dtype=np.uint32)
    score[32:64] += 3  # the second queue ends first
    x = as_tensor(sorted_groups(score, index), dtype)
    y, c = np.zeros_like(x), np.zeros(8, np.uint32)
    call(compiled, f"MrgSort_{CPP[dtype]}", x, y, c, 32, 32, 32, 32, 15, 1, 1)
    taken = c[:4].astype(int)
    assert taken.max() == 32 and taken.min() < 32
    whole = ORACLES["MrgSort"](score, index)
    np.testing.assert_array_equal(y.view(np.uint8).reshape(-1, 8)[: taken.sum()], whole[: taken.sum()])
    assert not y.view(np.uint8).reshape(-1, 8)[taken.sum() :].any()
    queue_of = whole[: taken.sum(), 4:].copy().view(np.uint32)[:, 0] // 32
    assert list(taken) == [int((queue_of == q).sum()) for q in range(4)]


@pytest.mark.parametrize("dtype", DTYPES)
def test_repeats_merge_four_queues_each(compiled: KernelFile, dtype: Any) -> None:
    score, index = random_of(dtype, 256, 2), np.arange(256, dtype=np.uint32)
    x = as_tensor(sorted_groups(score, index), dtype)
    y, c = np.zeros_like(x), np.zeros(8, np.uint32)
    run = call(compiled, f"MrgSort_{CPP[dtype]}", x, y, c, 32, 32, 32, 32, 15, 0, 2)
    assert not mistakes(run)
    np.testing.assert_array_equal(y.view(np.uint8).reshape(-1, 8), sorted_groups(score, index, 128))


def test_rules_of_merging_are_checked(compiled: KernelFile) -> None:
    x, y, c = np.zeros(1024, np.float32), np.zeros(1024, np.float32), np.zeros(8, np.uint32)
    assert "mrgsort-valid-bits" in mistakes(call(compiled, "MrgSort_float", x, y, c, 32, 32, 32, 32, 5, 0, 1))
    assert "mrgsort-repeat-ignored" in mistakes(call(compiled, "MrgSort_float", x, y, c, 32, 32, 0, 0, 3, 0, 2))
    assert "mrgsort-queue-too-long" in mistakes(call(compiled, "MrgSort_float", x, y, c, 5000, 32, 0, 0, 3, 0, 1))
