"""An engine without a model: each cache position stores a digest of the tokens up to there, and every read is checked.

A wrong block table, a block overwritten too early, a missed copy or a stale cached prefix shows as a wrong digest.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

from toprope.serve.batching.batch import Batch
from toprope.serve.batching.kv_cache import KvCache
from toprope.serve.batching.request import Request

VOCABULARY = 7


def digest(tokens: Sequence[int]) -> str:
    return hashlib.md5(repr(list(tokens)).encode()).hexdigest()[:12]


def next_token(tokens: Sequence[int]) -> int:
    """The 'model': a function of all tokens before, so that any wrong context changes the output."""
    return int(digest(tokens), 16) % VOCABULARY


def reference_output(prompt: Sequence[int], max_tokens: int, stop: frozenset[int] = frozenset()) -> list[int]:
    tokens = list(prompt)
    for _ in range(max_tokens):
        tokens.append(next_token(tokens))
        if tokens[-1] in stop:
            break
    return tokens[len(prompt) :]


class TokenEngine:
    def __init__(self, cache: KvCache) -> None:
        self.cache = cache
        size = cache.block_size
        self.device = [["poison"] * size for _ in range(cache.device.block_count)]
        self.host = [["poison"] * size for _ in range(cache.host.block_count)]

    def run(self, batch: Batch) -> dict[str, int]:
        for moves, source, target in (
            (batch.swap_out, self.device, self.host),
            (batch.copies, self.device, self.device),
            (batch.swap_in, self.host, self.device),
        ):
            gathered = [list(source[move.source]) for move in moves]
            for move, content in zip(moves, gathered, strict=True):
                target[move.target] = content
        for entry in batch.entries:
            self._write(entry.request, entry.start, len(entry.tokens), entry.block_table.tolist())
        sampled = {}
        for entry in batch.entries:
            self._verify(entry.request, entry.context, entry.block_table.tolist())
            if entry.samples:
                sampled[entry.request.id] = next_token(entry.request.tokens)
        return sampled

    def _write(self, request: Request, start: int, count: int, table: list[int]) -> None:
        for position in range(start, start + count):
            index, offset = divmod(position, self.cache.block_size)
            assert self.cache.device.is_writable(table[index]), f"{request.id} writes shared block {table[index]}"
            self.device[table[index]][offset] = digest(request.tokens[: position + 1])

    def _verify(self, request: Request, context: int, table: list[int]) -> None:
        for position in range(context):
            index, offset = divmod(position, self.cache.block_size)
            found = self.device[table[index]][offset]
            assert found == digest(request.tokens[: position + 1]), f"{request.id} reads a wrong position {position}"
