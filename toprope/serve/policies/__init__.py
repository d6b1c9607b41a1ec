"""What a step should contain: small, exchangeable decisions. The scheduler obeys all limits whatever a policy says."""

from .adaptive_batch_size import AdaptiveBatchSize
from .choose import POLICY_NAMES, make_policy
from .decode_first import DecodeFirst
from .least_laxity import LeastLaxity
from .policy import Load, Phase, Policy, StepPlan, StepWork
from .prefill_first import PrefillFirst
from .throughput import Throughput

__all__ = [
    "POLICY_NAMES",
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
    "make_policy",
]
