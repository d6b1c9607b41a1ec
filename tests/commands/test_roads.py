"""What stands around the verbs: words for the shell, --watch, files for editors."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from tests.commands.test_verbs import ADD, complains, toprope
from toprope.check.output import compiler_lines
from toprope.kernel import load

ROOT = Path(__file__).parent.parent.parent
EXAMPLES = ROOT / "examples"


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("toprope prof", ["profile"]),
        ("toprope profile --fl", ["--flame"]),
        ("toprope run k.cpp --soc ascend910b4", ["ascend910b4", "ascend910b4_1"]),
        (f"toprope check {ROOT}/toprope/ops/add --case alp", ["alpha", "alpha_whole"]),
        ("toprope check k.cpp --level w", ["warning"]),
    ],
)
def test_the_shell_completes(line: str, expected: list[str], tmp_path: Path) -> None:
    said = tmp_path / "said"
    asked = {"COMP_LINE": line, "COMP_POINT": str(len(line)), "COMP_TYPE": "9", "_ARGCOMPLETE": "1"}
    asked |= {"_ARGCOMPLETE_SHELL": "bash", "_ARGCOMPLETE_STDOUT_FILENAME": str(said)}
    command = [sys.executable, "-c", "from toprope.cli import main; main()"]
    subprocess.run(command, env={**os.environ, **asked}, check=True, timeout=60, stdout=subprocess.DEVNULL)
    assert said.read_text().replace("\v", "\n").split() == expected


def test_completion_prints_what_the_shell_reads() -> None:
    assert "complete" in toprope("completion", "bash").stdout and "toprope" in toprope("completion", "fish").stdout
    complains(toprope("completion", "tclsh"), "bad-input")


def test_watch_runs_again_on_save_and_ends_with_the_last_code(tmp_path: Path) -> None:
    pytest.importorskip("watchfiles")
    kernel = tmp_path / "add.cpp"
    shutil.copy(ADD, kernel)
    shutil.copy(Path(ADD).with_suffix(".toml"), tmp_path / "add.toml")
    command = [sys.executable, "-m", "toprope.cli", "check", str(kernel), "--watch"]
    said = tmp_path / "said"
    with said.open("w") as out:
        process = subprocess.Popen(command, stdout=out, stderr=subprocess.STDOUT, start_new_session=True)
    try:
        _until(said, "waiting for a change", 1)
        assert "add_custom: no findings" in said.read_text()
        # Saved again until it is seen: the watcher may have begun a moment after the line above.
        text = kernel.read_text().replace("inQueueX.EnQue(x);", "")
        for _ in range(60):
            kernel.write_text(text)
            text += "\n"
            time.sleep(1)
            if said.read_text().count("waiting for a change") > 1:
                break
        os.kill(process.pid, signal.SIGINT)
        assert process.wait(30) == 1
    finally:
        process.kill()
    assert "--- add.cpp ---" in said.read_text() and "deque-from-empty-queue" in said.read_text()


def _until(file: Path, text: str, times: int) -> None:
    for _ in range(600):
        if file.read_text().count(text) >= times:
            return
        time.sleep(0.1)
    raise AssertionError(file.read_text())


def test_watch_where_there_is_none() -> None:
    complains(toprope("explore", ADD, "--watch"), "bad-input")
    complains(toprope("check", "--watch"), "bad-input")


@pytest.fixture
def project(tmp_path: Path) -> Path:
    for name in ("11_host_program", "12_single_file"):
        shutil.copytree(EXAMPLES / name, tmp_path / name)
    shutil.copytree(ROOT / "toprope" / "ops" / "add", tmp_path / "add")
    return tmp_path


def test_editor_never_replaces_a_users_file_in_silence(project: Path) -> None:
    (project / ".clangd").write_text("CompileFlags:\n")
    done = toprope("editor", str(project))
    complains(done, "bad-input")
    assert ".clangd" in done.stderr and not (project / "compile_commands.json").exists()
    assert toprope("editor", str(project), "--force").returncode == 0
    assert toprope("editor", str(project)).returncode == 0, "its own files it may write again"
    assert (project / ".vscode" / "tasks.json").read_text().startswith("// made by")
    complains(toprope("editor", str(project / "nowhere")), "bad-input")
    assert "compile_commands.json" in json.loads(toprope("editor", str(project), "--print", "--json").stdout)["files"]


@pytest.mark.skipif(
    shutil.which("clang++") is None and shutil.which("clangd") is None, reason="could not import 'clangd'"
)
@pytest.mark.parametrize(
    "name",
    ["11_host_program/main.cpp", "11_host_program/add_custom.cpp", "12_single_file/scale.asc", "add/op_host/add.cpp", "add/op_kernel/add.cpp"],
)  # fmt: skip
def test_clang_sees_no_false_errors_and_the_true_ones(name: str, project: Path) -> None:
    assert toprope("editor", str(project)).returncode == 0
    rows = json.loads((project / "compile_commands.json").read_text())
    row = next(r for r in rows if r["file"] == str(project / name))
    assert _complaints(project, row) == []
    file = project / name
    file.write_text(file.read_text() + "\nint wrong() { return missing_name; }\n")
    assert any("missing_name" in line for line in _complaints(project, row))


def _complaints(project: Path, row: dict[str, list[str]]) -> list[str]:
    if clang := shutil.which("clang++"):
        command = [clang, "-fsyntax-only", "-w", *row["arguments"][1:]]
    else:
        command = [shutil.which("clangd") or "", f"--check={row['file']}", f"--compile-commands-dir={project}"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=project, timeout=120)
    return [x for x in done.stderr.splitlines() if ("error:" in x or x.startswith("E[")) and "IncludeCleaner" not in x]


def test_findings_as_lines_that_editors_read(tmp_path: Path) -> None:
    kernel = tmp_path / "k.cpp"
    kernel.write_text(Path(ADD).read_text().replace("inQueueX.EnQue(x);", ""))
    shutil.copy(Path(ADD).with_suffix(".toml"), tmp_path / "k.toml")
    done = toprope("check", str(kernel), "--format", "gcc")
    assert done.returncode == 1
    assert done.stdout.splitlines()[0].startswith(f"{kernel}:42:1: error: DeQue from an empty VECIN queue")
    run = load(kernel).add_custom[1](*[np.zeros(4096, np.float16) for _ in "xyz"], 2048)
    lines = compiler_lines(run.findings, run.trace).splitlines()
    assert len(lines) == sum(max(1, len(f.places)) for f in run.findings)
