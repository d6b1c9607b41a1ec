"""Who may ask: keys, hosts, origins and the body's type, and a name for each request. Plain ASGI, around the routes."""

from __future__ import annotations

import hmac
import re
import uuid
from dataclasses import dataclass
from urllib.parse import urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from toprope.serve.errors import ServeError
from toprope.serve.http.openai_responses import error_body

_LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})
_OPEN_PATHS = frozenset({"/health", "/metrics"})  # for supervisors, which hold no key
_REQUEST_ID = re.compile(r"[\w.:-]{1,128}")


class Unauthorized(ServeError):
    """No key, or a wrong one."""

    code = "invalid-api-key"
    http_status = 401


class Forbidden(ServeError):
    """A host or origin that this server does not answer: a page of another site, or a rebound name."""

    code = "forbidden-origin"
    http_status = 403


class WrongType(ServeError):
    """The body is not declared as JSON."""

    code = "wrong-content-type"
    http_status = 415


@dataclass(frozen=True)
class Admission:
    """Keys that are accepted (none: all requests), further host names and origins; `bound` is the listening address."""

    keys: tuple[str, ...] = ()
    hosts: frozenset[str] = frozenset()
    origins: frozenset[str] = frozenset()
    bound: str = "127.0.0.1"

    def refuse(self, scope: Scope) -> ServeError | None:
        """Why a request is turned away, or None."""
        headers = Headers(scope=scope)
        host = (urlsplit(f"//{headers.get('host', '')}").hostname or "").lower()
        # A browser that was tricked into resolving another name to this machine still sends that name.
        if self.bound in _LOOPBACK and host not in _LOOPBACK | self.hosts:
            return Forbidden(f"host {host!r} is not served", cure="start the server with --allow-host NAME")
        origin = headers.get("origin")
        if origin and origin not in self.origins:
            there = (urlsplit(origin).hostname or "").lower()
            if there != host:
                return Forbidden(f"pages of {origin} may not use it", cure="start the server with --allow-origin URL")
        if scope["method"] == "POST":
            kind = headers.get("content-type", "").partition(";")[0].strip().lower()
            if kind not in ("application/json", ""):
                return WrongType(f"the body is {kind}", cure="send Content-Type: application/json")
        if self.keys and scope["path"] not in _OPEN_PATHS:
            given = headers.get("authorization", "").removeprefix("Bearer ").encode()
            if not any(hmac.compare_digest(given, key.encode()) for key in self.keys):
                return Unauthorized("the API key is missing or wrong", cure="send Authorization: Bearer KEY")
        return None


class Guard:
    """Answers what `Admission` refuses, and gives every response the request's id."""

    def __init__(self, app: ASGIApp, admission: Admission) -> None:
        self._app, self._admission = app, admission

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        given = Headers(scope=scope).get("x-request-id", "")
        request_id = given if _REQUEST_ID.fullmatch(given) else uuid.uuid4().hex
        scope.setdefault("state", {})["request_id"] = request_id

        async def named(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message)["X-Request-Id"] = request_id
            await send(message)

        refusal = self._admission.refuse(scope)
        if refusal is not None:
            answer = JSONResponse(error_body(refusal), refusal.http_status)
            await answer(scope, receive, named)
            return
        await self._app(scope, receive, named)
