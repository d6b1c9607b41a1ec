"""The numbers of a model that decide what its training costs: stacks of equal layers, embeddings, a projector."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from importlib.resources import files
from pathlib import Path
from typing import Any

from toprope import inputs
from toprope.errors import BadInput


@dataclass(frozen=True)
class Product:
    """One weight matrix of a layer: `inner` x `columns` elements; `split` says how tensor parallelism cuts it.

    `split` is "columns", "rows" or "" (kept whole on each card). `expert`: one of the routed experts' matrices.
    """

    inner: int
    columns: int
    split: str
    expert: bool = False

    @property
    def parameters(self) -> int:
        """Elements of the whole matrix."""
        return self.inner * self.columns


@dataclass(frozen=True)
class Latent:
    """Ranks and head widths of multi-head latent attention (DeepSeek-V2, arXiv 2405.04434, section 2.1)."""

    q_rank: int
    kv_rank: int
    rope_size: int
    nope_size: int
    value_size: int


@dataclass(frozen=True)
class Stack:
    """A run of equal transformer layers; counts are elements.

    `matrices` is 2 for a plain and 3 for a gated feed-forward part. `experts` routed experts of width `feed_forward`, of
    which `active` work on a token, beside `shared` ones that always do. `dense_first` layers of a mixture have a plain
    feed-forward part of width `dense_feed_forward`. A frozen stack (`trained=False`) has no gradients and no optimiser.
    """

    name: str
    layers: int
    hidden: int
    heads: int
    kv_heads: int
    head_size: int
    feed_forward: int
    matrices: int = 3
    biases: bool = False
    experts: int = 0
    active: int = 0
    shared: int = 0
    dense_first: int = 0
    dense_feed_forward: int = 0
    latent: Latent | None = None
    trained: bool = True

    def __post_init__(self) -> None:
        for field in ("layers", "hidden", "heads", "kv_heads", "head_size", "feed_forward"):
            if getattr(self, field) <= 0:
                raise BadInput(f"{self.name}: {field} is {getattr(self, field)}", cure="give a positive number")

    @cached_property
    def attention(self) -> tuple[Product, ...]:
        """Weight matrices of the attention part."""
        if self.latent is None:
            wide = self.heads * self.head_size
            return (
                Product(self.hidden, wide + 2 * self.kv_heads * self.head_size, "columns"),
                Product(wide, self.hidden, "rows"),
            )
        it = self.latent
        return (
            Product(self.hidden, it.q_rank + it.kv_rank + it.rope_size, ""),
            Product(it.q_rank, self.heads * (it.nope_size + it.rope_size), "columns"),
            Product(it.kv_rank, self.heads * (it.nope_size + it.value_size), "columns"),
            Product(self.heads * it.value_size, self.hidden, "rows"),
        )

    @cached_property
    def feed_forward_parts(self) -> tuple[Product, ...]:
        """Weight matrices of one feed-forward part that every token passes (the shared experts of a mixture)."""
        width = self.feed_forward * (self.shared if self.experts else 1)
        return _feed_forward(self.hidden, width, self.matrices) if width else ()

    @cached_property
    def expert_parts(self) -> tuple[Product, ...]:
        """Weight matrices of one routed expert; empty for dense layers."""
        if not self.experts:
            return ()
        return tuple(replace(p, expert=True) for p in _feed_forward(self.hidden, self.feed_forward, self.matrices))

    @property
    def small_parameters(self) -> int:
        """Norms, biases and the router of one layer."""
        norms = 4 * self.hidden if self.biases else 2 * self.hidden
        biases = 9 * self.hidden if self.biases else 0  # Megatron's GPT layer: 3h + h + 4h + h
        return norms + biases + self.hidden * self.experts

    @property
    def shared_layer_parameters(self) -> int:
        """Parameters of one layer without its routed experts."""
        return sum(p.parameters for p in (*self.attention, *self.feed_forward_parts)) + self.small_parameters

    @property
    def expert_layer_parameters(self) -> int:
        """Parameters of all routed experts of one layer."""
        return self.experts * sum(p.parameters for p in self.expert_parts)

    @property
    def dense_layer_parameters(self) -> int:
        """Parameters of one of the `dense_first` layers of a mixture."""
        plain = _feed_forward(self.hidden, self.dense_feed_forward, self.matrices)
        return sum(p.parameters for p in (*self.attention, *plain)) + 2 * self.hidden

    @property
    def parameters(self) -> int:
        """All parameters of the stack."""
        mixture = self.layers - self.dense_first
        return mixture * (self.shared_layer_parameters + self.expert_layer_parameters) + (
            self.dense_first * self.dense_layer_parameters if self.dense_first else 0
        )

    @property
    def active_layer_parameters(self) -> int:
        """Matrix elements of one layer that work on a token."""
        routed = self.active * sum(p.parameters for p in self.expert_parts)
        return sum(p.parameters for p in (*self.attention, *self.feed_forward_parts)) + routed

    @property
    def attention_width(self) -> int:
        """Elements of queries (and of keys and values as the products see them) of one token: heads x head size."""
        if self.latent is None:
            return self.heads * self.head_size
        return self.heads * (self.latent.nope_size + self.latent.rope_size + self.latent.value_size) // 2

    def forward_flops(self, tokens: int, sequence: int) -> float:
        """Floating point operations of one forward pass of the stack; attention counted in full (not causal).

        The convention of model FLOPs utilisation (Narayanan et al. 2021, arXiv 2104.04473, section 5.1).
        """
        matrices = 2.0 * self.active_layer_parameters
        if self.dense_first:
            plain = _feed_forward(self.hidden, self.dense_feed_forward, self.matrices)
            dense = 2.0 * sum(p.parameters for p in (*self.attention, *plain))
            matrices += (dense - matrices) * self.dense_first / self.layers
        return self.layers * tokens * (matrices + 4.0 * sequence * self.attention_width)


@dataclass(frozen=True)
class TrainModel:
    """A decoder (`stacks[-1]`) with what stands before it: image encoder stacks, a projector.

    `image_tokens` are encoder tokens of one image; `pooled_tokens` how many of the decoder's tokens one image becomes.
    """

    name: str
    stacks: tuple[Stack, ...]
    vocabulary: int
    tied_embeddings: bool = False
    positions: int = 0  # learned position embeddings
    projector_parameters: int = 0
    projector_trained: bool = True
    image_tokens: int = 0
    pooled_tokens: int = 0

    @property
    def decoder(self) -> Stack:
        """The language model."""
        return self.stacks[-1]

    @property
    def encoders(self) -> tuple[Stack, ...]:
        """What encodes images; empty for a text model."""
        return self.stacks[:-1]

    @property
    def embedding_parameters(self) -> int:
        """Parameters of the input embeddings."""
        return (self.vocabulary + self.positions) * self.decoder.hidden

    @property
    def head_parameters(self) -> int:
        """Parameters of the output head, also where it shares the embeddings' memory."""
        return self.vocabulary * self.decoder.hidden

    @property
    def parameters(self) -> int:
        """All parameters."""
        head = 0 if self.tied_embeddings else self.head_parameters
        return sum(s.parameters for s in self.stacks) + self.embedding_parameters + head + self.projector_parameters

    @property
    def trained_parameters(self) -> int:
        """Parameters that have gradients; embeddings and head go with the decoder."""
        head = 0 if self.tied_embeddings else self.head_parameters
        ends = self.embedding_parameters + head if self.decoder.trained else 0
        projector = self.projector_parameters if self.projector_trained else 0
        return sum(s.parameters for s in self.stacks if s.trained) + ends + projector

    def step_flops(self, batch: int, sequence: int, images: float = 0.0) -> float:
        """Model operations of one step of `batch` samples: forward and backward, nothing recomputed.

        A frozen stack that gradients need not pass (everything before the first trained part) has no backward pass; a
        frozen one behind it has half of it.
        """
        total, gradients_pass = 0.0, False
        for stack in self.encoders:
            forward = stack.forward_flops(round(batch * images * self.image_tokens), self.image_tokens)
            gradients_pass = gradients_pass or stack.trained
            total += forward * (3 if stack.trained else 2 if gradients_pass else 1)
        gradients_pass = gradients_pass or (self.projector_trained and self.projector_parameters > 0)
        decoder = self.decoder.forward_flops(batch * sequence, sequence)
        head = 2.0 * batch * sequence * self.head_parameters
        times = 3 if self.decoder.trained else 2 if gradients_pass else 1
        return total + times * (decoder + head)

    @classmethod
    def load(cls, name_or_path: str) -> TrainModel:
        """A preset of `models.toml`, a TOML file of the same form, or a Hugging Face `config.json` (or its folder).

        Raises `BadInput` with what is missing.
        """
        presets = tomllib.loads((files("toprope.train") / "models.toml").read_text("utf-8"))
        if name_or_path in presets:
            return _from_table(name_or_path, presets[name_or_path])
        path = Path(name_or_path)
        path = path / "config.json" if path.is_dir() else path
        if not path.exists():
            known = ", ".join(sorted(presets))
            raise BadInput(f"no model {name_or_path!r}", cure=f"name a config.json, a TOML file, or one of: {known}")
        with inputs.reading(path, "a model is JSON (Hugging Face) or TOML, with the numbers of its layers"):
            text = path.read_text("utf-8")
            if path.suffix == ".toml":
                return _from_table(str(path), tomllib.loads(text))
            model = _from_config(path.parent.name, json.loads(text))
            inputs.numbers([asdict(stack) for stack in model.stacks], "stack")
            inputs.numbers(model.vocabulary, "vocab_size", 1)
            return model


