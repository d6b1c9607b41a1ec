"""toprope: a software Ascend NPU. Write, run, check, time and ship Ascend C operators on any computer."""

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
        raise AttributeError(f"module 'toprope' has no attribute {name!r}")
    return getattr(import_module(_HOME[name]), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
