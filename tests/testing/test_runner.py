"""toprope test: pytest items, parallel runs, history, resuming, reports, other runners."""

from __future__ import annotations

import json
import multiprocessing
import os
import signal
import subprocess
import sys
import time
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import numpy as np
import pytest

from tests.test_pages import held
from toprope.testing import Argument, Case, Golden
from toprope.testing.cases import Output
from toprope.testing.errors import CaseError
from toprope.testing.execution import ERROR, FAILED, PASSED, SKIPPED, Outcome, Result, execute
from toprope.testing.isolation import isolated
from toprope.testing.pairs import execute_pair
from toprope.testing.readers import scripts
from toprope.testing.report import heat_map, write_html, write_json
from toprope.testing.runner import main
from toprope.testing.runners import FunctionRunner, KernelRunner, evaluate, runner_from
from toprope.testing.store import Store, drops
from toprope.testing.suite import Suite

ROOT = Path(__file__).parents[2]

CASE_FILE = """
[operator]
name = "add"
golden = "numpy.add"
run = "ops.py:add"
[[operator.inputs]]
name = "x"
dtypes = ["float16", "float32", "int32"]
ranks = [1, 2]
[[operator.inputs]]
name = "y"
dtypes = "same:x"
shape = "broadcast:x"
[generate]
count = 30
max_elements = 4096
"""

OPERATORS = """
import os
import time
import numpy as np

def add(x, y):
    return x + y

def off_by_one_at_the_end(x, y):
    result = np.array(x + y)
    if result.size > 40:
        result.reshape(-1)[-1] += 3
    return result

def slow(x, y):
    time.sleep(float(os.environ.get("SLOW_S", "0.1")))
    return x + y
"""


@pytest.fixture
def project(tmp_path):
    (tmp_path / "add.toml").write_text(CASE_FILE)
    (tmp_path / "ops.py").write_text(OPERATORS)
    return tmp_path


def toprope_test(folder, *arguments):
    """Run the verb in a forked child: as separate as a new process, without importing everything again."""
    out, err = folder / "stdout.txt", folder / "stderr.txt"

    def child():
        os.chdir(folder)
        os.environ["PYTHONPATH"] = str(ROOT)
        for name in ("PYTEST_XDIST_WORKER", "PYTEST_CURRENT_TEST"):
            os.environ.pop(name, None)
        for path, stream in ((out, 1), (err, 2)):
            os.dup2(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), stream)
        sys.stdout, sys.stderr = os.fdopen(1, "w", closefd=False), os.fdopen(2, "w", closefd=False)
        try:
            code = main(list(map(str, arguments)))
        except BaseException as error:
            print(error, file=sys.stderr)
            code = 2
        sys.stdout.flush(), sys.stderr.flush()
        os._exit(code)

    process = multiprocessing.get_context("fork").Process(target=child)
    process.start()
    process.join(120)
    return subprocess.CompletedProcess(arguments, process.exitcode, out.read_text(), err.read_text())


def counts(folder):
    return json.loads((folder / "r.json").read_text())["totals"]


def suite_of(cases, golden=np.add, **options):
    reference = Golden(golden)
    return Suite("add", Path(), "python", cases, lambda case, inputs: reference(inputs, case.attrs), **options)


def add_case(name="one", dtype="float16", shape=(3, 5), **options):
    return Case(name, "add", (Argument("x", dtype, shape), Argument("y", dtype, shape)), **options)


# -- one case ---------------------------------------------------------------------------------------------------------


def test_execute_judges_a_function():
    case = add_case()
    good = execute(suite_of([case]), case, FunctionRunner(np.add))
    assert good.status == PASSED and good.metrics["mere"] < 1e-3 and not good.heat and "float16[3, 5]" in good.inputs
    bad = execute(suite_of([case]), case, FunctionRunner(np.subtract))
    assert bad.status == FAILED and len(bad.heat) == 3 and "first" in bad.explanation
    assert execute(suite_of([case]), case, FunctionRunner(np.subtract), standard="torch-npu").standard == "torch-npu"
    assert Result.from_dict(json.loads(json.dumps(bad.as_dict()))) == bad


