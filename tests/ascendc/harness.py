"""Compile a piece of Ascend C for a test: many small kernels in one translation unit, so that a family compiles once."""

from __future__ import annotations

import hashlib
import tempfile
from pathlib import Path

import toprope
from toprope.kernel import KernelFile


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
