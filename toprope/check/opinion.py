"""A second opinion: the launch once more, with other bytes where nothing has been written, or with the last core first.

A read of undefined bytes is common where it does no harm: padding lanes are computed on and thrown away. Whether their values decide
anything is found out by running the launch again in child processes, each with its own filling of undefined memory, from the state that
the run left (small arguments, such as flags and counters, from the state before it). Where every run gives the same arrays, nothing depends on those bytes.
"""

from __future__ import annotations

import mmap
import os
import pickle
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from toprope import runtime
from toprope.finding import Finding
from toprope.soc import Soc
from toprope.trace import PIPES, Array, Trace

FILLINGS = (0xFF, 0x7B, 0xFB)
"""Bytes for undefined memory: NaN or -1; large and positive; large and negative; each in every element type."""
_OF_OUTPUTS = 0x35  # outputs hold other bytes than the chip's memory, so that it shows which bytes were written
_LIMIT_S = 60.0


@dataclass(frozen=True)
class _Ran:
    """What a launch in a child process left: its reports, how many instructions each core had done by its end, and the bytes of the
    arrays that the first run wrote."""

    reports: frozenset[tuple[str, int]]
    lengths: tuple[int, ...]
    arrays: Mapping[str, Array]


@dataclass
class Opinion:
    """Answers about one launch, each found out when it is first asked for; None where a run could not be repeated as it was.

    `outputs` are names of GM arguments that hold nothing before the launch.
    """

    launch: runtime.Launch
    soc: Soc
    trace: Trace
    outputs: Collection[str] = ()
    _runs: dict[tuple[int, bool], _Ran | None] = field(default_factory=dict)

    def depends_on_undefined(self) -> str | None:
        """What depends on bytes that nobody wrote, as a clause; "" if nothing does."""
        first = self._run(FILLINGS[0])
        if first is None or first.reports != {(r.code, r.site) for r in self.trace.reports}:
            return None
        for filling in FILLINGS[1:]:
            other = self._run(filling)
            if other is None:
                return "the run ends otherwise"
            if clause := _difference(first, other, self.outputs, FILLINGS[0], filling):
                return clause
        return ""

    def same_in_reverse(self, name: str, begin: int, end: int) -> bool | None:
        """Whether bytes begin:end of a GM argument are the same when the last core runs first."""
        one, two = self._run(FILLINGS[0]), self._run(FILLINGS[0], last_core_first=True)
        if one is None or two is None or name not in one.arrays:
            return None
        return bool(np.array_equal(one.arrays[name][begin:end], two.arrays[name][begin:end]))

    def findings_in_reverse(self, find: Callable[[Trace], list[Finding]]) -> list[Finding]:
        """What `find` says about a run that begins with the last core; nothing where the run cannot be repeated."""
        if not self.launch.execute or self.trace.signal or not self._scalars_are_kept():
            return []
        order = tuple(reversed(range(len(self.launch.cores))))
        launch = replace(
            self.launch,
            core_order=order,
            delay=None,
            capture_limit_bytes=0,
            time_limit_s=self.launch.time_limit_s or _LIMIT_S,
        )
        said, _ = self._child(launch, (), find)
        return [] if said is None else list(said)

    def _run(self, filling: int, *, last_core_first: bool = False) -> _Ran | None:
        key = filling, last_core_first
        if key not in self._runs:
            order = tuple(reversed(range(len(self.launch.cores)))) if last_core_first else self.launch.core_order
            limit = self.launch.time_limit_s or _LIMIT_S
            launch = replace(
                self.launch, poison=filling, core_order=order, delay=None, capture_limit_bytes=0, time_limit_s=limit
            )
            self._runs[key] = self._in_child(launch) if self.launch.execute and not self.trace.signal else None
        return self._runs[key]

    def _scalars_are_kept(self) -> bool:
        """Whether all arguments that scalar instructions access can be put back as they were: flags must not be raised already."""
        ranges = self.trace.decoded()
        scalar = self.trace.instrs["pipe"][ranges.instr] == PIPES.index("S")
        places = ranges.address[(ranges.space == 0) & scalar]
        large = [row for row in self.trace.gm if row.name not in self.launch.before and row.name not in self.outputs]
        return not any(np.any((places >= row.address) & (places < row.address + row.bytes)) for row in large)

    def _written(self) -> list[runtime.GmArgument]:
        ranges = self.trace.decoded()
        places = ranges.address[(ranges.space == 0) & (ranges.mode & 2 > 0)]
        begins = {row.name: row.address for row in self.trace.gm}
        return [
            g
            for g in self.launch.gm
            if np.any((places >= begins[g.name]) & (places < begins[g.name] + max(1, g.array.nbytes)))
        ]

    def _in_child(self, launch: runtime.Launch) -> _Ran | None:
        arrays = self._written()
        said, whole = self._child(
            launch, arrays, lambda trace: ({(r.code, r.site) for r in trace.reports}, tuple(trace.core_begin.tolist()))
        )
        if said is None:
            return None
        ends = np.cumsum([0, *(g.array.nbytes for g in arrays)])
        kept = {g.name: whole[a:b] for g, a, b in zip(arrays, ends, ends[1:], strict=False)}
        return _Ran(frozenset(said[0]), said[1], kept)

    def _child(
        self, launch: runtime.Launch, arrays: Sequence[runtime.GmArgument], say: Callable[[Trace], Any]
    ) -> tuple[Any, Array]:
        """Run in a child process: what `say` makes of its trace (None if it did not end well), and the bytes of `arrays` behind each other."""
        sizes = [g.array.nbytes for g in arrays]
        with mmap.mmap(-1, max(1, sum(sizes))) as shared:
            reading, writing = os.pipe()
            child = os.fork()
            if child == 0:
                code = 1
                try:
                    os.close(reading)
                    for g in launch.gm:
                        if g.name in launch.before:
                            g.array.reshape(-1).view(np.uint8)[:] = np.frombuffer(launch.before[g.name], np.uint8)
                        if g.name in self.outputs:
                            g.array.reshape(-1).view(np.uint8)[:] = launch.poison ^ _OF_OUTPUTS
                    trace = runtime.run(launch, self.soc)
                    at = 0
                    for g in arrays:
                        shared[at : at + g.array.nbytes] = g.array.tobytes()
                        at += g.array.nbytes
                    with os.fdopen(writing, "wb") as out:
                        pickle.dump(say(trace), out)
                    code = 0 if not trace.signal else 1
                finally:
                    os._exit(code)
            os.close(writing)
            with os.fdopen(reading, "rb") as said:
                text = said.read()
            _, status = os.waitpid(child, 0)
            if status != 0 or not text:
                return None, np.empty(0, np.uint8)
            return pickle.loads(text), np.frombuffer(shared[:], np.uint8)


def _difference(one: _Ran, two: _Ran, outputs: Collection[str], fill_one: int, fill_two: int) -> str:
    if one.reports != two.reports:
        codes = sorted({code for code, _ in one.reports ^ two.reports})
        return f"the run ends with {', '.join(codes)}"
    if one.lengths != two.lengths:
        return "the kernel takes another way"
    for name, ours in one.arrays.items():
        differs = ours != two.arrays[name]
        if name in outputs:  # what no run has written still holds its filling
            differs &= (ours != fill_one ^ _OF_OUTPUTS) | (two.arrays[name] != fill_two ^ _OF_OUTPUTS)
        if differs.any():
            return f"{name} depends on them, from byte {int(np.argmax(differs))} on ({int(differs.sum())} bytes)"
    return ""
