"""Tiling structs: their layout read from C++ text, Python mappings packed into their bytes."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache, lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from toprope import brackets, dtypes
from toprope.errors import BadArgument
from toprope.source import local_files, strip_comments
from toprope.vendor_paths import INCLUDE

_STRUCT = re.compile(r"\b(?:struct|class)\s+(?:alignas\s*\(\s*\d+\s*\)\s*)?(\w+)\s*(?:final\s*)?\{")
_MEMBERS = re.compile(r"^\s*(?:const\s+)?([\w:]+)\s+(\w.*)$")
_DECLARATOR = re.compile(r"^\s*(\w+)\s*((?:\[\s*\w+\s*\])*)\s*(?:=.*|\{.*\})?$")
_DEFINE = re.compile(r"BEGIN_TILING_DATA_DEF\s*\(\s*(\w+)\s*\)(.*?)END_TILING_DATA_DEF", re.S)
_MACRO_FIELD = re.compile(r"TILING_DATA_FIELD_DEF(_ARR|_STRUCT)?\s*\(([^)]*)\)")
_USED = re.compile(
    r"\b(?:REGISTER_TILING_DEFAULT\s*\(\s*|GET_TILING_DATA_WITH_STRUCT\s*\(\s*|GET_TILING_DATA_PTR_WITH_STRUCT\s*\(\s*)([\w:]+)"
)


@dataclass(frozen=True)
class Field:
    """A member of a tiling struct: type name, how many (1 unless an array), and its byte offset."""

    name: str
    type: str
    count: int
    offset: int


@dataclass(frozen=True)
class Struct:
    """The layout of a tiling struct, as the C++ compiler lays out plain members."""

    name: str
    fields: tuple[Field, ...]
    bytes: int
    align: int
    macro_form: bool


def structs(path: Path) -> dict[str, Struct]:
    """Every struct with only plain members: the vendor's, then those of the source, its includes and the tiling headers beside it."""
    return dict(_structs((*_vendor_texts(), *(text for _, text in _texts(path)))))


@lru_cache(64)
def _structs(texts: tuple[str, ...]) -> dict[str, Struct]:
    found: dict[str, Struct] = {}
    known = -1
    while known != len(found):  # a struct may be written before the text of one that it contains is read
        known = len(found)
        for text in texts:
            _read_structs(text, found)
    return found


def host_and_kernel(path: Path) -> list[tuple[Struct, Struct]]:
    """The structs that the host registers with the tiling macros and the kernel writes out as well: both layouts."""
    host = {s.name: s for s in structs(path).values() if s.macro_form}
    if not host:
        return []
    plain = _structs((*_vendor_texts(), *(_DEFINE.sub("", text) for _, text in _texts(path))))
    return [(host[name], plain[name]) for name in host if name in plain]


def _read_structs(text: str, found: dict[str, Struct]) -> None:
    constants = {n: int(v) for n, v in re.findall(r"\b(?:constexpr\s+\w+|#\s*define)\s+(\w+)\s*(?:=\s*)?(\d+)", text)}
    for name, body in _DEFINE.findall(text):
        members = []
        for kind, arguments in _MACRO_FIELD.findall(body):
            parts = [a.strip() for a in arguments.split(",")]
            members.append((parts[0], parts[2], parts[1]) if kind == "_ARR" else (parts[0], parts[1], "1"))
        if layout := _layout(name, members, found, constants, macro_form=True):
            found[name] = layout
    for match in _STRUCT.finditer(text):
        plain = _members(brackets.inside(text, match.end() - 1))
        if plain and (layout := _layout(match.group(1), plain, found, constants, macro_form=False)):
            found.setdefault(match.group(1), layout)


