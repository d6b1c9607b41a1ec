"""A tile kernel as a PyTorch operator: schema, shapes without data, and level A on the CPU."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np

from toprope.tile.kernel import TileKernel
from toprope.tile.language import TileError


def torch_op(name: str, kernel: TileKernel) -> Any:
    """Register `lib::op` in torch.library with shapes for tracing and a CPU implementation; returns the callable operator.

    The operator takes the In arrays in order and returns the Out arrays. Raises TileError when an output's dimension is in no input.
    """
    import torch  # heavy and optional

    types = {
        "float32": torch.float32,
        "float16": torch.float16,
        "bfloat16": torch.bfloat16,
        "int32": torch.int32,
        "int16": torch.int16,
        "int8": torch.int8,
        "int64": torch.int64,
    }
    inputs = [n for n, p in kernel.params.items() if not p.written]
    outputs = [n for n, p in kernel.params.items() if p.written]

    def empty_outputs(tensors: tuple[Any, ...]) -> list[Any]:
        dims = {
            d.name: t.shape[axis]
            for n, t in zip(inputs, tensors, strict=True)
            for axis, d in enumerate(kernel.params[n].dims)
        }
        missing = [d.name for n in outputs for d in kernel.params[n].dims if d.name not in dims]
        if missing:
            raise TileError(
                f"dimension {missing[0]} of {kernel.name} is in no input", cure="give an In array that dimension"
            )
        return [
            tensors[0].new_zeros(
                [dims[d.name] for d in kernel.params[n].dims], dtype=types[kernel.params[n].dtype.name]
            )
            for n in outputs
        ]

    def as_numpy(t: Any) -> np.ndarray[Any, Any]:
        if t.dtype == torch.bfloat16:  # NumPy has no bfloat16 of its own
            return np.asarray(t.view(torch.int16).numpy()).view(ml_dtypes.bfloat16)
        return np.asarray(t.numpy())

    def shapes(*tensors: Any) -> Any:
        out = empty_outputs(tensors)
        return out[0] if len(out) == 1 else tuple(out)

    def on_cpu(*tensors: Any) -> Any:
        out = empty_outputs(tensors)
        given = dict(zip([*inputs, *outputs], [*(t.contiguous() for t in tensors), *out], strict=True))
        kernel(*(as_numpy(given[n]) for n in kernel.params))
        return out[0] if len(out) == 1 else tuple(out)

    results = "Tensor" if len(outputs) == 1 else f"({', '.join('Tensor' for _ in outputs)})"
    torch.library.define(name, f"({', '.join(f'Tensor {n}' for n in inputs)}) -> {results}")
    torch.library.impl(name, "cpu", on_cpu)
    torch.library.register_fake(name, shapes)
    library, operator = name.split("::")
    return getattr(getattr(torch.ops, library), operator)
