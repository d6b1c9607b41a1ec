"""Operations of a tensor and a scalar against NumPy, over forms, lengths, masks and strides."""

from __future__ import annotations

import zlib
from collections.abc import Callable

import numpy as np
import pytest

from tests.ascendc.harness import kernels
from tests.ascendc.test_vector_binary import rounded
from tests.ascendc.ub_image import CXX, PRELUDE, Array, Call, calls, check_call, entry, gather, image_of, ordinary
from toprope.kernel import KernelFile


def shift_left(x: Array, s: Array) -> Array:
    """A signed type keeps its sign bit, as the reference says; the bits below it shift."""
    bits = x.itemsize * 8
    unsigned = x.astype(np.int64) & (1 << bits) - 1
    shifted = (unsigned << int(s)) & (1 << bits) - 1
    if x.dtype.kind == "i":
        shifted = (shifted & ~(1 << bits - 1)) | (unsigned & 1 << bits - 1)
    return shifted.astype(f"u{x.itemsize}").view(x.dtype)


def shift_right(x: Array, s: Array) -> Array:
    return (x.astype(np.int64) >> int(s)).astype(x.dtype)


def shift_right_rounding(x: Array, s: Array) -> Array:
    wide = x.astype(np.int64)
    return ((wide >> int(s)) + (wide >> max(int(s) - 1, 0) & 1) * (int(s) > 0)).astype(x.dtype)


ORACLES: dict[str, Callable[..., Array]] = {
    "Adds": rounded(np.add),
    "Muls": rounded(np.multiply),
    "Maxs": lambda x, s: np.where((x > s) | (x != x), x, s),
    "Mins": lambda x, s: np.where((x < s) | (x != x), x, s),
    "LeakyRelu": rounded(lambda x, s: np.where(x >= 0, x, x * s)),
    "ShiftLeft": shift_left,
    "ShiftRight": shift_right,
}
ARITHMETIC, INTEGERS = ("int16", "float16", "int32", "float32"), ("int16", "uint16", "int32", "uint32")
DTYPES = {name: ARITHMETIC for name in ORACLES} | {
    "LeakyRelu": ("float16", "float32"),
    "ShiftLeft": INTEGERS,
    "ShiftRight": INTEGERS,
}
CASES = [(name, dtype) for name, dtypes in DTYPES.items() for dtype in dtypes]
SCALARS = {"Adds": 3.0, "Muls": -2.5, "Maxs": 1.0, "Mins": -2.0, "LeakyRelu": 0.1, "ShiftLeft": 3, "ShiftRight": 5}


@pytest.fixture(scope="module")
def scalar() -> KernelFile:
    text = PRELUDE + "".join(
        entry(
            f"{name}_{dtype}",
            [CXX[dtype]] * 3,
            f"""
            case 0: {name}(d, a, T(s), n); break;
            case 1: {name}(d, a, T(s), (uint64_t)n, rep, u1); break;
            case 2: {name}(d, a, T(s), m, rep, u1); break;
            case 3: COUNTED; {name}<T, false>(d, a, T(s), MASK_PLACEHOLDER, rep, u1); DONE; break;
            case 4: REGISTERS; {name}<T, false>(d, a, T(s), MASK_PLACEHOLDER, rep, u1); DONE; break;
            case 5: COUNTED; {name}<T, false>(d, a, T(s), 1); DONE; break;
            {"case 6: ShiftRight(d, a, T(s), (uint64_t)n, rep, u1, true); break;" if name == "ShiftRight" else ""}""",
        )
        for name, dtype in CASES
    )
    return kernels(text, "scalar")


@pytest.mark.parametrize(("name", "dtype"), CASES)
def test_scalar(scalar: KernelFile, name: str, dtype: str) -> None:
    rng = np.random.default_rng(zlib.crc32(f"{name}{dtype}".encode()))
    t = np.dtype(dtype)
    s = np.array(int(SCALARS[name]) if t.kind in "iu" else SCALARS[name]).astype(t)
    for call in calls(256 // t.itemsize, rng, (t.itemsize,) * 3):
        check_call(scalar, f"{name}_{dtype}", call, (t, t), lambda x: ORACLES[name](x, s), rng, scalar=SCALARS[name])


@pytest.mark.parametrize("dtype", INTEGERS)
def test_shifts_of_every_distance(scalar: KernelFile, dtype: str) -> None:
    rng = np.random.default_rng(1)
    width = 2048 // np.dtype(dtype).itemsize // 8
    for s in range(np.dtype(dtype).itemsize * 8 + 1):
        for name, oracle in (("ShiftLeft", shift_left), ("ShiftRight", shift_right)):
            check_call(
                scalar,
                f"{name}_{dtype}",
                Call("count", width, 200),
                (dtype, dtype),
                lambda x, oracle=oracle, s=s: oracle(x, s),
                rng,
                scalar=s,
            )


@pytest.mark.parametrize("dtype", ["int16", "int32"])
def test_rounding_shift(scalar: KernelFile, dtype: str) -> None:
    rng = np.random.default_rng(2)
    for s in (0, 1, 5, np.dtype(dtype).itemsize * 8):
        image = image_of(rng, (dtype, dtype), ordinary)
        x = gather(image, 24576, np.arange(64) * np.dtype(dtype).itemsize, dtype)
        getattr(scalar, f"ShiftRight_{dtype}")[1](image, 6, *Call("mask", 64, 64, 1).arguments(s)[1:])
        np.testing.assert_array_equal(
            gather(image, 0, np.arange(64) * x.itemsize, dtype), shift_right_rounding(x, np.array(s))
        )


def test_the_count_form_can_take_its_lanes_from_the_register(scalar: KernelFile) -> None:
    rng = np.random.default_rng(3)
    image = image_of(rng, ("float32",) * 3, ordinary)
    before = image.copy()
    scalar.Adds_float32[1](image, 5, *Call("count", 64, 130).arguments(3.0)[1:])
    np.testing.assert_array_equal(
        gather(image, 0, np.arange(130) * 4, np.float32),
        gather(before, 24576, np.arange(130) * 4, np.float32) + np.float32(3),
    )
    np.testing.assert_array_equal(image[130 * 4 : 24576], before[130 * 4 : 24576])
