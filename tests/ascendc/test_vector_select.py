"""Select in every mode and form against NumPy; which bits it reads."""

from __future__ import annotations

import zlib
from collections.abc import Callable

import numpy as np
import pytest

from tests.ascendc.harness import kernels
from tests.ascendc.ub_image import (
    CXX,
    PRELUDE,
    REGION,
    SRC1,
    Array,
    Call,
    calls,
    entry,
    gather,
    image_of,
    ordinary,
    same,
    scatter,
)
from toprope.kernel import KernelFile

BITS = SRC1 + 16384  # where selMask lies, behind the lanes of src1


def select(bits: Array, a: Array, b: Array) -> Array:
    return np.where(bits, a, b)


ORACLES: dict[str, Callable[..., Array]] = {"Select": select}
SPR, SCALAR, TENSOR = 0, 1, 2


@pytest.fixture(scope="module")
def selects() -> KernelFile:
    text = PRELUDE
    for dtype in ("float16", "float32"):
        for mode, name, source in (
            (SPR, "VSEL_CMPMASK_SPR", "b"),
            (SCALAR, "VSEL_TENSOR_SCALAR_MODE", "T(s)"),
            (TENSOR, "VSEL_TENSOR_TENSOR_MODE", "b"),
        ):
            head = f"const SELMODE mode = SELMODE::{name}; LocalTensor<uint8_t> bits = ub.all[{BITS}]; "
            register = "SetCmpMask(bits)"
            if mode == SCALAR:
                register = "auto room = ub.all[2 * REGION].ReinterpretCast<T>(); Duplicate(room, T(s), 16); PipeBarrier<PIPE_ALL>(); SetCmpMask(room)"
                by_register = "Select(d, bits, a, rep, p2)"
            else:
                by_register = f"Select<T, SELMODE::{name}>(d, a, b, rep, p2)"
            if mode == TENSOR:
                register = "auto room = ub.all[16384].ReinterpretCast<uint32_t>(); uint32_t at = (uint32_t)(int64_t)bits.GetPhyAddr(); Duplicate(room, at, 8); PipeBarrier<PIPE_ALL>(); SetCmpMask(room)"
            cases = f"""
                case 0: Select(d, bits, a, {source}, mode, n); break;
                case 1: Select(d, bits, a, {source}, mode, (uint64_t)n, rep, p2); break;
                case 2: Select(d, bits, a, {source}, mode, m, rep, p2); break;
                case 3: COUNTED; Select<T, uint8_t, false>(d, bits, a, {source}, mode, MASK_PLACEHOLDER, rep, p2); DONE; break;
                case 4: {{ {register}; PipeBarrier<PIPE_ALL>(); REGISTERS; {by_register}; DONE; }} break;"""
            text += entry(f"select{mode}_{dtype}", [CXX[dtype]] * 3, cases).replace(
                "switch (form)", head + "switch (form)"
            )
    return kernels(text, "select")


@pytest.mark.parametrize("dtype", ["float16", "float32"])
@pytest.mark.parametrize("mode", [SPR, SCALAR, TENSOR])
def test_select(selects: KernelFile, mode: int, dtype: str) -> None:
    rng = np.random.default_rng(zlib.crc32(f"{mode}{dtype}".encode()))
    t = np.dtype(dtype)
    width = 256 // t.itemsize
    scalar = -1.5
    for call in calls(width, rng, (t.itemsize,) * 3, longest=16384):
        image = image_of(rng, (t, t, t), ordinary)
        image[BITS : BITS + 2048] = rng.integers(0, 256, 2048)
        want = image.copy()
        if call.form == "registers" and mode != SPR:
            room = slice(16384, 16384 + 32) if mode == TENSOR else slice(SRC1, SRC1 + 16 * t.itemsize)
            want[room] = 0
        repeat, lane = call.lanes()
        ordinal = lane if mode == SPR else repeat * width + lane
        bits = image[BITS + ordinal // 8] >> (ordinal % 8) & 1
        a = gather(image, REGION, call.offsets(1, t.itemsize), t)
        b = np.full_like(a, scalar) if mode == SCALAR else gather(image, SRC1, call.offsets(2, t.itemsize), t)
        scatter(want, 0, call.offsets(0, t.itemsize), select(bits.astype(bool), a, b))
        run = getattr(selects, f"select{mode}_{dtype}")[1](image, *call.arguments(scalar))
        longer = call.form == "mask" and call.n > width
        assert [r.code for r in run.trace.reports] == ["mask-out-of-range"] * longer, str(call)
        if call.form == "registers" and mode != SPR:
            image[room] = 0
        assert same(image[:REGION].view(t), want[:REGION].view(t)).all(), str(call)
        np.testing.assert_array_equal(image[REGION:], want[REGION:])


def test_only_the_bits_in_use_are_read(selects: KernelFile) -> None:
    for mode, bytes_read in ((TENSOR, 63), (SPR, 8)):
        image = image_of(np.random.default_rng(1), ("float32",) * 3, ordinary)
        run = getattr(selects, f"select{mode}_float32")[1](image, *Call("count", 64, 500).arguments())
        ranges = run.trace.decoded()
        row = next(i for i, instr in enumerate(run.trace.instrs) if run.trace.ops[instr["op"]].name == "Select")
        mine = ranges.instr == row
        bits = mine & (ranges.address == BITS)
        assert ranges.row_bytes[bits].tolist() == [bytes_read]


def test_a_mode_with_the_wrong_source_is_reported() -> None:
    text = """
extern "C" __global__ __aicore__ void wrong(GM_ADDR image) {
    LocalTensor<float> d(TPosition::VECCALC, 0, 64), a(TPosition::VECCALC, 1024, 64);
    LocalTensor<uint8_t> bits(TPosition::VECCALC, 2048, 64);
    Select(d, bits, a, 1.0f, SELMODE::VSEL_TENSOR_TENSOR_MODE, 64);
}
"""
    run = kernels(text, "select_wrong").wrong[1](np.zeros(32, np.uint8))
    assert [r.code for r in run.trace.reports] == ["select-mode"]
