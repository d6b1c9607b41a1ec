"""The coupled core of 310P: its own paths between UB, L1 and L0C, scaling on the way out of L0C, and what it lacks."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.ascendc.harness import GM, kernels
from toprope.errors import CompileFailed
from toprope.kernel import Run

CHIP = "ascend310p3"

KERNELS = (
    GM
    + r"""
extern "C" __global__ __aicore__ void through_l1(GM_ADDR x, GM_ADDR out) {
    LocalTensor<half> ub(TPosition::VECCALC, 0, 256), l1(TPosition::A1, 0, 256), back(TPosition::VECCALC, 1024, 256);
    DataCopy(ub, gm<half>(x), 256);
    PipeBarrier<PIPE_ALL>();
    DataCopy(l1, ub, 256);
    PipeBarrier<PIPE_ALL>();
    DataCopy(back, l1, DataCopyParams(2, 8, 0, 0));
    PipeBarrier<PIPE_ALL>();
    DataCopy(gm<half>(out), back, 256);
}
template <typename T, typename U> void out_of_l0c(GM_ADDR x, GM_ADDR out, int32_t count, DataCopyEnhancedParams e) {
    // L0C is filled by hand: this is about the way out.
    LocalTensor<U> l0c(TPosition::CO1, 0, 1024);
    LocalTensor<T> ub(TPosition::CO2, 0, 1024);
    for (int i = 0; i < 1024; ++i) l0c.SetValue(i, gm<U>(x).GetValue(i));
    DataCopy(ub, l0c, DataCopyParams(count, 1, 1, 0), e);
    PipeBarrier<PIPE_ALL>();
    DataCopy(gm<T>(out), ub, 512);
}
extern "C" __global__ __aicore__ void plain(GM_ADDR x, GM_ADDR out) {
    DataCopyEnhancedParams e;
    e.blockMode = BlockMode::BLOCK_MODE_MATRIX;
    e.isRelu = true;
    out_of_l0c<float, float>(x, out, 2, e);
}
extern "C" __global__ __aicore__ void narrow(GM_ADDR x, GM_ADDR out) {
    DataCopyEnhancedParams e;
    e.blockMode = BlockMode::BLOCK_MODE_MATRIX;
    out_of_l0c<half, float>(x, out, 2, e);
}
extern "C" __global__ __aicore__ void deq8(GM_ADDR x, GM_ADDR out, uint64_t value) {
    out_of_l0c<int8_t, int32_t>(x, out, 2, {BlockMode::BLOCK_MODE_MATRIX, DeqScale::DEQ8, value, 0, 2, false, pad_t::PAD_NONE, 0});
}
extern "C" __global__ __aicore__ void deq16(GM_ADDR x, GM_ADDR out, uint64_t value) {
    out_of_l0c<half, int32_t>(x, out, 2, {BlockMode::BLOCK_MODE_MATRIX, DeqScale::DEQ16, value, 0, 0, false, pad_t::PAD_NONE, 0});
}
extern "C" __global__ __aicore__ void vdeq(GM_ADDR x, GM_ADDR out) {
    out_of_l0c<half, int32_t>(x, out, 2, {BlockMode::BLOCK_MODE_MATRIX, DeqScale::VDEQ16, 0, 0, 0, false, pad_t::PAD_NONE, 0});
}
extern "C" __global__ __aicore__ void no_bias_table(GM_ADDR x) {
    LocalTensor<half> l1(TPosition::A1, 0, 64);
    DataCopy(gm<half>(x), l1, 64);
}
extern "C" __global__ __aicore__ void marks(GM_ADDR out, GM_ADDR sync) {
    LocalTensor<int32_t> ub(TPosition::VECCALC, 0, 64);
    gm<int32_t>(out).SetValue(GetBlockIdx() * 16, GetBlockIdx() + 1);
    SyncAll(gm<int32_t>(sync), ub);
    int32_t sum = 0;
    for (int i = 0; i < GetBlockNum(); ++i) sum += gm<int32_t>(out).GetValue(i * 16);
    gm<int32_t>(out).SetValue(GetBlockIdx() * 16 + 1, sum);
}
"""
)


def module() -> Any:
    return kernels(KERNELS, "coupled")


def codes(run: Run) -> list[str]:
    return [r.code for r in run.trace.reports]


def blocks(x: np.ndarray) -> np.ndarray:
    """The two fractals that the kernels copy: one is skipped between them."""
    return np.concatenate([x[:256], x[512:768]])


def test_ub_and_l1_are_connected() -> None:
    x, out = np.arange(256).astype(np.float16), np.zeros(256, np.float16)
    run = module().through_l1[1](x, out, soc=CHIP)
    assert not codes(run)
    np.testing.assert_array_equal(out, x)
    assert [run.trace.ops[i["op"]].cost for i in run.trace.instrs if run.trace.ops[i["op"]].kind == "copy"] == [
        "gm_to_ub",
        "ub_to_l1",
        "l1_to_ub",
        "ub_to_gm",
    ]


def test_l0c_leaves_with_relu_and_as_half() -> None:
    x = np.random.default_rng(0).normal(0, 9, 1024).astype(np.float32)
    out, halves = np.zeros(512, np.float32), np.zeros(512, np.float16)
    assert not codes(module().plain[1](x, out, soc=CHIP))
    np.testing.assert_array_equal(out, np.maximum(blocks(x), 0))
    assert not codes(module().narrow[1](x, halves, soc=CHIP))
    np.testing.assert_array_equal(halves, blocks(x).astype(np.float16))


def test_int32_leaves_scaled() -> None:
    x = np.random.default_rng(1).integers(-3000, 3000, 1024).astype(np.int32)
    scale = np.float32(0.0625)
    word = int(scale.view(np.uint32))
    eight, sixteen = np.zeros(512, np.int8), np.zeros(512, np.float16)
    module().deq8[1](x, eight, word | 5 << 37 | 1 << 46, soc=CHIP)
    np.testing.assert_array_equal(eight, np.clip(np.rint(blocks(x) * scale) + 5, -128, 127).astype(np.int8))
    module().deq16[1](x, sixteen, word, soc=CHIP)
    np.testing.assert_array_equal(sixteen, (blocks(x).astype(np.float32) * scale).astype(np.float16))


def test_what_is_not_modelled_says_so() -> None:
    x, out = np.zeros(1024, np.int32), np.zeros(512, np.float16)
    assert codes(module().vdeq[1](x, out, soc=CHIP)) == ["copy-mode-not-modelled"]


def test_paths_of_the_split_chips_are_missing() -> None:
    assert codes(module().no_bias_table[1](np.zeros(64, np.float16), soc=CHIP)) == ["no-such-path"]


def test_software_sync_of_coupled_cores() -> None:
    out = np.zeros(64, np.int32)
    assert not codes(module().marks[4](out, np.zeros(32, np.int32), soc=CHIP))
    assert out.reshape(4, 16)[:, 1].tolist() == [10] * 4


@pytest.mark.parametrize(
    ("body", "text"),
    [
        ("DataCopyPad(g, u, DataCopyExtParams(1, 2, 0, 0, 0));", "this chip has no DataCopyPad"),
        ("SyncAll();", "needs hardware flags, which this chip does not have"),
        ("CrossCoreWaitFlag(0);", "this chip has no flags between cores"),
        ("SetAtomicAdd<int8_t>();", "this chip has no atomic copies of this element type"),
    ],
)
def test_what_the_chip_lacks_does_not_compile(body: str, text: str) -> None:
    file = kernels(
        'extern "C" __global__ __aicore__ void k(GM_ADDR x) { LocalTensor<half> u(TPosition::VECIN, 0, 64); GlobalTensor<half> g; '
        + body
        + " }"
    )
    with pytest.raises(CompileFailed, match=text):
        file.k[1](np.zeros(8, np.float16), soc=CHIP)
