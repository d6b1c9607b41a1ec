"""Cures name the mistake: a queue of the wrong position, a forgotten DeQue or EnQue, too many blocks, a tile that does not divide."""

from __future__ import annotations

import numpy as np
import pytest

import toprope
from toprope import cli
from toprope.finding import Finding
from toprope.kernel import KernelFile

SOURCE = """#include "kernel_operator.h"
using namespace AscendC;
enum Mistake { kNone, kOutputAtVecin, kAllocatedAgain, kNotEnqueued };
template <int mistake> __aicore__ inline void add_one(GM_ADDR x, GM_ADDR z, uint32_t length, uint32_t tile) {
    TPipe pipe;
    TQue<TPosition::VECIN, 2> in;
    TQue<mistake == kOutputAtVecin ? TPosition::VECIN : TPosition::VECOUT, 2> out;
    pipe.InitBuffer(in, 2, tile * sizeof(float));
    pipe.InitBuffer(out, 2, tile * sizeof(float));
    GlobalTensor<float> xg, zg;
    xg.SetGlobalBuffer((__gm__ float*)x + GetBlockIdx() * length);
    zg.SetGlobalBuffer((__gm__ float*)z + GetBlockIdx() * length);
    for (uint32_t i = 0; i < length / tile; ++i) {
        LocalTensor<float> a = in.AllocTensor<float>();
        DataCopy(a, xg[i * tile], tile);
        if (mistake != kNotEnqueued) in.EnQue(a);
        if (mistake == kAllocatedAgain) a = in.AllocTensor<float>();
        else if (mistake != kNotEnqueued) a = in.DeQue<float>();
        LocalTensor<float> b = out.template AllocTensor<float>();
        Adds(b, a, 1.0f, tile);
        out.EnQue(b);
        in.FreeTensor(a);
        b = out.template DeQue<float>();
        DataCopy(zg[i * tile], b, tile);
        out.FreeTensor(b);
        if (mistake == kAllocatedAgain) return;
    }
}
extern "C" __global__ __aicore__ void right(GM_ADDR x, GM_ADDR z, uint32_t length, uint32_t tile) { add_one<kNone>(x, z, length, tile); }
extern "C" __global__ __aicore__ void vecin(GM_ADDR x, GM_ADDR z, uint32_t length, uint32_t tile) { add_one<kOutputAtVecin>(x, z, length, tile); }
extern "C" __global__ __aicore__ void again(GM_ADDR x, GM_ADDR z, uint32_t length, uint32_t tile) { add_one<kAllocatedAgain>(x, z, length, tile); }
extern "C" __global__ __aicore__ void loose(GM_ADDR x, GM_ADDR z, uint32_t length, uint32_t tile) { add_one<kNotEnqueued>(x, z, length, tile); }
"""


@pytest.fixture(scope="module")
def kernels(tmp_path_factory: pytest.TempPathFactory) -> KernelFile:
    file = tmp_path_factory.mktemp("cures") / "add_one.cpp"
    file.write_text(SOURCE)
    return toprope.load(file)


def first(
    kernels: KernelFile, entry: str, *, total: int = 1024, length: int = 1024, tile: int = 256, blocks: int = 1
) -> Finding:
    x, z = np.ones(total, np.float32), np.full(total, np.nan, np.float32)
    run = kernels[entry][blocks](x, z, length, tile, poisoned=["z"])
    return next(f for f in run.findings if f.severity != "advice")


def test_the_right_kernel_is_clean(kernels: KernelFile) -> None:
    with pytest.raises(StopIteration):
        first(kernels, "right")


def test_a_queue_of_an_output_at_vecin(kernels: KernelFile) -> None:
    finding = first(kernels, "vecin")
    assert finding.code == "race-unordered-pipes"
    assert "VECOUT" in finding.cure


def test_a_tensor_allocated_again_instead_of_dequeued(kernels: KernelFile) -> None:
    finding = first(kernels, "again")
    assert finding.code == "uninitialised-read"
    assert "DeQue" in finding.cure


def test_a_tensor_that_never_went_through_its_queue(kernels: KernelFile) -> None:
    finding = first(kernels, "loose")
    assert finding.code == "race-unordered-pipes"
    assert finding.cure.startswith("EnQue the tensor")


def test_more_blocks_than_data(kernels: KernelFile) -> None:
    finding = first(kernels, "right", blocks=2)
    assert finding.code == "gm-out-of-bounds"
    assert "on block 1 of 2" in finding.message
    assert "launch fewer blocks" in finding.cure


def test_a_tile_that_does_not_divide_the_length(kernels: KernelFile) -> None:
    finding = first(kernels, "right", total=1000, length=1000)
    assert finding.code == "output-not-written"
    assert "928 of the 4000 bytes of z" in finding.message


def test_an_output_of_which_only_a_part_is_meant(kernels: KernelFile) -> None:
    with pytest.raises(StopIteration):
        first(kernels, "right", total=2048, length=1024)


def test_a_kernel_that_relies_on_the_compiler_is_told_so(
    tmp_path_factory: pytest.TempPathFactory, capfd: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path_factory.mktemp("relies") / "relies.cpp"
    file.write_text(
        """#include "kernel_operator.h"
using namespace AscendC;
template <bool barrier> __aicore__ inline void twice(GM_ADDR x, GM_ADDR z) {
    LocalTensor<float> a(TPosition::VECCALC, 0, 256);
    GlobalTensor<float> xg, zg;
    xg.SetGlobalBuffer((__gm__ float*)x);
    zg.SetGlobalBuffer((__gm__ float*)z);
    DataCopy(a, xg, 256);
    SetFlag<HardEvent::MTE2_V>(0);
    WaitFlag<HardEvent::MTE2_V>(0);
    Adds(a, a, 1.0f, 256);
    if (barrier) PipeBarrier<PIPE_V>();
    Muls(a, a, 2.0f, 256);
    SetFlag<HardEvent::V_MTE3>(0);
    WaitFlag<HardEvent::V_MTE3>(0);
    DataCopy(zg, a, 256);
}
extern "C" __global__ __aicore__ void without(GM_ADDR x, GM_ADDR z) { twice<false>(x, z); }
extern "C" __global__ __aicore__ void with_barrier(GM_ADDR x, GM_ADDR z) { twice<true>(x, z); }
"""
    )
    arguments = ["x=float[256]", "z=float[256] out"]
    assert cli.main(["check", f"{file}:without", *arguments]) == 0
    assert "1 race more: --sync manual" in capfd.readouterr().err
    assert cli.main(["check", f"{file}:with_barrier", *arguments]) == 0
    assert "--sync manual" not in capfd.readouterr().err
