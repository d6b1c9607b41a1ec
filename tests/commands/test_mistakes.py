"""What beginners get wrong on the tutorial's kernel: each mistake is said, with its cure, in one message; none passes in silence.

The kernels with a mistake are the bundled example with one edit each, all in one file, so that they compile once.
"""

from __future__ import annotations

import json
import pickle
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import toprope as package
from tests.commands.test_verbs import toprope
from toprope.errors import TopropeError

SOURCE = Path(__file__).parent.parent.parent / "examples" / "01_add" / "add_custom.cpp"
INCLUDE = '#include "kernel_operator.h"\n'
LAUNCH = """[add_custom]
blocks = 8
[add_custom.arguments]
x = "half[8, 8192]"
y = "half[8, 8192]"
z = "half[8, 8192] out"
totalLength = 65536
[add_custom.reference]
z = "x + y"
"""
CASES = """[operator]
name = "add"
golden = "numpy.add"
run = "add_custom.cpp:add_custom"
blocks = 8
arguments = { z = "out", totalLength = "x.size" }
[[operator.inputs]]
name = "x"
[[operator.inputs]]
name = "y"
[[cases]]
name = "one"
inputs = [{ name = "x", dtype = "float16", shape = [8, 2048] }, { name = "y", dtype = "float16", shape = [8, 2048] }]
"""
Edit = tuple[str, str]

