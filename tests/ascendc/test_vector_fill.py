"""Duplicate, CreateVecIndex, ArithProgression, Copy and Brcb against NumPy; VectorPadding of 310P."""

from __future__ import annotations

import zlib
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import toprope
from tests.ascendc.harness import kernels
from tests.ascendc.ub_image import (
    BF16,
    CXX,
    PRELUDE,
    REGION,
    Array,
    Call,
    Layout,
    calls,
    check_call,
    entry,
    gather,
    image_of,
    ordinary,
)
from toprope.errors import CompileFailed
from toprope.kernel import KernelFile

FILL = ("int16", "uint16", "float16", "bfloat16", "int32", "uint32", "float32")
INDEX = ("int16", "float16", "int32", "float32")


def progression(first: float, step: float, ordinal: Array, dtype: str) -> Array:
    """first + step * i, in the type for integers, in float rounded once for floats."""
    t = np.dtype(dtype)
    if t.kind == "i":
        return (int(first) + int(step) * ordinal.astype(np.int64)).astype(t)
    return (np.float32(t.type(first)) + np.float32(t.type(step)) * ordinal.astype(np.float32)).astype(t)


def padding(block: Array, mode: int, from_right: bool) -> Array:
    """One block: its edge value, its mirror image, or the mirror image without the edge and 0 at the end."""
    if mode == 0:
        return np.full_like(block, block[-1 if from_right else 0])
    if mode == 1:
        return block[::-1]
    rest = block[:-1][::-1] if from_right else block[1:][::-1]
    return np.concatenate([rest, [0]] if from_right else [[0], rest]).astype(block.dtype)


ORACLES: dict[str, Callable[..., Array]] = {
    "Duplicate": lambda value, n, dtype: np.full(n, value, dtype),
    "CreateVecIndex": progression,
    "ArithProgression": progression,
    "Copy": lambda x: x,
    "Brcb": lambda x, per_block: np.repeat(x, per_block),
    "VectorPadding": padding,
}


def dtype_of(name: str) -> np.dtype:  # type: ignore[type-arg]
    return BF16 if name == "bfloat16" else np.dtype(name)


@pytest.fixture(scope="module")
def fills() -> KernelFile:
    text = PRELUDE
    for dtype in FILL:
        types = [CXX[dtype]] * 3
        text += entry(
            f"Duplicate_{dtype}",
            types,
            """case 0: Duplicate(d, T(s), n); break;
            case 1: Duplicate(d, T(s), (uint64_t)n, rep, db, dr); break;
            case 2: Duplicate(d, T(s), m, rep, db, dr); break;
            case 3: COUNTED; Duplicate<T, false>(d, T(s), MASK_PLACEHOLDER, rep, db, dr); DONE; break;
            case 4: REGISTERS; Duplicate<T, false>(d, T(s), MASK_PLACEHOLDER, rep, db, dr); DONE; break;""",
        )
        text += entry(
            f"Copy_{dtype}",
            types,
            """case 1: Copy(d, a, (uint64_t)n, rep, CopyRepeatParams(db, ab, dr, ar)); break;
            case 2: Copy(d, a, m, rep, CopyRepeatParams(db, ab, dr, ar)); break;
            case 3: COUNTED; Copy<T, false>(d, a, MASK_PLACEHOLDER, rep, CopyRepeatParams(db, ab, dr, ar)); DONE; break;
            case 4: REGISTERS; Copy<T, false>(d, a, MASK_PLACEHOLDER, rep, CopyRepeatParams(db, ab, dr, ar)); DONE; break;""",
        )
        text += entry(f"Brcb_{dtype}", types, "case 0: Brcb(d, a, rep, BrcbRepeatParams(db, dr)); break;")
    for dtype in INDEX:
        text += entry(
            f"CreateVecIndex_{dtype}",
            [CXX[dtype]] * 3,
            """case 0: CreateVecIndex(d, T(s), n); break;
            case 1: CreateVecIndex(d, T(s), (uint64_t)n, rep, db, dr); break;
            case 2: CreateVecIndex(d, T(s), m, rep, db, dr); break;
            case 5: ArithProgression(d, T(s), T(3), n); break;""",
        )
    return kernels(text, "fill")


