"""The process that owns the engine: takes requests from a pipe, sends tokens back."""

from __future__ import annotations

import contextlib
import os
import signal
import threading
import time
import traceback
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from toprope.errors import TopropeError
from toprope.serve.batching.batch import Preemption
from toprope.serve.batching.request import Request
from toprope.serve.batching.scheduler import SchedulerStats
from toprope.serve.engine.delta import Delta
from toprope.serve.engine.engine_config import EngineConfig
from toprope.serve.errors import ServeError, UnknownRequest

if TYPE_CHECKING:  # the engine loads torch; the server process, which imports this module too, needs none of it
    from toprope.serve.engine.engine import Engine, StepReport

_MOST_SHOWN_BLOCKS = 4096
BEAT_S = 1.0  # between signs of life


# -- to the worker -------------------------------------------------------------------------------------------------
class Abort(NamedTuple):
    """Nobody waits for this request any more."""

    request_id: str


class Inspect(NamedTuple):
    """Asks for a `Snapshot`."""


class Stop(NamedTuple):
    """The last message: end the process."""


# -- from the worker -----------------------------------------------------------------------------------------------
@dataclass(frozen=True)
class Ready:
    """The model is loaded."""

    max_model_len: int
    vocab: int
    blocks: int
    block_tokens: int
    kernels: str
    dtype: str
    end_tokens: frozenset[int]
    chip: str = ""  # whose time is predicted
    executes_operators: bool = False
    left_out: tuple[str, ...] = ()  # what that time does not contain


class Refused(NamedTuple):
    """The scheduler did not take a request."""

    request_id: str
    error: ServeError


@dataclass(frozen=True)
class StepNews:
    """What one step brought; `cached_tokens` by request that got its first token."""

    deltas: tuple[Delta, ...]
    stats: SchedulerStats
    seconds: float
    batch_size: int
    batch_tokens: int
    preemptions: tuple[Preemption, ...] = ()
    cached_tokens: dict[str, int] = field(default_factory=dict)
    chip_s: float = 0.0
    operators_s: Mapping[str, float] = field(default_factory=dict)
    error_findings: Mapping[str, int] = field(default_factory=dict)  # by code, of all launches so far


@dataclass(frozen=True)
class Snapshot:
    """A look inside for the web page: owners per block (capped at 4096 blocks) and the running requests."""

    references: list[int]
    running: list[dict[str, int | str]]


class Beat(NamedTuple):
    """The process lives; `step_s`: how long the step in progress has taken, 0 between steps."""

    step_s: float


@dataclass(frozen=True)
class Failed:
    """The engine could not start, or died of an exception; the process ends after this."""

    message: str
    details: str


def open_engine(path: Path, config: EngineConfig) -> Engine:
    """`Engine.open`, importing torch only in the process that calls it."""
    from toprope.serve.engine.engine import Engine

    return Engine.open(path, config)


def run_worker(pipe: Connection, open_engine: Callable[[], Engine], cores: tuple[int, ...]) -> None:
    """Body of the process. Ends when the pipe closes, or after sending `Failed`."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the server, which drains and then closes the pipe
    # Threads that spin while they wait take the core from the one they wait for: on a busy machine a step then takes
    # twenty times as long. Read by the OpenMP runtime when torch brings it in, which is later than this.
    os.environ.setdefault("OMP_WAIT_POLICY", "passive")
    if cores and hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, cores)
    line = _Line(pipe)
    try:
        engine = open_engine()
        line.send(_ready(engine))
        line.begin()
        _serve(line, engine)
    except (EOFError, BrokenPipeError, ConnectionResetError):
        return
    except Exception as error:
        said = str(error) if isinstance(error, TopropeError) else f"{type(error).__name__}: {error}"
        line.send(Failed(said, traceback.format_exc()))


class _Line:
    """The pipe, with a thread that says every second that the process lives, and how old its step is."""

    def __init__(self, pipe: Connection) -> None:
        self._pipe, self._lock = pipe, threading.Lock()
        self.poll, self.recv = pipe.poll, pipe.recv
        self.step_began_s: float | None = None

    def send(self, message: object) -> None:
        """Send from any thread."""
        with self._lock:
            self._pipe.send(message)

    def begin(self) -> None:
        """Start the thread; it ends with the process or the pipe."""
        threading.Thread(target=self._beat, daemon=True).start()

    def _beat(self) -> None:
        with contextlib.suppress(OSError, ValueError):
            while True:
                began = self.step_began_s
                self.send(Beat(0.0 if began is None else time.monotonic() - began))
                time.sleep(BEAT_S)


def _serve(pipe: _Line, engine: Engine) -> None:
    while True:
        while pipe.poll(0 if engine.has_work else None):
            message = pipe.recv()
            if isinstance(message, Stop):
                return
            _take(pipe, engine, message)
        if engine.has_work:
            pipe.step_began_s = time.monotonic()
            report = engine.step()
            pipe.step_began_s = None
            pipe.send(_news(engine, report))


def _take(pipe: _Line, engine: Engine, message: object) -> None:
    if isinstance(message, Request):
        message.arrival_s = time.monotonic()
        try:
            engine.add(message)
        except ServeError as error:
            pipe.send(Refused(message.id, error))
    elif isinstance(message, Abort):
        with contextlib.suppress(UnknownRequest):  # it may have finished while the message was on its way
            engine.abort(message.request_id)
        pipe.send(StepNews((), engine.scheduler.stats(), 0.0, 0, 0))
    elif isinstance(message, Inspect):
        pipe.send(_snapshot(engine))


def _news(engine: Engine, report: StepReport) -> StepNews:
    batch = report.batch
    chip = engine.model.kernels.chip
    first = [entry.request for entry in batch.entries if entry.samples and entry.request.output_length <= 1]
    return StepNews(
        deltas=report.deltas,
        stats=engine.scheduler.stats(),
        seconds=report.seconds,
        batch_size=len(batch.entries),
        batch_tokens=batch.token_count,
        preemptions=batch.preemptions,
        cached_tokens={request.id: request.cached_tokens for request in first if request.cached_tokens},
        chip_s=report.chip_s,
        operators_s=report.operators_s,
        error_findings=dict(chip.codes) if chip else {},
    )


def _ready(engine: Engine) -> Ready:
    model, memory, chip = engine.model, engine.memory, engine.model.kernels.chip
    return Ready(
        max_model_len=min(engine.scheduler.limits.max_model_len, engine.scheduler.cache.token_capacity + 1),
        vocab=model.config.vocab,
        blocks=memory.blocks,
        block_tokens=memory.block_tokens,
        kernels=model.kernels.name,
        dtype=str(memory.dtype).removeprefix("torch."),
        end_tokens=model.config.end_tokens,
        chip=chip.chip if chip else "",
        executes_operators=bool(chip and chip.executes),
        left_out=chip.left_out if chip else (),
    )


def _snapshot(engine: Engine) -> Snapshot:
    pool = engine.scheduler.cache.device
    shown = min(pool.block_count, _MOST_SHOWN_BLOCKS)
    return Snapshot(
        references=[pool.reference_count(block) for block in range(shown)],
        running=[
            {
                "id": request.id,
                "state": request.state.value,
                "prompt": request.prompt_length,
                "output": request.output_length,
                "max_tokens": request.max_tokens,
                "blocks": len(request.block_table),
                "preemptions": request.preemptions,
            }
            for request in engine.scheduler.live_requests[:64]
        ],
    )
