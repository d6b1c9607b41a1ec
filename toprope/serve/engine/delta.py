"""What an engine step brought one request."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from toprope.serve.batching.request import FinishReason
from toprope.serve.engine.prompt_scores import PromptScore
from toprope.serve.engine.sampler import Sampled


class Delta(NamedTuple):
    """A token, the text that became certain with it, and perhaps the end."""

    request_id: str
    sampled: Sampled
    text: str
    finish_reason: FinishReason | None
    chip_s: float | None = None  # since the request came, on the chip whose operators are timed
    prompt: tuple[
        PromptScore, ...
    ] = ()  # with the first token, where they were asked for: from the second prompt token on
    embedding: NDArray[np.float32] | None = None
