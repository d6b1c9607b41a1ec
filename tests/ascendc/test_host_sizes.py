"""What host code is told about temporary space is what the kernels take: the least is enough, a block less is a finding."""

from __future__ import annotations

import math

import numpy as np
import pytest

from tests.ascendc.harness import kernels
from tests.ascendc.ub_kernel import FRAME, call, mistakes, ub_kernel
from toprope.kernel import KernelFile

CPP = {2: "half", 4: "float"}
NUMPY = {2: np.float16, 4: np.float32}
UNARY = ["Log", "Frac", "Sign", "Sin", "Tan", "Atan", "Cosh", "Tanh", "Erf", "Sigmoid"]
BINARY = ["Fmod", "GeGLU", "ReGlu"]
ROWS, WIDTH = 29, 80

HOST = """
#include "host/tiling/row_tiling.h"
#include "host/tiling/topk_tiling.h"
struct Dims {
    int64_t dims[3];
    int64_t GetShapeSize() const { return dims[0] * dims[1] * dims[2]; }
    size_t GetDimNum() const { return 3; }
    int64_t GetDim(size_t i) const { return dims[i]; }
};
struct MethodTiling {  // as the host's macros declare one
    uint32_t m = 0, split = 0, other = 0;
    void set_srcM(uint32_t v) { m = v; }
    void set_splitM(uint32_t v) { split = v; }
#define OTHER(f) void set_##f(uint32_t v) { other = v; }
    OTHER(srcK) OTHER(srcSize) OTHER(outMaxM) OTHER(outMaxK) OTHER(outMaxSize) OTHER(splitK) OTHER(splitSize) OTHER(reduceM)
    OTHER(reduceK) OTHER(reduceSize) OTHER(rangeM) OTHER(tailM) OTHER(tailSplitSize) OTHER(tailReduceSize)
};
"""


