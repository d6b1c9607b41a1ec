"""The numbers of a transformer that decide its cost."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from toprope import inputs
from toprope.errors import BadInput


@dataclass(frozen=True)
class ModelShape:
    """A decoder with gated feed-forward layers, dense or of experts; counts are elements, not bytes.

    With `experts`, all layers but the first `dense_layers` hold that many of width `expert_width`, of which a token meets
    `experts_per_token` and all `shared_experts`. `latent` is what latent attention (MLA) keeps of a position in one layer,
    and `attention_parameters` are its projections' (0: from the heads). With `copies`, this is one of so many data-parallel
    copies that hold the experts together (expert parallel): each has its share of them and reads it for the tokens of all.
    """

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
    experts: int = 0
    experts_per_token: int = 0
    expert_width: int = 0
    shared_experts: int = 0
    dense_layers: int = 0
    latent: int = 0
    attention_parameters: int = 0
    copies: int = 1

    @property
    def expert_layers(self) -> int:
        """Layers whose feed-forward is a choice of experts."""
        return self.layers - self.dense_layers if self.experts else 0

    @property
    def layer_parameters(self) -> int:
        """Parameters of all layers: attention projections and three feed-forward matrices; norms are negligible."""
        return self._with_experts(self.experts / self.copies)

    @property
    def active_parameters(self) -> int:
        """Parameters of all layers that one token meets."""
        return self._with_experts(self.experts_per_token)

    def parameters_read(self, tokens: float) -> float:
        """Parameters of all layers that a step of `tokens` reads: of the experts those expected when each is as likely."""
        if not self.experts:
            return self.layer_parameters
        missed: float = (1 - self.experts_per_token / self.experts) ** (tokens * self.copies)
        return self._with_experts(0) + (self.layer_parameters - self._with_experts(0)) * (1 - missed)

    def _with_experts(self, experts: float) -> int:
        attention = self.attention_parameters or self.hidden * self.head_size * (2 * self.heads + 2 * self.kv_heads)
        dense = (self.layers - self.expert_layers) * 3 * self.hidden * self.feed_forward
        chosen = self.expert_layers * 3 * self.hidden * self.expert_width * (experts + self.shared_experts)
        return round(self.layers * attention + dense + chosen)

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
        """Keys and values (or the latent) of one position, all layers."""
        return self.layers * (self.latent or 2 * self.kv_heads * self.head_size) * self.kv_bytes_each

    def working_bytes(self, max_tokens: int, max_batch_size: int) -> float:
        """Estimate of the activations of a step: the widest layer's input, gate, up and residual, and fp32 logits."""
        widest = 2 * self.feed_forward + 4 * self.hidden
        return max_tokens * widest * 2.0 + max_batch_size * self.vocabulary * 4.0

    @classmethod
    def from_config(cls, path: str | Path) -> ModelShape:
        """Read a Hugging Face `config.json` (or its folder); raises `BadInput` when a number is missing."""
        file = Path(path) / "config.json" if Path(path).is_dir() else Path(path)
        config: dict[str, Any] = inputs.json_of(file, "name a config.json or a preset")
        with inputs.reading(file, "a decoder's numbers are missing"):
            shape = _shape_of(str(config.get("_name_or_path") or file.parent.name), config, file)
        inputs.numbers({k: v for k, v in vars(shape).items() if isinstance(v, int)}, str(file), 0)
        for name in ("layers", "hidden", "heads", "kv_heads", "head_size", "feed_forward", "vocabulary"):
            inputs.numbers(getattr(shape, name), f"{file}: {name}", 1)
            if getattr(shape, name) > 10**8 or shape.layers > 10**4:
                raise BadInput(
                    f"{file}: {name} is {getattr(shape, name)}", cure="no model is that large: check the number"
                )
        return shape

    @classmethod
    def load(cls, name_or_path: str) -> ModelShape:
        """A preset by name, or a `config.json`."""
        if name_or_path in PRESETS:
            return PRESETS[name_or_path]
        if not Path(name_or_path).exists():
            known = ", ".join(sorted(PRESETS))
            raise BadInput(f"no model called {name_or_path!r} and no such file", cure=f"presets: {known}")
        return cls.from_config(name_or_path)


def _latent_attention(
    hidden: int, heads: int, query: int = 1536, latent: int = 512, rope: int = 64, plain: int = 128, value: int = 128
) -> int:
    """Parameters of latent attention: queries through rank `query` (0: directly), keys and values through `latent`; defaults are DeepSeek V3's."""
    turned = hidden * query + query * heads * (plain + rope) if query else hidden * heads * (plain + rope)
    return turned + hidden * (latent + rope) + latent * heads * (plain + value) + heads * value * hidden


