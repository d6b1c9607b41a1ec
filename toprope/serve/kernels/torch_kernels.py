"""The operations of a model in plain torch: slower, and the reference the compiled ones are tested against."""

from __future__ import annotations

import torch
import torch.nn.functional as F

from toprope.serve.kernels.attention import AttentionPlan
from toprope.serve.kernels.chip_clock import ChipClock
from toprope.serve.kernels.interface import Linear
from toprope.serve.kernels.kv_memory import KvMemory


class TorchKernels:
    """Runs wherever torch runs. Not batch-invariant: the libraries behind it choose their algorithm by batch size."""

    name = "torch"
    batch_invariant = False
    memory: type[KvMemory] = KvMemory
    chip: ChipClock | None = None

    def __init__(self, dtype: torch.dtype) -> None:
        self.dtype = dtype

    def pack(self, weight: torch.Tensor, bias: torch.Tensor | None = None) -> Linear:
        """See `Kernels.pack`."""
        outer, inner = weight.shape
        return Linear(weight.to(self.dtype), None if bias is None else bias.to(self.dtype), inner, outer)

    def linear(self, x: torch.Tensor, weight: Linear, out: torch.Tensor) -> None:
        """See `Kernels.linear`."""
        out.copy_(F.linear(x, weight.data, weight.bias))

    def logits(self, x: torch.Tensor, weight: Linear, out: torch.Tensor) -> None:
        """See `Kernels.logits`."""
        out.copy_(F.linear(x, weight.data))

    def embed(self, table: Linear, tokens: torch.Tensor, out: torch.Tensor) -> None:
        """See `Kernels.embed`."""
        out.copy_(table.data[tokens])

    def rms_norm(
        self, x: torch.Tensor, residual: torch.Tensor | None, weight: torch.Tensor, out: torch.Tensor, epsilon: float
    ) -> None:
        """See `Kernels.rms_norm`."""
        if residual is not None:
            residual += x
            x = residual
        wide = x.float().view(*x.shape[:-1], -1, weight.shape[0])
        scale = torch.rsqrt(wide.square().mean(-1, keepdim=True) + epsilon)
        out.copy_((wide * scale * weight.float()).view(x.shape))

    def gated(self, x: torch.Tensor, out: torch.Tensor) -> None:
        """See `Kernels.gated`."""
        gate, up = x.chunk(2, dim=-1)
        out.copy_(F.silu(gate) * up)

    def store(
        self, qkv: torch.Tensor, heads: int, cosines: torch.Tensor, sines: torch.Tensor, plan: AttentionPlan,
        memory: KvMemory, layer: int,
    ) -> None:  # fmt: skip
        """See `Kernels.store`."""
        states = qkv.view(len(qkv), -1, memory.head)
        turned = states[:, : heads + memory.kv_heads]
        positions = torch.from_numpy(plan.positions).long()
        c, s = cosines[positions][:, None], sines[positions][:, None]
        a, b = turned.float().chunk(2, dim=-1)
        turned.copy_(torch.cat((a * c - b * s, b * c + a * s), dim=-1))
        blocks = torch.from_numpy(plan.slots // memory.block_tokens)
        offsets = torch.from_numpy(plan.slots % memory.block_tokens)
        keys, values = states[:, heads : heads + memory.kv_heads], states[:, heads + memory.kv_heads :]
        memory.keys(layer)[blocks, :, :, offsets] = keys
        memory.values(layer)[blocks, :, offsets] = values

    def attend(
        self, qkv: torch.Tensor, heads: int, plan: AttentionPlan, memory: KvMemory, layer: int, out: torch.Tensor
    ) -> None:
        """See `Kernels.attend`. Gathers each request's blocks, then multiplies."""
        keys, values = memory.keys(layer), memory.values(layer)
        group = heads // memory.kv_heads
        for first, count, position, table in plan.pieces.tolist():
            context = position + count
            blocks = torch.from_numpy(plan.tables[table : table - (-context // memory.block_tokens)]).long()
            k = keys[blocks].permute(1, 2, 0, 3).flatten(2)[..., :context].float()
            v = values[blocks].transpose(0, 1).flatten(1, 2)[:, :context].float()
            q = qkv[first : first + count, : heads * memory.head].reshape(count, memory.kv_heads, group, memory.head)
            scores = q.permute(1, 2, 0, 3).float() * memory.head**-0.5 @ k[:, None]
            future = torch.arange(context) > torch.arange(position, context)[:, None]
            weights = scores.masked_fill(future, float("-inf")).softmax(-1)
            out[first : first + count] = (weights @ v[:, None]).permute(2, 0, 1, 3).flatten(1)