def _members(body: str) -> list[tuple[str, str, str]]:
    """Type, name and count of each member; empty if anything else than plain members is there."""
    members = []
    for line in (re.sub(r"\b(public|private)\s*:", "", part) for part in body.split(";")):
        if not line.strip():
            continue
        declaration = _MEMBERS.match(" ".join(line.split()))
        declarators = re.split(r",(?![^{]*\})", declaration.group(2)) if declaration else []
        matches = [_DECLARATOR.match(d) for d in declarators]
        if declaration is None or not all(matches):
            return []
        for found in filter(None, matches):
            sizes = re.findall(r"\[\s*(\w+)\s*\]", found.group(2))
            members.append((declaration.group(1), found.group(1), "*".join(sizes) or "1"))
    return members


@cache
def _vendor_texts() -> tuple[str, ...]:
    return (strip_comments((INCLUDE / "lib" / "tiling_structs.h").read_text()),)


@cache
def _vendor_names() -> frozenset[str]:
    return frozenset(name for text in _vendor_texts() for name in _STRUCT.findall(text))


def generated_header(path: Path) -> str:
    """What the vendor's build generates from the host's tiling macros: plain structs, as text to put before the kernel."""
    lines = []
    wanted = _used_names(path)
    written_out = {host.name for host, _ in host_and_kernel(path)}
    for struct in structs(path).values():
        if not struct.macro_form or struct.name in written_out:
            continue
        members = "".join(f"    {f.type} {f.name}{f'[{f.count}]' if f.count > 1 else ''}{{}};\n" for f in struct.fields)
        lines.append(f"struct {struct.name} {{\n{members}}};\n")
        if not wanted:
            lines.append(f"#define TOPROPE_DEFAULT_TILING {struct.name}\n")
            wanted = [struct.name]
    vendor = any(re.search(rf"\b{name}\b", line) for line in lines for name in _vendor_names())
    include = '#include "kernel_tiling/kernel_tiling.h"\n' if vendor else "#include <cstdint>\n"
    return include + "".join(lines) if lines else ""


def struct_bytes(path: Path, parameter: str, value: bytes | Mapping[str, Any]) -> np.ndarray[Any, Any]:
    """Bytes of a tiling argument given as bytes or as a mapping of its fields. Raises BadArgument naming a wrong or missing field."""
    if isinstance(value, bytes):
        return np.frombuffer(value, np.uint8).copy()
    known = structs(path)
    used = [n.split("::")[-1] for n in _used_names(path)]
    candidates = [known[n] for n in used if n in known] or [
        s for s in known.values() if set(value) <= {f.name for f in s.fields}
    ]
    if not candidates:
        raise BadArgument(
            f"argument {parameter}: no tiling struct with the fields {', '.join(value)} was found near {path.name}",
            cure="pass bytes, or put the struct into a header that the kernel includes",
        )
    best = min(candidates, key=lambda s: len(set(value) - {f.name for f in s.fields}))
    return _pack(best, value, known)


def example(path: Path) -> str:
    """A tiling argument to start from: the struct that the kernel reads, or the only one written near it, each field 1."""
    known = structs(path)
    used = [n.split("::")[-1] for n in _used_names(path)]
    own = [n for n in known if n not in _vendor_names()]
    chosen = next((known[n] for n in used if n in known), known[own[0]] if len(own) == 1 else None)
    if chosen is None:
        return "{ field = 1 }"

    def values(struct: Struct) -> str:
        return "{ " + ", ".join(f"{f.name} = {one(f)}" for f in struct.fields) + " }"

    def one(f: Field) -> str:
        if f.type.split("::")[-1] in known:
            return values(known[f.type.split("::")[-1]])
        return f"[{', '.join(['1'] * f.count)}]" if f.count > 1 else "1"

    return values(chosen)


