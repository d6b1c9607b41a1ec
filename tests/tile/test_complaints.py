"""What users of other tile languages for this chip complain about in public, one test each: it cannot happen here.

The threads: UB overflow that nobody can predict (triton-ascend 302, 1638, 1640; vllm-ascend 8037), overflow seen only at run time
(tilelang-ascend 159), a barrier missed after a branch (1824), PIPE_ALL everywhere (110, 482), switches that silently do nothing (1825),
tails (36), tile sizes chosen without a reason (triton-ascend 633, 845), stores out of range that an interpreter clips.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.tile.test_kernels import KERNELS, both
from tests.tile.test_refusals import LOOP, define
from toprope import tile
from toprope.tile import TileError, TileTooLarge

TRITON = Path(__file__).parents[2] / "examples" / "09_tile" / "triton_kernels.py"


def test_ub_overflow_without_explanation() -> None:
    with pytest.raises(TileTooLarge) as refusal:
        KERNELS.softmax.source(R=64)
    text = refusal.value.message
    assert "ub needs" in text and "of 196608" in text, "both numbers"
    assert "in0" in text and "rows" in text and "scratch" in text, "every buffer"
    fits = int(refusal.value.cure.split("R = ")[1].split()[0])
    assert KERNELS.softmax.source(R=fits), "the size it names does fit"


def test_ub_overflow_seen_only_at_run_time() -> None:
    kernel = tile.triton(TRITON, "softmax_kernel")
    with pytest.raises(TileTooLarge, match=r"ub needs 5\d{5} of 196608"):
        kernel.source(out_ptr=tile.f32, in_ptr=tile.f32, BLOCK=65536)


def test_missed_barrier_after_a_branch(tmp_path: Path) -> None:
    body = LOOP + (
        "        t = x[i] * 2\n        if fast:\n            t = tile.exp(t)\n        else:\n            t = -t\n"
        "        if fast:\n            t = t + x[i]\n        z[i] = tile.where(t > 1, t, x[i])\n"
    )
    kernel = define(tmp_path, body)
    x, h = np.random.default_rng(0).standard_normal((2, 1000), dtype=np.float32)
    z = both(kernel, [x, h.astype(np.float16)], np.zeros(1000, np.float32))  # the checker of races among other things
    t = np.exp(x * 2) + x
    assert np.allclose(z, np.where(t > 1, t, x), rtol=1e-6)


def test_barriers_of_all_pipes_everywhere() -> None:
    for kernel in (KERNELS.add, KERNELS.softmax, KERNELS.rms_norm, KERNELS.embedding):
        assert "PipeBarrier" not in kernel.source() and "PIPE_ALL" not in kernel.source()
        assert "DeQue" in kernel.source(), "order comes from queues"


def test_switches_that_do_nothing() -> None:
    with pytest.raises(TileError, match="no parameter multibuffer"):
        KERNELS.add.source(multibuffer=True)
    with pytest.raises(TileError, match="pinned"):
        KERNELS.add.pin("q", depth=2)
    with pytest.raises(TileError, match="m has one buffer in rows"):
        KERNELS.softmax.pin("m", depth=2)
    with pytest.raises(TileError, match="a stage lies in workspace"):
        KERNELS.ln_gemm.pin("h", "l1")
    with pytest.raises(TileTooLarge, match="4 x 32768"):
        KERNELS.add.pin("x", depth=4).source()
    assert "pipe.InitBuffer(in0, 1, 16384)" in KERNELS.add.pin("x", depth=1).source(T=4096)
    assert "pipe.InitBuffer(in0, 2, 16384)" in KERNELS.add.source(T=4096)


@pytest.mark.parametrize("n", [1, 8191, 8192, 8193, 16385])
def test_tails(n: int) -> None:
    around = np.full(n + 128, 7, np.float32)
    x = np.arange(n, dtype=np.float32)
    out = around[64 : 64 + n]
    run = KERNELS.add.run(x, x, out)
    assert np.array_equal(out, x + x) and np.all(around[:64] == 7) and np.all(around[64 + n :] == 7)
    assert [f.code for f in run.findings if f.severity != "advice"] == []


def test_tile_sizes_chosen_without_a_reason() -> None:
    found = tile.search(KERNELS.add, {"N": 50_000}, most=1)
    assert all(c.microseconds is not None or c.reason for c in found)
    assert any("of 196608" in c.reason for c in found)


def test_out_of_range_that_an_interpreter_clips() -> None:
    x = np.zeros((4, 30), np.float32)
    with pytest.raises(TileError, match="in_ptr has 120 elements; element 120 is touched"):
        tile.triton(TRITON, "softmax_kernel")[4](np.zeros((4, 60), np.float32), x, 50, 60, 30, BLOCK=32)