def text() -> str:
    out = HOST + FRAME
    shape = "const Dims shape{{1, m, k}}; uint32_t most = 0, least = 0;"
    give = "z.SetValue(0, (int32_t)least); z.SetValue(1, (int32_t)most);"
    for name in UNARY + BINARY:
        factors = f"uint32_t nodes = 0, extra = 0; Get{name}TmpBufferFactorSize(bytes, nodes, extra); z.SetValue(2, (int32_t)nodes); z.SetValue(3, (int32_t)extra);"
        out += ub_kernel(
            f"size_{name}",
            {"z": "int32_t"},
            f"{shape} Get{name}MaxMinTmpSize(shape, bytes, false, most, least); {give} {factors}",
            ["m", "k", "bytes"],
        )
    rows = {
        "SoftMax": "least = GetSoftMaxMinTmpSize(shape, bytes, false); most = GetSoftMaxMaxTmpSize(shape, bytes, false);",
        "Flash": "least = GetSoftMaxFlashV2MinTmpSize(shape, bytes, 4, true); most = GetSoftMaxFlashV2MaxTmpSize(shape, bytes, 4, true);",
        "Pasa": "GetSoftMaxFlashV3MaxMinTmpSize(shape, bytes, 4, most, least, true);",
        "Grad": "least = GetSoftMaxGradMinTmpSize(shape, bytes, false, false); most = GetSoftMaxGradMaxTmpSize(shape, bytes, false, false);",
        "LayerNorm": "GetLayerNormMaxMinTmpSize(shape, bytes, false, most, least);",
        "RmsNorm": "GetRmsNormMaxMinTmpSize(shape, bytes, most, least);",
        "DeepNorm": "GetDeepNormMaxMinTmpSize(shape, bytes, false, false, most, least);",
        "LayerNormGrad": "GetLayerNormGradMaxMinTmpSize(shape, bytes, false, most, least);",
        "WelfordUpdate": "const Dims flat{{1, 1, m * k}}; GetWelfordUpdateMaxMinTmpSize(flat, bytes, 4, false, false, most, least);",
    }
    for name, ask in rows.items():
        out += ub_kernel(f"size_{name}", {"z": "int32_t"}, f"{shape} {ask} {give}", ["m", "k", "bytes"])
    out += ub_kernel(
        "tilings",
        {"z": "int32_t"},
        """const Dims shape{{3, m, k}}; SoftMaxTiling t; MethodTiling u; LayerNormTiling n; RmsNormTiling r;
        SoftMaxFlashV2TilingFunc(shape, 2, 4, space, t, true); SoftMaxTilingFunc(shape, 4, space, u);
        GetLayerNormNDTilingInfo(shape, space, 2, false, n); GetRmsNormTilingInfo(shape, shape, space, 4, r);
        uint32_t all[] = {t.srcM, t.srcK, t.splitM, t.rangeM, t.tailM, t.outMaxK, u.m, u.split, n.bLength, n.sLength, n.hLength, n.originalHLength, r.sLength};
        for (int i = 0; i < 13; ++i) z.SetValue(i, (int32_t)all[i]);""",
        ["m", "k", "space"],
    )
    out += ub_kernel(
        "Pasa",
        {"x": "half", "y": "half", "c": "float", "b": "float", "a": "float", "e": "half", "t": "uint8_t"},
        "SoftMaxTiling tiling; SoftMaxParams p{(uint32_t)m, (uint32_t)k, (uint32_t)m, (uint32_t)k};"
        "SoftmaxFlashV3<half, float>(y, c, b, a, x, e, c, b, a, t, tiling, p);",
        ["m", "k"],
    )
    for size, c in CPP.items():
        asks = f"uint32_t most = 0, least = 0; GetTopKMaxMinTmpSize(0, inner, 2, false, false, TopKMode::TOPK_NORMAL, true, {size}, most, least);"
        out += ub_kernel(
            f"TopK_{c}",
            {"x": c, "y": c, "i": "int32_t", "t": "uint8_t"},
            f"{asks} TopkTiling tiling; const bool good = TopKTilingFunc(0, inner, 2, 8, {size}, false, TopKMode::TOPK_NORMAL, true, tiling);"
            f"LocalTensor<bool> none; TopK<{c}>(y, i, x, i, none, t, 8, tiling, TopKInfo{{2, inner, inner}}); i.SetValue(120, (int32_t)least); i.SetValue(121, good);",
            ["inner"],
        )
    info = "SoftMaxTiling tiling; SoftMaxShapeInfo info{(uint32_t)m, (uint32_t)k, (uint32_t)m, (uint32_t)k};"
    norm = "tiling; tiling.bLength = 1; tiling.sLength = m; tiling.hLength = tiling.originalHLength = k;"
    for c in CPP.values():
        two, three = {"x": c, "y": c, "t": "uint8_t"}, {"g": c, "x": c, "y": c, "t": "uint8_t"}
        for name in UNARY:
            out += ub_kernel(f"{name}_{c}", two, f"{name}<{c}>(y, x, t, n);", ["n"])
        for name in BINARY:
            out += ub_kernel(f"{name}_{c}", three, f"{name}<{c}>(y, g, x, t, n);", ["n"])
        values = {"x": c, "y": c, "a": "float", "b": "float", "e": c, "t": "uint8_t"}
        out += ub_kernel(f"SoftMax_{c}", values, f"{info} SoftMax<{c}>(y, b, a, x, t, tiling, info);", ["m", "k"])
        out += ub_kernel(
            f"Flash_{c}",
            values,
            f"{info} SoftmaxFlashV2<{c}, false>(y, b, a, x, e, b, a, t, tiling, info);",
            ["m", "k"],
        )
        out += ub_kernel(f"Grad_{c}", values, f"{info} SoftmaxGrad<{c}>(y, x, x, t, tiling, false, info);", ["m", "k"])
        vectors = {"x": c, "y": c, "a": c, "b": c, "e": c, "t": "uint8_t"}
        out += ub_kernel(
            f"LayerNorm_{c}",
            vectors,
            f"LayerNormTiling {norm} LayerNorm<{c}>(y, a, b, x, e, e, t, {c}(0.1f), tiling);",
            ["m", "k"],
        )
        out += ub_kernel(
            f"RmsNorm_{c}", vectors, f"RmsNormTiling {norm} RmsNorm<{c}>(y, x, e, t, {c}(0.1f), tiling);", ["m", "k"]
        )
        out += ub_kernel(
            f"DeepNorm_{c}",
            vectors,
            f"LayerNormTiling {norm} DeepNorm<{c}>(y, a, b, x, x, e, e, t, {c}(0.5f), {c}(0.1f), tiling);",
            ["m", "k"],
        )
        out += ub_kernel(
            f"LayerNormGrad_{c}",
            vectors,
            f"LayerNormTiling {norm} LayerNormGrad<{c}>(y, x, x, x, a, b, e, t, {c}(0.1f), tiling);",
            ["m", "k"],
        )
        update = "WelfordUpdateParam p{1, (uint32_t)(m * k), (uint32_t)(m * k), 0.5f};"
        out += ub_kernel(
            f"WelfordUpdate_{c}",
            {"x": c, "y": c, "a": "float", "b": "float", "c": "float", "d": "float", "t": "uint8_t"},
            f"{update} WelfordUpdate<{c}, float>(c, d, a, b, x, t, p);",
            ["m", "k"],
        )
    return out


@pytest.fixture(scope="module")
def compiled() -> KernelFile:
    return kernels(text(), "host_sizes")


def sizes(compiled: KernelFile, name: str, rows: int, width: int, size: int) -> np.ndarray:
    z = np.zeros(8, np.int32)
    call(compiled, f"size_{name}", z, rows, width, size)
    return z


@pytest.mark.parametrize("size", CPP)
@pytest.mark.parametrize("name", UNARY + BINARY)
def test_element_wise_functions_work_with_the_least(compiled: KernelFile, name: str, size: int) -> None:
    n = 1000
    least, most, nodes, extra = sizes(compiled, name, 1, n, size)[:4]
    assert least <= most <= nodes * n * size + extra
    x, y = np.full(1008, 0.5, NUMPY[size]), np.zeros(1008, NUMPY[size])
    operands = [x, x.copy(), y] if name in BINARY else [x, y]
    for space in {int(least), int(most)} - {0}:
        assert not mistakes(call(compiled, f"{name}_{CPP[size]}", *operands, np.zeros(space, np.uint8), n))
    if least > 32:
        short = call(compiled, f"{name}_{CPP[size]}", *operands, np.zeros(least - 32, np.uint8), n)
        assert mistakes(short) == {"temporary-space-too-small"}


