"""Merges single calls of an ordinary model into batches, over one or more devices."""

from __future__ import annotations

import asyncio
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Hashable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Generic, NamedTuple, TypeVar

from toprope.serve.errors import QueueFull, ServeError
from toprope.serve.merging.batch_former import BatchFormer
from toprope.serve.merging.merge_size import MergeSize

X = TypeVar("X")
Y = TypeVar("Y")
Model = Callable[[Sequence[X]], Sequence[Y]]


class MergerClosed(ServeError):
    """The merger takes no more requests."""

    code = "shutting-down"
    http_status = 503


class WrongOutputCount(ServeError):
    """The model did not return one output per input."""

    code = "wrong-output-count"


class _Call(NamedTuple, Generic[X, Y]):
    value: X
    future: Future[Y]


@dataclass
class MergerStats:
    """Counters since the start."""

    requests: int = 0
    batches: int = 0
    failed: int = 0
    refused: int = 0
    sizes: Counter[int] = field(default_factory=Counter)

    @property
    def mean_size(self) -> float:
        """Requests per batch."""
        return sum(size * count for size, count in self.sizes.items()) / self.batches if self.batches else 0.0


class _Device(Generic[X, Y]):
    """Second level: a queue of formed batches and the thread that runs them on one device."""

    def __init__(
        self, model: Model[X, Y], largest: int, target_s: float | None, name: str, lock: threading.Lock
    ) -> None:
        self.model = model
        self.wake = threading.Condition(lock)
        self.size = MergeSize(largest, target_s=target_s)
        self.queue: deque[list[_Call[X, Y]]] = deque()
        self.running = 0  # requests in the batch that runs now
        self.name = name

    def expected_s(self, extra: int) -> float:
        """When the device would be through with its work and a batch of `extra`, judged by past batches."""
        batches = [len(batch) for batch in self.queue] + [extra] + ([self.running] if self.running else [])
        return sum(self.size.expected_s(size) or 1e-6 for size in batches)