# name, edits of the kernel, code of the first finding, what it says besides
FOUND: list[tuple[str, list[Edit], str, str]] = [
    ("no_enque_x", [("        inQueueX.EnQue(x);\n", "")], "deque-from-empty-queue", "add the missing EnQue"),
    ("no_enque_z", [("        outQueueZ.EnQue(z);\n", "")], "deque-from-empty-queue", "VECOUT"),
    ("no_deque_x", [("x = inQueueX.DeQue<half>()", "x = inQueueX.AllocTensor<half>()")], "uninitialised-read", "with DeQue"),
    ("no_free_x", [("        inQueueX.FreeTensor(x);\n", "")], "queue-no-free-buffer", "missing FreeTensor"),
    ("free_twice", [("inQueueX.FreeTensor(x);", "inQueueX.FreeTensor(x); inQueueX.FreeTensor(x);")], "tensor-freed-twice", "second"),
    ("other_queue", [("inQueueX.EnQue(x)", "inQueueY.EnQue(x)")], "tensor-of-another-queue", "the queue that allocated"),
    ("no_init_buffer", [("        pipe.InitBuffer(outQueueZ, BUFFER_NUM, TILE_LENGTH * sizeof(half));\n", "")], "queue-without-buffer", "pipe.InitBuffer"),
    ("buffer_of_elements", [("InitBuffer(outQueueZ, BUFFER_NUM, TILE_LENGTH * sizeof(half))", "InitBuffer(outQueueZ, BUFFER_NUM, TILE_LENGTH)")], "buffer-out-of-bounds", "2048 bytes too many"),
    ("too_many_buffers", [("BUFFER_NUM = 2", "BUFFER_NUM = 32")], "buffer-over-capacity", "fewer buffers"),
    ("one_tile_too_many", [("/ TILE_LENGTH;", "/ TILE_LENGTH + 1;")], "gm-out-of-bounds", "count fewer tiles"),
    ("one_tile_too_few", [("/ TILE_LENGTH;", "/ TILE_LENGTH - 1;")], "output-not-written", "ends too early"),
    ("tail_forgotten", [("TILE_LENGTH = 2048", "TILE_LENGTH = 3008")], "output-not-written", "a tile of its own"),
    ("not_whole_blocks", [("TILE_LENGTH = 2048", "TILE_LENGTH = 1000")], "unaligned-length", "DataCopyPad"),
    ("all_cores_the_same", [("blockLength * AscendC::GetBlockIdx()", "0")], "race-cores-write-same", "its own range"),
    ("arguments_swapped", [("op.Init(x, y, z, totalLength)", "op.Init(z, y, x, totalLength)")], "uninitialised-read", "arguments are in the order"),
    ("process_forgotten", [("    op.Process();\n", "")], "output-not-written", "check that the loop"),
    ("count_in_bytes", [("Add(z, x, y, TILE_LENGTH)", "Add(z, x, y, TILE_LENGTH * sizeof(half))")], "buffer-out-of-bounds", "the count smaller"),
    ("vecin_for_output", [("TPosition::VECOUT, BUFFER_NUM> outQueueZ", "TPosition::VECIN, BUFFER_NUM> outQueueZ")], "race-unordered-pipes", "VECOUT"),
    ("divided_by_zero", [("/ AscendC::GetBlockNum()", "/ (totalLength % 8)")], "division-by-zero", "one of them is 0"),
    ("member_unmarked", [("    __aicore__ inline void Compute()", "    inline void Compute()")], "missing-aicore", "Compute"),
    ("kernel_unmarked", [('extern "C" __global__ __aicore__ void', 'extern "C" __global__ void')], "missing-aicore", "is the kernel"),
]  # fmt: skip
# name, edits of the kernel, what the one message says: these do not compile
REFUSED: list[tuple[str, list[Edit], str]] = [
    ("include_misspelt", [("kernel_operator.h", "kernel_operater.h")], "did you mean 'kernel_operator.h'?"),
    ("include_forgotten", [(INCLUDE, "")], 'begin the file with #include "kernel_operator.h"'),
    ("wide_semicolon", [("inQueueX.EnQue(x);", "inQueueX.EnQue(x)；")], "line 37 has the wide character ；"),
    ("brace_forgotten", [("            CopyOut(i);\n        }\n    }", "            CopyOut(i);\n        }\n")], "1 { too many"),
    ("mixed_types", [("z = outQueueZ.AllocTensor<half>()", "z = outQueueZ.AllocTensor<float>()"), ("LocalTensor<half> z = outQueueZ.Alloc", "LocalTensor<float> z = outQueueZ.Alloc")], "toprope api Add"),
    ("misspelt", [("AscendC::DataCopy(x,", "AscendC::DataCpoy(x,")], "did you mean ‘DataCopy’"),
]  # fmt: skip
RUN = ["run", "add_custom.cpp"]
# words after "toprope", edits of the launch file, what the message says
TOLD: list[tuple[list[str], list[Edit], str]] = [
    ([*RUN, "--blocks", "0"], [], "a launch has 1 to"),
    (RUN, [("blocks = 8", "blocks = 0")], "add_custom.toml: 0 blocks"),
    (RUN, [("blocks = 8", "block = 8")], "did you mean 'blocks'?"),
    (RUN, [("[add_custom", "[add")], "write [add_custom] there"),
    (RUN, [('y = "half[8, 8192]"\n', "")], 'y = "half[8, 2048]" below [add_custom.arguments]'),
    (RUN, [("totalLength", "totalLenght")], "did you mean 'totalLength'?"),
    (RUN, [('x = "half', 'x = "haf')], "did you mean 'half'?"),
    (RUN, [('"half[8, 8192] out"', "half[8, 8192] out")], "texts stand in quotes"),
    (RUN, [('z = "x + y"', 'out = "x + y"')], "its arrays are x, y, z"),
    (RUN, [('x = "half[8, 8192]"', 'x = "@x.bin:half[8, 8192]"')], "x.bin holds 1000 bytes, half[8, 8192] needs 131072"),
    (RUN, [('x = "half[8, 8192]"', 'x = "@x.bin"')], "write @x.bin:half[8, 2048]"),
    (RUN, [('x = "half[8, 8192]"', 'x = "@input/x.bin:half[8]"')], "relative to the current folder or to the launch file"),
    (RUN, [("totalLength = 65536", "totalLength = -1")], "does not fit into uint32_t"),
    (RUN, [('x = "half[8, 8192]"', "x = 5")], 'in a launch file write x = "half[8, 2048]"'),
    ([*RUN, "--soc", "ascend910b"], [], "did you mean 'ascend910b1'?"),
    (RUN, [("blocks = 8", 'blocks = 8\nsoc = "910B4"')], "did you mean 'ascend910b4'?"),
    ([*RUN, "--standard", "mixd"], [], "did you mean 'mixed'?"),
    ([*RUN, "-D", "TILE_LENGTH=1024"], [], "add_custom.cpp:5 has a constant of this name"),
    ([*RUN, "-D", "TILE", "=", "1024"], [], "without spaces around ="),
    ([*RUN, "-I", "inc"], [], "there is no such folder"),
    ([*RUN, "x", "=", "half[8,8192]"], [], "without spaces around ="),
    (["run", "add_custm.cpp"], [], "did you mean 'add_custom.cpp'?"),
    (["run", "add_custom"], [], "did you mean 'add_custom.cpp'?"),
    (["run", "add_custom.cpp:add"], [], "it has add_custom"),
    (["run", "add_custom.toml"], [], "name the source: add_custom.cpp"),
    (["run", "."], [], "name one: --case one"),
    (["add_custom.cpp"], [], "toprope run add_custom.cpp"),
    (["chek", "add_custom.cpp"], [], "did you mean 'check'?"),
    (["profile", "add_custom.cpp", "--hmtl", "x.html"], [], "did you mean '--html'?"),
    ([*RUN, "--launch", "other.toml"], [], "there is no launch file other.toml"),
    (["test", "add_custom.toml"], [], "a launch file belongs to its source"),
    (["test", "case.toml"], [], "did you mean 'cases.toml'?"),
]  # fmt: skip
# edits of the case file, what the message says
MISTOLD: list[tuple[list[Edit], str]] = [
    ([("add_custom.cpp:add_custom", "add.cpp")], "beside it are add_custom.cpp"),
    ([("numpy.add", "numpy.subtrac")], "did you mean 'subtract'?"),
    ([("numpy.add", "golden.py:add")], "relative to the case file"),
    ([("golden =", "goldn =")], "did you mean 'golden'?"),
]


