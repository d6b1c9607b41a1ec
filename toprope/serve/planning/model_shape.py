"""The numbers of a transformer that decide its cost."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from toprope.errors import BadInput


@dataclass(frozen=True)
class ModelShape:
    """A dense Llama-family decoder with gated feed-forward layers; counts are elements, not bytes."""

    name: str
    layers: int
    hidden: int
    heads: int
    kv_heads: int
    head_size: int
    feed_forward: int
    vocabulary: int
    max_model_len: int
    tied_embeddings: bool = False
    weight_bytes_each: float = 2.0
    kv_bytes_each: float = 2.0

    @property
    def layer_parameters(self) -> int:
        """Parameters of all layers: attention projections and three feed-forward matrices; norms are negligible."""
        attention = self.hidden * self.head_size * (2 * self.heads + 2 * self.kv_heads)
        return self.layers * (attention + 3 * self.hidden * self.feed_forward)

    @property
    def head_parameters(self) -> int:
        """Parameters of the output head."""
        return self.hidden * self.vocabulary

    @property
    def weight_bytes(self) -> float:
        """Memory of all weights, embeddings included."""
        embeddings = self.head_parameters * (1 if self.tied_embeddings else 2)
        return (self.layer_parameters + embeddings) * self.weight_bytes_each

    @property
    def kv_bytes_per_token(self) -> float:
        """Keys and values of one position, all layers."""
        return 2 * self.layers * self.kv_heads * self.head_size * self.kv_bytes_each

    def working_bytes(self, max_tokens: int, max_batch_size: int) -> float:
        """Estimate of the activations of a step: the widest layer's input, gate, up and residual, and fp32 logits."""
        widest = 2 * self.feed_forward + 4 * self.hidden
        return max_tokens * widest * 2.0 + max_batch_size * self.vocabulary * 4.0

    @classmethod
    def from_config(cls, path: str | Path) -> ModelShape:
        """Read a Hugging Face `config.json` (or its folder); raises `BadInput` when a number is missing."""
        file = Path(path) / "config.json" if Path(path).is_dir() else Path(path)
        try:
            config: dict[str, Any] = json.loads(file.read_text())
        except (OSError, ValueError) as error:
            raise BadInput(f"{file} is not a readable config.json: {error}", cure="name a file or a preset") from error
        try:
            heads = int(config["num_attention_heads"])
            return cls(
                name=str(config.get("_name_or_path") or file.parent.name),
                layers=int(config["num_hidden_layers"]),
                hidden=int(config["hidden_size"]),
                heads=heads,
                kv_heads=int(config.get("num_key_value_heads") or heads),
                head_size=int(config.get("head_dim") or config["hidden_size"] // heads),
                feed_forward=int(config["intermediate_size"]),
                vocabulary=int(config["vocab_size"]),
                max_model_len=int(config["max_position_embeddings"]),
                tied_embeddings=bool(config.get("tie_word_embeddings", False)),
            )
        except KeyError as error:
            raise BadInput(
                f"{file} has no {error.args[0]!r}", cure="only dense Llama-family models are known"
            ) from error

    @classmethod
    def load(cls, name_or_path: str) -> ModelShape:
        """A preset by name, or a `config.json`."""
        if name_or_path in PRESETS:
            return PRESETS[name_or_path]
        if not Path(name_or_path).exists():
            known = ", ".join(sorted(PRESETS))
            raise BadInput(f"no model called {name_or_path!r} and no such file", cure=f"presets: {known}")
        return cls.from_config(name_or_path)


# From the config.json that each model's authors publish.
PRESETS = {
    shape.name: shape
    for shape in (
        ModelShape("smollm2-135m", 30, 576, 9, 3, 64, 1536, 49152, 8192, tied_embeddings=True),
        ModelShape("qwen3-0.6b", 28, 1024, 16, 8, 128, 3072, 151936, 40960, tied_embeddings=True),
        ModelShape("qwen2.5-7b", 28, 3584, 28, 4, 128, 18944, 152064, 32768),
        ModelShape("llama2-7b", 32, 4096, 32, 32, 128, 11008, 32000, 4096),
        ModelShape("llama3-8b", 32, 4096, 32, 8, 128, 14336, 128256, 8192),
        ModelShape("qwen3-8b", 36, 4096, 32, 8, 128, 12288, 151936, 40960),
    )
}
