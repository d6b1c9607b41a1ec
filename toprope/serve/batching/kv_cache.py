"""Which KV blocks belong to which request, on the device and in host memory."""

from __future__ import annotations

from collections.abc import Iterable

from toprope.serve.batching.batch import BlockCopy
from toprope.serve.batching.block_table import BlockTable
from toprope.serve.batching.blocks import BlockPool
from toprope.serve.batching.prefix_cache import extend_block_keys
from toprope.serve.batching.request import Request


class KvCache:
    """Paged cache of `block_count` blocks of `block_size` tokens each.

    Admission reserves blocks for every token known so far, so only decoding can run out. `watermark` (a share of the
    blocks) is kept free at admission for the requests that already run. Copies between blocks are not done here; they
    are collected in `take_moves` for the next batch.
    """

    def __init__(
        self,
        block_count: int,
        block_size: int = 128,
        *,
        host_block_count: int = 0,
        prefix_caching: bool = True,
        watermark: float = 0.01,
    ) -> None:
        if block_count < 1 or block_size < 1:
            raise ValueError(f"a KV cache needs at least 1 block of 1 token, got {block_count} of {block_size}")
        if not 0 <= watermark < 1:
            raise ValueError(f"watermark is a share of the blocks, 0 <= watermark < 1, got {watermark}")
        self.block_size = block_size
        self.prefix_caching = prefix_caching
        self.device = BlockPool(block_count)
        self.host = BlockPool(host_block_count)
        self.watermark_blocks = int(watermark * block_count)
        self._copies: list[BlockCopy] = []
        self._swap_out: list[BlockCopy] = []
        self._swap_in: list[BlockCopy] = []

    @property
    def token_capacity(self) -> int:
        """The longest sequence, in tokens, that can ever be held."""
        return self.device.block_count * self.block_size

    def blocks_for(self, tokens: int) -> int:
        """Blocks needed to hold `tokens` positions."""
        return -(-tokens // self.block_size)

    def admit(self, request: Request, *, spare_blocks: int) -> bool:
        """Reserve blocks for all known tokens and set `computed_tokens` to what the prefix cache supplies.

        False, with nothing changed, when fewer than `spare_blocks` would stay free. When the whole prompt is cached
        its last token is still computed, for its logits; that writes into the last block, which is therefore copied,
        or computed anew where there is no room for both the block and its copy.
        """
        hits = self._find_prefix(request)
        copies_tail = len(hits) * self.block_size == len(request.tokens)
        if copies_tail and self._free_after(request, hits, extra=1) < spare_blocks:
            hits, copies_tail = hits[:-1], False
        if self._free_after(request, hits, extra=int(copies_tail)) < spare_blocks:
            return False
        cached_tokens = len(hits) * self.block_size
        for block in hits:
            self.device.share(block)
        table = BlockTable(hits)
        if copies_tail:
            self._copy_on_write(table, len(hits) - 1)
            cached_tokens -= 1
        while len(table) * self.block_size < len(request.tokens):
            table.append(self.device.allocate())
        request.block_table = table
        request.labelled_blocks = len(hits) - copies_tail
        request.computed_tokens = request.cached_tokens = cached_tokens
        return True

    def grow(self, request: Request) -> bool:
        """Make room for one more position; False when no block is free."""
        if request.computed_tokens < len(request.block_table) * self.block_size:
            return True
        if self.device.free_count == 0:
            return False
        request.block_table.append(self.device.allocate())
        return True

    def commit(self, request: Request) -> None:
        """Label the blocks that are full and computed, so later prompts can find them."""
        full = request.computed_tokens // self.block_size
        if not self.prefix_caching or request.labelled_blocks == full:
            return
        extend_block_keys(request.block_keys, request.tokens, self.block_size, salt=request.cache_salt)
        for index in range(request.labelled_blocks, full):
            # A second block with the same content stays unlabelled: it is never found, and is reused first once free.
            self.device.label(request.block_table[index], request.block_keys[index])
        request.labelled_blocks = full

    def fork(self, parent: Request, child: Request) -> bool:
        """Let `child`, whose tokens begin the parent's, share what is computed; False when no block is free.

        Full blocks are shared. The one the child will write into next is copied at once. The child's last token stays
        to be computed, for its logits.
        """
        computed = min(parent.computed_tokens, len(child.tokens) - 1)
        full, rest = divmod(computed, self.block_size)
        if rest and self.device.free_count == 0:
            return False
        shared = parent.block_table.tolist()[: full + bool(rest)]
        for block in shared:
            self.device.share(block)
        child.block_table = BlockTable(shared)
        if rest:
            self._copy_on_write(child.block_table, full)
        child.computed_tokens = computed
        child.labelled_blocks = min(parent.labelled_blocks, full)
        child.block_keys = parent.block_keys[:full]
        return True

    def release(self, request: Request) -> None:
        """Give back all blocks of a request, wherever they are; the end of a prompt is evicted before its beginning."""
        pool = self.host if request.on_host else self.device
        pool.release(reversed(request.block_table.tolist()))
        self._forget(request)

    def swap_out(self, request: Request) -> bool:
        """Move the computed positions to host memory; False, with nothing changed, when the host has no room."""
        count = self.blocks_for(request.computed_tokens)
        if self.host.free_count < count:
            return False
        device_blocks = request.block_table.tolist()
        host_blocks = [self.host.allocate() for _ in range(count)]
        self._swap_out += map(BlockCopy, device_blocks, host_blocks)
        self.device.release(reversed(device_blocks))
        request.block_table = BlockTable(host_blocks)
        request.on_host = True
        return True

    def swap_in(self, request: Request, *, spare_blocks: int) -> bool:
        """Bring a swapped request back; False, with nothing changed, when under `spare_blocks` would stay free."""
        count = self.blocks_for(len(request.tokens))
        if self.device.free_count - count < spare_blocks:
            return False
        host_blocks = request.block_table.tolist()
        device_blocks = [self.device.allocate() for _ in range(count)]
        self._swap_in += map(BlockCopy, host_blocks, device_blocks)
        self.host.release(host_blocks)
        request.block_table = BlockTable(device_blocks)
        request.on_host = False
        request.labelled_blocks = 0
        return True

    def take_moves(self) -> tuple[tuple[BlockCopy, ...], tuple[BlockCopy, ...], tuple[BlockCopy, ...]]:
        """The block moves collected since the last call: (swap out, copies, swap in), to be done in this order."""
        moves = tuple(self._swap_out), tuple(self._copies), tuple(self._swap_in)
        self._swap_out, self._copies, self._swap_in = [], [], []
        return moves

    def check(self, requests: Iterable[Request]) -> None:
        """Raise `AssertionError` unless the live `requests` account for exactly the references that are held."""
        for pool, on_host in ((self.device, False), (self.host, True)):
            pool.check()
            held = [0] * pool.block_count
            for request in requests:
                if request.on_host == on_host:
                    for block in request.block_table.tolist():
                        held[block] += 1
            counted = [pool.reference_count(block) for block in range(pool.block_count)]
            assert held == counted, f"{'host' if on_host else 'device'} blocks leak or are shared without a count"

    def _find_prefix(self, request: Request) -> list[int]:
        if not self.prefix_caching:
            return []
        extend_block_keys(request.block_keys, request.tokens, self.block_size, salt=request.cache_salt)
        hits: list[int] = []
        for key in request.block_keys:
            block = self.device.find(key)
            if block is None:
                break
            hits.append(block)
        return hits

    def _free_after(self, request: Request, hits: list[int], *, extra: int) -> int:
        fresh = self.blocks_for(len(request.tokens)) - len(hits) + extra
        idle_hits = sum(1 for block in hits if self.device.is_free(block))
        return self.device.free_count - fresh - idle_hits

    def _copy_on_write(self, table: BlockTable, index: int) -> None:
        shared = table[index]
        private = self.device.allocate()
        self._copies.append(BlockCopy(shared, private))
        table.replace(index, private)
        self.device.release((shared,))

    @staticmethod
    def _forget(request: Request) -> None:
        request.block_table = BlockTable()
        request.computed_tokens = 0
        request.labelled_blocks = 0
        request.on_host = False
