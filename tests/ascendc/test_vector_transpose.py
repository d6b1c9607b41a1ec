"""Transpose and TransDataTo5HD against NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.ascendc.harness import kernels
from tests.ascendc.ub_kernel import FRAME, Oracle, call, mistakes, random_of, ub_kernel
from toprope.kernel import KernelFile

CPP = {
    np.int8: "int8_t",
    np.uint8: "uint8_t",
    np.int16: "int16_t",
    np.uint16: "uint16_t",
    np.float16: "half",
    np.int32: "int32_t",
    np.uint32: "uint32_t",
    np.float32: "float",
}


def rows_transposed(rows: np.ndarray) -> np.ndarray:
    """Sixteen 32-byte rows; the result as sixteen rows too (8-bit elements: one half of each)."""
    return np.ascontiguousarray(rows.T).reshape(16, -1)


ORACLES: dict[str, Oracle] = {"Transpose": lambda x, axes: np.transpose(x, axes), "TransDataTo5HD": rows_transposed}


def text() -> str:
    out = FRAME
    for t, c in CPP.items():
        per = 32 // np.dtype(t).itemsize
        lists = f"for (int i = 0; i < 16; ++i) {{ d[i] = (uint64_t)y[i * {per} * ds].GetPhyAddr(); s[i] = (uint64_t)x[i * {per} * ss].GetPhyAddr(); }}"
        params = "TransDataTo5HDParams p(dh != 0, sh != 0, repeats, drs, srs);"
        scalars = ["ds", "ss", "dh", "sh", "repeats", "drs", "srs"]
        out += ub_kernel(
            f"TransDataTo5HD_{c}",
            {"x": c, "y": c},
            f"uint64_t d[16], s[16]; {lists} {params} TransDataTo5HD<{c}>(d, s, p);",
            scalars,
        )
        out += ub_kernel(
            f"Transpose_ext_{c}",
            {"x": c, "t": "uint8_t", "y": c},
            "TransposeParamsExt p(n, c, h, w, (TransposeType)type); Transpose(y, x, t, p);",
            ["n", "c", "h", "w", "type"],
        )
    for c in ("int16_t", "uint16_t", "half"):
        out += ub_kernel(f"Transpose_{c}", {"x": c, "y": c}, "Transpose(y, x);")
    tensors = "LocalTensor<half> d[16], s[16]; for (int i = 0; i < 16; ++i) { d[i] = y[i * 16]; s[i] = x[i * 16]; } TransDataTo5HDParams p(false, false, 1, 0, 0);"
    out += ub_kernel("by_tensors", {"x": "half", "y": "half"}, f"{tensors} TransDataTo5HD<half>(d, s, p);")
    addresses = "for (int i = 0; i < 16; ++i) { d.SetValue(i, (uint64_t)y[i * 16].GetPhyAddr()); s.SetValue(i, (uint64_t)x[i * 16].GetPhyAddr()); } PipeBarrier<PIPE_ALL>(); TransDataTo5HDParams p(false, false, 1, 0, 0);"
    out += ub_kernel(
        "by_addresses",
        {"x": "half", "y": "half", "d": "uint64_t", "s": "uint64_t"},
        f"{addresses} TransDataTo5HD<half>(d, s, p);",
    )
    return out


@pytest.fixture(scope="module")
def compiled() -> KernelFile:
    return kernels(text(), "vector_transpose")


@pytest.mark.parametrize("dtype", [np.int16, np.uint16, np.float16])
def test_square_of_sixteen(compiled: KernelFile, dtype: Any) -> None:
    x, y = random_of(dtype, 256), np.zeros(256, dtype)
    assert not mistakes(call(compiled, f"Transpose_{CPP[dtype]}", x, y))
    np.testing.assert_array_equal(y.reshape(16, 16), x.reshape(16, 16).T)


@pytest.mark.parametrize("dtype", CPP)
def test_axes_of_images(compiled: KernelFile, dtype: Any) -> None:
    n, c, h, w = 2, 3, 4, 8
    x, t = random_of(dtype, n * c * h * w), np.zeros(16384, np.uint8)
    for kind, shape, axes in ((11, (n, c, h, w), (0, 2, 3, 1)), (12, (n, h, w, c), (0, 3, 1, 2))):
        y = np.zeros_like(x)
        assert not mistakes(call(compiled, f"Transpose_ext_{CPP[dtype]}", x, t, y, n, c, h, w, kind))
        np.testing.assert_array_equal(y, ORACLES["Transpose"](x.reshape(shape), axes).ravel())
    small = np.zeros(64, np.uint8)
    assert "buffer-out-of-bounds" in mistakes(
        call(compiled, f"Transpose_ext_{CPP[dtype]}", x, small, x.copy(), n, c, h, w, 11)
    )


@pytest.mark.parametrize("dtype", [t for t in CPP if np.dtype(t).itemsize > 1])
def test_sixteen_rows(compiled: KernelFile, dtype: Any) -> None:
    per = 32 // np.dtype(dtype).itemsize
    x, y = random_of(dtype, 16 * per), np.zeros(16 * per, dtype)
    assert not mistakes(call(compiled, f"TransDataTo5HD_{CPP[dtype]}", x, y, 1, 1, 0, 0, 1, 0, 0))
    np.testing.assert_array_equal(y.reshape(16, per), rows_transposed(x.reshape(16, per)))


@pytest.mark.parametrize("dtype", [np.int8, np.uint8])
@pytest.mark.parametrize("halves", [(0, 0), (0, 1), (1, 0), (1, 1)])
def test_bytes_move_by_halves(compiled: KernelFile, dtype: Any, halves: tuple[int, int]) -> None:
    x, y = random_of(dtype, 512), np.zeros(512, dtype)
    call(compiled, f"TransDataTo5HD_{CPP[dtype]}", x, y, 1, 1, *halves, 1, 0, 0)
    expected = np.zeros((16, 32), dtype)
    expected[:, 16 * halves[0] :][:, :16] = x.reshape(16, 32)[:, 16 * halves[1] :][:, :16].T
    np.testing.assert_array_equal(y.reshape(16, 32), expected)


def test_planes_of_an_image_become_channels_of_sixteen(compiled: KernelFile) -> None:
    x, y = random_of(np.float16, 16 * 64), np.zeros(16 * 64, np.float16)  # C = 16, H * W = 64
    run = call(compiled, "TransDataTo5HD_half", x, y, 1, 4, 0, 0, 4, 16, 1)
    assert not mistakes(run)
    np.testing.assert_array_equal(y.reshape(64, 16), x.reshape(16, 64).T)


def test_one_repeat_starts_one_stride_later(compiled: KernelFile) -> None:
    x, y = random_of(np.float16, 512), np.zeros(512, np.float16)
    call(compiled, "TransDataTo5HD_half", x, y, 1, 1, 0, 0, 1, 16, 16)
    assert not y[:256].any()
    np.testing.assert_array_equal(y[256:].reshape(16, 16), x[256:].reshape(16, 16).T)


@pytest.mark.parametrize("form", ["by_tensors", "by_addresses"])
def test_other_ways_to_name_the_rows(compiled: KernelFile, form: str) -> None:
    x, y = random_of(np.float16, 256), np.zeros(256, np.float16)
    lists = (np.zeros(16, np.uint64), np.zeros(16, np.uint64)) if form == "by_addresses" else ()
    assert not mistakes(call(compiled, form, x, y, *lists))
    np.testing.assert_array_equal(y.reshape(16, 16), x.reshape(16, 16).T)
