"""A Llama-family model over a paged key/value cache."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch

from toprope.serve.kernels.attention import AttentionPlan
from toprope.serve.kernels.interface import Kernels, Linear
from toprope.serve.kernels.kv_memory import KvMemory
from toprope.serve.model.bad_weights import BadWeights
from toprope.serve.model.llama_config import LlamaConfig


@dataclass(frozen=True, slots=True, eq=False)
class _Layer:
    attention_norm: torch.Tensor
    qkv: Linear
    query_norm: torch.Tensor | None
    key_norm: torch.Tensor | None
    output: Linear
    ffn_norm: torch.Tensor
    gate_up: Linear
    down: Linear


class Llama:
    """Weights and the forward pass. `max_tokens` bounds the tokens of one step and so the working memory."""

    def __init__(
        self, config: LlamaConfig, weights: Mapping[str, torch.Tensor], kernels: Kernels, *, max_tokens: int = 2048
    ) -> None:
        self.config, self.kernels, self.max_tokens = config, kernels, max_tokens
        self._load(_Weights(weights, config, kernels))
        self._cosines, self._sines = config.rotations(config.context_tokens)

        # Reused by every step: fresh pages would cost more than the arithmetic of a small model.
        def buffer(width: int) -> torch.Tensor:
            return torch.empty((max_tokens, width), dtype=kernels.dtype)

        self._hidden, self._normed, self._branch = (buffer(config.hidden) for _ in range(3))
        self._qkv = buffer((config.heads + 2 * config.kv_heads) * config.head)
        self._attended = buffer(config.heads * config.head)
        self._gate_up, self._gated = buffer(2 * config.ffn), buffer(config.ffn)

    def _load(self, take: _Weights) -> None:
        config = self.config
        query, keys = config.heads * config.head, config.kv_heads * config.head
        hidden, ffn = config.hidden, config.ffn
        self.embedding = take.packed([("model.embed_tokens", config.vocab)], hidden)
        self.head = self.embedding if config.tied_embeddings else take.packed([("lm_head", config.vocab)], hidden)
        self._norm = take.vector("model.norm.weight", hidden)
        self._layers = []
        for index in range(config.layers):
            at = f"model.layers.{index}"
            projections = [
                (f"{at}.self_attn.{name}_proj", width) for name, width in zip("qkv", (query, keys, keys), strict=True)
            ]
            self._layers.append(
                _Layer(
                    attention_norm=take.vector(f"{at}.input_layernorm.weight", hidden),
                    qkv=take.packed(projections, hidden),
                    query_norm=take.optional_vector(f"{at}.self_attn.q_norm.weight", config.head),
                    key_norm=take.optional_vector(f"{at}.self_attn.k_norm.weight", config.head),
                    output=take.packed([(f"{at}.self_attn.o_proj", hidden)], query),
                    ffn_norm=take.vector(f"{at}.post_attention_layernorm.weight", hidden),
                    gate_up=take.packed([(f"{at}.mlp.gate_proj", ffn), (f"{at}.mlp.up_proj", ffn)], hidden),
                    down=take.packed([(f"{at}.mlp.down_proj", hidden)], ffn),
                )
            )

    def memory(self, *, blocks: int, block_tokens: int, host_blocks: int = 0) -> KvMemory:
        """A key/value cache that fits this model."""
        return self.kernels.memory(
            blocks=blocks, block_tokens=block_tokens, layers=self.config.layers, kv_heads=self.config.kv_heads,
            head=self.config.head, dtype=self.kernels.dtype, host_blocks=host_blocks,
        )  # fmt: skip

    def forward(self, plan: AttentionPlan, memory: KvMemory) -> torch.Tensor:
        """Compute the tokens of `plan`, filling `memory`; logits float32 `[len(plan.sampled), vocab]`."""
        with torch.inference_mode():
            return self._forward(plan, memory)

    def last_hidden(self, rows: Sequence[int]) -> torch.Tensor:
        """The states behind the last norm of these rows of the step just computed, float32 `[rows, hidden]`."""
        return self._normed[list(rows)].float()

    def _forward(self, plan: AttentionPlan, memory: KvMemory) -> torch.Tensor:
        config, kernels, epsilon = self.config, self.kernels, self.config.norm_epsilon
        rows = len(plan.tokens)
        if rows > self.max_tokens:
            raise ValueError(f"a step of {rows} tokens exceeds max_tokens={self.max_tokens} of this model")
        hidden, normed, branch = self._hidden[:rows], self._normed[:rows], self._branch[:rows]
        qkv, attended = self._qkv[:rows], self._attended[:rows]
        gate_up, gated = self._gate_up[:rows], self._gated[:rows]

        kernels.embed(self.embedding, torch.from_numpy(plan.tokens), hidden)
        for index, layer in enumerate(self._layers):
            kernels.rms_norm(
                branch if index else hidden, hidden if index else None, layer.attention_norm, normed, epsilon
            )
            kernels.linear(normed, layer.qkv, qkv)
            if layer.query_norm is not None and layer.key_norm is not None:
                self._norm_heads(qkv, layer.query_norm, layer.key_norm)
            kernels.store(qkv, config.heads, self._cosines, self._sines, plan, memory, index)
            kernels.attend(qkv, config.heads, plan, memory, index, attended)
            kernels.linear(attended, layer.output, branch)
            kernels.rms_norm(branch, hidden, layer.ffn_norm, normed, epsilon)
            kernels.linear(normed, layer.gate_up, gate_up)
            kernels.gated(gate_up, gated)
            kernels.linear(gated, layer.down, branch)
        kernels.rms_norm(branch, hidden, self._norm, normed, epsilon)
        logits = torch.empty((len(plan.sampled), config.vocab), dtype=torch.float32)
        if len(plan.sampled):
            kernels.logits(normed[torch.from_numpy(plan.sampled)], self.head, logits)
        return logits

    def _norm_heads(self, qkv: torch.Tensor, query_norm: torch.Tensor, key_norm: torch.Tensor) -> None:
        """Qwen3 normalises each query and key head before the rotation."""
        states = qkv.view(len(qkv), -1, self.config.head)
        ends = (0, self.config.heads, self.config.heads + self.config.kv_heads)
        for first, last, weight in ((ends[0], ends[1], query_norm), (ends[1], ends[2], key_norm)):
            part = states[:, first:last].contiguous()
            self.kernels.rms_norm(part, None, weight, part, self.config.norm_epsilon)
            states[:, first:last] = part


class _Weights:
    """Takes tensors by name, checks their shapes, and hands them on in the form the kernels want."""

    def __init__(self, tensors: Mapping[str, torch.Tensor], config: LlamaConfig, kernels: Kernels) -> None:
        self._tensors, self._config, self._kernels = tensors, config, kernels

    def vector(self, name: str, width: int) -> torch.Tensor:
        return self._take(name, (width,)).to(self._kernels.dtype).contiguous()

    def optional_vector(self, name: str, width: int) -> torch.Tensor | None:
        return self.vector(name, width) if name in self._tensors else None

    def packed(self, parts: list[tuple[str, int]], inner: int) -> Linear:
        """One weight of several stacked ones: a single product computes queries, keys and values."""
        weights = [self._take(f"{name}.weight", (outer, inner)) for name, outer in parts]
        bias = None
        if any(f"{name}.bias" in self._tensors for name, _ in parts):
            biases = [self._tensors.get(f"{name}.bias", torch.zeros(outer)) for name, outer in parts]
            bias = torch.cat([b.to(self._kernels.dtype) for b in biases])
        stacked = weights[0] if len(weights) == 1 else torch.cat(weights)
        return self._kernels.pack(stacked, bias)

    def _take(self, name: str, shape: tuple[int, ...]) -> torch.Tensor:
        tensor = self._tensors.get(name)
        if tensor is None:
            raise BadWeights(f"the weights have no tensor {name!r}; is the file complete?")
        if tuple(tensor.shape) != shape:
            raise BadWeights(f"tensor {name!r} has shape {tuple(tensor.shape)}, the configuration says {shape}")
        return tensor
