"""The bundled kernels give the same bits whatever compiler built them and whatever processor they were built for."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from functools import cache
from importlib.util import find_spec
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent
FEW = ("01_add", "03_softmax", "07_matmul")  # a copy, reductions and elementary functions, the cube
ZIG = f"{sys.executable} -m ziglang c++"
CROSS, EMULATOR = "aarch64-linux-gnu-g++", "qemu-aarch64"


def reports(cxx: str, march: str, folders: tuple[str, ...], *emulator: str) -> dict[str, dict[str, str]]:
    """What run_examples prints with this compiler for this processor."""
    environment = {**os.environ, "TOPROPE_CXX": cxx, "TOPROPE_MARCH": march, "TOPROPE_EXAMPLES": " ".join(folders)}
    done = subprocess.run(
        [sys.executable, "-m", "tests.machines.run_examples", *emulator],
        cwd=ROOT, env=environment, capture_output=True, text=True, timeout=1800,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    return dict(json.loads(done.stdout))


@cache
def here(folders: tuple[str, ...]) -> dict[str, dict[str, str]]:
    """With the compiler and for the processor of this machine."""
    return reports(os.environ.get("TOPROPE_CXX", ""), os.environ.get("TOPROPE_MARCH", ""), folders)


def needs(cxx: str, march: str) -> None:
    """Skips, by name, what this machine does not have."""
    if cxx == ZIG and not find_spec("ziglang"):
        pytest.skip("no package ziglang")
    if cxx and cxx != ZIG and shutil.which(cxx) is None:
        pytest.skip(f"no {cxx}")
    flags = (
        re.search(r"^flags\s*:(.*)$", Path("/proc/cpuinfo").read_text(), re.M)
        if os.path.exists("/proc/cpuinfo")
        else None
    )
    has = set(flags[1].split()) if flags else set()
    wanted = {"x86-64-v2": "sse4_2", "x86-64-v3": "avx2", "x86-64-v4": "avx512f"}.get(march)
    if wanted and wanted not in has:
        pytest.skip(f"this processor cannot run {march}")


@pytest.mark.parametrize(("cxx", "march"), [("", "x86-64-v3"), ("clang++", "")])
def test_few_kernels_give_the_same_bits(cxx: str, march: str) -> None:
    needs(cxx, march)
    expected = here(FEW)
    assert len(expected) == len(FEW) and all(expected.values())
    assert reports(cxx, march, FEW) == expected


@pytest.mark.slow
@pytest.mark.parametrize(
    ("cxx", "march"),
    [(c, m) for c in ("g++", "g++-11", "clang++", ZIG) for m in ("x86-64-v2", "x86-64-v3", "x86-64-v4")],
    ids=lambda v: "zig" if v == ZIG else v,
)  # fmt: skip
def test_all_kernels_give_the_same_bits(cxx: str, march: str) -> None:
    needs(cxx, march)
    expected = here(())
    assert len(expected) >= 12
    assert reports(cxx, march, ()) == expected


@pytest.mark.slow
def test_all_kernels_give_the_same_bits_on_arm64() -> None:
    for tool in (CROSS, EMULATOR):
        if shutil.which(tool) is None:
            pytest.skip(f"no {tool}")
    assert reports(CROSS, "armv8-a", (), EMULATOR, "-L", "/usr/aarch64-linux-gnu") == here(())
