"""The softmax family against NumPy: one value per row in blocks or packed, running updates, padding, long rows, little scratch."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.ascendc.harness import kernels
from tests.ascendc.ub_kernel import FRAME, Oracle, call, mistakes, ub_kernel
from toprope.kernel import KernelFile


def softmax(x: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    top = x.max(-1, keepdims=True)
    e = np.exp(x - top)
    total = e.sum(-1, keepdims=True)
    return e / total, top, total


def flash(
    x: np.ndarray, in_max: np.ndarray, in_sum: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    top = np.maximum(in_max, x.max(-1, keepdims=True))
    e, factor = np.exp(x - top), np.exp(in_max - top)
    return e, top, e.sum(-1, keepdims=True) + factor * in_sum, factor


def pasa(
    x: np.ndarray, alpha: float, loops: int, before: tuple[np.ndarray, np.ndarray, np.ndarray] | None
) -> tuple[np.ndarray, ...]:
    """result, mean, sum, max, and with `before` (mean, sum, max of the rounds before) the factor that corrects earlier results."""
    n = x.shape[1]
    scale = alpha / (1 - alpha)
    column = np.arange(n)
    part_of_sum = np.where(column < 512, column // 64, column // 8 % 8)
    local = np.stack([x[:, part_of_sum == i].sum(-1) for i in range(8)], -1) / (n / 8)
    mean = x.mean(-1, keepdims=True)
    levelled = x - ((mean - local) * scale)[:, column // (n // 8)]
    if before is None:
        top, shift, total = levelled.max(-1, keepdims=True), 0.0, 0.0
        y = np.exp(levelled - top)
        return y, mean, y.sum(-1, keepdims=True), top
    old_mean, old_total, old_top = before
    running = (mean + old_mean * (loops - 1)) / loops
    shift = (mean - running) * scale
    earlier = old_top + (old_mean - running) * scale
    top = np.maximum(levelled.max(-1, keepdims=True) + shift, earlier)
    y, factor = np.exp(levelled - (top - shift)), np.exp(earlier - top)
    total = factor * old_total + y.sum(-1, keepdims=True)
    return y, running, total, top, factor


ORACLES: dict[str, Oracle] = {
    "SoftmaxFlashV3": pasa,
    "SoftMax": softmax,
    "SimpleSoftMax": lambda x, top, total: np.exp(x - top) / total,
    "SoftmaxFlashV2": flash,
    "SoftmaxFlash": flash,
    "SoftmaxGrad": lambda g, y: (g - (g * y).sum(-1, keepdims=True)) * y,
    "SoftmaxGradFront": lambda g, y: (g * y).sum(-1, keepdims=True),
    "AdjustSoftMaxRes": lambda res, top, value, to: np.where(top == value, to, res),
}
# T of the matrix, T of the row values
PAIRS = [(np.float32, np.float32), (np.float16, np.float32), (np.float16, np.float16)]
CPP = {np.float16: "half", np.float32: "float"}


def text() -> str:
    out = FRAME + "constexpr SoftmaxConfig kPacked = {true, 0, 0, SoftmaxMode::SOFTMAX_OUTPUT_WITHOUT_BRC};\n"
    info = "SoftMaxTiling tiling; SoftMaxShapeInfo info{(uint32_t)m, (uint32_t)k, (uint32_t)m, (uint32_t)n};"
    for t, v in PAIRS:
        d, w = CPP[t], CPP[v]
        four = {"x": d, "y": d, "a": w, "b": w, "t": "uint8_t"}
        out += ub_kernel(
            f"SoftMax_{d}_{w}",
            four,
            f"{info} if (given) SoftMax<{d}>(y, b, a, x, t, tiling, info); else SoftMax<{d}, false, false, false, kPacked>(y, b, a, x, tiling, info);",
            ["m", "k", "n", "given"],
        )
        out += ub_kernel(
            f"Simple_{d}_{w}", four, f"{info} SimpleSoftMax<{d}>(y, b, a, x, t, tiling, info);", ["m", "k", "n"]
        )
        six = {"x": d, "y": d, "a": w, "b": w, "e": d, "t": "uint8_t"}
        out += ub_kernel(
            f"Flash_{d}_{w}",
            six,
            f"{info} if (update) SoftmaxFlashV2<{d}, true>(y, b, a, x, e, b, a, t, tiling, info); else SoftmaxFlashV2<{d}, false>(y, b, a, x, e, b, a, t, tiling, info);",
            ["m", "k", "n", "update"],
        )
        out += ub_kernel(
            f"FlashPacked_{d}_{w}",
            six,
            f"{info} SoftmaxFlashV2<{d}, true, false, false, false, kPacked>(y, b, a, x, e, b, a, t, tiling, info);",
            ["m", "k", "n"],
        )
        out += ub_kernel(
            f"FlashOld_{d}_{w}",
            six,
            f"{info} SoftmaxFlash<{d}>(y, b, a, x, e, b, a, t, tiling, true, info);",
            ["m", "k", "n"],
        )
    out += ub_kernel(
        "Pasa",
        {"x": "half", "y": "half", "c": "float", "b": "float", "a": "float", "e": "half", "t": "uint8_t"},
        "SoftMaxTiling tiling; SoftMaxParams p{(uint32_t)m, (uint32_t)k, (uint32_t)m, (uint32_t)k, (uint32_t)loops, 8, 0.9375f};"
        "if (loops > 1) SoftmaxFlashV3<half, float, true>(y, c, b, a, x, e, c, b, a, t, tiling, p); else SoftmaxFlashV3<half, float>(y, c, b, a, x, e, c, b, a, tiling, p);",
        ["m", "k", "loops"],
    )
    for c in CPP.values():
        three = {"g": c, "x": c, "y": c, "t": "uint8_t"}
        out += ub_kernel(
            f"Grad_{c}",
            three,
            f"{info} if (front) SoftmaxGradFront<{c}>(y, g, x, t, tiling, info); else SoftmaxGrad<{c}>(y, g, x, t, tiling, false, info);",
            ["m", "k", "n", "front"],
        )
        out += ub_kernel(
            f"Adjust_{c}",
            {"y": c, "a": "float", "c": "int32_t"},
            f"SoftMaxShapeInfo info{{(uint32_t)m, (uint32_t)k, (uint32_t)m, (uint32_t)k}}; c.SetValue(0, (int32_t)AdjustSoftMaxRes<{c}, float>(y, a, 0xff7fffff, {c}(0), info));",
            ["m", "k"],
        )
    return out


@pytest.fixture(scope="module")
def compiled() -> KernelFile:
    return kernels(text(), "lib_softmax")


def matrix(t: Any, m: int, k: int, seed: int = 0) -> np.ndarray:
    return (np.random.default_rng(seed).standard_normal((m, k)) * 3).astype(t)


def blocks(values: np.ndarray, t: Any) -> np.ndarray:
    return np.repeat(values.astype(t), 32 // np.dtype(t).itemsize, axis=1)


def close(got: np.ndarray, expected: np.ndarray) -> None:
    rtol, atol = (2e-6, 1e-7) if got.dtype == np.float32 else (2e-3, 1e-4)
    np.testing.assert_allclose(got.astype(np.float64), expected, rtol=rtol, atol=atol)


SHAPES = [
    (5, 16, 16, 65536),
    (13, 64, 61, 8192),
    (9, 144, 130, 8192),
    (20, 512, 512, 65536),
    (2, 4096, 4093, 65536),
    (300, 16, 16, 16384),
]


@pytest.mark.parametrize("types", PAIRS)
@pytest.mark.parametrize("shape", SHAPES)
def test_softmax(compiled: KernelFile, types: Any, shape: Any) -> None:
    m, k, n, tmp = shape
    t, v = types
    x, y = matrix(t, m, k), np.zeros((m, k), t)
    a, b = np.zeros((m, 32 // np.dtype(v).itemsize), v), np.zeros((m, 32 // np.dtype(v).itemsize), v)
    run = call(compiled, f"SoftMax_{CPP[t]}_{CPP[v]}", x, y, a, b, np.zeros(tmp, np.uint8), m, k, n, 1)
    assert not mistakes(run)
    expected, top, total = softmax(x[:, :n].astype(np.float64))
    close(y[:, :n], expected)
    close(a, blocks(top, np.float64)[:, :1].repeat(a.shape[1], 1))
    close(b, total.repeat(b.shape[1], 1))


@pytest.mark.parametrize("types", PAIRS)
def test_row_values_without_blocks(compiled: KernelFile, types: Any) -> None:
    t, v = types
    x, y, a, b = matrix(t, 13, 64), np.zeros((13, 64), t), np.zeros(16, v), np.zeros(16, v)
    run = call(compiled, f"SoftMax_{CPP[t]}_{CPP[v]}", x, y, a, b, np.zeros(32, np.uint8), 13, 64, 64, 0)
    assert not mistakes(run)
    expected, top, total = softmax(x.astype(np.float64))
    close(y, expected)
    close(a[:13], top[:, 0])
    close(b[:13], total[:, 0])


@pytest.mark.parametrize("types", PAIRS)
@pytest.mark.parametrize("shape", SHAPES[:4])
def test_running_softmax(compiled: KernelFile, types: Any, shape: Any) -> None:
    m, k, n, tmp = shape
    t, v = types
    per = 32 // np.dtype(v).itemsize
    first, second = matrix(t, m, k, 1), matrix(t, m, k, 2)
    y, e = np.zeros((m, k), t), np.zeros((m, 32 // np.dtype(t).itemsize), t)
    a, b = np.zeros((m, per), v), np.zeros((m, per), v)
    name = f"Flash_{CPP[t]}_{CPP[v]}"
    call(compiled, name, first, y, a, b, e, np.zeros(tmp, np.uint8), m, k, n, 0)
    before = flash(first[:, :n].astype(np.float64), np.full((m, 1), -np.inf), np.zeros((m, 1)))
    close(y[:, :n], before[0])
    old_max, old_sum = a[:, :1].astype(np.float64), b[:, :1].astype(np.float64)
    run = call(compiled, name, second, y, a, b, e, np.zeros(tmp, np.uint8), m, k, n, 1)
    assert not mistakes(run)
    after = flash(second[:, :n].astype(np.float64), old_max, old_sum)
    close(y[:, :n], after[0])
    close(a, after[1].repeat(per, 1))
    close(b, after[2].repeat(per, 1))
    close(e, after[3].repeat(e.shape[1], 1))


@pytest.mark.parametrize("types", PAIRS)
def test_older_running_softmax_is_normalised(compiled: KernelFile, types: Any) -> None:
    t, v = types
    m, k, per = 13, 64, 32 // np.dtype(types[1]).itemsize
    x, y, e = matrix(t, m, k), np.zeros((m, k), t), np.zeros((m, 32 // np.dtype(t).itemsize), t)
    old_max, old_sum = matrix(v, m, 1, 5), np.abs(matrix(v, m, 1, 6)) + v(1)
    a, b = blocks(old_max, v), blocks(old_sum, v)
    run = call(compiled, f"FlashOld_{CPP[t]}_{CPP[v]}", x, y, a, b, e, np.zeros(32768, np.uint8), m, k, k)
    assert not mistakes(run)
    p, top, total, factor = flash(x.astype(np.float64), old_max.astype(np.float64), old_sum.astype(np.float64))
    close(y, p / total)
    close(b, total.repeat(per, 1))
    close(e, (factor * old_sum.astype(np.float64) / total).repeat(e.shape[1], 1))
    close(a, top.repeat(per, 1))


@pytest.mark.parametrize("types", PAIRS)
def test_simple_softmax_takes_the_row_values(compiled: KernelFile, types: Any) -> None:
    t, v = types
    x = matrix(t, 13, 64)
    p, top, total = softmax(x.astype(np.float64))
    y = np.zeros((13, 64), t)
    run = call(
        compiled,
        f"Simple_{CPP[t]}_{CPP[v]}",
        x,
        y,
        blocks(top, v),
        blocks(total, v),
        np.zeros(16384, np.uint8),
        13,
        64,
        64,
    )
    assert not mistakes(run)
    close(y, p)


@pytest.mark.parametrize("t", CPP)
def test_gradient(compiled: KernelFile, t: Any) -> None:
    m, k = 13, 80
    g = matrix(t, m, k, 3)
    x = softmax(matrix(t, m, k, 4).astype(np.float64))[0].astype(t)
    for front in (0, 1):
        y = np.zeros((m, k if not front else 32 // np.dtype(t).itemsize), t)
        run = call(compiled, f"Grad_{CPP[t]}", g, x, y, np.zeros(16384, np.uint8), m, k, k, front)
        assert not mistakes(run)
        args = g.astype(np.float64), x.astype(np.float64)
        expected = ORACLES["SoftmaxGradFront"](*args).repeat(y.shape[1], 1) if front else ORACLES["SoftmaxGrad"](*args)
        np.testing.assert_allclose(
            y, expected, rtol=2e-3 if t is np.float16 else 1e-5, atol=1e-3 if t is np.float16 else 1e-6
        )


@pytest.mark.parametrize("t", CPP)
def test_masked_rows_are_set(compiled: KernelFile, t: Any) -> None:
    y, c = matrix(t, 6, 16), np.zeros(8, np.int32)
    top = np.zeros((6, 1), np.float32)
    top[[1, 4]] = np.finfo(np.float32).min
    expected = ORACLES["AdjustSoftMaxRes"](y, top, np.finfo(np.float32).min, 0)
    run = call(compiled, f"Adjust_{CPP[t]}", y, blocks(top, np.float32), c, 6, 16)
    assert not mistakes(run)
    np.testing.assert_array_equal(y, expected)
    assert c[0] == 1


def test_too_little_space_is_a_finding(compiled: KernelFile) -> None:
    x, y = matrix(np.float32, 8, 64), np.zeros((8, 64), np.float32)
    a, b = np.zeros((8, 8), np.float32), np.zeros((8, 8), np.float32)
    run = call(compiled, "SoftMax_float_float", x, y, a, b, np.zeros(256, np.uint8), 8, 64, 64, 1)
    assert mistakes(run) == {"temporary-space-too-small"}


@pytest.mark.parametrize("pair", PAIRS)
@pytest.mark.parametrize("tmp", [8192, 12000, 32768])
def test_packed_row_values_are_read_at_whole_blocks(compiled: KernelFile, pair: Any, tmp: int) -> None:
    t, v = pair
    m, k = 48, 32
    x = matrix(t, m, k)
    old_max, old_sum = matrix(v, 1, m, 1)[0], np.abs(matrix(v, 1, m, 2)[0]) + 1
    y, a, b, e = np.zeros_like(x), old_max.copy(), old_sum.astype(v), np.zeros(m, t)
    run = call(compiled, f"FlashPacked_{CPP[t]}_{CPP[v]}", x, y, a, b, e, np.zeros(tmp, np.uint8), m, k, k)
    assert not mistakes(run)
    wide, before = x.astype(np.float64), old_max.astype(np.float64)
    top = np.maximum(wide.max(-1), before)
    close(y, np.exp(wide - top[:, None]))
    close(a, top)
    close(e, np.exp(before - top))
    close(b, np.exp(wide - top[:, None]).sum(-1) + np.exp(before - top) * old_sum.astype(np.float64))


@pytest.mark.parametrize("n", [512, 1088, 2048])
def test_running_softmax_that_levels_means(compiled: KernelFile, n: int) -> None:
    m, per = 8 if n == 2048 else 16, 8
    rng = np.random.default_rng(n)
    y, e = np.zeros((m, n), np.float16), np.zeros((m, 16), np.float16)
    c, b, a = (np.zeros((m, per), np.float32) for _ in range(3))
    before = None
    for loops in (1, 2, 3):
        x = (rng.standard_normal((m, n)) * 2 + loops).astype(np.float16)
        x[:, n // 2] += np.float16(1)
        run = call(compiled, "Pasa", x, y, c, b, a, e, np.zeros(65536, np.uint8), m, n, loops)
        assert not mistakes(run)
        expected = pasa(x.astype(np.float64), 0.9375, loops, before)
        close(y, expected[0])
        for got, wanted in zip((c, b, a), expected[1:4], strict=True):
            np.testing.assert_allclose(got, wanted.repeat(per, 1), rtol=2e-5, atol=2e-5)
        if before is not None:
            close(e, expected[4].repeat(16, 1))
        before = (c[:, :1].astype(np.float64), b[:, :1].astype(np.float64), a[:, :1].astype(np.float64))


def test_the_example_of_the_page_that_levels_means(compiled: KernelFile) -> None:
    """The page's example: eight rows that count up by 2.5 each, 0.5 from the rounds before."""
    x = np.linspace(0, 20, 8 * 2048).reshape(8, 2048).astype(np.float16)
    y, e = np.zeros_like(x), np.zeros((8, 16), np.float16)
    c, b, a = (np.full((8, 8), 0.5, np.float32) for _ in range(3))
    call(compiled, "Pasa", x, y, c, b, a, e, np.zeros(65536, np.uint8), 8, 2048, 2)
    np.testing.assert_allclose(y[0, :3], [0.0049, 0.004906, 0.004913], rtol=2e-3)
    np.testing.assert_allclose(y[0, -3:], [0.998, 1, 1], rtol=2e-3)


def test_shapes_that_cannot_be_levelled_are_a_finding(compiled: KernelFile) -> None:
    x, c, e = np.zeros((8, 256), np.float16), np.zeros((8, 8), np.float32), np.zeros((8, 16), np.float16)
    run = call(compiled, "Pasa", x, x.copy(), c, c.copy(), c.copy(), e, np.zeros(65536, np.uint8), 8, 256, 1)
    assert mistakes(run) == {"softmax-shape"}
