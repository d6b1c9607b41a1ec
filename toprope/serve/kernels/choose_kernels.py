"""Which implementation of the model's operations runs here."""

from __future__ import annotations

import torch

from toprope.errors import CompileFailed, NoCompiler
from toprope.serve.kernels.compiled_kernels import CompiledKernels
from toprope.serve.kernels.interface import Kernels
from toprope.serve.kernels.torch_kernels import TorchKernels


def load_kernels(dtype: torch.dtype, prefer: str = "auto") -> Kernels:
    """`compiled`, `torch`, or `auto`: compiled when there is a C++ compiler, else torch."""
    if prefer == "torch":
        return TorchKernels(dtype)
    if prefer not in ("auto", "compiled"):
        raise ValueError(f"kernels {prefer!r} do not exist\n  cure: use auto, compiled or torch")
    try:
        return CompiledKernels(dtype)
    except (NoCompiler, CompileFailed):
        if prefer == "compiled":
            raise
        return TorchKernels(dtype)
