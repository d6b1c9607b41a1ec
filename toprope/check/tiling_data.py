"""Tiling data: does the struct that the host registers have the fields of the one that the kernel writes out?"""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

from toprope import tiling
from toprope.cpp import read
from toprope.finding import Finding, Place, codes
from toprope.source import local_files


def tiling_mismatches(path: Path, argument_bytes: Mapping[str, int] | None = None) -> list[Finding]:
    """An error for each tiling struct that the host and the kernel at `path` both define, with different fields, and for each argument of
    a launch that is smaller than the struct to which the kernel casts its address."""
    row = codes()["tiling-field-mismatch"]
    out = []
    for host, kernel in tiling.host_and_kernel(path):
        if message := _difference(host, kernel):
            out.append(Finding(row.name, row.severity, message, _place(path, kernel.name), row.cure))
    return out + _too_small(path, argument_bytes or {})


def _too_small(path: Path, argument_bytes: Mapping[str, int]) -> list[Finding]:
    row = codes()["tiling-size-mismatch"]
    cast_to = {name: kind.split("::")[-1] for name, kind in tiling.casts(path).items() if name in argument_bytes}
    known = tiling.structs(path) if cast_to else {}
    out = []
    for name, kind in cast_to.items():
        if kind in known and argument_bytes[name] < known[kind].bytes:
            message = (
                f"the kernel takes {name} for a {kind} of {known[kind].bytes} bytes, {name} has {argument_bytes[name]}: "
                "the last fields are read from behind it"
            )
            out.append(Finding(row.name, row.severity, message, _place(path, kind), row.cure))
    return out


def _difference(host: tiling.Struct, kernel: tiling.Struct) -> str:
    for theirs, ours in zip(host.fields, kernel.fields, strict=False):
        if not _same(theirs, ours):
            return (
                f"{host.name}: the host puts {_described(theirs)} where the kernel reads {_described(ours)}; what follows is shifted too"
                if theirs.name != ours.name
                else f"{host.name}: {_described(theirs)} on the host is {_described(ours)} in the kernel"
            )
    longer = host if len(host.fields) > len(kernel.fields) else kernel
    if rest := longer.fields[min(len(host.fields), len(kernel.fields)) :]:
        one, other = ("host", "kernel") if longer is host else ("kernel", "host")
        return f"{host.name}: {_described(rest[0])} is a field on the {one} and missing in the {other}"
    return ""


def _same(one: tiling.Field, two: tiling.Field) -> bool:
    """Whether two fields hold the same number; signed or not makes no difference."""
    kinds = {re.sub(r"^(?:std::|u(?=int))", "", f.type) for f in (one, two)}
    return (one.name, one.count, one.offset) == (two.name, two.count, two.offset) and len(kinds) == 1


def _described(field: tiling.Field) -> str:
    array = f"[{field.count}]" if field.count > 1 else ""
    return f"{field.type} {field.name}{array} at byte {field.offset}"


def _place(path: Path, struct: str) -> tuple[Place, ...]:
    for file, text in local_files(path):
        if found := next((r for r in read(text).records if r.name == struct), None):
            return (Place(str(file), found.line, "", "", "the kernel's struct"),)
    return ()
