"""An operator project, or a case file, under the verbs that launch something: by the name of a case, or with inputs given by hand."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.commands.test_verbs import ADD, complains, toprope

ROOT = Path(__file__).parent.parent.parent
PROJECT = str(ROOT / "toprope" / "ops" / "add")
INPUTS = ("--input", "float16[32,100]", "float16[32,100]")


def test_a_case_is_run_judged_and_timed_by_one_command() -> None:
    data = json.loads(toprope("run", PROJECT, "--case", "alpha", "--json").stdout)
    assert data["passed"] and list(data["verdicts"]) == ["z"] and data["verdicts"]["z"]["metrics"]["size"] == 3300
    profiled = json.loads(toprope("profile", PROJECT, "--case", "alpha", "--json").stdout)
    assert profiled["microseconds"] == data["microseconds"] and profiled["blocks"] == data["blocks"]


def test_the_same_case_as_in_the_test_verb(tmp_path: Path) -> None:
    said = tmp_path / "out.json"
    toprope("test", PROJECT, "-k", "alpha_whole", "--json", str(said), "--store", str(tmp_path / "s.sqlite"))
    tested = next(r for r in json.loads(said.read_text())["results"] if r["case"] == "alpha_whole")
    data = json.loads(toprope("run", PROJECT, "--case", "alpha_whole", "--json").stdout)
    assert tested["status"] == "passed" and data["passed"]
    assert tested["predicted_us"] == pytest.approx(data["microseconds"])


@pytest.mark.parametrize(
    ("verb", "code"), [("check", 0), ("deps", 0), ("bisect-precision", 0), ("profile", 0), ("run", 0)]
)
def test_inputs_by_hand_under_every_verb(verb: str, code: int) -> None:
    done = toprope(verb, PROJECT, *INPUTS, "alpha=2.0", "--json")
    assert done.returncode == code, done.stderr
    assert json.loads(done.stdout)["schema"] == f"toprope.{verb}/1"


def test_inputs_by_hand_are_judged_by_the_golden_of_the_case_file() -> None:
    data = json.loads(toprope("run", PROJECT, *INPUTS, "alpha=0.5", "--json").stdout)
    assert data["passed"] and data["verdicts"]["z"]["metrics"]["size"] == 3200
    wrong = json.loads(toprope("run", PROJECT, *INPUTS, "alpha=0.5", "--reference", "z=x1 + x2", "--json").stdout)
    assert not wrong["passed"]


def test_a_case_file_whose_cases_test_a_kernel(tmp_path: Path) -> None:
    cases = tmp_path / "cases.toml"
    cases.write_text(
        f"""[operator]
name = "add"
golden = "numpy.add"
run = "{ADD}"
blocks = 8
arguments = {{ z = "out", totalLength = "x.size" }}
[[operator.inputs]]
name = "x"
[[operator.inputs]]
name = "y"
[[cases]]
name = "one"
inputs = [{{ name = "x", dtype = "float16", shape = [8, 2048] }}, {{ name = "y", dtype = "float16", shape = [8, 2048] }}]
"""
    )
    data = json.loads(toprope("run", str(cases), "--case", "one", "--json").stdout)
    assert data["passed"] and data["blocks"] == 8
    assert json.loads(toprope("run", str(cases), "--case", "one", "--blocks", "4", "--json").stdout)["blocks"] == 4


def test_the_hosts_blocks_can_be_replaced() -> None:
    data = json.loads(toprope("profile", PROJECT, *INPUTS, "--blocks", "1", "--json").stdout)
    assert data["blocks"] == 1


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        ((PROJECT,), "nothing-to-run", ("63 cases", "alpha_whole", "--case several_tiles", "--input")),
        ((PROJECT, "--case", "alhpa"), "bad-input", ("did you mean 'alpha'?", "alpha_whole")),
        ((PROJECT, "--case", "alpha", *INPUTS), "bad-input", ("give one of them",)),
        ((PROJECT, "--case", "alpha", "-D", "X=1"), "bad-input", ("host code",)),
        ((PROJECT, "--case", "alpha", "beta=1"), "bad-argument", ("no attribute beta", "alpha")),
        ((PROJECT, "--case", "alpha", "--reference", "q=x1"), "bad-input", ("no output", "z")),
        ((PROJECT, "--case", "alpha", "--launch", "x.toml"), "bad-input", ("--case",)),
        ((PROJECT, "--input", "float16[8]"), "input-count", ("needs the input x2",)),
        (
            (PROJECT, "--input", "flaot16[8]", "float16[8]"),
            "bad-argument",
            ("argument x1", "'flaot16', did you mean 'float16'?"),
        ),
        ((PROJECT + ":Sub", *INPUTS), "bad-input", ("no operator Sub", "Add")),
        ((str(ROOT / "examples" / "01_add"),), "nothing-to-run", ("add_custom.cpp",)),
        ((str(ROOT / "docs"),), "nothing-to-run", ("op_kernel",)),
        ((ADD, "--case", "alpha"), "bad-input", ("is a source", "add_custom.toml")),
        ((ADD, "--input", "half[8]"), "bad-input", ("add_custom.toml",)),
    ],
)
def test_what_cannot_be_launched_names_the_cure(words: tuple[str, ...], code: str, said: tuple[str, ...]) -> None:
    done = toprope("profile", *words)
    complains(done, code)
    assert all(text in done.stderr for text in said), done.stderr


@pytest.mark.skipif(shutil.which("gdb") is None, reason="there is no gdb")
def test_debug_stops_in_the_kernel_with_its_variables() -> None:
    command = [sys.executable, "-m", "toprope.cli", "debug", ADD, "--break", "add_custom.cpp:52"]
    done = subprocess.run(
        [*command, "--gdb-command", "print i", "--gdb-command", "backtrace"],
        stdin=subprocess.DEVNULL,  # gdb would read the channel of a test process
        capture_output=True,
        text=True,
        timeout=120,
    )
    if "ptrace" in done.stderr:
        pytest.skip("this machine lets no process look at another")
    assert "$1 = 0" in done.stdout and "KernelAdd::CopyOut" in done.stdout and "add_custom.cpp:52" in done.stdout


def test_debug_without_a_terminal_says_what_to_give() -> None:
    complains(toprope("debug", ADD), "bad-input")
