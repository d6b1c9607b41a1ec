"""Which implementation of the model's operations runs here."""

from __future__ import annotations

import hashlib
import json
import os
import sys
import time

import torch

from toprope.cache import cache_dir
from toprope.errors import CompileFailed, NoCompiler
from toprope.serve.kernels.compiled_kernels import CompiledKernels
from toprope.serve.kernels.interface import Kernels
from toprope.serve.kernels.native import library_path
from toprope.serve.kernels.torch_kernels import TorchKernels

# Work of one request that is measured: a prompt of 256 tokens, and 256 answers computed in batches of eight.
_PROMPT_ROWS, _DECODE_ROWS, _DECODE_STEPS = 256, 8, 32
# The compiled kernels promise equal bits whatever is in the batch, and their attention needs no copies: what they may cost for that.
_WORTH = 1.5


def load_kernels(dtype: torch.dtype, prefer: str = "auto", shape: tuple[int, int] | None = None) -> Kernels:
    """`compiled`, `torch`, or `auto`: compiled when there is a C++ compiler, else torch.

    With the `shape` (inner, outer) of the model's largest layer, `auto` measures both once on this machine and takes torch where the
    compiled products need more than 1.5 times as long; it says so on standard error.
    """
    if prefer == "torch":
        return TorchKernels(dtype)
    if prefer not in ("auto", "compiled"):
        raise ValueError(f"kernels {prefer!r} do not exist\n  cure: use auto, compiled or torch")
    try:
        compiled = CompiledKernels(dtype)
    except (NoCompiler, CompileFailed):
        if prefer == "compiled":
            raise
        return TorchKernels(dtype)
    if prefer == "compiled" or shape is None:
        return compiled
    times = _measured(compiled, shape)
    if times["compiled"] <= _WORTH * times["torch"]:
        return compiled
    print(
        f"kernels: torch, {times['compiled'] / times['torch']:.1f} times as fast as the compiled ones for layers of {shape[0]} x {shape[1]} "
        "on this machine; not batch-invariant (--kernels compiled is)",
        file=sys.stderr,
    )
    return TorchKernels(dtype)


def _measured(compiled: Kernels, shape: tuple[int, int]) -> dict[str, float]:
    """Seconds of a request's products by implementation, kept in the compile cache for the same library, threads and torch."""
    key = (str(library_path()), str(compiled.dtype), shape, torch.get_num_threads(), torch.__version__)
    kept = cache_dir() / f"kernels-{hashlib.sha256(repr(key).encode()).hexdigest()[:24]}.json"
    try:
        times = json.loads(kept.read_text())
        return {name: float(times[name]) for name in ("compiled", "torch")}
    except (OSError, ValueError, KeyError, TypeError):
        pass
    times = {kernels.name: request_s(kernels, shape) for kernels in (compiled, TorchKernels(compiled.dtype))}
    partial = kept.with_suffix(f".{os.getpid()}")
    partial.write_text(json.dumps(times))
    os.replace(partial, kept)
    return times


def request_s(kernels: Kernels, shape: tuple[int, int]) -> float:
    """Seconds that the products of one layer `shape` (inner, outer) take for a request; the best of three after a warm-up."""
    inner, outer = shape
    weight = kernels.pack(torch.ones((outer, inner), dtype=kernels.dtype))
    total = 0.0
    for rows, steps in ((_PROMPT_ROWS, 1), (_DECODE_ROWS, _DECODE_STEPS)):
        x, out = (torch.ones((rows, width), dtype=kernels.dtype) for width in shape)
        spent = []
        for _ in range(4):
            begin = time.perf_counter()
            kernels.linear(x, weight, out)
            spent.append(time.perf_counter() - begin)
        total += steps * min(spent[1:])
    return total
