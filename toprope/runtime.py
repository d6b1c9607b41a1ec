"""The bridge to the C++ runtime (ascendc/machine/runtime.cpp): run a launch on the software machine, get a Trace back."""

from __future__ import annotations

import ctypes as c
import mmap
import os
import select
import signal
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np

from toprope import dtypes, image, shared
from toprope.build import shared_library
from toprope.errors import BadArgument, BadInput
from toprope.soc import Soc
from toprope.trace import (
    ACCESS,
    CORE_TYPES,
    INSTR,
    NOTE,
    SPACES,
    CoreRow,
    GmRow,
    ReportRow,
    SiteRow,
    Trace,
)
from toprope.vendor_paths import INCLUDE

GM_BASE = 0x1000_0000  # first GM address in a trace; the same in every run
GM_ALIGN = 512


class _CoreSpec(c.Structure):
    _fields_ = [("block", c.c_uint16), ("sub", c.c_uint8), ("type", c.c_uint8)]


class _GmBuffer(c.Structure):
    _fields_ = [("host", c.c_void_p), ("bytes", c.c_uint64), ("device", c.c_uint64), ("name", c.c_char * 40)]


class _Launch(c.Structure):
    _fields_ = [
        ("entries", c.c_void_p * 3),
        ("arguments", c.POINTER(c.c_void_p)),
        ("cores", c.POINTER(_CoreSpec)),
        ("core_count", c.c_uint32),
        ("blocks", c.c_uint32),
        ("ratio", c.c_uint32),
        ("mixed", c.c_uint32),
        ("execute", c.c_uint32),
        ("check_contracts", c.c_uint32),
        ("space_bytes", (c.c_uint32 * len(SPACES)) * 3),
        ("tiling_key", c.c_uint64),
        ("time_limit_s", c.c_double),
        ("gm_count", c.c_uint32),
        ("gm", c.POINTER(_GmBuffer)),
        ("system_workspace", c.c_void_p),
        ("system_workspace_bytes", c.c_uint64),
        ("capture_limit_bytes", c.c_uint64),
        ("delay", c.c_void_p),
        ("core_order", c.POINTER(c.c_uint32)),
        ("poison_flipped", c.c_uint32),
        ("trace_limit_bytes", c.c_uint64),
        ("cut_instrs", c.c_uint64),
    ]


class _Child(c.Structure):
    _fields_ = [
        ("libraries", c.c_char_p * 3),
        ("symbol", c.c_char_p),
        ("argument_bytes", c.POINTER(c.c_uint32)),
        ("argument_count", c.c_uint32),
        ("report", c.c_int32),
        ("quiet", c.c_int32),
        ("parent", c.c_int32),
    ]


class _Delayed(c.Structure):
    _fields_ = [
        ("instr", c.c_uint64),
        ("accesses", c.c_void_p),
        ("core", c.c_uint32),
        ("access_count", c.c_uint32),
        ("op", c.c_uint32),
        ("line", c.c_uint32),
    ]


class _Delay(c.Structure):
    _fields_ = [
        ("late", _Delayed),
        ("early", _Delayed),
        ("kind", c.c_uint32),
        ("happened", c.c_uint32),
        ("before", c.c_void_p),
        ("after", c.c_void_p),
    ]


@dataclass(frozen=True)
class GmArgument:
    """A host buffer that the kernel sees as GM. `array` stays the caller's: the kernel works on it in place."""

    name: str
    array: np.ndarray[Any, Any]


DELAYS = ("write", "observe", "read")


