"""`toprope new`: what it writes passes its own tests; what it refuses leaves nothing behind."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.new.prototypes import FAST, PROTOTYPES
from toprope.cli import main
from toprope.errors import BadInput
from toprope.new.files import project_files, signature, write_project
from toprope.new.prototype import BadPrototype, Prototype, from_json, from_signature, snake

ADD: dict[str, Any] = {
    "op": "AddCustom",
    "input_desc": [
        {"name": "x", "param_type": "required", "format": ["ND", "ND"], "type": ["fp16", "float"]},
        {"name": "y", "param_type": "optional", "format": "ND", "type": ["half", "float32"]},
    ],
    "output_desc": [{"name": "z", "format": ["ND"], "type": ["float16", "fp32"]}],
    "attr": [{"name": "alpha", "param_type": "optional", "type": "float", "default_value": "1.0"}],
}


def changed(**places: Any) -> dict[str, Any]:
    """ADD with places such as input_desc__1__type replaced; None removes."""
    data = json.loads(json.dumps(ADD))
    for place, value in places.items():
        *path, last = place.split("__")
        at = data
        for part in path:
            at = at[int(part) if part.isdigit() else part]
        if value is None:
            del at[last]
        else:
            at[last] = value
    return dict(data)


def read(tmp_path: Path, data: Any) -> Prototype:
    file = tmp_path / "add.json"
    file.write_text(data if isinstance(data, str) else json.dumps(data))
    return from_json(file)


def run_cases(folder: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "toprope.cli", "test", str(folder)], capture_output=True, text=True, cwd=folder.parent
    )


@pytest.mark.parametrize("name", [n if n in FAST else pytest.param(n, marks=pytest.mark.slow) for n in PROTOTYPES])
def test_a_new_project_passes_its_tests(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    prototype = from_signature(PROTOTYPES[name])
    assert main(["new", PROTOTYPES[name], str(tmp_path / prototype.name)]) == 0
    assert "skeleton" in capsys.readouterr().out
    done = run_cases(tmp_path / prototype.name)
    assert done.returncode == 0, done.stdout[-3000:]
    cases = (tmp_path / prototype.name / "cases.toml").read_text().count("[[cases]]")
    assert f"{cases + 1} passed" in done.stdout  # and the pair of scripts


def test_the_prototypes_cover_what_they_should() -> None:
    all_of_them = [from_signature(text) for text in PROTOTYPES.values()]
    assert len(all_of_them) == 12
    assert {len(p.inputs) for p in all_of_them} >= {1, 2, 3, 4, 5}
    assert {t.kind for p in all_of_them for t in p.inputs} == {"required", "optional", "dynamic"}
    assert len({d for p in all_of_them for t in (*p.inputs, *p.outputs) for d in t.dtypes}) >= 6
    assert len({a.type for p in all_of_them for a in p.attributes}) >= 6


@pytest.mark.slow
def test_a_project_from_a_tile_function_passes_its_tests(tmp_path: Path) -> None:
    kernels = Path(__file__).parents[2] / "examples" / "09_tile" / "kernels.py"
    assert main(["new", "--from", f"{kernels}:softmax", str(tmp_path / "softmax")]) == 0
    done = run_cases(tmp_path / "softmax")
    assert done.returncode == 0 and "2 passed" in done.stdout, done.stdout[-3000:]


def test_json_and_signature_give_the_same_prototype(tmp_path: Path) -> None:
    written = from_signature("add_custom(x: f16|f32, y?: f16|f32, alpha: float = 1.0) -> z")
    assert read(tmp_path, ADD) == written
    assert from_signature(signature(written)) == written
    assert read(tmp_path, [ADD]) == written


def test_names() -> None:
    assert [snake(n) for n in ("AbcDef", "AbcAAc", "Abc")] == ["abc_def", "abc_a_ac", "abc"]


def test_a_group_word_means_all_its_types(tmp_path: Path) -> None:
    data = changed(
        input_desc__0__type="IndexNumberType", input_desc__1__type="int32", output_desc__0__type="IndexNumberType"
    )
    found = read(tmp_path, data)
    assert found.inputs[0].dtypes == found.outputs[0].dtypes == ("int32", "int64") and found.combinations == 2
    assert found.inputs[1].dtypes == ("int32", "int32")


def test_layout_is_what_the_vendors_build_expects() -> None:
    files = project_files(from_signature(PROTOTYPES["two_inputs"]))
    assert {
        "CMakeLists.txt", "CMakePresets.json", "build.sh", "op_host/CMakeLists.txt", "op_host/add_custom.cpp", "op_kernel/CMakeLists.txt",
        "op_kernel/add_custom.cpp", "op_kernel/add_custom_tiling.h", "scripts/gen_data.py", "scripts/verify_result.py", "cases.toml",
        "golden.py", "README.md",
    } <= set(files)  # fmt: skip
    assert 'this->AICore().AddConfig("ascend910b");' in files["op_host/add_custom.cpp"]
    assert "GM_ADDR x, GM_ADDR y, GM_ADDR z, GM_ADDR workspace, GM_ADDR tiling" in files["op_kernel/add_custom.cpp"]
    presets = json.loads(files["CMakePresets.json"])["configurePresets"][0]["cacheVariables"]
    assert presets["ASCEND_COMPUTE_UNIT"]["value"] == "ascend910b;ascend910_93"


def test_an_output_named_like_an_input_is_a_reference() -> None:
    kernel = project_files(from_signature("update(var: f32, step: f32) -> var"))["op_kernel/update.cpp"]
    assert "GM_ADDR var, GM_ADDR step, GM_ADDR var_ref," in kernel


BAD = {
    "list lengths": (changed(input_desc__1__type=["fp16", "float", "int32"]), r"add.json: x.type: has 2 .* y.type has 3 .*114", 114),
    "format length": (changed(input_desc__0__format=["ND", "ND", "ND"]), r"format has 3 .*114", 114),
    "unknown type": (changed(input_desc__1__type=["fp16", "float99"]), r"input_desc\[1\].type\[1\]: 'float99' is no element type", 17),
    "type not held": (changed(input_desc__1__type="complex64"), r"input_desc\[1\].type\[0\]: type 'complex64' exists", 0),
    "group in a list": (changed(input_desc__0__type=["numbertype", "fp16"]), r"group 'numbertype' stands in a list", 17),
    "unknown format": (changed(output_desc__0__format="NXYZ"), r"output_desc\[0\].format\[0\]: 'NXYZ'", 17),
    "duplicate input": (changed(input_desc__1__name="x"), r"name 'x': stands there twice", 17),
    "attribute like an input": (changed(attr__0__name="y"), r"name 'y': stands there twice", 17),
    "no C name": (changed(input_desc__0__name="2x"), r"name '2x': is no C identifier", 17),
    "word of C++": (changed(input_desc__0__name="float"), r"name 'float': means something", 17),
    "no operator": (changed(op=None), r"add.json.op: is missing", 16),
    "no type": (changed(input_desc__0__type=None), r"input_desc\[0\].type: is missing", 16),
    "unknown field": (changed(input_desc__0__shape=[1]), r"input_desc\[0\]: unknown fields \['shape'\]", 16),
    "no output": (changed(output_desc=[]), r"output_desc: an operator has an output", 13),
    "param_type": (changed(input_desc__0__param_type="maybe"), r"input_desc\[0\].param_type: 'maybe'", 17),
    "attribute type": (changed(attr__0__type="tensor"), r"attr\[0\].type: 'tensor'", 17),
    "default value": (changed(attr__0__default_value="one"), r"attr\[0\].default_value: 'one' is no float", 17),
    "several": ([ADD, changed(op="Other")], r"holds 2 operators: AddCustom, Other", 13),
    "not JSON": ('{"op": "A",\n "attr": [}', r"add.json:2:11: not JSON", 0),
}  # fmt: skip


@pytest.mark.parametrize("name", BAD)
def test_a_contradictory_prototype_is_refused_with_its_place(name: str, tmp_path: Path) -> None:
    data, message, number = BAD[name]
    with pytest.raises(BadPrototype, match=message) as caught:
        read(tmp_path, data)
    assert caught.value.msopgen == number and caught.value.cure


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("add(x: f16) z", "is none"),
        ("add(x) -> z", "input x: has no type"),
        ("add(x: f16 = 1) -> z", "no default value"),
        ("add(x?: f16) -> z", "no input is always there"),
        ("add(x: f16, n?: int) -> z", "cannot be marked"),
        ("add(x: f16, n: int = 1.5) -> z", "1.5 is no int"),
        ("add(x: f16|f32) -> z: f16|f32|i32", "has 2 entries"),
    ],
)  # fmt: skip
def test_a_signature_that_cannot_be_read_is_refused(text: str, message: str) -> None:
    with pytest.raises(BadPrototype, match=message):
        from_signature(text)


def test_nothing_is_left_behind(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "add.json").write_text(json.dumps(BAD["list lengths"][0]))
    assert main(["new", str(tmp_path / "add.json"), str(tmp_path / "project")]) == 2
    assert "msopgen error 114" in capsys.readouterr().err
    with pytest.raises(BadInput, match="cannot be written"):
        write_project(_Failing(), tmp_path / "project")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["add.json"]


class _Failing(dict[str, str]):
    """Files of which the second cannot be made."""

    def items(self) -> Any:
        yield "fine.txt", "x"
        raise OSError(28, "No space left on device")


def test_a_folder_that_holds_something_is_not_touched(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "mine.txt").write_text("precious")
    assert main(["new", PROTOTYPES["one_input"], str(tmp_path)]) == 2
    assert "msopgen error 12" in capsys.readouterr().err
    assert [p.name for p in tmp_path.iterdir()] == ["mine.txt"]
