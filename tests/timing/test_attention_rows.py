"""The kernels of the convolution and flash attention rows compute what they claim to, and the quick rows stay as close as they are."""

from __future__ import annotations

import numpy as np
import pytest

from toprope.kernel import load
from toprope.validation import experiment

pytestmark = pytest.mark.compiler

KERNELS = experiment.HERE / "kernels"
ROWS = {f"{row.kernel}-{row.id}": row for row in experiment.published()}


def errors(*names: str) -> dict[str, float]:
    return {name: experiment.run(ROWS[name]).error for name in names}


def attention(q: np.ndarray, k: np.ndarray, v: np.ndarray) -> np.ndarray:
    scores = q.astype(np.float64) @ k.astype(np.float64).T / np.sqrt(q.shape[1])
    weights = np.exp(scores - scores.max(axis=1, keepdims=True))
    return np.asarray(weights @ v.astype(np.float64) / weights.sum(axis=1, keepdims=True))


def test_convolution_is_right_at_the_borders_and_across_rows() -> None:
    rng = np.random.default_rng(1)
    batch, height, width, channels, filters = 1, 12, 24, 32, 512
    x = rng.standard_normal((batch, channels // 16, height, width, 16)).astype(np.float16)
    w = (rng.standard_normal((channels // 16 * 9, filters // 16, 16, 16)) / 16).astype(np.float16)
    kernel = load(KERNELS / "convolution.cpp", defines=("BASE_M=128", "BASE_N=256")).convolution
    y = np.zeros((batch, filters // 16, height, width, 16), np.float16)
    run = kernel[2](x, w, y, height, width, channels, filters, 256)
    padded = np.pad(x.astype(np.float64), ((0, 0), (0, 0), (1, 1), (1, 1), (0, 0)))
    taps = w.astype(np.float64).reshape(channels // 16, 3, 3, filters // 16, 16, 16)
    golden = sum(
        np.einsum("bchwx,cnyx->bnhwy", padded[:, :, i : i + height, j : j + width], taps[:, i, j])
        for i in range(3)
        for j in range(3)
    )
    assert list(run.findings) == []
    assert np.abs(run.outputs["y"] - golden).max() < 2e-3


def test_attention_through_queues_is_right_with_more_blocks_than_cores_and_queues_that_turn_over() -> None:
    rng = np.random.default_rng(2)
    q, k, v = (rng.standard_normal((n, 128)).astype(np.float16) for n in (384, 2560, 2560))
    defines = ("TILE=256", "AHEAD=4", "QUEUE=8", "PERIOD=1")
    kernel = load(KERNELS / "flash_attention.cpp", defines=defines).flash_attention
    queues = np.zeros(2 * 8 * 128 * (256 * 6 + 512), np.uint8)
    run = kernel[2](q, k, v, np.zeros((384, 128), np.float32), queues, 384, 2560)
    assert list(run.findings) == []
    assert np.abs(run.outputs["out"] - attention(q, k, v)).max() < 2e-4
    assert run.timeline.released_waits == 0, "the scheduler must not run into a wait that nobody ends"


@pytest.mark.slow
def test_attention_in_batches_is_right_with_a_last_batch_that_is_not_full() -> None:
    rng = np.random.default_rng(3)
    q, k, v = (rng.standard_normal((n, 128)).astype(np.float16) for n in (384, 1280, 1280))
    kernel = load(KERNELS / "flash_attention_batches.cpp", defines=("STAGES=8", "INTERVAL=2")).flash_attention_batches
    run = kernel[2](q, k, v, np.zeros_like(q), np.zeros(2 * 3 * 8 * 16384, np.float16), 3, 1280)
    assert list(run.findings) == []
    assert np.abs(run.outputs["out"] - attention(q, k, v)).max() < 1e-3
    assert run.timeline.released_waits == 0


def test_convolutions_are_close_but_for_the_smallest() -> None:
    found = errors("convolution-w2", "convolution-w3")
    assert all(abs(error) <= 0.15 for error in found.values()), found


def test_attention_on_up_to_eight_cores_is_close_where_launching_is_no_large_part() -> None:
    found = errors(*(f"flash_attention-f{i}" for i in (3, 4, 7, 8, 11, 12, 15)))
    assert all(abs(error) <= 0.2 for error in found.values()), found


@pytest.mark.slow
def test_attention_in_batches_is_close() -> None:
    found = errors(*(f"flash_attention_batches-t{i}" for i in (1, 2)))
    assert all(abs(error) <= 0.15 for error in found.values()), found
