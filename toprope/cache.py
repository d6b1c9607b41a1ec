"""The folder of compiled files: what is kept, and whether what is kept is still what the sources say.

A kept file is believed only if everything that it was made of is as it was: the files that the compiler read, and the places where it
would have found another file first. Whatever cannot be verified is built again.
"""

from __future__ import annotations

import atexit
import contextlib
import hashlib
import json
import os
import re
import shutil
import stat
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from toprope.errors import BadInput

_STALE_S = 24 * 3600.0  # a scratch folder of another machine's process, on a shared disk
_OLD_S = 3600.0  # a library that an edit has replaced: long enough for whoever was about to load it


def cache_dir() -> Path:
    """Where compiled files are kept: $TOPROPE_CACHE or the user's cache folder; a folder of this process if that cannot be written."""
    path = _usable(_wanted())
    if not path.is_dir():  # removed since
        _usable.cache_clear()
        path = _usable(_wanted())
    return path


def _wanted() -> str:
    if root := os.environ.get("TOPROPE_CACHE"):
        return root
    if root := os.environ.get("XDG_CACHE_HOME"):
        return str(Path(root) / "toprope")
    try:
        return str(Path.home() / ".cache" / "toprope")
    except RuntimeError:  # no HOME, and the user has no entry in the password file
        return ""


@cache
def _usable(wanted: str) -> Path:
    reason = "this user has no home folder"
    if wanted:
        try:
            return _prepared(Path(wanted))
        except OSError as error:
            reason = f"{wanted}: {error.strerror or error}"
    folder = Path(tempfile.mkdtemp(prefix="toprope-"))
    owner = os.getpid()
    atexit.register(lambda: shutil.rmtree(folder, ignore_errors=True) if os.getpid() == owner else None)
    print(
        f"note: compiled kernels are not kept ({reason}); set TOPROPE_CACHE to a folder that can be written",
        file=sys.stderr,
    )
    return folder


def _prepared(path: Path) -> Path:
    """The folder, made for its owner alone: what lies in it is executed. Raises OSError if it cannot be used."""
    path.mkdir(parents=True, exist_ok=True, mode=0o700)
    status = path.stat()
    mine = status.st_uid == os.geteuid()
    if mine and path.name == "toprope":
        path.chmod(0o700)
    elif status.st_mode & 0o022:  # others write there: a folder of our own inside
        path = path / f"toprope-{os.geteuid()}"
        path.mkdir(exist_ok=True, mode=0o700)
        status = path.lstat()
        mine = status.st_uid == os.geteuid() and stat.S_ISDIR(status.st_mode)
    if not mine and status.st_uid != 0:
        raise OSError(f"{path} belongs to another user, whose files would be executed")
    handle, name = tempfile.mkstemp(prefix="tmp-write-", dir=path)
    os.close(handle)
    os.unlink(name)
    _sweep(path)
    return path


def _sweep(path: Path) -> None:
    # Scratch folders whose process was killed.
    for folder in path.glob("tmp*"):
        with contextlib.suppress(OSError):
            owner = re.match(r"tmp-(\d+)-", folder.name)
            age_s = time.time() - folder.stat().st_mtime
            if age_s > _STALE_S or (owner and age_s > 1 and not _alive(int(owner[1]))):
                shutil.rmtree(folder) if folder.is_dir() else folder.unlink()


def _alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except OSError:
        pass
    return True


@contextlib.contextmanager
def scratch() -> Iterator[Path]:
    """A folder to build in, on the disk of the cache, so that what is finished can be moved into place at once."""
    try:
        folder = Path(tempfile.mkdtemp(prefix=f"tmp-{os.getpid()}-", dir=cache_dir()))
    except OSError as error:
        raise full_or_unwritable(error) from None
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def full_or_unwritable(error: OSError) -> BadInput:
    """What to tell the user when a file of the cache cannot be written."""
    return BadInput(
        f"the cache folder {cache_dir()} cannot be written: {error.strerror or error}",
        cure="make room there, or set TOPROPE_CACHE to a folder on another disk",
        code="cache-unusable",
    )


def kept(key: str) -> Path | None:
    """The file that was kept under `key`, if it is whole and all that it was made of is unchanged."""
    try:
        manifest = json.loads((cache_dir() / f"{key}.json").read_bytes())
        made = cache_dir() / str(manifest["made"])
        if _bytes_digest(made)[:16] != made.stem.rpartition("-")[2]:
            return None
        if all(_unchanged(path, was) for path, was in manifest["files"].items()) and _same_search(manifest["search"]):
            return made
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        pass  # missing, torn or written by another version: build again
    return None


