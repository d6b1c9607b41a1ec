"""A pool of equal KV blocks: reference counts, a free queue, and labels for blocks whose content can be reused."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable


class BlockPool:
    """Hands out block ids `0 .. block_count-1`.

    * A block is in the free queue exactly when its reference count is 0.
    * A *labelled* block holds content that others may find by its label. It keeps the label while it is free, until it
      is handed out again; so the free queue is the cache's eviction order: unlabelled blocks at the head (the one freed
      last is taken first), labelled ones at the tail (the one freed first is taken first).
    * A block may be written only by a sole owner, and only while it has no label (`is_writable`).
    """

    def __init__(self, block_count: int) -> None:
        if block_count < 0:
            raise ValueError(f"block_count must not be negative, got {block_count}")
        self.block_count = block_count
        self._references = [0] * block_count
        self._label_of: list[bytes | None] = [None] * block_count
        self._block_of: dict[bytes, int] = {}
        self._free: OrderedDict[int, None] = OrderedDict((block, None) for block in range(block_count))

    @property
    def free_count(self) -> int:
        """Blocks nobody holds, labelled or not."""
        return len(self._free)

    @property
    def used_share(self) -> float:
        """Held blocks as a share of all, 0..1."""
        return 1.0 - len(self._free) / self.block_count if self.block_count else 0.0

    @property
    def labelled_count(self) -> int:
        """Blocks that can be found by label, held or free."""
        return len(self._block_of)

    def allocate(self) -> int:
        """Take the head of the free queue, forgetting its label; `MemoryError` when the queue is empty."""
        if not self._free:
            raise MemoryError(f"all {self.block_count} KV blocks are in use; ask free_count before allocating")
        block, _ = self._free.popitem(last=False)
        label = self._label_of[block]
        if label is not None:
            self._label_of[block] = None
            del self._block_of[label]
        self._references[block] = 1
        return block

    def share(self, block: int) -> None:
        """Become one more owner of a block, taking it out of the free queue if nobody held it."""
        if self._references[block] == 0:
            del self._free[block]
        self._references[block] += 1

    def release(self, blocks: Iterable[int]) -> None:
        """Give up ownership, in the order given: what comes first is evicted first among labelled blocks."""
        for block in blocks:
            if self._references[block] == 0:
                raise RuntimeError(f"KV block {block} is released more often than it was taken")
            self._references[block] -= 1
            if self._references[block] == 0:
                self._free[block] = None
                if self._label_of[block] is None:
                    self._free.move_to_end(block, last=False)

    def label(self, block: int, label: bytes) -> bool:
        """Make a held block findable. False, and nothing changes, when another block has the label already.

        True as well when the block has this label: owners that share it may each ask. Raises RuntimeError for another label.
        """
        if self._references[block] == 0 or self._label_of[block] not in (None, label):
            raise RuntimeError(f"KV block {block} is not held or has another label")
        if self._label_of[block] == label:
            return True
        if label in self._block_of:
            return False
        self._label_of[block] = label
        self._block_of[label] = block
        return True

    def find(self, label: bytes) -> int | None:
        """The block with this label, held or free; it is not taken, see `share`."""
        return self._block_of.get(label)

    def forget_labels(self) -> None:
        """Drop all labels, because the memory behind the blocks was lost."""
        self._label_of = [None] * self.block_count
        self._block_of.clear()

    def reference_count(self, block: int) -> int:
        """Number of owners."""
        return self._references[block]

    def is_free(self, block: int) -> bool:
        """True when nobody holds the block."""
        return self._references[block] == 0

    def is_writable(self, block: int) -> bool:
        """True for a sole owner's unlabelled block."""
        return self._references[block] == 1 and self._label_of[block] is None

    def eviction_order(self) -> list[int]:
        """The free queue from head (taken next) to tail."""
        return list(self._free)

    def check(self) -> None:
        """Raise `AssertionError` if an invariant of the class description is broken; for tests and soak runs."""
        for block, references in enumerate(self._references):
            assert references >= 0, f"block {block} has {references} references"
            assert (references == 0) == (block in self._free), (
                f"block {block}: references {references}, free queue wrong"
            )
            label = self._label_of[block]
            assert label is None or self._block_of.get(label) == block, f"block {block} cannot be found by its label"
        assert all(self._label_of[block] == label for label, block in self._block_of.items()), "a stale label is left"
