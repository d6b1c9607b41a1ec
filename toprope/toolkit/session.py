"""What a program does, as its device library tells: launches are checked and timed, findings collected, questions answered."""

from __future__ import annotations

import hashlib
import json
import mmap
import os
import re
from collections.abc import Callable
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from toprope.fault_lines import frames
from toprope.finding import Finding, Place, codes
from toprope.kernel import Run
from toprope.soc import Soc
from toprope.soc import load as load_soc
from toprope.toolkit.clock import DeviceClock, copy_us
from toprope.trace import (
    ACCESS,
    CORE_TYPES,
    INSTR,
    KINDS,
    NOTE,
    PIPES,
    SPACES,
    Array,
    BufferRow,
    CoreRow,
    GmRow,
    OpRow,
    ReportRow,
    SiteRow,
    Trace,
)
from toprope.unit import RENAMED

_REPORT = np.dtype(
    [("code", "S40"), ("text", "S440"), ("site", "<u4"), ("core", "<u4"), ("op", "<u4"), ("severity", "<u4"), ("count", "<u8"), ("instr", "<u8")]
)  # fmt: skip
_BUFFER = np.dtype(
    [
        ("address", "<u4"),
        ("bytes", "<u4"),
        ("site", "<u4"),
        ("core", "<u2"),
        ("space", "u1"),
        ("position", "u1"),
        ("queue", "<u4"),
    ]
)
REAL, LIBRARY, GENERATED, REFERENCE = "kernel", "library", "generated", "reference"
NAMES = {
    REAL: "your kernels",
    LIBRARY: "library kernels",
    GENERATED: "generated kernels",
    REFERENCE: "references (roofline)",
}
"""Who may answer a launch: the program's or user's own kernels, an operator of the library, a kernel of the tile language, a reference."""
OTHERS = "block of "  # how a device block is called that no argument of the launch points to


@dataclass(frozen=True)
class LaunchRow:
    """One kernel launch of a program: name, blocks, predicted microseconds, stream, the line that launched it, and the band of its device time."""

    kernel: str
    blocks: int
    microseconds: float
    file: str
    line: int
    stream: int = 0
    executor: str = REAL
    low_us: float | None = None
    high_us: float | None = None


@dataclass(frozen=True)
class CopyRow:
    """One copy: the call, its direction (H2D, D2H, D2D, H2H, fill), bytes, predicted microseconds, its line, and whether its host side is pinned."""

    call: str
    way: str
    bytes: int
    microseconds: float
    file: str
    line: int
    mapped: bool


