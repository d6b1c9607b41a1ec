"""Log-probabilities of prompt tokens: collected chunk by chunk, handed over with the answer's first token."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from toprope.serve.batching.batch import BatchEntry
from toprope.serve.batching.request import Request
from toprope.serve.engine.sampler import TokenLogprob, log_total, top_logprobs

_Floats = NDArray[np.float32]


class PromptScore(NamedTuple):
    """A prompt token given those before it: `rank` 1 is the likeliest; `top` are the likeliest, in order."""

    token: int
    logprob: float
    rank: int
    top: tuple[TokenLogprob, ...]


class PromptScores:
    """Of all live requests of an engine that ask for them."""

    def __init__(self) -> None:
        self._found: dict[str, dict[int, PromptScore]] = {}

    def add(self, request: Request) -> None:
        """Keep account of a request, if it asks for it; its prompt is then computed whole, whatever the prefix cache has."""
        if request.sampling.prompt_logprobs is not None:
            request.cache_salt = f"scored {request.id}".encode()
            self._found[request.id] = {}

    def drop(self, request_id: str) -> None:
        """Forget a request."""
        self._found.pop(request_id, None)

    def wanted(self, entries: Sequence[BatchEntry]) -> frozenset[str]:
        """The requests among `entries` all of whose rows need logits."""
        return frozenset(e.request.id for e in entries if e.request.id in self._found)

    def take(self, entries: Sequence[BatchEntry], logits: _Floats) -> _Floats:
        """Read scores off the logits of a step, and return the rows that choose tokens, one for each entry that samples."""
        at, choosing = 0, []
        for entry in entries:
            scored = entry.request.id in self._found
            rows = len(entry.tokens) if scored else int(entry.samples)
            if scored:
                self._score(entry, logits[at : at + rows])
            at += rows
            if entry.samples:
                choosing.append(at - 1)
        return logits if len(choosing) == len(logits) else np.ascontiguousarray(logits[choosing])

    def finished(self, request: Request) -> tuple[PromptScore, ...]:
        """The scores of the prompt from its second token on, once; empty for requests that did not ask."""
        found = self._found.pop(request.id, None)
        return tuple(found[at] for at in range(1, request.prompt_length)) if found else ()

    def _score(self, entry: BatchEntry, rows: _Floats) -> None:
        request = entry.request
        count = request.sampling.prompt_logprobs or 0
        for row, position in zip(rows, range(entry.start + 1, request.prompt_length), strict=False):
            token = request.prompt_tokens[position]
            rank = 1 + int((row > row[token]).sum())
            score = PromptScore(token, float(row[token]) - log_total(row), rank, top_logprobs(row, count))
            self._found[request.id][position] = score
