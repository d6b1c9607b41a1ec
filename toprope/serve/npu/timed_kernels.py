"""Kernels of the CPU beside a clock that says what the same operations would take on a chip."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import numpy as np
import torch

from toprope.serve.kernels.attention import AttentionPlan
from toprope.serve.kernels.chip_clock import ChipClock
from toprope.serve.kernels.interface import Kernels, Linear
from toprope.serve.kernels.kv_memory import KvMemory
from toprope.serve.npu.chip_launches import Array, Launches
from toprope.serve.npu.npu_kernels import LEFT_OUT, MOST_COLUMNS


class TimedKernels:
    """Computes with `inner`; each operation adds the predicted time of the launches that `NpuKernels` would make for it."""

    def __init__(self, inner: Kernels, chip: str) -> None:
        self._inner = inner
        self.name, self.dtype, self.batch_invariant = inner.name, inner.dtype, inner.batch_invariant
        self.memory = inner.memory
        self._prices = Prices(Launches(chip))
        self.chip = ChipClock(self._prices.chip, False, LEFT_OUT)

    def pack(self, weight: torch.Tensor, bias: torch.Tensor | None = None) -> Linear:
        """See `Kernels.pack`."""
        return self._inner.pack(weight, bias)

    def linear(self, x: torch.Tensor, weight: Linear, out: torch.Tensor) -> None:
        """See `Kernels.linear`."""
        self._inner.linear(x, weight, out)
        self._product(len(x), weight)
        if weight.bias is not None:
            self.chip.add("add_bias", self._prices.rows(len(x), "add_bias", weight.outer))

    def logits(self, x: torch.Tensor, weight: Linear, out: torch.Tensor) -> None:
        """See `Kernels.logits`."""
        self._inner.logits(x, weight, out)
        self._product(len(x), weight, "head")

    def _product(self, rows: int, weight: Linear, name: str = "matmul") -> None:
        launches, rest = divmod(weight.outer, MOST_COLUMNS)
        for columns in [MOST_COLUMNS] * launches + [rest] * (rest > 0):
            self.chip.add(name, self._prices.rows(rows, name, weight.inner, columns))

    def embed(self, table: Linear, tokens: torch.Tensor, out: torch.Tensor) -> None:
        """See `Kernels.embed`."""
        self._inner.embed(table, tokens, out)
        self.chip.add("gather", self._prices.rows(len(tokens), "gather", table.outer, table.inner))

    def rms_norm(
        self, x: torch.Tensor, residual: torch.Tensor | None, weight: torch.Tensor, out: torch.Tensor, epsilon: float
    ) -> None:
        """See `Kernels.rms_norm`."""
        self._inner.rms_norm(x, residual, weight, out, epsilon)
        rows, width = x.numel() // len(weight), len(weight)
        if residual is not None:
            self.chip.add("add", self._prices.rows(rows, "add", width))
        self.chip.add("rms_norm", self._prices.rows(rows, "rms_norm", width))

    def gated(self, x: torch.Tensor, out: torch.Tensor) -> None:
        """See `Kernels.gated`."""
        self._inner.gated(x, out)
        self.chip.add("swiglu", self._prices.rows(len(x), "swiglu", out.shape[1]))

    def store(
        self, qkv: torch.Tensor, heads: int, cosines: torch.Tensor, sines: torch.Tensor, plan: AttentionPlan,
        memory: KvMemory, layer: int,
    ) -> None:  # fmt: skip
        """See `Kernels.store`."""
        self._inner.store(qkv, heads, cosines, sines, plan, memory, layer)
        rows, slots = len(qkv), memory.blocks * memory.block_tokens
        self.chip.add("rope", self._prices.rows(rows, "rope", heads + memory.kv_heads, memory.head // 2))
        written = self._prices.rows(rows, "cache_write", slots, memory.kv_heads * memory.head)
        self.chip.add("cache_write", 2 * written, launches=2)

    def attend(
        self, qkv: torch.Tensor, heads: int, plan: AttentionPlan, memory: KvMemory, layer: int, out: torch.Tensor
    ) -> None:
        """See `Kernels.attend`."""
        self._inner.attend(qkv, heads, plan, memory, layer, out)
        mean = float(plan.positions.mean()) + 1
        sizes = (heads, memory.kv_heads, memory.head, memory.block_tokens)
        self.chip.add("paged_attention", self._prices.attention(len(qkv), mean, *sizes))


class Prices:
    """Predicted microseconds of launches, each shape predicted once: rows and contexts at powers of two, linear between them."""

    def __init__(self, launches: Launches) -> None:
        self._launches = launches
        self.chip = launches.soc.name
        self._of_rows = cache(self._predicted)
        self._of_attention = cache(self._predicted_attention)

    def rows(self, rows: int, name: str, *sizes: int) -> float:
        """A launch of an operation that works row by row; `sizes` are those of `_SHAPES`."""
        return _between(rows, lambda knot: self._of_rows(name, knot, sizes)) if rows else 0.0

    def attention(self, rows: int, context: float, heads: int, kv_heads: int, head: int, block_tokens: int) -> float:
        """Attention of `rows` tokens over `context` tokens each, on average."""
        sizes = (heads, kv_heads, head, block_tokens)
        return _between(rows, lambda r: _between(context, lambda c: self._of_attention(r, c, sizes))) if rows else 0.0

    def _predicted(self, name: str, rows: int, sizes: tuple[int, ...]) -> float:
        given, written = _SHAPES[name](rows, *sizes)
        inputs: list[Array] = [np.empty(shape, kind) for shape, kind in given]
        outputs: list[Array] = [np.empty(shape, kind) for shape, kind in written]
        if name == "gather":
            inputs[1][:] = np.arange(rows) % sizes[0]
        return self._launches(name, inputs, outputs, time_only=True).timeline.microseconds

    def _predicted_attention(self, rows: int, context: int, sizes: tuple[int, int, int, int]) -> float:
        heads, kv_heads, head, block_tokens = sizes
        blocks = -(-context // block_tokens)
        pages = np.empty((rows * blocks, block_tokens, kv_heads, head), np.float16)
        query = np.empty((rows, heads, head), np.float16)
        table = np.arange(rows * blocks, dtype=np.int32).reshape(rows, blocks)
        inputs: list[Array] = [query, pages, pages, table, np.full(rows, context, np.int32)]
        run = self._launches("paged_attention", inputs, [np.empty_like(query)], time_only=True)
        return run.timeline.microseconds


_Tensors = list[tuple[tuple[int, ...], type[np.generic]]]
_HALF, _FLOAT, _INT = np.float16, np.float32, np.int32
# Inputs and outputs of each operation by its sizes, as NpuKernels gives them.
_SHAPES: dict[str, Callable[..., tuple[_Tensors, _Tensors]]] = {
    "matmul": lambda m, k, n: ([((m, k), _HALF), ((k, n), _HALF)], [((m, n), _HALF)]),
    "head": lambda m, k, n: ([((m, k), _HALF), ((k, n), _HALF)], [((m, n), _FLOAT)]),
    "add": lambda m, n: ([((m, n), _HALF)] * 2, [((m, n), _HALF)]),
    "add_bias": lambda m, n: ([((m, n), _HALF), ((n,), _HALF)], [((m, n), _HALF)]),
    "rms_norm": lambda m, n: ([((m, n), _HALF), ((n,), _HALF)], [((m, n), _HALF), ((m, 1), _FLOAT)]),
    "gather": lambda m, rows, n: ([((rows, n), _HALF), ((m,), _INT)], [((m, n), _HALF)]),
    "swiglu": lambda m, n: ([((m, 2, n), _HALF)], [((m, n), _HALF)]),
    "rope": lambda m, h, d: ([((m, h, 2, d), _HALF), ((m, d), _FLOAT), ((m, d), _FLOAT)], [((m, h, 2, d), _HALF)]),
    "cache_write": lambda m, slots, n: ([((m, n), _HALF), ((m,), _INT)], [((slots, n), _HALF)]),
}


def _between(value: float, price: Callable[[int], float]) -> float:
    """The price at `value` from those at the powers of two around it."""
    low = 1 << max(0, int(value).bit_length() - 1)
    if value <= low:
        return price(low)
    below, above = price(low), price(2 * low)
    return below + (above - below) * (value - low) / low
