"""toprope: a software Ascend NPU. Write, run, check, time and ship Ascend C operators on any computer."""

from toprope.kernel import Kernel, Run, load

__all__ = ["Kernel", "Run", "load"]
