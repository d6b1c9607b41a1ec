"""Turns the tokens of one answer into text as they come, and watches for stop strings."""

from __future__ import annotations

from toprope.serve.model.tokenizer import Tokenizer


class TextStream:
    """Text that may still change is held back: half a character, or the beginning of a stop string."""

    def __init__(
        self,
        tokenizer: Tokenizer,
        prompt_tail: list[int],
        stop: tuple[str, ...] = (),
        *,
        include_stop: bool = False,
        min_tokens: int = 0,
    ) -> None:
        self._tokenizer, self._stop, self._include_stop = tokenizer, stop, include_stop
        self._ignores = min_tokens  # so many tokens cannot complete a stop string
        # Decoding starts at tokens already shown: many tokenizers write a leading space depending on the one before.
        self._tokens = list(prompt_tail)
        self._shown_tokens = len(self._tokens)
        self._from = 0
        self._held = ""
        self.stopped = False

    def push(self, token: int) -> str:
        """Add a token; the text that is certain now. `stopped` becomes true when a stop string is complete."""
        self._tokens.append(token)
        self._ignores -= 1
        before = self._tokenizer.decode(self._tokens[self._from : self._shown_tokens])
        after = self._tokenizer.decode(self._tokens[self._from :])
        if len(after) <= len(before) or after.endswith("\ufffd"):
            return ""
        self._from, self._shown_tokens = self._shown_tokens, len(self._tokens)
        return self._release(self._held + after[len(before) :])

    def finish(self) -> str:
        """What was held back, at the end of the answer."""
        if self.stopped:
            return ""
        before = self._tokenizer.decode(self._tokens[self._from : self._shown_tokens])
        rest = self._tokenizer.decode(self._tokens[self._from :])[len(before) :]
        self._shown_tokens = len(self._tokens)
        text, self._held = self._release(self._held + rest) + self._held, ""
        return text

    def _release(self, text: str) -> str:
        if self._ignores > 0:
            self._held = ""
            return text
        ends = [(at, len(stop)) for stop in self._stop if (at := text.find(stop)) >= 0]
        if ends:
            self.stopped, self._held = True, ""
            at, length = min(ends)
            return text[: at + length if self._include_stop else at]
        keep = max((_overlap(text, stop) for stop in self._stop), default=0)
        self._held = text[len(text) - keep :]
        return text[: len(text) - keep]


def _overlap(text: str, stop: str) -> int:
    """Length of the longest end of `text` that begins `stop`."""
    return next((n for n in range(min(len(text), len(stop) - 1), 0, -1) if text.endswith(stop[:n])), 0)