@dataclass
class Delay:
    """A schedule that differs from program order in one place: instruction `late` takes effect after `early` (rows of `Trace.instrs`
    of a run with the same arguments).

    `kind` is what `late` does: "write" bytes that `early` touches, or "read" what `early` writes; the latter needs `before` and
    `after`, which a run with "observe" fills in. After the run `happened` says whether any byte was different.
    """

    trace: Trace
    late: int
    early: int
    kind: str
    before: np.ndarray[Any, Any] | None = None
    after: np.ndarray[Any, Any] | None = None
    happened: bool = False

    def _delayed(self, instr: int) -> _Delayed:
        trace, row = self.trace, self.trace.instrs[instr]
        core = int(np.searchsorted(trace.core_begin, instr, "right")) - 1
        first = int(trace.instrs["accesses"][:instr].sum(dtype=np.int64))
        return _Delayed(
            instr - int(trace.core_begin[core]), trace.accesses[first:].ctypes.data, core, int(row["accesses"]), int(row["op"]),
            trace.sites[int(row["site"])].line,
        )  # fmt: skip

    def native(self) -> _Delay:
        """As the runtime takes it; the arrays stay owned by this object."""
        # Both are filled in by the process that runs the kernel.
        out = _Delay.from_buffer(mmap.mmap(-1, c.sizeof(_Delay)))
        out.late, out.early, out.kind = self._delayed(self.late), self._delayed(self.early), DELAYS.index(self.kind)
        if self.kind != "write":
            if self.before is None or self.after is None:
                early = self.trace.decoded().sizes()[self.trace.decoded().instr == self.early]
                size = int(early.sum()) + 1
                self.before, self.after = (np.frombuffer(mmap.mmap(-1, size), np.uint8) for _ in range(2))
            out.before, out.after = self.before.ctypes.data, self.after.ctypes.data
        return out


@dataclass(frozen=True)
class Apart:
    """A kernel that runs in a process of its own: its library by core type, the name of its launcher, the bytes of each argument, and
    the line of the entry, for a process that ends without another word. `quiet`: what it prints goes to standard error."""

    libraries: Mapping[str, Path]
    symbol: str
    argument_bytes: Sequence[int]
    signature: str
    place: SiteRow
    quiet: bool = False


@dataclass(frozen=True)
class Launch:
    """Everything a run needs. `entries` maps core type (aiv, aic, coupled) to the address of the launcher function of that build, unless
    the kernel runs `apart`; `arguments` are the addresses of the argument values, in order; `cores` says which cores run."""

    kernel: str
    arguments: Sequence[int]
    gm: Sequence[GmArgument]
    cores: Sequence[CoreRow]
    blocks: int
    ratio: int
    mixed: bool
    entries: Mapping[str, int] = field(default_factory=dict)
    apart: Apart | None = None
    tiling_key: int = 0
    execute: bool = True
    check_contracts: bool = True
    time_limit_s: float = 0.0
    system_workspace: np.ndarray[Any, Any] | None = None
    capture_limit_bytes: int = 0
    delay: Delay | None = None
    core_order: Sequence[int] = ()  # which core runs first, next, ...; empty: as numbered
    before: Mapping[str, bytes] = field(
        default_factory=dict, repr=False
    )  # small arguments as they were, for a second run
    owner: Any = field(default=None, repr=False, compare=False)  # keeps what the addresses point to
    poison: int = 0xFF  # the byte that memory holds where nothing has been written
    trace_limit_bytes: int = 0  # 0: a quarter of the memory, at most 4 GiB


KEPT_OF_ENDLESS = 200_000
"""Instructions that are kept of a run that a limit has ended: enough to see what it does, few enough to be checked at once."""


_SMALL_BYTES = 1 << 16


def small_arguments(gm: Sequence[GmArgument]) -> dict[str, bytes]:
    """What `Launch.before` keeps: the contents of arguments so small that nobody notices the copy, flags and counters above all."""
    return {g.name: g.array.tobytes() for g in gm if g.array.nbytes <= _SMALL_BYTES}


# Which memories a core type has; the others have size 0 there.
SPACES_OF = {
    "aiv": {"ub"},
    "aic": {"l1", "l0a", "l0b", "l0c", "bias", "fixbuf"},
    "coupled": {"ub", "l1", "l0a", "l0b", "l0c", "bias", "fixbuf"},
}


def library_path() -> Path:
    """The compiled runtime, built on first use."""
    # A name of its own: whoever links to it finds the one that the process has loaded already, wherever that lies.
    named = ("-Wl,-soname,libtoprope_machine.so",) if sys.platform == "linux" else ()
    return shared_library(INCLUDE / "machine" / "runtime.cpp", extra=named)


