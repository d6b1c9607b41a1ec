"""The verbs as a user calls them: exit codes, one clear message for bad input, nothing lost when a kernel misbehaves."""

from __future__ import annotations

import json
import multiprocessing
import os
import re
import subprocess
import sys
import tempfile
import traceback
from importlib import import_module
from pathlib import Path

import numpy as np
import pytest

from toprope import cli

import_module("toprope.kernel")  # so that no child has to load it again
ROOT = Path(__file__).parent.parent.parent
ADD = str(ROOT / "examples" / "01_add" / "add_custom.cpp")


def toprope(*words: str, timeout_s: float = 120) -> subprocess.CompletedProcess[str]:
    """The verb in a forked child: as separate as a new process, without importing everything again."""
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        process = multiprocessing.get_context("fork").Process(target=_verb, args=(words, out.fileno(), err.fileno()))
        process.start()
        process.join(timeout_s)
        if process.exitcode is None:
            process.kill()
            raise subprocess.TimeoutExpired(words, timeout_s)
        texts = [os.pread(file.fileno(), os.fstat(file.fileno()).st_size, 0).decode() for file in (out, err)]
    return subprocess.CompletedProcess(words, process.exitcode, *texts)


def _verb(words: tuple[str, ...], out: int, err: int) -> None:
    os.dup2(out, 1), os.dup2(err, 2)
    sys.stdout, sys.stderr = os.fdopen(1, "w", closefd=False), os.fdopen(2, "w", closefd=False)
    sys.argv = ["toprope", *words]
    try:
        code = cli.main(list(words))
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else 0 if end.code is None else 1
    except BaseException:
        traceback.print_exc()
        code = 1
    sys.stdout.flush(), sys.stderr.flush()
    os._exit(code)


def complains(done: subprocess.CompletedProcess[str], code: str, exit_code: int = 2) -> None:
    """One message with its code and cure, the exit code, and no traceback."""
    assert done.returncode == exit_code, done
    assert code in done.stderr and "cure:" in done.stderr
    assert "Traceback" not in done.stderr + done.stdout


def kernel_file(folder: Path, body: str, signature: str = "GM_ADDR x, GM_ADDR z", more: str = "") -> str:
    file = folder / "k.cpp"
    file.write_text(
        f'#include "kernel_operator.h"\nusing namespace AscendC;\n{more}\nextern "C" __global__ __aicore__ void k({signature}) {{\n{body}\n}}\n'
    )
    return str(file)


