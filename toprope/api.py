"""The list of Ascend C functions implemented here, read from the header library itself.

A public function is either a row of a family macro, `TOPROPE_BINARY(Add, "dst = src0 + src1", ...)`, or carries one line
`//: Name | meaning | dtypes | chips | reference page` above its first overload.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from toprope.cpp import strip_comments
from toprope.errors import BadInput
from toprope.inputs import reading
from toprope.vendor_paths import INCLUDE

_ROW = re.compile(
    r"^TOPROPE_(?P<family>[A-Z0-9_]+)\(\s*(?P<name>\w+)\s*,\s*\"(?P<meaning>[^\"]*)\"(?P<rest>[^\n]*)", re.M
)
_LINE = re.compile(r"^\s*//: (?P<row>[^\n]+)$", re.M)
_TYPES = re.compile(r"\((?P<types>[\w\s,]+)\)")
_DECLARED = re.compile(r"\b(?:class|struct|using|enum class|enum|#\s*define|typename)\s+(?:TOPROPE_\w+\()?(\w+)")
_FUNCTION = re.compile(r"\b(\w+)\s*\(")


@dataclass(frozen=True)
class Function:
    """One callable: what it does, its element types, the chips that have it, its reference page, and where it is written."""

    name: str
    meaning: str
    dtypes: str
    chips: str
    page: str
    header: str
    overloads: int


@cache
def functions() -> dict[str, Function]:
    """Every documented function of the header library, by name."""
    found: dict[str, Function] = {}
    for file in _headers():
        text = file.read_text()
        header = file.relative_to(INCLUDE).as_posix()
        for match in _ROW.finditer(text):
            if match["family"].startswith(("NOT_YET", "ABSENT")):  # rows that say what there is not
                continue
            types = _TYPES.search(match["rest"])
            dtypes = " ".join(types["types"].replace(",", " ").split()) if types else ""
            found.setdefault(match["name"], Function(match["name"], match["meaning"], dtypes, "A2 A3", "", header, 3))
        for match in _LINE.finditer(text):
            parts = [p.strip() for p in match["row"].split("|")] + [""] * 5
            # "A / B" documents two names that are written together.
            for name in re.split(r"\s*[/,]\s*", parts[0]):
                count = len(re.findall(rf"\b{re.escape(name.lstrip('.'))}\s*\(", text))
                found.setdefault(name, Function(name, parts[1], parts[2], parts[3], parts[4], header, max(1, count)))
    return found


def not_yet() -> dict[str, str]:
    """Callables that are known to be missing, with the reason (api/not_yet.h)."""
    file = INCLUDE / "api" / "not_yet.h"
    if not file.exists():
        return {}
    return {
        m.group(1): m.group(2)
        for m in re.finditer(
            r'^TOPROPE_NOT_YET(?:_ON_TENSORS|_CLASS)?\(\s*(\w+)\s*,\s*"([^"]*)"', file.read_text(), re.M
        )
    }


_ONLY_950 = "Ascend 950 only"
# Interfaces of other chips, by how their names begin; the reference documentation lists them for no chip before Ascend 950.
_OTHER_CHIPS = (
    (r"Te::|Simt::|asc_(?!vf_call)", _ONLY_950 + ": tensor templates, threads, the C interface"),
    (
        r"(FixpipeParams(Arch3510|C310)|LoadData2DMxParams|Dn2NzParams|MultiCopyParams)$",
        _ONLY_950 + ": parameters of its copies and loads",
    ),
    (r"(Mutex(ID)?|\.Unlock|GetUintDivMagicAndShift)$", _ONLY_950),
    (r"(Hcomm|\.WriteNbi|\.Drain)$", _ONLY_950 + ": communication started by cores"),
    (r"([ABC]Type|BiasType|group_type)$", "a type that kernels define themselves"),
)


def reason_missing(name: str) -> str:
    """Why a name of a listing is not here; "" if nobody has said."""
    if said := not_yet().get(name.lstrip(".")):
        return said
    return next((why for pattern, why in _OTHER_CHIPS if re.match(pattern, name)), "")


def coverage(listing: Path) -> tuple[list[str], list[str]]:
    """Names of a table (first column, `.Name` = method) that the headers declare, and those they do not. Raises BadInput."""
    if not listing.is_file():
        raise BadInput(
            f"there is no file {listing}", cure="give a tab-separated table whose first column is the API name"
        )
    with reading(listing):
        text = listing.read_text(encoding="utf-8")
    names = [line.split("\t")[0].strip() for line in text.splitlines()[1:] if line.strip()]
    known = _declared()
    have = [n for n in names if _is_known(n, known) and not reason_missing(n)]
    return have, [n for n in names if n not in set(have)]


def _is_known(name: str, known: frozenset[str]) -> bool:
    """Register functions have the names of others in a namespace of their own."""
    return name in functions() if name.startswith("Reg::") else name.lstrip(".").split("::")[-1] in known


@cache
def _declared() -> frozenset[str]:
    """Every name that the headers define: functions, methods, types, macros, enumerators."""
    names: set[str] = set(functions())
    for file in _headers():
        text = strip_comments(file.read_text())
        names.update(_DECLARED.findall(text))
        names.update(m.group(1) for m in _FUNCTION.finditer(text))
        names.update(re.findall(r"\b([A-Z][A-Z0-9_]+)\b", text))
        names.update(re.findall(r"\busing\s+[\w:]*::(\w+)\s*;", text))
    return frozenset(names)


def _headers() -> list[Path]:
    return sorted(p for p in INCLUDE.rglob("*") if p.is_file() and (p.suffix in {".h", ""}))
