"""The bridge to the C++ runtime (ascendc/machine/runtime.cpp): run a launch on the software machine, get a Trace back."""

from __future__ import annotations

import ctypes as c
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from toprope.build import shared_library
from toprope.soc import Soc
from toprope.trace import (
    ACCESS,
    CAPTURED,
    CORE_TYPES,
    INSTR,
    KINDS,
    PIPES,
    SPACES,
    BufferRow,
    CoreRow,
    GmRow,
    OpRow,
    ReportRow,
    SiteRow,
    Trace,
    Values,
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


class _Report(c.Structure):
    _fields_ = [
        ("code", c.c_char * 40),
        ("text", c.c_char * 440),
        ("site", c.c_uint32),
        ("core", c.c_uint32),
        ("op", c.c_uint32),
        ("severity", c.c_uint32),
        ("count", c.c_uint64),
        ("instr", c.c_uint64),
    ]


class _Buffer(c.Structure):
    _fields_ = [
        ("address", c.c_uint32),
        ("bytes", c.c_uint32),
        ("site", c.c_uint32),
        ("core", c.c_uint16),
        ("space", c.c_uint8),
        ("position", c.c_uint8),
        ("queue", c.c_uint32),
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
        out = _Delay(self._delayed(self.late), self._delayed(self.early), DELAYS.index(self.kind))
        if self.kind != "write":
            if self.before is None or self.after is None:
                early = self.trace.decoded().sizes()[self.trace.decoded().instr == self.early]
                self.before, self.after = (np.zeros(int(early.sum()) + 1, np.uint8) for _ in range(2))
            out.before, out.after = self.before.ctypes.data, self.after.ctypes.data
        return out


@dataclass(frozen=True)
class Launch:
    """Everything a run needs. `entries` maps core type (aiv, aic, coupled) to the address of the launcher function of that build;
    `arguments` are the addresses of the argument values, in order; `cores` says which cores run."""

    kernel: str
    entries: dict[str, int]
    arguments: Sequence[int]
    gm: Sequence[GmArgument]
    cores: Sequence[CoreRow]
    blocks: int
    ratio: int
    mixed: bool
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
    lib.toprope_reports.restype = c.POINTER(_Report)
    lib.toprope_buffers.restype = c.POINTER(_Buffer)
    for name in ("site", "op", "report", "buffer"):
        getattr(lib, f"toprope_{name}_count").restype = c.c_uint64
    return lib


def load_kernel_library(path: Path) -> c.CDLL:
    """Load a compiled kernel; the runtime is loaded first because kernels link to it."""
    _library()
    return c.CDLL(str(path))


def run(launch: Launch, soc: Soc) -> Trace:
    """Run every core of the launch to its end and return the trace. Outputs are written into the GM arrays."""
    lib = _library()
    native = _Launch()
    for i, core_type in enumerate(CORE_TYPES):
        native.entries[i] = launch.entries.get(core_type)
        for s, space in enumerate(SPACES):
            native.space_bytes[i][s] = soc.bytes_of(space) if space in SPACES_OF[core_type] else 0
    arguments = (c.c_void_p * max(1, len(launch.arguments)))(*launch.arguments)
    native.arguments = arguments
    cores = (_CoreSpec * len(launch.cores))(
        *(_CoreSpec(k.block, k.sub, CORE_TYPES.index(k.type)) for k in launch.cores)
    )
    native.cores, native.core_count = cores, len(launch.cores)
    native.blocks, native.ratio, native.mixed = launch.blocks, launch.ratio, launch.mixed
    native.execute, native.check_contracts = launch.execute, launch.check_contracts
    native.tiling_key, native.time_limit_s = launch.tiling_key, launch.time_limit_s
    placed = list(launch.gm)
    if launch.system_workspace is not None:  # the library's own copies pass through it
        placed.append(GmArgument("system workspace", launch.system_workspace))
    gm_rows, gm = _place(placed)
    native.gm, native.gm_count = gm, len(placed)
    if launch.system_workspace is not None:
        native.system_workspace = launch.system_workspace.ctypes.data
        native.system_workspace_bytes = launch.system_workspace.nbytes
    native.capture_limit_bytes = launch.capture_limit_bytes
    delay = launch.delay.native() if launch.delay else None
    native.delay = c.addressof(delay) if delay else None
    if launch.core_order:
        native.core_order = (c.c_uint32 * len(launch.cores))(*launch.core_order)
    native.poison_flipped = launch.poison ^ 0xFF
    signal = lib.toprope_run(c.byref(native))
    if launch.delay and delay:
        launch.delay.happened = bool(delay.happened)
    try:
        return _collect(lib, launch, soc, gm_rows, signal)
    finally:
        lib.toprope_release()


def _place(arguments: Sequence[GmArgument]) -> tuple[tuple[GmRow, ...], Any]:
    rows, native = [], (_GmBuffer * max(1, len(arguments)))()
    address = GM_BASE
    for i, argument in enumerate(arguments):
        native[i] = _GmBuffer(argument.array.ctypes.data, argument.array.nbytes, address, argument.name.encode()[:39])
        rows.append(GmRow(argument.name, address, argument.array.nbytes))
        address += -(-argument.array.nbytes // GM_ALIGN) * GM_ALIGN + GM_ALIGN
    return tuple(rows), native


def _copy(address: c.c_void_p, count: int, row: np.dtype[Any]) -> np.ndarray[Any, Any]:
    out = np.empty(count, row)
    c.memmove(out.ctypes.data, address, out.nbytes)
    return out


def _collect(lib: c.CDLL, launch: Launch, soc: Soc, gm: tuple[GmRow, ...], signal: int) -> Trace:
    instrs, accesses = [], []
    for core in range(lib.toprope_core_count()):
        ip, ap, ni, na = c.c_void_p(), c.c_void_p(), c.c_uint64(), c.c_uint64()
        lib.toprope_core(core, c.byref(ip), c.byref(ni), c.byref(ap), c.byref(na))
        instrs.append(_copy(ip, ni.value, INSTR))
        accesses.append(_copy(ap, na.value, ACCESS))
    sites, remap = _sites(lib)
    all_instrs = np.concatenate(instrs) if instrs else np.empty(0, INSTR)
    if len(sites) != len(remap):
        all_instrs["site"] = remap[all_instrs["site"]]
    reports = [
        ReportRow(
            r.code.decode(),
            r.text.decode(errors="replace"),
            int(remap[r.site]),
            r.core,
            r.op,
            r.severity,
            r.count,
            r.instr,
        )
        for r in lib.toprope_reports()[: lib.toprope_report_count()]
    ]
    buffers = [
        BufferRow(b.core, SPACES[b.space], b.address, b.bytes, b.position, b.queue, int(remap[b.site]))
        for b in lib.toprope_buffers()[: lib.toprope_buffer_count()]
    ]
    return Trace(
        kernel=launch.kernel,
        soc=soc.name,
        blocks=launch.blocks,
        mixed=launch.mixed,
        ratio=launch.ratio,
        ops=_ops(lib),
        sites=sites,
        cores=tuple(launch.cores),
        gm=gm,
        buffers=tuple(buffers),
        reports=tuple(reports),
        instrs=all_instrs,
        accesses=np.concatenate(accesses) if accesses else np.empty(0, ACCESS),
        core_begin=np.cumsum([0, *map(len, instrs)]),
        access_begin=np.cumsum([0, *map(len, accesses)]),
        signal=signal,
        values=_values(lib) if launch.capture_limit_bytes else None,
    )


def _values(lib: c.CDLL) -> Values:
    rows, count, data, size = c.c_void_p(), c.c_uint64(), c.c_void_p(), c.c_uint64()
    complete = lib.toprope_captured(c.byref(rows), c.byref(count), c.byref(data), c.byref(size))
    return Values(_copy(rows, count.value, CAPTURED), _copy(data, size.value, np.dtype(np.uint8)), bool(complete))


def _ops(lib: c.CDLL) -> tuple[OpRow, ...]:
    rows = []
    for i in range(lib.toprope_op_count()):
        name, cost, pipe, kind = c.c_char_p(), c.c_char_p(), c.c_uint8(), c.c_uint8()
        lib.toprope_op(c.c_uint64(i), c.byref(name), c.byref(pipe), c.byref(kind), c.byref(cost))
        rows.append(
            OpRow((name.value or b"").decode(), PIPES[pipe.value], KINDS[kind.value], (cost.value or b"").decode())
        )
    return tuple(rows)


def _sites(lib: c.CDLL) -> tuple[tuple[SiteRow, ...], np.ndarray[Any, Any]]:
    """Site rows, and the new number of each old one: the AIC and AIV builds name the same line twice."""
    rows: dict[SiteRow, int] = {}
    remap = []
    for i in range(lib.toprope_site_count()):
        file, line = c.c_char_p(), c.c_uint32()
        lib.toprope_site(c.c_uint64(i), c.byref(file), c.byref(line))
        remap.append(rows.setdefault(SiteRow((file.value or b"").decode(), line.value), len(rows)))
    return tuple(rows), np.array(remap or [0], dtype=np.uint32)
