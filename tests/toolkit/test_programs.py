"""Whole programs: the examples run clean, and each misuse of the memory and stream interface is a finding with its lines."""

from __future__ import annotations

import io
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from toprope import unit
from toprope.cli import main
from toprope.errors import BadInput
from toprope.project.host import AttributeDef, OperatorDef, TensorDef
from toprope.soc import load
from toprope.toolkit import source
from toprope.toolkit.aclnn import header
from toprope.toolkit.run import gather, run_program
from toprope.toolkit.session import LaunchRow, Session
from toprope.toolkit.show import show
from toprope.toolkit.source import is_program

EXAMPLES = Path(__file__).parents[2] / "examples"

HEAD = """
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <stdexcept>
#include "acl/acl.h"
#include "kernel_operator.h"
__global__ __vector__ void fill(__gm__ float* y, uint32_t n) {
    AscendC::TPipe pipe;
    AscendC::TQue<AscendC::TPosition::VECOUT, 1> out;
    pipe.InitBuffer(out, 1, 4096);
    AscendC::GlobalTensor<float> to;
    to.SetGlobalBuffer(y);
    AscendC::LocalTensor<float> t = out.AllocTensor<float>();
    AscendC::Duplicate(t, 2.0f, n);
    out.EnQue(t);
    t = out.DeQue<float>();
    AscendC::DataCopy(to, t, n);
    out.FreeTensor(t);
}
int main(int argc, char** argv) {
    aclInit(nullptr);
    aclrtSetDevice(0);
    aclrtStream s;
    aclrtCreateStream(&s);
    float *d, *e, *h;
    aclrtMalloc((void**)&d, 4096, ACL_MEM_MALLOC_HUGE_FIRST);
    aclrtMalloc((void**)&e, 4096, ACL_MEM_MALLOC_HUGE_FIRST);
    aclrtMallocHost((void**)&h, 4096);
    const int which = argc > 1 ? std::atoi(argv[1]) : 0;
    if (which == 0) {
        fill<<<1, nullptr, s>>>(d, 1024);
        aclrtSynchronizeStream(s);
        aclrtMemcpy(h, 4096, d, 4096, ACL_MEMCPY_DEVICE_TO_HOST);
        std::printf("value %g\\n", h[5]);
    }
"""
TAIL = """
    if (which != 1) aclrtFree(d);
    aclrtFree(e);
    aclrtFreeHost(h);
    aclrtDestroyStream(s);
    aclrtResetDevice(0);
    aclFinalize();
    return 0;
}
"""
# What goes wrong -> the statements, and the codes that have to come of it. One program holds them all: it compiles once.
FAULTS: list[tuple[str, set[str]]] = [
    ("", {"acl-leak"}),
    ("aclrtFree(e); aclrtFree(e); aclrtMalloc((void**)&e, 8, ACL_MEM_MALLOC_HUGE_FIRST);", {"acl-double-free"}),
    ("aclrtFree(d + 4);", {"acl-bad-free"}),
    ("aclrtFree(h);", {"acl-bad-free"}),
    ("float* old; aclrtMalloc((void**)&old, 64, ACL_MEM_MALLOC_HUGE_FIRST); aclrtFree(old); fill<<<1, nullptr, s>>>(old, 8);", {"acl-use-after-free"}),
    ("aclrtMemcpy(d, 4096, h, 4096, ACL_MEMCPY_DEVICE_TO_HOST);", {"acl-copy-direction"}),
    ("aclrtMemcpy(d, 8192, h, 8192, ACL_MEMCPY_HOST_TO_DEVICE);", {"acl-copy-size"}),
    ("aclrtMemcpy(d, 64, h, 4096, ACL_MEMCPY_HOST_TO_DEVICE);", {"acl-copy-size"}),
    ("aclrtMemset(d, 8192, 0, 8192);", {"acl-copy-size"}),
    ("fill<<<1, nullptr, s>>>(d, 1024); aclrtMemcpy(h, 4096, d, 4096, ACL_MEMCPY_DEVICE_TO_HOST);", {"acl-missing-synchronise"}),
    ("fill<<<1, 0, s>>>(d, 1024); aclrtMemset(d, 4096, 0, 4096);", {"acl-missing-synchronise"}),
    ("aclrtEvent ev; aclrtCreateEvent(&ev); fill<<<1, nullptr, s>>>(d, 1024); aclrtRecordEvent(ev, s); aclrtSynchronizeEvent(ev); aclrtMemcpy(h, 4096, d, 4096, ACL_MEMCPY_DEVICE_TO_HOST); aclrtDestroyEvent(ev);", set()),
    ("h[0] = 7; aclrtMemset(d, 4096, 0, 4096); aclrtMemcpyAsync(h, 4096, d, 4096, ACL_MEMCPY_DEVICE_TO_HOST, s); if (h[0] != 7) return 9; aclrtSynchronizeStream(s); if (h[0] != 0) return 8;", set()),
    ("std::printf(\"%g\\n\", d[5]);", {"device-pointer-on-host"}),
    ("std::memset(e, 0, 64);", {"device-pointer-on-host"}),
    ("fill<<<1, nullptr, s>>>(h, 1024);", {"acl-host-pointer", "gm-out-of-bounds"}),
    ("fill<<<0, nullptr, s>>>(d, 1024);", {"launch-refused"}),
    ("fill<<<1, nullptr, s>>>(d, 1032);", {"gm-out-of-bounds", "buffer-out-of-bounds"}),
    ("aclrtDestroyStream(s); fill<<<1, nullptr, s>>>(d, 1024); aclrtCreateStream(&s);", {"acl-use-after-free"}),
    ("float* old; aclrtMalloc((void**)&old, 4096, ACL_MEM_MALLOC_HUGE_FIRST); fill<<<1, nullptr, s>>>(old, 64); aclrtFree(old);", {"acl-free-in-use"}),
    ("aclrtStream t; aclrtCreateStream(&t); fill<<<1, nullptr, s>>>(d, 1024); fill<<<1, nullptr, t>>>(d, 1024); aclrtSynchronizeDevice(); aclrtDestroyStream(t);", {"acl-stream-race"}),
    ("aclrtStream t; aclrtCreateStream(&t); fill<<<1, nullptr, s>>>(d, 512); fill<<<1, nullptr, t>>>(d + 512, 512); aclrtSynchronizeDevice(); aclrtDestroyStream(t);", set()),
    ("aclrtStream t; aclrtCreateStream(&t); aclrtEvent ev; aclrtCreateEvent(&ev); fill<<<1, nullptr, s>>>(d, 1024); aclrtRecordEvent(ev, s); aclrtStreamWaitEvent(t, ev); fill<<<1, nullptr, t>>>(d, 1024); aclrtSynchronizeStream(t); aclrtMemcpy(h, 4096, d, 4096, ACL_MEMCPY_DEVICE_TO_HOST); aclrtDestroyStream(t); aclrtDestroyEvent(ev);", set()),
    ("aclrtEvent a, b; aclrtCreateEvent(&a); aclrtCreateEvent(&b); aclrtRecordEvent(a, s); fill<<<1, nullptr, s>>>(d, 1024); aclrtRecordEvent(b, s); aclrtSynchronizeStream(s); float ms = -1; aclrtEventElapsedTime(&ms, a, b); if (!(ms > 0.0005f && ms < 1)) return 9; aclrtDestroyEvent(a); aclrtDestroyEvent(b);", set()),
    ("static float own[1024]; void* p; if (aclrtHostRegister(own, sizeof own, ACL_HOST_REGISTER_MAPPED, &p) != 0) return 9; fill<<<1, nullptr, s>>>((float*)p, 1024); aclrtSynchronizeStream(s); if (own[1023] != 2) return 8; aclrtHostUnregister(own);", set()),
    ("static float own[1024]; void* p; aclrtHostRegister(own, sizeof own, ACL_HOST_REGISTER_MAPPED, &p); fill<<<1, nullptr, s>>>((float*)p, 1024); aclrtHostUnregister(own);", {"acl-free-in-use"}),
    ("void* at; aclrtDrvMemHandle m; aclrtPhysicalMemProp prop{}; aclrtReserveMemAddress(&at, 1 << 21, 0, nullptr, 0); aclrtMallocPhysical(&m, 1 << 21, &prop, 0); if (aclrtMapMem(at, 1 << 21, 0, m, 0) != 0) return 9; fill<<<1, nullptr, s>>>((float*)at, 1024); aclrtSynchronizeStream(s); aclrtMemcpy(h, 4096, at, 4096, ACL_MEMCPY_DEVICE_TO_HOST); if (h[7] != 2) return 8; aclrtUnmapMem(at); aclrtFreePhysical(m); aclrtReleaseMemAddress(at);", set()),
    ("h[0] = 1; aclrtMemcpyAsync(d, 4, h, 4, ACL_MEMCPY_HOST_TO_DEVICE, s); h[0] = 5; aclrtSynchronizeStream(s); aclrtMemcpy(h + 1, 4, d, 4, ACL_MEMCPY_DEVICE_TO_HOST); if (h[1] != 5) return 9;", set()),
    ("static int seen = 0; fill<<<1, nullptr, s>>>(d, 1024); aclrtLaunchHostFunc(s, [](void* at) { *(int*)at = 7; }, &seen); if (seen != 0) return 9; aclrtSynchronizeStream(s); if (seen != 7) return 8;", set()),
    ("aclrtStream t; aclrtCreateStream(&t); fill<<<1, nullptr, t>>>(d, 1024); aclrtDestroyStreamForce(t);", {"acl-stream-in-use"}),
    ("std::raise(SIGKILL);", {"program-crash"}),
    ("std::abort();", {"program-crash"}),
    ("std::exit(5);", {"acl-leak"}),
]  # fmt: skip


