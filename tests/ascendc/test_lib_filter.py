"""Elements dropped, added and taken away: DropOut in its mask modes, Pad, UnPad."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.ascendc.harness import kernels
from tests.ascendc.ub_kernel import FRAME, Oracle, call, mistakes, random_of, ub_kernel
from toprope.kernel import KernelFile

ORACLES: dict[str, Oracle] = {
    "DropOutBitModeInit": lambda x: x,  # called before every DropOut here, with a space that it leaves alone
    "DropOut": lambda x, keep, chance: np.where(keep, x / chance, 0),
    "Pad": lambda x, left, right, value: np.pad(x, ((0, 0), (left, right)), constant_values=value),
    "UnPad": lambda x, right: x[:, : x.shape[1] - right],
}
CPP = {np.float16: "half", np.float32: "float"}
PADDED = {**CPP, np.int16: "int16_t", np.uint16: "uint16_t", np.int32: "int32_t", np.uint32: "uint32_t"}


def text() -> str:
    out = '#include "kernel_tiling/kernel_tiling.h"\n' + FRAME
    for c in CPP.values():
        modes = "".join(f"case {m}: DropOut<{c}, false, {m}>(y, x, k, t, 0.5f, info); break; " for m in range(5))
        out += ub_kernel(
            f"DropOut_{c}",
            {"x": c, "y": c, "k": "uint8_t", "t": "uint8_t"},
            f"DropOutShapeInfo info{{(uint32_t)rows, (uint32_t)n, (uint32_t)mask}}; DropOutBitModeInit(t); DropOutBitModeInit(); switch (mode) {{ {modes} }}",
            ["rows", "n", "mask", "mode"],
        )
    for c in PADDED.values():
        out += ub_kernel(
            f"Pad_{c}",
            {"x": c, "y": c, "t": "uint8_t"},
            f"PadTiling tiling; tiling.srcHeight = rows; tiling.srcWidth = n; tiling.srcOriWidth = used; PadParams p{{(uint16_t)left, (uint16_t)right, 7}}; Pad<{c}>(y, x, p, t, tiling);",
            ["rows", "n", "used", "left", "right"],
        )
        out += ub_kernel(
            f"UnPad_{c}",
            {"x": c, "y": c, "t": "uint8_t"},
            f"UnPadTiling tiling; tiling.srcHeight = rows; tiling.srcWidth = n; UnPadParams p{{0, (uint16_t)right}}; UnPad<{c}>(y, x, p, t, tiling);",
            ["rows", "n", "right"],
        )
    return out


@pytest.fixture(scope="module")
def compiled() -> KernelFile:
    return kernels(text(), "lib_filter")


@pytest.mark.parametrize("told", [False, True], ids=["by shape", "told"])
@pytest.mark.parametrize("mode", [1, 2, 3, 4])
@pytest.mark.parametrize("t", CPP)
def test_drop_out(compiled: KernelFile, t: Any, mode: int, told: bool) -> None:
    rows, n = 5, 256
    keep = np.random.default_rng(mode).random((rows, n)) < 0.6
    bits = np.packbits(keep, axis=1, bitorder="little")
    mask = {
        1: np.pad(keep.astype(np.uint8), ((0, 0), (0, 32)), constant_values=9),
        2: keep.astype(np.uint8),
        3: bits,
        4: np.pad(bits, ((0, 0), (0, 32)), constant_values=255),
    }[mode]
    x, y = random_of(t, rows * n).reshape(rows, n), np.zeros((rows, n), t)
    run = call(
        compiled,
        f"DropOut_{CPP[t]}",
        x,
        y,
        np.ascontiguousarray(mask),
        np.zeros(8192, np.uint8),
        rows,
        n,
        mask.shape[1],
        mode if told else 0,
    )
    assert not mistakes(run)
    np.testing.assert_array_equal(y, ORACLES["DropOut"](x, keep, t(0.5)))


@pytest.mark.parametrize("t", PADDED)
@pytest.mark.parametrize(
    "shape", [(16, 15, 15, 0, 1), (5, 16, 13, 0, 3), (4, 37, 37, 5, 6), (3, 100, 100, 2, 10), (2, 9, 9, 7, 0)]
)
def test_pad(compiled: KernelFile, t: Any, shape: tuple[int, ...]) -> None:
    rows, n, used, left, right = shape
    if (left + used + right) * np.dtype(t).itemsize % 32 != 0:
        right += 32 - (left + used + right) % 32
    x = random_of(t, rows * n + 64)[: rows * n].reshape(rows, n)
    room = np.zeros((rows * n * x.itemsize + 31) // 32 * 32 // x.itemsize, t)
    room[: rows * n] = x.ravel()
    y = np.zeros((rows, left + used + right), t)
    run = call(compiled, f"Pad_{PADDED[t]}", room, y, np.zeros(4096, np.uint8), rows, n, used, left, right)
    assert not mistakes(run)
    np.testing.assert_array_equal(y, ORACLES["Pad"](x[:, :used], left, right, 7))


@pytest.mark.parametrize("t", PADDED)
@pytest.mark.parametrize("shape", [(16, 16, 1), (5, 64, 7), (3, 112, 15)])
def test_unpad(compiled: KernelFile, t: Any, shape: tuple[int, ...]) -> None:
    rows, n, right = shape
    x = random_of(t, rows * n).reshape(rows, n)
    y = np.zeros(rows * n, t)
    run = call(compiled, f"UnPad_{PADDED[t]}", x, y, np.zeros(8192, np.uint8), rows, n, right)
    assert not mistakes(run)
    np.testing.assert_array_equal(y[: rows * (n - right)].reshape(rows, -1), ORACLES["UnPad"](x, right))
