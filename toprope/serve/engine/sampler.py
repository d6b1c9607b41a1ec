"""Choose the next token of each request from its logits."""

from __future__ import annotations

import ctypes
import hashlib
from collections.abc import Sequence
from functools import cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from toprope.errors import CompileFailed, NoCompiler
from toprope.serve.batching.request import Request, SamplingParams
from toprope.serve.kernels.native import load_library

_Floats = NDArray[np.float32]
_HEAD = 256  # the likeliest tokens are sorted first; rarely are more needed for top_p


class TokenLogprob(NamedTuple):
    """Natural logarithm of a token's probability before temperature and cuts."""

    token: int
    logprob: float


class Sampled(NamedTuple):
    """A chosen token; `logprob` and `top` (likeliest first) only where the request asked for logprobs."""

    token: int
    logprob: float | None = None
    top: tuple[TokenLogprob, ...] = ()


class Sampler:
    """Stateless: the randomness of a token is a function of the request's seed and the token's place in the answer.

    So an answer does not depend on batch mates, and a preempted request continues as it would have. Requests without a
    seed draw theirs from their id and `salt`.
    """

    def __init__(self, salt: bytes = b"") -> None:
        self._salt = salt

    def sample(self, logits: _Floats, requests: Sequence[Request]) -> list[Sampled]:
        """One token per row of `logits` `[requests, vocab]`; the logits may be overwritten."""
        if not requests:
            return []
        if _compiled() is None:
            return [self._sample_row(row, request) for row, request in zip(logits, requests, strict=True)]
        raw = {i: logits[i].copy() for i, r in enumerate(requests) if r.sampling.logprobs is not None}
        for row, request in zip(logits, requests, strict=True):
            if _has_penalty(request.sampling):
                _penalise(row, request)
        tokens = sample_tokens(np.ascontiguousarray(logits), [self._params(r) for r in requests])
        return [
            _with_logprobs(raw[i], token, r.sampling.logprobs or 0) if i in raw else Sampled(token)
            for i, (token, r) in enumerate(zip(tokens, requests, strict=True))
        ]

    def _params(self, request: Request) -> SampleParams:
        p = request.sampling
        greedy = p.temperature <= 0
        return SampleParams(
            0.0 if greedy else p.temperature, p.top_p, p.min_p, p.top_k or 0, 0 if greedy else self._seed(request), request.output_length
        )  # fmt: skip

    def _sample_row(self, logits: _Floats, request: Request) -> Sampled:
        params = request.sampling
        raw = logits.copy() if params.logprobs is not None else logits
        _penalise(logits, request)
        greedy = params.temperature <= 0
        token = int(logits.argmax()) if greedy else _draw(logits, params, self._uniform(request))
        return Sampled(token) if params.logprobs is None else _with_logprobs(raw, token, params.logprobs)

    def _uniform(self, request: Request) -> float:
        bits = np.random.Philox(key=self._seed(request), counter=request.output_length)
        return float(np.random.Generator(bits).random())

    def _seed(self, request: Request) -> int:
        seed = request.sampling.seed
        if seed is None:
            digest = hashlib.blake2b(request.id.encode(), key=self._salt, digest_size=8).digest()
            seed = int.from_bytes(digest, "little")
        return seed % 2**64


@cache
def _compiled() -> ctypes.CDLL | None:
    """The library of kernels, or nothing where it cannot be compiled: NumPy draws there, one row after the other."""
    try:
        return load_library()
    except (NoCompiler, CompileFailed):
        return None


class SampleParams(NamedTuple):
    """Mirror of `SampleParams` in sampling.cpp: how one row is drawn. A temperature of 0 takes the highest logit."""

    temperature: float
    top_p: float
    min_p: float
    top_k: int
    seed: int
    counter: int


_ROW = np.dtype(
    [("temperature", "f4"), ("top_p", "f4"), ("min_p", "f4"), ("top_k", "i4"), ("seed", "u8"), ("counter", "u8")]
)


def sample_tokens(logits: _Floats, params: Sequence[SampleParams]) -> list[int]:
    """One token per row of `logits` (C-contiguous), all rows at once on the threads of OpenMP; needs the compiled library."""
    library = _compiled()
    assert library is not None
    rows = np.array([tuple(p) for p in params], _ROW)
    tokens = np.empty(len(rows), np.int64)
    size = ctypes.c_int64
    library.sample_tokens(
        ctypes.c_void_p(logits.ctypes.data), ctypes.c_void_p(rows.ctypes.data), ctypes.c_void_p(tokens.ctypes.data),
        size(len(rows)), size(logits.shape[1]),
    )  # fmt: skip
    return [int(t) for t in tokens]