@cache
def _library() -> c.CDLL:
    lib = c.CDLL(str(library_path()), mode=c.RTLD_GLOBAL)
    lib.toprope_run.argtypes = [c.POINTER(_Launch)]
    lib.toprope_share.restype = c.c_void_p
    return lib


def empty(shape: int | Sequence[int], dtype: Any = np.float32) -> np.ndarray[Any, Any]:
    """An array of zeros in memory that a kernel's process shares: launches take it in place, without a copy there and back."""
    return shared.allocate(_library(), shape, dtype)


def load_kernel_library(path: Path) -> c.CDLL:
    """Load a compiled kernel into this process; the runtime is loaded first because kernels link to it."""
    _library()
    return c.CDLL(str(path))


def run(launch: Launch, soc: Soc) -> Trace:
    """Run every core of the launch to its end and return the trace. Outputs are written into the GM arrays.

    Raises BadArgument if the kernel takes arguments of other sizes, BadInput if its library cannot be loaded.
    """
    lib = _library()
    if launch.apart is None:
        return _run(lib, launch, soc, launch.gm, launch.arguments, partial(_here, lib))
    if not launch.execute:  # nothing is written
        go = partial(_apart, lib, launch)
        return _run(lib, launch, soc, launch.gm, launch.arguments, go)
    names = [a.name for a in launch.gm]
    with shared.moved(lib, [a.array for a in launch.gm]) as (arrays, back):
        gm = [GmArgument(n, a) for n, a in zip(names, arrays, strict=True)]
        values = {a.array.ctypes.data: g.array.ctypes.data for a, g in zip(launch.gm, gm, strict=True)}
        sizes = launch.apart.argument_bytes
        pointers = [_moved_pointer(a, values) if n == 8 else None for a, n in zip(launch.arguments, sizes, strict=True)]
        arguments = [p.ctypes.data if p is not None else a for p, a in zip(pointers, launch.arguments, strict=True)]
        trace = _run(lib, launch, soc, gm, arguments, partial(_apart, lib, launch))
        touched = back()
    return trace if not touched else _with_overruns(trace, [(names[i], side) for i, side in touched])


def _moved_pointer(address: int, values: Mapping[int, int]) -> np.ndarray[Any, Any] | None:
    """A pointer argument (the value lies at `address`) that points into an array that was moved, as it must be now."""
    value = c.c_uint64.from_address(address).value
    return np.array([values[value]], np.uint64) if value in values else None


def _with_overruns(trace: Trace, touched: Sequence[tuple[str, str]]) -> Trace:
    sizes = {row.name: row.bytes for row in trace.gm}
    extra = tuple(
        ReportRow(
            "gm-out-of-bounds", f"memory {side} {name} ({sizes[name]} bytes) was written through a raw pointer", 0, 0, 0xFFFF, 0, 1, 0
        )
        for name, side in touched
    )  # fmt: skip
    sites = trace.sites or (SiteRow("", 0),)
    return replace(trace, reports=(*trace.reports, *extra), sites=sites)


