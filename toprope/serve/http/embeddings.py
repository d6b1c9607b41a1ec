"""`/v1/embeddings`: the last prompt token's state behind the last norm, scaled to length one."""

from __future__ import annotations

import asyncio
import base64
import time
import uuid
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from toprope.serve.batching.request import Request, SamplingParams
from toprope.serve.engine.engine_process import Answer, EngineProcess
from toprope.serve.errors import ServeError
from toprope.serve.http.metrics import Metrics

_PARAMS = SamplingParams(temperature=0, embed=True)


class Embedding:
    """One request of a client on its way through the engine. `close` ends whatever is not finished."""

    def __init__(
        self, model: str, prompts: Sequence[list[int]], engine: EngineProcess, metrics: Metrics, *, as_base64: bool
    ) -> None:
        self._model, self._prompts, self._engine, self._metrics = model, prompts, engine, metrics
        self._as_base64 = as_base64
        self.began = time.monotonic()
        self._answers: list[Answer] = []

    async def whole(self) -> dict[str, Any]:
        """The complete response; raises the `ServeError` of the first prompt that failed."""
        name = f"embd-{uuid.uuid4().hex}"
        self._answers = [
            self._engine.submit(Request(f"{name}-{number}", prompt, 1, _PARAMS))
            for number, prompt in enumerate(self._prompts)
        ]
        vectors = await asyncio.gather(*(self._vector(answer) for answer in self._answers))
        tokens = sum(map(len, self._prompts))
        data = [{"object": "embedding", "index": at, "embedding": self._form(v)} for at, v in enumerate(vectors)]
        usage = {"prompt_tokens": tokens, "total_tokens": tokens}
        return {"id": name, "object": "list", "data": data, "model": self._model, "usage": usage}

    def close(self) -> None:
        """Stop computing what is not finished, and count it."""
        for answer in self._answers:
            if not answer.is_done:
                self._engine.abort(answer)
                answer.is_done = True
                self._end(answer, "abort")

    async def _vector(self, answer: Answer) -> NDArray[np.float32]:
        try:
            async for delta in answer:
                assert delta.embedding is not None
                self._end(answer, "stop")
                length = float(np.linalg.norm(delta.embedding))
                return delta.embedding / np.float32(length or 1.0)
        except ServeError as error:
            self._end(answer, error.code)
            raise
        raise AssertionError("an answer has at least one token")

    def _end(self, answer: Answer, reason: str) -> None:
        self._metrics.ended(reason, time.monotonic() - self.began, len(answer.request.prompt_tokens))

    def _form(self, vector: NDArray[np.float32]) -> list[float] | str:
        if self._as_base64:
            return base64.b64encode(vector.astype("<f4").tobytes()).decode()
        return [float(x) for x in vector]