def scalar_bytes(path: Path, type_name: str, parameter: str, value: Any) -> np.ndarray[Any, Any]:
    """Bytes of a by-value argument: a number for a scalar type, bytes or a mapping for a struct. Raises BadArgument."""
    bare = type_name.replace("const", "").replace("&", "").strip().split("::")[-1]
    if isinstance(value, bytes):
        return np.frombuffer(value, np.uint8).copy()
    if isinstance(value, Mapping):
        known = structs(path)
        if bare not in known:
            raise BadArgument(
                f"argument {parameter}: struct {bare} was not found near {path.name}", cure="pass bytes instead"
            )
        return _pack(known[bare], value, known)
    if isinstance(value, np.ndarray) or value is None:
        raise BadArgument(f"argument {parameter} is a {type_name} and got {type(value).__name__}", cure="pass a number")
    return _scalar(bare, value, parameter)


def _scalar(type_name: str, value: Any, what: str) -> np.ndarray[Any, Any]:
    kind = dtypes.dtype(
        {"size_t": "uint64_t", "long": "int64_t", "unsigned": "uint32_t"}.get(type_name, type_name)
    ).numpy
    array = np.array(value).astype(kind).reshape(-1)
    if (
        kind is not None
        and kind.kind in "iu"
        and not np.array_equal(array.astype(object), np.array(value, dtype=object).reshape(-1))
    ):
        raise BadArgument(
            f"{what} = {value!r} does not fit into {type_name}", cure="give a value inside the type's range"
        )
    return array.view(np.uint8)


def _pack(struct: Struct, value: Mapping[str, Any], known: Mapping[str, Struct]) -> np.ndarray[Any, Any]:
    unknown = set(value) - {f.name for f in struct.fields}
    if unknown:
        raise BadArgument(
            f"{struct.name} has no field {', '.join(sorted(unknown))}",
            cure="its fields are " + ", ".join(f.name for f in struct.fields),
        )
    out = np.zeros(struct.bytes, np.uint8)
    for field in struct.fields:
        if field.name not in value:
            continue
        given = value[field.name]
        packed = (
            _pack(known[field.type], given, known)
            if isinstance(given, Mapping)
            else _scalar(field.type, given, f"{struct.name}.{field.name}")
        )
        capacity = _size_of(field.type, known)[0] * field.count
        if packed.nbytes > capacity:
            raise BadArgument(
                f"{struct.name}.{field.name} holds {field.count} values, more were given", cure="shorten the list"
            )
        out[field.offset : field.offset + packed.nbytes] = packed
    return out


def _texts(path: Path) -> Iterator[tuple[Path, str]]:
    seen = set()
    for file, text in local_files(path):
        seen.add(file)
        yield file, text
    for folder in (path.parent, path.parent.parent / "op_host"):
        for file in sorted(folder.glob("*tiling*.h")):
            if file.resolve() not in seen:
                yield file, strip_comments(file.read_text(errors="replace"))


def _used_names(path: Path) -> list[str]:
    return [name for _, text in local_files(path) for name in _USED.findall(text)]


def _size_of(type_name: str, known: Mapping[str, Struct]) -> tuple[int, int]:
    bare = type_name.split("::")[-1]
    if bare in known:
        return known[bare].bytes, known[bare].align
    size = dtypes.dtype(bare).bits // 8
    return size, size


def _layout(
    name: str,
    members: list[tuple[str, str, str]],
    known: Mapping[str, Struct],
    constants: Mapping[str, int],
    *,
    macro_form: bool,
) -> Struct | None:
    offset, align, fields = 0, 1, []
    for type_name, field_name, count_text in members:
        try:
            size, own_align = _size_of(type_name, known)
            count = 1
            for part in count_text.split("*"):
                count *= int(part) if part.isdigit() else constants[part]
        except (BadArgument, KeyError):
            return None  # not a plain struct, so it cannot be tiling data
        offset = -(-offset // own_align) * own_align
        fields.append(Field(field_name, type_name, count, offset))
        offset += size * count
        align = max(align, own_align)
    # The vendor's macro form pads the whole to 8 bytes.
    align_to = max(align, 8) if macro_form else align
    return Struct(name, tuple(fields), -(-offset // align_to) * align_to, align_to, macro_form)