def _run(
    lib: c.CDLL,
    launch: Launch,
    soc: Soc,
    gm: Sequence[GmArgument],
    arguments: Sequence[int],
    go: Callable[[_Launch, int], ReportRow | None],
) -> Trace:
    """Lay the launch out as the runtime reads it, let it `go`, read its report."""
    native = _Launch()
    for i, core_type in enumerate(CORE_TYPES):
        native.entries[i] = launch.entries.get(core_type)
        for s, space in enumerate(SPACES):
            native.space_bytes[i][s] = soc.bytes_of(space) if space in SPACES_OF[core_type] else 0
    addresses = (c.c_void_p * max(1, len(arguments)))(*arguments)
    native.arguments = addresses
    cores = (_CoreSpec * len(launch.cores))(
        *(_CoreSpec(k.block, k.sub, CORE_TYPES.index(k.type)) for k in launch.cores)
    )
    native.cores, native.core_count = cores, len(launch.cores)
    native.blocks, native.ratio, native.mixed = launch.blocks, launch.ratio, launch.mixed
    native.execute, native.check_contracts = launch.execute, launch.check_contracts
    native.tiling_key, native.time_limit_s = launch.tiling_key, launch.time_limit_s
    native.trace_limit_bytes = launch.trace_limit_bytes or trace_limit_bytes()
    native.cut_instrs = KEPT_OF_ENDLESS
    placed = list(gm)
    if launch.system_workspace is not None:  # the library's own copies pass through it
        placed.append(GmArgument("system workspace", launch.system_workspace))
    gm_rows, native_gm = _place(placed)
    native.gm, native.gm_count = native_gm, len(placed)
    if launch.system_workspace is not None:
        native.system_workspace = launch.system_workspace.ctypes.data
        native.system_workspace_bytes = launch.system_workspace.nbytes
    native.capture_limit_bytes = launch.capture_limit_bytes
    delay = launch.delay.native() if launch.delay else None
    native.delay = c.addressof(delay) if delay else None
    if launch.core_order:
        native.core_order = (c.c_uint32 * len(launch.cores))(*launch.core_order)
    native.poison_flipped = launch.poison ^ 0xFF
    file = image.new_file()
    try:
        ended = go(native, file)
        report = image.read(file)
    finally:
        os.close(file)
    if launch.delay and delay:
        launch.delay.happened = bool(delay.happened)
    return _trace(launch, soc, gm_rows, report, ended)


