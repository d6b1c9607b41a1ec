"""Kernels and readers that misbehave: every end of a kernel is said, documents stay whole, nobody is left behind."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

import toprope
from toprope.kernel import KernelFile, Run

BEGIN = '#include "kernel_operator.h"\n#include <cstdio>\n#include <cstdlib>\n#include <unistd.h>\nusing namespace AscendC;\n'
TENSOR = (
    "GlobalTensor<float> g; g.SetGlobalBuffer((__gm__ float*)z, 64); TPipe pipe; TBuf<> b; pipe.InitBuffer(b, 256); "
    "auto t = b.Get<float>();"
)
# One file: every kernel misbehaves in its own way, and one compile serves all.
KERNELS = {
    "calls_exit": f"{TENSOR} Duplicate(t, 1.0f, 64); std::exit(0);",
    "calls_quietly": "_exit(0);",
    "quick": "quick_exit(0);",
    "aborts": f"{TENSOR} Duplicate(t, 1.0f, 64); std::abort();",
    "killed": "kill(getpid(), 9);",
    "turns": f"{TENSOR} Duplicate(t, 1.0f, 64); volatile int i = 0; while (true) i = i + 1;",
    "polls": f"{TENSOR} while (g.GetValue(0) != 12345.0f) {{}}",
    "repeats": f"{TENSOR} while (true) Duplicate(t, 1.0f, 64);",
    "ignores": "signal(SIGALRM, SIG_IGN); volatile int i = 0; while (true) i = i + 1;",
    "overruns": "for (int i = 0; i < 72; ++i) ((float*)z)[i] = 1.0f;",
    "underruns": "((float*)z)[-1] = 1.0f;",
    "prints": f'std::printf("{{ not json\\n"); {TENSOR} Duplicate(t, 1.0f, 64); SetFlag<HardEvent::V_MTE3>(0); WaitFlag<HardEvent::V_MTE3>(0); DataCopy(g, t, 64);',
    "fine": "for (int i = 0; i < 64; ++i) ((float*)z)[i] = 1.0f;",
}
ENDS = {
    "calls_exit": "kernel-exit", "calls_quietly": "kernel-exit", "quick": "kernel-exit", "aborts": "kernel-crash", "killed": "kernel-crash",
    "turns": "kernel-time-limit", "polls": "kernel-time-limit", "repeats": "kernel-time-limit", "ignores": "kernel-time-limit",
}  # fmt: skip


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("faults") / "faults.cpp"
    bodies = "".join(
        f'extern "C" __global__ __aicore__ void {n}(GM_ADDR z) {{ {body} }}\n' for n, body in KERNELS.items()
    )
    file.write_text(BEGIN + "#include <signal.h>\n" + bodies)
    return file


@pytest.fixture(scope="module")
def kernels(source: Path) -> KernelFile:
    return toprope.load(source)


@pytest.fixture(autouse=True)
def apart(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TOPROPE_IN_PROCESS", raising=False)


def launched(kernels: KernelFile, name: str, z: np.ndarray, **options: float) -> Run:
    return kernels[name][1](z, **options)


@pytest.mark.parametrize("name, code", ENDS.items())
def test_python_lives_on_and_the_end_is_said(kernels: KernelFile, name: str, code: str) -> None:
    z = np.full(64, 7, np.float32)
    begin = time.monotonic()
    run = launched(kernels, name, z, time_limit_s=1.0)
    errors = [f for f in run.findings if f.severity == "error"]
    assert [f.code for f in errors] == [code] and run.trace.signal
    assert errors[0].places[0].file.endswith("faults.cpp") and errors[0].cure
    assert time.monotonic() - begin < 30  # seconds on any machine; the loop itself has one
    assert len(run.trace.instrs) <= 200_001


def test_what_is_kept_of_an_endless_loop_is_bounded_and_says_so(
    kernels: KernelFile, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("toprope.runtime.trace_limit_bytes", lambda: 16 << 20)
    run = launched(kernels, "repeats", np.zeros(64, np.float32))
    assert [f.code for f in run.findings if f.severity == "error"] == ["kernel-trace-limit"]
    assert run.trace.left_out > 0 and len(run.trace.instrs) == 200_000


@pytest.mark.parametrize(
    "name, says", [("overruns", "byte 256 of z, which has 256 bytes"), ("underruns", "memory before z")]
)
def test_a_raw_pointer_beside_an_array_is_named(kernels: KernelFile, name: str, says: str) -> None:
    z = np.zeros(64, np.float32)
    assert any(says in f.message and f.severity == "error" for f in launched(kernels, name, z).findings)


def test_results_come_back_into_the_callers_arrays(kernels: KernelFile) -> None:
    whole = np.zeros((3, 64), np.float32)
    launched(kernels, "fine", whole[1])
    assert whole.sum(1).tolist() == [0, 64, 0]
    assert repr(launched(kernels, "fine", whole[1])) == "Run(fine on ascend910b1, 1 block, 0 instructions)"
    assert "empty" in dir(toprope) and "load" in dir(toprope)
    shared = toprope.empty((64,), np.float32)
    assert launched(kernels, "fine", shared).outputs == {} and shared.tolist() == [1] * 64  # raw writes are in no trace


def test_an_array_that_is_given_twice_stays_one(tmp_path: Path) -> None:
    file = tmp_path / "twice.cpp"
    file.write_text(
        BEGIN
        + 'extern "C" __global__ __aicore__ void k(GM_ADDR x, GM_ADDR z) { ((float*)z)[0] = ((float*)x)[1] + 1; ((float*)x)[1] = 5; }\n'
    )
    z = np.arange(8, dtype=np.float32)
    toprope.load(file).k[1](z[:4], z)
    assert z.tolist() == [2, 5, 2, 3, 4, 5, 6, 7]


def test_a_constructor_that_exits_is_named(tmp_path: Path) -> None:
    file = tmp_path / "ctor.cpp"
    file.write_text(
        BEGIN
        + "struct D { D() { std::exit(0); } };\nstatic D d;\n"
        + 'extern "C" __global__ __aicore__ void k(GM_ADDR z) {}\n'
    )
    run = toprope.load(file).k[1](np.zeros(8, np.float32))
    assert [f.code for f in run.findings if f.severity == "error"] == ["kernel-exit"]
    assert "constructor" in run.findings[0].message


def command(*words: str | Path) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "toprope.cli", *map(str, words)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        # A job in the background of a shell ignores SIGINT, and so would what it starts.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )


@pytest.mark.parametrize("verb", ["run", "check", "profile", "deps", "bisect-precision"])
def test_exit_in_a_kernel_is_exit_code_3_and_a_document(verb: str, source: Path) -> None:
    process = command(verb, f"{source}:calls_exit", "z=float[64] out", "--json")
    out, _ = process.communicate()
    assert process.returncode == 3
    assert json.loads(out)["schema"].startswith("toprope.") and json.loads(out)["version"]


@pytest.mark.parametrize("verb", ["check", "run", "profile"])
def test_kernels_that_the_launch_file_leaves_out_are_named(verb: str, tmp_path: Path) -> None:
    bodies = "".join(
        f'extern "C" __global__ __aicore__ void {n}(GM_ADDR z) {{ (void)z; }}\n' for n in ("first", "second", "third")
    )
    (tmp_path / "k.cpp").write_text(BEGIN + bodies)
    (tmp_path / "k.toml").write_text("[ second ]\nblocks = 1\n[ second.arguments ]\nz = 'float[8]'\n")
    command = [sys.executable, "-m", "toprope.cli", verb, str(tmp_path / "k.cpp"), "--json"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0 and json.loads(done.stdout), done.stderr
    assert "k.cpp has 2 more kernels, not run because" in done.stderr and "of them: first, third" in done.stderr
    named = subprocess.run([*command[:-2], f"{command[-2]}:second", "--json"], capture_output=True, text=True)
    assert named.returncode == 0 and "not run" not in named.stderr, named.stderr


@pytest.mark.parametrize("verb", ["run", "check", "profile", "deps", "bisect-precision", "explore"])
@pytest.mark.parametrize("form", ["--json", "text", "sarif"])
def test_nothing_described_is_exit_code_2_and_one_message(verb: str, form: str, source: Path) -> None:
    words = {"--json": ["--json"], "text": [], "sarif": ["--format", "sarif"]}[form]
    if form == "sarif" and verb != "check":
        pytest.skip("only check writes SARIF")
    process = command(verb, f"{source}:fine", *words)
    out, err = process.communicate()
    assert process.returncode == 2 and err.startswith("nothing-to-run: ") and err.count("cure:") == 1
    if form == "--json":
        assert json.loads(out)["error"]["code"] == "nothing-to-run"
    if form == "sarif":
        assert json.loads(out)["runs"][0]["invocations"][0]["executionSuccessful"] is False
    if form == "text":
        assert out == ""


def test_a_header_of_toml_with_blanks_is_read(tmp_path: Path) -> None:
    (tmp_path / "two.cpp").write_text(
        BEGIN
        + "".join(f'extern "C" __global__ __aicore__ void {n}(GM_ADDR z) {{ ((float*)z)[0] = 1; }}\n' for n in "ab")
    )
    (tmp_path / "two.toml").write_text('[ a ]\nblocks = 2\n[ a.arguments ]\nz = "float32[16] out"\n')
    process = command("run", tmp_path / "two.cpp")
    out, _ = process.communicate()
    assert process.returncode == 0 and out.startswith("a on ascend910b1, 2 blocks")


def test_what_a_kernel_prints_is_no_part_of_a_document(source: Path) -> None:
    process = command("run", f"{source}:prints", "z=float[64] out", "--json")
    out, err = process.communicate()
    assert process.returncode == 0 and json.loads(out)["kernel"] == "prints" and "{ not json" in err


def test_a_reader_that_leaves_changes_no_exit_code(source: Path) -> None:
    pipe = f"{sys.executable} -m toprope.cli run {source}:calls_exit 'z=float[64] out' | head -c 1; exit ${{PIPESTATUS[0]}}"
    done = subprocess.run(["bash", "-c", pipe], capture_output=True, text=True)
    assert done.returncode == 3 and "Broken" not in done.stderr


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_the_kernel_ends_with_the_command(number: int, source: Path) -> None:
    process = command("run", f"{source}:turns", "z=float[64] out", "--time-limit", "100")
    child = ""
    deadline = time.monotonic() + 60
    while not child and time.monotonic() < deadline:
        time.sleep(0.05)
        children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
        child = next((c for c in children if "cc1plus" not in Path(f"/proc/{c}/cmdline").read_text()), "")
    time.sleep(0.3)
    os.kill(process.pid, number)
    process.wait(10)
    end = time.monotonic() + 5
    while time.monotonic() < end and _runs(child):
        time.sleep(0.02)
    assert child and not _runs(child)
    assert (
        process.returncode
        in {signal.SIGINT: (130,), signal.SIGTERM: (143,), signal.SIGKILL: (-9,)}[signal.Signals(number)]
    )


def _runs(pid: str) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False
