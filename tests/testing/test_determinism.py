"""Repeats, block order and batches must give the same bits."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import toprope
from toprope.errors import BadArgument
from toprope.testing import Argument, Case, Golden
from toprope.testing.determinism import batch_axis, batch_consistent, order_independent, repeatable
from toprope.testing.execution import FAILED, PASSED, execute
from toprope.testing.runners import FunctionRunner
from toprope.testing.suite import Suite


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


ORDER_KERNEL = """
#include "kernel_operator.h"
using namespace AscendC;
// Adds a quarter of x to y[0..63] atomically (`sum`), or writes it doubled to its own place.
extern "C" __global__ __aicore__ void add_up(GM_ADDR x, GM_ADDR y, GM_ADDR z) {
    TPipe pipe;
    TQue<TPosition::VECIN, 1> in;
    TQue<TPosition::VECOUT, 1> out;
    pipe.InitBuffer(in, 1, 256);
    pipe.InitBuffer(out, 1, 256);
    GlobalTensor<float> from, sum, own;
    from.SetGlobalBuffer((__gm__ float*)x + GetBlockIdx() * 64, 64);
    sum.SetGlobalBuffer((__gm__ float*)y, 64);
    own.SetGlobalBuffer((__gm__ float*)z + GetBlockIdx() * 64, 64);
    LocalTensor<float> a = in.AllocTensor<float>();
    DataCopy(a, from, 64);
    in.EnQue(a);
    a = in.DeQue<float>();
    LocalTensor<float> b = out.AllocTensor<float>();
    Muls(b, a, 2.0f, 64);
    out.EnQue(b);
    in.FreeTensor(a);
    b = out.DeQue<float>();
    DataCopy(own, b, 64);
    SetAtomicAdd<float>();
    DataCopy(sum, b, 64);
    SetAtomicNone();
    out.FreeTensor(b);
}
"""


@pytest.fixture(scope="module")
def kernel(tmp_path_factory: pytest.TempPathFactory):
    file = tmp_path_factory.mktemp("order") / "add_up.cpp"
    file.write_text(ORDER_KERNEL)
    return toprope.load(file)["add_up"]


@pytest.mark.compiler
def test_a_kernels_blocks_run_in_the_order_that_is_asked_for(kernel):
    parts = np.repeat(np.array([1e8, 1.0, -1e8, 1.0], np.float32), 64)

    def run(which):
        def outputs(order):
            y, z = np.zeros(64, np.float32), np.zeros(256, np.float32)
            kernel[4](parts, y, z, block_order=order)
            return [{"y": y, "z": z}[which]]

        return outputs

    assert run("y")([0, 2, 1, 3])[0][0] == 4 and run("y")([0, 1, 2, 3])[0][0] == 2
    assert not order_independent(run("y"), 4).passed
    assert order_independent(run("z"), 4).passed
    with pytest.raises(BadArgument, match="every block once"):
        run("z")([0, 1, 2, 2])


def suite_of(case, golden):
    reference = Golden(golden)
    return Suite(case.operator, Path(), "python", [case], lambda case, inputs: reference(inputs, case.attrs))


def rows(shape=(6, 40)):
    return Case("rows", "op", (Argument("x", "float32", shape), Argument("y", "float32", shape[1:])))


def test_the_reference_says_what_a_batch_is():
    x, y, square = np.ones((4, 8)), np.arange(8.0), np.random.default_rng(1).normal(size=(4, 4))
    assert batch_axis([x, y], lambda a, b: [a * b]) == [0]
    assert batch_axis([x, x], lambda a, b: [a + b]) == [0, 1]
    assert batch_axis([square, square], lambda a, b: [a @ b]) == [0]
    assert batch_axis([square], lambda a: [a - a.mean()]) == []
    assert batch_axis([square], lambda a: [a.sum()]) == []


def test_a_case_is_examined_by_repetition_order_and_batch():
    case, calls = rows(), []

    def scaled(x, y):
        return x * y

    def drifting(x, y):
        calls.append(1)
        return x * y + len(calls) * np.float32(1e-6)

    def by_size_of_batch(x, y):
        return x * y * np.float32(1 + 1e-7 * (len(x) < 6))

    suite = suite_of(case, scaled)
    good = execute(suite, case, FunctionRunner(scaled), determinism=True)
    assert good.status == PASSED
    assert good.determinism == {"repeat": "identical", "block order": "identical", "batch consistency": "identical"}
    drift = execute(suite, case, FunctionRunner(drifting), determinism=True)
    assert drift.status == FAILED and drift.determinism["repeat"] == "differs"
    assert drift.message.startswith("not deterministic: repeat, again: ") and "first at [0, " in drift.message
    batch = execute(suite, case, FunctionRunner(by_size_of_batch), determinism=True)
    assert batch.determinism["repeat"] == "identical" and batch.determinism["batch consistency"] == "differs"
    assert execute(suite, case, FunctionRunner(by_size_of_batch)).status == PASSED


@pytest.mark.compiler
def test_a_sum_in_the_order_of_the_blocks_is_found_in_a_kernel(kernel):
    case = Case("parts", "op", (Argument("x", "float32", (4, 64)),))

    def output(which):
        def run(case, inputs):  # a block a row; into zeros, as a sum in GM needs
            y, z = np.zeros(64, np.float32), np.zeros_like(inputs[0])
            kernel[len(z)](inputs[0], y, z)
            return FunctionRunner(lambda x: {"y": y, "z": z}[which])(case, inputs)

        return run

    doubled = suite_of(case, lambda x: 2 * x)
    own = execute(doubled, case, output("z"), determinism=True)
    assert own.status == PASSED and own.determinism["block order"] == "identical"
    total = suite_of(case, lambda x: 2 * x.sum(0))
    summed = execute(total, case, output("y"), determinism=True)
    assert summed.status == FAILED and summed.determinism["repeat"] == "identical"
    assert summed.determinism["block order"] == "differs" and "block order, reversed" in summed.message
