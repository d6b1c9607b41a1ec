"""Compile a piece of Ascend C for a test: many small kernels in one translation unit, so that a family compiles once. Operands of the cube."""

from __future__ import annotations

import hashlib
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

import toprope
from toprope.kernel import KernelFile

# C++ text for kernels that read and write GM by scalars.
GM = r"""
template <typename T> GlobalTensor<T> gm(GM_ADDR at) {
    GlobalTensor<T> g;
    g.SetGlobalBuffer((__gm__ T*)at);
    return g;
}
"""


def kernels(text: str, name: str = "kernels") -> KernelFile:
    """The kernels of a C++ text (without the include line). Same text, same file: the build cache then hits."""
    whole = '#include "kernel_operator.h"\nusing namespace AscendC;\n' + text
    digest = hashlib.sha256(whole.encode()).hexdigest()[:16]
    folder = Path(tempfile.gettempdir()) / "toprope-test-kernels"
    folder.mkdir(exist_ok=True)
    file = folder / f"{name}_{digest}.cpp"
    if not file.exists() or file.read_text() != whole:
        partial = file.with_suffix(f".{hash(digest) & 0xFFFF}.tmp")
        partial.write_text(whole)
        partial.replace(file)
    return toprope.load(file)


def left(a: npt.NDArray[Any], k0: int) -> npt.NDArray[Any]:
    """A as zZ: fractals of 16 x k0 row by row."""
    m, k = -(-a.shape[0] // 16) * 16, -(-a.shape[1] // k0) * k0
    wide = np.zeros((m, k), a.dtype)
    wide[: a.shape[0], : a.shape[1]] = a
    return np.ascontiguousarray(wide.reshape(m // 16, 16, k // k0, k0).transpose(0, 2, 1, 3)).ravel()


def right(b: npt.NDArray[Any], k0: int) -> npt.NDArray[Any]:
    """B as nZ: fractals of k0 x 16 row by row, columns inside."""
    k, n = -(-b.shape[0] // k0) * k0, -(-b.shape[1] // 16) * 16
    wide = np.zeros((k, n), b.dtype)
    wide[: b.shape[0], : b.shape[1]] = b
    return np.ascontiguousarray(wide.reshape(k // k0, k0, n // 16, 16).transpose(0, 2, 3, 1)).ravel()


def sparse_right(
    rng: np.random.Generator, k: int, n: int
) -> tuple[npt.NDArray[np.int8], npt.NDArray[np.int8], npt.NDArray[np.uint8]]:
    """A random (k, n) matrix, two of every four rows kept; what is kept, (k/2, n); its places as MmadWithSparse wants them."""
    full, dense, index = np.zeros((k, n), np.int8), np.zeros((k // 2, n), np.int8), np.zeros((k // 2, n), np.uint8)
    for g in range(k // 4):
        for j in range(n):
            first, second = sorted(rng.choice(4, 2, replace=False))
            values = rng.integers(1, 128, 2)
            full[4 * g + first, j], full[4 * g + second, j] = values
            dense[2 * g : 2 * g + 2, j] = values
            index[2 * g : 2 * g + 2, j] = first, second - 1
    packed = right(index, 32).reshape(-1, 4)
    bits = (packed << np.array([0, 2, 4, 6], np.uint8)).sum(1).astype(np.uint8)
    return full, dense, bits
