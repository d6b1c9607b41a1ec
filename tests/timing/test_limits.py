"""Rules of the memory and of launching at their edges: which page leaves L2, what a read-modify-write costs, when a second wave begins."""

from __future__ import annotations

import ctypes as c
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from tests.ascendc.harness import kernels
from toprope import soc
from toprope.build import shared_library
from toprope.kernel import Run
from toprope.order import __file__ as order_file
from toprope.timing import __file__ as timing_file
from toprope.trace import PIPES

pytestmark = pytest.mark.compiler

PROBE = """
#include "memory.h"
// Reads pages in turn, each 4096 bytes from `pages[i]`; missed[i] = bytes that were not in L2.
extern "C" void read_pages(double capacity, const uint64_t* pages, uint32_t count, double* missed) {
    timing::L2 l2(0, 64 * 4096, capacity);
    for (uint32_t i = 0; i < count; ++i) {
        timing::Demand demand;
        l2.access(pages[i] * 4096, 4096, false, false, demand);
        missed[i] = demand.miss;
    }
}
// Bytes that had to leave L2 when page 1 came in after page 0 was written in part.
extern "C" double written_back(uint64_t bytes) {
    timing::L2 l2(0, 64 * 4096, 4096);
    timing::Demand first, second;
    l2.access(0, bytes, true, false, first);
    l2.access(4096, 4096, false, false, second);
    return second.evicted;
}
"""
ORDER = """
#include "pipes.h"
extern "C" int in_order(uint32_t pipe) { return toprope_order::completes_in_order(pipe); }
extern "C" int covered(uint32_t from, uint32_t to) { return toprope_order::compiler_covers(from, to); }
"""
KERNELS = """
extern "C" __global__ __aicore__ void stores(GM_ADDR out, uint32_t count, uint32_t add) {
    KERNEL_TASK_TYPE_DEFAULT(KERNEL_TYPE_AIV_ONLY);
    GlobalTensor<float> gm;
    gm.SetGlobalBuffer((__gm__ float*)out);
    const LocalTensor<float> ub(TPosition::VECOUT, 0, 8192);
    Duplicate(ub, 0.0f, 8192);
    SetFlag<HardEvent::V_MTE3>(EVENT_ID0);
    WaitFlag<HardEvent::V_MTE3>(EVENT_ID0);
    if (add) SetAtomicAdd<float>();
    for (uint32_t i = 0; i < count; ++i) DataCopy(gm[(GetBlockIdx() * count + i) * 8192], ub, 8192);
    if (add) SetAtomicNone();
}
extern "C" __global__ __aicore__ void works(GM_ADDR x) {
    KERNEL_TASK_TYPE_DEFAULT(KERNEL_TYPE_AIV_ONLY);
    const LocalTensor<float> ub(TPosition::VECOUT, 0, 8192);
    for (int i = 0; i < 16; ++i) Duplicate(ub, 0.0f, 8192);
}
"""


@cache
def probe() -> c.CDLL:
    library = c.CDLL(str(shared_library(PROBE, include=(Path(timing_file).parent,))))
    library.written_back.restype = c.c_double
    library.written_back.argtypes = [c.c_uint64]
    return library


def missed(capacity_pages: float, *pages: int) -> list[float]:
    """Bytes that each read of a page brings in, in pages."""
    out = (c.c_double * len(pages))()
    probe().read_pages(c.c_double(capacity_pages * 4096), (c.c_uint64 * len(pages))(*pages), len(pages), out)
    return [x / 4096 for x in out]


def test_the_page_that_was_used_longest_ago_leaves() -> None:
    assert missed(2, 0, 1, 0, 2, 0) == [1, 1, 0, 1, 0], "0 was used after 1, so that 1 made room for 2"
    assert missed(2, 0, 1, 0, 2, 1) == [1, 1, 0, 1, 1]
    assert missed(3, 0, 1, 2, 0, 3, 1) == [1, 1, 1, 0, 1, 1]
    assert missed(2, 0, 1, 0, 1) == [1, 1, 0, 0], "exactly what fits stays"
    assert missed(1.99, 0, 1, 0, 1) == [1, 1, 1, 1], "a little less does not"


def test_what_was_written_goes_back_by_sectors() -> None:
    assert [probe().written_back(n) for n in (1, 128, 129, 4096)] == [128, 128, 256, 4096]


def test_which_pipes_complete_in_order() -> None:
    library = c.CDLL(str(shared_library(ORDER, include=(Path(order_file).parent,))))
    assert {p for i, p in enumerate(PIPES) if library.in_order(i)} == {"S", "M", "MTE1", "FIX"}
    covered = {(a, b) for i, a in enumerate(PIPES) for j, b in enumerate(PIPES) if library.covered(i, j)}
    scalar = {pair for p in ("V", "MTE2", "MTE3") for pair in (("S", p), (p, "S"))}
    assert covered == scalar | {("V", "V")}


@cache
def run(entry: str, blocks: int, *numbers: int) -> Run:
    x = np.zeros(48 * 8 * 8192 if entry == "stores" else 64, np.float32)
    return getattr(kernels(KERNELS, "timing_limits"), entry)[blocks](x, *numbers, soc="ascend910b1")


def test_a_read_modify_write_costs_l2_twice() -> None:
    """All cores store 32 KB pieces: L2's write rate decides, and adding in place asks it for one read and one write."""
    assert soc.load("ascend910b1").number("gm_atomic.weight") == 2.0

    def marginal(add: int) -> float:
        return run("stores", 48, 8, add).timeline.cycles - run("stores", 48, 4, add).timeline.cycles

    assert marginal(1) / marginal(0) == pytest.approx(2.0, rel=0.15)


def test_blocks_of_the_second_wave_begin_when_a_core_is_free() -> None:
    one, two = run("works", 48), run("works", 60)
    chip = soc.load("ascend910b1")
    gap = chip.number("launch_blocks.block_us") * chip.ghz * 1e3
    starts, ends = np.sort(two.timeline.core_start), np.sort(two.timeline.core_end)
    assert gap > 0 and np.allclose(np.diff(starts[:48]), gap), (
        "blocks of the first wave are dealt out one after another"
    )
    assert np.allclose(starts[48:], ends[:12] + gap), "later ones when a core has ended, and one dealing later"
    assert two.timeline.cycles == pytest.approx(ends[11] + gap + (ends[0] - starts[0]))
    assert np.allclose(starts[:48], np.sort(one.timeline.core_start))