class RequestMerger(Generic[X, Y]):
    """Calls `model(list of inputs) -> list of outputs` with the inputs of many callers.

    Two levels: a global queue, where requests of one `bucket` gather until `max_size` of them wait or the oldest
    has waited `max_delay_s`; and a short queue per device, so that the next batch is ready when one ends. While all
    device queues are full, requests go on gathering, so batches grow with the load. A batch goes to the device that is
    expected to finish it first. With `target_s`, the time of one batch, sizes adapt per device.

    Give one callable per device. When a batch raises, its requests are run again one by one, so that only those that
    raise alone get the exception. Thread-safe; close it, or use it as a context manager.
    """

    def __init__(
        self,
        *models: Model[X, Y],
        max_size: int = 32,
        max_delay_s: float = 0.005,
        bucket: Callable[[X], Hashable] | None = None,
        target_s: float | None = None,
        max_queued: int = 10_000,
        device_depth: int = 1,
    ) -> None:
        if not models:
            raise ValueError("give at least one callable, one per device")
        if max_queued < 1 or device_depth < 1:
            raise ValueError(f"max_queued and device_depth must be at least 1, got {max_queued} and {device_depth}")
        self._bucket = bucket or (lambda value: None)
        self._max_queued, self._depth = max_queued, device_depth
        self._lock = threading.Lock()
        self._wake = threading.Condition(self._lock)  # of the dispatcher
        self._devices = [_Device(m, max_size, target_s, f"device {i}", self._lock) for i, m in enumerate(models)]
        self._former: BatchFormer[_Call[X, Y]] = BatchFormer(max_delay_s)
        self._stats = MergerStats()
        self._closing = False
        threads = [threading.Thread(target=self._dispatch, name="merger", daemon=True)]
        threads += [threading.Thread(target=self._work, args=(d,), name=d.name, daemon=True) for d in self._devices]
        self._threads = threads
        for thread in threads:
            thread.start()

    # -- callers ---------------------------------------------------------------------------------------------------

    def submit(self, value: X) -> Future[Y]:
        """Queue one input; a cancelled future that did not start yet is dropped. `QueueFull` when too many wait."""
        key = self._bucket(value)
        future: Future[Y] = Future()
        with self._lock:
            if self._closing:
                raise MergerClosed("the merger was closed", cure="create a new one")
            if len(self._former) >= self._max_queued:
                self._stats.refused += 1
                raise QueueFull(f"{len(self._former)} requests wait already (max_queued)", cure="retry later")
            waiting = self._former.push(key, _Call(value, future), time.monotonic())
            self._stats.requests += 1
            # Others change nothing: the dispatcher sleeps until the oldest is due, or has no device to give work to.
            if len(self._former) == 1 or waiting >= min(device.size.current for device in self._devices):
                self._wake.notify()
        return future

    def __call__(self, value: X) -> Y:
        """Run one input and wait for its output."""
        return self.submit(value).result()

    async def call(self, value: X) -> Y:
        """As `__call__`, without blocking the event loop; cancelling the task cancels the request."""
        return await asyncio.wrap_future(self.submit(value))

    def stats(self) -> MergerStats:
        """A copy of the counters."""
        with self._lock:
            now = self._stats
            return MergerStats(now.requests, now.batches, now.failed, now.refused, Counter(now.sizes))

    def close(self) -> None:
        """Take no more requests, finish those that wait, end the threads."""
        with self._lock:
            self._closing = True
            self._wake.notify()
        for thread in self._threads:
            thread.join()

    def __enter__(self) -> RequestMerger[X, Y]:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    # -- first level -----------------------------------------------------------------------------------------------

    def _dispatch(self) -> None:
        with self._lock:
            while True:
                now = time.monotonic()
                device = self._next_device()
                calls = self._former.pop(device.size.current, now, everything=self._closing) if device else None
                if device and calls:
                    live = [call for call in calls if call.future.set_running_or_notify_cancel()]
                    if live:
                        device.queue.append(live)
                        device.wake.notify()
                    continue
                if self._closing and not len(self._former):
                    for device in self._devices:
                        device.queue.append([])  # the end
                        device.wake.notify()
                    return
                due_s = self._former.next_due_s() if device else None
                self._wake.wait(None if due_s is None else max(0.0, due_s - now))

    def _next_device(self) -> _Device[X, Y] | None:
        """The one that would finish a full batch first, among those with room for one."""
        open_devices = [device for device in self._devices if len(device.queue) < self._depth]
        return min(open_devices, key=lambda d: d.expected_s(d.size.current)) if open_devices else None

    # -- second level ----------------------------------------------------------------------------------------------

    def _work(self, device: _Device[X, Y]) -> None:
        while True:
            with self._lock:
                while not device.queue:
                    device.wake.wait()
                calls = device.queue.popleft()
                device.running = len(calls)
                self._wake.notify()
            if not calls:
                return
            start = time.monotonic()
            failed = self._run(device.model, calls)
            with self._lock:
                device.running = 0
                device.size.observe(len(calls), time.monotonic() - start)
                self._stats.batches += 1
                self._stats.failed += failed
                self._stats.sizes[len(calls)] += 1

    def _run(self, model: Model[X, Y], calls: list[_Call[X, Y]]) -> int:
        """Answer all calls; returns how many got an exception."""
        try:
            outputs = model([call.value for call in calls])
            if len(outputs) != len(calls):
                raise WrongOutputCount(f"the model returned {len(outputs)} outputs for {len(calls)} inputs")
        except Exception as error:
            if len(calls) == 1:
                calls[0].future.set_exception(error)
                return 1
            return sum(self._run(model, [call]) for call in calls)
        for call, output in zip(calls, outputs, strict=True):
            call.future.set_result(output)
        return 0
