"""toprope: a software Ascend NPU. Write, run, check, time and ship Ascend C operators on any computer.

import numpy as np, toprope
k = toprope.load("add_custom.cpp")              # the kernels of a source are its attributes
run = k.add_custom[8](x, y, z, x.size)          # 8 blocks; NumPy arrays, in place; by name too: add_custom[8](x=x, ...)
print(run)                                      # predicted time, and every mistake with its lines and cure
run.outputs, run.findings, run.timeline.microseconds

op = toprope.load_project("add_project")        # a folder with op_host/ and op_kernel/
z = op(x, y, scale=2.0)                         # its own shape inference and tiling; z.findings, z.time_us
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from toprope.kernel import Kernel, Run, load
    from toprope.project.loaded import load_project
    from toprope.runtime import empty

# Loaded on first use, so that `toprope --help` does not wait for NumPy.
_HOME = {
    "Kernel": "toprope.kernel",
    "Run": "toprope.kernel",
    "load": "toprope.kernel",
    "load_project": "toprope.project.loaded",
    "empty": "toprope.runtime",
}
__all__ = ["Kernel", "Run", "empty", "load", "load_project"]


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        from toprope.commandline import nearest  # loaded where something is misspelt

        raise AttributeError(f"module 'toprope' has no attribute {name!r}{nearest(name, __all__)}")
    return getattr(import_module(_HOME[name]), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