@pytest.fixture(scope="module")
def faulty(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("program") / "main.asc"
    branches = "".join(f"    if (which == {k + 1}) {{ {text} }}\n" for k, (text, _) in enumerate(FAULTS))
    file.write_text(HEAD + branches + TAIL)
    return file


def run(file: Path, *arguments: str) -> tuple[int, dict[str, Any], str]:
    """Exit code, the report, and what the program itself printed, of the command line."""
    command = [sys.executable, "-m", "toprope.cli", "run", str(file), *arguments, "--json"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, cwd=file.parent)
    return done.returncode, json.loads(done.stdout), done.stderr


@pytest.mark.parametrize("name", ["11_host_program/main.cpp", "12_single_file/scale.asc"])
def test_the_examples_run_clean(name: str) -> None:
    code, report, said = run(EXAMPLES / name)
    assert code == 0 and "0 of" in said and "are wrong" in said
    assert report["findings"] == [] and len(report["launches"]) == 1
    assert report["microseconds"] > 1 and report["launches"][0]["line"] > 20


def test_a_clean_program(faulty: Path) -> None:
    code, report, said = run(faulty)
    assert (code, report["exit_code"], said) == (0, 0, "value 2\n")
    assert report["findings"] == [] and report["launches"][0]["blocks"] == 1


@pytest.mark.parametrize(
    "which", range(1, len(FAULTS) + 1), ids=lambda k: f"{k}-{'-'.join(sorted(FAULTS[k - 1][1])) or 'clean'}"
)
def test_each_fault_is_found_with_its_line(faulty: Path, which: int) -> None:
    text, codes = FAULTS[which - 1]
    report = run_program([faulty], load("ascend910b1"), arguments=[str(which)])
    errors = [f for f in report.findings if f.severity == "error"]
    assert {f.code for f in errors} == codes, errors
    lines = faulty.read_text().splitlines()
    for finding in errors:
        named = [p.line for p in finding.places if Path(p.file).name == faulty.name]
        assert named or finding.code == "program-crash"
        assert all(0 < n <= len(lines) for n in named)
        if text and finding.code.startswith(("acl-copy", "acl-missing", "acl-bad", "device-")):
            assert f"which == {which})" in lines[named[0] - 1]
    assert report.code == {"std::abort();": -6, "std::raise(SIGKILL);": -9, "std::exit(5);": 5}.get(text, 0)


def test_a_program_that_does_not_end_is_stopped(tmp_path: Path) -> None:
    file = tmp_path / "main.cpp"
    file.write_text("int main() { for (volatile int i = 0;;) i = 1; }\n")
    found = run_program([file], load("ascend910b1"), time_limit_s=1, host_limit_s=1)
    assert found.timed_out and found.code == -9


def test_aclnn_calls_go_through_the_projects_own_tiling(tmp_path: Path) -> None:
    assert (
        main(["new", "add_custom(x: f32, y: f32, gap?: f32, alpha: float = 1.0) -> z", str(tmp_path / "AddCustom")])
        == 0
    )
    host = tmp_path / "AddCustom" / "op_host" / "add_custom.cpp"
    host.write_text(host.read_text().replace("GetWorkspaceSizes(1)[0] = 0", "GetWorkspaceSizes(1)[0] = 4096"))
    folder = tmp_path / "call"
    folder.mkdir()
    (folder / "main.cpp").write_text(ACLNN)
    code, report, said = run(folder / "main.cpp")
    assert said.splitlines() == ["plan 0", "run 0", "sum 5 5", "again 161002", "small 161002", "wrong shape 161002"], (
        said
    )
    assert [launch["kernel"] for launch in report["launches"]] == ["AddCustom"]
    found = {f["code"]: f for f in report["findings"]}
    assert set(found) == {"acl-executor-reused", "acl-workspace-size", "launch-refused"} and code == 1
    assert "output z of AddCustom is [7, 143]" in found["launch-refused"]["message"]


ACLNN = """
#include <cstdio>
#include <vector>
#include "acl/acl.h"
#include "aclnn_add_custom.h"
int main() {
    aclInit(nullptr);
    aclrtSetDevice(0);
    aclrtStream s;
    aclrtCreateStream(&s);
    const int64_t dims[] = {7, 143}, few[] = {7};
    const size_t bytes = 1001 * 4;
    std::vector<float> x(1001, 2), y(1001, 3), z(1001, 0);
    void* block[3];
    for (void*& b : block) aclrtMalloc(&b, bytes, ACL_MEM_MALLOC_HUGE_FIRST);
    aclrtMemcpy(block[0], bytes, x.data(), bytes, ACL_MEMCPY_HOST_TO_DEVICE);
    aclrtMemcpy(block[1], bytes, y.data(), bytes, ACL_MEMCPY_HOST_TO_DEVICE);
    aclTensor* t[4];
    for (int i = 0; i < 3; ++i) t[i] = aclCreateTensor(dims, 2, ACL_FLOAT, nullptr, 0, ACL_FORMAT_ND, dims, 2, block[i]);
    t[3] = aclCreateTensor(few, 1, ACL_FLOAT, nullptr, 0, ACL_FORMAT_ND, few, 1, block[2]);
    uint64_t size = 0;
    aclOpExecutor* executor = nullptr;
    std::printf("plan %d\\n", aclnnAddCustomGetWorkspaceSize(t[0], t[1], nullptr, 1.5, t[2], &size, &executor));
    void* workspace;
    aclrtMalloc(&workspace, size, ACL_MEM_MALLOC_HUGE_FIRST);
    std::printf("run %d\\n", aclnnAddCustom(workspace, size, executor, s));
    aclrtSynchronizeStream(s);
    aclrtMemcpy(z.data(), bytes, block[2], bytes, ACL_MEMCPY_DEVICE_TO_HOST);
    std::printf("sum %g %g\\n", z[0], z[1000]);
    std::printf("again %d\\n", aclnnAddCustom(workspace, size, executor, s));
    aclnnAddCustomGetWorkspaceSize(t[0], t[1], nullptr, 1.5, t[2], &size, &executor);
    std::printf("small %d\\n", aclnnAddCustom(workspace, size - 1, executor, s));
    aclDestroyAclOpExecutor(executor);
    std::printf("wrong shape %d\\n", aclnnAddCustomGetWorkspaceSize(t[0], t[1], nullptr, 1.5, t[3], &size, &executor));
    for (aclTensor* each : t) aclDestroyTensor(each);
    for (void* b : block) aclrtFree(b);
    aclrtFree(workspace);
    aclrtDestroyStream(s);
    aclrtResetDevice(0);
    aclFinalize();
    return 0;
}
"""


def test_launch_syntax_becomes_a_call() -> None:
    def rewritten(text: str) -> str:
        return unit.rewritten(text, "main.asc")

    assert rewritten("add<<<8, nullptr, s>>>(x, y);") == "TOPROPE_LAUNCH(add)(__FILE__, 1, 8, nullptr, s)(x, y);"
    assert rewritten("\nns::add<float, true><<<f(a, b), nullptr, s>>>(x);") == (
        "\nTOPROPE_LAUNCH(ns::add<float, true>)(__FILE__, 2, f(a, b), nullptr, s)(x);"
    )
    assert rewritten("{ A<T>::run<<<1,\n nullptr,\n s>>>(x); }") == (
        "{ TOPROPE_LAUNCH(A<T>::run)(__FILE__, 1, 1, nullptr, s)\n\n(x); }"
    )
    untouched = '// add<<<1, nullptr, s>>>(x)\nputs("<<<1>>>"); a << b;'
    assert rewritten(untouched) == untouched
    with pytest.raises(BadInput, match=r"main\.asc:2: a launch has 4 settings"):
        rewritten("\nadd<<<1, 2, 3, 4>>>(x);")


def test_what_is_a_program(tmp_path: Path) -> None:
    (tmp_path / "kernel.cpp").write_text("// int main()\nvoid f();")
    (tmp_path / "host.cpp").write_text("int main(int argc, char* argv[]) {}")
    assert not is_program(tmp_path / "kernel.cpp") and is_program(tmp_path / "host.cpp")
    assert not is_program(EXAMPLES / "01_add" / "add_custom.cpp")


def test_a_kernel_that_is_nowhere_is_named(tmp_path: Path) -> None:
    (tmp_path / "main.cpp").write_text(
        '#include "aclrtlaunch_gone.h"\nint main() { ACLRT_LAUNCH_KERNEL(gone)(1, nullptr); }\n'
    )
    with pytest.raises(BadInput, match="launches gone, and no source"):
        source.kernel_source("gone", [], [tmp_path])
    (tmp_path / "other.cpp").write_text('#include "aclnn_nothing.h"\nint main() {}\n')
    with pytest.raises(BadInput, match=r"aclnn_nothing\.h, and no operator project"):
        gather([tmp_path / "other.cpp"])


def test_the_aclnn_header_has_the_documented_order() -> None:
    x, xs, y = TensorDef("x", 2, (), ()), TensorDef("xs", 3, (), ()), TensorDef("y", 2, (), ())
    attributes = (AttributeDef("n", "int", True, None), AttributeDef("w", "list_float", False, []))
    text = header(OperatorDef("MyOp", (x, xs), (y,), attributes, (), True, True, True, True))
    assert (
        "aclnnMyOpGetWorkspaceSize(const aclTensor* t0, const aclTensorList* t1, int64_t a0, const aclFloatArray* a1, const aclTensor* t2,"
        " uint64_t* workspaceSize, aclOpExecutor** executor)"
    ) in text


SPLIT_MAIN = """
#include <cstdio>
#include "acl/acl.h"
#include "acl/acl_op_compiler.h"
size_t bytes_of(aclTensorDesc* desc);
int main(int argc, char** argv) {
    const int64_t dims[] = {2, 3};
    aclTensorDesc* desc = aclCreateTensorDesc(ACL_FLOAT16, 2, dims, ACL_FORMAT_ND);
    int32_t rows[1] = {7};
    aclDataBuffer* buffer = aclCreateDataBuffer(rows, sizeof rows);
    std::printf("%zu %d %s\\n", bytes_of(desc), *static_cast<int32_t*>(aclGetDataBufferAddr(buffer)), argc > 1 ? argv[1] : "");
    std::printf("%g %d\\n", aclFloat16ToFloat(aclFloatToFloat16(0.1f)), aclrtMalloc(nullptr, 1, ACL_MEM_MALLOC_HUGE_FIRST));
    aclDestroyTensorDesc(desc);
    aclDestroyDataBuffer(buffer);
}
"""


def test_a_program_in_two_files_with_arguments(tmp_path: Path) -> None:
    (tmp_path / "main.cpp").write_text(SPLIT_MAIN)
    (tmp_path / "bytes.cpp").write_text(
        '#include "acl/acl.h"\nsize_t bytes_of(aclTensorDesc* d) { return aclGetTensorDescSize(d); }\n'
    )
    code, report, said = run(tmp_path / "bytes.cpp", str(tmp_path / "main.cpp"), "hello")
    assert said.splitlines() == ["12 7 hello", "0.0999756 107000"] and code == 0 and report["findings"] == []
    with pytest.raises(BadInput, match="calls bytes_of"):
        run_program([tmp_path / "main.cpp"], load("ascend910b1"))


TWICE = """#include "tikicpulib.h"
#include "kernel_operator.h"
extern "C" __global__ __aicore__ void twice(GM_ADDR x, GM_ADDR y) {{
    AscendC::TPipe pipe;
    AscendC::TBuf<AscendC::TPosition::VECCALC> buffer;
    pipe.InitBuffer(buffer, 512);
    AscendC::GlobalTensor<float> from, to;
    from.SetGlobalBuffer((__gm__ float*)x, 64);
    to.SetGlobalBuffer((__gm__ float*)y, 64);
    auto t = buffer.Get<float>();
    AscendC::DataCopy(t, from, 64);
    {between}
    AscendC::Muls(t, t, 2.0f, 64);
    AscendC::PipeBarrier<PIPE_ALL>();
    AscendC::DataCopy(to, t, 64);
}}
int main() {{
    auto* x = (float*)AscendC::GmAlloc(256);
    auto* y = (float*)AscendC::GmAlloc(256);
    for (int i = 0; i < 64; ++i) x[i] = i;
    {before}
    ICPU_RUN_KF(twice, 1, (uint8_t*)x, (uint8_t*)y);
    std::printf("%g\\n", y[63]);
    AscendC::GmFree(x);
}}
"""


@pytest.mark.parametrize("between, found", [("AscendC::PipeBarrier<PIPE_ALL>();", []), ("", ["race-unordered-pipes"])])
def test_a_unit_tests_launch_in_a_program_runs_and_is_checked(tmp_path: Path, between: str, found: list[str]) -> None:
    (tmp_path / "main.cpp").write_text(TWICE.format(between=between, before=""))
    code, report, said = run(tmp_path / "main.cpp")
    assert (
        said.splitlines()[0] == "126" and [f["code"] for f in report["findings"] if f["severity"] == "error"] == found
    )
    assert len(report["launches"]) == 1 and (code == 0) == (not found)


def test_a_unit_tests_launch_with_a_tiling_key_is_refused_in_a_program(tmp_path: Path) -> None:
    (tmp_path / "main.cpp").write_text(TWICE.format(between="", before="ICPU_SET_TILING_KEY(3);"))
    code, report, said = run(tmp_path / "main.cpp")
    assert code == 1 and not report["launches"] and "ICPU_RUN_KF(twice) was not carried out" in said


@pytest.mark.parametrize(
    "place, severity", [("/opt/x/libother.so.2", "advice"), ("/home/x/main", "error"), ("main.cpp", "error")]
)
def test_what_a_library_of_others_leaves_behind_is_no_error(place: str, severity: str) -> None:
    session = Session()
    session.take(
        {
            "t": "finding",
            "code": "acl-leak",
            "message": "a stream is never destroyed",
            "at": [place, 0],
            "action": "created here",
        },
        b"",
    )
    (finding,) = session.findings
    assert finding.severity == severity and ("hardly yours" in finding.message) == (severity == "advice")


def test_references_are_told_from_kernels() -> None:
    out = io.StringIO()
    rows = [
        LaunchRow("Mine", 8, 3.0, "main.cpp", 1),
        LaunchRow("aclnnAdd", 48, 1.0, "libopapi.so", 0, executor="reference"),
    ]
    for launches, said in ((rows, True), (rows[:1], False)):
        show(Session(launches=launches), ended="exit code 0", console=Console(file=out, width=300))
        told = "your kernels 75.0%, references (roofline) 25.0%; 1 of 2 launches were answered by references of 1 functions"
        assert (told in out.getvalue()) == said
        out.truncate(0)
        out.seek(0)
