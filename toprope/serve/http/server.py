"""The OpenAI-compatible HTTP server."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import functools
import logging
import os
import signal
import socket
import sys
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import Any

import uvicorn
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import FileResponse, JSONResponse, Response, StreamingResponse
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles
from starlette.types import Receive, Scope, Send

from toprope.commandline import Parser
from toprope.errors import TopropeError
from toprope.serve.batching.batch import PreemptionMode
from toprope.serve.batching.policies import POLICY_NAMES, make_policy
from toprope.serve.batching.scheduler import SchedulerLimits
from toprope.serve.engine.engine_config import DEVICES, DTYPES, EngineConfig
from toprope.serve.engine.engine_process import EngineProcess, EngineState, EngineUnavailable
from toprope.serve.engine.worker import open_engine
from toprope.serve.errors import BadRequest, PromptTooLong, ServeError
from toprope.serve.http.embeddings import Embedding
from toprope.serve.http.fields import BadParameter
from toprope.serve.http.generation import Generation
from toprope.serve.http.guard import Admission, Guard
from toprope.serve.http.metrics import Metrics
from toprope.serve.http.openai_requests import (
    Job,
    chat_job,
    completion_job,
    embedding_prompts,
    read_body,
    token_list,
    tokens_of,
)
from toprope.serve.http.openai_responses import error_body, event
from toprope.serve.model.tokenizer import Tokenizer, open_tokenizer
from toprope.soc import load

_log = logging.getLogger("toprope.serve")
_WEB = Path(__file__).parent / "web"


class UnknownModel(ServeError):
    """The body names a model that is not served here."""

    code = "model-not-found"
    http_status = 404


class BodyTooLarge(BadRequest):
    """The body has more bytes than the limit."""

    code = "body-too-large"
    http_status = 413


class RequestTimeout(ServeError):
    """The answer took longer than the server's limit."""

    code = "request-timeout"
    http_status = 504


class BadRoute(ServeError):
    """No such path or method."""

    code = "not-found"
    http_status = 404


@dataclass(frozen=True)
class ServerOptions:
    """Limits of the HTTP side."""

    model_name: str
    request_timeout_s: float = 600.0
    drain_s: float = 30.0
    body_bytes: int = 8 << 20
    silence_s: float = 10.0  # an engine without a sign of life for so long is started again
    step_limit_s: float = 300.0  # and one whose step takes longer than this
    admission: Admission = field(default_factory=Admission)


