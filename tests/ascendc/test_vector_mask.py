"""The mask registers: what each call sets, what it leaves behind, and what the trace says about exact footprints."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from tests.ascendc.harness import kernels
from tests.ascendc.ub_image import PRELUDE, REGION, Array, Call, Layout, calls, entry, image_of, ordinary
from toprope.kernel import KernelFile
from toprope.trace import Trace


def lane_mask(low: int, high: int, width: int) -> Array:
    return np.array([(high << 64 | low) >> i & 1 for i in range(width)], bool)


ORACLES: dict[str, Callable[..., Array]] = {
    "SetVectorMask": lane_mask,
    "SetMaskCount": lane_mask,
    "SetMaskNorm": lane_mask,
    "ResetMask": lambda width: np.ones(width, bool),
}
# Each case ends with an Adds that takes its lanes from the registers: which lanes did it touch?
CASES = {
    "SetVectorMask<half>(0x1, 0xF0)": lane_mask(0xF0, 1, 128),
    "SetVectorMask<half>(70)": np.arange(128) < 70,
    "SetVectorMask<half>(70); ResetMask()": np.ones(128, bool),
    "SetVectorMask<half>(70); Adds(b, a, half(1), (uint64_t)5, 1, u1)": np.arange(128) < 5,
    "SetVectorMask<half>(70); Adds(b, a, half(1), 3)": np.ones(128, bool),
    "SetMaskCount(); SetVectorMask<half, MaskMode::COUNTER>(0, 33)": np.arange(128) < 33,
    "SetMaskCount(); SetVectorMask<half, MaskMode::COUNTER>(33); SetMaskNorm(); SetVectorMask<half>(2)": np.arange(128)
    < 2,
    "SetMaskCount(); Adds(b, a, half(1), (uint64_t)99, 1, u1)": np.arange(128) < 99,
    "SetMaskCount(); Adds(b, a, half(1), 3)": np.ones(128, bool),
}


@pytest.fixture(scope="module")
def masks() -> KernelFile:
    cases = "".join(
        f"case {i}: {text}; PipeBarrier<PIPE_V>(); Adds<half, false>(d, a, half(1), MASK_PLACEHOLDER, 1, u1); break;\n"
        for i, text in enumerate(CASES)
    )
    return kernels(
        PRELUDE
        + entry("masks", ["half"] * 3, cases)
        + entry(
            "add",
            ["float"] * 3,
            "case 1: Add(d, a, b, (uint64_t)n, rep, p2); break; case 0: Add(d, a, b, n); break; case 2: Add(d, a, b, m, rep, p2); break;",
        ),
        "mask",
    )


@pytest.mark.parametrize("text", CASES)
def test_registers_after(masks: KernelFile, text: str) -> None:
    image = np.zeros(3 * REGION, np.uint8)
    masks.masks[1](image, list(CASES).index(text), *Call("count", 128).arguments()[1:])
    np.testing.assert_array_equal(image[:256].view(np.float16) == 1, CASES[text])


def touched(trace: Trace, name: str, mode: int) -> set[int]:
    """The UB bytes that the instruction `name` reads (1) or writes (2), from its ranges."""
    ranges = trace.decoded()
    row = next(i for i, instr in enumerate(trace.instrs) if trace.ops[instr["op"]].name == name)
    found: set[int] = set()
    mine = np.flatnonzero((ranges.instr == row) & (ranges.mode == mode))
    i = 0
    while i < len(mine):
        k = mine[i]
        starts = ranges.address[k] + np.arange(ranges.rows[k]) * ranges.stride[k]
        if ranges.more[k]:
            i += 1
            outer = mine[i]
            starts = (starts[:, None] + np.arange(ranges.rows[outer]) * ranges.stride[outer]).ravel()
        found.update((starts[:, None] + np.arange(ranges.row_bytes[k])).ravel().tolist())
        i += 1
    return found


def test_ranges_in_the_trace_are_exact(masks: KernelFile) -> None:
    rng = np.random.default_rng(0)
    some = [c for c in calls(64, rng, (4, 4, 4)) if c.form in ("count", "mask")]
    some += [
        Call("bits", 64, 0, 3, 0b1110 << 30 | 1, Layout((2, 1, 3), (17, 9, 25))),
        Call("bits", 64, 0, 2, (1 << 40) - (1 << 5), Layout((2, 2, 2), (16, 16, 16))),
    ]
    for call in some:
        run = masks.add[1](image_of(rng, ("float32",) * 3, ordinary), *call.arguments())
        want = [
            set((start + call.offsets(i, 4)[:, None] + np.arange(4)).ravel().tolist())
            for i, start in enumerate((0, REGION, 2 * REGION))
        ]
        assert touched(run.trace, "Add", 2) == want[0], str(call)
        assert touched(run.trace, "Add", 1) == want[1] | want[2], str(call)


def test_a_ragged_mask_is_one_covering_range(masks: KernelFile) -> None:
    call = Call("bits", 64, 0, 1, 0x5555555555555555)
    run = masks.add[1](image_of(np.random.default_rng(0), ("float32",) * 3, ordinary), *call.arguments())
    assert touched(run.trace, "Add", 2) == set(range(63 * 4))
    ranges = run.trace.decoded()
    assert ranges.masked.sum() == 3
