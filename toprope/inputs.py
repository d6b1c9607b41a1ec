"""Files that users write: what cannot be read or does not fit is one message with the file, the place in it and a cure."""

from __future__ import annotations

import csv
import json
import math
import sys
import tomllib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

from toprope.commandline import nearest
from toprope.errors import BadInput, TopropeError

T = TypeVar("T")
# What reading code meets when data has another form than it expects.
_MISFITS = (ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, ValueError, csv.Error)


@contextmanager
def naming(path: Path | None, kind: type[TopropeError] = TopropeError) -> Iterator[None]:
    """Around code that uses what the file `path` says: complaints of ours (of this kind) name it."""
    try:
        yield
    except kind as error:
        if path is not None and path.name not in error.message:
            error.message = f"{path}: {error.message}"
        raise


@contextmanager
def reading(path: Path | str, cure: str = "", kind: type[TopropeError] = BadInput) -> Iterator[None]:
    """Around code that reads the file `path`: complaints name it, and data of another form than expected is `kind`, with `cure`."""
    path = Path(path)
    try:
        with naming(path):
            yield
    except UnicodeDecodeError as error:
        raise kind(f"{path}: byte {error.start} is no UTF-8 text", cure="save the file as UTF-8") from error
    except OSError as error:
        raise kind(
            f"{path} cannot be read: {error.strerror or error}", cure="check the path and its permissions"
        ) from error
    except _MISFITS as error:
        raise kind(f"{path}: {_said(error)}", cure=cure) from error


def _said(error: BaseException) -> str:
    if isinstance(error, tomllib.TOMLDecodeError):
        return f"not TOML: {error}"
    if isinstance(error, json.JSONDecodeError):
        return f"not JSON: line {error.lineno}, column {error.colno}: {error.msg}"
    if isinstance(error, RecursionError):
        return "nested too deeply"
    if isinstance(error, KeyError):
        return f"{error.args[0]!r} is missing"
    return str(error).partition("\n")[0] or type(error).__name__


def toml(path: Path, cure: str = "", kind: type[TopropeError] = BadInput) -> dict[str, Any]:
    """The tables of a TOML file. Raises `kind` with the place of what is no TOML."""
    with reading(path, cure, kind):
        return tomllib.loads(path.read_text(encoding="utf-8"))


def json_of(path: Path, cure: str = "", kind: type[TopropeError] = BadInput) -> Any:
    """The value in a JSON file. Raises `kind` with the place of what is no JSON."""
    with reading(path, cure, kind):
        return json.loads(path.read_text(encoding="utf-8"))


def fitting(data: Any, form: type[T], where: str, cure: str = "", kind: type[TopropeError] = BadInput) -> T:
    """`data` as `form` (a dataclass, a TypedDict or another annotation; unknown fields are refused). Raises `kind` with the place."""
    import msgspec  # loaded here: most commands read no such file

    if isinstance(data, Mapping) and (known := getattr(form, "__annotations__", None)):
        unknown = [str(key) for key in data if key not in known]
        if unknown:
            raise kind(
                f"{where} has no field {unknown[0]!r}{nearest(unknown[0], list(known))}",
                cure=f"its fields are {', '.join(known)}",
            )
    try:
        return msgspec.convert(data, form)
    except msgspec.ValidationError as error:
        what, _, place = str(error).partition(" - at ")
        place = place.strip("`").removeprefix("$").lstrip(".")
        raise kind(f"{where}{': ' + place if place else ''}: {what[:1].lower() + what[1:]}", cure=cure) from None


def numbers(data: Any, where: str, least: float = 0, kind: type[TopropeError] = BadInput) -> None:
    """Raises `kind` for a number in a tree that is not finite, below `least`, or beyond what sizes and rates can be."""
    if isinstance(data, Mapping):
        for key, value in data.items():
            numbers(value, f"{where}: {key}", least, kind)
    elif isinstance(data, list | tuple):
        for at, value in enumerate(data):
            numbers(value, f"{where}[{at}]", least, kind)
    elif isinstance(data, int | float) and not (math.isfinite(data) and least <= data < 1e15):
        shown = f"{data:g}" if isinstance(data, float) or abs(data) < 10**30 else "a huge number"
        raise kind(f"{where} is {shown}", cure=f"give a number from {least:g} to 1e15")


def rows(path: Path, kind: type[TopropeError] = BadInput) -> Iterator[tuple[int, dict[str, str]]]:
    """The rows of a CSV file with a header: line number and cells by column, "" for those that are short. Raises `kind`."""
    csv.field_size_limit(min(sys.maxsize, 2**31 - 1))
    with reading(path, "give a CSV file with a header", kind), path.open(newline="", encoding="utf-8-sig") as file:
        reader = csv.DictReader(file)
        for row in reader:
            yield reader.line_num, {k: v or "" for k, v in row.items() if k}
