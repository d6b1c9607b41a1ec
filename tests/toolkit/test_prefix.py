"""The toolkit as users meet it: its environment, CMake with the language ASC, and programs that end badly."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from toprope.cli import main
from toprope.errors import BadInput
from toprope.toolkit.compiler import read
from toprope.toolkit.prefix import check_current, prefix, variables

EXAMPLES = Path(__file__).parents[2] / "examples"
CMAKE = """
cmake_minimum_required(VERSION 3.16)
set(CMAKE_ASC_ARCHITECTURES "dav-2201" CACHE STRING "")
find_package(ASC REQUIRED)
project(samples LANGUAGES ASC CXX)
add_executable(demo scale.asc other.cpp)
target_link_libraries(demo PRIVATE tiling_api register platform m dl)
target_compile_options(demo PRIVATE $<$<COMPILE_LANGUAGE:ASC>:--npu-arch=${CMAKE_ASC_ARCHITECTURES}>)
"""


@pytest.fixture(scope="module")
def environment() -> dict[str, str]:
    known = dict(os.environ)
    return known | variables(prefix(), known)


@pytest.fixture(scope="module")
def demo(tmp_path_factory: pytest.TempPathFactory, environment: dict[str, str]) -> Path:
    """Example 12, built by the commands that the vendor's samples name."""
    if shutil.which("cmake") is None:
        pytest.skip("no cmake here")
    folder = tmp_path_factory.mktemp("demo")
    shutil.copy(EXAMPLES / "12_single_file" / "scale.asc", folder)
    (folder / "other.cpp").write_text('#include "acl/acl.h"\nint unused() { return aclrtSetDevice(0); }\n')
    (folder / "CMakeLists.txt").write_text(CMAKE)
    (folder / "build").mkdir()
    done = subprocess.run(
        "cmake .. && make", shell=True, cwd=folder / "build", env=environment, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return folder / "build" / "demo"


def test_the_environment_is_shell_text(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["env"]) == 0
    lines = capsys.readouterr().out.splitlines()
    done = subprocess.run(
        ["bash", "-c", "\n".join([*lines, 'echo "$ASCEND_HOME_PATH"; command -v bisheng npu-smi msopgen'])],
        capture_output=True, text=True,
    )  # fmt: skip
    place = str(prefix())
    assert done.stdout.split() == [place, f"{place}/bin/bisheng", f"{place}/bin/npu-smi", f"{place}/bin/msopgen"]
    for name in (
        "set_env.sh",
        "include/acl/acl.h",
        "include/kernel_operator.h",
        "lib64/libascendcl.so",
        "opp/vendors",
        "cmake/ASC",
    ):
        assert (prefix() / name).exists()


def test_a_real_toolkit_is_left_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("ASCEND_HOME_PATH", str(tmp_path))
    assert main(["env"]) == 2 and str(tmp_path) in capsys.readouterr().err
    assert main(["env", "--over-real"]) == 0


def test_a_built_program_runs_alone_and_under_exec(demo: Path, tmp_path: Path) -> None:
    done = subprocess.run([demo], capture_output=True, text=True)  # no environment at all: it knows its libraries
    assert (done.returncode, done.stdout, done.stderr) == (0, "0 of 50001 products are wrong\n", "")
    command = [
        sys.executable,
        "-m",
        "toprope.cli",
        "exec",
        "--report",
        str(tmp_path / "out"),
        "--json",
        "--",
        str(demo),
    ]
    done = subprocess.run(command, capture_output=True, text=True)
    report = json.loads(done.stdout[done.stdout.index("{\n") :])
    assert done.returncode == 0 and report["findings"] == [] and report["launches"][0]["kernel"] == "scale<float>"
    assert [c["way"] for c in report["copies"]] == ["H2D", "D2H"] and report["memory_peak_bytes"] > 400000
    assert report["device_microseconds"] > report["microseconds"] > 1
    written = sorted((tmp_path / "out").iterdir())
    assert len(written) == 3 and all(json.loads(f.read_text()) for f in written)


def test_the_report_of_a_program_that_runs_alone(demo: Path, tmp_path: Path) -> None:
    file = tmp_path / "report.json"
    subprocess.run([demo], env=os.environ | {"TOPROPE_REPORT": str(file)}, capture_output=True, check=True)
    assert json.loads(file.read_text())["launches"][0]["line"] == 52


HANGS = """
#include <unistd.h>
#include <sys/wait.h>
#include <cstdlib>
#include <cstdio>
#include "acl/acl.h"
int main(int argc, char** argv) {
    aclrtSetDevice(0);
    void* at;
    aclrtMalloc(&at, 4096, ACL_MEM_MALLOC_HUGE_FIRST);
    if (argv[1][0] == 'f') {
        if (fork() == 0) return 0;
        wait(nullptr);
        aclrtFree(at);
        return 0;
    }
    std::puts("ready");
    std::fflush(stdout);
    if (argv[1][0] == 'a') std::abort();
    pause();
}
"""


@pytest.fixture(scope="module")
def ending(tmp_path_factory: pytest.TempPathFactory, environment: dict[str, str]) -> Path:
    folder = tmp_path_factory.mktemp("ending")
    (folder / "main.cpp").write_text(HANGS)
    # Plain g++ with the toolkit's folders, as projects without CMake do it.
    home = environment["ASCEND_HOME_PATH"]
    command = ["g++", "main.cpp", f"-I{home}/include", f"-L{home}/lib64", "-lascendcl", "-o", "main"]
    subprocess.run(command, cwd=folder, check=True)
    return folder / "main"


def recorders() -> list[str]:
    """The recorders of this user that run now."""
    out = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            words = (folder / "cmdline").read_bytes().split(b"\0")
        except OSError:
            continue
        if any(b"toprope.toolkit.recorder" in w for w in words):
            out.append(folder.name)
    return out


@pytest.mark.parametrize("how", ["kill", "abort", "fork"])
def test_a_program_that_ends_badly_leaves_one_message_and_no_process(
    ending: Path, environment: dict[str, str], how: str
) -> None:
    before = set(recorders())
    child = subprocess.Popen([ending, how], env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    if how == "kill":
        assert child.stdout is not None and child.stdout.readline() == "ready\n"
        child.send_signal(signal.SIGKILL)
    _, said = child.communicate(timeout=60)  # the recorder holds stderr until it has spoken
    assert said.count("ended without a word") == (how != "fork"), said
    assert ("acl-leak" in said) is False
    for _ in range(100):
        if not set(recorders()) - before:
            break
        time.sleep(0.1)
    assert not set(recorders()) - before


def test_the_command_line_of_the_compiler() -> None:
    command = read(
        [
            "--npu-arch=dav-c220-vec",
            "-O3",
            "-I",
            "inc",
            "-DA=1",
            "-x",
            "asc",
            "-c",
            "k.cpp",
            "-o",
            "k.o",
            "-MD",
            "-MF",
            "k.d",
        ]
    )
    assert (command.arch, command.stop, command.defines) == (2201, "-c", ["A=1"])
    assert command.sources == [(Path("k.cpp"), True)] and command.dependencies == {"-MD": "", "-MF": "k.d"}
    assert read(["main.cpp", "-o", "m"]).sources == [(Path("main.cpp"), False)]
    assert read(["--cce-soc-version=Ascend310P3", "k.asc"]).arch == 2002


def test_an_environment_of_before_an_update_is_refused(tmp_path: Path) -> None:
    (tmp_path / "complete").write_text("other files")
    with pytest.raises(BadInput, match="toprope has changed since"):
        check_current(tmp_path)
    check_current(prefix())