def changed(text: str, edits: list[Edit]) -> str:
    for old, new in edits:
        assert old in text, old
        text = text.replace(old, new)
    return text


@pytest.fixture(scope="module")
def findings(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], list[dict[str, Any]]]:
    """The findings of a mistake's kernel, by its name."""
    folder = tmp_path_factory.mktemp("mistakes")
    plain = SOURCE.read_text().replace(INCLUDE, "")
    parts = []
    for name, edits, *_ in FOUND:
        text = changed(plain, edits).replace("add_custom(", f"{name}(")
        parts.append(re.sub(r"\b(KernelAdd|BUFFER_NUM|TILE_LENGTH)\b", rf"\1_{name}", text))
    (folder / "all.cpp").write_text(INCLUDE + "".join(parts))
    (folder / "all.toml").write_text("".join(LAUNCH.replace("add_custom", n) for n, *_ in FOUND))

    def of(name: str) -> list[dict[str, Any]]:
        done = toprope("check", str(folder / "all.cpp") + ":" + name, "--json")
        rows: list[dict[str, Any]] = json.loads(done.stdout)["findings"]
        return rows

    return of


@pytest.mark.parametrize(("name", "code", "says"), [(n, c, s) for n, _, c, s in FOUND], ids=[n for n, *_ in FOUND])
def test_a_kernels_mistake_is_found_first(
    name: str, code: str, says: str, findings: Callable[[str], list[dict[str, Any]]]
) -> None:
    # Marks are read from the text of the whole file, so that they are told of every kernel in it.
    rows = [f for f in findings(name) if (f["code"] == "missing-aicore") == (code == "missing-aicore")]
    assert rows and any(f["code"] == code and says in f["message"] + f["cure"] for f in rows[:3]), rows
    assert code == "missing-aicore" or rows[0]["code"] == code


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "add_custom.cpp").write_text(SOURCE.read_text())
    (tmp_path / "add_custom.toml").write_text(LAUNCH)
    (tmp_path / "cases.toml").write_text(CASES)
    (tmp_path / "x.bin").write_bytes(bytes(1000))
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize(("name", "edits", "says"), REFUSED, ids=[n for n, *_ in REFUSED])
def test_what_does_not_compile_names_the_cure(name: str, edits: list[Edit], says: str, folder: Path) -> None:
    (folder / "add_custom.cpp").write_text(changed(SOURCE.read_text(), edits))
    done = toprope("run", "add_custom.cpp")
    assert done.returncode == 2 and says in done.stderr, done.stderr
    assert "add_custom.toml" not in done.stderr


@pytest.mark.parametrize(("words", "edits", "says"), TOLD, ids=[" ".join([*w, *(n for _, n in e)]) for w, e, _ in TOLD])
def test_what_cannot_be_launched_names_the_cure(words: list[str], edits: list[Edit], says: str, folder: Path) -> None:
    (folder / "add_custom.toml").write_text(changed(LAUNCH, edits))
    done = toprope(*words)
    assert done.returncode == 2 and says in done.stderr, done
    assert "cure:" in done.stderr and "Traceback" not in done.stderr


@pytest.mark.parametrize(("edits", "says"), MISTOLD, ids=[e[0][1] for e, _ in MISTOLD])
def test_a_wrong_case_file_names_the_cure(edits: list[Edit], says: str, folder: Path) -> None:
    (folder / "cases.toml").write_text(changed(CASES, edits))
    done = toprope("test", "cases.toml")
    assert done.returncode in (1, 2) and says in done.stdout + done.stderr, done


def test_a_define_that_changes_nothing_is_said(folder: Path) -> None:
    assert "-D TILE changes nothing" in toprope("check", "add_custom.cpp", "-D", "TILE=1024").stderr