def trace_limit_bytes() -> int:
    """Up to which size a run is recorded: a quarter of the memory of this machine, at most 4 GiB."""
    try:
        memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (ValueError, OSError):
        memory = 16 << 30
    return min(4 << 30, memory // 4)


def _here(lib: c.CDLL, native: _Launch, file: int) -> ReportRow | None:
    lib.toprope_run(c.byref(native))
    try:
        lib.toprope_save(file)
    finally:
        lib.toprope_release()
    return None


def _apart(lib: c.CDLL, launch: Launch, native: _Launch, file: int) -> ReportRow | None:
    """Run in a process of its own and wait for it. What it says of a process that ended without a report."""
    assert launch.apart is not None
    libraries = [launch.apart.libraries.get(t) for t in CORE_TYPES]
    child = _Child(
        (c.c_char_p * 3)(*[os.fsencode(p) if p else None for p in libraries]),
        launch.apart.symbol.encode(),
        (c.c_uint32 * max(1, len(launch.apart.argument_bytes)))(*launch.apart.argument_bytes),
        len(launch.apart.argument_bytes),
        file,
        launch.apart.quiet,
        os.getpid(),
    )
    pid = lib.toprope_start(c.byref(native), c.byref(child))
    if pid < 0:
        raise BadInput(f"the kernel's process cannot be started: {os.strerror(-pid)}", cure="close other programs")
    status = None
    try:
        status = _awaited(pid, file, launch.time_limit_s)
    finally:
        # Whatever ends the wait ends the child, and what it may have started.
        with suppress(OSError):
            os.killpg(pid, signal.SIGKILL)
        if status is None:
            with suppress(OSError):
                os.waitpid(pid, 0)
    return _end_of(status, image.stage(file), launch)


def _awaited(pid: int, file: int, limit_s: float) -> int | None:
    """The wait status of a child; None if it is still there when its time is over (it stops itself at the limit, if it can)."""
    deadline = time.monotonic() + limit_s + max(0.5, 0.2 * limit_s) if limit_s else float("inf")
    poll, pause = select.poll(), 0.0005
    try:
        watch = os.pidfd_open(pid)
    except (AttributeError, OSError):
        watch = -1
    try:
        if watch >= 0:
            poll.register(watch, select.POLLIN)
        while True:
            done, status = os.waitpid(pid, os.WNOHANG)
            if done:
                return status
            # Saving a long record takes a while, and is no endless loop.
            if time.monotonic() > deadline and image.stage(file) != image.SAVING:
                return None
            if watch >= 0:
                poll.poll(max(1.0, min(1000.0, (deadline - time.monotonic()) * 1000)))
            else:
                time.sleep(pause)
                pause = min(pause * 1.5, 0.02)
    finally:
        if watch >= 0:
            os.close(watch)


def _end_of(status: int | None, stage: int, launch: Launch) -> ReportRow | None:
    """The finding about a process that ended before its report was complete; None if it is complete."""
    during = (
        "while its library was loaded (a constructor of a global object)" if stage < image.RUNNING else "while it ran"
    )
    if status is None:
        code, text = (
            "kernel-time-limit",
            f"the kernel did not end within {launch.time_limit_s:g} s and could not be interrupted",
        )
    elif os.WIFSIGNALED(status):
        number = os.WTERMSIG(status)
        why = "; too little memory is a common cause" if number == signal.SIGKILL else ""
        code, text = (
            "kernel-crash",
            f"the kernel's process died of signal {number} ({signal.strsignal(number)}) {during}{why}",
        )
    else:
        exit_code = os.WEXITSTATUS(status)
        code, text = "kernel-exit", f"the kernel ended its process {during}, by exit(), _exit() or the like"
        if exit_code == 4 and stage == image.SAVING:
            code, text = "kernel-crash", "the record of the run could not be handed over: too little memory"
    return ReportRow(code, text, 0, 0, 0xFFFF, 0, 1, 0)


def _place(arguments: Sequence[GmArgument]) -> tuple[tuple[GmRow, ...], Any]:
    rows, native = [], (_GmBuffer * max(1, len(arguments)))()
    address = GM_BASE
    for i, argument in enumerate(arguments):
        native[i] = _GmBuffer(argument.array.ctypes.data, argument.array.nbytes, address, argument.name.encode()[:39])
        rows.append(GmRow(argument.name, address, argument.array.nbytes, _dtype_name(argument.array)))
        address += -(-argument.array.nbytes // GM_ALIGN) * GM_ALIGN + GM_ALIGN
    return tuple(rows), native


def _dtype_name(array: np.ndarray[Any, Any]) -> str:
    with suppress(BadArgument):
        return dtypes.of_array(array).name
    return ""


def _trace(
    launch: Launch, soc: Soc, gm: tuple[GmRow, ...], report: image.Image | image.NoImage, ended: ReportRow | None
) -> Trace:
    known = (launch.kernel, soc.name, launch.blocks, launch.mixed, launch.ratio)
    if isinstance(report, image.Image):
        # Before its first instruction a core is at the beginning of its kernel.
        begin = launch.apart.place if launch.apart else SiteRow("", 0)
        return Trace(
            *known,
            ops=report.ops,
            sites=tuple(s if s.file else begin for s in report.sites),
            cores=tuple(launch.cores),
            gm=gm,
            buffers=report.buffers,
            views=report.views,
            reports=tuple(r for r in report.reports if r.severity < NOTE),
            notes=tuple(r for r in report.reports if r.severity == NOTE),
            instrs=report.instrs,
            accesses=report.accesses,
            core_begin=report.core_begin,
            access_begin=report.access_begin,
            signal=report.signal,
            values=report.values if launch.capture_limit_bytes else None,
            left_out=report.left_out,
            crash=(CORE_TYPES[report.crash[0]], report.crash[1]) if report.crash else None,
        )
    apart = launch.apart
    assert apart is not None and ended is not None
    if report.sizes and list(report.sizes) != list(apart.argument_bytes):
        raise BadArgument(
            f"{launch.kernel} takes arguments of {list(report.sizes)} bytes, {list(apart.argument_bytes)} were given",
            cure=f"signature: {apart.signature}",
        )
    if report.stage == image.REFUSED:
        missing = report.text.partition("undefined symbol: ")[2]
        raise BadInput(
            f"the kernel cannot be loaded: {f'it uses {missing}, which its source does not define' if missing else report.text}",
            cure="define it in the kernel's source or a header of it",
        )
    nothing = np.zeros(len(launch.cores) + 1, np.int64)
    return Trace(
        *known,
        ops=(),
        sites=(apart.place,),
        cores=tuple(launch.cores),
        gm=gm,
        buffers=(),
        reports=(ended,),
        instrs=np.empty(0, INSTR),
        accesses=np.empty(0, ACCESS),
        core_begin=nothing,
        access_begin=nothing,
        signal=int(signal.SIGKILL),
    )
