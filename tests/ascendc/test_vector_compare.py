"""Comparisons: bits in a tensor and in the CMPMASK register, against NumPy."""

from __future__ import annotations

import zlib
from collections.abc import Callable

import numpy as np
import pytest

from tests.ascendc.harness import kernels
from tests.ascendc.ub_image import CXX, PRELUDE, REGION, Array, Call, Layout, entry, gather, image_of, ordinary
from toprope.kernel import KernelFile

MODES: dict[str, Callable[[Array, Array], Array]] = {
    "LT": np.less,
    "GT": np.greater,
    "EQ": np.equal,
    "LE": np.less_equal,
    "GE": np.greater_equal,
    "NE": np.not_equal,
}


def compare(a: Array, b: Array, mode: str) -> Array:
    return np.packbits(MODES[mode](a, b), bitorder="little")


ORACLES: dict[str, Callable[..., Array]] = {
    "Compare": compare,
    "Compares": compare,
    "CompareScalar": compare,
    "GetCmpMask": lambda bits: bits,
    "SetCmpMask": lambda bits: bits,
}
CASES = [
    (dtype, mode) for dtype in ("float16", "float32", "int32") for mode in MODES if dtype != "int32" or mode == "EQ"
]


@pytest.fixture(scope="module")
def compares() -> KernelFile:
    def cases(function: str, operand: str, params: str) -> str:
        return f"""
            case 0: {function}(d, a, {operand}, mode, n); break;
            case 1: {function}(d, a, {operand}, mode, (uint64_t)n, rep, {params}); break;
            case 2: {function}(d, a, {operand}, mode, m, rep, {params}); break;
            case 3: COUNTED; {function}(d, a, {operand}, mode, MASK_PLACEHOLDER, rep, {params}); DONE; break;"""

    text = PRELUDE
    for dtype in ("float16", "float32", "int32"):
        types = ("uint8_t", CXX[dtype], CXX[dtype])
        mode = "const CMPMODE mode = (CMPMODE)((int)s % 10); "
        for function, operand, params in (
            ("Compare", "b", "p2"),
            ("Compares", "b.GetValue(0)", "u1"),
            ("CompareScalar", "b.GetValue(0)", "u1"),
        ):
            text += entry(f"{function}_{dtype}", types, cases(function, operand, params)).replace(
                "switch (form)", mode + "switch (form)"
            )
    register = """
        case 0: Compare(a, b, mode, (uint64_t)n, p2); PipeBarrier<PIPE_ALL>(); GetCmpMask(d); break;
        case 1: SetCmpMask(d); PipeBarrier<PIPE_ALL>(); Compare(a, b, mode, m, p2); PipeBarrier<PIPE_ALL>(); GetCmpMask(d[1024]); break;"""
    for dtype in ("float16", "float32"):
        text += entry(f"register_{dtype}", ("uint8_t", CXX[dtype], CXX[dtype]), register).replace(
            "switch (form)", "const CMPMODE mode = (CMPMODE)(int)s; switch (form)"
        )
    return kernels(text, "compare")


@pytest.mark.parametrize("function", ["Compare", "Compares", "CompareScalar"])
@pytest.mark.parametrize(("dtype", "mode"), CASES)
def test_compare(compares: KernelFile, function: str, dtype: str, mode: str) -> None:
    rng = np.random.default_rng(zlib.crc32(f"{function}{dtype}{mode}".encode()))
    t = np.dtype(dtype)
    width = 256 // t.itemsize
    # The mask arguments are reserved on A2: n = 3 or sparse bits change nothing.
    some = [Call("count", width, width * k) for k in (1, 2, 7, 4900 // width)]
    some += [
        Call("mask", width, 3, 3),
        Call("bits", width, 0, 2, 5),
        Call("counter", width, width + 1),
        Call("mask", width, width, 3, layout=Layout((1, 2, 3), (1, 17, 25))),
    ]
    for call in some:

        def values(r: np.random.Generator, dt: Array, n: int) -> Array:
            data = ordinary(r, dt, n)
            data[::3] = r.integers(-3, 3, len(data[::3])).astype(dt)
            return data

        image = image_of(rng, ("uint8", t, t), values)
        want = image.copy()
        lanes = call.repeats * width if call.form in ("mask", "bits") else -(-call.n // width) * width
        full = Call("count" if call.form == "count" else "counter", width, lanes, layout=call.layout)
        a = gather(image, REGION, full.offsets(1, t.itemsize), t)
        b = (
            gather(image, 2 * REGION, full.offsets(2, t.itemsize), t)
            if function == "Compare"
            else image[2 * REGION : 2 * REGION + t.itemsize].view(t)[0]
        )
        want[: lanes // 8] = compare(a, b, mode)
        run = getattr(compares, f"{function}_{dtype}")[1](image, *call.arguments(list(MODES).index(mode)))
        assert not run.trace.reports
        np.testing.assert_array_equal(image, want, err_msg=str(call))


@pytest.mark.parametrize("dtype", ["float16", "float32"])
def test_compare_to_the_register(compares: KernelFile, dtype: str) -> None:
    rng = np.random.default_rng(1)
    t = np.dtype(dtype)
    width = 256 // t.itemsize
    for index, (mode, f) in enumerate(MODES.items()):
        image = image_of(rng, ("uint8", t, t), lambda r, dt, n: r.integers(0, 4, n).astype(dt))
        a, b = (gather(image, start, np.arange(width) * t.itemsize, t) for start in (REGION, 2 * REGION))
        want = np.zeros(128, bool)
        want[:width] = f(a, b)
        kernel = getattr(compares, f"register_{dtype}")[1]
        kernel(image, 0, *Call("mask", width, width).arguments(index)[1:])
        np.testing.assert_array_equal(image[:16], np.packbits(want, bitorder="little"), err_msg=mode)
        before = rng.integers(0, 256, 16, np.uint8)
        image[:16] = before
        bits = int.from_bytes(rng.bytes(width // 8), "little")
        kernel(image, 1, *Call("bits", width, 0, 1, bits).arguments(index)[1:])
        chosen = np.array([bits >> i & 1 for i in range(128)], bool)
        expected = np.where(chosen, want, np.unpackbits(before, bitorder="little").astype(bool))
        np.testing.assert_array_equal(image[1024:1040], np.packbits(expected, bitorder="little"), err_msg=mode)


def test_a_tail_is_ignored_and_reported(compares: KernelFile) -> None:
    image = image_of(np.random.default_rng(2), ("uint8", "float32", "float32"), ordinary)
    before = image.copy()
    run = compares.Compare_float32[1](image, *Call("count", 64, 100).arguments(0))
    assert [(r.code, r.severity) for r in run.trace.reports] == [("compare-tail-ignored", 1)]
    np.testing.assert_array_equal(image[8:], before[8:])


def test_integers_only_compare_equal(compares: KernelFile) -> None:
    image = image_of(np.random.default_rng(3), ("uint8", "int32", "int32"), ordinary)
    run = compares.Compare_int32[1](image, *Call("count", 64, 64).arguments(0))
    assert [r.code for r in run.trace.reports] == ["compare-mode"]
