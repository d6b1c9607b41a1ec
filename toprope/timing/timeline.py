"""Timeline: what predict() returns. Times are cycles of the core clock from the launch; columns follow the trace's instructions."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from toprope.soc import Soc
from toprope.timing.confidence import Band, band
from toprope.trace import PIPES, Array, Trace

SOFTWARE_FLAG = 16  # flags from here on live in GM (ascendc/api/cross_core.h)
STALLS = ("issue", "pipe busy", "flag", "barrier", "queue full", "other core", "data hazard", "launch")


@dataclass(frozen=True)
class Traffic:
    """Bytes between the memories: HBM read, HBM written back, L2 read and written by the cores, and the part found in L2."""

    hbm_read_bytes: float
    hbm_write_bytes: float
    l2_read_bytes: float
    l2_write_bytes: float
    l2_hit_bytes: float

    @property
    def read_hit_share(self) -> float:
        """Share of the bytes read that were found in L2."""
        return 1.0 - self.hbm_read_bytes / self.l2_read_bytes if self.l2_read_bytes else 0.0


@dataclass(frozen=True)
class Timeline:
    """When each instruction starts and ends, and why not earlier.

    `start`, `end`: cycles. `stall`: index into STALLS, what decided the start; `blocker`: the instruction behind it, -1 for none.
    `core_start`, `core_end`: cycles per core; `core_busy[core, pipe]`: cycles in which the pipe had something under way.
    """

    trace: Trace
    soc: Soc
    start: Array
    end: Array
    stall: Array
    blocker: Array
    core_start: Array
    core_end: Array
    core_busy: Array
    traffic: Traffic
    assumed_cycles: Array = field(repr=False)
    launch_cycles: float = 0.0
    released_waits: int = 0

    def __repr__(self) -> str:
        return f"Timeline({self.trace.kernel} on {self.soc.name}: {self.microseconds:.2f} us, {len(self.start)} instructions)"

    @property
    def cycles(self) -> float:
        """From the launch to the end of the last core."""
        return float(self.core_end.max(initial=0.0))

    @property
    def microseconds(self) -> float:
        """Task duration: from the launch to the end of the last core."""
        return self.cycles / (self.soc.ghz * 1e3)

    @property
    def core_us(self) -> Array:
        """What each core spent between its start and its end, in microseconds (the profiler's aiv_time or aicore_time is the mean)."""
        return (self.core_end - self.core_start) / (self.soc.ghz * 1e3)

    @cached_property
    def band(self) -> Band:
        """Where the device's time lies with 80 % probability, by the kind of work."""
        return band(self.trace, self.microseconds, str(self.soc.table["arch"]))

    def pipe_us(self, pipe: str, core_type: str | None = None) -> float:
        """Time in which a pipe (S V M MTE1 MTE2 MTE3 FIX) has something under way, mean of the cores, in microseconds.

        Comparable with the profiler's aiv_vec_time, aic_mte2_time, ...; `core_type` aiv or aic picks the cores of a mixed launch.
        """
        return float(self._busy_of(pipe, core_type).mean()) / (self.soc.ghz * 1e3) if len(self.trace.cores) else 0.0

    def busy(self, pipe: str, core_type: str | None = None) -> float:
        """Busy share of a pipe, 0 to 1: mean busy time over mean core time (the profiler's ratio columns)."""
        cores = self.cores_of(pipe, core_type)
        spent = float((self.core_end - self.core_start)[cores].mean()) if cores.any() else 0.0
        return float(self._busy_of(pipe, core_type).mean()) / spent if spent else 0.0

    def cores_of(self, pipe: str, core_type: str | None = None) -> Array:
        """Which cores have the pipe (all where none has), or are of this type."""
        types = np.array([core.type for core in self.trace.cores])
        if core_type is not None:
            return np.asarray(types == core_type)
        missing = {"V": "aic", "M": "aiv", "MTE1": "aiv", "FIX": "aiv"}.get(pipe)
        cores = types != missing
        return np.asarray(cores if cores.any() else np.ones(len(types), bool))

    def _busy_of(self, pipe: str, core_type: str | None) -> Array:
        return np.asarray(self.core_busy[self.cores_of(pipe, core_type), PIPES.index(pipe)])

    def critical_path(self) -> Array:
        """Instructions that decided the end, last first: each one's blocker, back to the launch."""
        if not len(self.end):
            return np.empty(0, np.int64)
        path = [int(np.argmax(self.end))]
        while len(path) <= len(self.end):
            blocker = int(self.blocker[path[-1]])
            if blocker < 0 or blocker == path[-1]:
                break
            path.append(blocker)
        return np.array(path)

    @cached_property
    def assumed_share(self) -> float:
        """Share of the critical path's cycles that rests on assumed numbers of the chip file."""
        path = self.critical_path()
        if not len(path) or not self.cycles:
            return 0.0
        first = path[::-1]
        reached = np.maximum.accumulate(np.concatenate([[0.0], self.end[first]]))
        spent = np.maximum(0.0, self.end[first] - np.maximum(self.start[first], reached[:-1]))[
            ::-1
        ]  # not twice where they overlap
        assumed = np.minimum(self.assumed_cycles[path], spent).sum() + self._assumed_between_cores(path)
        prologue = self.soc.number("prologue.cycles") if self.soc.kind_of("prologue.cycles") == "assumed" else 0.0
        return float(min(1.0, (assumed + prologue) / self.cycles))

    def _assumed_between_cores(self, path: Array) -> float:
        """Cycles on the path that a flag took from one core to another, where that latency is assumed."""
        if self.soc.kind_of("flags.cross_core_cycles") != "assumed":
            return 0.0
        latency = {False: self.soc.number("flags.cross_core_cycles"), True: self.soc.number("flags.software_cycles")}
        waits = path[self.stall[path] == STALLS.index("other core")]
        return sum(latency[bool((flag & 0xFF) >= SOFTWARE_FLAG)] for flag in self.trace.instrs["work"][waits])
