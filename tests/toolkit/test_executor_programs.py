"""A host program that calls aclnn functions: each executor launches or answers on the device, and a shape that hangs on the data is told."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from toprope.toolkit.execute import run
from toprope.toolkit.prefix import prefix, variables
from toprope.toolkit.session import Session
from toprope.toolkit.show import as_json

MAIN = """
#include <cstdio>
#include <vector>
#include "acl/acl.h"
#include "aclnnop/aclnn_add.h"
#include "aclnnop/aclnn_exp.h"
#include "aclnnop/aclnn_matmul.h"
#include "aclnnop/aclnn_nonzero.h"
#include "aclnnop/aclnn_erfinv.h"
aclrtStream s;
aclTensor* made(std::vector<int64_t> dims, std::vector<int64_t> steps, aclDataType type, const void* from, size_t bytes, void** block) {
    aclrtMalloc(block, bytes, ACL_MEM_MALLOC_HUGE_FIRST);
    if (from != nullptr) aclrtMemcpy(*block, bytes, from, bytes, ACL_MEMCPY_HOST_TO_DEVICE);
    return aclCreateTensor(dims.data(), dims.size(), type, steps.empty() ? nullptr : steps.data(), 0, ACL_FORMAT_ND, dims.data(), dims.size(), *block);
}
template <typename F>
int launched(F run, uint64_t size, aclOpExecutor* e) {
    void* work = nullptr;
    if (size != 0) aclrtMalloc(&work, size, ACL_MEM_MALLOC_HUGE_FIRST);
    const int code = run(work, size, e, s);
    const int waited = aclrtSynchronizeStream(s);
    if (work != nullptr) aclrtFree(work);
    return code != 0 ? code : waited;
}
int main() {
    aclrtSetDevice(0);
    aclrtCreateStream(&s);
    uint64_t size = 0;
    aclOpExecutor* e = nullptr;
    void* b[9];
    std::vector<float> x(600), z(600);
    for (int i = 0; i < 600; ++i) x[i] = i % 7 == 0 ? 0.0f : 0.01f * i;
    aclTensor* t[9];
    t[0] = made({20, 30}, {}, ACL_FLOAT, x.data(), 2400, &b[0]);
    t[1] = made({20, 30}, {}, ACL_FLOAT, nullptr, 2400, &b[1]);
    t[2] = made({20, 30}, {1, 20}, ACL_FLOAT, x.data(), 2400, &b[2]);  // turned
    float two = 2;
    aclScalar* alpha = aclCreateScalar(&two, ACL_FLOAT);
    int code = aclnnAddGetWorkspaceSize(t[0], t[2], alpha, t[1], &size, &e);
    code = code ? code : launched(aclnnAdd, size, e);
    aclrtMemcpy(z.data(), 2400, b[1], 2400, ACL_MEMCPY_DEVICE_TO_HOST);
    std::printf("add %d %.4f\\n", code, z[1 * 30 + 2] - (x[32] + 2 * x[2 * 20 + 1]));
    code = aclnnExpGetWorkspaceSize(t[2], t[1], &size, &e);
    code = code ? code : launched(aclnnExp, size, e);
    aclrtMemcpy(z.data(), 2400, b[1], 2400, ACL_MEMCPY_DEVICE_TO_HOST);
    std::printf("exp %d %.4f %.4f\\n", code, z[0], z[3]);
    code = aclnnErfinvGetWorkspaceSize(t[0], t[1], &size, &e);
    code = code ? code : launched(aclnnErfinv, size, e);
    aclrtMemcpy(z.data(), 2400, b[1], 2400, ACL_MEMCPY_DEVICE_TO_HOST);
    std::printf("erfinv %d %.4f\\n", code, z[50]);
    std::vector<aclFloat16> h(32 * 16), m(16 * 16);
    for (int i = 0; i < 512; ++i) h[i] = aclFloatToFloat16(i % 5 - 2);
    t[3] = made({16, 32}, {}, ACL_FLOAT16, h.data(), 1024, &b[3]);
    t[4] = made({32, 16}, {1, 32}, ACL_FLOAT16, h.data(), 1024, &b[4]);  // the same matrix, turned: read as it lies
    t[5] = made({16, 16}, {}, ACL_FLOAT16, nullptr, 512, &b[5]);
    code = aclnnMatmulGetWorkspaceSize(t[3], t[4], t[5], 0, &size, &e);
    code = code ? code : launched(aclnnMatmul, size, e);
    aclrtMemcpy(m.data(), 512, b[5], 512, ACL_MEMCPY_DEVICE_TO_HOST);
    float sum = 0;
    for (int k = 0; k < 32; ++k) sum += (float)(k % 5 - 2) * ((32 * 3 + k) % 5 - 2);
    std::printf("matmul %d %.1f\\n", code, aclFloat16ToFloat(m[3]) - sum);
    t[6] = made({600, 2}, {}, ACL_INT64, nullptr, 9600, &b[6]);
    code = aclnnNonzeroGetWorkspaceSize(t[0], t[6], &size, &e);
    code = code ? code : launched(aclnnNonzero, size, e);
    int64_t* dims = nullptr;
    uint64_t rank = 0;
    aclGetViewShape(t[6], &dims, &rank);
    std::vector<int64_t> at(1200);
    aclrtMemcpy(at.data(), 9600, b[6], 9600, ACL_MEMCPY_DEVICE_TO_HOST);
    std::printf("nonzero %d %d %d %d, last %d %d\\n", code, (int)rank, (int)dims[0], (int)dims[1], (int)at[2 * dims[0] - 2], (int)at[2 * dims[0] - 1]);
    delete[] dims;
    for (int i = 0; i < 7; ++i) aclDestroyTensor(t[i]), aclrtFree(b[i]);
    aclDestroyScalar(alpha);
    aclrtDestroyStream(s);
    aclrtResetDevice(0);
}
"""
SAID = ["add 0 0.0000", "exp 0 1.0000 1.8221", "erfinv 0 0.4769", "matmul 0 0.0", "nonzero 0 2 514 2, last 19 29"]


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder, home = tmp_path_factory.mktemp("executors"), prefix()
    (folder / "main.cpp").write_text(MAIN)
    command = [
        "g++",
        "main.cpp",
        f"-I{home}/include",
        f"-L{home}/lib64",
        "-lopapi",
        "-lnnopbase",
        "-lascendcl",
        "-o",
        "main",
    ]
    subprocess.run(command, cwd=folder, check=True)
    return folder / "main"


def ran(program: Path, executors: str, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Session:
    monkeypatch.setenv("TOPROPE_EXECUTORS", executors)  # the recorder is in this process
    finished = run([str(program)], environment=variables(prefix(), dict(os.environ)))
    assert capfd.readouterr().out.splitlines() == SAID
    (session,) = finished.sessions
    assert not [f for f in session.findings if f.severity != "advice"]
    return session


def test_each_call_by_the_best_executor(
    program: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    session = ran(program, "all", monkeypatch, capfd)
    by = {row["operator"]: row["executor"] for row in as_json(session)["operators"]}
    assert by == {
        "aclnnAdd": "library", "aclnnExp": "generated", "aclnnErfinv": "reference", "aclnnMatmul": "generated", "aclnnNonzero": "reference",
    }  # fmt: skip
    data = as_json(session)
    assert sum(data["shares"].values()) == pytest.approx(1) and set(data["shares"]) == {
        "library",
        "generated",
        "reference",
    }
    assert data["why_reference"] == {
        "aclnnErfinv": "no definition in the tile language",
        "aclnnNonzero": "no definition in the tile language",
    }
    assert all(row.low_us and row.high_us for row in session.launches if row.executor != "reference")


@pytest.mark.parametrize("executors", ["library", "reference"])
def test_fewer_executors_give_the_same_numbers(
    program: Path, executors: str, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    session = ran(program, executors, monkeypatch, capfd)
    used = {row.executor for row in session.launches}
    assert used == ({"library", "reference"} if executors == "library" else {"reference"})


SIGNALS = """
#include <signal.h>
#include <sys/time.h>
#include <cstdio>
#include "acl/acl.h"
#include "aclnnop/aclnn_erfinv.h"
static volatile int rung;
static void ring(int) { rung = rung + 1; }
int main() {
    struct sigaction action = {};
    action.sa_handler = ring;  // without SA_RESTART, as Python sets its handlers
    sigaction(SIGALRM, &action, nullptr);
    const itimerval often = {{0, 500}, {0, 500}};
    setitimer(ITIMER_REAL, &often, nullptr);
    aclrtSetDevice(0);
    aclrtStream s;
    aclrtCreateStream(&s);
    void* block;
    aclrtMalloc(&block, 65536, ACL_MEM_MALLOC_HUGE_FIRST);
    aclrtMemset(block, 65536, 0, 65536);
    const int64_t dims[] = {16384};
    aclTensor* t = aclCreateTensor(dims, 1, ACL_FLOAT, nullptr, 0, ACL_FORMAT_ND, dims, 1, block);
    int wrong = 0;
    for (int i = 0; i < 100; ++i) {
        uint64_t size = 0;
        aclOpExecutor* e = nullptr;
        wrong += aclnnErfinvGetWorkspaceSize(t, t, &size, &e) != 0 || aclnnErfinv(nullptr, size, e, s) != 0 || aclrtSynchronizeStream(s) != 0;
    }
    std::printf("wrong %d, rung %d\\n", wrong, rung > 10);
    aclDestroyTensor(t);
    aclrtFree(block);
    aclrtDestroyStream(s);
    aclrtResetDevice(0);
}
"""


def test_signals_that_the_program_handles_do_not_cut_its_line(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    home = prefix()
    (tmp_path / "main.cpp").write_text(SIGNALS)
    command = [
        "g++",
        "main.cpp",
        f"-I{home}/include",
        f"-L{home}/lib64",
        "-lopapi",
        "-lnnopbase",
        "-lascendcl",
        "-o",
        "main",
    ]
    subprocess.run(command, cwd=tmp_path, check=True)
    finished = run([str(tmp_path / "main")], environment=variables(prefix(), dict(os.environ)))
    assert capfd.readouterr().out.splitlines() == ["wrong 0, rung 1"]
    assert len(finished.sessions[0].launches) == 100
