"""The compile step: what is cached, and copies of the header that were read before."""

from __future__ import annotations

import ctypes
import os
import time
from pathlib import Path

import pytest

from toprope import build
from toprope.errors import CompileFailed
from toprope.kernel import header_ahead

ANSWER = '#include "answer.h"\nextern "C" int answer_%d() { return ANSWER; }\n'


@pytest.fixture
def library(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A header library of one file, and an empty cache."""
    folder = tmp_path / "library"
    folder.mkdir()
    (folder / "answer.h").write_text("#pragma once\n#ifdef TWICE\n#define ANSWER 2\n#else\n#define ANSWER 1\n#endif\n")
    monkeypatch.setattr(build, "INCLUDE", folder)
    monkeypatch.setenv("TOPROPE_CACHE", str(tmp_path / "cache"))
    return folder


def answer(number: int, defines: tuple[str, ...] = ()) -> int:
    """What the numbered program says."""
    made = build.shared_library(ANSWER % number, defines=defines, ahead="answer.h")
    # Under a name of its own: a library that is loaded already would not be loaded again.
    once = made.with_name(f"{time.monotonic_ns()}.so")
    once.write_bytes(made.read_bytes())
    return int(getattr(ctypes.CDLL(str(once)), f"answer_{number}")())


@pytest.mark.skipif(not build.compiler().is_gcc, reason="only GCC's copies are used")
def test_a_header_is_read_once_and_copies_never_change_what_is_built(library: Path, tmp_path: Path) -> None:
    copies = tmp_path / "cache" / "precompiled"
    assert [answer(1), len(list(copies.glob("*/*.gch")))] == [1, 0]
    assert [answer(2), len(list(copies.glob("*/*.gch")))] == [1, 1]
    assert answer(3) == 1  # begins with the copy
    assert answer(4, ("TWICE",)) == 2  # the copy was made without this define
    (library / "answer.h").write_text("#pragma once\n#define ANSWER 3\n")
    earlier = (library / "answer.h").stat().st_mtime_ns - 10**9
    os.utime(library / "answer.h", ns=(earlier, earlier))
    assert [answer(5), answer(6), answer(7)] == [3, 3, 3]
    assert len(list(copies.glob("*/*.gch"))) == 1  # the old one is gone
    (library / "answer.h").write_text("#pragma once\n#define ANSWER 4\n")
    os.utime(library / "answer.h", ns=(earlier + 1, earlier + 1))
    assert answer(7) == 4  # a library that began with a copy knows what the copy was made of


def test_a_text_that_does_not_compile_says_where(library: Path) -> None:
    for number in range(3):
        with pytest.raises(CompileFailed, match="nonsense"):
            build.shared_library(f"nonsense {number};", ahead="answer.h")


def test_only_a_source_that_begins_with_the_header_begins_with_its_copy(tmp_path: Path) -> None:
    kernel = tmp_path / "kernel.cpp"
    for text, wanted in (
        ('/* an\n addition */\n// here\n#include "kernel_operator.h"\nvoid f();\n', "kernel_operator.h"),
        ("# include <kernel_operator.h>\n", "kernel_operator.h"),
        ('#define HALF 1\n#include "kernel_operator.h"\n', ""),
        ('// #include "kernel_operator.h"\nvoid f();\n', ""),
        ("void f();\n", ""),
    ):
        kernel.write_text(text)
        assert header_ahead(kernel) == wanted, text
    (tmp_path / "own").mkdir()
    kernel.write_text('#include "kernel_operator.h"\n')
    (tmp_path / "own" / "kernel_operator.h").write_text("")
    assert header_ahead(kernel, (tmp_path / "own",)) == ""


def test_a_library_is_linked_anew_when_an_object_is_compiled_anew(library: Path, tmp_path: Path) -> None:
    source = tmp_path / "part.cpp"
    said = []
    for number in (5, 6):
        source.write_text(f'extern "C" int part() {{ return {number}; }}\n')
        os.utime(source, ns=(number * 10**9, number * 10**9))
        made = build.shared_library("// the whole\n", link=[build.shared_library(source, extra=("-c",))])
        once = made.with_name(f"{number}.so")
        once.write_bytes(made.read_bytes())
        said.append(ctypes.CDLL(str(once)).part())
    assert said == [5, 6]


def test_an_empty_cache_variable_means_the_users_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("TOPROPE_CACHE", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", "")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert build.cache_dir() == tmp_path / ".cache" / "toprope"


def test_a_mac_library_is_told_from_an_object(tmp_path: Path) -> None:
    for kind, expected in ((1, False), (6, True)):
        file = tmp_path / str(kind)
        file.write_bytes(b"\xcf\xfa\xed\xfe\x0c\x00\x00\x01\x00\x00\x00\x00" + bytes([kind, 0, 0, 0]) + bytes(64))
        assert build._is_mac_library(file) is expected
    assert not build._is_mac_library(Path(__file__))


@pytest.mark.parametrize(
    ("version", "is_gcc", "least"),
    [
        ("g++ (Debian 12.2.0-14) 12.2.0", True, ""),
        ("g++ (Ubuntu 11.4.0-1ubuntu1~22.04) 11.4.0", True, ""),
        ("g++ (Ubuntu 9.4.0-1ubuntu1~20.04.2) 9.4.0", True, "11"),
        ("g++ (GCC) 8.5.0 20210514 (Red Hat 8.5.0-22)", True, "11"),
        ("Debian clang version 14.0.6", False, ""),
        ("Ubuntu clang version 10.0.0-4ubuntu1", False, "14"),
        ("Apple clang version 15.0.0 (clang-1500.3.9.4)", False, ""),
        ("something else", False, ""),
    ],
)
def test_too_old_compilers_are_known(version: str, is_gcc: bool, least: str) -> None:
    assert build.Compiler(("x",), version, is_gcc).least == least
