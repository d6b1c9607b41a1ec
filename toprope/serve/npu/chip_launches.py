"""Launches on the software NPU by name: operators of the library, and the kernels of `tile_kernels`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from toprope.errors import BadChip
from toprope.kernel import Run
from toprope.ops import operator
from toprope.project.call_tensors import kernel_arguments
from toprope.project.ge_types import ge_type
from toprope.project.host import TensorValue
from toprope.serve.npu import tile_kernels
from toprope.soc import Soc, load

Array = np.ndarray[Any, Any]
ARCH = 2201  # what the library's cube operators are written for
TILE_KERNELS = {
    "swiglu": tile_kernels.swiglu,
    "rope": tile_kernels.rope,
    "cache_write": tile_kernels.cache_write,
    "add_bias": tile_kernels.add_bias,
    "head": tile_kernels.head,
}


class Launches:
    """One chip. Arrays go in and out without a copy where they lie in memory of `toprope.runtime.empty`."""

    def __init__(self, chip: str) -> None:
        self.soc = load(chip)
        check_chip(self.soc)

    def __call__(
        self,
        name: str,
        inputs: Sequence[Array],
        outputs: Sequence[Array],
        *,
        time_only: bool = False,
        **attributes: Any,
    ) -> Run:
        """Launch `name` on contiguous arrays, writing `outputs` in place; with `time_only` nothing is computed or written."""
        if name in TILE_KERNELS:
            return TILE_KERNELS[name].run(*inputs, *outputs, soc=self.soc.name, time_only=time_only)
        ready = operator(name).prepared(
            [[_described(a)] for a in inputs], [[_described(a)] for a in outputs], soc=self.soc, attributes=attributes
        )
        given, written = [[a] for a in inputs], [[a] for a in outputs]
        launch = ready.kernel[ready.tiling.block_dim]
        run: Run = launch(
            *kernel_arguments(ready.definition, given, written, ready.tiling, fill=not time_only),
            soc=self.soc,
            tiling_key=ready.tiling.key,
            time_only=time_only,
        )
        return run


def check_chip(soc: Soc) -> None:
    """Raise `BadChip` for a chip that the operators are not written for."""
    if soc.npu_arch != ARCH:
        raise BadChip(
            f"the library's matmul and paged_attention do not run on {soc.name}",
            cure="choose an Atlas A2 or A3 chip, for instance ascend910b2",
        )


def _described(array: Array) -> TensorValue:
    return TensorValue(array.shape, ge_type(array.dtype), value=array)