def test_a_reference_that_fails_is_said_where_the_result_stands(folder: Path) -> None:
    (folder / "add_custom.toml").write_text(LAUNCH.replace('"x + y"', '"x + w"'))
    done = toprope("run", "add_custom.cpp")
    assert done.returncode == 2 and "not compared, for want of a reference" in done.stdout and "'w'" in done.stdout


# ---- Python ------------------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def kernels() -> Any:
    return package.load(SOURCE)


@pytest.fixture
def arrays() -> dict[str, Any]:
    x = np.ones((8, 2048), np.float16)
    return {"x": x, "y": x.copy(), "z": np.zeros_like(x), "totalLength": x.size}


def test_arguments_by_name(kernels: Any, arrays: dict[str, Any]) -> None:
    run = kernels.add_custom[8](**arrays)
    assert (arrays["z"] == 2).all() and not run.findings
    kernels.add_custom[8](arrays["x"], arrays["y"], z=arrays["z"], totalLength=0, soc="ascend910b2")


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda k, a: k.add_custom(*a.values()), "add_custom[8](...)"),
        (lambda k, a: k.add_custom[0](*a.values()), "at least 1"),
        (lambda k, a: k.add_custom[8](*list(a.values())[:3]), "its signature is add_custom(GM_ADDR x"),
        (lambda k, a: k.add_custom[8](**{**a, "lenght": 1}), "no argument lenght"),
        (lambda k, a: k.add_custom[8](a["x"], **a), "by position and by name"),
        (lambda k, a: k.add_custom[8](x=a["x"], totalLength=1), "no value for y, z"),
        (lambda k, a: k.add_custom[8]([1.0], a["y"], a["z"], 1), "pass a NumPy array"),
        (lambda k, a: k.add_custom[8](a["x"], a["y"].T, a["z"], 1), "numpy.ascontiguousarray(y)"),
        (lambda k, a: k.add_custom[8](*a.values(), soc="910b"), "did you mean 'ascend910b1'?"),
        (lambda k, a: k["add_custm"], "did you mean 'add_custom'?"),
        (lambda k, a: package.load("add_custm.cpp"), "there is no file"),
    ],
)
def test_a_wrong_call_names_the_cure(call: Callable[..., Any], says: str, kernels: Any, arrays: dict[str, Any]) -> None:
    with pytest.raises(TopropeError) as told:
        call(kernels, arrays)
    assert says in str(told.value)


def test_names_that_are_misspelt(kernels: Any) -> None:
    with pytest.raises(AttributeError, match="did you mean 'add_custom'"):
        _ = kernels.add_custm
    with pytest.raises(AttributeError, match="did you mean 'load'"):
        _ = package.laod  # type: ignore[attr-defined]


def test_what_a_session_shows(kernels: Any, arrays: dict[str, Any]) -> None:
    assert {"load", "load_project", "empty"} <= set(dir(package)) and "load_project" in (package.__doc__ or "")
    assert "add_custom" in dir(kernels)
    for shown in (kernels, kernels.add_custom, kernels.add_custom[8]):
        assert len(repr(shown)) < 250 and "add_custom" in repr(shown)
    run = kernels.add_custom[8](**arrays)
    assert len(repr(run)) < 150 and str(run).endswith("no findings")
    wrong = kernels.add_custom[8](**{**arrays, "x": arrays["x"].astype(np.float64)})
    assert "argument-type-mismatch" in str(wrong) and "argument-type-mismatch" in wrong._repr_html_()
    assert "<table>" in run._repr_html_() and "µs" in run._repr_html_()


def test_what_a_session_shows_of_a_projects_call() -> None:
    op = package.load_project(SOURCE.parent.parent.parent / "toprope" / "ops" / "add")
    x = np.ones((4, 100), np.float16)
    said = repr(op(x, x).call)
    assert "float16[4, 100]" in said and len(said) < 250
    again = pickle.loads(pickle.dumps(op))
    assert (again(x, x, alpha=2.0) == 3).all()


def test_runs_and_kernels_survive_pickling(kernels: Any, arrays: dict[str, Any]) -> None:
    short = kernels.add_custom[8](**{**arrays, "x": arrays["x"].astype(np.float64)})
    run = pickle.loads(pickle.dumps(short))
    assert [str(f) for f in run.findings] == [str(f) for f in short.findings] != []
    assert run.timeline.microseconds == short.timeline.microseconds and (run.outputs["z"] == short.outputs["z"]).all()
    again = pickle.loads(pickle.dumps(kernels))
    assert not again.add_custom[8](**arrays).findings and (arrays["z"] == 2).all()
