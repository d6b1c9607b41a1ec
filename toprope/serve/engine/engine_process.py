"""The server's end of the engine's process: starts it, feeds it, and starts it again when it dies."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import multiprocessing
import queue
import threading
import time
from collections.abc import AsyncIterator, Callable
from enum import Enum
from typing import TYPE_CHECKING, Any

from toprope.serve.batching.request import Request
from toprope.serve.engine.delta import Delta
from toprope.serve.engine.worker import (
    BEAT_S,
    Abort,
    Beat,
    Failed,
    Inspect,
    Ready,
    Refused,
    Snapshot,
    StepNews,
    Stop,
    run_worker,
)
from toprope.serve.errors import ServeError

if TYPE_CHECKING:  # loads torch, which only the worker needs
    from toprope.serve.engine.engine import Engine

_log = logging.getLogger("toprope.serve")
_RAPID_CRASHES, _RAPID_WINDOW_S = 5, 60.0  # more than so many in so long: give up
_STOP_GRACE_S = 5.0


class WorkerCrashed(ServeError):
    """The engine's process died while this request was in it."""

    code = "worker-crashed"
    http_status = 500


class EngineUnavailable(ServeError):
    """The engine is starting, stopping or has given up."""

    code = "engine-unavailable"
    http_status = 503


class EngineState(Enum):
    """Whether requests can be served."""

    STARTING = "starting"
    READY = "ready"
    HUNG = "hung"
    RESTARTING = "restarting"
    FAILED = "failed"
    STOPPED = "stopped"


class Answer:
    """Iterate for the deltas of one request; ends after the one with a finish reason, raises `ServeError`."""

    def __init__(self, request: Request) -> None:
        self.request = request
        self.cached_tokens = 0
        self.is_done = False
        self._items: asyncio.Queue[Delta | ServeError] = asyncio.Queue()

    def put(self, item: Delta | ServeError) -> None:
        """Called by the process's owner as news arrive."""
        self.is_done = self.is_done or isinstance(item, ServeError) or item.finish_reason is not None
        self._items.put_nowait(item)

    async def __aiter__(self) -> AsyncIterator[Delta]:
        while True:
            item = await self._items.get()
            if isinstance(item, ServeError):
                raise item
            yield item
            if item.finish_reason is not None:
                return


