"""The paged cache as the paged_attention operator reads it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from toprope.runtime import empty
from toprope.serve.batching.batch import BlockCopy
from toprope.serve.kernels.kv_memory import KvMemory


class LayeredMemory(KvMemory):
    """Layer by layer, `data[layer, 0 keys | 1 values, block, token, kv_head * head]`, in memory that launches take in place."""

    def _allocate(self, blocks: int) -> torch.Tensor:
        shape = (self.layers, 2, blocks, self.block_tokens, self.kv_heads * self.head)
        if not math.prod(shape):
            return torch.zeros(shape, dtype=self.dtype)
        return torch.from_numpy(empty(shape, np.float16))

    def keys(self, layer: int) -> torch.Tensor:
        """Keys of one layer, a view of shape `[blocks, block_tokens, kv_heads, head]`."""
        return self._of(layer, 0)

    def values(self, layer: int) -> torch.Tensor:
        """Values of one layer, likewise."""
        return self._of(layer, 1)

    def _of(self, layer: int, which: int) -> torch.Tensor:
        return self.data[layer, which].view(self.blocks, self.block_tokens, self.kv_heads, self.head)

    def move(self, swap_out: Sequence[BlockCopy], copies: Sequence[BlockCopy], swap_in: Sequence[BlockCopy]) -> None:
        """See `KvMemory.move`."""
        for moves, source, target in self._moves(swap_out, copies, swap_in):
            from_blocks, to_blocks = torch.tensor(moves).T
            target[:, :, to_blocks] = source[:, :, from_blocks]


def shared(array: np.ndarray[Any, Any]) -> torch.Tensor:
    """A float16 copy of `array` in memory that launches take in place."""
    out = empty(array.shape, np.float16)
    out[...] = array
    return torch.from_numpy(out)
