"""What an engine step brought one request."""

from __future__ import annotations

from typing import NamedTuple

from toprope.serve.batching.request import FinishReason
from toprope.serve.engine.sampler import Sampled


class Delta(NamedTuple):
    """A token, the text that became certain with it, and perhaps the end."""

    request_id: str
    sampled: Sampled
    text: str
    finish_reason: FinishReason | None
    chip_s: float | None = None  # since the request came, on the chip whose operators are timed
