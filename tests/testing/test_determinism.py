"""Repeats, block order and batches must give the same bits."""

from __future__ import annotations

import numpy as np

from toprope.testing.determinism import batch_consistent, order_independent, repeatable


def test_repeats():
    state = np.zeros(3, np.float32)

    def drifting():
        state[1] += 1
        return [state]

    assert repeatable(lambda: [np.arange(4.0)]).passed
    result = repeatable(drifting)
    assert not result.passed and "first at [1]" in str(result)


def test_block_order_shows_in_a_float_sum_and_not_in_separate_outputs():
    parts = np.array([1e8, 1.0, -1e8, 1.0], np.float32)

    def accumulate(order):
        total = np.float32(0)
        for block in order:
            total += parts[block]
        return [total]

    def separate(order):
        out = np.zeros(4, np.float32)
        for block in order:
            out[block] = parts[block] * 2
        return [out]

    assert not order_independent(accumulate, 4).passed
    assert order_independent(separate, 4).passed


def test_batch_consistency():
    x = np.random.default_rng(0).normal(size=(6, 8)).astype(np.float32)
    scale = np.arange(8, dtype=np.float32)
    rows = batch_consistent(lambda a, s: [a * s], [x, scale], batched=[0])
    assert rows.passed and len(rows.runs) == 3
    mixing = batch_consistent(lambda a, s: [a - a.mean()], [x, scale], batched=[0])
    assert not mixing.passed and "pieces" in str(mixing)
