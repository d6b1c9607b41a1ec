"""Operator projects run from their own host code: inference, tiling, the kernel behind the key, and what can be wrong with each."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import toprope
import toprope.project.errors as project_errors
from tests.project import a_choosing_project, an_add_project
from toprope.compat.host_survey import survey_host
from toprope.errors import BadArgument, BadInput
from toprope.project.errors import (
    AttributeMissing,
    HostCrashed,
    InferFailed,
    InputCount,
    KeyNotCompiled,
    MissingHeader,
    MissingHostSource,
    ProjectError,
    TilingFailed,
    TilingMismatch,
)

ROOT = Path(__file__).parent.parent.parent


@pytest.fixture(scope="module")
def add(tmp_path_factory: pytest.TempPathFactory) -> Any:
    return toprope.load_project(an_add_project.build(tmp_path_factory.mktemp("add") / "add_custom"))


@pytest.fixture(scope="module")
def sums(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    yield toprope.load_project(a_choosing_project.build(tmp_path_factory.mktemp("sums") / "sum_list"), "SumList")


def edited(root: Path, file: str, old: str, new: str) -> Path:
    text = (root / file).read_text()
    assert old in text
    (root / file).write_text(text.replace(old, new))
    return root


# ---- what works ------------------------------------------------------------------------------------------------------------------


def test_a_project_runs_as_a_function(add: Any) -> None:
    x = np.random.default_rng(1).random(2048).astype(np.float16)
    z = add(x, x, scale=2.0)
    np.testing.assert_array_equal(z, (x + x) * np.float16(2))
    assert not z.findings and 1 < z.time_us < 100
    assert (z.call.tiling.key, z.call.tiling.block_dim, z.call.tiling.workspace_bytes) == (2, 8, 16 << 20)
    assert z.call.run.soc.name == "ascend910b1"


def test_types_choose_the_defines_of_the_kernel(add: Any) -> None:
    x = np.full(64, 1 + 2**-20, np.float32)
    z = add(x, x)
    assert z.dtype == np.float32 and z.call.tiling.key == 1
    np.testing.assert_array_equal(z, x + x)


def test_an_array_computed_from_an_output_has_no_findings(add: Any) -> None:
    x = np.ones(64, np.float32)
    with pytest.raises(AttributeError, match="belong to the output itself"):
        _ = (add(x, x) + 1).findings


def test_tiling_alone_gives_bytes_and_fields(add: Any) -> None:
    found = add.tiling(shapes=[(4, 16), (4, 16)], dtypes="half", scale=0.5)
    assert found.fields == {"totalLength": 64, "tileNum": 2, "spare": [7, 8, 9], "scale": 0.5}
    assert np.frombuffer(found.data, np.uint32, 2).tolist() == [64, 2]
    assert len(found.data) == 24  # 20 bytes of fields, rounded up to 8


def test_the_chip_is_the_one_asked_for(sums: Any) -> None:
    given: dict[str, Any] = {
        "shapes": [[(8,)], (8,), (1,)],
        "dtypes": ["float32", "float32", "int64"],
        "values": {"rounds": [1]},
    }
    assert sums.tiling(**given, factor=1.0, soc="ascend910b1").fields["pad"] == 196608 // 48
    assert sums.tiling(**given, factor=1.0, soc="ascend910b4").fields["pad"] == 196608 // 40


def test_another_tiling_is_tried_out_without_an_edit(add: Any) -> None:
    x = np.arange(1024, dtype=np.float16)
    chosen = add.tiling(shapes=[x.shape, x.shape], dtypes="half", scale=2.0)
    other = add.changed(chosen, block_dim=4, tileNum=4, spare=[1, 2, 3], scale=0.5)
    assert (other.block_dim, other.key) == (4, chosen.key)
    assert other.fields == {"totalLength": 1024, "tileNum": 4, "spare": [1, 2, 3], "scale": 0.5}
    run = add.run(x, x, scale=2.0, tiling=other)
    np.testing.assert_array_equal(run.outputs["z"], x)
    assert run.tiling is other and run.run.blocks == 4
    with pytest.raises(BadArgument, match=r"no field tiles\b"):
        add.changed(chosen, tiles=3)


def test_a_time_only_run_neither_copies_nor_fills(add: Any) -> None:
    x = np.ones(64, np.float32)
    run = add.run(x, x, options={"time_only": True}).run
    assert run.arguments["x"] is x or np.shares_memory(run.arguments["x"], x)
    assert not np.shares_memory(add.run(x, x).run.arguments["x"], x)


def test_inference_alone(add: Any) -> None:
    (info,) = add.infer_shape(shapes=[(4, 16), (4, 16)], dtypes="float32")
    assert (info.name, info.shape, str(info.dtype)) == ("z", (4, 16), "DT_FLOAT")


def test_a_plain_struct_shared_by_both_sides(tmp_path: Path) -> None:
    op = toprope.load_project(an_add_project.build(tmp_path / "plain", plain=True))
    x = np.arange(64, dtype=np.float32)
    z = op(x, x, scale=3.0)
    np.testing.assert_array_equal(z, x * 6)
    assert z.call.tiling.struct == "AddCustomTilingData" and len(z.call.tiling.data) == 20
    assert z.call.tiling.fields["spare"] == [7, 8, 9]


def test_dynamic_and_optional_inputs_and_template_keys(sums: Any) -> None:
    xs = [np.arange(64, dtype=np.float32) + i for i in range(3)]
    rounds = np.array([5], np.int64)
    y = sums(xs, None, rounds, factor=2.0)
    np.testing.assert_array_equal(y, sum(xs))
    assert y.call.tiling.fields["members"] == 3 and y.call.tiling.fields["rounds"] == 5
    assert [f for f in y.findings if f.severity == "error"] == []
    y = sums(xs, xs[0], rounds, factor=2.0, mode="scaled", negate=True)
    np.testing.assert_array_equal(y, -2 * (sum(xs) + xs[0]))
    assert y.call.tiling.key == 0 | 1 << 8 | 1 << 16  # float; the second of the listed modes; true
    whole = [x.astype(np.int32) for x in xs]
    np.testing.assert_array_equal(sums(whole, None, rounds, factor=0.0), sum(whole))


def test_a_folder_of_several_operators(sums: Any, tmp_path: Path) -> None:
    root = a_choosing_project.build(tmp_path / "two")
    with pytest.raises(BadInput, match="2 operators"):
        toprope.load_project(root)
    with pytest.raises(BadInput, match="no operator Third"):
        toprope.load_project(root, "Third")
    named = a_choosing_project.build(tmp_path / "sum_list")
    assert toprope.load_project(named).name == "SumList"  # the one that the folder is named after
    other = toprope.load_project(root, "Other")
    assert repr(other) == "Other(x) -> y"
    assert [i.shape for i in other.infer_shape(shapes=[(3, 5)], dtypes="float32")] == [(3, 5)]
    assert repr(sums).startswith("SumList(xs[], bias?, rounds, factor=..., negate=False, shape=[4, 5, 6]")


# ---- what does not ---------------------------------------------------------------------------------------------------------------


def test_tiling_that_fails_says_what_it_logged(add: Any) -> None:
    with pytest.raises(TilingFailed, match=r"65 elements are no multiple of 16 \(add_custom.cpp:12\)"):
        add.tiling(shapes=[(65,), (65,)])


def test_values_that_host_code_may_not_see_stay_hidden(sums: Any) -> None:
    with pytest.raises(TilingFailed, match="rounds is unknown"):
        sums.tiling(shapes=[[(8,)], None, (1,)], dtypes=["float32", "float32", "int64"], factor=1.0)


@pytest.mark.parametrize(
    ("mode", "words"), [("crash", "null or wild pointer"), ("divide", "divided an integer by zero")]
)
def test_host_code_that_crashes_ends_the_call_only(sums: Any, mode: str, words: str) -> None:
    with pytest.raises(HostCrashed, match=words):
        sums([np.ones(8, np.float32)], None, np.array([1], np.int64), factor=1.0, mode=mode)


def test_inputs_and_attributes_are_counted(add: Any, sums: Any) -> None:
    x = np.ones(64, np.float32)
    with pytest.raises(InputCount, match="needs the input y"):
        add(x)
    with pytest.raises(InputCount, match="takes 2 inputs"):
        add(x, x, x)
    with pytest.raises(AttributeMissing, match="requires the attribute factor"):
        sums([x], None, np.array([1], np.int64))
    with pytest.raises(BadArgument, match="no attribute weight"):
        add(x, x, weight=1)
    with pytest.raises(BadArgument, match="list_int and got 'no'"):
        sums([x], None, np.array([1], np.int64), factor=1.0, shape="no")


def test_types_and_chips_that_are_not_declared(add: Any) -> None:
    x = np.ones(64, np.int8)
    with pytest.raises(BadArgument, match="does not take x DT_INT8") as found:
        add(x, x)
    assert "x DT_FLOAT16, y DT_FLOAT16" in found.value.cure
    with pytest.raises(BadArgument, match="not built for ascend310p3"):
        add(x, x, soc="ascend310p3")


def test_a_key_without_a_branch(tmp_path: Path) -> None:
    root = edited(
        an_add_project.build(tmp_path / "key"), "op_kernel/add_custom.cpp", "TILING_KEY_IS(2)", "TILING_KEY_IS(20)"
    )
    x = np.ones(2048, np.float32)
    with pytest.raises(KeyNotCompiled, match=r"chose key 2; add_custom\.cpp has branches for 1, 20"):
        toprope.load_project(root)(x, x)


def test_a_template_key_outside_the_selections(sums: Any) -> None:
    x = np.ones(8, np.int32)
    with pytest.raises(KeyNotCompiled, match="kType = C_DT_INT32, kMode = MODE_SCALED, kNegate = 0"):
        sums([x], None, np.array([1], np.int64), factor=1.0, mode="unknown")


def test_host_and_kernel_that_disagree_on_the_struct(tmp_path: Path) -> None:
    root = an_add_project.build(tmp_path / "sizes", plain=True)
    own = an_add_project.PLAIN_TILING.replace("uint32_t tileNum;", "uint32_t tileNum; uint64_t more[2];")
    (root / "op_kernel" / "kernel_side.h").write_text(own)
    edited(root, "op_kernel/add_custom.cpp", '"add_custom_tiling.h"', '"kernel_side.h"')
    x = np.ones(64, np.float32)
    with pytest.raises(
        TilingMismatch,
        match=r"host writes 20 bytes .*kernel reads 40 .*kernel_side\.h:4.*first difference: host uint16_t spare\[3\] at byte 8",
    ):
        toprope.load_project(root)(x, x)


def test_sources_and_headers_that_are_missing(tmp_path: Path) -> None:
    root = edited(
        an_add_project.build(tmp_path / "a"), "op_host/add_custom.cpp", '"log/log.h"', '"made_by_the_build.h"'
    )
    with pytest.raises(MissingHeader, match=r"add_custom\.cpp includes made_by_the_build\.h"):
        toprope.load_project(root)
    root = an_add_project.build(tmp_path / "b")
    edited(root, "op_host/add_custom.cpp", "namespace optiling {", "namespace optiling {\nuint32_t Parts(uint32_t);")
    edited(root, "op_host/add_custom.cpp", "total >= 1024 ? 8 : 1", "Parts(total)")
    with pytest.raises(MissingHostSource, match="optiling::Parts"):
        toprope.load_project(root)
    root = an_add_project.build(tmp_path / "c")
    (root / "op_host" / "add_custom.cpp").unlink()
    with pytest.raises(MissingHostSource, match="no host source"):
        toprope.load_project(root)
    with pytest.raises(BadInput, match="no folder op_kernel"):
        toprope.load_project(tmp_path)


def test_inference_that_is_missing_or_fails(tmp_path: Path, sums: Any) -> None:
    root = edited(
        an_add_project.build(tmp_path / "d"),
        "op_host/add_custom.cpp",
        "this->SetInferShape(ge::InferShape).SetInferDataType(ge::InferDataType);",
        "",
    )
    op, x = toprope.load_project(root), np.ones(64, np.float32)
    with pytest.raises(InferFailed, match="shape of output z of AddCustom is not known"):
        op(x, x)
    z = np.empty(64, np.float32)
    assert op(x, x, out=[z]).tolist() == [2.0] * 64 and z[0] == 2
    with pytest.raises(InferFailed, match="first is nullptr"):
        sums.infer_shape(shapes=[None, None, (1,)], dtypes=["float32", "float32", "int64"], factor=1.0)


def test_every_project_error_has_a_page() -> None:
    tree = ast.parse(Path(project_errors.__file__).read_text())
    names = [n.name for n in tree.body if isinstance(n, ast.ClassDef)]
    codes = [getattr(project_errors, n).code for n in names if n != ProjectError.__name__]
    pages = {code: ROOT / "docs" / "errors" / f"{code}.md" for code in codes}
    assert [c for c, p in pages.items() if not p.is_file()] == []
    assert all("## Example" in p.read_text() and "## Cure" in p.read_text() for p in pages.values())


@pytest.mark.slow
def test_functions_that_a_family_of_operators_shares(tmp_path: Path) -> None:
    (tmp_path / "common").mkdir()
    (tmp_path / "build.sh").touch()
    root = an_add_project.build(tmp_path / "math" / "add_custom")
    call = "this->SetInferShape(ge::InferShape).SetInferDataType(ge::InferDataType);"
    edited(root, "op_host/add_custom.cpp", call, "")
    family = tmp_path / "math" / "add_family" / "op_host"
    family.mkdir(parents=True)
    (family / "add_family_infershape.cpp").write_text(
        '#include "register/op_impl_registry.h"\n#include "op_common/op_host/infershape_elewise_util.h"\n'
        "IMPL_OP_INFERSHAPE(AddCustom).InferShape(Ops::Base::InferShape4Elewise).InferOutDataTypeSameWithFirstInput();\n"
    )
    x = np.ones(64, np.float32)
    assert toprope.load_project(root)(x, x).tolist() == [2.0] * 64


@pytest.mark.slow
def test_a_survey_counts_what_compiles_and_tiles(tmp_path: Path) -> None:
    an_add_project.build(tmp_path / "math" / "add_custom")
    broken = an_add_project.build(tmp_path / "math" / "broken_add", plain=True)
    edited(broken, "op_host/add_custom.cpp", "{total, 2,", "{no_such, 2,")
    rows = {r.operator: r for r in survey_host(tmp_path, "ascend910b1")}
    assert rows["math/add_custom"].compiled and rows["math/add_custom"].tiled
    assert not rows["math/broken_add"].compiled and "no_such" in rows["math/broken_add"].problem
