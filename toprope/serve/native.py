"""Compile the C++ of this package once and keep the shared library by content."""

from __future__ import annotations

import ctypes
import hashlib
import os
import platform
import shutil
import subprocess
import tempfile
from functools import cache
from pathlib import Path

_HERE = Path(__file__).parent
_SOURCES = ("attention.cpp", "layers.cpp")
_HEADERS = ("vectors.h",)
# Tried in order: without OpenMP the kernels run on one thread, without -march=native they use the oldest instructions.
_FLAG_SETS = (("-march=native", "-fopenmp"), ("-fopenmp",), ())
_FLAGS = ("-O3", "-std=c++17", "-shared", "-fPIC", "-fno-gnu-unique", "-Wno-psabi")


class NoCompiler(RuntimeError):
    """The kernels could not be compiled; the message holds the compiler's own words."""


def cache_folder() -> Path:
    """Where compiled libraries are kept: ``$TOPROPE_CACHE`` or ``toprope`` in the user's cache folder."""
    if folder := os.environ.get("TOPROPE_CACHE"):
        return Path(folder)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "toprope"


def compile_shared(sources: list[Path], headers: list[Path], flags: tuple[str, ...]) -> Path:
    """The shared library made of ``sources``, compiled now or found in the cache.

    The key covers every byte of sources and headers, the flags, the compiler and the processor, because
    ``-march=native`` gives other code on another machine. Raises ``NoCompiler``.
    """
    compiler = os.environ.get("CXX") or shutil.which("g++") or shutil.which("clang++") or shutil.which("c++")
    if not compiler:
        raise NoCompiler("no C++ compiler found (tried $CXX, g++, clang++, c++)\n  cure: install one, or use torch kernels")
    digest = hashlib.sha256()
    for part in (compiler, _compiler_version(compiler), *flags, _processor()):
        digest.update(part.encode() + b"\0")
    for path in (*sources, *headers):
        digest.update(path.read_bytes() + b"\0")
    library = cache_folder() / f"{sources[0].stem}-{digest.hexdigest()[:20]}.so"
    if library.exists():
        return library
    library.parent.mkdir(parents=True, exist_ok=True)
    # Written under another name and renamed: a second process never loads half a library.
    with tempfile.TemporaryDirectory(dir=library.parent) as folder:
        fresh = Path(folder) / "fresh.so"
        command = [compiler, *flags, *map(str, sources), "-o", str(fresh)]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode:
            raise NoCompiler(f"{' '.join(command)} failed:\n{done.stderr.strip()}")
        fresh.replace(library)
    return library


@cache
def load_library() -> ctypes.CDLL:
    """The serving kernels as a loaded library; raises ``NoCompiler`` when no set of flags works."""
    # The OpenMP runtime inside torch must be in the process first, so that both share one pool of threads.
    import torch  # noqa: F401

    failures = []
    for flags in _FLAG_SETS:
        try:
            path = compile_shared([_HERE / s for s in _SOURCES], [_HERE / h for h in _HEADERS], (*_FLAGS, *flags))
            return ctypes.CDLL(str(path))
        except (NoCompiler, OSError) as error:
            failures.append(str(error))
    raise NoCompiler(failures[0])


@cache
def _compiler_version(compiler: str) -> str:
    return subprocess.run([compiler, "--version"], capture_output=True, text=True).stdout


@cache
def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return platform.processor()
    return next((line for line in lines if line.startswith(("flags", "Features"))), platform.machine())
