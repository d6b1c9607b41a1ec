"""Reading what a run leaves behind: the bytes that ascendc/machine/image.cpp writes, as the columns of a Trace, without a copy."""

from __future__ import annotations

import mmap
import os
import struct
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from toprope.dtypes import DTYPES
from toprope.trace import (
    ACCESS,
    CAPTURED,
    INSTR,
    KINDS,
    PIPES,
    SPACES,
    Array,
    BufferRow,
    OpRow,
    ReportRow,
    SiteRow,
    Values,
    ViewRow,
)

_DTYPES = {d.code: d.name for d in DTYPES}
_MAGIC = 0x31656761_6D497254
HEADER_BYTES = 4096
STARTED, LOADING, RUNNING, SAVING, REFUSED = range(5)
_HEADER = struct.Struct("<QQq10QQQQQQ64I512s")
_REPORT = np.dtype(
    [("code", "S40"), ("text", "S440"), ("site", "<u4"), ("core", "<u4"), ("op", "<u4"), ("severity", "<u4"), ("count", "<u8"), ("instr", "<u8")]
)  # fmt: skip
_BUFFER = np.dtype(
    [("address", "<u4"), ("bytes", "<u4"), ("site", "<u4"), ("core", "<u2"), ("space", "u1"), ("position", "u1"), ("queue", "<u4")]
)  # fmt: skip
_VIEW = np.dtype([("gm", "<u4"), ("dtype", "<u4"), ("site", "<u4"), ("core", "<u4"), ("begin", "<i8"), ("end", "<i8")])
_OP = np.dtype([("pipe", "<u8"), ("kind", "<u8"), ("name", "<u8"), ("cost", "<u8")])
_SITE = np.dtype([("line", "<u8"), ("file", "<u8")])


def new_file() -> int:
    """A file descriptor of a file that only exists in memory, for one report; the caller closes it."""
    if hasattr(os, "memfd_create"):
        return os.memfd_create("toprope-report", os.MFD_CLOEXEC)
    with tempfile.TemporaryFile() as file:
        return os.dup(file.fileno())


@dataclass(frozen=True)
class Image:
    """One report. `signal` is what ended the run (0: nothing); `left_out` instructions were executed and are not in `instrs`.

    `crash` says where the instruction lies that crashed: (core type's place in CORE_TYPES, offset in its library) or None.
    """

    signal: int
    left_out: int
    crash: tuple[int, int] | None
    core_begin: Array
    access_begin: Array
    instrs: Array
    accesses: Array
    reports: tuple[ReportRow, ...]
    buffers: tuple[BufferRow, ...]
    views: tuple[ViewRow, ...]
    sites: tuple[SiteRow, ...]
    ops: tuple[OpRow, ...]
    values: Values


@dataclass(frozen=True)
class NoImage:
    """What is there instead of a report: how far the process came, and, if it refused, the argument sizes it wants and why."""

    stage: int
    sizes: Sequence[int] = ()
    text: str = ""


def stage(file: int) -> int:
    """How far the process has come that writes this report."""
    return int.from_bytes(os.pread(file, 8, 8), "little")


def read(file: int) -> Image | NoImage:
    """The report in a file."""
    size = os.fstat(file).st_size
    head = os.pread(file, _HEADER.size, 0).ljust(_HEADER.size, b"\0")
    magic, at_stage, signal, *rest = _HEADER.unpack(head)
    counts, (complete, left_out, crash_library, crash_offset, size_count) = rest[:10], rest[10:15]
    if magic != _MAGIC or at_stage != SAVING or size < HEADER_BYTES:
        text = bytes(rest[-1]).partition(b"\0")[0].decode(errors="replace")
        refused = magic == _MAGIC and at_stage == REFUSED
        return NoImage(at_stage, rest[15 : 15 + min(64, size_count)] if refused else (), text if refused else "")
    data = mmap.mmap(file, size, access=mmap.ACCESS_COPY)
    at = HEADER_BYTES

    def take(row: np.dtype[np.void] | np.dtype[np.uint8] | np.dtype[np.uint64], count: int) -> Array:
        nonlocal at
        column: Array = np.frombuffer(data, row, count, at)
        at += -(-column.nbytes // 8) * 8
        return column

    cores, n_sites, n_ops, n_reports, n_buffers, n_instrs, n_accesses, n_kept, n_bytes, n_views = counts
    sizes = take(np.dtype(np.uint64), 2 * cores).reshape(-1, 2).astype(np.int64)
    # Each core's part begins on 8 bytes; rows are of 16, so the parts lie one behind the other.
    instrs, accesses = take(INSTR, n_instrs), take(ACCESS, n_accesses)
    reports, buffers = take(_REPORT, n_reports), take(_BUFFER, n_buffers)
    views = take(_VIEW, n_views)
    site_rows, op_rows = take(_SITE, n_sites), take(_OP, n_ops)
    kept, kept_bytes = take(CAPTURED, n_kept), take(np.dtype(np.uint8), n_bytes)

    def text_at(offset: int) -> str:
        end = data.find(b"\0", at + offset)
        return data[at + offset : end].decode(errors="replace")

    sites, remap = _sites([SiteRow(text_at(int(r["file"])), int(r["line"])) for r in site_rows])
    if len(sites) != len(remap):
        instrs["site"] = remap[instrs["site"]]
    return Image(
        signal=signal,
        left_out=left_out,
        crash=(crash_library - 1, crash_offset) if crash_library else None,
        core_begin=np.cumsum([0, *sizes[:, 0]]),
        access_begin=np.cumsum([0, *sizes[:, 1]]),
        instrs=instrs,
        accesses=accesses,
        reports=tuple(
            ReportRow(
                r["code"].decode(), r["text"].decode(errors="replace"), int(remap[r["site"]]), int(r["core"]), int(r["op"]), int(r["severity"]),
                int(r["count"]), int(r["instr"]),
            )
            for r in reports
        ),
        buffers=tuple(
            BufferRow(
                int(b["core"]), SPACES[b["space"]], int(b["address"]), int(b["bytes"]), int(b["position"]), int(b["queue"]),
                int(remap[b["site"]]),
            )
            for b in buffers
        ),
        views=tuple(
            ViewRow(int(v["gm"]), _DTYPES.get(int(v["dtype"]), ""), int(remap[v["site"]]), int(v["core"]), int(v["begin"]), int(v["end"]))
            for v in views
        ),
        sites=sites,
        ops=tuple(
            OpRow(text_at(int(o["name"])), PIPES[o["pipe"]], KINDS[o["kind"]], text_at(int(o["cost"]))) for o in op_rows
        ),
        values=Values(kept, kept_bytes, bool(complete)),
    )  # fmt: skip


def _sites(found: Sequence[SiteRow]) -> tuple[tuple[SiteRow, ...], Array]:
    """Site rows, and the new number of each old one: the AIC and AIV builds name the same line twice."""
    rows: dict[SiteRow, int] = {}
    remap = [rows.setdefault(row, len(rows)) for row in found]
    return tuple(rows), np.array(remap or [0], dtype=np.uint32)
