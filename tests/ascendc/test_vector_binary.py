"""Operations of two tensors against NumPy, over forms, lengths, masks and strides; in place, overlapping, and in integers that overflow."""

from __future__ import annotations

import zlib
from collections.abc import Callable

import numpy as np
import pytest

from tests.ascendc.harness import kernels
from tests.ascendc.ub_image import (
    CXX,
    PRELUDE,
    SRC1,
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
from toprope.kernel import KernelFile


def rounded(f: Callable[[Array, Array], Array]) -> Callable[[Array, Array], Array]:
    """16-bit floats compute in float and round once, which is what NumPy's float16 does too."""
    return lambda a, b: (
        f(a.astype(np.float32), b.astype(np.float32)).astype(a.dtype) if a.dtype == np.float16 else f(a, b)
    )


ORACLES: dict[str, Callable[..., Array]] = {
    "Add": rounded(np.add),
    "Sub": rounded(np.subtract),
    "Mul": rounded(np.multiply),
    "Div": rounded(np.divide),
    "Max": lambda a, b: np.where((a > b) | (a != a), a, b),
    "Min": lambda a, b: np.where((a < b) | (a != a), a, b),
    "And": np.bitwise_and,
    "Or": np.bitwise_or,
}
ARITHMETIC = ("int16", "float16", "int32", "float32")
DTYPES = {name: ARITHMETIC for name in ORACLES} | {
    "Div": ("float16", "float32"),
    "And": ("int16", "uint16"),
    "Or": ("int16", "uint16"),
}
CASES = [(name, dtype) for name, dtypes in DTYPES.items() for dtype in dtypes]


@pytest.fixture(scope="module")
def binary() -> KernelFile:
    text = PRELUDE + "".join(
        entry(
            f"{name}_{dtype}",
            [CXX[dtype]] * 3,
            f"""
            case 0: {name}(d, a, b, n); break;
            case 1: {name}(d, a, b, (uint64_t)n, rep, p2); break;
            case 2: {name}(d, a, b, m, rep, p2); break;
            case 3: COUNTED; {name}<T, false>(d, a, b, MASK_PLACEHOLDER, rep, p2); DONE; break;
            case 4: REGISTERS; {name}<T, false>(d, a, b, MASK_PLACEHOLDER, rep, p2); DONE; break;
            case 5: {name}(a, a, b, n); break;
            case 6: {name}(b, a, b, (uint64_t)n, rep, p2); break;
            case 7: {name}(a[8], a, b, (uint64_t)n, rep, p2); break;""",
        )
        for name, dtype in CASES
    )
    return kernels(text, "binary")


@pytest.mark.parametrize(("name", "dtype"), CASES)
def test_binary(binary: KernelFile, name: str, dtype: str) -> None:
    rng = np.random.default_rng(zlib.crc32(f"{name}{dtype}".encode()))
    t = np.dtype(dtype)
    for call in calls(256 // t.itemsize, rng, (t.itemsize,) * 3):
        check_call(binary, f"{name}_{dtype}", call, (t, t, t), ORACLES[name], rng)


def test_nothing_happens_with_zero_repeats_count_or_mask(binary: KernelFile) -> None:
    rng = np.random.default_rng(1)
    for form, n, repeats in (("count", 0, 1), ("mask", 64, 0), ("mask", 0, 4), ("bits", 0, 4), ("counter", 0, 1)):
        image = image_of(rng, ("float32",) * 3, ordinary)
        before = image.copy()
        run = binary.Add_float32[1](image, *Call(form, 64, n, repeats).arguments())
        np.testing.assert_array_equal(image, before)
        assert "Add" not in [run.trace.ops[i["op"]].name for i in run.trace.instrs]


def test_in_place_is_allowed(binary: KernelFile) -> None:
    rng = np.random.default_rng(2)
    image = image_of(rng, ("float32",) * 3, lambda r, t, n: r.standard_normal(n).astype(t))
    before = image.copy()
    run = binary.Add_float32[1](image, 5, 500, *Call("count", 64).arguments()[2:])
    a, b = (gather(before, start, np.arange(500) * 4, np.float32) for start in (24576, SRC1))
    np.testing.assert_array_equal(gather(image, 24576, np.arange(500) * 4, np.float32), a + b)
    assert not run.trace.reports


def test_accumulating_into_the_second_source_is_allowed(binary: KernelFile) -> None:
    rng = np.random.default_rng(3)
    image = image_of(rng, ("float32",) * 3, lambda r, t, n: r.integers(-9, 9, n).astype(t))
    before = image.copy()
    call = Call("mask", 64, 64, 5, layout=Layout(repeat=(0, 8, 0)))
    run = binary.Add_float32[1](image, 6, *call.arguments()[1:])
    a = gather(before, 24576, np.arange(320) * 4, np.float32).reshape(5, 64)
    b = gather(before, SRC1, np.arange(64) * 4, np.float32)
    np.testing.assert_array_equal(gather(image, SRC1, np.arange(64) * 4, np.float32), a.sum(0) + b)
    assert not run.trace.reports


@pytest.mark.parametrize(
    ("name", "layout"), [("Div_float32", Layout(repeat=(0, 8, 0))), ("Add_int16", Layout(repeat=(0, 8, 0)))]
)
def test_other_functions_may_not_accumulate(binary: KernelFile, name: str, layout: Layout) -> None:
    image = image_of(np.random.default_rng(4), ("float32",) * 3, ordinary)
    run = getattr(binary, name)[1](image, 6, *Call("mask", 64, 64, 3, layout=layout).arguments()[1:])
    assert [(r.code, r.severity) for r in run.trace.reports] == [("operand-overlap", 0)]


def test_partial_overlap_is_reported(binary: KernelFile) -> None:
    image = image_of(np.random.default_rng(5), ("float32",) * 3, ordinary)
    run = binary.Add_float32[1](image, 7, *Call("mask", 64, 64, 1).arguments()[1:])
    assert [(r.code, r.severity) for r in run.trace.reports] == [("operand-overlap", 0)]


def test_repeats_beyond_a_byte_are_reported(binary: KernelFile) -> None:
    image = image_of(np.random.default_rng(6), ("float32",) * 3, ordinary)
    run = binary.Add_float32[1](image, *Call("mask", 64, 1, 256, layout=Layout(repeat=(1, 1, 1))).arguments())
    assert [r.code for r in run.trace.reports] == ["repeat-out-of-range"]
