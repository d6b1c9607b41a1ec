"""The vendor's header paths: one table beside the header library, and the search folders that are made from it.

`ascendc/` holds our headers only. Where the vendor has one more path for what a header of ours declares (`adv_api/math/exp.h`,
`exe_graph/runtime/range.h`), `ascendc/vendor_paths.tsv` has a row: the seam, the path as users write it, and our headers that stand for it.
Compiles search our folder first and then a folder of the cache with one forwarding file a row. The folder's name is a digest of all that is in
it, it is complete as soon as it exists, and nothing is ever changed in it.
"""

from __future__ import annotations

import hashlib
import os
import posixpath
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from toprope.cache import cache_dir, full_or_unwritable, scratch

INCLUDE = Path(__file__).parent / "ascendc"
TABLE = INCLUDE / "vendor_paths.tsv"
SEAMS = ("any", "host")


@dataclass(frozen=True)
class VendorPath:
    """One row: `path` as users write it; `headers` from the library's folder, none if the vendor's header has nothing that is needed here.

    `seam` is "any" when every compile finds the path, "host" when host code does, and kernels that include host code.
    """

    seam: str
    path: str
    headers: tuple[str, ...]


@cache
def table() -> tuple[VendorPath, ...]:
    """The rows of vendor_paths.tsv."""
    rows = [line.split("\t") for line in TABLE.read_text().splitlines() if line and not line.startswith("#")]
    return tuple(VendorPath(seam, path, tuple(h for h in headers.split() if h != "-")) for seam, path, headers in rows)


def vendor_folders() -> Path:
    """Where the search folders lie."""
    return cache_dir() / "vendor_paths"


def search_folder(seam: str) -> Path:
    """The folder that leads from the vendor's paths of one seam to our headers; made in the cache when there is none."""
    return _made(vendor_folders(), _forwards(seam))


@cache
def _forwards(seam: str) -> Mapping[str, str]:
    here = INCLUDE.as_posix()
    return {row.path: _forward(f"{here}/{header}" for header in row.headers) for row in table() if row.seam == seam}


def stand_alone() -> Path:
    """One folder with everything a C++ compiler needs: a copy of our headers and all vendor paths. It may be copied elsewhere."""
    files = {p.relative_to(INCLUDE).as_posix(): p.read_text() for p in sorted(INCLUDE.rglob("*")) if p.suffix in _CODE}
    ours = tuple(files)
    for row in table():
        files[row.path] = _relative(row.path, row.headers)
        if row.seam == "host":
            files[f"host/{row.path}"] = _relative(f"host/{row.path}", row.headers)
    # Host code names its headers from host/; with one search folder they are found from its top as well.
    for header in ours:
        path = header.removeprefix("host/")
        if path != header:
            files.setdefault(path, _relative(path, (header,)))
    return _made(cache_dir() / "include", files)


_CODE = (".h", ".hpp", ".cpp")


def _relative(path: str, headers: tuple[str, ...]) -> str:
    return _forward(posixpath.relpath(header, posixpath.dirname(path) or ".") for header in headers)


def _forward(names: Iterable[str]) -> str:
    return "#pragma once\n" + "".join(f'#include "{name}"\n' for name in names)


def _made(parent: Path, files: Mapping[str, str]) -> Path:
    """The folder below `parent` with exactly these files, named by their digest; written whole or not at all."""
    digest = hashlib.sha256(repr(sorted(files.items())).encode()).hexdigest()[:16]
    folder = parent / digest
    if folder.is_dir():
        return folder
    with scratch() as partial:
        try:
            for name, text in files.items():
                file = partial / name
                file.parent.mkdir(parents=True, exist_ok=True)
                file.write_text(text)
            partial.chmod(0o755)
            parent.mkdir(parents=True, exist_ok=True)
            os.rename(partial, folder)
        except OSError as error:
            if not folder.is_dir():  # else another process was first, with the same files
                raise full_or_unwritable(error) from None
    return folder
