"""The queue of requests that wait for admission."""

from __future__ import annotations

import heapq

from toprope.serve.batching.request import Request, RequestState


class WaitingQueue:
    """Requests in the order of `Request.order`: priority, then arrival.

    A preempted request keeps its arrival time, so it comes back before everything that arrived after it. Removing from
    the middle only marks: finished requests are skipped at the head, and swept out when they are the majority.
    """

    def __init__(self) -> None:
        self._heap: list[tuple[tuple[int, float, int], Request]] = []
        self._length = 0
        self.tokens = 0  # known tokens of all waiting requests

    def __len__(self) -> int:
        return self._length

    def push(self, request: Request) -> None:
        """Queue a request, at the place its order demands."""
        heapq.heappush(self._heap, (request.order, request))
        self._length += 1
        self.tokens += len(request.tokens)

    def head(self) -> Request | None:
        """The next request to admit, or None when nobody waits."""
        while self._heap and self._heap[0][1].state is RequestState.FINISHED:
            heapq.heappop(self._heap)
        return self._heap[0][1] if self._heap else None

    def pop(self) -> Request:
        """Take the head out; `IndexError` when nobody waits."""
        if self.head() is None:
            raise IndexError("nobody waits")
        request = heapq.heappop(self._heap)[1]
        self._leave(request)
        return request

    def drop(self, request: Request) -> None:
        """Account for a queued request that is about to be finished."""
        self._leave(request)
        if len(self._heap) > 64 and self._length < len(self._heap) // 2:
            self._heap = [item for item in self._heap if item[1] is not request and _is_live(item[1])]
            heapq.heapify(self._heap)

    def _leave(self, request: Request) -> None:
        self._length -= 1
        self.tokens -= len(request.tokens)


def _is_live(request: Request) -> bool:
    return request.state is not RequestState.FINISHED