@dataclass
class Session:
    """One program, from its first use of the device to its end."""

    program: str = ""
    pid: int = 0
    soc: Soc | None = None
    code: int | None = None
    launches: list[LaunchRow] = field(default_factory=list)
    copies: list[CopyRow] = field(default_factory=list)
    found: dict[tuple[Any, ...], Finding] = field(default_factory=dict)
    streams: dict[int, str] = field(default_factory=dict)
    clock: DeviceClock | None = None
    memory: mmap.mmap | None = None
    memory_bytes: dict[str, int] = field(default_factory=lambda: {"live": 0, "peak": 0, "host": 0, "host_peak": 0})
    planner_for: Callable[[Session], Any] = lambda session: None
    planner: Any = None  # answers aclnn calls; made when the first is made
    executors: dict[str, str] = field(
        default_factory=dict
    )  # kernel, as a launch shows it, to who answered; others are the program's own
    why: dict[str, str] = field(default_factory=dict)  # aclnn function to why no kernel answered it
    operators: dict[str, Any] = field(default_factory=dict)  # projects that the caller has loaded, by file name
    _known: dict[bytes, tuple[tuple[float, float, float], list[Finding]]] = field(default_factory=dict)

    @property
    def findings(self) -> list[Finding]:
        """What was found, each cause once."""
        return list(self.found.values())

    def take(self, message: dict[str, Any], payload: bytes) -> tuple[str, bytes] | None:
        """Take one message; the answer, if it asks for one."""
        handle: Callable[..., tuple[str, bytes] | None] = getattr(self, f"_on_{message['t']}")
        return handle(message, payload)

    def add(self, finding: Finding) -> None:
        """Keep a finding; the same cause at the same place counts up."""
        key = (finding.code, tuple((p.file, p.line) for p in finding.places), "" if finding.places else finding.message)
        known = self.found.get(key)
        self.found[key] = replace(finding, count=finding.count + (known.count if known else 0))

    # ---- messages ---------------------------------------------------------------------------------------------------------

    def _on_hello(self, message: dict[str, Any], payload: bytes) -> None:
        self.program, self.pid = message["program"], message["pid"]
        self.soc = load_soc(message["soc"])
        self.clock = DeviceClock(self.soc.aic, self.soc.aiv)

    def share(self, memory_file: int) -> None:
        """The file that holds the device memory."""
        size = os.fstat(memory_file).st_size
        self.memory = mmap.mmap(memory_file, size, mmap.MAP_SHARED | getattr(mmap, "MAP_NORESERVE", 0x4000))
        os.close(memory_file)

    def release(self) -> None:
        """Let go of the device memory: its address range is large, and a command may start hundreds of programs."""
        self.planner = self.memory = None
        self._known.clear()

    def _on_stream(self, message: dict[str, Any], payload: bytes) -> None:
        self.streams[message["id"]] = "default stream" if message.get("handle") else f"stream {message['id']}"

    def _on_stream_end(self, message: dict[str, Any], payload: bytes) -> None:
        pass

    def _on_malloc(self, message: dict[str, Any], payload: bytes) -> None:
        where = "live" if message["device"] else "host"
        self.memory_bytes[where] += message["bytes"]
        peak = "peak" if message["device"] else "host_peak"
        self.memory_bytes[peak] = max(self.memory_bytes[peak], self.memory_bytes[where])

    def _on_free(self, message: dict[str, Any], payload: bytes) -> None:
        self.memory_bytes["live" if message["device"] else "host"] -= message["bytes"]

    def _on_finding(self, message: dict[str, Any], payload: bytes) -> None:
        if "stack" in message:
            place = next((p for p in map(_place, message["stack"]) if p.line and _is_users(p.file)), None) or _place(
                message["last_call"]
            )
            first = replace(place, action=message["action"])
        else:
            first = _place(message["at"], message["action"])
        places = [first]
        if "other" in message:
            places.append(_place(message["other"], message["other_action"]))
        row, text, severity = codes()[message["code"]], message["message"], codes()[message["code"]].severity
        if message["code"] == "acl-leak" and not first.line and ".so" in Path(first.file).name:
            # Such as torch_npu, which keeps its streams until the process ends.
            text += ", by a library without debug lines, which is hardly yours"
            severity = "advice"
        self.add(Finding(message["code"], severity, text, tuple(p for p in places if p.file), row.cure))

    def _on_refused(self, message: dict[str, Any], payload: bytes) -> None:
        place = _place(message["at"], "launches")
        cure = message.get("cure") or codes()["launch-refused"].cure
        self.add(Finding("launch-refused", "error", message["message"], (place,) if place.file else (), cure))

    def _on_sync(self, message: dict[str, Any], payload: bytes) -> None:
        assert self.clock is not None
        self.clock.sync(message["stream"], message["number"], message["epoch"])

    def _on_event(self, message: dict[str, Any], payload: bytes) -> None:
        assert self.clock is not None
        self.clock.event(message["mark"], message["stream"], message["number"], message["epoch"])

    def _on_wait(self, message: dict[str, Any], payload: bytes) -> None:
        assert self.clock is not None
        self.clock.wait(message["mark"], message["stream"], message["number"], message["epoch"])

    def _on_elapsed(self, message: dict[str, Any], payload: bytes) -> tuple[str, bytes]:
        assert self.clock is not None
        return f"{(self.clock.at(message['to']) - self.clock.at(message['from'])) / 1000:.9g}", b""

    def _on_moment(self, message: dict[str, Any], payload: bytes) -> tuple[str, bytes]:
        assert self.clock is not None
        return str(int(self.clock.at(message["mark"]))), b""

    def _on_copy(self, message: dict[str, Any], payload: bytes) -> None:
        assert self.clock is not None and self.soc is not None
        us = copy_us(self.soc, message["way"], message["bytes"], mapped=bool(message["mapped"]))
        place = _place(message["at"])
        self.copies.append(
            CopyRow(
                message["call"], message["way"], message["bytes"], us, place.file, place.line, bool(message["mapped"])
            )
        )
        stream = message.get("stream", 0)
        self.clock.copy(
            f"{message['way']} {message['bytes']} B",
            message["way"],
            stream,
            message.get("number", 0),
            message.get("epoch", 0),
            us,
            message["call"],
        )

    def _on_end(self, message: dict[str, Any], payload: bytes) -> None:
        self.code = message["code"]

    def _on_launch(self, message: dict[str, Any], payload: bytes) -> None:
        assert self.soc is not None and self.clock is not None
        digest = hashlib.blake2b(
            json.dumps([message[k] for k in ("kernel", "blocks", "gm", "counts", "ops", "sites", "signal")]).encode(),
            digest_size=16,
        )
        digest.update(payload)
        key = digest.digest()
        if key not in self._known:
            trace = trace_of(message, payload, self.soc)
            run = Run(message["kernel"], self.soc, message["blocks"], {}, trace)
            # Every device block is GM to the launch; that it leaves others' blocks alone is no news.
            found = [replace(f, data={}) for f in run.findings if f"the argument {OTHERS}" not in f.message]
            band = run.timeline.band
            self._known[key] = (run.timeline.microseconds, float(band.low_us), float(band.high_us)), found
        (us, low, high), findings = self._known[key]
        place = _place(message["at"])
        name = str(message["kernel"]).replace(RENAMED, "")
        at = place.file, place.line, message["stream"]
        executor = self.executors.get(name, REAL)
        self.launches.append(LaunchRow(name, message["blocks"], us, *at, executor, low_us=low, high_us=high))
        for finding in findings:
            self.add(finding)
        kinds = [CORE_TYPES[c[2]] for c in message["cores"]]
        cores = (kinds.count("aic") + kinds.count("coupled"), kinds.count("aiv"))
        where = f"{os.path.basename(place.file)}:{place.line}"
        self.clock.kernel(name, message["stream"], message["number"], message["epoch"], us, cores, where)

    def _on_plan(self, message: dict[str, Any], payload: bytes) -> tuple[str, bytes]:
        return self._planner().plan(message)  # type: ignore[no-any-return]

    def _on_execute(self, message: dict[str, Any], payload: bytes) -> tuple[str, bytes]:
        return self._planner().execute(message)  # type: ignore[no-any-return]

    def _planner(self) -> Any:
        if self.planner is None:
            self.planner = self.planner_for(self)
        return self.planner

    def place(self, at: list[Any]) -> tuple[str, int]:
        """The file and line of a place as the device library writes it."""
        found = _place(at)
        return found.file, found.line

    # ---- views --------------------------------------------------------------------------------------------------------------

    def bytes_at(self, offset: int, size: int) -> Array:
        """Device memory as bytes, in place. `offset` counts in the memory file."""
        assert self.memory is not None
        return np.frombuffer(self.memory, np.uint8, size, offset)