def _with_logprobs(raw: _Floats, token: int, count: int) -> Sampled:
    return Sampled(token, float(raw[token]) - log_total(raw), top_logprobs(raw, count))


def top_logprobs(raw: _Floats, count: int) -> tuple[TokenLogprob, ...]:
    """The `count` likeliest tokens of a row of logits, likeliest first."""
    if not count:
        return ()
    total = log_total(raw)
    return tuple(TokenLogprob(int(t), float(raw[t]) - total) for t in _likeliest(raw, count))


def _has_penalty(params: SamplingParams) -> bool:
    return bool(params.presence_penalty or params.frequency_penalty or params.repetition_penalty != 1.0)


def _penalise(logits: _Floats, request: Request) -> None:
    """Repetition looks at prompt and answer, presence and frequency at the answer only, as is usual."""
    params = request.sampling
    if params.repetition_penalty != 1.0:
        seen = np.unique(request.tokens)
        values = logits[seen]
        logits[seen] = np.where(values > 0, values / params.repetition_penalty, values * params.repetition_penalty)
    if (params.presence_penalty or params.frequency_penalty) and request.output_length:
        seen, counts = np.unique(request.output_tokens, return_counts=True)
        logits[seen] -= params.presence_penalty + params.frequency_penalty * counts.astype(np.float32)


def _draw(logits: _Floats, params: SamplingParams, uniform: float) -> int:
    """Inverse of the cumulative distribution after temperature, top_k, min_p and top_p, likeliest tokens first."""
    scaled = (logits / np.float32(params.temperature)).astype(np.float64)
    scaled -= scaled.max()
    weights = np.exp(scaled)
    if params.top_k is not None and 0 < params.top_k < len(weights):
        order = _likeliest(logits, params.top_k)
    elif params.top_p < 1:
        order = _nucleus(logits, weights, params.top_p)
    elif params.min_p > 0:
        order = _likeliest(logits, int((weights >= params.min_p).sum()))
    else:
        order = np.arange(len(weights))
    kept = weights[order]
    if params.min_p > 0:
        order, kept = order[kept >= params.min_p], kept[kept >= params.min_p]  # the likeliest token weighs 1
    if params.top_p < 1:
        before = np.cumsum(kept) - kept
        total = kept.sum() if params.top_k or params.min_p > 0 else weights.sum()
        inside = before < params.top_p * total
        order, kept = order[inside], kept[inside]
    cumulative = np.cumsum(kept)
    index = np.searchsorted(cumulative, uniform * cumulative[-1], side="right")
    return int(order[min(int(index), len(order) - 1)])


def _nucleus(logits: _Floats, weights: NDArray[np.float64], top_p: float) -> NDArray[np.int64]:
    """The likeliest tokens in order, at least as many as `top_p` needs."""
    count, wanted = _HEAD, top_p * weights.sum()
    while count < len(logits):
        order = _likeliest(logits, count)
        if weights[order].sum() >= wanted:
            return order
        count *= 8
    return _likeliest(logits, len(logits))


def _likeliest(logits: _Floats, count: int) -> NDArray[np.int64]:
    """Indices of the `count` largest logits, largest first, equal ones by index."""
    count = min(count, len(logits))
    if count == 0:
        return np.empty(0, dtype=np.int64)
    if count < len(logits):
        # Everything above the threshold, then equal ones from the lowest index: no luck in a tie.
        threshold = np.partition(logits, len(logits) - count)[len(logits) - count]
        above, equal = np.flatnonzero(logits > threshold), np.flatnonzero(logits == threshold)
        chosen = np.concatenate((above, equal[: count - len(above)]))
    else:
        chosen = np.arange(count)
    return chosen[np.lexsort((chosen, -logits[chosen]))]


def log_total(logits: _Floats) -> float:
    """Logarithm of the sum of a row's exponentials: what a logit lacks to be a log-probability."""
    peak = float(logits.max())
    return peak + float(np.log(np.exp(logits.astype(np.float64) - peak).sum()))
