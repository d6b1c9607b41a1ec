"""What is kept of a compile is used only while every file that it was made of, and every place that was searched, is as it was."""

from __future__ import annotations

import ctypes
import errno
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

from toprope import build, cache
from toprope.errors import BadInput, CompileFailed, TopropeError

PATHS = (
    "with  two", "#hash a#b", "cash$ $(x)", "tab\there", "back\\slash", "back\\ blank", "back\\#hash",
    "col:on;semi", "per%cent'&", "ünï", "star*?[x]@=~", "-dash",
)  # fmt: skip


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache, and a header library of nothing."""
    library = tmp_path / "library"
    library.mkdir()
    monkeypatch.setattr(build, "INCLUDE", library)
    monkeypatch.setenv("TOPROPE_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def settle() -> None:
    """Let the file system's clock pass the last save: a file saved while the compiler runs is never trusted."""
    time.sleep(0.02)


def said(source: str | Path, *include: Path) -> int:
    """What the compiled function `number` returns, loaded from where the cache has it."""
    return int(ctypes.CDLL(str(build.shared_library(source, include=include))).number())


def compiles(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """One entry for every run of the compiler from now on."""
    runs: list[int] = []
    real = build.compiled
    monkeypatch.setattr(build, "compiled", lambda *a: (runs.append(1), real(*a))[1])
    return runs


@pytest.mark.parametrize("folder", PATHS)
def test_an_edit_is_seen_in_every_path(folder: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place = tmp_path / folder
    place.mkdir(parents=True)
    source, header = place / f"{Path(folder).name} k.cpp", place / "v.h"
    source.write_text('#include "v.h"\nextern "C" int number() { return VALUE; }\n')
    header.write_text("#define VALUE 1\n")
    settle()
    runs = compiles(monkeypatch)
    assert [said(source), said(source), len(runs)] == [1, 1, 1]
    header.write_text("#define VALUE 2\n")
    settle()
    assert [said(source), len(runs)] == [2, 2]
    source.write_text('#include "v.h"\nextern "C" int number() { return VALUE + 3; }\n')
    settle()
    assert [said(source), said(source), len(runs)] == [5, 5, 3]


@pytest.mark.skipif(not os.access("/usr/local", os.W_OK), reason="needs a folder below /usr")
def test_an_edit_below_usr_is_seen() -> None:
    place = Path(f"/usr/local/toprope-test-{os.getpid()}")
    place.mkdir()
    try:
        for number in (1, 2):
            (place / "v.h").write_text(f"#define VALUE {number}\n")
            (place / "k.cpp").write_text('#include "v.h"\nextern "C" int number() { return VALUE; }\n')
            settle()
            assert said(place / "k.cpp") == number
    finally:
        shutil.rmtree(place)


def test_symbolic_links_are_followed_each_time(tmp_path: Path) -> None:
    for number in (1, 2):
        (tmp_path / f"v{number}.h").write_text(f"#define VALUE {number}\n")
        (tmp_path / f"k{number}.cpp").write_text(
            f'#include "v.h"\nextern "C" int number() {{ return {number}0 + VALUE; }}\n'
        )
    source, header = tmp_path / "k.cpp", tmp_path / "v.h"
    seen = []
    for k, v in ((1, 1), (1, 2), (2, 2)):
        for link, target in ((source, f"k{k}.cpp"), (header, f"v{v}.h")):
            link.unlink(missing_ok=True)
            link.symlink_to(target)
        settle()
        seen.append(said(source))
    assert seen == [11, 12, 22]


def test_a_header_that_appears_earlier_on_the_search_path_is_read(tmp_path: Path) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    (second / "sub").mkdir(parents=True)
    (first / "sub").mkdir(parents=True)
    (second / "sub" / "v.h").write_text("#define VALUE 1\n")
    source = tmp_path / "k.cpp"
    source.write_text('#include "sub/v.h"\nextern "C" int number() { return VALUE; }\n')
    settle()
    assert [said(source, first, second), said(source, first, second)] == [1, 1]
    (first / "sub" / "v.h").write_text("#define VALUE 2\n")
    settle()
    assert said(source, first, second) == 2
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "v.h").write_text("#define VALUE 3\n")  # beside the source: before every folder
    settle()
    assert said(source, first, second) == 3


def test_a_header_that_was_asked_for_and_comes_later_is_read(tmp_path: Path) -> None:
    source = tmp_path / "k.cpp"
    source.write_text(
        '#if __has_include("extra.h")\n#include "extra.h"\n#else\n#define VALUE 1\n#endif\nextern "C" int number() { return VALUE; }\n'
    )
    settle()
    assert [said(source), said(source)] == [1, 1]
    (tmp_path / "extra.h").write_text("#define VALUE 2\n")
    settle()
    assert said(source) == 2


def test_a_deleted_header_is_missed(tmp_path: Path) -> None:
    source, header = tmp_path / "k.cpp", tmp_path / "v.h"
    source.write_text('#include "v.h"\nextern "C" int number() { return VALUE; }\n')
    header.write_text("#define VALUE 1\n")
    settle()
    assert said(source) == 1
    header.unlink()
    with pytest.raises(CompileFailed, match=r"v\.h"):
        said(source)


def test_the_same_relative_folder_elsewhere_is_another_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen = []
    for number in (1, 2):
        (tmp_path / f"p{number}" / "inc").mkdir(parents=True)
        (tmp_path / f"p{number}" / "inc" / "v.h").write_text(f"#define VALUE {number}\n")
        settle()
        monkeypatch.chdir(tmp_path / f"p{number}")
        seen.append(said('#include "v.h"\nextern "C" int number() { return VALUE; }\n', Path("inc")))
    assert seen == [1, 2]


@pytest.mark.parametrize("path", ['quo"te', "line\nbreak"])
def test_a_path_that_cannot_be_included_is_refused(path: str, tmp_path: Path) -> None:
    (tmp_path / path).mkdir()
    (tmp_path / path / "k.cpp").write_text('extern "C" int number() { return 1; }\n')
    with pytest.raises(BadInput, match="quote or a line break"):
        said(tmp_path / path / "k.cpp")


ONE = 'extern "C" int number() { return 7; }\n'


@pytest.mark.parametrize(
    "damage", ["truncated", "empty", "gone", "other", "torn manifest", "no manifest", "list manifest"]
)
def test_damage_is_built_again(damage: str, own_cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    runs = compiles(monkeypatch)
    library = build.shared_library(ONE)
    manifest = next(own_cache.glob("*.json"))
    whole = library.read_bytes()
    if damage == "gone":
        library.unlink()
    elif "manifest" in damage:
        manifest.unlink()
        if damage != "no manifest":
            manifest.write_text({"torn": '{"made": "', "list": "[1]"}[damage.split()[0]])
    else:
        library.unlink()  # never write into what is mapped
        library.write_bytes({"truncated": whole[: len(whole) // 2], "empty": b"", "other": whole[::-1]}[damage])
    assert [said(ONE), len(runs)] == [7, 2]
    assert [said(ONE), len(runs)] == [7, 2]


def test_two_dependency_files_of_make_are_read() -> None:
    text = "unit.o: a.cpp b\\ c.h \\\n d\\#e.h f$$g.h h\\\\i.h j\\\\\\ k.h l\\:m.h\\\n n.h\n"
    wanted = ["a.cpp", "b c.h", "d#e.h", "f$g.h", "h\\\\i.h", "j\\ k.h", "l:m.h", "n.h"]
    assert cache.dependencies(text) == wanted


def test_scratch_folders_of_killed_processes_go(own_cache: Path) -> None:
    child = subprocess.run([sys.executable, "-c", "import os; print(os.getpid())"], capture_output=True, text=True)
    own_cache.mkdir()
    dead, mine = own_cache / f"tmp-{child.stdout.strip()}-x", own_cache / f"tmp-{os.getpid()}-x"
    old = own_cache / "tmpabcd"
    for folder, age_s in ((dead, 60), (mine, 60), (old, 90000)):
        folder.mkdir()
        os.utime(folder, (time.time() - age_s,) * 2)
    cache.cache_dir()
    assert [dead.exists(), mine.exists(), old.exists()] == [False, True, False]


def test_the_folder_is_its_owners_alone(tmp_path: Path, own_cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert cache.cache_dir().stat().st_mode & 0o777 == 0o700
    (tmp_path / "open").mkdir()
    (tmp_path / "open").chmod(0o777)
    monkeypatch.setenv("TOPROPE_CACHE", str(tmp_path / "open"))
    assert cache.cache_dir().parent == tmp_path / "open" and cache.cache_dir().stat().st_mode & 0o777 == 0o700
    assert (tmp_path / "open").stat().st_mode & 0o777 == 0o777  # somebody else's business


def test_without_a_usable_folder_kernels_are_compiled_and_not_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "a file").write_text("")
    monkeypatch.setenv("TOPROPE_CACHE", str(tmp_path / "a file"))
    assert said(ONE) == 7
    assert capfd.readouterr().err.count("note: compiled kernels are not kept") == 1
    monkeypatch.delenv("TOPROPE_CACHE")
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)

    def no_home() -> Path:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.setattr(Path, "home", no_home)
    assert said(ONE) == 7
    assert "no home folder" in capfd.readouterr().err


def test_a_full_disk_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake = tmp_path / "g++"
    fake.write_text(
        "#!/bin/sh\n[ \"$1\" = --version ] && echo g++ && exit 0\necho 'as: No space left on device' >&2\nexit 1\n"
    )
    fake.chmod(0o755)
    monkeypatch.setattr(build, "compiler", lambda: build.Compiler((str(fake),), "g++", False))
    with pytest.raises(TopropeError, match=r"cache-unusable: the cache folder .*No space left"):
        build.shared_library(ONE)

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.undo()
    monkeypatch.setenv("TOPROPE_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(os, "replace", full)
    with pytest.raises(TopropeError, match=r"cache-unusable: the cache folder .*No space left"):
        build.shared_library(ONE)


def test_a_compile_without_an_end_has_its_own_message(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(build, "compiler", lambda: build.Compiler(("sh", "-c", "sleep 60"), "sh", False))
    monkeypatch.setenv("TOPROPE_COMPILE_LIMIT", "0.2")
    with pytest.raises(CompileFailed, match=r"compile-time-limit: the compiler did not end within 0\.2 s"):
        build.shared_library(ONE)
    monkeypatch.setenv("TOPROPE_COMPILE_LIMIT", "soon")
    with pytest.raises(BadInput, match="TOPROPE_COMPILE_LIMIT=soon"):
        build.shared_library(ONE)