@dataclass
class Finished:
    """What a command left. `code` is its exit code, or minus the signal that ended it; `timed_out` says who sent that."""

    code: int
    sessions: list[Session] = field(default_factory=list)
    timed_out: bool = False

    @property
    def findings(self) -> list[Finding]:
        """The findings of all programs that the command started."""
        return [f for s in self.sessions for f in s.findings]

    @property
    def errors(self) -> int:
        """Findings of severity error."""
        return sum(f.severity == "error" for f in self.findings)


def trace_of(message: dict[str, Any], payload: bytes, soc: Soc) -> Trace:
    """A launch's trace as the device library sends it: tables as JSON, columns as bytes."""
    counts = np.array(message["counts"], np.int64).reshape(-1, 2)
    n_instrs, n_accesses = map(int, counts.sum(axis=0))
    at = 0

    def column(row: np.dtype[Any], n: int) -> Array:
        nonlocal at
        out = np.frombuffer(payload, row, n, at).copy()
        at += n * row.itemsize
        return out

    instrs, accesses = column(INSTR, n_instrs), column(ACCESS, n_accesses)
    reports, buffers = column(_REPORT, message["reports"]), column(_BUFFER, message["buffers"])
    sites: dict[SiteRow, int] = {}
    remap = np.array([sites.setdefault(SiteRow(f, n), len(sites)) for f, n in message["sites"]] or [0], np.uint32)
    if len(sites) != len(remap):
        instrs["site"] = remap[instrs["site"]]
    return Trace(
        kernel=message["kernel"],
        soc=soc.name,
        blocks=message["blocks"],
        mixed=bool(message["mixed"]),
        ratio=message["ratio"],
        ops=tuple(OpRow(n, PIPES[p], KINDS[k], c) for n, p, k, c in message["ops"]),
        sites=tuple(sites),
        cores=tuple(CoreRow(b, s, CORE_TYPES[t]) for b, s, t in message["cores"]),
        gm=tuple(GmRow(n, a, b) for n, a, b in message["gm"]),
        buffers=tuple(
            BufferRow(int(b["core"]), SPACES[b["space"]], int(b["address"]), int(b["bytes"]), int(b["position"]), int(b["queue"]), int(remap[b["site"]]))
            for b in buffers
        ),
        reports=tuple(
            ReportRow(
                r["code"].decode(), r["text"].decode(errors="replace"), int(remap[r["site"]]), int(r["core"]), int(r["op"]), int(r["severity"]),
                int(r["count"]), int(r["instr"]),
            )
            for r in reports
            if r["severity"] != NOTE
        ),
        notes=tuple(
            ReportRow(
                r["code"].decode(), r["text"].decode(errors="replace"), int(remap[r["site"]]), int(r["core"]), int(r["op"]), NOTE,
                int(r["count"]), int(r["instr"]),
            )
            for r in reports
            if r["severity"] == NOTE
        ),
        instrs=instrs,
        accesses=accesses,
        core_begin=np.cumsum([0, *counts[:, 0]]),
        access_begin=np.cumsum([0, *counts[:, 1]]),
        signal=message["signal"],
    )  # fmt: skip


def _place(at: list[Any], action: str = "") -> Place:
    """A place as the device library writes it: file and line, or a module and minus the offset of an address in it."""
    file, line = at
    if line < 0 or (
        line == 0 and file.startswith("/") and not file.endswith((".cpp", ".asc", ".h", ".c", ".cc", ".cxx"))
    ):
        told = frames(file, -line)
        file, line = told[0] if told else (file, 0)
    return Place(file, line, action=action)


def _is_users(file: str) -> bool:
    return not re.search(r"/toolkit/runtime/|/libascendcl\.so|/usr/include/|/sysdeps/", file)


def as_row(finding: Finding) -> dict[str, Any]:
    """A finding as JSON-ready data."""
    return asdict(finding)