def _feed_forward(hidden: int, width: int, matrices: int) -> tuple[Product, ...]:
    return Product(hidden, (matrices - 1) * width, "columns"), Product(width, hidden, "rows")


def _from_table(name: str, table: Mapping[str, Any]) -> TrainModel:
    cure = "see toprope/train/models.toml for a model's fields"
    given = {**table, "stacks": table.get("stack"), "name": Path(name).stem}
    given.pop("stack", None), given.pop("source", None)
    for at, row in enumerate(inputs.fitting(given["stacks"], list[dict[str, Any]], f"{name}: stack", cure)):
        inputs.fitting(row, Stack, f"{name}: stack[{at}]", cure)
    inputs.numbers(given, name)
    model = inputs.fitting(given, TrainModel, name, cure)
    if not model.stacks or model.vocabulary < 1:
        raise BadInput(f"{name}: {'vocabulary is 0' if model.stacks else 'stack is empty'}", cure=cure)
    return model


def _from_config(name: str, config: Mapping[str, Any]) -> TrainModel:
    """A Hugging Face configuration: Llama-like, Qwen and DeepSeek mixtures, and composed vision-language models."""
    text = config.get("text_config") or config.get("llm_config") or config
    vision = config.get("vision_config")
    try:
        decoder = _decoder(text)
        encoders: tuple[Stack, ...] = ()
        extra: dict[str, Any] = {}
        if vision:
            encoder = _encoder(vision)
            encoders = (encoder,)
            extra = _image_numbers(config, vision, encoder, decoder)
        return TrainModel(
            name=str(config.get("_name_or_path") or name),
            stacks=(*encoders, decoder),
            vocabulary=int(text["vocab_size"]),
            tied_embeddings=bool(text.get("tie_word_embeddings", False)),
            **extra,
        )
    except KeyError as error:
        raise BadInput(f"the configuration has no {error.args[0]!r}", cure="write the model as TOML instead") from error
    except (ZeroDivisionError, TypeError, AttributeError) as error:
        raise BadInput(f"the configuration cannot be: {error} (heads, sizes)", cure="check its numbers") from error


