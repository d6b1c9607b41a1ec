"""The memory behind the paged key/value cache: device blocks, and host blocks for swapping."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from toprope.serve.batching.batch import BlockCopy


class KvMemory:
    """Keys and values of all layers, block by block: `data[block, layer, 0 keys | 1 values, kv_head * head * block]`.

    All layers of a block lie together, so a copy on write or a swap moves one piece of memory. Inside a block keys lie
    `[kv_head][head][token]` and values `[kv_head][token][head]`, as the attention kernel wants them.
    """

    def __init__(
        self,
        *,
        blocks: int,
        block_tokens: int,
        layers: int,
        kv_heads: int,
        head: int,
        dtype: torch.dtype = torch.float32,
        host_blocks: int = 0,
    ) -> None:
        if block_tokens % 16:
            raise ValueError(
                f"a KV block of {block_tokens} tokens does not fit the kernels\n  cure: use a multiple of 16"
            )
        self.blocks, self.block_tokens, self.layers = blocks, block_tokens, layers
        self.kv_heads, self.head, self.dtype = kv_heads, head, dtype
        self.shape = (layers, kv_heads, head, block_tokens)
        self.data, self.host = self._allocate(blocks), self._allocate(host_blocks)

    def _allocate(self, blocks: int) -> torch.Tensor:
        # Zeros, not poison: the kernel multiplies what lies behind the last token by an exact zero.
        shape = (blocks, self.layers, 2, self.kv_heads * self.head * self.block_tokens)
        return torch.zeros(shape, dtype=self.dtype)

    @staticmethod
    def block_bytes(*, block_tokens: int, layers: int, kv_heads: int, head: int, dtype: torch.dtype) -> int:
        """Memory of one block in bytes."""
        return 2 * layers * kv_heads * head * block_tokens * int(dtype.itemsize)

    def keys(self, layer: int) -> torch.Tensor:
        """Keys of one layer, a view of shape `[blocks, kv_heads, head, block_tokens]`."""
        return self.data[:, layer, 0].view(self.blocks, self.kv_heads, self.head, self.block_tokens)

    def values(self, layer: int) -> torch.Tensor:
        """Values of one layer, a view of shape `[blocks, kv_heads, block_tokens, head]`."""
        return self.data[:, layer, 1].view(self.blocks, self.kv_heads, self.block_tokens, self.head)

    def move(self, swap_out: Sequence[BlockCopy], copies: Sequence[BlockCopy], swap_in: Sequence[BlockCopy]) -> None:
        """Carry out a step's block copies, each list in one go: device→host, device→device, host→device."""
        for moves, source, target in self._moves(swap_out, copies, swap_in):
            from_blocks, to_blocks = torch.tensor(moves).T
            target[to_blocks] = source[from_blocks]

    def _moves(
        self, swap_out: Sequence[BlockCopy], copies: Sequence[BlockCopy], swap_in: Sequence[BlockCopy]
    ) -> list[tuple[Sequence[BlockCopy], torch.Tensor, torch.Tensor]]:
        every = ((swap_out, self.data, self.host), (copies, self.data, self.data), (swap_in, self.host, self.data))
        return [move for move in every if move[0]]