class Server:
    """One model behind HTTP. `app` is an ASGI application; `engine` must be started before it and stopped after."""

    def __init__(self, tokenizer: Tokenizer, engine: Callable[[], Any], options: ServerOptions, *,
                 cores: tuple[int, ...] = ()) -> None:  # fmt: skip
        self._tokenizer, self._options = tokenizer, options
        self.metrics = Metrics()
        self.engine = EngineProcess(
            engine,
            cores=cores,
            on_news=self.metrics.step,
            on_crash=self.metrics.engine_restarted,
            silence_s=options.silence_s,
            step_limit_s=options.step_limit_s,
        )
        self._draining = False
        self._active = 0
        self._created = int(time.time())
        routes = Starlette(
            routes=[
                Route("/v1/chat/completions", self._answer_chat, methods=["POST"]),
                Route("/v1/completions", self._answer_completion, methods=["POST"]),
                Route("/v1/embeddings", self._embeddings, methods=["POST"]),
                Route("/tokenize", self._tokenize, methods=["POST"]),
                Route("/detokenize", self._detokenize, methods=["POST"]),
                Route("/v1/models", self._models),
                Route("/v1/models/{name:path}", self._model),
                Route("/health", self._health),
                Route("/metrics", self._metrics),
                Route("/stats", self._stats),
                Route("/", self._page),
                Mount("/web", StaticFiles(directory=_WEB)),
            ],
            exception_handlers={
                ServeError: _refuse,
                HTTPException: _refuse_http,
                ClientDisconnect: _gone,
                Exception: _fail,
            },
        )
        self.app = Guard(routes, options.admission)

    @property
    def chip_report(self) -> str:
        """What the steps took by the chip's operators so far; empty without a chip, or before a step."""
        ready, chip = self.engine.ready, self.metrics.chip
        return chip.report(ready) if ready and ready.chip and chip.steps else ""

    async def drain(self) -> None:
        """Refuse new requests, and wait until those in flight are answered or `drain_s` is over."""
        self._draining = True
        deadline = time.monotonic() + self._options.drain_s
        while self._active and time.monotonic() < deadline:
            await asyncio.sleep(0.05)

    # -- generation ------------------------------------------------------------------------------------------------

    async def _answer_chat(self, request: Request) -> Response:
        return await self._answer(request, chat_job)

    async def _answer_completion(self, request: Request) -> Response:
        return await self._answer(request, completion_job)

    async def _answer(self, request: Request, read: Callable[..., Job]) -> Response:
        body = await self._job_body(request)
        assert self.engine.ready is not None
        # In a thread, because megabytes of text take a second, and the other answers must go on.
        job = await asyncio.to_thread(read, body, self._tokenizer, self.engine.ready.end_tokens)
        self._check(job.model, job.prompts)
        generation = Generation(job, self.engine, self._tokenizer, self.metrics)
        self._active += 1
        try:
            if not job.stream:
                answer = await self._unless_gone(request, generation.whole())
                self._end(generation)
                return JSONResponse(answer)
            # The first event is waited for before the headers go out, so that a refusal still gets its status code.
            first = await self._unless_gone(request, generation.next_event())
        except BaseException:
            self._end(generation)
            raise
        return _EventStream(self._events(generation, first), lambda: self._end(generation))

    async def _embeddings(self, request: Request) -> Response:
        body = await self._job_body(request)
        prompts, as_base64 = await asyncio.to_thread(embedding_prompts, body, self._tokenizer)
        self._check(body.get("model"), prompts)
        embedding = Embedding(self._options.model_name, prompts, self.engine, self.metrics, as_base64=as_base64)
        self._active += 1
        try:
            return JSONResponse(await self._unless_gone(request, embedding.whole()))
        finally:
            self._end(embedding)

    async def _job_body(self, request: Request) -> dict[str, Any]:
        if self._draining:
            raise EngineUnavailable("the server is shutting down; send the request to another one")
        body = read_body(await self._body(request))
        if self.engine.ready is None:
            raise EngineUnavailable("the engine is starting; retry in a few seconds")
        return body

    def _check(self, model: object, prompts: Sequence[list[int]]) -> None:
        """Raise for another model than this one, and for a prompt that leaves no room for an answer."""
        if not isinstance(model, str) or not model:
            raise BadParameter("model", "is required and must be a string; GET /v1/models lists the names")
        if model != self._options.model_name:
            raise UnknownModel(f"the model {model!r} is not served here; this is {self._options.model_name!r}")
        assert self.engine.ready is not None
        longest = self.engine.ready.max_model_len
        if too_long := next((p for p in prompts if len(p) >= longest), None):
            raise PromptTooLong(f"this model's context is {longest} tokens; the prompt alone has {len(too_long)}")

    def _end(self, generation: Generation | Embedding) -> None:
        self._active -= 1
        generation.close()

    async def _unless_gone(self, request: Request, work: Coroutine[Any, Any, Any]) -> Any:
        """The result of `work`; raises `ClientDisconnect` when the client goes away before."""
        task = asyncio.ensure_future(self._within_limit(work))
        gone = asyncio.ensure_future(_disconnected(request))
        try:
            await asyncio.wait((task, gone), return_when=asyncio.FIRST_COMPLETED)
            if not task.done():
                raise ClientDisconnect
            return task.result()
        finally:
            task.cancel()
            gone.cancel()

    async def _events(self, generation: Generation, first: dict[str, Any] | None) -> AsyncIterator[bytes]:
        try:
            item = first
            while item is not None:
                yield event(item)
                item = await self._within_limit(generation.next_event(), since=generation.began)
            yield event("[DONE]")
        except ServeError as error:
            yield event(error_body(error))

    async def _within_limit(self, work: Coroutine[Any, Any, Any], since: float | None = None) -> Any:
        limit = self._options.request_timeout_s
        left = limit if since is None else max(0.0, since + limit - time.monotonic())
        try:
            async with asyncio.timeout(left):
                return await work
        except TimeoutError:
            raise RequestTimeout(f"the answer was not complete after {limit:g} seconds; ask for fewer tokens") from None

    async def _body(self, request: Request) -> bytes:
        limit, parts, size = self._options.body_bytes, [], 0
        async for part in request.stream():
            size += len(part)
            if size > limit:
                raise BodyTooLarge(f"the body has more than {limit} bytes")
            parts.append(part)
        return b"".join(parts)

    async def _tokenize(self, request: Request) -> Response:
        """Token ids of a prompt, or of messages as the chat template writes them."""
        body = read_body(await self._body(request))
        tokens = await asyncio.to_thread(tokens_of, body, self._tokenizer)
        longest = self.engine.ready.max_model_len if self.engine.ready else None
        texts = [self._tokenizer.token_text(t) for t in tokens] if body.get("return_token_strs") else None
        return JSONResponse({"count": len(tokens), "max_model_len": longest, "tokens": tokens, "token_strs": texts})

    async def _detokenize(self, request: Request) -> Response:
        """Text of token ids."""
        tokens = token_list(read_body(await self._body(request)), self._tokenizer.vocab_size)
        return JSONResponse({"prompt": await asyncio.to_thread(self._tokenizer.decode, tokens)})

    # -- information -----------------------------------------------------------------------------------------------

    def _model_object(self) -> dict[str, Any]:
        longest = self.engine.ready.max_model_len if self.engine.ready else None
        return {"id": self._options.model_name, "object": "model", "created": self._created, "owned_by": "toprope",
                "max_model_len": longest}  # fmt: skip

    async def _models(self, request: Request) -> Response:
        return JSONResponse({"object": "list", "data": [self._model_object()]})

    async def _model(self, request: Request) -> Response:
        if request.path_params["name"] != self._options.model_name:
            raise UnknownModel(f"the model {request.path_params['name']!r} is not served here")
        return JSONResponse(self._model_object())

    async def _health(self, request: Request) -> Response:
        healthy = self.engine.state is EngineState.READY and not self._draining
        status = "draining" if self._draining else self.engine.state.value
        return JSONResponse({"status": status, "in_flight": self.engine.in_flight}, 200 if healthy else 503)

    async def _metrics(self, request: Request) -> Response:
        return Response(self.metrics.prometheus(), media_type="text/plain; version=0.0.4")

    async def _page(self, request: Request) -> Response:
        return FileResponse(_WEB / "index.html")

    async def _stats(self, request: Request) -> Response:
        """All the web page shows."""
        inside: dict[str, Any] = {"references": [], "requests": []}
        with contextlib.suppress(ServeError, TimeoutError):
            snapshot = await self.engine.snapshot()
            inside = {"references": snapshot.references, "requests": snapshot.running}
        ready = self.engine.ready
        about: dict[str, Any] = {"model": self._options.model_name, "state": self.engine.state.value}
        if ready:
            about |= {"blocks": ready.blocks, "block_tokens": ready.block_tokens, "kernels": ready.kernels,
                      "dtype": ready.dtype, "max_model_len": ready.max_model_len}  # fmt: skip
            if ready.chip:
                about["chip"] = {"name": ready.chip, "executes_operators": ready.executes_operators,
                                 "steps": self.metrics.chip.steps, "operator_seconds": dict(self.metrics.chip.seconds),
                                 "not_in_it": ready.left_out, "error_findings": dict(self.metrics.chip.error_findings)}  # fmt: skip
        return JSONResponse({**about, **self.metrics.recent(), **inside})


