"""How to run a model."""

from __future__ import annotations

from dataclasses import dataclass, field

from toprope.serve.batching.policies import Policy
from toprope.serve.batching.scheduler import SchedulerLimits

DTYPES = ("float32", "bfloat16")


@dataclass(frozen=True)
class EngineConfig:
    """`threads` 0 means one per core; `kernels` is auto, compiled or torch."""

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

    def __post_init__(self) -> None:
        if self.dtype not in DTYPES:
            raise ValueError(f"dtype {self.dtype!r} is not supported; known: {', '.join(DTYPES)}")
