"""Tiling structs: their layout read from C++ text, Python mappings packed into their bytes."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from toprope import dtypes
from toprope.cpp import number, read, strip_comments
from toprope.errors import BadArgument
from toprope.source import local_files
from toprope.vendor_paths import INCLUDE

_USED = ("REGISTER_TILING_DEFAULT", "GET_TILING_DATA_WITH_STRUCT", "GET_TILING_DATA_PTR_WITH_STRUCT")


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
    """The structs that the host and the kernel both write down: the host's layout, the kernel's. The host registers its struct with the
    tiling macros, or writes it out in a file of op_host or in one beside the kernel that names the kernel."""
    host = {s.name: s for s in structs(path).values() if s.macro_form}
    plain = _structs((*_vendor_texts(), *(_without_macros(text) for _, text in _texts(path)))) if host else {}
    both = [(host[name], plain[name]) for name in host if name in plain]
    own = _structs((*_vendor_texts(), *(_without_macros(text) for _, text in local_files(path))))
    used = {n.split("::")[-1] for n in (*_used_names(path), *casts(path).values())}
    shared = (used & own.keys()) - _vendor_names() - host.keys()
    for text in _host_texts(path) if shared else ():
        theirs = _structs((*_vendor_texts(), text))
        both += [(theirs[name], own[name]) for name in sorted(shared & theirs.keys())]
    return both


def casts(path: Path) -> dict[str, str]:
    """The struct to which a kernel casts a pointer of the given name; without those that are cast to several."""
    found: dict[str, set[str]] = {}
    for _, text in local_files(path):
        for pointer, kind in read(text).device_casts:
            found.setdefault(pointer, set()).add(kind)
    return {pointer: types.pop() for pointer, types in found.items() if len(types) == 1}


def _host_texts(path: Path) -> Iterator[str]:
    """Comment-free texts of host files: those of op_host, and those beside the kernel that name one of its entries but hold none."""
    own = {file for file, _ in local_files(path)}
    names = [f.name for _, text in local_files(path) for f in read(text).kernels]
    for folder in (path.parent, path.parent.parent / "op_host"):
        for file in sorted(f for suffix in ("h", "cpp", "hpp", "cc") for f in folder.glob(f"*.{suffix}")):
            if file.resolve() in own:
                continue
            text = strip_comments(file.read_text(errors="replace"))
            calls = "__aicore__" not in text and any(re.search(rf"\b{name}\b", text) for name in names)
            if folder.name == "op_host" or calls:
                yield text


@dataclass(frozen=True)
class MacroStruct:
    """A struct of the host's tiling macros: type, name and size (text) of each member; `at` and `end` are its places in the text."""

    name: str
    members: tuple[tuple[str, str, str], ...]
    at: int
    end: int


@lru_cache(512)
def macro_structs(text: str) -> tuple[MacroStruct, ...]:
    """The structs between BEGIN_TILING_DATA_DEF and END_TILING_DATA_DEF of a text without comments."""
    out = []
    for begin in read(text).calls("BEGIN_TILING_DATA_DEF"):
        end = text.find("END_TILING_DATA_DEF", begin.end)
        if end < 0 or not begin.arguments:
            continue
        members = []
        for call in read(text[begin.end : end]).calls("TILING_DATA_FIELD_DEF(?:_ARR|_STRUCT)?"):
            of = call.arguments
            members.append((of[0], of[-1], of[1] if call.name.endswith("_ARR") else "1"))
        out.append(MacroStruct(begin.arguments[0], tuple(members), begin.at, end + len("END_TILING_DATA_DEF")))
    return tuple(out)


def _without_macros(text: str) -> str:
    for each in reversed(macro_structs(text)):
        text = text[: each.at] + text[each.end :]
    return text


def _read_structs(text: str, found: dict[str, Struct]) -> None:
    constants = read(text).constants
    for each in macro_structs(text):
        if layout := _layout(each.name, each.members, found, constants, macro_form=True):
            found[each.name] = layout
    for record in read(text).records:
        if record.plain and record.members:
            plain = [(m.type, m.name, "*".join(f"({s})" for s in m.sizes) or "1") for m in record.members]
            if layout := _layout(record.name, plain, found, constants, macro_form=False):
                found.setdefault(record.name, layout)


@cache
def _vendor_texts() -> tuple[str, ...]:
    return (strip_comments((INCLUDE / "lib" / "tiling_structs.h").read_text()),)


@cache
def _vendor_names() -> frozenset[str]:
    return frozenset(r.name for text in _vendor_texts() for r in read(text).records)


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
    return [c.arguments[0] for _, text in local_files(path) for c in read(text).calls(*_USED) if c.arguments]


def _size_of(type_name: str, known: Mapping[str, Struct]) -> tuple[int, int]:
    bare = type_name.split("::")[-1]
    if bare in known:
        return known[bare].bytes, known[bare].align
    size = dtypes.dtype(bare).bits // 8
    return size, size


def _layout(
    name: str,
    members: Sequence[tuple[str, str, str]],
    known: Mapping[str, Struct],
    constants: Mapping[str, str],
    *,
    macro_form: bool,
) -> Struct | None:
    offset, align, fields = 0, 1, []
    for type_name, field_name, count_text in members:
        try:
            size, own_align = _size_of(type_name, known)
        except BadArgument:
            return None  # not a plain struct, so it cannot be tiling data
        count = number(count_text, constants)
        if count is None or count < 1:
            return None  # a size that only the compiler knows
        offset = -(-offset // own_align) * own_align
        fields.append(Field(field_name, type_name, count, offset))
        offset += size * count
        align = max(align, own_align)
    # The vendor's macro form pads the whole to 8 bytes.
    align_to = max(align, 8) if macro_form else align
    return Struct(name, tuple(fields), -(-offset // align_to) * align_to, align_to, macro_form)
