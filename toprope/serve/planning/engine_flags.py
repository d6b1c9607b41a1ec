"""The planner's settings in the words of other engines."""

from __future__ import annotations

import json
from dataclasses import dataclass


@dataclass(frozen=True)
class Settings:
    """One point of a sweep."""

    policy: str
    max_batch_size: int
    max_tokens: int
    block_size: int

    def __str__(self) -> str:
        return f"{self.policy}, batch {self.max_batch_size}, {self.max_tokens} tokens, block {self.block_size}"


def vllm_flags(settings: Settings, max_model_len: int, *, ascend: bool, ttft_s: float, tpot_s: float) -> list[str]:
    """Arguments for `vllm serve`; vllm-ascend uses blocks of 128 whatever is asked for.

    vLLM always mixes decode and prefill (our decode-first); other policies need our scheduler class.
    """
    flags = [
        f"--max-num-seqs {settings.max_batch_size}",
        f"--max-num-batched-tokens {settings.max_tokens}",
        f"--max-model-len {max_model_len}",
        f"--block-size {128 if ascend else settings.block_size}",
    ]
    if settings.policy != "decode-first":
        policy = {"policy": settings.policy, "ttft_s": ttft_s, "tpot_s": tpot_s}
        flags.append("--scheduler-cls toprope.serve.batching.vllm_policy.PolicyScheduler")
        flags.append("--no-async-scheduling")
        flags.append(f"--additional-config '{json.dumps({'toprope': policy})}'")
    return flags


def mindie_config(settings: Settings, max_model_len: int, *, ttft_s: float, tpot_s: float) -> dict[str, object]:
    """The keys to change under `BackendConfig` in MindIE's `config.json`.

    MindIE's blocks are multiples of 16. Decode-first is its SplitFuse, which cannot be combined with a stage policy.
    """
    stage = {"prefill-first": 0, "throughput": 1, "least-laxity": 2, "adaptive": 0}.get(settings.policy)
    schedule: dict[str, object] = {
        "templateType": "Mix" if stage is None else "Standard",
        "cacheBlockSize": max(16, settings.block_size // 16 * 16),
        "maxBatchSize": settings.max_batch_size,
        "maxPrefillBatchSize": min(50, settings.max_batch_size),
        "maxPrefillTokens": settings.max_tokens,
        "supportSelectBatch": settings.policy == "throughput",
    }
    if stage is None:
        schedule["enableSplit"] = True
    else:
        schedule["stageSelectPolicy"] = stage
    if settings.policy == "adaptive":
        schedule["dynamicBatchSizeEnable"] = True
        schedule["decodeExpectedTime"] = round(tpot_s * 1000)
    if settings.policy == "least-laxity":
        schedule["prefillExpectedTime"] = round(ttft_s * 1000)
        schedule["decodeExpectedTime"] = round(tpot_s * 1000)
    return {"ModelDeployConfig": {"maxSeqLen": max_model_len}, "ScheduleConfig": schedule}
