"""The tile language: operators written on tiles in Python, checked and timed as the Ascend C that is emitted from them.

::

    from toprope import tile
    from toprope.tile import In, Out, f32

    @tile.kernel
    def add(x: In["N", f32], y: In["N", f32], z: Out["N", f32], *, T=tile.tune(8192, mult=64)):
        for i in tile.tiles(x.shape[0], T, depth=2):
            z[i] = x[i] + y[i]

`add(x, y, z)` evaluates it on NumPy arrays, `add.run(x, y, z)` runs the emitted kernel, `add.source()` is its text.
"""

from __future__ import annotations

from toprope.tile.eager import BUILTINS
from toprope.tile.from_triton.kernel import TritonKernel, triton
from toprope.tile.from_triton.module import stand_in as stand_in_triton
from toprope.tile.functions import gelu, sigmoid, silu, tanh
from toprope.tile.kernel import TileKernel, kernel
from toprope.tile.language import Dim, In, Out, TileError, TileTooLarge, bf16, f16, f32, i8, i16, i32, i64, inf, tune
from toprope.tile.project import project_files
from toprope.tile.torch_library import torch_op
from toprope.tile.tuner import Candidate
from toprope.tile.tuner import tune as search

exp, log, sqrt, rsqrt = BUILTINS["exp"], BUILTINS["log"], BUILTINS["sqrt"], BUILTINS["rsqrt"]
reciprocal, abs, relu = BUILTINS["reciprocal"], BUILTINS["abs"], BUILTINS["relu"]
sum, max, min, gather = BUILTINS["sum"], BUILTINS["max"], BUILTINS["min"], BUILTINS["gather"]
maximum, minimum = BUILTINS["maximum"], BUILTINS["minimum"]
where, full, zeros = BUILTINS["where"], BUILTINS["full"], BUILTINS["zeros"]
tiles, acc, stage, arange = BUILTINS["tiles"], BUILTINS["acc"], BUILTINS["stage"], BUILTINS["arange"]

__all__ = [
    "Candidate",
    "Dim",
    "In",
    "Out",
    "TileError",
    "TileKernel",
    "TileTooLarge",
    "TritonKernel",
    "abs",
    "acc",
    "arange",
    "bf16",
    "exp",
    "f16",
    "f32",
    "full",
    "gather",
    "gelu",
    "i8",
    "i16",
    "i32",
    "i64",
    "inf",
    "kernel",
    "log",
    "max",
    "maximum",
    "min",
    "minimum",
    "project_files",
    "reciprocal",
    "relu",
    "rsqrt",
    "search",
    "sigmoid",
    "silu",
    "sqrt",
    "stage",
    "stand_in_triton",
    "sum",
    "tanh",
    "tiles",
    "torch_op",
    "triton",
    "tune",
    "where",
    "zeros",
]  # fmt: skip