def test_run_shows_result_findings_time() -> None:
    done = subprocess.run([sys.executable, "-m", "toprope.cli", "run", ADD], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert "agrees with the reference" in done.stdout
    assert any(line.startswith("findings") for line in lines) and any("predicted" in line for line in lines)
    assert "bound by" in done.stdout or "no pipe is full" in done.stdout


def test_json_has_the_same_report() -> None:
    data = json.loads(toprope("run", ADD, "--json").stdout)
    assert data["passed"] and data["findings"] == [] and data["blocks"] == 8
    assert data["microseconds"] > 0 and 0 <= data["assumed_share"] <= 1 and data["busy"]["MTE2"] > 0.3


def test_same_input_same_report() -> None:
    first, second = (json.loads(toprope("run", ADD, "--json").stdout) for _ in range(2))
    first.pop("wall_s"), second.pop("wall_s")
    assert first == second


def test_a_file_alone_lists_entries_and_a_command(tmp_path: Path) -> None:
    done = toprope("run", kernel_file(tmp_path, ""))
    complains(done, "nothing-to-run")
    assert "k(GM_ADDR x, GM_ADDR z)" in done.stderr and "toprope run" in done.stderr and "--blocks" in done.stderr


def test_wrong_result_is_exit_code_1() -> None:
    done = toprope("run", ADD, "--reference", "z=x - y")
    assert done.returncode == 1 and "differs" in done.stdout and "first at" in done.stdout


def test_outputs_can_be_saved_and_files_read_back(tmp_path: Path) -> None:
    x = np.arange(16384, dtype=np.float16)
    np.save(tmp_path / "x.npy", x)
    x.tofile(tmp_path / "y.bin")
    done = toprope(
        "run",
        ADD,
        f"x=@{tmp_path}/x.npy",
        f"y=@{tmp_path}/y.bin:half[16384]",
        "z=half[16384] out",
        "totalLength=16384",
        "--blocks",
        "4",
        "--save",
        str(tmp_path),
    )
    assert done.returncode == 0, done.stderr + done.stdout
    np.testing.assert_array_equal(np.load(tmp_path / "z.npy"), x + x)


@pytest.mark.parametrize(
    "words, code",
    [
        (["run", "no_such_file.cpp"], "bad-kernel"),
        (["run", str(ROOT / "README.md")], "bad-kernel"),
        (["run", ADD, "x=half[8"], "bad-argument"),
        (["run", ADD, "x=quarter[8]"], "bad-argument"),
        (["run", ADD, "q=1"], "bad-argument"),
        (["run", ADD, "x=float[16384]", "--soc", "ascend999"], "bad-chip"),
        (["run", ADD, "x=@missing.npy"], "bad-argument"),
        (["run", ADD, "totalLength=-1"], "bad-argument"),
        (["run", ADD, "x=5"], "bad-argument"),
        (["run", ADD, "--blocks", "0"], "bad-input"),
        (["run", ADD, "nonsense"], "bad-input"),
        (["run", ADD, "--launch", "missing.toml"], "bad-input"),
        (["run", ADD, "--reference", "z=unknown + 1"], "bad-input"),
        (["run", f"{ADD}:other"], "bad-kernel"),
        (["api", "NoSuchFunction"], "bad-input"),
    ],
)
def test_bad_input_gets_one_message(words: list[str], code: str) -> None:
    done = toprope(*words)
    complains(done, code)
    assert done.stderr.count("cure:") == 1


def test_unknown_verb() -> None:
    done = toprope("fly")
    assert done.returncode == 2 and "no verb 'fly'" in done.stderr


def test_compile_errors_show_the_users_lines(tmp_path: Path) -> None:
    done = toprope(
        "run",
        kernel_file(tmp_path, "    LocalTensor<double> a, b, c;\n    Add(a, b, c, 8);\n    undefined_name();"),
        "x=half[8]",
        "z=half[8] out",
    )
    complains(done, "compile-failed")
    assert "k.cpp:6" in done.stderr and "Add: this chip has no Add" in done.stderr
    assert "k.cpp:7" in done.stderr and "undefined_name" in done.stderr
    assert "machine/" not in done.stderr and "api/vector_binary.h" not in done.stderr


def test_a_crash_is_a_finding_with_its_place(tmp_path: Path) -> None:
    body = "    TPipe pipe;\n    TBuf<> b;\n    pipe.InitBuffer(b, 256);\n    auto t = b.Get<float>();\n    t.SetValue(0, 1.f);\n    volatile int* p = nullptr;\n    *p = 1;"
    done = toprope("run", kernel_file(tmp_path, body), "x=half[8]", "z=half[8] out")
    assert done.returncode == 3
    assert "kernel-crash" in done.stdout and "k.cpp:9" in done.stdout and "Traceback" not in done.stderr


def test_an_endless_loop_ends_at_the_time_limit(tmp_path: Path) -> None:
    done = toprope(
        "run",
        kernel_file(tmp_path, "    volatile int i = 0;\n    while (true) i = i + 1;"),
        "x=half[8]",
        "z=half[8] out",
        "--time-limit",
        "1",
    )
    assert done.returncode == 3 and "kernel-time-limit" in done.stdout + done.stderr


def test_an_argument_too_small_is_found(tmp_path: Path) -> None:
    done = toprope(
        "run", ADD, "x=half[8000]", "y=half[16384]", "z=half[16384] out", "totalLength=16384", "--blocks", "4"
    )
    assert (
        done.returncode == 2
    )  # the bundled reference cannot be computed for these shapes: the report comes first, then the complaint
    assert "bad-input" in done.stderr
    assert (
        "gm-out-of-bounds" in done.stdout and "x has 16000 bytes" in done.stdout and "add_custom.cpp:35" in done.stdout
    )


def test_check_and_profile(tmp_path: Path) -> None:
    done = toprope("check", ADD)
    assert done.returncode == 0, done.stdout
    done = toprope(
        "profile", ADD, "--html", str(tmp_path / "o" / "out.html"), "--trace", str(tmp_path / "out.json"), "--time-only"
    )
    assert done.returncode == 0, done.stderr
    page = (tmp_path / "o" / "out.html").read_text()
    assert "add_custom on ascend910b1" in page and "inQueueX.AllocTensor" in page
    # Self-contained: nothing is fetched. (A drawing's xmlns is a name, not an address that is opened.)
    assert not [mark for mark in ('src="http', "src='http", 'href="http', "url(http", "@import") if mark in page]
    trace = json.loads((tmp_path / "out.json").read_text())
    assert list(trace)[:2] == ["displayTimeUnit", "profilingType"]
    boxes = [e for e in trace["traceEvents"] if e["ph"] == "X"]
    assert {e["tid"] for e in boxes} >= {"MTE2", "VECTOR", "MTE3"} and all(e["dur"] >= 0 for e in boxes)
    flows = [e for e in trace["traceEvents"] if e["ph"] in "st"]
    assert len(flows) > 0 and len({e["id"] for e in flows if e["ph"] == "s"}) == len(
        [e for e in flows if e["ph"] == "t"]
    )


def test_help_needs_nothing_heavy() -> None:
    code = "import sys; import toprope.cli; toprope.cli.main(['--help']); assert 'numpy' not in sys.modules"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True).returncode == 0


def test_doctor_and_include() -> None:
    rows = {r["what"]: r for r in json.loads(toprope("doctor", "--json").stdout)["checks"]}
    assert rows["C++ compiler"]["ok"]
    assert (Path(toprope("include").stdout.strip()) / "kernel_operator.h").exists()


def test_every_verb_explains_itself() -> None:
    for verb in cli.VERBS:
        if verb == "include":
            continue
        done = toprope(verb, "--help")
        assert done.returncode == 0 and "usage" in done.stdout.lower(), (verb, done.stderr)


def test_compare_names_what_changed(tmp_path: Path) -> None:
    for name, blocks in (("a", "8"), ("b", "32")):
        done = toprope("profile", ADD, "--json", "--time-only", "--blocks", blocks)
        (tmp_path / f"{name}.json").write_text(done.stdout)
    data = json.loads(toprope("compare", str(tmp_path / "a.json"), str(tmp_path / "b.json"), "--json").stdout)
    assert data["speed_up"] > 1.2 and data["lines"][0]["before_us"] > data["lines"][0]["after_us"]
    assert "advice-more-blocks" in data["gone_findings"]
    complains(toprope("compare", ADD, ADD), "bad-input")


def test_socs_show_numbers_with_sources() -> None:
    assert "ascend910b1" in toprope("socs").stdout
    one = toprope("socs", "ascend910b1").stdout
    assert re.search(r"^memory\.gm_bytes +68,719,476,736 ", one, re.M)
    assert "spaces.ub_bytes" in one and "documented" in one
    both = toprope("socs", "ascend910b1", "ascend310p3").stdout
    assert "196,608" in both and "262,144" in both
