"""`toprope --sandbox`: what a program inside can reach, and what is said where there is no sandbox to be had."""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys
from pathlib import Path

import pytest

# Tries everything that a sandbox is to forbid, then the two things that it allows; prints what went through.
PROGRAM = """
#include "tikicpulib.h"
#include "kernel_operator.h"
#include <arpa/inet.h>
#include <cstdio>
#include <cstdlib>
#include <sys/socket.h>
extern "C" __global__ __aicore__ void twice(GM_ADDR x, GM_ADDR y) {
    AscendC::TPipe pipe; AscendC::TQueBind<AscendC::TPosition::VECIN, AscendC::TPosition::VECOUT, 1> q; pipe.InitBuffer(q, 1, 256);
    AscendC::GlobalTensor<float> xg, yg; xg.SetGlobalBuffer((__gm__ float*)x, 64); yg.SetGlobalBuffer((__gm__ float*)y, 64);
    auto t = q.AllocTensor<float>(); AscendC::DataCopy(t, xg, 64); q.EnQue(t); t = q.DeQue<float>();
    AscendC::DataCopy(yg, t, 64); q.FreeTensor(t);
}
static bool writes(const char* path) {
    FILE* f = std::fopen(path, "w");
    if (f) std::fclose(f);
    return f != nullptr;
}
int main() {
    auto* x = (float*)AscendC::GmAlloc(256); auto* y = (float*)AscendC::GmAlloc(256);
    for (int i = 0; i < 64; ++i) x[i] = 3, y[i] = -7;
    AscendC::SetKernelMode(KernelMode::AIV_MODE);
    ICPU_RUN_KF(twice, 1, (uint8_t*)x, (uint8_t*)y);
    sockaddr_in to{}; to.sin_family = AF_INET; to.sin_port = htons(PORT); to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    const bool calls = connect(socket(AF_INET, SOCK_STREAM, 0), (sockaddr*)&to, sizeof to) == 0;
    std::printf("outside %d, calls %d, here %d, kernel %g\\n", writes(OUTSIDE), calls, writes("written_here"), y[0]);
}
"""


def command(
    folder: Path, *words: str, path: str | None = None, cache: Path | None = None
) -> subprocess.CompletedProcess[str]:
    env = (
        dict(os.environ)
        | ({"PATH": path} if path is not None else {})
        | ({"TOPROPE_CACHE": str(cache)} if cache else {})
    )
    return subprocess.run(
        [sys.executable, "-P", "-m", "toprope.cli", *words],
        cwd=folder,
        env=env,
        capture_output=True,
        text=True,
        timeout=120,
    )


def works() -> bool:
    tool = shutil.which("bwrap")
    return (
        tool is not None
        and not subprocess.run([tool, "--ro-bind", "/", "/", "--unshare-all", "true"], capture_output=True).returncode
    )


needs_sandbox = pytest.mark.skipif(
    not works(), reason="needs bubblewrap and user namespaces (apt-get install bubblewrap)"
)


@pytest.fixture
def here(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    folder.mkdir()
    # A file that Python must not take for its own module.
    (folder / "random.py").write_text("raise SystemExit(77)\n")
    return folder


@needs_sandbox
def test_a_program_inside_runs_its_kernel_and_reaches_nothing_outside(here: Path, tmp_path: Path) -> None:
    outside = Path("/var/tmp") / f"toprope_outside_{os.getpid()}"  # anybody may write there, and it is not below /tmp
    with socket.create_server(("127.0.0.1", 0)) as listens:
        said = {}
        (here / "main.cpp").write_text(
            f'#define OUTSIDE "{outside}"\n#define PORT {listens.getsockname()[1]}\n' + PROGRAM
        )
        try:
            for words in ((), ("--sandbox",)):
                done = command(here, *words, "run", "main.cpp", cache=tmp_path / "cache")
                assert done.returncode == 0, done.stdout + done.stderr
                said[words] = done.stdout.splitlines()[0]
                assert outside.exists() == (not words)
                outside.unlink(missing_ok=True)
                (here / "written_here").unlink()  # there after both
        finally:
            outside.unlink(missing_ok=True)
    assert said == {
        (): "outside 1, calls 1, here 1, kernel 3",
        ("--sandbox",): "outside 0, calls 0, here 1, kernel 3",
    }


@needs_sandbox
def test_exit_codes_and_documents_come_out_of_the_sandbox(here: Path) -> None:
    (here / "k.cpp").write_text(
        '#include "kernel_operator.h"\nextern "C" __global__ __aicore__ void k(GM_ADDR z) { ((__gm__ float*)z)[64] = 1.0f; }\n'
    )
    wrong = command(here, "--sandbox", "check", "k.cpp", "--json")
    assert wrong.returncode == 2 and json.loads(wrong.stdout)["error"]["code"] == "nothing-to-run"
    crashed = command(here, "--sandbox", "check", "k.cpp:k", "z=float[64] out")
    assert crashed.returncode == 3 and "kernel-crash" in crashed.stdout, crashed.stdout + crashed.stderr


def test_no_bubblewrap_is_one_message(here: Path) -> None:
    done = command(here, "--sandbox", "socs", path=str(here))
    assert done.returncode == 2 and "bubblewrap" in done.stderr and "Traceback" not in done.stderr
    assert done.stdout == ""


def test_a_sandbox_that_cannot_be_made_is_no_finding(here: Path) -> None:
    tool = here / "bwrap"
    tool.write_text("#!/bin/sh\necho 'bwrap: No permissions to create new namespace' >&2\nexit 1\n")
    tool.chmod(0o755)
    done = command(here, "--sandbox", "socs", path=f"{here}:{os.environ['PATH']}")
    assert done.returncode == 2 and "No permissions to create new namespace" in done.stderr
    assert done.stdout == ""
