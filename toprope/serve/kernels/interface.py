"""The operations a model is made of; implemented in compiled C++, in plain torch, and by operators of the software NPU."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import torch

from toprope.serve.kernels.attention import AttentionPlan
from toprope.serve.kernels.chip_clock import ChipClock
from toprope.serve.kernels.kv_memory import KvMemory


@dataclass(frozen=True, slots=True, eq=False)
class Linear:
    """A weight of `outer` rows and `inner` columns in the form its kernels like best."""

    data: torch.Tensor
    bias: torch.Tensor | None
    inner: int
    outer: int


class Kernels(Protocol):
    """All results go to the caller's `out`. Rows are tokens; `dtype` is that of weights, activations and cache."""

    name: str
    dtype: torch.dtype
    batch_invariant: bool  # a row's result is the same to the last bit whatever else is in the batch

    @property
    def memory(self) -> type[KvMemory]:
        """The kind of cache whose layout these kernels read."""

    @property
    def chip(self) -> ChipClock | None:
        """The clock of a chip, where operations have a predicted time."""

    def pack(self, weight: torch.Tensor, bias: torch.Tensor | None = None) -> Linear:
        """Take a weight `[outer, inner]` and its bias `[outer]`."""

    def linear(self, x: torch.Tensor, weight: Linear, out: torch.Tensor) -> None:
        """out `[rows, outer]` = x `[rows, inner]` · weightᵀ + bias."""

    def logits(self, x: torch.Tensor, weight: Linear, out: torch.Tensor) -> None:
        """As `linear` without bias, into float32."""

    def embed(self, table: Linear, tokens: torch.Tensor, out: torch.Tensor) -> None:
        """out `[rows, inner]` = the rows of `table` named by `tokens` (int64)."""

    def rms_norm(
        self, x: torch.Tensor, residual: torch.Tensor | None, weight: torch.Tensor, out: torch.Tensor, epsilon: float
    ) -> None:
        """residual += x if there is one; out = (residual or x) over its root mean square, times weight."""

    def gated(self, x: torch.Tensor, out: torch.Tensor) -> None:
        """out `[rows, width]` = silu(gate) · up, where x `[rows, 2 * width]` holds gate, then up."""

    def store(
        self, qkv: torch.Tensor, heads: int, cosines: torch.Tensor, sines: torch.Tensor, plan: AttentionPlan,
        memory: KvMemory, layer: int,
    ) -> None:  # fmt: skip
        """Rotate queries and keys of `qkv` in place and write keys and values into their slots of the cache."""

    def attend(
        self, qkv: torch.Tensor, heads: int, plan: AttentionPlan, memory: KvMemory, layer: int, out: torch.Tensor
    ) -> None:
        """out `[rows, heads * head]` = causal attention of the queries over the cache through the block tables."""
