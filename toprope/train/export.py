"""A plan as the flags of Megatron-LM and MindSpeed-LLM, and as a DeepSpeed configuration."""

from __future__ import annotations

from typing import Any

from toprope.errors import BadInput
from toprope.train.shape import TrainModel
from toprope.train.strategy import Batch, Strategy


def megatron_flags(model: TrainModel, batch: Batch, plan: Strategy, *, mindspeed: bool = False) -> list[str]:
    """Command-line flags (Megatron-LM arguments; with `mindspeed` those that MindSpeed-LLM adds or renames).

    Raises `BadInput` for what these frameworks do not have: ZeRO-2 and ZeRO-3 are FSDP or DeepSpeed there.
    """
    if plan.zero >= 2:
        raise BadInput(f"{plan} shards gradients or weights", cure="write it for DeepSpeed: --write deepspeed")
    decoder = model.decoder
    flags = [
        f"--tensor-model-parallel-size {plan.tp}",
        f"--pipeline-model-parallel-size {plan.pp}",
        f"--context-parallel-size {plan.cp}",
        f"--micro-batch-size {plan.micro_batch}",
        f"--global-batch-size {batch.samples}",
        f"--seq-length {batch.sequence}",
        f"--num-layers {decoder.layers}",
        f"--hidden-size {decoder.hidden}",
        f"--ffn-hidden-size {decoder.feed_forward}",
        f"--num-attention-heads {decoder.heads}",
        "--bf16",
    ]
    if decoder.kv_heads != decoder.heads:
        flags += ["--group-query-attention", f"--num-query-groups {decoder.kv_heads}"]
    if plan.chunks > 1:
        per_part = decoder.layers // (plan.pp * plan.chunks)
        flags.append(f"--num-layers-per-virtual-pipeline-stage {per_part}")
    if plan.sequence_parallel and plan.tp > 1:
        flags.append("--sequence-parallel")
    if decoder.experts:
        flags += [f"--num-experts {decoder.experts}", f"--expert-model-parallel-size {plan.ep}"]
        flags.append(f"--moe-router-topk {decoder.active}")
    if plan.zero == 1:
        flags.append("--use-distributed-optimizer")
    if plan.overlap:
        flags += ["--overlap-grad-reduce"] + (["--overlap-param-gather"] if plan.zero == 1 else [])
    if plan.flash:
        flags.append("--use-flash-attn")
    if plan.recompute == "full":
        layers = plan.recomputed_layers or max(plan.layers_of_stages(decoder.layers))
        flags += ["--recompute-granularity full", "--recompute-method block", f"--recompute-num-layers {layers}"]
    elif plan.recompute == "selective":
        flags.append("--recompute-granularity selective")
    if mindspeed and plan.cp > 1:
        flags.append("--context-parallel-algo megatron_cp_algo")
    if mindspeed and plan.schedule == "zero-bubble":
        flags.append("--schedules-method dualpipev")
    return flags


def deepspeed_config(model: TrainModel, batch: Batch, plan: Strategy) -> dict[str, Any]:
    """A DeepSpeed `ds_config.json`. Raises `BadInput` for pipelines, which DeepSpeed lays out in code."""
    if plan.pp > 1:
        raise BadInput(f"{plan} has a pipeline", cure="write it for Megatron: --write megatron")
    layer = model.decoder.shared_layer_parameters // plan.tp
    zero: dict[str, Any] = {
        "stage": plan.zero,
        "overlap_comm": plan.overlap,
        "contiguous_gradients": True,
        "reduce_bucket_size": layer,
    }
    if plan.zero == 3:
        zero |= {
            "stage3_prefetch_bucket_size": layer,
            "stage3_max_live_parameters": max(int(plan.live_parameters), 2 * layer),
            "stage3_param_persistence_threshold": 10 * model.decoder.hidden,
        }
        if plan.secondary or plan.zero_cards:
            zero["zero_hpz_partition_size"] = plan.zero_cards or 8
        if plan.quantised:
            zero |= {"zero_quantized_weights": True, "zero_quantized_gradients": True}
    if plan.offload:
        zero["offload_optimizer"] = {"device": "cpu", "pin_memory": True}
    return {
        "train_batch_size": batch.samples,
        "train_micro_batch_size_per_gpu": plan.micro_batch,
        "gradient_accumulation_steps": plan.micro_batches(batch),
        "bf16": {"enabled": True},
        "zero_optimization": zero,
        "activation_checkpointing": {"partition_activations": plan.tp > 1} if plan.recompute == "full" else {},
    }
