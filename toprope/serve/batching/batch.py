"""What one scheduler step asks an engine to do."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from toprope.serve.batching.request import FinishReason, Request


class BatchEntry(NamedTuple):
    """One request's share of a step.

    Compute `tokens` at positions `start .. start+len(tokens)-1`, writing their keys and values through
    `block_table` (int32, `[blocks]`, read-only) and attending to all positions before them. When `samples` is
    true the logits after the last token choose the next one; otherwise this is a chunk of a longer prompt.
    """

    request: Request
    start: int
    tokens: list[int]
    block_table: NDArray[np.int32]
    samples: bool

    @property
    def context(self) -> int:
        """Positions in the cache once this entry is computed."""
        return self.start + len(self.tokens)

    @property
    def is_decode(self) -> bool:
        """True for the one-token entry of a request whose earlier positions are all computed."""
        return len(self.tokens) == 1 and self.samples and self.start > 0


class BlockCopy(NamedTuple):
    """Copy one whole block, all layers, keys and values."""

    source: int
    target: int


class PreemptionMode(Enum):
    """How a victim's blocks were freed."""

    RECOMPUTE = "recompute"  # thrown away, computed again later
    SWAP = "swap"  # copied to host memory


class Preemption(NamedTuple):
    """A running request was sent back to the queue because the KV blocks ran out."""

    request_id: str
    mode: PreemptionMode
    tokens_lost: int  # tokens that must be computed again; 0 for a swap
    kv_use_before: float  # share of the device blocks in use
    kv_use_after: float


class TokenOutput(NamedTuple):
    """A token that `Scheduler.update` accepted; `finish_reason` is set on the last one of a request."""

    request: Request
    token: int
    finish_reason: FinishReason | None


@dataclass(frozen=True, slots=True)
class Batch:
    """One step. An engine performs, in this order: `swap_out` (device→host), `copies` (device→device), `swap_in`
    (host→device), then computes `entries`.

    Each of the three lists may be done as one gather and one scatter. `ended` names the requests that finished or
    were aborted since the last step, so an engine can drop what it remembers about them.
    """

    step: int
    now_s: float
    entries: tuple[BatchEntry, ...]
    swap_out: tuple[BlockCopy, ...] = ()
    copies: tuple[BlockCopy, ...] = ()
    swap_in: tuple[BlockCopy, ...] = ()
    preemptions: tuple[Preemption, ...] = ()
    ended: tuple[str, ...] = ()

    @property
    def is_empty(self) -> bool:
        """True when there is nothing to do."""
        return not (self.entries or self.swap_out or self.copies or self.swap_in)

    @property
    def token_count(self) -> int:
        """Tokens computed by this step."""
        return sum(len(entry.tokens) for entry in self.entries)

    @property
    def decode_count(self) -> int:
        """Entries that continue a request by one token."""
        return sum(1 for entry in self.entries if entry.is_decode)
