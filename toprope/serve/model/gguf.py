"""Read GGUF files: metadata, and tensors dequantised to float32.

The layout (magic, version, counts, key/value pairs, tensor table, aligned data) and the block formats are those of the
public GGUF specification in the ggml repository.
"""

from __future__ import annotations

import math
import mmap
import struct
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from toprope.serve.model.bad_weights import BadWeights

_STRING, _ARRAY = 8, 9
_SCALARS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}
_BLOCK = 32  # weights that share a scale
_MOST_DIMENSIONS = 4
_Floats = NDArray[np.float32]


def _nibbles(packed: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Sixteen bytes hold 32 weights: the low halves are the first sixteen, the high halves the others."""
    return np.concatenate((packed & 15, packed >> 4), axis=1)


def _q4_0(blocks: NDArray[np.uint8]) -> _Floats:
    scale = blocks[:, :2].copy().view(np.float16).astype(np.float32)
    return scale * (_nibbles(blocks[:, 2:]).astype(np.float32) - 8)


def _q4_1(blocks: NDArray[np.uint8]) -> _Floats:
    scale, lowest = (blocks[:, i : i + 2].copy().view(np.float16).astype(np.float32) for i in (0, 2))
    return scale * _nibbles(blocks[:, 4:]).astype(np.float32) + lowest


def _q8_0(blocks: NDArray[np.uint8]) -> _Floats:
    scale = blocks[:, :2].copy().view(np.float16).astype(np.float32)
    return scale * blocks[:, 2:].copy().view(np.int8).astype(np.float32)


def _bf16(blocks: NDArray[np.uint8]) -> _Floats:
    return (blocks.copy().view(np.uint16).astype(np.uint32) << 16).view(np.float32)


@dataclass(frozen=True)
class _Format:
    name: str
    weights: int  # per block
    block_bytes: int
    decode: Callable[[NDArray[np.uint8]], _Floats]


_FORMATS = {
    0: _Format("F32", 1, 4, lambda b: b.copy().view(np.float32)),
    1: _Format("F16", 1, 2, lambda b: b.copy().view(np.float16).astype(np.float32)),
    2: _Format("Q4_0", _BLOCK, 18, _q4_0),
    3: _Format("Q4_1", _BLOCK, 20, _q4_1),
    8: _Format("Q8_0", _BLOCK, 34, _q8_0),
    30: _Format("BF16", 1, 2, _bf16),
}


class GgufFile:
    """`metadata` by key; `tensors()` under Hugging Face names, queries and keys in rotate-half order."""

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            with path.open("rb") as file:
                self._bytes = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        except (OSError, ValueError) as error:
            raise BadWeights(f"{path}: cannot be read: {error}") from None
        self._at = 0
        if self._take(4) != b"GGUF":
            raise BadWeights(f"{path}: not a GGUF file (it begins with {self._bytes[:4]!r})")
        version = self._number("I")
        if version not in (2, 3):
            raise BadWeights(f"{path}: GGUF version {version} is not supported; known: 2, 3")
        tensors, pairs = self._number("Q"), self._number("Q")
        self.metadata: dict[str, Any] = {}
        for _ in range(pairs):
            key = self._string()
            self.metadata[key] = self._value(self._number("I"))
        self._table = dict(self._tensor_entry() for _ in range(tensors))
        alignment = self.metadata.get("general.alignment", 32)
        self._data_at = -(-self._at // alignment) * alignment

    def tensor_names(self) -> list[str]:
        """The names in the file, such as `blk.0.attn_q.weight`."""
        return list(self._table)

    def tensor(self, name: str) -> _Floats:
        """One tensor under its name in the file, float32; raises `BadWeights` when its bytes are not all there."""
        shape, kind, offset = self._table[name]
        form = _FORMATS.get(kind)
        if form is None:
            known = ", ".join(f.name for f in _FORMATS.values())
            raise BadWeights(
                f"{self.path}: tensor {name!r} has format number {kind}, which is not supported; known: {known}"
            )
        if math.prod(shape) % form.weights or (shape and shape[-1] % form.weights):
            raise BadWeights(f"{self.path}: tensor {name!r} of shape {shape} is not made of whole {form.name} blocks")
        size = math.prod(shape) // form.weights * form.block_bytes
        start = self._data_at + offset
        if start + size > len(self._bytes):
            missing = start + size - len(self._bytes)
            raise BadWeights(
                f"{self.path}: tensor {name!r} ends {missing} bytes behind the end of the file; it was cut short"
            )
        blocks = np.frombuffer(self._bytes, np.uint8, size, start).reshape(-1, form.block_bytes)
        with np.errstate(invalid="ignore", over="ignore"):  # infinite scales are the file's own
            return form.decode(blocks).reshape(shape)

    def tensors(self) -> dict[str, _Floats]:
        """All weights of a Llama-family file under the names that `Llama` takes."""
        family = self.metadata.get("general.architecture", "")
        heads = self.metadata.get(f"{family}.attention.head_count", 1)
        kv_heads = self.metadata.get(f"{family}.attention.head_count_kv") or heads
        found = {}
        for name in self._table:
            target = _hf_name(name)
            if name == ROPE_DIVISORS:
                continue
            if target is None:  # leaving it out would give a model that answers nonsense
                raise BadWeights(f"{self.path}: tensor {name!r} belongs to no model that is served")
            tensor = self.tensor(name)
            # llama.cpp rotates neighbouring pairs in this family; rotate-half wants the pairs half a head apart.
            if family == "llama" and ".attn_q." in name:
                tensor = _split_pairs(tensor, heads)
            if family == "llama" and ".attn_k." in name:
                tensor = _split_pairs(tensor, kv_heads)
            found[target] = tensor
        return found

    # -- the reader ------------------------------------------------------------------------------------------------

    def _take(self, count: int) -> bytes:
        if self._at + count > len(self._bytes):
            raise BadWeights(f"{self.path}: ends at byte {len(self._bytes)} within its header; it was cut short")
        self._at += count
        return self._bytes[self._at - count : self._at]

    def _number(self, code: str) -> Any:
        return struct.unpack(f"<{code}", self._take(struct.calcsize(code)))[0]

    def _string(self) -> str:
        raw = self._take(self._number("Q"))
        return raw.decode("utf-8", errors="replace")

    def _value(self, kind: int) -> Any:
        if kind == _STRING:
            return self._string()
        if kind == _ARRAY:
            inner, count = self._number("I"), self._number("Q")
            if inner in _SCALARS:
                size = struct.calcsize(_SCALARS[inner])
                return list(struct.unpack(f"<{count}{_SCALARS[inner]}", self._take(count * size)))
            return [self._value(inner) for _ in range(count)]
        if kind not in _SCALARS:
            raise BadWeights(f"{self.path}: value type {kind} at byte {self._at} does not exist; the file is damaged")
        return self._number(_SCALARS[kind])

    def _tensor_entry(self) -> tuple[str, tuple[tuple[int, ...], int, int]]:
        name = self._string()
        dimensions = self._number("I")
        if dimensions > _MOST_DIMENSIONS:
            raise BadWeights(f"{self.path}: tensor {name!r} has {dimensions} dimensions; the file is damaged")
        shape = tuple(self._number("Q") for _ in range(dimensions))[::-1]
        return name, (shape, self._number("I"), self._number("Q"))


ROPE_DIVISORS = "rope_freqs.weight"
_LAYER_NAMES = {
    "attn_norm": "input_layernorm",
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_q_norm": "self_attn.q_norm",
    "attn_k_norm": "self_attn.k_norm",
    "attn_output": "self_attn.o_proj",
    "ffn_norm": "post_attention_layernorm",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
}
_TOP_NAMES = {"token_embd": "model.embed_tokens", "output_norm": "model.norm", "output": "lm_head"}


def _hf_name(name: str) -> str | None:
    stem, _, ending = name.rpartition(".")
    if stem in _TOP_NAMES:
        return f"{_TOP_NAMES[stem]}.{ending}"
    parts = stem.split(".")
    if len(parts) == 3 and parts[0] == "blk" and parts[2] in _LAYER_NAMES:
        return f"model.layers.{parts[1]}.{_LAYER_NAMES[parts[2]]}.{ending}"
    return None


def _split_pairs(tensor: _Floats, heads: int) -> _Floats:
    rows = tensor.shape[0]
    pairs = tensor.reshape(heads, rows // heads // 2, 2, *tensor.shape[1:])
    return pairs.swapaxes(1, 2).reshape(tensor.shape)
