"""The operations of a model as operators of the software NPU, in float16."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from toprope.errors import BadInput
from toprope.serve.kernels.attention import AttentionPlan
from toprope.serve.kernels.chip_clock import ChipClock
from toprope.serve.kernels.interface import Linear
from toprope.serve.kernels.kv_memory import KvMemory
from toprope.serve.npu.chip_launches import Launches
from toprope.serve.npu.layered_memory import LayeredMemory, shared

Array = np.ndarray[Any, Any]
MOST_COLUMNS = (
    65_408  # of a matrix in one product, in whole tiles of 128: a copy into L1 counts its row stride in 16 bits
)
HEAD_SIZES, MOST_GROUP = (64, 128), 16  # of the paged_attention operator
LEFT_OUT = ("sampling (CPU)", "cutting queries, keys and values out of one product (CPU)", "launches and scheduling")


def check_heads(heads: int, kv_heads: int, head: int) -> None:
    """Raise `BadInput` for a model whose attention the paged_attention operator does not compute."""
    if head not in HEAD_SIZES or heads // kv_heads > MOST_GROUP:
        raise BadInput(
            f"the paged_attention operator computes heads of {HEAD_SIZES[0]} or {HEAD_SIZES[1]} elements, at most {MOST_GROUP} query heads "
            f"a head of the cache; this model has {head} and {heads // kv_heads}",
            cure="serve it with --device cpu",
        )


class NpuKernels:
    """Each operation is one or a few launches. Prompts go through attention as one decoding row a token: the library has no other."""

    name = "npu"
    batch_invariant = False
    dtype = torch.float16
    memory: type[KvMemory] = LayeredMemory

    def __init__(self, chip: str) -> None:
        self._launches = Launches(chip)
        self.chip = ChipClock(self._launches.soc.name, True, LEFT_OUT)
        self._checked: set[tuple[Any, ...]] = set()
        self._rows: dict[int, Array] = {}  # by address of a packed weight: its rows, for embeddings
        self._columns: dict[int, list[Array]] = {}  # and its columns in as many launches as they need

    def pack(self, weight: torch.Tensor, bias: torch.Tensor | None = None) -> Linear:
        """The transposed weight `[inner, outer]`, as the matmul operator takes it."""
        outer, inner = weight.shape
        data = shared(weight.T.to(self.dtype).numpy())
        return Linear(data, None if bias is None else bias.to(self.dtype), inner, outer)

    def linear(self, x: torch.Tensor, weight: Linear, out: torch.Tensor) -> None:
        """See `Kernels.linear`."""
        product = self._product(x, weight)
        if weight.bias is None:
            out.numpy()[...] = product
        else:
            self._launch("add_bias", [product, weight.bias.numpy()], [out.numpy()])

    def logits(self, x: torch.Tensor, weight: Linear, out: torch.Tensor) -> None:
        """See `Kernels.logits`."""
        out.numpy()[...] = self._product(x, weight, "head", np.float32)

    def _product(
        self, x: torch.Tensor, weight: Linear, name: str = "matmul", kind: type[np.generic] = np.float16
    ) -> Array:
        left = np.ascontiguousarray(x.numpy())
        parts = []
        for right in self._cut(weight):
            parts.append(np.empty((len(left), right.shape[1]), kind))
            self._launch(name, [left, right], [parts[-1]])
        return parts[0] if len(parts) == 1 else np.concatenate(parts, axis=1)

    def _cut(self, weight: Linear) -> list[Array]:
        if weight.outer <= MOST_COLUMNS:
            return [weight.data.numpy()]
        key = weight.data.data_ptr()
        if key not in self._columns:
            whole = weight.data.numpy()
            cuts = range(0, weight.outer, MOST_COLUMNS)
            self._columns[key] = [shared(whole[:, at : at + MOST_COLUMNS]).numpy() for at in cuts]
        return self._columns[key]

    def embed(self, table: Linear, tokens: torch.Tensor, out: torch.Tensor) -> None:
        """See `Kernels.embed`."""
        key = table.data.data_ptr()
        if key not in self._rows:
            self._rows[key] = shared(table.data.numpy().T).numpy()
        self._launch("gather", [self._rows[key], tokens.numpy().astype(np.int32)], [out.numpy()])

    def rms_norm(
        self, x: torch.Tensor, residual: torch.Tensor | None, weight: torch.Tensor, out: torch.Tensor, epsilon: float
    ) -> None:
        """See `Kernels.rms_norm`."""
        wide = x.reshape(-1, len(weight)).numpy()
        if residual is not None:
            total = np.empty_like(wide)
            self._launch("add", [wide, residual.numpy()], [total])
            residual.numpy()[...] = wide = total
        result, scale = np.empty_like(wide), np.empty((len(wide), 1), np.float32)
        self._launch("rms_norm", [wide, weight.numpy()], [result, scale], epsilon=epsilon)
        out.copy_(torch.from_numpy(result).view(out.shape))

    def gated(self, x: torch.Tensor, out: torch.Tensor) -> None:
        """See `Kernels.gated`."""
        rows, width = out.shape
        self._launch("swiglu", [x.numpy().reshape(rows, 2, width)], [out.numpy()])

    def store(
        self, qkv: torch.Tensor, heads: int, cosines: torch.Tensor, sines: torch.Tensor, plan: AttentionPlan,
        memory: KvMemory, layer: int,
    ) -> None:  # fmt: skip
        """See `Kernels.store`."""
        states = qkv.numpy().reshape(len(qkv), -1, memory.head)
        turning = heads + memory.kv_heads
        before = np.ascontiguousarray(states[:, :turning]).reshape(len(qkv), turning, 2, memory.head // 2)
        after = np.empty_like(before)
        c, s = (part.numpy()[plan.positions] for part in (cosines, sines))
        self._launch("rope", [before, c, s], [after])
        states[:, :turning] = after.reshape(len(qkv), turning, memory.head)
        slots = plan.slots.astype(np.int32)
        for part, cache in (
            (states[:, heads:turning], memory.keys(layer)),
            (states[:, turning:], memory.values(layer)),
        ):
            rows = np.ascontiguousarray(part).reshape(len(qkv), -1)
            places = cache.numpy().reshape(-1, rows.shape[1])
            self._launch("cache_write", [rows, slots], [places])

    def attend(
        self, qkv: torch.Tensor, heads: int, plan: AttentionPlan, memory: KvMemory, layer: int, out: torch.Tensor
    ) -> None:
        """See `Kernels.attend`."""
        lengths, table = rows_of(plan, memory.block_tokens)
        query = np.ascontiguousarray(qkv.numpy().reshape(len(qkv), -1, memory.head)[:, :heads])
        caches = [memory.keys(layer).numpy(), memory.values(layer).numpy()]
        self._launch("paged_attention", [query, *caches, table, lengths], [out.numpy().reshape(query.shape)])

    def _launch(self, name: str, inputs: list[Array], outputs: list[Array], **attributes: Any) -> None:
        run = self._launches(name, inputs, outputs, **attributes)
        self.chip.add(name, run.timeline.microseconds)
        shapes = (name, *(array.shape for array in inputs))
        if (
            shapes not in self._checked
        ):  # the checks take longer than the launch, and the same shapes are the same trace
            self._checked.add(shapes)
            self.chip.checked += 1
            self.chip.codes.update(f.code for f in run.findings if f.severity == "error")


def rows_of(plan: AttentionPlan, block_tokens: int) -> tuple[Array, Array]:
    """Each token of a step as one row of a decoding step: its context (int32 `[tokens]`) and block table (int32 `[tokens, blocks]`)."""
    lengths = np.zeros(len(plan.tokens), np.int32)
    starts = np.zeros(len(plan.tokens), np.int64)
    for first, count, position, table in plan.pieces.tolist():
        lengths[first : first + count] = np.arange(position + 1, position + count + 1)
        starts[first : first + count] = table
    blocks = -(-lengths // block_tokens)
    within = np.arange(blocks.max(initial=1))
    table = plan.tables[np.minimum(starts[:, None] + within, len(plan.tables) - 1)]
    return lengths, np.where(within < blocks[:, None], table, 0).astype(np.int32)
