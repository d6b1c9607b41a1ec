"""Transpose of heads between matrices and fractals, and TransData, against NumPy; host code gives the structure and the space."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.ascendc.harness import kernels
from tests.ascendc.ub_kernel import FRAME, Oracle, call, mistakes, random_of, ub_kernel
from toprope.kernel import KernelFile

CPP = {np.int16: "int16_t", np.float16: "half", np.float32: "float"}


def padded(x: np.ndarray, axis: int) -> np.ndarray:
    """x with zeros behind, so that the axis is a multiple of 16."""
    width = [(0, 0)] * x.ndim
    width[axis] = (0, -x.shape[axis] % 16)
    return np.pad(x, width)


def fractals(x: np.ndarray) -> np.ndarray:
    """[..., R, C] as NZ: [..., C/16, R/16, 16, 16], columns padded."""
    x = padded(x, -1)
    rows, columns = x.shape[-2:]
    return np.moveaxis(x.reshape(*x.shape[:-2], rows, columns // 16, 16), -2, -3)


def joined(x: np.ndarray) -> np.ndarray:
    """[B, N, S, H/N] as [B, S, H]."""
    return x.transpose(0, 2, 1, 3).reshape(x.shape[0], x.shape[2], -1)


# By transposeType: what [B, N, S, H/N] looks like before and after.
HEADS: dict[int, tuple[Oracle, Oracle]] = {
    1: (fractals, lambda x: x.transpose(0, 2, 1, 3)),
    2: (fractals, lambda x: fractals(x.transpose(0, 2, 1, 3))),
    3: (lambda x: fractals(joined(x)), fractals),
    4: (lambda x: fractals(joined(x)), lambda x: padded(x, -1)),
    5: (fractals, lambda x: padded(joined(x), -1)),
    6: (fractals, lambda x: fractals(joined(x))),
}


def planes(x: np.ndarray) -> np.ndarray:
    """NCDHW with the joined H and W padded to 16."""
    return padded(x.reshape(*x.shape[:3], -1), -1)


def ndc1hwc0(x: np.ndarray) -> np.ndarray:
    n, _, d, h, w = x.shape
    return padded(x, 1).reshape(n, -1, 16, d, h, w).transpose(0, 3, 1, 4, 5, 2)


def fractal_z_3d(x: np.ndarray) -> np.ndarray:
    _, c, d, h, w = x.shape
    x = padded(padded(x, 0), 1).reshape(-1, 16, -(-c // 16), 16, d, h, w)
    return x.transpose(4, 2, 5, 6, 0, 1, 3)


ORACLES: dict[str, Oracle] = {"TransData": ndc1hwc0}

HOST = """
#include "host/tiling/transpose_tiling.h"
struct Dims {
    int64_t dims[5];
    size_t count;
    size_t GetDimNum() const { return count; }
    int64_t GetDim(size_t i) const { return dims[i]; }
};
"""
FORMATS = {"NDC1HWC0": ("ndc", "n, d, c1, h, w, 16"), "FRACTAL_Z_3D": ("fz", "d, c1, h, w, n1, 16, 16")}
WORDS = ["int16_t", "uint16_t", "half", "bfloat16_t"]


def text() -> str:
    out = HOST + FRAME
    for c in CPP.values():
        out += ub_kernel(
            f"heads_{c}",
            {"x": c, "t": "uint8_t", "y": c},
            f"const Dims shape{{{{b, n, s, h}}, 4}}; ConfusionTransposeTiling p; GetTransposeTilingInfo(shape, 0, sizeof({c}), kind, p);"
            "auto type = static_cast<TransposeType>(kind); if (given) Transpose(y, x, t, type, p); else ConfusionTranspose(y, x, type, p);",
            ["b", "n", "s", "h", "kind", "given"],
        )
    for c in WORDS:
        for name, (short, extents) in FORMATS.items():
            volume = "auto volume = MakeLayout(MakeShape(n, c, d, h, w), MakeStride()); const int c1 = (c + 15) / 16 + wrong, n1 = (n + 15) / 16;"
            blocks = f"auto blocks = MakeLayout(MakeShape({extents}), MakeStride()); static_cast<void>(n1);"
            to = f"static constexpr TransDataConfig to{{DataFormat::NCDHW, DataFormat::{name}}}; TransDataParams<decltype(volume), decltype(blocks)> p{{volume, blocks}}; TransData<to>(y, x, t, p);"
            back = f"static constexpr TransDataConfig back{{DataFormat::{name}, DataFormat::NCDHW}}; TransDataParams<decltype(blocks), decltype(volume)> p{{blocks, volume}}; TransData<back>(y, x, p);"
            out += ub_kernel(
                f"{short}_{c}",
                {"x": c, "t": "uint8_t", "y": c},
                f"{volume} {blocks} if (forth) {{ {to} }} else {{ {back} }}",
                ["n", "c", "d", "h", "w", "forth", "wrong"],
            )
    sizes = """const Dims heads{{1, 2, s, 32}, 4}, volume{{1, 16, 2, s, 1}, 5}, blocks{{1, 2, 1, s, 1}, 5}; uint32_t most = 0, least = 0;
        GetTransposeMaxMinTmpSize(heads, 2, kind, most, least); z.SetValue(0, (int32_t)least); z.SetValue(1, (int32_t)most);
        const TransDataConfig back{DataFormat::NDC1HWC0, DataFormat::NCDHW}, none{DataFormat::ND, DataFormat::NZ};
        z.SetValue(2, GetTransDataMaxMinTmpSize(0, blocks, volume, 0, back, most, least)); z.SetValue(3, (int32_t)least);
        z.SetValue(4, GetTransDataMaxMinTmpSize(0, blocks, volume, 0, none, most, least));"""
    return out + ub_kernel("sizes", {"z": "int32_t"}, sizes, ["s", "kind"])


@pytest.fixture(scope="module")
def compiled() -> KernelFile:
    return kernels(text(), "lib_transpose")


def contiguous(x: np.ndarray) -> np.ndarray:
    return np.ascontiguousarray(x).ravel()


@pytest.mark.parametrize("t", CPP)
@pytest.mark.parametrize("kind", HEADS)
@pytest.mark.parametrize("shape", [(1, 2, 64, 32), (2, 16, 16, 16), (2, 3, 32, 40)])
@pytest.mark.parametrize("given", [0, 1])
def test_heads(compiled: KernelFile, t: Any, kind: int, shape: tuple[int, int, int, int], given: int) -> None:
    heads = random_of(t, int(np.prod(shape)), kind).reshape(shape)
    before, after = (contiguous(form(heads)) for form in HEADS[kind])
    y = np.full_like(after, 7)
    space = np.zeros(2 * 16 * shape[2] * heads.itemsize, np.uint8)
    run = call(compiled, f"heads_{CPP[t]}", before, space, y, *shape, kind, given)
    impossible = (kind == 2 and shape[1] % 16 != 0) or (kind in (1, 2) and shape[3] % 16 != 0)
    assert mistakes(run) == ({"transpose-type"} if impossible else set())
    np.testing.assert_array_equal(y, np.full_like(after, 7) if impossible else after)


@pytest.mark.parametrize("c", WORDS)
@pytest.mark.parametrize(("short", "form"), [("ndc", ndc1hwc0), ("fz", fractal_z_3d)])
@pytest.mark.parametrize("shape", [(1, 32, 2, 2, 8), (2, 16, 2, 3, 5), (17, 20, 1, 1, 7)])
def test_trans_data(compiled: KernelFile, c: str, short: str, form: Oracle, shape: tuple[int, ...]) -> None:
    t = np.float16 if c == "half" else np.int16
    volume = random_of(t, int(np.prod(shape)), 3).reshape(shape)
    flat, blocks = contiguous(planes(volume)), contiguous(form(volume))
    space = np.zeros(32 * 16, np.uint8)
    y = np.full_like(blocks, 7)
    assert not mistakes(call(compiled, f"{short}_{c}", flat, space, y, *shape, 1, 0))
    np.testing.assert_array_equal(y, blocks)
    y = np.full_like(flat, 7)
    assert not mistakes(call(compiled, f"{short}_{c}", blocks, space, y, *shape, 0, 0))
    np.testing.assert_array_equal(y, flat)


@pytest.mark.parametrize("short", ["ndc", "fz"])
def test_layouts_of_different_tensors_are_refused(compiled: KernelFile, short: str) -> None:
    x, y = np.zeros(512, np.float16), np.full(8192, 7, np.float16)
    run = call(compiled, f"{short}_half", x, np.zeros(512, np.uint8), y, 1, 32, 1, 1, 16, 1, 1)
    assert mistakes(run) == {"layout-mismatch"}
    assert (y == 7).all()


def test_too_little_space_is_refused_and_the_host_says_how_much(compiled: KernelFile) -> None:
    for kind, squares in [(1, 1), (4, 2), (7, 0)]:
        z = np.zeros(8, np.int32)
        call(compiled, "sizes", z, 48, kind)
        assert list(z[:5]) == [48 * 32 * squares, 48 * 32 * squares, 1, 48 * 32, 0]
    x, y = np.zeros(1024, np.float16), np.zeros(1024, np.float16)
    run = call(compiled, "heads_half", x, np.zeros(480, np.uint8), y, 1, 2, 16, 32, 1, 1)
    assert mistakes(run) == {"temporary-space-too-small"}
