"""What a step should contain: small, exchangeable decisions. The scheduler obeys all limits whatever a policy says."""

from toprope.serve.batching.policies.adaptive_batch_size import AdaptiveBatchSize
from toprope.serve.batching.policies.choose import POLICY_NAMES, make_policy
from toprope.serve.batching.policies.decode_first import DecodeFirst
from toprope.serve.batching.policies.least_laxity import LeastLaxity
from toprope.serve.batching.policies.policy import Load, Phase, Policy, StepPlan, StepWork
from toprope.serve.batching.policies.prefill_first import PrefillFirst
from toprope.serve.batching.policies.throughput import Throughput

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