def test_execute_reports_crashes_and_missing_golden():
    case = add_case()
    crash = execute(suite_of([case]), case, FunctionRunner(lambda x, y: 1 // 0))
    assert crash.status == ERROR and "ZeroDivisionError" in crash.message
    alone = Suite("add", Path(), "python", [case])
    assert execute(alone, case, FunctionRunner(np.add)).status == SKIPPED
    two = execute(suite_of([case]), case, FunctionRunner(lambda x, y: [x, y]))
    assert two.status == FAILED and "2 outputs" in two.message


def test_findings_fail_a_case_even_when_the_numbers_are_right():
    case = add_case()

    def with_hazard(case, inputs):
        total = [inputs[0] + inputs[1]]
        return Outcome(total, predicted_us=12.5, findings=["race-unordered-pipes: ..."], errors=1)

    result = execute(suite_of([case]), case, with_hazard)
    assert result.status == FAILED and result.predicted_us == 12.5 and result.findings


def test_ratio_standard_uses_the_suites_competitor():
    case = add_case(dtype="float32", shape=(100,))
    rival = Golden(np.add, precision="same")
    suite = suite_of([case], competitor=lambda case, inputs: rival(inputs, case.attrs))
    assert execute(suite, case, FunctionRunner(np.add), standard="benchmark-l2").status == PASSED
    rough = FunctionRunner(lambda x, y: (x.astype(np.float16) + y.astype(np.float16)).astype(np.float32))
    assert execute(suite, case, rough, standard="benchmark-l2").status == FAILED


def test_goldens_cannot_change_the_operators_inputs():
    case = add_case()

    def greedy(x, y):
        x[...] = 0
        return np.zeros_like(x)

    suite = Suite("add", Path(), "python", [case], lambda case, inputs: [greedy(*inputs)])
    seen = []
    execute(suite, case, lambda case, inputs: seen.append(inputs[0].copy()) or Outcome([inputs[0] * 0]))
    assert np.array_equal(seen[0], case.arrays()[0])


def test_integer_golden_wraps_like_hardware():
    case = Case("wrap", "add", (Argument("x", "int8", (200,)), Argument("y", "int8", (200,))))
    assert execute(suite_of([case]), case, FunctionRunner(np.add)).status == PASSED


def test_isolation_survives_crashes_and_hangs():
    assert isolated(lambda: np.arange(3).tolist()) == [0, 1, 2]
    with pytest.raises(CaseError, match="died"):
        isolated(os._exit, 3)
    with pytest.raises(CaseError, match="longer than"):
        isolated(time.sleep, 5, timeout_s=0.2)
    with pytest.raises(CaseError, match="ValueError: invalid literal"):
        isolated(int, "no")


def test_sizes_in_kernel_arguments():
    inputs = {"x": np.zeros((4, 6))}
    assert evaluate("x.size // 8 + x.shape[0] * 2 - attr.k", inputs, {"k": 1}) == 10
    for text in ("__import__('os')", "x.sum()", "x.T"):
        with pytest.raises((ValueError, KeyError)):
            evaluate(text, inputs, {})


# -- the store --------------------------------------------------------------------------------------------------------


def result(case, status=PASSED, mere=1e-4, us=10.0):
    return Result("add", case, "general", status, metrics={"mere": mere, "max_ulp": 1}, predicted_us=us)


def test_store_keeps_history_and_finds_drops(tmp_path):
    with Store(tmp_path / "s.sqlite") as store:
        first = store.begin("main", {})
        for name in ("same", "breaks", "blurs", "slows"):
            store.add(first, result(name))
        store.finish(first)
        second = store.begin("branch", {})
        now = [
            result("same"),
            result("breaks", FAILED),
            result("blurs", mere=2e-4),
            result("slows", us=11.0),
            result("new"),
        ]
        for row in now:
            store.add(second, row)
        found = drops(now, store.latest("main"))
        assert [(d.key, d.figure) for d in found] == [
            ("add::breaks", "status"), ("add::blurs", "mean relative error"), ("add::slows", "predicted microseconds"),
        ]  # fmt: skip
        assert store.history("add", "slows") == [("main", PASSED, 1e-4, 10.0), ("branch", PASSED, 1e-4, 11.0)]
        assert store.failed_last() == {"add::breaks"}
        assert store.unfinished("branch", {}) == second and store.unfinished("main", {}) is None
    with Store(tmp_path / "s.sqlite") as again:
        assert [r.case for r in again.results(second)] == sorted(r.case for r in now)


def test_infinite_figures_survive_the_store(tmp_path):
    with Store(tmp_path / "s.sqlite") as store:
        run = store.begin("x", {})
        store.add(run, result("inf", FAILED, mere=float("inf")))
        assert store.results(run)[0].metrics["mere"] == float("inf")


def test_reports(tmp_path):
    bad = execute(suite_of([add_case()]), add_case(), FunctionRunner(np.subtract))
    write_html(tmp_path / "r.html", [bad, result("fine")], (), lambda suite, case: [("a", PASSED, 1e-3, None)] * 2)
    page = (tmp_path / "r.html").read_text()
    held(page)
    assert "<svg" in page and "class='heat'" in page and "add::fine" in page and "<script src" not in page
    assert heat_map([[0.0, float("inf")], [1e-3, 1.0]]).count("<i ") == 4
    write_json(tmp_path / "r.json", [bad])
    assert json.loads((tmp_path / "r.json").read_text())["totals"]["failed"] == 1


# -- the verb ---------------------------------------------------------------------------------------------------------


def test_verb_runs_reports_and_compares(project):
    first = toprope_test(project, "add.toml", "--label", "main", "--json", "r.json")
    assert first.returncode == 0, first.stdout + first.stderr
    assert counts(project) == {"passed": 30, "failed": 0, "error": 0, "skipped": 0}
    second = toprope_test(
        project, "add.toml", "--run", "ops.py:off_by_one_at_the_end", "--against", "main", "--json", "r.json",
        "--junit", "r.xml", "--html", "r.html", "-n", "2",
    )  # fmt: skip
    assert second.returncode == 1 and "cases worse" in second.stdout
    data = json.loads((project / "r.json").read_text())
    failed = [r for r in data["results"] if r["status"] == "failed"]
    assert failed and len(data["drops"]) >= len(failed) and data["totals"]["passed"] + len(failed) == 30
    suite = ElementTree.parse(project / "r.xml").getroot().find("testsuite")
    assert suite.get("tests") == "30" and suite.get("failures") == str(len(failed))
    assert "class='heat'" in (project / "r.html").read_text()
    only = toprope_test(project, "add.toml", "--failed", "--json", "r.json")
    assert only.returncode == 0 and counts(project)["passed"] == len(failed)


def test_verb_selects_by_class_and_refuses_nonsense(project):
    chosen = toprope_test(project, "add.toml", "-k", "boundary and int32", "--json", "r.json")
    assert chosen.returncode == 0 and 0 < counts(project)["passed"] < 10
    missing = toprope_test(project, "nothing.toml")
    assert missing.returncode != 0 and "nothing.toml" in missing.stderr
    assert "known: mixed" in toprope_test(project, "add.toml", "--standard", "strict").stderr


def test_a_folder_without_cases_says_what_was_looked_for(project):
    (project / "add.toml").unlink()
    done = toprope_test(project, ".")
    assert done.returncode == 2 and "no cases: nothing here is a case file" in done.stdout


def test_time_budget_skips_and_resume_finishes(project):
    begun = toprope_test(project, "add.toml", "--run", "ops.py:slow", "--time-budget", "1.5", "--json", "r.json")
    done = counts(project)["passed"]
    assert begun.returncode == 0 and 0 < done < 30 and "skipped" in begun.stdout
    assert "cases left out: the time budget is used up" in begun.stdout
    rest = toprope_test(project, "add.toml", "--run", "ops.py:slow", "--resume", "--json", "r.json")
    assert rest.returncode == 0 and counts(project)["passed"] == 30
    assert f"{done} deselected" in rest.stdout


def test_interrupting_loses_no_finished_result(project):
    # Whoever starts the tests in the background hands down an ignored SIGINT.
    program = "import signal, sys; signal.signal(signal.SIGINT, signal.default_int_handler)\n"
    program += "from toprope.testing.runner import main; sys.exit(main())"
    process = subprocess.Popen(
        [sys.executable, "-c", program, "add.toml", "--run", "ops.py:slow"],
        cwd=project, env={**os.environ, "PYTHONPATH": str(ROOT), "SLOW_S": "1"},  # long after the third is seen
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    deadline, seen = time.monotonic() + 60, 0
    while time.monotonic() < deadline and seen < 3:
        time.sleep(0.1)
        if (project / ".toprope/tests.sqlite").exists():
            with Store(project / ".toprope/tests.sqlite") as store:
                seen = len(store.latest("local"))
    process.send_signal(signal.SIGINT)
    assert process.wait(30) == 130
    with Store(project / ".toprope/tests.sqlite") as store:
        kept = store.latest("local")
    assert len(kept) >= seen >= 3 and all(r.status == PASSED for r in kept.values())
    rest = toprope_test(project, "add.toml", "--run", "ops.py:slow", "--resume", "--json", "r.json")
    assert rest.returncode == 0 and counts(project)["passed"] == 30


def test_verb_runs_script_pairs_with_a_command(tmp_path):
    folder = tmp_path / "double" / "scripts"
    folder.mkdir(parents=True)
    (folder / "gen_data.py").write_text(
        "import numpy as np\nx = np.arange(8, dtype=np.float32)\nx.tofile('input/x.bin')\n(2 * x).tofile('output/golden.bin')\n"
    )
    (folder / "verify_result.py").write_text(
        "import sys, numpy as np\na, b = (np.fromfile(f, np.float32) for f in sys.argv[1:3])\n"
        "sys.exit('[ERROR] result error' if not np.array_equal(a, b) else print('test pass!'))\n"
    )
    program = "import numpy as np; (np.fromfile('input/x.bin', np.float32) * {}).tofile('output/output.bin')"
    for factor, code in ((2, 0), (3, 1)):
        (tmp_path / "program.py").write_text(program.format(factor))
        done = toprope_test(tmp_path, "double", "--run", f"cmd:{sys.executable} {tmp_path}/program.py")
        assert done.returncode == code, done.stdout
    (pair,) = scripts.find(tmp_path)
    assert execute_pair(pair).status == PASSED and execute_pair(pair, "exit 4").status == ERROR


def test_verb_exports(project):
    done = toprope_test(project, "add.toml", "--export", "ttk:cases.csv", "-k", "general")
    assert done.returncode == 0 and "written to cases.csv" in done.stdout
    again = toprope_test(project, "cases.csv", "--run", "ops.py:add", "--json", "r.json")
    assert again.returncode == 0 and counts(project)["skipped"] == 12


def test_standards_are_listed_with_sources(project):
    text = toprope_test(project, "--standards").stdout
    assert "mixed" in text and "source: CANN opbase" in text


def test_runner_names(project):
    suite = Suite("add", project / "add.toml", "toml", [])
    assert isinstance(runner_from("numpy.add", suite), FunctionRunner)
    (project / "k.cpp").write_text("")
    kernel = runner_from("k.cpp:add", suite, soc="ascend310p3", settings={"blocks": 4, "arguments": {"n": "x.size"}})
    assert kernel == KernelRunner(project / "k.cpp", "add", 4, "ascend310p3", {"n": "x.size"})


@pytest.mark.slow
def test_sweep_on_a_local_ray_cluster(project):
    pytest.importorskip("ray")
    done = toprope_test(project, "add.toml", "--on", "ray", "--json", "r.json", "--label", "main")
    assert done.returncode == 0, done.stdout + done.stderr
    assert counts(project)["passed"] == 30
    worse = toprope_test(
        project, "add.toml", "--on", "ray", "--run", "ops.py:off_by_one_at_the_end", "--against", "main"
    )
    assert worse.returncode == 1 and "worse:" in worse.stdout


@pytest.mark.compiler
@pytest.mark.parametrize("ci", ["", "true"])
def test_a_kernel_that_does_not_compile_is_compiled_and_explained_once(project, monkeypatch, ci):
    monkeypatch.setenv("CI", ci)
    text = (ROOT / "examples" / "01_add" / "add_custom.cpp").read_text()
    (project / "bad.cpp").write_text(text.replace("TILE_LENGTH * sizeof", "TILE_LENGHT * sizeof"))
    done = toprope_test(project, "add.toml", "--run", "bad.cpp", "-k", "general", "--json", "r.json")
    assert done.returncode == 1 and counts(project)["error"] > 1
    assert done.stdout.count("was not declared in this scope") == 1
    assert done.stdout.count("does not compile (as for the first case)") >= counts(project)["error"] - 1


def test_determinism_is_one_line_of_the_summary(project):
    done = toprope_test(project, "add.toml", "-k", "general", "--determinism", "--json", "r.json")
    assert done.returncode == 0, done.stdout + done.stderr
    n = counts(project)["passed"]
    assert f"determinism of {n} cases: repeat {n} of {n} identical, block order {n} of {n} identical" in done.stdout
    examined = [r["determinism"] for r in json.loads((project / "r.json").read_text())["results"]]
    assert any(d.get("batch consistency") == "identical" for d in examined)
    assert len(examined) == n and all(d["repeat"] == "identical" for d in examined)


@pytest.mark.compiler
def test_kernel_on_the_software_npu(tmp_path):
    source = ROOT / "examples" / "01_add" / "add_custom.cpp"
    if not source.is_file():
        pytest.skip("the example is not there")
    case = add_case(dtype="float16", shape=(8, 4096))
    runner = KernelRunner(source, "add_custom", 8, arguments={"z": "out", "totalLength": "x.size"})
    done = execute(suite_of([case]), case, runner)
    assert done.status == PASSED, done.message + done.explanation
    assert done.predicted_us is not None and done.predicted_us > 0
    short = KernelRunner(source, "add_custom", 8, arguments={"z": "out", "totalLength": "x.size - 16384"})
    missing = execute(suite_of([case]), case, short)
    assert missing.status == FAILED and missing.metrics["special_mismatches"] > 0
    assert missing.message.startswith("16,384 of 32,768 elements were never written; ")
    unbound = execute(suite_of([case]), case, KernelRunner(source, "add_custom", 8))
    assert unbound.status == ERROR and "totalLength" in unbound.message


TAKES_A_STRUCT = """
#include "kernel_operator.h"
using namespace AscendC;
struct Part {{ uint32_t length; uint32_t scale[2]; }};
struct ScaledTiling {{ uint32_t total; Part part; }};
extern "C" __global__ __aicore__ void scaled(GM_ADDR x, GM_ADDR z, ScaledTiling tiling) {{
    GlobalTensor<float> from, to;
    from.SetGlobalBuffer((__gm__ float*)x, tiling.total);
    to.SetGlobalBuffer((__gm__ float*)z, tiling.total);
    TPipe pipe;
    TQue<TPosition::VECIN, 1> in;
    TQue<TPosition::VECOUT, 1> out;
    pipe.InitBuffer(in, 1, 1024);
    pipe.InitBuffer(out, 1, 1024);
    auto a = in.AllocTensor<float>();
    DataCopy(a, from, tiling.part.length);
    in.EnQue(a);
    a = in.DeQue<float>();
    auto b = out.AllocTensor<float>();
    Muls(b, a, (float)tiling.part.scale[1], tiling.part.length{short});
    out.EnQue(b);
    in.FreeTensor(a);
    b = out.DeQue<float>();
    DataCopy(to, b, tiling.part.length);
    out.FreeTensor(b);
}}
"""


@pytest.mark.compiler
@pytest.mark.parametrize(("short", "status"), [("", PASSED), (" / 2", FAILED)])
def test_a_case_file_fills_structs_and_counts_what_was_not_written(tmp_path, short, status):
    source = tmp_path / "scaled.cpp"
    source.write_text(TAKES_A_STRUCT.format(short=short))
    case = Case("one", "add", (Argument("x", "float32", (64,)),))
    tiling = {"total": "x.size", "part": {"length": "x.shape[0]", "scale": [0, 3]}}
    runner = KernelRunner(source, "scaled", 1, arguments={"z": "out", "tiling": tiling})
    suite = suite_of([case], lambda x: 3 * x)
    done = execute(suite, case, runner)
    assert done.status == status, done.message
    assert ("32 of 64 elements were never written; " in done.message) == (status == FAILED)
    wrong = KernelRunner(source, "scaled", 1, arguments={"z": "out", "tiling": {**tiling, "total": "q.size"}})
    said = execute(suite, case, wrong)
    assert said.status == ERROR and "tiling.total = 'q.size' is no arithmetic over sizes of x" in said.message


def test_outputs_are_completed_from_golden():
    case = add_case(outputs=(Output("float32"),))
    seen = []
    execute(suite_of([case]), case, lambda case, inputs: seen.extend(case.outputs) or Outcome([inputs[0]]))
    assert seen == [Output("float32", (3, 5), "out")]


def test_pytest_without_the_option_collects_nothing(project):
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(project)],
        cwd=project, env={**os.environ, "PYTHONPATH": str(ROOT)}, capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert "no tests ran" in done.stdout
