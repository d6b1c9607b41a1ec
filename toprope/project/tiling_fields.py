"""Tiling data as named values, and whether host and kernel agree on where each lies."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from toprope import dtypes, tiling
from toprope.cpp import read
from toprope.errors import BadArgument
from toprope.project.errors import TilingMismatch
from toprope.project.host import HostLibrary, OperatorDef, Tiling, TilingClass
from toprope.project.operators import Operator
from toprope.source import local_files
from toprope.tiling import Field, Struct

_USED = re.compile(
    r"\b(?:REGISTER_TILING_DEFAULT|GET_TILING_DATA_WITH_STRUCT|GET_TILING_DATA_PTR_WITH_STRUCT|REGISTER_TILING_FOR_TILINGKEY\s*\([^,]*,)"
    r"\s*\(?\s*([\w:]+)"
)


def decode(library: HostLibrary, of: OperatorDef, found: Tiling, operator: Operator) -> dict[str, Any]:
    """The fields of the tiling data by name; empty if its struct is not a plain one that can be read."""
    known = _known(library, operator)
    struct = _host_struct(library, of, found, known)
    return _values(struct, found.data, known, 0) if struct is not None and struct.bytes <= len(found.data) else {}


def changed_data(
    library: HostLibrary, of: OperatorDef, found: Tiling, operator: Operator, fields: Mapping[str, Any]
) -> bytes:
    """The tiling data with other values in some fields. Raises BadArgument for a field that it does not have as numbers."""
    struct = _host_struct(library, of, found, _known(library, operator)) if fields else None
    places = {f.name: f for f in struct.fields} if struct is not None else {}
    data = bytearray(found.data)
    for name, value in fields.items():
        if name not in places:
            raise BadArgument(
                f"the tiling data of {of.type} has no field {name}",
                cure="it has " + (", ".join(places) or "no fields that can be read"),
            )
        at = places[name]
        words = np.asarray(value, dtypes.dtype(at.type.split("::")[-1]).numpy).reshape(at.count).tobytes()
        data[at.offset : at.offset + len(words)] = words
    return bytes(data)


def check_layout(library: HostLibrary, of: OperatorDef, found: Tiling, operator: Operator, kernel: Path) -> None:
    """Raise TilingMismatch if the kernel reads tiling data in another layout than the host wrote, as far as both can be read."""
    read = tiling.structs(kernel)
    texts = list(local_files(kernel))
    wanted = [n.split("::")[-1] for _, text in texts for n in _USED.findall(text)]
    theirs = [read[n] for n in dict.fromkeys(wanted) if n in read and not read[n].macro_form]
    if not theirs or not found.data:
        return
    place = {s.name: _place(texts, s.name) or kernel.name for s in theirs}
    host = _host_struct(library, of, found, _known(library, operator))
    host_place = _host_place(library, operator, host.name) if host is not None else ""
    fits = any(_rounded(s.bytes) <= len(found.data) or s.bytes <= len(found.data) for s in theirs)
    if fits and (host is None or any(_same(host, s) for s in theirs) or not any(s.name == host.name for s in theirs)):
        return
    best = min(theirs, key=lambda s: abs(s.bytes - len(found.data)))
    difference = _difference(host, best) if host is not None else ""
    raise TilingMismatch(
        f"{of.type}: the host writes {len(found.data)} bytes of tiling data"
        + (f" ({host.name}, {host_place})" if host is not None else "")
        + f", the kernel reads {best.bytes} ({best.name}, {place[best.name]})"
        + (f"; {difference}" if difference else ""),
        cure="let both sides include one struct, or make the fields equal in type and order",
    )


def _host_place(library: HostLibrary, operator: Operator, name: str) -> str:
    for each in library.tilings:
        if each.name == name:
            return each.place
    sources = sorted((operator.folder / "op_host").rglob("*.cpp"))
    return next((p for s in sources if (p := _place(list(local_files(s)), name))), "op_host")


def _known(library: HostLibrary, operator: Operator) -> dict[str, Struct]:
    found: dict[str, Struct] = {}
    sources = [
        *sorted((operator.folder / "op_host").rglob("*.cpp")),
        *sorted(operator.kernel_folder.glob("*tiling*.h")),
    ]
    for file in sources:
        for name, struct in tiling.structs(file).items():
            found.setdefault(name, struct)
    return found | {c.name: _struct_of(c) for c in library.tilings if c.fields}


def _struct_of(each: TilingClass) -> Struct:
    fields = tuple(Field(f.name, f.type, f.count, f.offset) for f in each.fields)
    return Struct(each.name, fields, each.bytes, 8, True)


def _host_struct(library: HostLibrary, of: OperatorDef, found: Tiling, known: Mapping[str, Struct]) -> Struct | None:
    macro = {c.name: c for c in library.tilings if c.fields}
    name = found.struct.split("::")[-1]
    if name in macro:
        return _struct_of(macro[name])
    if name in known:
        return known[name]
    registered = next((c for c in library.tilings if c.key == of.type and c.bytes == len(found.data)), None)
    return _struct_of(registered) if registered is not None and not name else None


def _values(struct: Struct, data: bytes, known: Mapping[str, Struct], base: int) -> dict[str, Any]:
    out: dict[str, Any] = {}
    for field in struct.fields:
        bare = field.type.split("::")[-1]
        at = base + field.offset
        if bare in known:
            inner = known[bare]
            rows = [_values(inner, data, known, at + i * inner.bytes) for i in range(field.count)]
            out[field.name] = rows[0] if field.count == 1 else rows
            continue
        try:
            kind = dtypes.dtype(bare).numpy
        except BadArgument:
            continue
        values = np.frombuffer(data, kind, field.count, at).tolist()
        out[field.name] = values[0] if field.count == 1 else values
    return out


def _same(a: Struct, b: Struct) -> bool:
    return [(f.name, f.offset, f.count) for f in a.fields] == [(f.name, f.offset, f.count) for f in b.fields]


def _difference(host: Struct, kernel: Struct) -> str:
    for a, b in zip(host.fields, kernel.fields, strict=False):
        if (a.name, a.offset, a.count) != (b.name, b.offset, b.count):
            return f"first difference: host {_say(a)}, kernel {_say(b)}"
    more, side = (host.fields, "the host") if len(host.fields) > len(kernel.fields) else (kernel.fields, "the kernel")
    rest = more[min(len(host.fields), len(kernel.fields)) :]
    return f"only {side} has {_say(rest[0])}" if rest else ""


def _say(field: Field) -> str:
    return f"{field.type} {field.name}{f'[{field.count}]' if field.count > 1 else ''} at byte {field.offset}"


def _rounded(size: int) -> int:
    return -(-size // 8) * 8


def _place(texts: Sequence[tuple[Path, str]], name: str) -> str:
    for file, text in texts:
        if found := next((r for r in read(text).records if r.name == name), None):
            return f"{file.name}:{found.line}"
    return ""
