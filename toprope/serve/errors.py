"""Errors a serving client can see.

ServeError                      a TopropeError with an HTTP status
├── BadRequest              400
│   ├── EmptyPrompt
│   ├── BadMaxTokens
│   ├── DuplicateRequest
│   ├── PromptTooLong           longer than the model's context
│   └── NeverFits               more KV blocks than the cache has
├── QueueFull               429 the waiting queue is full: this client should slow down
├── Overloaded              503 the queued prompt tokens exceed the limit: the whole server is behind
└── UnknownRequest          404
"""

from __future__ import annotations

from toprope.errors import TopropeError


class ServeError(TopropeError):
    """A request was refused; `http_status` is what a server should answer."""

    code = "serve-error"
    http_status = 500


class BadRequest(ServeError):
    """The request itself is wrong and will be refused each time."""

    code = "bad-request"
    http_status = 400


class EmptyPrompt(BadRequest):
    """The prompt has no tokens."""

    code = "empty-prompt"


class BadMaxTokens(BadRequest):
    """`max_tokens` is below one."""

    code = "bad-max-tokens"


class DuplicateRequest(BadRequest):
    """A live request has this id already."""

    code = "duplicate-request"


class PromptTooLong(BadRequest):
    """Prompt and wished output exceed the model's context length."""

    code = "context-length-exceeded"


class NeverFits(BadRequest):
    """The request needs more KV blocks than the whole cache has, so waiting cannot help."""

    code = "never-fits"


class QueueFull(ServeError):
    """As many requests wait as are allowed to."""

    code = "queue-full"
    http_status = 429


class Overloaded(ServeError):
    """As many prompt tokens wait as are allowed to."""

    code = "overloaded"
    http_status = 503


class UnknownRequest(ServeError):
    """No live request has this id."""

    code = "unknown-request"
    http_status = 404
