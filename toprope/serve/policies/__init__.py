"""What a step should contain: small, exchangeable decisions. The scheduler obeys all limits whatever a policy says."""

from .adaptive_batch_size import AdaptiveBatchSize
from .decode_first import DecodeFirst
from .least_laxity import LeastLaxity
from .policy import Load, Phase, Policy, StepPlan, StepWork
from .prefill_first import PrefillFirst
from .throughput import Throughput

POLICIES: dict[str, type[Policy]] = {
    "prefill-first": PrefillFirst,
    "decode-first": DecodeFirst,
    "throughput": Throughput,
    "least-laxity": LeastLaxity,
}

__all__ = [
    "POLICIES",
    "AdaptiveBatchSize",
    "DecodeFirst",
    "LeastLaxity",
    "Load",
    "Phase",
    "Policy",
    "PrefillFirst",
    "StepPlan",
    "StepWork",
    "Throughput",
]
