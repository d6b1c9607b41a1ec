"""How to run a model."""

from __future__ import annotations

from dataclasses import dataclass, field

from toprope.serve.batching.policies import Policy
from toprope.serve.batching.scheduler import SchedulerLimits

DTYPES = ("float32", "bfloat16", "float16")
DEVICES = ("cpu", "npu")


@dataclass(frozen=True)
class EngineConfig:
    """`threads` 0 means one per core; `kernels` is auto, compiled or torch.

    On the device "npu" operators of the software NPU compute each step, in float16; with `estimate` the CPU's kernels do,
    and only the time comes from the operators on `chip`.
    """

    dtype: str = "float32"
    kernels: str = "auto"
    batch_invariant: bool = False  # insist on it: refuse kernels that cannot promise it
    threads: int = 0
    block_tokens: int = 16
    kv_bytes: int = 1 << 30
    host_kv_bytes: int = 0
    prefix_caching: bool = True
    limits: SchedulerLimits = field(default_factory=SchedulerLimits)
    policy: Policy | None = None
    device: str = "cpu"
    estimate: bool = False
    chip: str = "ascend910b2"

    def __post_init__(self) -> None:
        if self.dtype not in DTYPES:
            raise ValueError(f"dtype {self.dtype!r} is not supported; known: {', '.join(DTYPES)}")
        if self.device not in DEVICES:
            raise ValueError(f"device {self.device!r} does not exist; known: {', '.join(DEVICES)}")
        if self.estimate and self.device != "npu":
            raise ValueError("an estimate is of the device npu\n  cure: add --device npu")
        if self.executes_operators != (self.dtype == "float16"):
            raise ValueError(
                f"the device npu computes in float16, the CPU in float32 or bfloat16; this is {self.dtype}\n  cure: leave out --dtype"
            )

    @property
    def executes_operators(self) -> bool:
        """Whether the steps run on the software NPU."""
        return self.device == "npu" and not self.estimate
