"""Turning causes into findings: the sentence, both places with pipes and ranges, and the cure that fits these two pipes."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from toprope.check.replay import Cause
from toprope.finding import Finding, Place, Severity, codes
from toprope.trace import PIPES, READ, SPACES, WRITE, Accesses, BufferRow, Trace

_SPACE_NAMES = {
    "gm": "GM",
    "ub": "UB",
    "l1": "L1",
    "l0a": "L0A",
    "l0b": "L0B",
    "l0c": "L0C",
    "bias": "BT",
    "fixbuf": "FB",
}
BLOCK_BYTES = 32
_NEAR_INSTRUCTIONS = 64  # how far back the writer of a neighbouring range is looked for
VECIN, VECOUT = 9, 10  # of TPosition (machine/enums.h)
WEAK = ("", "filler", "edge")  # Weak of input.h
_DOING = {"RAW": ("writing", "reads"), "WAR": ("reading", "writes"), "WAW": ("writing", "writes")}
_DONE = {"RAW": "writes", "WAR": "reads", "WAW": "writes"}


@dataclass(frozen=True)
class Describer:
    """Looks things up in one trace to word its findings."""

    trace: Trace

    def place(self, instr: int, action: str = "") -> Place:
        """Where instruction `instr` (a row of Trace.instrs) stands in the source."""
        row = self.trace.instrs[instr]
        site, op = self.trace.sites[row["site"]], self.trace.ops[row["op"]]
        return Place(site.file, site.line, op.name, self.pipe(instr), action)

    def op(self, instr: int) -> str:
        """Name of the function, e.g. "Add"."""
        return self.trace.ops[int(self.trace.instrs[instr]["op"])].name

    def pipe(self, instr: int) -> str:
        """The pipe it runs on, e.g. "MTE2"."""
        return PIPES[int(self.trace.instrs[instr]["pipe"])]

    def span(self, space: str, begin: int, end: int) -> str:
        """A byte range as a person reads it: UB[0:4096], or the argument's name and offset for GM."""
        if space == "gm":
            for row in self.trace.gm:
                if row.address <= begin < row.address + row.bytes:
                    return f"{row.name}[{begin - row.address}:{end - row.address}]"
        return f"{_SPACE_NAMES[space]}[{begin}:{end}]"

    def buffer_at(self, core: int, space: str, address: int) -> Place | None:
        """The InitBuffer line that handed out this on-chip address on this core."""
        for b in self.trace.buffers:
            if b.core == core and b.space == space and b.address <= address < b.address + b.bytes:
                site = self.trace.sites[b.site]
                return Place(
                    site.file, site.line, "InitBuffer", "", f"gave {self.span(space, b.address, b.address + b.bytes)}"
                )
        return None

    def first_place(self) -> tuple[Place, ...]:
        """Where the kernel starts, as the only place of a finding about the whole run; none if nothing ran."""
        if not len(self.trace.instrs):
            return ()
        site = self.trace.sites[int(self.trace.instrs[0]["site"])]
        return (Place(site.file, site.line, "", "", "the kernel starts here"),)

    def core_name(self, core: int) -> str:
        """How a core is called: "core 3 (aiv)"."""
        return f"core {core} ({self.trace.cores[core].type})"

    def finding(self, cause: Cause) -> Finding | None:
        """The finding that says `cause`; None if it is not worth saying."""
        return {
            "race": self._race,
            "uninitialised": self._uninitialised,
            "missing-clean": self._missing_clean,
            "stale-read": self._stale_read,
            "shared-line": self._shared_line,
            "dirty-at-end": self._dirty_at_end,
            "flag-never-waited": self._flag_never_waited,
            "event-id-collision": self._event_id_collision,
            "barrier-use": self._barrier_use,
            "flag-one-pipe": self._flag_one_pipe,
            "cross-overflow": self._cross_overflow,
            "cross-never-waited": self._cross_never_waited,
        }[cause.code](cause)

    def _make(
        self,
        code: str,
        message: str,
        cause: Cause,
        places: tuple[Place, ...],
        cure: str = "",
        severity: Severity | None = None,
    ) -> Finding:
        row = codes()[code]
        data = {
            "space": _SPACE_NAMES[cause.space],
            "begin": cause.begin,
            "end": cause.end,
            "instr": cause.instr_b,
            "earlier": cause.instr_a,
        }
        return Finding(
            code, severity or row.severity, message, places, cure or row.cure, cause.count, cause.cores, data=data
        )

    def _race(self, cause: Cause) -> Finding:
        a, b = self.pipe(cause.instr_a), self.pipe(cause.instr_b)
        doing, does = _DOING[cause.hazard]
        span = self.span(cause.space, cause.begin, cause.end)
        places = (
            self.place(cause.instr_a, f"{_DONE[cause.hazard]} {span}"),
            self.place(cause.instr_b, f"{does} {span}"),
        )
        if cause.core_a != cause.core_b:
            one, two = self.core_name(cause.core_a), self.core_name(cause.core_b)
            if cause.hazard == "WAW":
                message = f"{one} and {two} both write {span}, and nothing says which of them is last"
                return self._with_hazard(self._make("race-cores-write-same", message, cause, places), cause)
            message = f"{self.op(cause.instr_b)} on {two} {does} {span} while {self.op(cause.instr_a)} on {one} may still be {doing} it"
            return self._with_hazard(self._make("race-between-cores", message, cause, places), cause)
        message = f"{self.op(cause.instr_b)} {does} {span} while {self.op(cause.instr_a)} may still be {doing} it"
        if a == b:
            cure = f"put PipeBarrier<PIPE_{a}>() between them"
            return self._with_hazard(self._make("race-missing-pipe-barrier", message, cause, places, cure), cause)
        cure = f"order them with SetFlag/WaitFlag<HardEvent::{a}_{b}>, or hand the tensor over through a TQue"
        cure = self._queue_cure(cause, a, b) or cure
        return self._with_hazard(self._make("race-unordered-pipes", message, cause, places, cure), cause)

    def _queue_cure(self, cause: Cause, first: str, second: str) -> str:
        """What to do about a race inside a buffer that a queue owns: the queue's position or a forgotten EnQue/DeQue is the mistake."""
        buffer = self._buffer_row(cause.core_b, cause.space, cause.begin)
        if buffer is None or not self._queue_calls(buffer, "alloc"):
            return ""
        moved = self._queue_calls(buffer, "enque", cause.instr_a, cause.instr_b)
        taken = self._queue_calls(buffer, "deque", cause.instr_a, cause.instr_b)
        if (first, second) == ("V", "MTE3") and buffer.position == VECIN and moved and taken:
            return "give the queue of an output the position VECOUT: EnQue and DeQue at VECIN order the copy in before V, not V before the copy out"
        if (first, second) == ("MTE2", "V") and buffer.position == VECOUT and moved and taken:
            return "give the queue of an input the position VECIN: EnQue and DeQue at VECOUT order V before the copy out, not the copy in before V"
        if cause.hazard != "RAW":
            return ""
        if not moved:
            return f"EnQue the tensor behind {self.op(cause.instr_a)} and take it with DeQue before {self.op(cause.instr_b)}"
        return (
            ""
            if taken
            else f"take the tensor with DeQue before {self.op(cause.instr_b)}: EnQue alone waits for nothing"
        )

    def _buffer_row(self, core: int, space: str, address: int) -> BufferRow | None:
        inside = [
            b
            for b in self.trace.buffers
            if b.core == core and b.space == space and b.address <= address < b.address + b.bytes
        ]
        return inside[-1] if inside else None

    def _queue_calls(self, buffer: BufferRow, kind: str, begin: int = -1, end: int = -1) -> int:
        """How many calls of a kind there are on the queue of a buffer, on its core, between two instructions."""
        first = int(self.trace.core_begin[buffer.core]) if begin < 0 else begin
        last = int(self.trace.core_begin[buffer.core + 1]) if end < 0 else end
        rows = self.trace.instrs[first:last]
        of_kind = [i for i, op in enumerate(self.trace.ops) if op.kind == kind]
        return int(np.count_nonzero(np.isin(rows["op"], of_kind) & (rows["work"] == buffer.queue)))

    def _with_hazard(self, finding: Finding, cause: Cause) -> Finding:
        finding.data["hazard"] = cause.hazard
        if cause.core_a != cause.core_b:
            finding.data["atomic"] = self._updates(cause.instr_a) or self._updates(cause.instr_b)
        if cause.later:
            finding.data["later"] = [list(pair) for pair in cause.later]
        return finding

    def _uninitialised(self, cause: Cause) -> Finding:
        span = self.span(cause.space, cause.begin, cause.end)
        message = f"{self.op(cause.instr_b)} reads {span}, which nothing has written on {self.core_name(cause.core_b)}"
        if pitch := self._padded_rows(cause.instr_b, cause.space):
            message += f"; {pitch}"
        buffer = self.buffer_at(cause.core_b, cause.space, cause.begin)
        places = (self.place(cause.instr_b, f"reads {span}"), *([buffer] if buffer else []))
        cure, weak = "", WEAK[cause.detail]
        if weak == "filler":
            message = f"{self.op(cause.instr_b)} reads {span}, filler that DataCopyPad put behind a row to end its 32-byte block: no data"
            cure = "work on the row's own elements only, or give DataCopyPad a padding value (isPad) that does not change the result"
        elif cause.space == "gm" and self._updates(cause.instr_b):
            message = f"{self.op(cause.instr_b)} updates {span} atomically, which nothing has written before"
            cure = "clear the output first: one core writes zeros, SyncAll, then all add; or let the host clear it"
        elif cause.space == "gm" and not weak:
            cure = "write it first, or describe it as an input; if it is an output, look whether arguments are in the order in which the kernel takes them"
        owner = self._buffer_row(cause.core_b, cause.space, cause.begin)
        if owner and not weak and self._queue_calls(owner, "alloc"):
            waiting = self._queue_calls(owner, "enque", end=cause.instr_b) - self._queue_calls(
                owner, "deque", end=cause.instr_b
            )
            if waiting > 0:
                cure = "take the filled tensor out of the queue with DeQue; AllocTensor hands out another buffer, which is empty"
        if not cure and (short := self._written_short(cause)):
            at, written = short
            message += f"; before it, {self.op(at)} wrote {written} only"
            places = (*places[:1], self.place(at, f"writes {written}"), *places[1:])
            cure = f"let {self.op(at)} work on as many elements as {self.op(cause.instr_b)} takes, or take no more than it wrote"
        finding = self._make("uninitialised-read", message, cause, places, cure)
        finding.data["weak"] = weak
        finding.data["tail"] = self._is_tail(cause)
        return finding

    def _written_short(self, cause: Cause) -> tuple[int, str] | None:
        """The instruction that stopped short of the bytes that are missing, and what it wrote: the last one that wrote up to them, on chip."""
        if cause.space == "gm":
            return None
        first, last = int(self.trace.core_begin[cause.core_b]), cause.instr_b
        space = SPACES.index(cause.space)
        for at in range(last - 1, max(first, last - _NEAR_INSTRUCTIONS) - 1, -1):
            only = self._accesses(at)
            ends = only.address + only.row_bytes + np.maximum(only.rows - 1, 0) * np.maximum(only.stride, 0)
            here = (only.space == space) & (only.mode & WRITE > 0) & (ends == cause.begin)
            if here.any():
                return at, self.span(cause.space, int(only.address[here][0]), cause.begin)
        return None

    def _accesses(self, instr: int) -> Accesses:
        first = int(self.trace.instrs["accesses"][:instr].sum(dtype=np.int64))
        return replace(
            self.trace,
            instrs=self.trace.instrs[instr : instr + 1],
            accesses=self.trace.accesses[first : first + int(self.trace.instrs[instr]["accesses"])],
        ).decoded()

    def _updates(self, instr: int) -> bool:
        ranges = self._accesses(instr)
        return bool(np.any((ranges.space == 0) & (ranges.mode == READ | WRITE)))

    def _is_tail(self, cause: Cause) -> bool:
        """Whether a copy out only takes the rest of the last block along, behind bytes that are defined."""
        op = self.trace.ops[int(self.trace.instrs[cause.instr_b]["op"])]
        inside = cause.begin % BLOCK_BYTES > 0 and cause.end % BLOCK_BYTES == 0
        return (
            op.kind == "copy"
            and self.pipe(cause.instr_b) == "MTE3"
            and inside
            and cause.end - cause.begin < BLOCK_BYTES
        )

    def _padded_rows(self, instr: int, space: str) -> str:
        """What to know about a copy of several rows whose length is no multiple of a block: on chip each begins a block of its own."""
        only = self._accesses(instr)
        padded = (only.space == SPACES.index(space)) & (only.rows > 1) & (only.row_bytes % BLOCK_BYTES > 0)
        if not padded.any() or not self.op(instr).startswith("DataCopy"):
            return ""
        length, pitch = int(only.row_bytes[padded][0]), int(only.stride[padded][0])
        return f"its rows of {length} bytes are taken {pitch} bytes apart, because every row of a copy begins a block of {BLOCK_BYTES} bytes"

    def _missing_clean(self, cause: Cause) -> Finding:
        span = self.span(cause.space, cause.begin, cause.end)
        does = _DOING[cause.hazard][1]
        message = (
            f"{self.op(cause.instr_a)} wrote {span} into the scalar cache of {self.core_name(cause.core_a)}, and "
            f"{self.op(cause.instr_b)} {does} it in GM before the cache line was written back"
        )
        places = (self.place(cause.instr_a, f"writes {span}"), self.place(cause.instr_b, f"{does} {span}"))
        return self._make("missing-cache-clean", message, cause, places)

    def _stale_read(self, cause: Cause) -> Finding:
        span = self.span(cause.space, cause.begin, cause.end)
        message = (
            f"{self.op(cause.instr_b)} reads {span} from the scalar cache of {self.core_name(cause.core_b)}, where it still has the value from "
            f"before {self.op(cause.instr_a)} changed it in GM"
        )
        cure = "call DataCacheCleanAndInvalid on this address before reading it again"
        places = (self.place(cause.instr_a, f"writes {span}"), self.place(cause.instr_b, f"reads {span}"))
        return self._make("missing-cache-clean", message, cause, places, cure)

    def _shared_line(self, cause: Cause) -> Finding:
        span = self.span(cause.space, cause.begin, cause.end)
        message = f"{self.core_name(cause.core_a)} and {self.core_name(cause.core_b)} write different bytes of the 64-byte cache line around {span}"
        places = (self.place(cause.instr_a, "writes the same line"), self.place(cause.instr_b, f"writes {span}"))
        return self._make("cores-share-cache-line", message, cause, places)

    def _dirty_at_end(self, cause: Cause) -> Finding:
        name = next((g.name for g in self.trace.gm if g.address <= cause.begin < g.address + g.bytes), "GM")
        scratch = any(word in name.lower() for word in ("workspace", "ws", "sync"))
        message = f"{self.op(cause.instr_a)} wrote to {name} through the scalar cache, and the kernel ends without writing the line back"
        message += "" if scratch else ": what reads it afterwards finds the old bytes"
        place = (self.place(cause.instr_a, f"writes {name}"),)
        return self._make("missing-cache-clean", message, cause, place, severity="warning" if scratch else "error")

    def _event(self, instr: int) -> tuple[str, int]:
        work = int(self.trace.instrs[instr]["work"])
        return f"{PIPES[work >> 16 & 0xFF]}_{PIPES[work >> 8 & 0xFF]}", work & 0xFF

    def _flag_never_waited(self, cause: Cause) -> Finding:
        event, number = self._event(cause.instr_a)
        by = "EnQue or FreeTensor sets" if cause.detail else "SetFlag sets"
        message = (
            f"{by} {event} event {number}, and the kernel ends without a WaitFlag for it: the next kernel finds it set"
        )
        return self._make("flag-never-waited", message, cause, (self.place(cause.instr_a, f"sets {event}"),))

    def _flag_one_pipe(self, cause: Cause) -> Finding:
        pipe = self._event(cause.instr_a)[0].split("_")[0]
        message = f"SetFlag from {pipe} to itself: the pipe would wait for its own later work"
        cure = f"use PipeBarrier<PIPE_{pipe}>()"
        return self._make("flag-on-one-pipe", message, cause, (self.place(cause.instr_a, "sets the flag"),), cure)

    def _event_id_collision(self, cause: Cause) -> Finding:
        event, number = self._event(cause.instr_a)
        message = (
            f"{event} event {number} is used by a queue and by a SetFlag/WaitFlag with a fixed id at the same time"
        )
        places = (
            self.place(cause.instr_a, f"sets {event} {number}"),
            self.place(cause.instr_b, f"uses {event} {number}"),
        )
        return self._make("event-id-collision", message, cause, places)

    def _barrier_use(self, cause: Cause) -> Finding | None:
        pairs = [(f, t) for f in range(8) for t in range(8) if cause.detail >> (f * 8 + t) & 1]
        place = (self.place(cause.instr_a, "waits for every pipe"),)
        if not pairs:
            message = "this PipeBarrier<PIPE_ALL> orders nothing that is not ordered without it"
            return self._make("barrier-too-coarse", message, cause, place, "remove it")
        if len(pairs) > 1 or pairs[0][0] == 7:
            return None
        one, two = PIPES[pairs[0][0]], PIPES[pairs[0][1]]
        enough = f"PipeBarrier<PIPE_{one}>()" if one == two else f"SetFlag/WaitFlag<HardEvent::{one}_{two}>"
        message = f"this PipeBarrier<PIPE_ALL> stops every pipe, but only {two} has to wait for {one}"
        return self._make("barrier-too-coarse", message, cause, place, f"use {enough} instead")

    def _cross_overflow(self, cause: Cause) -> Finding:
        message = f"flag {cause.detail} of {self.core_name(cause.core_b)} can be set 16 times before that core waits for it; its counter ends at 15"
        return self._make(
            "cross-flag-overflow", message, cause, (self.place(cause.instr_a, f"sets flag {cause.detail}"),)
        )

    def _cross_never_waited(self, cause: Cause) -> Finding:
        message = f"flag {cause.detail} of {self.core_name(cause.core_b)} is still set at the end of the kernel: a CrossCoreWaitFlag is missing"
        return self._make(
            "cross-flag-never-waited", message, cause, (self.place(cause.instr_a, f"sets flag {cause.detail}"),)
        )
