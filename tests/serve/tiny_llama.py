"""A small random Llama: in memory, on disk with a tokenizer, and computed anew in the plainest torch there is."""

from __future__ import annotations

import json
from pathlib import Path

import torch
import torch.nn.functional as F
from safetensors.torch import save_file
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers

from toprope.serve.model.llama_config import LlamaConfig

END = 256  # the token after the 256 bytes
CONFIG = LlamaConfig(
    vocab=320, hidden=64, ffn=96, layers=2, heads=4, kv_heads=2, head=16, context_tokens=512, rope_base=5000.0,
    norm_epsilon=1e-5, end_tokens=frozenset({END}),
)  # fmt: skip


def random_weights(
    config: LlamaConfig, *, seed: int = 0, bias: bool = False, head_norms: bool = False
) -> dict[str, torch.Tensor]:
    """Weights under Hugging Face names, large enough for distinct logits."""
    generator = torch.Generator().manual_seed(seed)

    def normal(*shape: int) -> torch.Tensor:
        return torch.randn(shape, generator=generator) * shape[-1] ** -0.5

    weights = {"model.embed_tokens.weight": normal(config.vocab, config.hidden) * config.hidden**0.5}
    if not config.tied_embeddings:
        weights["lm_head.weight"] = normal(config.vocab, config.hidden) * 2
    weights["model.norm.weight"] = 1 + 0.1 * torch.randn(config.hidden, generator=generator)
    wide, narrow = config.heads * config.head, config.kv_heads * config.head
    for layer in range(config.layers):
        at = f"model.layers.{layer}."
        for name, outer, inner in (
            ("self_attn.q_proj", wide, config.hidden),
            ("self_attn.k_proj", narrow, config.hidden),
            ("self_attn.v_proj", narrow, config.hidden),
            ("self_attn.o_proj", config.hidden, wide),
            ("mlp.gate_proj", config.ffn, config.hidden),
            ("mlp.up_proj", config.ffn, config.hidden),
            ("mlp.down_proj", config.hidden, config.ffn),
        ):
            weights[f"{at}{name}.weight"] = normal(outer, inner)
            if bias and name[-6:-5] in "qkv" and "self_attn" in name:
                weights[f"{at}{name}.bias"] = 0.3 * torch.randn(outer, generator=generator)
        for name in ("input_layernorm", "post_attention_layernorm"):
            weights[f"{at}{name}.weight"] = 1 + 0.1 * torch.randn(config.hidden, generator=generator)
        if head_norms:
            for name in ("q_norm", "k_norm"):
                weights[f"{at}self_attn.{name}.weight"] = 1 + 0.2 * torch.randn(config.head, generator=generator)
    return weights


def reference_logits(config: LlamaConfig, weights: dict[str, torch.Tensor], tokens: list[int]) -> torch.Tensor:
    """Logits `[tokens, vocab]` of a whole sequence: no cache, no packing, one head after the other."""
    w = {name: tensor.double() for name, tensor in weights.items()}

    def norm(x: torch.Tensor, name: str) -> torch.Tensor:
        return x / torch.sqrt((x * x).mean(-1, keepdim=True) + config.norm_epsilon) * w[name]

    def turn(x: torch.Tensor) -> torch.Tensor:
        out = torch.empty_like(x)
        half = config.head // 2
        for i in range(half):
            angle = torch.arange(len(x), dtype=torch.float64) * config.rope_base ** (-2 * i / config.head)
            a, b = x[:, i], x[:, i + half]
            out[:, i] = a * angle.cos() - b * angle.sin()
            out[:, i + half] = b * angle.cos() + a * angle.sin()
        return out

    x = w["model.embed_tokens.weight"][tokens]
    for layer in range(config.layers):
        at = f"model.layers.{layer}."
        normed = norm(x, f"{at}input_layernorm.weight")
        q, k, v = (
            normed @ w[f"{at}self_attn.{p}_proj.weight"].T + w.get(f"{at}self_attn.{p}_proj.bias", torch.zeros(1))
            for p in "qkv"
        )
        heads = []
        for head in range(config.heads):
            shared = head // (config.heads // config.kv_heads)
            query, key, value = (
                part[:, i * config.head : (i + 1) * config.head] for part, i in ((q, head), (k, shared), (v, shared))
            )
            if f"{at}self_attn.q_norm.weight" in w:
                query, key = norm(query, f"{at}self_attn.q_norm.weight"), norm(key, f"{at}self_attn.k_norm.weight")
            scores = turn(query) @ turn(key).T / config.head**0.5
            scores = scores + torch.full_like(scores, float("-inf")).triu(1)
            heads.append(scores.softmax(-1) @ value)
        x = x + torch.cat(heads, -1) @ w[f"{at}self_attn.o_proj.weight"].T
        normed = norm(x, f"{at}post_attention_layernorm.weight")
        gate, up = (normed @ w[f"{at}mlp.{p}_proj.weight"].T for p in ("gate", "up"))
        x = x + (F.silu(gate) * up) @ w[f"{at}mlp.down_proj.weight"].T
    return norm(x, "model.norm.weight") @ w.get("lm_head.weight", w["model.embed_tokens.weight"]).T


def reference_greedy(config: LlamaConfig, weights: dict[str, torch.Tensor], prompt: list[int], count: int) -> list[int]:
    """The likeliest continuation, computed from the start for each token."""
    tokens = list(prompt)
    for _ in range(count):
        tokens.append(int(reference_logits(config, weights, tokens)[-1].argmax()))
    return tokens[len(prompt) :]


def save_model(folder: Path, config: LlamaConfig = CONFIG, seed: int = 0) -> Path:
    """A model folder as Hugging Face lays it out, with a tokenizer of 256 bytes, an end token and 63 fillers."""
    folder.mkdir(parents=True, exist_ok=True)
    weights = random_weights(config, seed=seed)
    weights["lm_head.weight"][END] = 0  # the end token is never the likeliest, so answers have the length asked for
    save_file(weights, folder / "model.safetensors")
    scale = {
        "model_type": "llama", "vocab_size": config.vocab, "hidden_size": config.hidden, "intermediate_size": config.ffn,
        "num_hidden_layers": config.layers, "num_attention_heads": config.heads, "num_key_value_heads": config.kv_heads,
        "head_dim": config.head, "max_position_embeddings": config.context_tokens, "rms_norm_eps": config.norm_epsilon,
        "rope_theta": config.rope_base, "eos_token_id": END,
    }  # fmt: skip
    (folder / "config.json").write_text(json.dumps(scale))
    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    vocab = {letter: i for i, letter in enumerate(letters)}
    backend = Tokenizer(models.BPE(vocab, []))
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    backend.decoder = decoders.ByteLevel()
    backend.add_special_tokens([AddedToken("<end>", special=True)])
    backend.add_tokens([f"<{i}>" for i in range(config.vocab - 257)])
    backend.save(str(folder / "tokenizer.json"))
    template = "{% for m in messages %}{% if m.role not in ['system', 'user', 'assistant'] %}{{ raise_exception('unknown role ' + m.role) }}{% endif %}{{ m.role }}: {{ m.content }}\n{% endfor %}assistant:"
    (folder / "tokenizer_config.json").write_text(json.dumps({"chat_template": template, "eos_token": "<end>"}))
    return folder