def manifest_files(made: Path) -> list[str]:
    """The files that a kept file was made of; none if that is not known."""
    try:
        manifest = json.loads((made.parent / f"{made.stem.rpartition('-')[0]}.json").read_bytes())
        return [*manifest["files"]]
    except (OSError, ValueError, KeyError, TypeError):
        return []


def keep(key: str, made: Path, files: dict[str, str], search: dict[str, Any]) -> Path:
    """Move a finished file into the cache and return where it lies now; `files` {} means: do not find it again.

    Its name says its content, so that a process that has loaded the file of before the last edit loads the new one.
    """
    try:
        place = cache_dir() / f"{key}-{_bytes_digest(made)[:16]}{made.suffix}"
        os.replace(made, place)
        manifest = cache_dir() / f"{key}.json"
        if files:
            partial = made.with_name("manifest.json")
            partial.write_text(json.dumps({"made": place.name, "files": files, "search": search}))
            os.replace(partial, manifest)
        else:
            manifest.unlink(missing_ok=True)
        for old in cache_dir().glob(f"{key}-*"):
            with contextlib.suppress(OSError):
                if old != place and time.time() - old.stat().st_mtime > _OLD_S:
                    old.unlink()
    except OSError as error:
        raise full_or_unwritable(error) from None
    return place


def _bytes_digest(path: str | Path) -> str:
    return hashlib.sha256(Path(path).read_bytes()).hexdigest()


def _stamp(path: str) -> str:
    s = os.stat(path)
    return f"{s.st_size}:{s.st_mtime_ns}:{s.st_ino}"


def state(path: str, *, trust_dates: bool) -> str:
    """What is remembered of a file: its digest, and, where `trust_dates`, its size and date to compare first. Raises OSError."""
    return (_stamp(path) if trust_dates else "") + "|" + _bytes_digest(path)


def _unchanged(path: str, was: str) -> bool:
    stamp, _, digest = was.partition("|")
    return (bool(stamp) and stamp == _stamp(path)) or _bytes_digest(path) == digest


def dependencies(text: str) -> list[str]:
    """The files in a compiler's dependency file (a rule for make), with make's quoting undone."""
    _, _, listed = text.replace("\\\r\n", " ").replace("\\\n", " ").partition(": ")
    return [_unquoted(word) for word in re.findall(r"(?:\\[ \t]|\\.|[^\s\\])+", listed)]


def _unquoted(word: str) -> str:
    # Backslashes are doubled only in front of a blank; elsewhere they stand for themselves.
    word = re.sub(r"(\\*)\\([ \t])", lambda m: m[1][: len(m[1]) // 2] + m[2], word)
    return word.replace("$$", "$").replace("\\:", ":").replace("\\#", "#")


_ASKED = re.compile(r'__has_include\s*\(\s*["<]([^">\n]+)[">]')


def search_of(files: Sequence[str], folders: Sequence[str], own: str) -> dict[str, Any]:
    """Where a file that does not exist yet would be found before one of `files`, and what of that exists now.

    `folders` are the compiler's include folders in order, `own` the header library's, which nobody adds files to. A quoted include
    looks beside the file that includes first, so every folder of a file that is not the library's counts.
    """
    users = [f for f in files if not f.startswith(own + os.sep)]
    system = [f for f in users if f.startswith(("/usr/include/", "/usr/lib/"))]
    beside = {os.path.dirname(f) for f in users if f not in system}
    names = {os.path.basename(f) for f in system}
    for file in files:
        names |= {file[len(folder) + 1 :] for folder in folders if file.startswith(folder + os.sep)}
    for file in users:
        if file not in system:
            with contextlib.suppress(OSError):
                names |= set(_ASKED.findall(Path(file).read_text(errors="replace")))
    looked = sorted((beside | set(folders)) - {own})
    first = sorted({name.split("/", 1)[0] for name in names})
    absent = [
        place
        for folder in looked
        for name in names
        if "/" in name
        and os.path.lexists(os.path.join(folder, name.split("/", 1)[0]))
        and not os.path.lexists(place := os.path.join(folder, name))
    ]
    return {"names": first, "folders": {f: _present(f, first) for f in looked}, "absent": sorted(absent)}


def _present(folder: str, names: Sequence[str]) -> list[str]:
    try:
        return sorted(set(os.listdir(folder)).intersection(names))
    except OSError:
        return []


def _same_search(search: dict[str, Any]) -> bool:
    return all(_present(folder, search["names"]) == there for folder, there in search["folders"].items()) and not any(
        map(os.path.lexists, search["absent"])
    )
