"""The C++ kernels of this package as a loaded library, compiled when first needed and cached by content."""

from __future__ import annotations

import ctypes
from functools import cache
from pathlib import Path

from toprope.build import shared_library
from toprope.errors import CompileFailed

_HERE = Path(__file__).parent
_SOURCES = ("attention.cpp", "layers.cpp", "sampling.cpp")
# Sums are products accumulated in a fixed order; a fused multiply-add keeps that order and is twice as fast.
_FLAGS = ("-O3", "-ffp-contract=fast")


@cache
def library_path() -> Path:
    """The compiled library, with OpenMP where the compiler has it; raises `NoCompiler` or `CompileFailed`."""
    # The OpenMP runtime inside torch must be in the process first, so that both share one pool of threads.
    import torch  # noqa: F401

    text = "".join(f'#include "{_HERE / source}"\n' for source in _SOURCES)
    try:
        path = shared_library(text, include=[_HERE], extra=(*_FLAGS, "-fopenmp"))
        ctypes.CDLL(str(path))
    except (CompileFailed, OSError):  # no OpenMP: everything runs on one thread
        path = shared_library(text, include=[_HERE], extra=_FLAGS)
    return path


@cache
def load_library() -> ctypes.CDLL:
    """The serving kernels; raises `NoCompiler` or `CompileFailed`."""
    return ctypes.CDLL(str(library_path()))
