"""Sort, Extract, MrgSort with counts and TopK against NumPy's stable sort."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.ascendc.harness import kernels
from tests.ascendc.test_vector_sort import as_tensor, descending, sorted_groups
from tests.ascendc.ub_kernel import FRAME, Oracle, call, mistakes, random_of, ub_kernel
from toprope.kernel import KernelFile

CPP = {np.float16: "half", np.float32: "float"}


def top(row: np.ndarray, k: int, largest: bool) -> tuple[np.ndarray, np.ndarray]:
    order = descending(row if largest else -row)[:k]
    return row[order], order


ORACLES: dict[str, Oracle] = {
    "Sort": lambda score, index: sorted_groups(score, index, score.size),
    "Concat": lambda score: score,
    "Extract": lambda score: (np.sort(score)[::-1], descending(score)),
    "GetSortOffset": lambda entry, itemsize: entry * 8 // itemsize,
    "GetSortLen": lambda entries, itemsize: entries * 8 // itemsize,
    "TopK": top,
}


def text() -> str:
    out = FRAME
    for c in CPP.values():
        five = {"x": c, "i": "uint32_t", "t": c, "y": c, "p": "uint32_t"}
        body = f"LocalTensor<{c}> concat; Concat(concat, x, t, repeats * 2); if (all) Sort<{c}, true>(y, concat, i, t, repeats); else Sort<{c}, false>(y, concat, i, t, repeats);"
        out += ub_kernel(
            f"run_Sort_{c}",
            five,
            body
            + f" if (all) Extract(x, p, y, repeats); p.SetValue(0, p.GetValue(0) + GetSortOffset<{c}>(0) + GetSortLen<{c}>(0));",
            ["repeats", "all"],
        )
        merge = f"uint16_t n[4] = {{32, 32, 32, 32}}; uint32_t done[4]; MrgSortSrcList<{c}> list(x, x[GetSortOffset<{c}>(32)], x[GetSortOffset<{c}>(64)], x[GetSortOffset<{c}>(96)]); MrgSort<{c}, true>(y, list, n, done, 15, 1); for (int q = 0; q < 4; ++q) p.SetValue(q, done[q]);"
        out += ub_kernel(f"run_MrgSort_{c}", {"x": c, "y": c, "p": "uint32_t"}, merge)
        six = {"x": c, "i": "int32_t", "f": "bool", "t": "uint8_t", "y": c, "p": "int32_t"}
        head = "TopkTiling tiling; TopKInfo info{outter, inner, n};"
        out += ub_kernel(
            f"run_TopK_{c}",
            six,
            f"{head} TopK<{c}, true, true>(y, p, x, i, f, t, k, tiling, info, largest != 0);",
            ["outter", "inner", "n", "k", "largest"],
        )
        out += ub_kernel(
            f"run_TopK_own_{c}",
            six,
            f"{head} TopK<{c}>(y, p, x, i, f, k, tiling, info, largest != 0);",
            ["outter", "inner", "n", "k", "largest"],
        )
        out += ub_kernel(
            f"run_TopK_small_{c}",
            six,
            f"{head} TopK<{c}, true, false, false, TopKMode::TOPK_NSMALL>(y, p, x, i, f, t, k, tiling, info, largest != 0);",
            ["outter", "inner", "n", "k", "largest"],
        )
    return out


@pytest.fixture(scope="module")
def compiled() -> KernelFile:
    return kernels(text(), "lib_sort")


@pytest.mark.parametrize("dtype", CPP)
@pytest.mark.parametrize("repeats", [1, 2, 3, 4, 5, 6, 9, 17, 21, 33, 64])
def test_full_sort(compiled: KernelFile, dtype: Any, repeats: int) -> None:
    n = repeats * 32
    x, i = random_of(dtype, n, repeats), np.random.default_rng(1).permutation(n).astype(np.uint32)
    y, p = np.zeros(n * 8 // x.itemsize, dtype), np.zeros(n, np.uint32)
    before = x.copy()
    run = call(compiled, f"run_Sort_{CPP[dtype]}", x, i, np.zeros_like(y), y, p, repeats, 1)
    assert not mistakes(run)
    np.testing.assert_array_equal(y.view(np.uint8).reshape(-1, 8), ORACLES["Sort"](before, i))
    order = descending(before)
    np.testing.assert_array_equal(x, before[order])  # Extract writes over the source here
    np.testing.assert_array_equal(p, i[order])


@pytest.mark.parametrize("dtype", CPP)
def test_sort_in_groups(compiled: KernelFile, dtype: Any) -> None:
    x, i = random_of(dtype, 96, 4), np.arange(96, dtype=np.uint32)
    y = np.zeros(96 * 8 // x.itemsize, dtype)
    call(compiled, f"run_Sort_{CPP[dtype]}", x, i, np.zeros_like(y), y, np.zeros(96, np.uint32), 3, 0)
    np.testing.assert_array_equal(y.view(np.uint8).reshape(-1, 8), sorted_groups(x, i))


@pytest.mark.parametrize("dtype", CPP)
def test_merge_with_counts(compiled: KernelFile, dtype: Any) -> None:
    score, index = random_of(dtype, 128, 2), np.arange(128, dtype=np.uint32)
    x = as_tensor(sorted_groups(score, index), dtype)
    y, p = np.zeros_like(x), np.zeros(8, np.uint32)
    call(compiled, f"run_MrgSort_{CPP[dtype]}", x, y, p)
    assert p[:4].max() == 32
    total = int(p[:4].sum())
    np.testing.assert_array_equal(y.view(np.uint8).reshape(-1, 8)[:total], sorted_groups(score, index, 128)[:total])


@pytest.mark.parametrize("dtype", CPP)
@pytest.mark.parametrize("largest", [0, 1])
def test_top_k(compiled: KernelFile, dtype: Any, largest: int) -> None:
    outter, inner, k = 3, 160, 21
    per = 32 // np.dtype(dtype).itemsize
    k_value, k_index = -(-k // per) * per, -(-k // 8) * 8
    x, i, f = random_of(dtype, outter * inner, 7), np.arange(inner, dtype=np.int32)[::-1].copy(), np.zeros(32, bool)
    f[1] = True
    for own in (0, 1):
        y, p = np.zeros((outter, k_value), dtype), np.zeros((outter, k_index), np.int32)
        name = f"run_TopK_own_{CPP[dtype]}" if own else f"run_TopK_{CPP[dtype]}"
        run = call(compiled, name, x, i, f, np.zeros(16384, np.uint8), y, p, outter, inner, inner, k, largest)
        assert not mistakes(run)
        for row in range(outter):
            value, place = top(x.reshape(outter, inner)[row], k, bool(largest))
            np.testing.assert_array_equal(y[row, :k], value)
            expected = place if own else np.full(k, inner) if f[row] else i[place]
            np.testing.assert_array_equal(p[row, :k], expected)


@pytest.mark.parametrize("dtype", CPP)
def test_top_k_of_small_rows(compiled: KernelFile, dtype: Any) -> None:
    outter, k = 4, 8
    x, i = random_of(dtype, outter * 32, 8), np.arange(outter * 32, dtype=np.int32)
    y, p = np.zeros(outter * k, dtype), np.zeros(outter * k, np.int32)
    run = call(
        compiled,
        f"run_TopK_small_{CPP[dtype]}",
        x,
        i,
        np.zeros(32, bool),
        np.zeros(16384, np.uint8),
        y,
        p,
        outter,
        32,
        32,
        k,
        1,
    )
    assert not mistakes(run)
    for row in range(outter):
        value, place = top(x.reshape(outter, 32)[row], k, True)
        np.testing.assert_array_equal(y.reshape(outter, k)[row], value)
        np.testing.assert_array_equal(p.reshape(outter, k)[row], row * 32 + place)
