"""What the attention kernel must know about a step: positions, cache slots, block tables, pieces of work."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from toprope.serve.batching.batch import BatchEntry

_PIECE_TOKENS = 16  # a long prompt is cut, so that threads can share it


@dataclass(frozen=True, slots=True, eq=False)
class AttentionPlan:
    """Made once per step and used by all layers.

    `tokens`, `positions` (int32) and `slots` (int64, block * block_tokens + offset) have one element per computed
    token. `tables` (int32) is the block tables end to end. `pieces` (int32 `[pieces, 4]`) holds first token in
    the batch, number of tokens, position of the first, start of the block table. `sampled` lists the rows of the
    batch whose logits are wanted.
    """

    tokens: NDArray[np.int64]
    positions: NDArray[np.int32]
    slots: NDArray[np.int64]
    tables: NDArray[np.int32]
    pieces: NDArray[np.int32]
    sampled: NDArray[np.int64]

    @classmethod
    def of(
        cls, entries: Sequence[BatchEntry], block_tokens: int, scored: frozenset[str] = frozenset()
    ) -> AttentionPlan:
        """The plan for `entries`, whose tokens lie one after the other in the batch; all rows of the `scored` requests have logits."""
        counts = np.array([len(entry.tokens) for entry in entries])
        starts = np.array([entry.start for entry in entries])
        firsts = np.cumsum(counts) - counts
        lengths = np.array([len(entry.block_table) for entry in entries])
        table_starts = np.cumsum(lengths) - lengths
        tables = np.concatenate([entry.block_table for entry in entries]).astype(np.int32, copy=False)
        positions = np.arange(counts.sum()) - np.repeat(firsts - starts, counts)
        blocks = tables[np.repeat(table_starts, counts) + positions // block_tokens].astype(np.int64)
        pieces = [
            (first + cut, min(_PIECE_TOKENS, count - cut), start + cut, table)
            for first, count, start, table in zip(firsts, counts, starts, table_starts, strict=True)
            for cut in range(0, count, _PIECE_TOKENS)
        ]
        wanted = (firsts + counts - 1)[[entry.samples for entry in entries]]
        if scored:
            rows = zip(entries, firsts.tolist(), counts.tolist(), strict=True)
            parts = [np.arange(f, f + c)[0 if e.request.id in scored else c - e.samples :] for e, f, c in rows]
            wanted = np.concatenate(parts)
        return cls(
            tokens=np.concatenate([np.asarray(entry.tokens, dtype=np.int64) for entry in entries]),
            positions=positions.astype(np.int32),
            slots=blocks * block_tokens + positions % block_tokens,
            tables=tables,
            pieces=np.array(pieces, dtype=np.int32),
            sampled=wanted,
        )
