"""What may come next: biases, tokens that are barred, and grammars. Applied to the logits before a token is drawn."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from toprope.serve.batching.request import Grammar, Request
from toprope.serve.errors import BadRequest

if TYPE_CHECKING:  # loads its engine; only servers that are asked for a grammar need it
    from llguidance import LLMatcher, LLTokenizer

    from toprope.serve.model.tokenizer import Tokenizer

_Floats = NDArray[np.float32]


class BadGrammar(BadRequest):
    """The schema, expression or grammar that an answer should obey cannot be read."""

    code = "bad-grammar"


class Constraints:
    """Of all live requests of an engine. `add` before the first step, `apply` on each step's logits, `drop` at the end."""

    def __init__(self, tokenizer: Tokenizer | None, vocab: int, end_tokens: frozenset[int]) -> None:
        self._tokenizer, self._vocab, self._end_tokens = tokenizer, vocab, end_tokens
        self._compiler: LLTokenizer | None = None
        self._matchers: dict[str, tuple[LLMatcher, int]] = {}  # with the number of answer tokens it has seen

    def add(self, request: Request) -> None:
        """Prepare a request's grammar; raises `BadGrammar` with the compiler's words, `BadRequest` for tokens outside."""
        params = request.sampling
        for token, _ in params.logit_bias:
            if not 0 <= token < self._vocab:
                raise BadRequest(f"logit_bias names token {token}; this model's tokens are 0 to {self._vocab - 1}")
        if params.grammar is not None:
            self._matchers[request.id] = (self._matcher(params.grammar), 0)

    def drop(self, request_id: str) -> None:
        """Forget a request."""
        self._matchers.pop(request_id, None)

    def apply(self, logits: _Floats, requests: Sequence[Request]) -> None:
        """Change rows of `logits` `[requests, vocab]` in place: what may not come gets minus infinity."""
        for row, request in zip(logits, requests, strict=True):
            params = request.sampling
            if params.logit_bias:
                tokens = [token for token, _ in params.logit_bias]
                row[tokens] += np.array([bias for _, bias in params.logit_bias], np.float32)
            if request.output_length < params.min_tokens:
                row[[t for t in params.stop_token_ids if t < self._vocab]] = -np.inf
            for word in params.bad_words:
                before = len(word) - 1
                if (
                    before <= request.output_length
                    and list(word[:-1]) == request.tokens[len(request.tokens) - before :]
                ):
                    row[word[-1]] = -np.inf
            if request.id in self._matchers:
                self._obey(row, request)

    def _obey(self, row: _Floats, request: Request) -> None:
        matcher, seen = self._matchers[request.id]
        new = request.output_tokens[seen:]
        if new:
            matcher.consume_tokens(new)
            self._matchers[request.id] = (matcher, seen + len(new))
        if matcher.is_stopped():  # the answer is complete: only an end may follow
            row[:] = -np.inf
            row[[t for t in self._end_tokens if t < self._vocab]] = 0.0
            return
        bits = np.frombuffer(matcher.compute_bitmask(), dtype=np.uint8)
        row[np.unpackbits(bits, count=self._vocab, bitorder="little") == 0] = -np.inf

    def _matcher(self, grammar: Grammar) -> LLMatcher:
        try:
            from llguidance import LLMatcher, LLTokenizer
        except ImportError:
            raise BadGrammar(
                "this server cannot constrain answers: the package llguidance is missing", cure="pip install llguidance"
            ) from None
        if self._tokenizer is None:
            raise BadGrammar("a grammar needs a tokenizer, and this engine has none")
        if self._compiler is None:
            end = min(self._end_tokens, default=None)
            self._compiler = LLTokenizer(self._tokenizer.as_json(), n_vocab=self._vocab, eos_token=end)
        library: Any = LLMatcher
        source = _SOURCES[grammar.kind](library, grammar.text)
        matcher = LLMatcher(self._compiler, source)
        if matcher.is_error():
            raise BadGrammar(
                f"the {grammar.kind.replace('_', ' ')} cannot be obeyed: {matcher.get_error().splitlines()[0]}"
            )
        return matcher


def _choice(kind: Any, text: str) -> str:
    options = " | ".join(json.dumps(option) for option in json.loads(text))
    return str(kind.grammar_from_lark(f"start: {options}"))


_SOURCES: dict[str, Callable[[Any, str], str]] = {
    "json_schema": lambda kind, text: kind.grammar_from_json_schema(text),
    "json_object": lambda kind, text: kind.grammar_from_json_schema('{"type": "object"}'),
    "regex": lambda kind, text: kind.grammar_from_regex(text),
    "choice": _choice,
    "grammar": lambda kind, text: kind.grammar_from_lark(text),
}