def _decoder(text: Mapping[str, Any]) -> Stack:
    heads = int(text["num_attention_heads"])
    hidden = int(text["hidden_size"])
    experts = int(text.get("n_routed_experts") or text.get("num_experts") or text.get("num_local_experts") or 0)
    width = int(
        text["moe_intermediate_size"] if experts and "moe_intermediate_size" in text else text["intermediate_size"]
    )
    latent = None
    if text.get("kv_lora_rank"):
        latent = Latent(
            q_rank=int(text["q_lora_rank"]),
            kv_rank=int(text["kv_lora_rank"]),
            rope_size=int(text["qk_rope_head_dim"]),
            nope_size=int(text["qk_nope_head_dim"]),
            value_size=int(text["v_head_dim"]),
        )
    return Stack(
        name="decoder",
        layers=int(text["num_hidden_layers"]),
        hidden=hidden,
        heads=heads,
        kv_heads=int(text.get("num_key_value_heads") or heads),
        head_size=int(text.get("head_dim") or hidden // heads),
        feed_forward=width,
        experts=experts,
        active=int(text.get("num_experts_per_tok") or 0) if experts else 0,
        shared=int(text.get("n_shared_experts") or 0) if experts else 0,
        dense_first=int(text.get("first_k_dense_replace") or 0) if experts else 0,
        dense_feed_forward=int(text["intermediate_size"]) if experts else 0,
        latent=latent,
    )


def _encoder(vision: Mapping[str, Any]) -> Stack:
    hidden, heads = int(vision["hidden_size"]), int(vision["num_attention_heads"])
    return Stack(
        name="encoder",
        layers=int(vision["num_hidden_layers"]),
        hidden=hidden,
        heads=heads,
        kv_heads=heads,
        head_size=hidden // heads,
        feed_forward=int(vision["intermediate_size"]),
        matrices=2,
        biases=True,
    )


def _image_numbers(
    config: Mapping[str, Any], vision: Mapping[str, Any], encoder: Stack, decoder: Stack
) -> dict[str, int]:
    tokens = (int(vision["image_size"]) // int(vision["patch_size"])) ** 2
    shrink = float(config.get("downsample_ratio", 1.0)) ** 2  # InternVL: neighbouring patches join in one token
    joined = round(encoder.hidden / shrink)
    return {
        "image_tokens": tokens,
        "pooled_tokens": round(tokens * shrink),
        "projector_parameters": joined * decoder.hidden + decoder.hidden * decoder.hidden,
    }
