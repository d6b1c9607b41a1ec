"""Functions that only the 310P has, or does differently: region proposals, Scatter, GatherMask counting, ReduceSum."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.ascendc.harness import kernels
from tests.ascendc.test_vector_reduce import repeat_sums, tree_of_trees
from tests.ascendc.test_vector_sort import descending
from tests.ascendc.ub_kernel import FRAME, Oracle, call, mistakes, random_of, ub_kernel
from toprope.kernel import KernelFile

SOC = "ascend310p3"
CPP = {np.float16: "half", np.float32: "float"}


def scattered(src: np.ndarray, offsets: np.ndarray, dst: np.ndarray) -> np.ndarray:
    out = dst.copy()
    out[offsets // src.itemsize] = src
    return out


ORACLES: dict[str, Oracle] = {
    "RpSort16": lambda proposals: proposals[descending(proposals[:, 4])],
    "MrgSort4": lambda proposals: proposals[descending(proposals[:, 4])],
    "ProposalConcat": lambda proposals, field, values: np.concatenate(
        [proposals[:, :field], values[:, None], proposals[:, field + 1 :]], axis=1
    ),
    "ProposalExtract": lambda proposals, field: proposals[:, field],
    "Scatter": scattered,
}


def text() -> str:
    out = FRAME
    for c in CPP.values():
        two = {"x": c, "y": c}
        out += ub_kernel(f"run_RpSort16_{c}", two, "RpSort16(y, x, repeats);", ["repeats"])
        out += ub_kernel(f"run_Concat_{c}", two, "ProposalConcat(y, x, repeats, field);", ["repeats", "field"])
        out += ub_kernel(f"run_Extract_{c}", two, "ProposalExtract(y, x, repeats, field);", ["repeats", "field"])
        merge = f"uint16_t n[4] = {{16, 16, 16, 16}}; MrgSort4Info info(n, false, 15, 1); MrgSortSrcList<{c}> list(x, x[128], x[256], x[384]); MrgSort4(y, list, info);"
        out += ub_kernel(f"run_MrgSort4_{c}", two, merge)
        out += ub_kernel(
            f"run_Scatter_{c}",
            {"x": c, "o": "uint32_t", "y": c},
            "Scatter(y, x, o, (uint32_t)base, (uint32_t)n);",
            ["base", "n"],
        )
        out += ub_kernel(
            f"run_GatherMask_{c}",
            {**two, "c": "uint32_t"},
            "uint64_t kept = 0; GatherMask(y, x, (uint8_t)1, true, n, {1, 1, 8, 0}, kept); c.SetValue(0, (uint32_t)kept);",
            ["n"],
        )
        out += ub_kernel(f"run_ReduceSum_{c}", {**two, "w": c}, "ReduceSum(y, x, w, n);", ["n"])
    return out


@pytest.fixture(scope="module")
def compiled() -> KernelFile:
    return kernels(text(), "vector_310p")


def proposals(dtype: Any, n: int) -> np.ndarray:
    return random_of(dtype, n * 8, n).reshape(n, 8)


@pytest.mark.parametrize("dtype", CPP)
def test_sixteen_proposals(compiled: KernelFile, dtype: Any) -> None:
    x = proposals(dtype, 48)
    y = np.zeros_like(x)
    assert not mistakes(call(compiled, f"run_RpSort16_{CPP[dtype]}", x, y, 3, soc=SOC))
    np.testing.assert_array_equal(y, np.concatenate([ORACLES["RpSort16"](x[i : i + 16]) for i in (0, 16, 32)]))


@pytest.mark.parametrize("dtype", CPP)
def test_merge_of_proposals(compiled: KernelFile, dtype: Any) -> None:
    x = np.concatenate([ORACLES["RpSort16"](proposals(dtype, 64)[i : i + 16]) for i in (0, 16, 32, 48)])
    y = np.zeros_like(x)
    assert not mistakes(call(compiled, f"run_MrgSort4_{CPP[dtype]}", x, y, soc=SOC))
    np.testing.assert_array_equal(y, ORACLES["MrgSort4"](x))


@pytest.mark.parametrize("dtype", CPP)
@pytest.mark.parametrize("field", range(6))
def test_fields_of_proposals(compiled: KernelFile, dtype: Any, field: int) -> None:
    p, values = proposals(dtype, 32), random_of(dtype, 32, 9)
    expected = ORACLES["ProposalConcat"](p, field, values)
    assert not mistakes(call(compiled, f"run_Concat_{CPP[dtype]}", values, p, 2, field, soc=SOC))
    np.testing.assert_array_equal(p, expected)
    taken = np.zeros(32, dtype)
    assert not mistakes(call(compiled, f"run_Extract_{CPP[dtype]}", p, taken, 2, field, soc=SOC))
    np.testing.assert_array_equal(taken, values)


def test_there_is_no_seventh_field(compiled: KernelFile) -> None:
    assert "proposal-field" in mistakes(
        call(compiled, "run_Concat_half", np.zeros(16, np.float16), np.zeros(128, np.float16), 1, 6, soc=SOC)
    )


@pytest.mark.parametrize("dtype", CPP)
def test_scatter(compiled: KernelFile, dtype: Any) -> None:
    size, n = np.dtype(dtype).itemsize, 100
    x, y = random_of(dtype, 112, 1), random_of(dtype, 256, 2)
    o = np.zeros(112, np.uint32)
    o[:n] = np.random.default_rng(3).permutation(200)[:n] * size
    expected = scattered(x[:n], o[:n] + 32 * size, y)
    assert not mistakes(call(compiled, f"run_Scatter_{CPP[dtype]}", x, o, y, 32 * size, n, soc=SOC))
    np.testing.assert_array_equal(y, expected)
    o[5] = 4096
    assert "gather-index-out-of-range" in mistakes(call(compiled, f"run_Scatter_{CPP[dtype]}", x, o, y, 0, n, soc=SOC))


@pytest.mark.parametrize("dtype", CPP)
def test_the_mask_counts_all_elements(compiled: KernelFile, dtype: Any) -> None:
    x, y, c = random_of(dtype, 512, 1), np.zeros(512, dtype), np.zeros(8, np.uint32)
    assert not mistakes(call(compiled, f"run_GatherMask_{CPP[dtype]}", x, y, c, 301, soc=SOC))
    assert c[0] == 151
    np.testing.assert_array_equal(y[:151], x[:301:2])


@pytest.mark.parametrize("dtype", CPP)
def test_sums_of_repeats_are_a_tree_too(compiled: KernelFile, dtype: Any) -> None:
    x, y = random_of(dtype, 1504, 1), np.zeros(16, dtype)
    assert not mistakes(call(compiled, f"run_ReduceSum_{CPP[dtype]}", x, y, np.zeros(64, dtype), 1500, soc=SOC))
    assert y[0] == tree_of_trees(repeat_sums(x[:1500]))
