"""The shape of a Llama-family model, read from a Hugging Face config or from GGUF metadata."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch

from toprope.serve.model.bad_weights import BadWeights

_FAMILY = ("llama", "mistral", "qwen2", "qwen3")


@dataclass(frozen=True)
class RopeScaling:
    """How rotary frequencies are stretched for contexts beyond the trained one.

    `linear` divides all by `factor`, `llama3` long waves only, `divisors` each by its own number (in GGUF files).
    """

    kind: str
    factor: float = 1.0
    low_frequency: float = 1.0
    high_frequency: float = 4.0
    trained_tokens: int = 8192
    divisors: tuple[float, ...] = ()  # head / 2 of them


@dataclass(frozen=True)
class LlamaConfig:
    """Sizes count elements. Attention with `heads` queries over `kv_heads` keys, gated feed-forward, RMS norms."""

    vocab: int
    hidden: int
    ffn: int
    layers: int
    heads: int
    kv_heads: int
    head: int
    context_tokens: int
    norm_epsilon: float = 1e-5
    rope_base: float = 10000.0
    rope_scaling: RopeScaling | None = None
    tied_embeddings: bool = False
    end_tokens: frozenset[int] = frozenset()

    def __post_init__(self) -> None:
        for name in ("vocab", "hidden", "ffn", "layers", "heads", "kv_heads", "head", "context_tokens"):
            if getattr(self, name) < 1:
                raise BadWeights(f"the model's {name} is {getattr(self, name)}; it must be at least 1")
        if self.heads % self.kv_heads:
            raise BadWeights(f"{self.heads} heads cannot share {self.kv_heads} key/value heads evenly")
        for name in ("hidden", "ffn", "head"):
            if getattr(self, name) % 16:
                raise BadWeights(f"the model's {name} is {getattr(self, name)}; the kernels need a multiple of 16")

    @classmethod
    def from_hf(cls, config: Mapping[str, Any]) -> LlamaConfig:
        """From the contents of `config.json`; raises `BadWeights` for another family or a missing entry."""
        if config.get("model_type") not in _FAMILY:
            raise BadWeights(f"model_type {config.get('model_type')!r} is not served; known: {', '.join(_FAMILY)}")
        try:
            heads = config["num_attention_heads"]
            rope = config.get("rope_parameters") or config.get("rope_scaling") or {}
            end = config.get("eos_token_id")
            return cls(
                vocab=config["vocab_size"],
                hidden=config["hidden_size"],
                ffn=config["intermediate_size"],
                layers=config["num_hidden_layers"],
                heads=heads,
                kv_heads=config.get("num_key_value_heads") or heads,
                head=config.get("head_dim") or config["hidden_size"] // heads,
                context_tokens=_context(config),
                norm_epsilon=config.get("rms_norm_eps", 1e-6),
                rope_base=config.get("rope_theta") or rope.get("rope_theta", 10000.0),
                rope_scaling=_scaling(rope),
                tied_embeddings=config.get("tie_word_embeddings", False),
                end_tokens=frozenset([] if end is None else end if isinstance(end, list) else [end]),
            )
        except KeyError as missing:
            raise BadWeights(f"config.json has no {missing}") from None

    @classmethod
    def from_gguf(
        cls, metadata: Mapping[str, Any], *, tied_embeddings: bool, rope_divisors: tuple[float, ...] = ()
    ) -> LlamaConfig:
        """From GGUF key/value pairs; raises `BadWeights` as `from_hf` does."""
        family = metadata.get("general.architecture")
        if family not in _FAMILY:
            raise BadWeights(f"GGUF architecture {family!r} is not served; known: {', '.join(_FAMILY)}")
        if metadata.get(f"{family}.rope.scaling.type", "none") not in ("none", "linear"):
            raise BadWeights(f"rope scaling {metadata[f'{family}.rope.scaling.type']!r} in GGUF files is not supported")
        try:
            hidden, heads = metadata[f"{family}.embedding_length"], metadata[f"{family}.attention.head_count"]
            factor = metadata.get(f"{family}.rope.scaling.factor")
            scaling = RopeScaling("linear", factor) if factor else None
            if rope_divisors:
                scaling = RopeScaling("divisors", divisors=rope_divisors)
            end = metadata.get("tokenizer.ggml.eos_token_id")
            return cls(
                vocab=metadata.get(f"{family}.vocab_size") or len(metadata["tokenizer.ggml.tokens"]),
                hidden=hidden,
                ffn=metadata[f"{family}.feed_forward_length"],
                layers=metadata[f"{family}.block_count"],
                heads=heads,
                kv_heads=metadata.get(f"{family}.attention.head_count_kv") or heads,
                head=metadata.get(f"{family}.attention.key_length") or hidden // heads,
                context_tokens=metadata[f"{family}.context_length"],
                norm_epsilon=metadata[f"{family}.attention.layer_norm_rms_epsilon"],
                rope_base=metadata.get(f"{family}.rope.freq_base", 10000.0),
                rope_scaling=scaling,
                tied_embeddings=tied_embeddings,
                end_tokens=frozenset([] if end is None else [end]),
            )
        except KeyError as missing:
            raise BadWeights(f"the GGUF file has no {missing}") from None

    def rotations(self, positions: int) -> tuple[torch.Tensor, torch.Tensor]:
        """Cosines and sines of the rotary embedding, float32 `[positions, head / 2]` each."""
        frequency = 1.0 / self.rope_base ** (torch.arange(0, self.head, 2, dtype=torch.float32) / self.head)
        scaling = self.rope_scaling
        if scaling is not None and scaling.kind == "linear":
            frequency = frequency / scaling.factor
        elif scaling is not None and scaling.kind == "divisors":
            frequency = frequency / torch.tensor(scaling.divisors)
        elif scaling is not None:  # llama3: long waves are stretched, short ones kept, those between blended
            turns = scaling.trained_tokens * frequency / (2 * math.pi)
            share = (turns - scaling.low_frequency) / (scaling.high_frequency - scaling.low_frequency)
            share = share.clamp(0, 1)
            frequency = frequency * (share + (1 - share) / scaling.factor)
        angles = torch.arange(positions, dtype=torch.float32)[:, None] * frequency
        return angles.cos().contiguous(), angles.sin().contiguous()


def _context(config: Mapping[str, Any]) -> int:
    """Within a sliding window attention is ordinary, so a model with one is served up to the window's length."""
    window = config.get("sliding_window") if config.get("use_sliding_window", True) else None
    longest: int = config["max_position_embeddings"]
    return min(longest, window) if window else longest


def _scaling(rope: Mapping[str, Any]) -> RopeScaling | None:
    kind = rope.get("rope_type") or rope.get("type") or "default"
    if kind == "default":
        return None
    if kind == "linear":
        return RopeScaling("linear", rope["factor"])
    if kind == "llama3":
        return RopeScaling(
            "llama3", rope["factor"], rope["low_freq_factor"], rope["high_freq_factor"],
            rope["original_max_position_embeddings"],
        )  # fmt: skip
    raise BadWeights(f"rope scaling {kind!r} is not supported; known: default, linear, llama3")