class _EventStream(StreamingResponse):
    """Calls `on_end` when the stream is over, complete or not: an iterator that never began has no `finally`."""

    def __init__(self, events: AsyncIterator[bytes], on_end: Callable[[], None]) -> None:
        super().__init__(events, media_type="text/event-stream", headers={"Cache-Control": "no-cache"})
        self._on_end = on_end

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await super().__call__(scope, receive, send)
        finally:
            self._on_end()


async def _disconnected(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass


async def _refuse(request: Request, error: Exception) -> Response:
    assert isinstance(error, ServeError)
    headers = {"Retry-After": "1"} if error.http_status in (429, 503) else None
    return JSONResponse(error_body(error), error.http_status, headers)


async def _refuse_http(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    refusal = BadRoute(f"{request.method} {request.url.path}: {error.detail}")
    return JSONResponse(error_body(refusal), error.status_code, error.headers)


async def _gone(request: Request, error: Exception) -> Response:
    return Response(status_code=499)  # nobody reads it; the access log does


async def _fail(request: Request, error: Exception) -> Response:
    _log.exception("an unforeseen error", exc_info=error)
    return JSONResponse(error_body(ServeError("an unforeseen error; the server's log has the details")), 500)


class HttpServer(uvicorn.Server):
    """Runs a `Server` with its engine. The first signal drains, the second one stops at once."""

    def __init__(self, config: uvicorn.Config, server: Server) -> None:
        super().__init__(config)
        self._server = server
        self._drain: asyncio.Task[None] | None = None

    async def serve(self, sockets: Any = None) -> None:
        """Start the engine, answer until told to stop, stop the engine; raises `EngineUnavailable`."""
        self._loop = asyncio.get_running_loop()
        try:
            await self._server.engine.start()
            await super().serve(sockets)
        finally:
            await self._server.engine.stop()

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """See the class."""
        if self._drain is not None or sig not in (signal.SIGINT, signal.SIGTERM):
            self.should_exit = self.force_exit = True
            return
        _log.warning("draining: %d requests in flight; a second signal stops at once", self._server.engine.in_flight)
        self._drain = self._loop.create_task(self._drain_and_exit())

    async def _drain_and_exit(self) -> None:
        await self._server.drain()
        self.should_exit = True


def main(argv: list[str] | None = None) -> int:
    """Serve a model: `toprope serve MODEL`. Returns the process's exit status."""
    options = _parser().parse_args(argv)
    logging.basicConfig(level=options.log_level.upper(), format="%(asctime)s %(levelname)s %(message)s")
    try:
        tokenizer = open_tokenizer(options.model)
        config = EngineConfig(
            dtype=options.dtype or ("float16" if options.device == "npu" and not options.estimate else "float32"),
            device=options.device,
            estimate=options.estimate,
            chip=load(options.chip).name if options.device == "npu" else options.chip,
            kernels=options.kernels,
            batch_invariant=options.batch_invariant,
            threads=options.threads or len(options.cores),
            block_tokens=options.block_size,
            kv_bytes=int(options.kv_gib * 2**30),
            host_kv_bytes=int(options.swap_gib * 2**30),
            prefix_caching=not options.no_prefix_caching,
            limits=SchedulerLimits(
                max_batch_size=options.max_batch_size,
                max_tokens=options.max_tokens,
                max_model_len=options.max_model_len,
                max_queued=options.max_queued,
                max_queued_tokens=options.max_queued_tokens,
                preemption=PreemptionMode.SWAP if options.swap_gib else PreemptionMode.RECOMPUTE,
            ),
            policy=make_policy(options.policy, ttft_s=options.ttft / 1000, tpot_s=options.tpot / 1000),
        )
        if options.device == "npu":
            from toprope.serve.npu.chip_launches import check_chip  # loads the operator library

            check_chip(load(options.chip))
        listening = _listen(options.host, options.port)
    except (TopropeError, ValueError) as error:
        print(f"toprope serve: {error}", file=sys.stderr)
        return 2
    server = Server(
        tokenizer,
        functools.partial(open_engine, options.model, config),
        ServerOptions(
            model_name=options.served_model_name or options.model.stem,
            request_timeout_s=options.request_timeout,
            drain_s=options.drain,
            silence_s=options.silence,
            step_limit_s=options.step_limit,
            admission=Admission(
                keys=tuple(options.api_key or filter(None, [os.environ.get("TOPROPE_API_KEY", "")])),
                hosts=frozenset(h.lower() for h in options.allow_host),
                origins=frozenset(options.allow_origin),
                bound=options.host,
            ),
        ),
        cores=tuple(options.cores),
    )
    runner = HttpServer(
        uvicorn.Config(server.app, options.host, options.port, log_level=options.log_level, access_log=False,
                       timeout_graceful_shutdown=5, timeout_keep_alive=75, lifespan="off"),
        server,
    )  # fmt: skip
    try:
        runner.run(sockets=[listening])
    except EngineUnavailable as error:
        print(f"toprope serve: {error.message}", file=sys.stderr)
        return 1
    if server.chip_report:
        print(server.chip_report, file=sys.stderr)
    return 0


def _listen(host: str, port: int) -> socket.socket:
    """The listening socket, taken before the model loads; raises `ValueError` in one line when it cannot be had."""
    try:
        family, _, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[0]
        listening = socket.socket(family, socket.SOCK_STREAM)
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind(address)
        listening.listen(2048)
    except (OSError, OverflowError) as error:
        raise ValueError(f"cannot listen on {host}:{port}: {error}; choose another --host or --port") from None
    return listening


def _parser() -> argparse.ArgumentParser:
    parser = Parser(prog="toprope serve", description="Serve a Llama-family model over HTTP.")
    add = parser.add_argument
    add("model", type=Path, help="a folder with config.json, tokenizer.json and safetensors, or a GGUF file")
    add("--host", default="127.0.0.1")
    add("--port", type=int, default=8000)
    add("--served-model-name", metavar="NAME", help="the name clients use (default: the file's)")
    add("--dtype", choices=DTYPES, help="default: float32; float16 on the device npu")
    add(
        "--device",
        choices=DEVICES,
        default="cpu",
        help="npu: the library's operators on the software NPU, each with its predicted time",
    )
    add("--estimate", action="store_true", help="with --device npu: the CPU computes, only the time is the chip's")
    add(
        "--chip",
        default="ascend910b2",
        help="whose time --device npu predicts, see `toprope socs` (default ascend910b2)",
    )
    add("--kernels", choices=("auto", "compiled", "torch"), default="auto")
    add("--batch-invariant", action="store_true", help="refuse to start unless answers cannot depend on batch mates")
    add("--threads", type=int, default=0, help="threads of the engine (default: one per core)")
    add("--cores", type=_cores, default=[], metavar="0,1", help="run the engine on these cores only")
    add("--policy", choices=POLICY_NAMES, default="decode-first")
    add(
        "--ttft", type=float, default=1000.0, metavar="MS", help="target for the first token, for policies with targets"
    )
    add("--tpot", type=float, default=50.0, metavar="MS", help="target for each further token, likewise")
    add("--max-batch-size", type=int, default=64, help="requests that run at the same time")
    add("--max-tokens", type=int, default=512, help="tokens computed in one step")
    add("--max-model-len", type=int, default=8192, help="prompt and answer of one request, in tokens")
    add("--max-queued", type=int, default=10_000, help="waiting requests; beyond: status 429")
    add("--max-queued-tokens", type=int, help="waiting prompt tokens; beyond: status 503")
    add("--block-size", type=int, default=16, help="tokens in a KV block, a multiple of 16")
    add("--kv-gib", type=float, default=1.0, help="memory for keys and values")
    add("--swap-gib", type=float, default=0.0, help="host memory for swapping; 0: preempt by computing again")
    add("--no-prefix-caching", action="store_true")
    add("--request-timeout", type=float, default=600.0, metavar="SECONDS")
    add("--drain", type=float, default=30.0, metavar="SECONDS", help="wait so long for answers in flight at shutdown")
    add("--silence", type=float, default=10.0, metavar="SECONDS", help="restart an engine that gives no sign of life")
    add("--step-limit", type=float, default=300.0, metavar="SECONDS", help="and one whose step takes longer than this")
    add("--api-key", action="append", metavar="KEY", help="clients must send it; several allowed (or TOPROPE_API_KEY)")
    add("--allow-host", action="append", default=[], metavar="NAME", help="a further Host that is answered")
    add("--allow-origin", action="append", default=[], metavar="URL", help="a site whose pages may use this server")
    add("--log-level", choices=("debug", "info", "warning", "error"), default="info")
    return parser


def _cores(text: str) -> list[int]:
    try:
        return [int(part) for part in text.split(",")]
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not a list of core numbers such as 0,1") from None


if __name__ == "__main__":
    sys.exit(main())
