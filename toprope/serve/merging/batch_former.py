"""Decides when single requests become a batch."""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable
from typing import Generic, NamedTuple, TypeVar

Item = TypeVar("Item")


class _Waiting(NamedTuple, Generic[Item]):
    item: Item
    since_s: float


class BatchFormer(Generic[Item]):
    """Gathers items by key (only items of one key can share a batch) until a batch is worth releasing.

    A batch is due when its key has as many items as the asker takes, or when its oldest item has waited
    `max_delay_s`. Nobody is overtaken within a key; between keys the one with the oldest item goes first. No clock of
    its own: times are given.
    """

    def __init__(self, max_delay_s: float) -> None:
        if max_delay_s < 0:
            raise ValueError(f"max_delay_s must not be negative, got {max_delay_s}")
        self._max_delay_s = max_delay_s
        self._waiting: dict[Hashable, deque[_Waiting[Item]]] = {}
        self._length = 0

    def __len__(self) -> int:
        return self._length

    def push(self, key: Hashable, item: Item, now_s: float) -> int:
        """Add an item; returns how many of its key wait now."""
        queue = self._waiting.setdefault(key, deque())
        queue.append(_Waiting(item, now_s))
        self._length += 1
        return len(queue)

    def pop(self, size: int, now_s: float, *, everything: bool = False) -> list[Item] | None:
        """The next due batch of at most `size` items, or None; `everything` makes all that waits due, for draining."""
        due = [
            (queue[0].since_s, number, key)
            for number, (key, queue) in enumerate(self._waiting.items())
            if everything
            or len(queue) >= size
            or queue[0].since_s + self._max_delay_s <= now_s  # as next_due_s adds it
        ]
        if not due:
            return None
        key = min(due)[2]
        queue = self._waiting[key]
        items = [queue.popleft().item for _ in range(min(size, len(queue)))]
        if not queue:
            del self._waiting[key]
        self._length -= len(items)
        return items

    def next_due_s(self) -> float | None:
        """When the oldest item will have waited long enough; None when nothing waits."""
        if not self._waiting:
            return None
        return min(queue[0].since_s for queue in self._waiting.values()) + self._max_delay_s
