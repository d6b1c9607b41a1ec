"""An operator project becomes a package, is installed, and is called through the functions of its library."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from toprope.cli import main
from toprope.toolkit.execute import run
from toprope.toolkit.operator_library import table
from toprope.toolkit.package import pack
from toprope.toolkit.prefix import prefix, variables

MAIN = """
#include <cstdio>
#include <vector>
#include "acl/acl.h"
#include "aclnn_add_custom.h"
#include "aclnnop/aclnn_fresnel_cos.h"
extern "C" int aclmdlLoadFromFile(const char*, unsigned*);
int main(int argc, char**) {
    aclrtSetDevice(0);
    if (argc > 1) return aclmdlLoadFromFile("x.om", nullptr);
    aclrtStream s;
    aclrtCreateStream(&s);
    const int64_t dims[] = {7, 143}, steps[] = {1, 7};
    std::vector<float> x(1001), y(1001, 3), z(1001, 0);
    for (int i = 0; i < 1001; ++i) x[i] = i;
    void* block[3];
    for (void*& b : block) aclrtMalloc(&b, 4004, ACL_MEM_MALLOC_HUGE_FIRST);
    aclrtMemcpy(block[0], 4004, x.data(), 4004, ACL_MEMCPY_HOST_TO_DEVICE);
    aclrtMemcpy(block[1], 4004, y.data(), 4004, ACL_MEMCPY_HOST_TO_DEVICE);
    aclTensor* t[3];
    for (int i = 0; i < 3; ++i)  // the first is transposed: its elements are gathered before the kernel runs
        t[i] = aclCreateTensor(dims, 2, ACL_FLOAT, i == 0 ? steps : nullptr, 0, ACL_FORMAT_ND, dims, 2, block[i]);
    uint64_t size = 0;
    aclOpExecutor* e = nullptr;
    const int a = aclnnAddCustomGetWorkspaceSize(t[0], t[1], nullptr, 1.5, t[2], &size, &e);
    const int b = aclnnAddCustom(nullptr, size, e, s);
    aclrtSynchronizeStream(s);
    aclrtMemcpy(z.data(), 4004, block[2], 4004, ACL_MEMCPY_DEVICE_TO_HOST);
    std::printf("%d %d %g %g\\n", a, b, z[1], z[143]);
    std::printf("%d\\n", aclnnFresnelCosGetWorkspaceSize(t[0], t[2], &size, &e));
    for (aclTensor* each : t) aclDestroyTensor(each);
    for (void* each : block) aclrtFree(each);
    aclrtDestroyStream(s);
    aclrtResetDevice(0);
}
"""


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("package")
    assert (
        main(["new", "add_custom(x: f32, y: f32, gap?: f32, alpha: float = 1.0) -> z", str(folder / "AddCustom")]) == 0
    )
    assert pack(folder / "AddCustom", "ours", folder / "out") == ["AddCustom"]
    installer = next((folder / "out").glob("*.run"))
    done = subprocess.run([installer, f"--install-path={folder}/opp", "--quiet"], capture_output=True, text=True)
    assert "SUCCESS" in done.stdout, done.stderr
    (folder / "main.cpp").write_text(MAIN)
    place, home = folder / "opp" / "vendors" / "ours", prefix()
    libraries = ["-lcust_opapi", "-lopapi", "-lnnopbase", "-lascendcl"]
    command = [
        "g++",
        "main.cpp",
        f"-I{place}/op_api/include",
        f"-I{home}/include",
        f"-L{place}/op_api/lib",
        f"-L{home}/lib64",
    ]
    subprocess.run([*command, *libraries, "-o", "main"], cwd=folder, check=True)
    return folder


def test_a_host_program_calls_the_installed_operator(installed: Path, capfd: pytest.CaptureFixture[str]) -> None:
    place = installed / "opp" / "vendors" / "ours"
    known = variables(prefix(), dict(os.environ))
    given = {"ASCEND_CUSTOM_OPP_PATH": str(place), "LD_LIBRARY_PATH": f"{place}/op_api/lib:{known['LD_LIBRARY_PATH']}"}
    os.environ["ASCEND_CUSTOM_OPP_PATH"] = str(place)  # the recorder is in this process
    try:
        finished = run([str(installed / "main")], environment=given)
    finally:
        del os.environ["ASCEND_CUSTOM_OPP_PATH"]
    # x is read down its columns: element 1 of the result is x[7] + 3, element 143 (the second row's first) is x[1] + 3.
    assert capfd.readouterr().out.splitlines() == ["0 0 10 4", "561003"]
    session = finished.sessions[0]
    assert [row.kernel for row in session.launches] == ["AddCustom"]
    assert [
        (f.code, "aclnnFresnelCos has no executor" in f.message) for f in session.findings if f.severity == "error"
    ] == [("launch-refused", True)]


def test_a_function_that_is_not_there_ends_the_program_by_name(installed: Path) -> None:
    env = os.environ | variables(prefix(), dict(os.environ))
    env["LD_LIBRARY_PATH"] = f"{installed}/opp/vendors/ours/op_api/lib:{env['LD_LIBRARY_PATH']}"
    done = subprocess.run([installed / "main", "model"], env=env, capture_output=True, text=True)
    assert done.returncode == 134 and "calls aclmdlLoadFromFile, which this toolkit does not have" in done.stderr


def test_the_table_of_functions() -> None:
    rows = table()
    assert len(rows) > 1200 and [p.kind for p in rows["aclnnAdd"]] == ["tensor", "tensor", "scalar", "tensor"]
    assert [p.written for p in rows["aclnnInplaceAdd"]] == [True, False, False]