def _shape_of(name: str, config: dict[str, Any], file: Path) -> ModelShape:
    """From a decoder's configuration, or the one inside a multimodal model's."""
    for inner in ("text_config", "llm_config", "language_config"):
        if isinstance(config.get(inner), dict) and "num_hidden_layers" in config[inner]:
            config = config[inner]
    linear = [kind for kind in config.get("layer_types") or [] if "full" not in kind and "sliding" not in kind]
    if linear or config.get("full_attention_interval") or config.get("linear_num_value_heads"):
        raise BadInput(
            f"{file} has layers of linear attention", cure="they are not modelled: plan with a similar preset"
        )
    heads, layers, hidden = (int(config[k]) for k in ("num_attention_heads", "num_hidden_layers", "hidden_size"))
    experts = next(
        (int(config[k]) for k in ("n_routed_experts", "num_experts", "num_local_experts") if config.get(k)), 0
    )
    shape = ModelShape(
        name=name,
        layers=layers,
        hidden=hidden,
        heads=heads,
        kv_heads=int(config.get("num_key_value_heads") or heads),
        head_size=int(config.get("head_dim") or config.get("v_head_dim") or hidden // heads),
        feed_forward=int(config["intermediate_size"]),
        vocabulary=int(config["vocab_size"]),
        max_model_len=int(config["max_position_embeddings"]),
        tied_embeddings=bool(config.get("tie_word_embeddings", False)),
        weight_bytes_each=_weight_bytes(config.get("quantization_config")),
    )
    if config.get("kv_lora_rank"):
        rope, plain, value = (int(config[k]) for k in ("qk_rope_head_dim", "qk_nope_head_dim", "v_head_dim"))
        latent = int(config["kv_lora_rank"])
        count = _latent_attention(hidden, heads, int(config.get("q_lora_rank") or 0), latent, rope, plain, value)
        shape = replace(shape, latent=latent + rope, attention_parameters=count)
    if not experts:
        return shape
    width = int(config.get("moe_intermediate_size") or config["intermediate_size"])
    shared = int(config.get("n_shared_experts") or 0)
    if not shared and config.get("shared_expert_intermediate_size"):
        shared = round(int(config["shared_expert_intermediate_size"]) / width)
    every = max(1, int(config.get("decoder_sparse_step") or config.get("moe_layer_freq") or 1))
    first = int(config.get("first_k_dense_replace") or 0)
    dense = first + len(config.get("mlp_only_layers") or []) + (layers - first) - (layers - first) // every
    return replace(
        shape, experts=experts, experts_per_token=int(config.get("num_experts_per_tok") or config["moe_top_k"]),
        expert_width=width, shared_experts=shared, dense_layers=min(layers, dense),
    )  # fmt: skip


def _weight_bytes(quantised: Any) -> float:
    """Bytes of a weight by a configuration's `quantization_config`; 2 where it has none that says."""
    if not isinstance(quantised, dict):
        return 2.0
    if isinstance(quantised.get("bits"), int):
        return float(quantised["bits"]) / 8
    return 1.0 if "fp8" in str(quantised.get("quant_method")) else 2.0


# From the config.json that each model's authors publish.
_DEEPSEEK = ModelShape(
    "", 61, 7168, 128, 128, 128, 18432, 129280, 163840,
    experts=256, experts_per_token=8, expert_width=2048, shared_experts=1, dense_layers=3,
    latent=576, attention_parameters=_latent_attention(7168, 128),
)  # fmt: skip
_GLM = ModelShape(
    "", 46, 4096, 96, 8, 128, 10944, 151552, 131072,
    experts=128, experts_per_token=8, expert_width=1408, shared_experts=1, dense_layers=1,
)  # fmt: skip
PRESETS = {
    shape.name: shape
    for shape in (
        ModelShape("smollm2-135m", 30, 576, 9, 3, 64, 1536, 49152, 8192, tied_embeddings=True),
        ModelShape("qwen3-0.6b", 28, 1024, 16, 8, 128, 3072, 151936, 40960, tied_embeddings=True),
        ModelShape("qwen2.5-7b", 28, 3584, 28, 4, 128, 18944, 152064, 32768),
        ModelShape("llama2-7b", 32, 4096, 32, 32, 128, 11008, 32000, 4096),
        ModelShape("llama3-8b", 32, 4096, 32, 8, 128, 14336, 128256, 8192),
        ModelShape("qwen3-8b", 36, 4096, 32, 8, 128, 12288, 151936, 40960),
        ModelShape("qwen2.5-0.5b", 24, 896, 14, 2, 64, 4864, 151936, 32768, tied_embeddings=True),
        ModelShape("qwen2.5-32b", 64, 5120, 40, 8, 128, 27648, 152064, 32768),
        ModelShape("qwen2.5-72b", 80, 8192, 64, 8, 128, 29568, 152064, 32768),
        ModelShape("qwen3-4b", 36, 2560, 32, 8, 128, 9728, 151936, 40960, tied_embeddings=True),
        ModelShape("qwen3-14b", 40, 5120, 40, 8, 128, 17408, 151936, 40960),
        ModelShape("qwen3-32b", 64, 5120, 64, 8, 128, 25600, 151936, 40960),
        ModelShape("llama3-70b", 80, 8192, 64, 8, 128, 28672, 128256, 8192),
        *(
            ModelShape(*sizes, experts=experts, experts_per_token=chosen, expert_width=width)
            for sizes, experts, chosen, width in (
                (("mixtral-8x7b", 32, 4096, 32, 8, 128, 0, 32000, 32768), 8, 2, 14336),
                (("qwen3-30b-a3b", 48, 2048, 32, 4, 128, 0, 151936, 40960), 128, 8, 768),
                (("qwen3-235b-a22b", 94, 4096, 64, 4, 128, 0, 151936, 40960), 128, 8, 1536),
            )
        ),
        replace(_GLM, name="glm-4.5-air"),
        replace(_DEEPSEEK, name="deepseek-v3"),
        replace(_DEEPSEEK, name="deepseek-r1"),
        replace(
            _DEEPSEEK,
            name="kimi-k2",
            heads=64,
            vocabulary=163840,
            max_model_len=131072,
            experts=384,
            dense_layers=1,
            attention_parameters=_latent_attention(7168, 64),
        ),
    )
}