@pytest.mark.parametrize("dtype", FILL)
def test_duplicate(fills: KernelFile, dtype: str) -> None:
    rng = np.random.default_rng(zlib.crc32(dtype.encode()))
    t = dtype_of(dtype)
    for call in calls(256 // t.itemsize, rng, (t.itemsize,) * 3):
        n = len(call.lanes()[0])
        check_call(
            fills, f"Duplicate_{dtype}", call, (t,), lambda n=n: ORACLES["Duplicate"](21.0, n, t), rng, scalar=21.0
        )  # type: ignore[misc]


@pytest.mark.parametrize("dtype", INDEX)
def test_create_vec_index(fills: KernelFile, dtype: str) -> None:
    rng = np.random.default_rng(zlib.crc32(dtype.encode()))
    t = np.dtype(dtype)
    width = 256 // t.itemsize
    for call in calls(width, rng, (t.itemsize,) * 3):
        if call.form in ("count", "mask", "bits"):
            repeat, lane = call.lanes()
            check_call(
                fills,
                f"CreateVecIndex_{dtype}",
                call,
                (t,),
                lambda i=repeat * width + lane: progression(5, 1, i, dtype),
                rng,
                scalar=5.0,
            )  # type: ignore[misc]


@pytest.mark.parametrize("dtype", INDEX)
def test_arith_progression(fills: KernelFile, dtype: str) -> None:
    t = np.dtype(dtype)
    for n in (1, 9, 300, 2000):
        image = image_of(np.random.default_rng(1), (t,), ordinary)
        before = image.copy()
        getattr(fills, f"CreateVecIndex_{dtype}")[1](image, 5, *Call("count", 64, n).arguments(-7.0)[1:])
        np.testing.assert_array_equal(image[: n * t.itemsize].view(t), progression(-7, 3, np.arange(n), dtype))
        np.testing.assert_array_equal(image[n * t.itemsize :], before[n * t.itemsize :])


@pytest.mark.parametrize("dtype", FILL)
def test_copy(fills: KernelFile, dtype: str) -> None:
    rng = np.random.default_rng(zlib.crc32(dtype.encode()))
    t = dtype_of(dtype)
    width = 256 // t.itemsize
    for call in calls(width, rng, (t.itemsize,) * 3):
        if call.form in ("mask", "bits", "registers"):
            check_call(fills, f"Copy_{dtype}", call, (t, t), ORACLES["Copy"], rng)


def test_copy_counts_the_elements_of_each_repeat(fills: KernelFile) -> None:
    """In counter mode the mask of Copy is the length of a repeat, and the repeat argument still holds (page Copy)."""
    image = image_of(np.random.default_rng(2), ("float32",) * 3, ordinary)
    want = image.copy()
    call = Call("counter", 64, 20, 3, layout=Layout((1, 2, 1), (4, 9, 8)))
    for repeat in range(3):
        one = replace(call, repeats=1)
        values = gather(image, REGION + repeat * 9 * 32, one.offsets(1, 4), np.float32)
        want[repeat * 128 : repeat * 128 + 80] = values.view(np.uint8)
    fills.Copy_float32[1](image, *call.arguments())
    np.testing.assert_array_equal(image, want)


@pytest.mark.parametrize("dtype", FILL)
def test_brcb(fills: KernelFile, dtype: str) -> None:
    rng = np.random.default_rng(zlib.crc32(dtype.encode()))
    t = dtype_of(dtype)
    for repeats, block, stride in ((1, 1, 8), (5, 1, 8), (4, 2, 17), (3, 1, 20), (2, 0, 8)):
        image = image_of(rng, (t, t), ordinary)
        want = image.copy()
        source = image[REGION : REGION + repeats * 8 * t.itemsize].view(t)
        for i, value in enumerate(source):
            at = (i // 8 * stride + i % 8 * max(block, 1)) * 32
            want[at : at + 32] = ORACLES["Brcb"](np.array([value]), 32 // t.itemsize).view(np.uint8)
        run = getattr(fills, f"Brcb_{dtype}")[1](image, 0, 0, repeats, block, 1, 1, stride, 8, 8, 0, 0, 0.0)
        np.testing.assert_array_equal(image, want)
        assert not run.trace.reports


def test_vector_padding_is_of_310p(tmp_path: Path) -> None:
    text = PRELUDE + entry(
        "pad",
        ["int16_t"] * 3,
        "case 0: VectorPadding(d, a, (uint8_t)rep, (bool)db, (uint32_t)n); break; case 2: VectorPadding(d, a, (uint8_t)s, true, m, rep, u1); break;",
    )
    file = tmp_path / "padding.cpp"
    file.write_text(
        "".join(f'#include "api/{name}.h"\n' for name in ("data_copy", "sync", "vector_fill", "vector_mask"))
        + "using namespace AscendC;\n"
        + text
    )
    with pytest.raises(CompileFailed, match="310P only"):
        toprope.load(file).pad[1](np.zeros(3 * REGION, np.uint8), 0, 64, 0, 0, 1, 1, 8, 8, 8, 0, 0, 0.0)
    for mode in range(3):
        for right in (0, 1):
            image = image_of(np.random.default_rng(mode), ("int16",) * 3, ordinary)
            x = image[REGION : REGION + 320].view(np.int16).reshape(-1, 16)
            want = np.concatenate([padding(block, mode, bool(right)) for block in x])
            toprope.load(file).pad[1](image, 0, 160, mode, right, 1, 1, 8, 8, 8, 0, 0, 0.0, soc="ascend310p3")
            np.testing.assert_array_equal(image[:320].view(np.int16), want)
