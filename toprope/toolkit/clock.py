"""Device time of a whole program: when each piece of work begins and ends on its stream, with the host's waits in between.

The host itself takes no time here: work begins when its stream, the events that it waits for, the host's last wait and enough free cores
allow. Copies between host and device share one link in each direction.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from toprope.soc import Soc

# The link between host and device, PCIe 4.0 with 16 lanes: assumed, no measurement of it is published.
LINK_GBPS = 24.0
PAGEABLE_GBPS = 10.0  # through a staging buffer of the driver
LINK_LATENCY_US = 8.0
LINK_SOURCE = "assumed: PCIe 4.0 x16, 24 GB/s pinned, 10 GB/s pageable, 8 µs"


def copy_us(soc: Soc, way: str, size_bytes: int, *, mapped: bool) -> float:
    """Microseconds of a copy: `way` is H2D, D2H, D2D, H2H or fill; `mapped` says that its host side is pinned."""
    if way in ("H2D", "D2H"):
        return LINK_LATENCY_US + size_bytes / ((LINK_GBPS if mapped else PAGEABLE_GBPS) * 1e3)
    if way == "H2H":
        return 0.0
    moved = size_bytes if way == "fill" else 2 * size_bytes
    return 2.0 + moved / (soc.number("hbm.read_tbps") * 1e6)


@dataclass(frozen=True)
class Slice:
    """Work on the device's timeline, in microseconds; `stream` 0 is the host itself."""

    name: str
    kind: str
    stream: int
    begin_us: float
    end_us: float
    detail: str = ""


@dataclass
class DeviceClock:
    """Places work on streams. Messages come in the order in which the work was executed, which each stream keeps."""

    cube_cores: int
    vector_cores: int
    slices: list[Slice] = field(default_factory=list)
    _stream_end: dict[int, float] = field(default_factory=dict)
    _ends: dict[int, list[tuple[int, float]]] = field(default_factory=dict)
    _host: list[float] = field(default_factory=lambda: [0.0])
    _events: dict[int, float] = field(default_factory=dict)
    _running: list[tuple[float, int, int]] = field(default_factory=list)
    _link: dict[str, float] = field(default_factory=dict)

    def _host_at(self, epoch: int) -> float:
        return self._host[min(epoch, len(self._host) - 1)]

    def _begin(self, stream: int, epoch: int) -> float:
        return max(self._stream_end.get(stream, 0.0), self._host_at(epoch))

    def _finish(self, stream: int, number: int, end: float) -> None:
        self._stream_end[stream] = end
        self._ends.setdefault(stream, []).append((number, end))

    def kernel(
        self, name: str, stream: int, number: int, epoch: int, us: float, cores: tuple[int, int], detail: str = ""
    ) -> None:
        """A launch that takes `us` on so many cube and vector cores."""
        cube, vector = min(cores[0], self.cube_cores), min(cores[1], self.vector_cores)
        begin = self._begin(stream, epoch)
        self._running = [r for r in self._running if r[0] > begin]
        for end, _, _ in sorted(self._running):
            free_cube = self.cube_cores - sum(r[1] for r in self._running if r[0] > begin)
            free_vector = self.vector_cores - sum(r[2] for r in self._running if r[0] > begin)
            if cube <= free_cube and vector <= free_vector:
                break
            begin = max(begin, end)
        self._running.append((begin + us, cube, vector))
        self.slices.append(Slice(name, "kernel", stream, begin, begin + us, detail))
        self._finish(stream, number, begin + us)

    def copy(self, name: str, way: str, stream: int, number: int, epoch: int, us: float, detail: str = "") -> None:
        """A copy on a stream; with stream 0 the host makes it and waits."""
        begin = max(self._host[-1] if stream == 0 else self._begin(stream, epoch), self._link.get(way, 0.0))
        if way in ("H2D", "D2H"):
            self._link[way] = begin + us
        self.slices.append(Slice(name, "copy", stream, begin, begin + us, detail))
        if stream == 0:
            self._host[-1] = begin + us
        else:
            self._finish(stream, number, begin + us)

    def event(self, mark: int, stream: int, number: int, epoch: int) -> None:
        """An event is recorded on a stream."""
        self._events[mark] = self._begin(stream, epoch)
        self._finish(stream, number, self._events[mark])

    def wait(self, mark: int, stream: int, number: int, epoch: int) -> None:
        """A stream waits for an event."""
        self._finish(stream, number, max(self._begin(stream, epoch), self._events.get(mark, 0.0)))

    def sync(self, stream: int, number: int, epoch: int) -> None:
        """The host has waited for a stream's work up to `number`; its waits are counted in `epoch`."""
        end = max((at for n, at in self._ends.get(stream, []) if n <= number), default=0.0)
        while len(self._host) <= epoch:
            self._host.append(self._host[-1])
        self._host[-1] = max(self._host[-1], end)
        rest = [(n, at) for n, at in self._ends.get(stream, []) if n > number]
        self._ends[stream] = rest

    def at(self, mark: int) -> float:
        """When an event happened, in microseconds; 0 for one that nobody recorded."""
        return self._events.get(mark, 0.0)

    @property
    def end_us(self) -> float:
        """When the last work ends."""
        return max((s.end_us for s in self.slices), default=0.0)


def perfetto(slices: Sequence[Slice], streams: dict[int, str]) -> dict[str, object]:
    """The timeline as trace events: a lane for each stream."""
    lanes = {0: "host copies", **streams}
    events: list[dict[str, object]] = [
        {"ph": "M", "name": "thread_name", "pid": 1, "tid": n, "args": {"name": name}} for n, name in lanes.items()
    ]
    events.insert(0, {"ph": "M", "name": "process_name", "pid": 1, "args": {"name": "device (predicted time)"}})
    for s in slices:
        events.append(
            {
                "ph": "X",
                "name": s.name,
                "cat": s.kind,
                "pid": 1,
                "tid": s.stream,
                "ts": s.begin_us,
                "dur": s.end_us - s.begin_us,
                "args": {"detail": s.detail},
            }
        )
    return {"displayTimeUnit": "ns", "traceEvents": events}
