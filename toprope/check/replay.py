"""The bridge to check/engine.cpp: a trace's columns in, causes out."""

from __future__ import annotations

import ctypes as c
from collections.abc import Collection
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from toprope.build import shared_library
from toprope.errors import BadInput
from toprope.order import inserted
from toprope.trace import CORE_TYPES, KINDS, SPACES, OpRow, Trace

CODES = (
    "race", "uninitialised", "missing-clean", "stale-read", "shared-line", "dirty-at-end", "flag-never-waited", "event-id-collision",
    "barrier-use", "cross-overflow", "cross-never-waited", "flag-one-pipe",
)  # fmt: skip
HAZARDS = ("RAW", "WAR", "WAW")


class _CoreSpec(c.Structure):
    _fields_ = [("block", c.c_uint16), ("sub", c.c_uint8), ("type", c.c_uint8)]


class _GmRow(c.Structure):
    _fields_ = [("address", c.c_uint64), ("bytes", c.c_uint64), ("poisoned", c.c_uint32), ("touched", c.c_uint32)]


class _Buffer(c.Structure):
    _fields_ = [("space", c.c_uint32), ("address", c.c_uint32), ("bytes", c.c_uint32), ("used", c.c_uint32)]


class _Input(c.Structure):
    _fields_ = [
        ("instrs", c.c_void_p),
        ("accesses", c.c_void_p),
        ("core_begin", c.c_void_p),
        ("access_begin", c.c_void_p),
        ("cores", c.POINTER(_CoreSpec)),
        ("op_kinds", c.c_void_p),
        ("gm", c.POINTER(_GmRow)),
        ("buffers", c.POINTER(_Buffer)),
        ("inserted", c.c_void_p),
        ("inserted_count", c.c_uint64),
        ("core_count", c.c_uint32),
        ("op_count", c.c_uint32),
        ("gm_count", c.c_uint32),
        ("buffer_count", c.c_uint32),
        ("sync_auto", c.c_uint32),
        ("last_core_first", c.c_uint32),
    ]


class _Cause(c.Structure):
    _fields_ = [
        ("code", c.c_uint32),
        ("hazard", c.c_uint32),
        ("core_a", c.c_uint32),
        ("core_b", c.c_uint32),
        ("instr_a", c.c_uint64),
        ("instr_b", c.c_uint64),
        ("begin", c.c_uint64),
        ("end", c.c_uint64),
        ("count", c.c_uint64),
        ("detail", c.c_uint64),
        ("space", c.c_uint32),
        ("padding", c.c_uint32),
        ("cores", c.c_uint64 * 4),
        ("later", (c.c_uint64 * 2) * 7),
        ("later_count", c.c_uint32),
        ("padding2", c.c_uint32),
    ]


@dataclass(frozen=True)
class Cause:
    """One thing the replay found. `instr_a` is the earlier instruction, `instr_b` the one that shows the mistake (rows of
    `Trace.instrs`); `begin:end` are bytes of `space`; `cores` lists the first cores that showed it, `later` a few further
    pairs of instructions."""

    code: str
    hazard: str
    core_a: int
    core_b: int
    instr_a: int
    instr_b: int
    space: str
    begin: int
    end: int
    count: int
    detail: int
    cores: tuple[int, ...]
    later: tuple[tuple[int, int], ...] = ()


@cache
def _library() -> c.CDLL:
    lib = c.CDLL(str(shared_library(Path(__file__).with_name("engine.cpp"))))
    lib.toprope_check_run.argtypes = [c.POINTER(_Input), c.POINTER(c.POINTER(_Cause))]
    lib.toprope_check_run.restype = c.c_int64
    lib.toprope_check_free.argtypes = [c.POINTER(_Cause)]
    lib.toprope_check_free.restype = None
    return lib


@dataclass(frozen=True)
class Replay:
    """What a replay gives: the causes in order of discovery, for each row of `Trace.buffers` whether anything touches it, and the
    names of the GM arguments that are touched."""

    causes: list[Cause]
    buffer_used: list[bool]
    arguments_used: frozenset[str]


def replay(trace: Trace, *, sync: str, poisoned: Collection[str] = (), last_core_first: bool = False) -> Replay:
    """Replay a trace over vector clocks: one Cause per kind and pair of source lines. Raises BadInput when memory runs out."""
    lib = _library()
    instrs, accesses = np.ascontiguousarray(trace.instrs), np.ascontiguousarray(trace.accesses)
    core_begin, access_begin = trace.core_begin.astype(np.uint64), trace.access_begin.astype(np.uint64)
    kinds = np.array([_kind(op) for op in trace.ops] or [0], np.uint8)
    cores = (_CoreSpec * max(1, len(trace.cores)))(
        *(_CoreSpec(k.block, k.sub, CORE_TYPES.index(k.type)) for k in trace.cores)
    )
    rows = sorted(trace.gm, key=lambda row: row.address)
    gm = (_GmRow * max(1, len(rows)))(*(_GmRow(row.address, row.bytes, row.name in poisoned, 0) for row in rows))
    buffers = (_Buffer * max(1, len(trace.buffers)))(
        *(_Buffer(SPACES.index(b.space), b.address, b.bytes, 0) for b in trace.buffers)
    )
    syncs = inserted(trace, sync)
    given = _Input(
        instrs.ctypes.data, accesses.ctypes.data, core_begin.ctypes.data, access_begin.ctypes.data, cores, kinds.ctypes.data, gm, buffers,
        syncs.ctypes.data, len(syncs), len(trace.cores), len(trace.ops), len(rows), len(trace.buffers), sync == "auto", last_core_first,
    )  # fmt: skip
    out = c.POINTER(_Cause)()
    count = lib.toprope_check_run(c.byref(given), c.byref(out))
    if count < 0:
        raise BadInput("the check ran out of memory", cure="record fewer blocks, or check a smaller shape")
    try:
        used = [bool(buffers[i].used) for i in range(len(trace.buffers))]
        touched = frozenset(row.name for row, native in zip(rows, gm, strict=False) if native.touched)
        return Replay([_cause(out[i]) for i in range(count)], used, touched)
    finally:
        lib.toprope_check_free(out)


def _kind(op: OpRow) -> int:
    """The kind as the replay needs it: of the cache operations only the clean matters, and some scalar accesses pass the cache by."""
    if op.name in {"ReadGmByPassDCache", "WriteGmByPassDCache"}:
        return len(KINDS)
    if op.name == "refused access":
        return len(KINDS) + 1
    if op.kind == "cache" and op.name != "DataCacheCleanAndInvalid":
        return KINDS.index("mark")
    return KINDS.index(op.kind)


def _cause(raw: Any) -> Cause:
    cores = tuple(64 * word + bit for word in range(4) for bit in range(64) if raw.cores[word] >> bit & 1)
    return Cause(
        CODES[raw.code], HAZARDS[raw.hazard], raw.core_a, raw.core_b, raw.instr_a, raw.instr_b, SPACES[raw.space], raw.begin, raw.end,
        raw.count, raw.detail, cores, tuple((raw.later[i][0], raw.later[i][1]) for i in range(raw.later_count)),
    )  # fmt: skip
