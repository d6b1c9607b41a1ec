"""Reductions against NumPy: trees of neighbours rounded at every level, first index of ties, strides, masks and footprints."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.ascendc.harness import kernels
from tests.ascendc.ub_kernel import FRAME, Oracle, call, mistakes, random_of, ub_kernel
from toprope.kernel import KernelFile

CPP = {np.float16: "half", np.float32: "float"}
BITS = {np.float16: np.uint16, np.float32: np.uint32}
DTYPES = [np.float16, np.float32]


def tree_sum(values: np.ndarray, levels: int) -> np.ndarray:
    """`levels` rounds of neighbour sums along the last axis, each rounded to the array's dtype."""
    for _ in range(levels):
        values = (values[..., 0::2].astype(np.float32) + values[..., 1::2].astype(np.float32)).astype(values.dtype)
    return values


def repeat_sums(x: np.ndarray) -> np.ndarray:
    width = 256 // x.itemsize
    padded = np.full(-(-x.size // width) * width, -0.0, x.dtype)
    padded[: x.size] = x
    return tree_sum(padded.reshape(-1, width), width.bit_length() - 1)[:, 0]


def whole_sum(x: np.ndarray) -> Any:
    total = x.dtype.type(-0.0)
    for s in repeat_sums(x):
        total = x.dtype.type(np.float32(total) + np.float32(s))
    return total


def tree_of_trees(x: np.ndarray) -> Any:
    while x.size > 1:
        x = repeat_sums(x)
    return x[0]


def block_of(fold: Any) -> Oracle:
    return lambda x: fold(x.reshape(-1, 32 // x.itemsize))


ORACLES: dict[str, Oracle] = {
    "WholeReduceSum": repeat_sums,
    "RepeatReduceSum": repeat_sums,
    "ReduceRepeat": repeat_sums,
    "WholeReduceMax": lambda x: (x.max(-1), x.argmax(-1)),
    "WholeReduceMin": lambda x: (x.min(-1), x.argmin(-1)),
    "BlockReduceSum": block_of(lambda b: tree_sum(b, b.shape[1].bit_length() - 1)[:, 0]),
    "BlockReduceMax": block_of(lambda b: b.max(1)),
    "BlockReduceMin": block_of(lambda b: b.min(1)),
    "ReduceDataBlock": block_of(lambda b: b.max(1)),
    "PairReduceSum": lambda x: tree_sum(x, 1),
    "ReducePairElem": lambda x: tree_sum(x, 1),
    "ReduceSum": whole_sum,
    "ReduceMax": lambda x: (x.max(), x.argmax()),
    "ReduceMin": lambda x: (x.min(), x.argmin()),
    "GetReduceRepeatSumSpr": whole_sum,
    "GetAccVal": whole_sum,
    "GetReduceRepeatMaxMinSpr": lambda x: (x.max(), x.argmax()),
    "GetReduceMaxMinCount": lambda x: (x.max(), x.argmax()),
}


def text_for(c: str) -> str:
    two, three = {"x": c, "y": c}, {"x": c, "y": c, "w": c}
    repeat = ["mask", "repeats", "drs", "sbs", "srs"]
    out = ""
    for name in ("WholeReduceSum", "WholeReduceMax", "WholeReduceMin"):
        out += ub_kernel(f"{name}_{c}", two, f"{name}<{c}>(y, x, mask, repeats, drs, sbs, srs);", repeat)
        order = "" if name.endswith("Sum") else ", (ReduceOrder)order"
        out += ub_kernel(
            f"{name}_bits_{c}",
            two,
            f"uint64_t m[2] = {{(uint32_t)lo | (uint64_t)(uint32_t)lo << 32, (uint32_t)hi | (uint64_t)(uint32_t)hi << 32}}; {name}(y, x, m, repeats, 1, 1, 8{order});",
            ["lo", "hi", "repeats", "order"],
        )
    out += ub_kernel(f"RepeatReduceSum_{c}", two, "RepeatReduceSum(y, x, repeats, mask, 0, sbs, drs, srs);", repeat)
    for name in ("BlockReduceSum", "BlockReduceMax", "BlockReduceMin", "PairReduceSum"):
        out += ub_kernel(f"{name}_{c}", two, f"{name}<{c}>(y, x, repeats, mask, drs, sbs, srs);", repeat)
        out += ub_kernel(
            f"{name}_bits_{c}",
            two,
            f"uint64_t m[2] = {{(uint32_t)lo, (uint32_t)hi}}; {name}(y, x, repeats, m, 1, 1, 8);",
            ["lo", "hi", "repeats"],
        )
    out += ub_kernel(
        f"ReduceRepeat_{c}", two, "ReduceRepeat<ReduceType::SUM>(y, x, mask, repeats, drs, sbs, srs);", repeat
    )
    out += ub_kernel(
        f"ReduceDataBlock_{c}", two, "ReduceDataBlock<ReduceType::MAX>(y, x, mask, repeats, drs, sbs, srs);", repeat
    )
    out += ub_kernel(
        f"ReducePairElem_{c}", two, "ReducePairElem<ReduceType::SUM>(y, x, mask, repeats, drs, sbs, srs);", repeat
    )
    for name in ("ReduceSum", "ReduceMax", "ReduceMin"):
        flag = "" if name == "ReduceSum" else ", index != 0"
        out += ub_kernel(f"{name}_{c}", three, f"{name}(y, x, w, n{flag});", ["n", "index"])
        out += ub_kernel(
            f"{name}_mask_{c}", three, f"{name}<{c}>(y, x, w, mask, repeats, 8{flag});", ["mask", "repeats", "index"]
        )
    out += ub_kernel(
        f"registers_{c}",
        three,
        f"ReduceSum(w, x, w, n); y.SetValue(0, GetAccVal<{c}>()); y.SetValue(1, GetReduceRepeatSumSpr<{c}>()); {c} v, i; WholeReduceMax<{c}>(w, x, 256 / sizeof({c}), n * sizeof({c}) / 256, 1, 1, 8); GetReduceMaxMinCount<{c}>(v, i); y.SetValue(2, v); y.SetValue(3, i); GetReduceRepeatMaxMinSpr(v, i); y.SetValue(4, v); y.SetValue(5, i);",
        ["n"],
    )
    return out


@pytest.fixture(scope="module")
def compiled() -> KernelFile:
    return kernels(FRAME + "".join(text_for(c) for c in CPP.values()), "vector_reduce")


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", ["WholeReduceSum", "RepeatReduceSum", "ReduceRepeat"])
def test_one_sum_per_repeat(compiled: KernelFile, name: str, dtype: Any) -> None:
    width = 256 // np.dtype(dtype).itemsize
    for repeats, active in ((1, width), (5, width), (3, width // 2 + 3), (2, 1)):
        x, y = random_of(dtype, repeats * width, repeats), np.full(64, 7, dtype)
        run = call(compiled, f"{name}_{CPP[dtype]}", x, y, active, repeats, 2, 1, 8)
        expected = np.full(64, 7, dtype)
        expected[: 2 * repeats : 2] = [repeat_sums(r[:active])[0] for r in x.reshape(repeats, width)]
        np.testing.assert_array_equal(y, expected)
        assert not mistakes(run)


@pytest.mark.parametrize("dtype", DTYPES)
def test_source_strides_and_zero_repeat_stride(compiled: KernelFile, dtype: Any) -> None:
    width, per = 256 // np.dtype(dtype).itemsize, 32 // np.dtype(dtype).itemsize
    x, y = random_of(dtype, width * 4), np.zeros(16, dtype)
    call(compiled, f"WholeReduceSum_{CPP[dtype]}", x, y, width, 2, 1, 2, 3)
    for r in range(2):
        lanes = np.concatenate([x[(3 * r + 2 * b) * per :][:per] for b in range(8)])
        assert y[r] == repeat_sums(lanes)[0]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", ["WholeReduceMax", "WholeReduceMin"])
@pytest.mark.parametrize("order", range(4))
def test_extremes_with_index(compiled: KernelFile, name: str, dtype: Any, order: int) -> None:
    width, bits = 256 // np.dtype(dtype).itemsize, BITS[dtype]
    lo, hi = 0x0F0F3300, 0x7FFF0001
    mask = np.array([(word >> (i % 32)) & 1 for word in (lo, lo, hi, hi) for i in range(32)], bool)[:width]
    x, y = random_of(dtype, 3 * width, order), np.zeros(64, dtype)
    run = call(compiled, f"{name}_bits_{CPP[dtype]}", x, y, lo, hi, 3, order)
    assert not mistakes(run)
    worst = -np.inf if name.endswith("Max") else np.inf
    value, index = ORACLES[name](np.where(mask, x.reshape(3, width), worst).astype(dtype))
    raw = y.view(bits)
    if order == 0:
        np.testing.assert_array_equal(y[0:6:2], value)
        np.testing.assert_array_equal(raw[1:6:2], index)
    elif order == 1:
        np.testing.assert_array_equal(raw[0:6:2], index)
        np.testing.assert_array_equal(y[1:6:2], value)
    elif order == 2:
        np.testing.assert_array_equal(y[:3], value)
    else:
        np.testing.assert_array_equal(y.view(np.uint32)[:3], index)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", ["BlockReduceSum", "BlockReduceMax", "BlockReduceMin", "ReduceDataBlock"])
def test_one_result_per_block(compiled: KernelFile, name: str, dtype: Any) -> None:
    width, per = 256 // np.dtype(dtype).itemsize, 32 // np.dtype(dtype).itemsize
    for repeats, blocks in ((1, 8), (4, 8), (3, 5)):
        x, y = random_of(dtype, repeats * width, blocks), np.full(128, 7, dtype)
        run = call(compiled, f"{name}_{CPP[dtype]}", x, y, blocks * per, repeats, 2, 1, 8)
        assert not mistakes(run)
        expected = np.full(128, 7, dtype)
        for r in range(repeats):
            expected[16 * r : 16 * r + blocks] = ORACLES[name](x[r * width : r * width + blocks * per])
        np.testing.assert_array_equal(y, expected)


@pytest.mark.parametrize("dtype", DTYPES)
def test_a_block_without_lanes_keeps_its_old_result(compiled: KernelFile, dtype: Any) -> None:
    width, per = 256 // np.dtype(dtype).itemsize, 32 // np.dtype(dtype).itemsize
    lo = 0x00FF_0003  # some blocks of the low 32 lanes, none of the others
    x, y = random_of(dtype, 2 * width), np.full(32, 7, dtype)
    call(compiled, f"BlockReduceMax_bits_{CPP[dtype]}", x, y, lo, 0, 2)
    mask = np.array([(lo >> i) & 1 if i < 32 else 0 for i in range(width)], bool).reshape(8, per)
    for r in range(2):
        for b, (lanes, on) in enumerate(zip(x[r * width :][:width].reshape(8, per), mask, strict=True)):
            assert y[8 * r + b] == (lanes[on].max() if on.any() else 7)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", ["PairReduceSum", "ReducePairElem"])
def test_pairs(compiled: KernelFile, name: str, dtype: Any) -> None:
    width = 256 // np.dtype(dtype).itemsize
    x, y = random_of(dtype, 3 * width), np.full(3 * width, 7, dtype)
    call(compiled, f"{name}_{CPP[dtype]}", x, y, width - 3, 3, 2, 1, 8)
    expected = np.full(3 * width, 7, dtype)
    for r in range(3):
        row = x[r * width :][:width].copy()
        row[width - 3] = -0.0  # the partner of the last active lane is off
        expected[width * r : width * r + width // 2 - 1] = tree_sum(row[: width - 2], 1)
    np.testing.assert_array_equal(y, expected)


@pytest.mark.parametrize("dtype", DTYPES)
def test_pairs_under_a_bit_mask(compiled: KernelFile, dtype: Any) -> None:
    width = 256 // np.dtype(dtype).itemsize
    x, y = random_of(dtype, width), np.full(width, 7, dtype)
    call(compiled, f"PairReduceSum_bits_{CPP[dtype]}", x, y, 0b1011_0001, 0, 1)
    np.testing.assert_array_equal(y[:5], np.array([x[0], 7, x[4] + x[5], x[7], 7], dtype))


@pytest.mark.parametrize("dtype", DTYPES)
def test_sum_of_everything(compiled: KernelFile, dtype: Any) -> None:
    width = 256 // np.dtype(dtype).itemsize
    for n in (1, 7, width, width + 1, 5 * width + 9, 40 * width):
        x = np.resize(random_of(dtype, n, n), -(-n // 16) * 16)
        y = np.zeros(16, dtype)
        run = call(compiled, f"ReduceSum_{CPP[dtype]}", x, y, np.zeros(64, dtype), n, 0)
        assert not mistakes(run)
        assert y[0] == whole_sum(x[:n]) and not y[1:].any()


@pytest.mark.parametrize("dtype", DTYPES)
def test_sum_of_masked_repeats_is_a_tree_of_trees(compiled: KernelFile, dtype: Any) -> None:
    width = 256 // np.dtype(dtype).itemsize
    for repeats, active in ((1, width), (2, width - 1), (65, width), (130, 20)):
        x, y = random_of(dtype, repeats * width, repeats), np.zeros(16, dtype)
        run = call(
            compiled, f"ReduceSum_mask_{CPP[dtype]}", x, y, np.zeros(-(-repeats // 16) * 16, dtype), active, repeats, 0
        )
        assert not mistakes(run)
        sums = np.concatenate([repeat_sums(r[:active]) for r in x.reshape(repeats, width)])
        assert y[0] == tree_of_trees(sums)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", ["ReduceMax", "ReduceMin"])
@pytest.mark.parametrize("index", [0, 1])
def test_extreme_of_everything(compiled: KernelFile, name: str, dtype: Any, index: int) -> None:
    width, bits = 256 // np.dtype(dtype).itemsize, BITS[dtype]
    for n in (1, 30, width, width + 5, 9 * width + 1, 70 * width, 150 * width + 3):
        x = np.resize(random_of(dtype, n, n), -(-n // 16) * 16)
        y = np.zeros(16, dtype)
        run = call(compiled, f"{name}_{CPP[dtype]}", x, y, np.zeros(640, dtype), n, index)
        assert not mistakes(run)
        value, place = ORACLES[name](x[:n])
        assert y[0] == value
        assert y.view(bits)[1] == (place if index else 0)
    x, y = random_of(dtype, 4 * width, 3), np.zeros(16, dtype)
    call(compiled, f"{name}_mask_{CPP[dtype]}", x, y, np.zeros(64, dtype), width // 4, 4, index)
    rows = x.reshape(4, width)[:, : width // 4]
    value = rows.max() if name == "ReduceMax" else rows.min()
    assert y[0] == value
    if index:
        row, lane = np.argwhere(rows == value)[0]
        assert y.view(bits)[1] == row * width + lane


@pytest.mark.parametrize("dtype", DTYPES)
def test_registers_after_a_reduction(compiled: KernelFile, dtype: Any) -> None:
    width = 256 // np.dtype(dtype).itemsize
    x, y = random_of(dtype, 3 * width), np.zeros(16, dtype)
    call(compiled, f"registers_{CPP[dtype]}", x, y, np.zeros(64, dtype), 3 * width)
    assert y[0] == y[1] == whole_sum(x)
    assert y[2] == y[4] == x.max()
    assert y.view(BITS[dtype])[3] == y.view(BITS[dtype])[5] == x.argmax()


def test_half_overflows_at_the_level_where_it_happens(compiled: KernelFile) -> None:
    x, y = np.zeros(128, np.float16), np.zeros(16, np.float16)
    x[:4] = [60000, 60000, -30000, -30000]
    call(compiled, "WholeReduceSum_half", x, y, 128, 1, 1, 1, 8)
    assert np.isinf(y[0])  # a wider accumulator would give 60000


def test_a_nan_wins_and_ties_take_the_first_index(compiled: KernelFile) -> None:
    x, y = np.zeros(64, np.float32), np.zeros(16, np.float32)
    x[[20, 40]] = np.nan
    call(compiled, "WholeReduceMax_float", x, y, 64, 1, 1, 1, 8)
    assert np.isnan(y[0]) and y.view(np.uint32)[1] == 20
    x[:] = 3
    call(compiled, "WholeReduceMin_float", x, y, 64, 1, 1, 1, 8)
    assert y[0] == 3 and y.view(np.uint32)[1] == 0


def test_a_work_tensor_that_is_too_small_is_a_finding(compiled: KernelFile) -> None:
    x, y = random_of(np.float32, 64 * 64), np.zeros(16, np.float32)
    run = call(compiled, "ReduceMax_float", x, y, np.zeros(8, np.float32), 64 * 64, 1)
    assert "buffer-out-of-bounds" in mistakes(run)
