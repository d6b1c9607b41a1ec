"""A server in a thread of the test process, with its engine in a process of its own as always."""

from __future__ import annotations

import contextlib
import functools
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import uvicorn

from toprope.serve.batching.scheduler import SchedulerLimits
from toprope.serve.engine.engine_config import EngineConfig
from toprope.serve.engine.worker import open_engine
from toprope.serve.http.server import HttpServer, Server, ServerOptions
from toprope.serve.model.tokenizer import open_tokenizer


class RunningServer:
    """`url` without a trailing slash; `server` for a look inside."""

    def __init__(self, server: Server, url: str) -> None:
        self.server, self.url = server, url
        self._client = httpx.Client(base_url=url, timeout=60)

    def get(self, path: str) -> httpx.Response:
        return self._client.get(path)

    def post(self, path: str, body: Any = None, **more: Any) -> httpx.Response:
        return self._client.post(path, json=body, **more)

    def complete(self, **body: Any) -> httpx.Response:
        return self.post("/v1/completions", {"model": "tiny", "prompt": "Hello", **body})

    def until(self, condition: Any, what: str) -> None:
        """Wait for something that will happen soon; the limit is only there to end a failing test."""
        deadline = time.monotonic() + 60
        while not condition():
            assert time.monotonic() < deadline, f"waited in vain until {what}"
            time.sleep(0.02)

    def until_idle(self) -> None:
        """All requests are gone and all their blocks are back."""
        self.until(lambda: self.server.engine.in_flight == 0, "no request is in flight")
        self.until(lambda: not any(self.get("/stats").json()["references"]), "every KV block is free")


@contextlib.contextmanager
def running_server(
    folder: Path,
    *,
    limits: SchedulerLimits | None = None,
    kv_bytes: int = 1 << 21,
    engine: dict[str, Any] | None = None,
    **options: Any,
) -> Iterator[RunningServer]:
    """Serve `folder` as the model `tiny` on a free port of this machine."""
    limits = limits or SchedulerLimits(max_batch_size=8, max_tokens=64)
    config = EngineConfig(kv_bytes=kv_bytes, limits=limits, threads=1, **(engine or {}))
    server = Server(
        open_tokenizer(folder), functools.partial(open_engine, folder, config), ServerOptions("tiny", **options)
    )
    http = uvicorn.Config(server.app, "127.0.0.1", 0, log_level="warning", timeout_graceful_shutdown=5, lifespan="off")
    runner = HttpServer(http, server)
    thread = threading.Thread(target=runner.run, daemon=True)
    thread.start()
    try:
        deadline = time.monotonic() + 120
        while not runner.started:
            assert thread.is_alive() and time.monotonic() < deadline, "the server did not start"
            time.sleep(0.05)
        port = runner.servers[0].sockets[0].getsockname()[1]
        yield RunningServer(server, f"http://127.0.0.1:{port}")
    finally:
        runner.should_exit = True
        thread.join(30)
