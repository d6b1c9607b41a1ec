"""How many requests fit into the KV cache."""

from __future__ import annotations

from dataclasses import dataclass

from toprope.errors import BadInput
from toprope.serve.planning.model_shape import ModelShape


@dataclass(frozen=True)
class Concurrency:
    """Requests of equal length that fit at a time, under three assumptions."""

    halfway: int  # the rule of thumb of the vendor's guide: each holds (input + output) / 2 tokens
    staggered: int  # requests are at every stage of their life: mean over all decode steps, blocks rounded up
    worst: int  # all reach their full length together: this many never meet a preemption


def kv_block_count(
    model: ModelShape,
    memory_bytes: float,
    block_size: int,
    *,
    memory_share: float = 0.8,
    max_tokens: int = 8192,
    max_batch_size: int = 256,
) -> int:
    """Blocks left after weights and the working memory of a step, from `memory_share` of the device memory.

    0.8 is MindIE's default for the share; raises `BadInput` when not one block is left.
    """
    left = memory_bytes * memory_share - model.weight_bytes - model.working_bytes(max_tokens, max_batch_size)
    blocks = int(left // (block_size * model.kv_bytes_per_token))
    if blocks < 1:
        raise BadInput(
            f"{model.name} needs {model.weight_bytes / 1e9:.1f} GB for weights and "
            f"{model.working_bytes(max_tokens, max_batch_size) / 1e9:.1f} GB to work in; {memory_share:.0%} of "
            f"{memory_bytes / 1e9:.0f} GB leaves no KV block",
            cure="use more memory, a smaller model, fewer bits per weight, or a smaller max_tokens",
        )
    return blocks


def concurrency(kv_blocks: int, block_size: int, input_tokens: int, output_tokens: int) -> Concurrency:
    """How many requests of `input_tokens` + `output_tokens` fit into `kv_blocks`."""

    def blocks_for(tokens: float) -> int:
        return -(-int(tokens) // block_size)

    mean_blocks = sum(blocks_for(input_tokens + done) for done in range(output_tokens)) / output_tokens
    return Concurrency(
        halfway=kv_blocks // blocks_for((input_tokens + output_tokens) / 2),
        staggered=int(kv_blocks / mean_blocks),
        worst=kv_blocks // blocks_for(input_tokens + output_tokens - 1),
    )