@pytest.mark.parametrize("size", CPP)
@pytest.mark.parametrize(
    "name", ["SoftMax", "Flash", "Grad", "LayerNorm", "RmsNorm", "DeepNorm", "LayerNormGrad", "WelfordUpdate"]
)
def test_row_wise_functions_work_with_the_least(compiled: KernelFile, name: str, size: int) -> None:
    least, most = sizes(compiled, name, ROWS, WIDTH, size)[:2]
    assert least < most
    t = NUMPY[size]
    x = np.random.default_rng(0).standard_normal((ROWS, WIDTH)).astype(t)
    values = t if "Norm" in name else np.float32
    results, counts = [], []
    for space in (int(least), int(most), int(most) * 2):
        y, a = np.zeros((ROWS, WIDTH), t), np.ones(ROWS * WIDTH, values)
        run = call(
            compiled,
            f"{name}_{CPP[size]}",
            x.copy(),
            y,
            a,
            a.copy(),
            *([a.copy(), a.copy()] if name == "WelfordUpdate" else [np.ones(256, t)]),
            np.zeros(space, np.uint8),
            ROWS,
            WIDTH,
        )
        assert not mistakes(run)
        results.append(y)
        counts.append(len(run.trace.instrs))
    assert np.array_equal(results[0], results[1])
    assert counts[0] > counts[1] == counts[2], "the most is what makes one round of it"


def test_the_softmax_that_levels_means_works_with_the_least(compiled: KernelFile) -> None:
    least, most = sizes(compiled, "Pasa", 16, 512, 2)[:2]
    assert 0 < least < most
    x = np.random.default_rng(0).standard_normal((16, 512)).astype(np.float16)
    values, factor = np.zeros((16, 8), np.float32), np.zeros((16, 16), np.float16)
    results = []
    for space in (least, most):
        y = np.zeros_like(x)
        run = call(
            compiled,
            "Pasa",
            x,
            y,
            values.copy(),
            values.copy(),
            values.copy(),
            factor,
            np.zeros(space, np.uint8),
            16,
            512,
        )
        assert not mistakes(run)
        results.append(y)
    assert np.array_equal(*results) and results[0].any()


@pytest.mark.parametrize("size", CPP)
def test_top_k_works_with_what_its_host_function_says(compiled: KernelFile, size: int) -> None:
    t, name = NUMPY[size], f"TopK_{CPP[size]}"
    x = np.random.default_rng(0).permutation(128).reshape(2, 64).astype(t)
    y, i = np.zeros((2, 32 // size if size == 2 else 8), t), np.zeros(128, np.int32)
    call(compiled, name, x, y, i, np.zeros(8192, np.uint8), 64)
    least, good = int(i[120]), i[121]
    run = call(compiled, name, x, y, i, np.zeros(least, np.uint8), 64)
    assert not mistakes(run) and good == 1
    np.testing.assert_array_equal(y[:, :8], -np.sort(-x, axis=1)[:, :8])
    short = call(compiled, name, x, y, i, np.zeros(least - 32, np.uint8), 64)
    assert mistakes(short) == {"temporary-space-too-small"}


def test_the_fourth_dimension_of_a_layer_norm_is_no_axis() -> None:
    text = HOST.replace("[3]", "[4]").replace("* dims[2]", "* dims[2] * dims[3]").replace("return 3;", "return 4;")
    text += FRAME + ub_kernel(
        "layer",
        {"z": "int32_t"},
        """const Dims shape{{3, 7, 80, 75}}; LayerNormTiling n; uint32_t most = 0, least = 0;
        GetLayerNormNDTilingInfo(shape, 8000, 2, false, n); GetLayerNormMaxMinTmpSize(shape, 4, false, most, least);
        uint32_t all[] = {n.bLength, n.sLength, n.hLength, n.originalHLength, most};
        for (int i = 0; i < 5; ++i) z.SetValue(i, (int32_t)all[i]);""",
    )
    z = np.zeros(8, np.int32)
    call(kernels(text, "host_layer"), "layer", z)
    assert list(z[:4]) == [3, 7, 80, 75] and 0 < z[4] < 192 * 1024


def test_tiling_structures(compiled: KernelFile) -> None:
    z = np.zeros(16, np.int32)
    call(compiled, "tilings", z, 7, 75, 8000)
    m, k, split, full, tail, block, m2, split2, b, s, h, original, s2 = z[:13]
    assert (m, k, block, m2) == (21, 80, 8, 21)
    assert 0 < split < 21 and split <= split2
    assert full * split + tail == 21
    assert (b, s, h, original, s2) == (3, 7, 80, 75, 7)
    assert math.prod(z[8:10]) == 21