class EngineProcess:
    """All methods run on one asyncio loop. `on_news` sees each step after the answers got their tokens."""

    def __init__(
        self,
        open_engine: Callable[[], Engine],
        *,
        cores: tuple[int, ...] = (),
        on_news: Callable[[StepNews], None] = lambda news: None,
        on_crash: Callable[[], None] = lambda: None,
        silence_s: float = 10.0,
        step_limit_s: float = 300.0,
    ) -> None:
        self._silence_s, self._step_limit_s = silence_s, step_limit_s
        self._last_sign_s = 0.0
        self._watchdog: asyncio.Task[None] | None = None
        self._open_engine, self._cores = open_engine, cores
        self._on_news, self._on_crash = on_news, on_crash
        self.state = EngineState.STARTING
        self.ready: Ready | None = None
        self.failure = ""
        self._answers: dict[str, Answer] = {}
        self._crash_times: list[float] = []
        self._snapshots: list[asyncio.Future[Snapshot]] = []
        self._started: asyncio.Future[None] | None = None
        self._generation = 0

    @property
    def in_flight(self) -> int:
        """Requests that wait for an answer."""
        return len(self._answers)

    @property
    def pid(self) -> int | None:
        """Process id of the worker."""
        return self._process.pid

    async def start(self) -> Ready:
        """Start the process and wait for the model; raises `EngineUnavailable` with the worker's own words."""
        self._loop = asyncio.get_running_loop()
        self._started = self._loop.create_future()
        self._spawn()
        await self._started
        assert self.ready is not None
        self._watchdog = self._loop.create_task(self._watch())
        return self.ready

    def submit(self, request: Request) -> Answer:
        """Send a request; a refusal arrives through the answer. Raises `EngineUnavailable` when nobody can take it."""
        if self.state is not EngineState.READY:
            raise EngineUnavailable(f"the engine is {self.state.value}; retry in a few seconds")
        answer = self._answers[request.id] = Answer(request)
        self._outbox.put(request)
        return answer

    def abort(self, answer: Answer) -> None:
        """Stop computing an answer nobody wants; harmless when it is complete."""
        if self._answers.pop(answer.request.id, None) is not None and self.state is EngineState.READY:
            self._outbox.put(Abort(answer.request.id))

    async def snapshot(self) -> Snapshot:
        """What is in the cache and the batch right now."""
        if self.state is not EngineState.READY:
            raise EngineUnavailable(f"the engine is {self.state.value}")
        future: asyncio.Future[Snapshot] = self._loop.create_future()
        self._snapshots.append(future)
        self._outbox.put(Inspect())
        return await asyncio.wait_for(future, timeout=10.0)

    async def stop(self) -> None:
        """End the process; whatever is in flight gets an error."""
        if self._watchdog is not None:
            self._watchdog.cancel()
        self.state = EngineState.STOPPED
        self._fail_all(EngineUnavailable("the server is shutting down"))
        self._outbox.put(Stop())
        self._outbox.put(None)
        await asyncio.to_thread(self._process.join, _STOP_GRACE_S)
        if self._process.is_alive():
            self._process.kill()
            await asyncio.to_thread(self._process.join)

    async def _watch(self) -> None:
        """Notice a process that lives and does nothing: no sign for `silence_s`, or one step of over `step_limit_s`."""
        while True:
            await asyncio.sleep(BEAT_S)
            silent = time.monotonic() - self._last_sign_s
            if self.state is EngineState.READY and silent > self._silence_s:
                self._give_up(f"no sign of life for {silent:.0f} s")

    def _give_up(self, reason: str) -> None:
        _log.error("the engine hangs (%s); ending its process", reason)
        self.state, self.failure = EngineState.HUNG, f"it hung: {reason}"
        self._process.kill()  # the reader's thread sees the pipe close, and `_crashed` does the rest

    # -- process and threads ---------------------------------------------------------------------------------------

    def _spawn(self) -> None:
        self._generation += 1
        context = multiprocessing.get_context("spawn")  # a forked copy of a process with threads can hang
        self._pipe, theirs = context.Pipe()
        self._process = context.Process(
            target=run_worker, args=(theirs, self._open_engine, self._cores), name="toprope-engine", daemon=True
        )
        self._process.start()
        theirs.close()
        self._outbox: queue.SimpleQueue[object] = queue.SimpleQueue()
        # Two threads, because both ends of a pipe can block and the loop may not.
        for target, arguments in (
            (_read, (self._pipe, self._deliver, self._generation)),
            (_write, (self._pipe, self._outbox)),
        ):
            threading.Thread(target=target, args=arguments, daemon=True).start()

    def _deliver(self, generation: int, message: object) -> None:
        with contextlib.suppress(RuntimeError):  # the loop is closed: nobody is left to tell
            self._loop.call_soon_threadsafe(self._take, generation, message)

    def _take(self, generation: int, message: object) -> None:
        if generation != self._generation or self.state is EngineState.STOPPED:
            return
        self._last_sign_s = time.monotonic()
        if isinstance(message, StepNews):
            self._spread(message)
        elif isinstance(message, Refused):
            if answer := self._answers.pop(message.request_id, None):
                answer.put(message.error)
        elif isinstance(message, Snapshot):
            for future in self._snapshots:
                if not future.done():
                    future.set_result(message)
            self._snapshots.clear()
        elif isinstance(message, Beat):
            if message.step_s > self._step_limit_s and self.state is EngineState.READY:
                self._give_up(f"one step has taken {message.step_s:.0f} s")
        elif isinstance(message, Ready):
            self.ready, self.state = message, EngineState.READY
            if self._started and not self._started.done():
                self._started.set_result(None)
        elif isinstance(message, Failed):
            self.failure = message.message
            _log.error("the engine failed: %s", message.message)
            _log.debug("%s", message.details)
        elif message is None:
            self._crashed()

    def _spread(self, news: StepNews) -> None:
        for delta in news.deltas:
            answer = self._answers.get(delta.request_id)
            if answer is None:
                continue
            answer.cached_tokens = news.cached_tokens.get(delta.request_id, answer.cached_tokens)
            answer.put(delta)
            if delta.finish_reason is not None:
                del self._answers[delta.request_id]
        self._on_news(news)

    def _crashed(self) -> None:
        self._outbox.put(None)
        reason = self.failure or "the process died"
        self._fail_all(WorkerCrashed(f"the engine stopped while it worked on this request ({reason}); send it again"))
        self._on_crash()
        now = time.monotonic()
        self._crash_times = [t for t in self._crash_times if now - t < _RAPID_WINDOW_S] + [now]
        never_started = self._started is not None and not self._started.done()
        if never_started or len(self._crash_times) > _RAPID_CRASHES:
            self.state = EngineState.FAILED
            if never_started and self._started is not None:
                self._started.set_exception(EngineUnavailable(f"the engine did not start: {reason}"))
            return
        _log.error("the engine's process ended (%s); starting it again", reason)
        self.state, self.failure = EngineState.RESTARTING, ""
        self._spawn()

    def _fail_all(self, error: ServeError) -> None:
        for answer in self._answers.values():
            answer.put(error)
        self._answers.clear()
        for future in self._snapshots:
            if not future.done():
                future.set_exception(error)
        self._snapshots.clear()


def _read(pipe: Any, deliver: Callable[[int, object], None], generation: int) -> None:
    while True:
        try:
            message = pipe.recv()
        except (EOFError, OSError):
            break
        deliver(generation, message)
    deliver(generation, None)


def _write(pipe: Any, outbox: queue.SimpleQueue[object]) -> None:
    while (message := outbox.get()) is not None:
        try:
            pipe.send(message)
        except (OSError, ValueError):
            return
