"""Functions that reduce, quantise, choose, pad and spread work in the space that their host functions say."""

from __future__ import annotations

import numpy as np
import pytest

from tests.ascendc.harness import kernels
from tests.ascendc.ub_kernel import FRAME, call, mistakes, ub_kernel
from toprope.kernel import KernelFile

M, K = 9, 72
HOST = """
#include "host/tiling/space_sizes.h"
struct Dims {
    int64_t dims[2];
    int64_t GetShapeSize() const { return dims[0] * dims[1]; }
    size_t GetDimNum() const { return 2; }
    int64_t GetDim(size_t i) const { return dims[i]; }
};
"""
# name -> what the host says of a matrix of 9 x 72, the types of x, y, w, and the call with temporary space t
CASES = {
    "ReduceMax": ("GetReduceMaxMaxMinTmpSize(s, 0, ReducePattern::AR, true, false, most, least);", "float float float",
                  "const uint32_t d[] = {9, 72}; ReduceMax<float, Pattern::Reduce::AR>(y, x, t, d, true);"),
    "ReduceMin": ("GetReduceMinMaxMinTmpSize(s, 0, ReducePattern::AR, true, false, most, least);", "float float float",
                  "const uint32_t d[] = {9, 72}; ReduceMin<float, Pattern::Reduce::AR>(y, x, t, d, true);"),
    "ReduceAny": ("GetReduceAnyMaxMinTmpSize(s, 4, ReducePattern::AR, true, false, most, least);", "uint8_t uint8_t float",
                  "const uint32_t d[] = {9, 72}; ReduceAny<uint8_t, Pattern::Reduce::AR>(y, x, t, d, true);"),
    "ReduceProd": ("GetReduceProdMaxMinTmpSize(s, 0, ReducePattern::AR, true, false, most, least);", "float float float",
                   "const uint32_t d[] = {9, 72}; ReduceProd<float, Pattern::Reduce::AR>(y, x, t, d, true);"),
    "ReduceXorSum": ("GetReduceXorSumMaxMinTmpSize(s, 2, false, most, least);", "int16_t int16_t int16_t",
                     "ReduceXorSum<int16_t>(y, x, w, t, 648);"),
    "Mean": ("GetMeanMaxMinTmpSize(72, 2, 4, false, most, least);", "half half half", "Mean<half, float>(y, x, t, MeanParams{9, 80, 72});"),
    "AscendQuant": ("GetAscendQuantMaxMinTmpSize(s, 4, most, least);", "float int8_t float",
                    "AscendQuant<float>(y, x, t, w, w, 64, 64, 576);"),
    "AscendDequant": ("GetAscendDequantMaxMinTmpSize(s, 4, most, least);", "int32_t half float",
                      "AscendDequant(y, x, w, t, DequantParams{9, 72, 72});"),
    "Select": ("GetSelectMaxMinTmpSize(s, Dims{{1, 1}}, 4, s, 1, false, most, least);", "float float uint8_t",
               "Select<float, uint8_t>(y, x, 1.0f, w, t, SelectWithBytesMaskShapeInfo{9, 72, 96});"),
    "Pad": ("GetPadMaxMinTmpSize(s, 4, most, least);", "float float float",
            "PadTiling p; PadTilingFunc(Dims{{9, 72}}, Dims{{9, 70}}, 0, 4, p); PadParams q{0, 2, 5}; Pad(y, x, q, t, p);"),
    "UnPad": ("GetUnPadMaxMinTmpSize(0, s, 4, most, least);", "float float float",
              "UnPadTiling p; UnPadTilingFunc(Dims{{9, 72}}, 0, 4, p); UnPadParams q{0, 3}; UnPad(y, x, q, t, p);"),
    "Broadcast": ("GetBroadCastMaxMinTmpSize(0, Dims{{9, 1}}, s, 1, false, most, least);", "int8_t int8_t float",
                  "const uint32_t d[] = {9, 72}, f[] = {9, 1}; Broadcast<int8_t, 2, 1>(y, x, d, f, t);"),
}  # fmt: skip
EXACT = ("Broadcast", "ReduceXorSum")


@pytest.fixture(scope="module")
def compiled() -> KernelFile:
    text = HOST + FRAME
    for name, (ask, types, body) in CASES.items():
        say = "z.SetValue(0, (int32_t)least); z.SetValue(1, (int32_t)most);"
        text += ub_kernel(
            f"size_{name}", {"z": "int32_t"}, f"const Dims s{{{{9, 72}}}}; uint32_t most = 0, least = 0; {ask} {say}"
        )
        text += ub_kernel(f"do_{name}", dict(zip("xyw", types.split(), strict=True)) | {"t": "uint8_t"}, body)
    return kernels(text, "host_space")


@pytest.mark.parametrize("name", CASES)
def test_the_least_is_enough(compiled: KernelFile, name: str) -> None:
    z = np.zeros(8, np.int32)
    call(compiled, f"size_{name}", z)
    least, most = int(z[0]), int(z[1])
    assert 0 < least <= most and least % 32 == 0
    arrays = [np.ones(M * 96 * 4, np.uint8) for _ in "xyw"]
    assert not mistakes(call(compiled, f"do_{name}", *arrays, np.zeros(least, np.uint8)))
    if name in EXACT:
        assert mistakes(call(compiled, f"do_{name}", *arrays, np.zeros(least - 32, np.uint8))) == {
            "temporary-space-too-small"
        }
